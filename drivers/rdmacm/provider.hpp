// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The provider for real NICs: librdmacm's ids and events below, the Manager above. The queue pair is never passed to
// librdmacm (rdma_cm_id's qp stays null). Its states are changed here, with the attributes from rdma_init_qp_attr, so that
// a retried set-up keeps the queue pair and its posted receives.
//
// Phase      | input                            | next       | what happens
// -----------|----------------------------------|------------|---------------------------------------------------------
// noted      | the driver's turn                | addr       | rdma_resolve_addr, in its turn (cm/resolver.hpp)
// addr       | ADDR_RESOLVED                    | route      | the device is known: queue pair; rdma_resolve_route
// route      | ROUTE_RESOLVED                   | connecting | rdma_connect
//            | the same, for Manager::resolve() | resolved   | Resolved
// resolved   | connect()                        | noted      | queued for the driver's turn: rdma_connect
//            | UNREACHABLE: the neighbour moved | resolved   | connect() will search again
// addr..     | errors, UNREACHABLE, time-out    | waiting    | Retrying, if cm/retries.hpp knows an address
// connecting |                                  | over       | ConnectFailed
// waiting    | the wait is over                 | addr       | a new rdma_cm_id
// connecting | CONNECT_RESPONSE (InfiniBand CM) | open       | RTR, RTS, RTU; Established
// connecting | ESTABLISHED (iWARP)              | open       | Established
// connecting | REJECTED                         | over       | Rejected; ConnectFailed if there is no listener
// (listener) | CONNECT_REQUEST                  | deciding   | ConnectRequest
// deciding   | accept()                         | decided    | queued for the driver's turn
// decided    | the driver's turn                | accepting  | RTR, RTS, rdma_accept
// accepting  | ESTABLISHED                      | open       | Established
// accepting  | REJECTED, UNREACHABLE, time-out  | over       | ConnectFailed
// deciding.. | reject()                         | over       | rdma_reject; no event
// open       | disconnect()                     | closing    | posted requests complete first, or linger ends
// open       | DISCONNECTED                     | over       | rdma_disconnect; Disconnected
// open       | keepalive expired, and idle      | open       | a probe (Qp::probe)
//            | the probe was not answered       | over       | rdma_disconnect; Disconnected
// open       | a request failed                 | breaking   | waits a moment for DISCONNECTED, which is more specific
// closing    | DISCONNECTED                     | over       | Disconnected
// over       | TIMEWAIT_EXIT (InfiniBand CM)    | over       | TimewaitExit, after Disconnected
// waiting..  | ConnectOptions::timeout          | over       | ConnectFailed; not after connecting
// any        | DEVICE_REMOVAL                   | over       | ConnectFailed or Disconnected
//
// UD, where there is no connection (SIDR, IBA §12.11):
// connecting | ESTABLISHED                      | open       | RTR, RTS; Established
// connecting | UNREACHABLE with a SIDR status   | over       | Rejected if the peer's program refused; else as REJECTED
// decided    | the driver's turn                | open       | RTR, RTS, rdma_accept; Established
// closing    | posted requests are complete     | over       | Disconnected; the peer is not notified
#pragma once
#include <rdma/rdma_cma.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "base/after.hpp"
#include "base/deadline_queue.hpp"
#include "base/trace.hpp"
#include "cm/core.hpp"
#include "cm/failure_text.hpp"
#include "cm/ib_terms.hpp"
#include "cm/provider.hpp"
#include "cm/trace_events.hpp"
#include "drivers/clock.hpp"
#include "drivers/verbs/qp.hpp"
#include "parley/rdma_host.hpp"

namespace parley::rdmacm {

using cm::EndpointId;
using verbs::NicDevice;

enum class Phase : std::uint8_t {
  resolved,
  noted,
  waiting,
  addr,
  route,
  connecting,
  deciding,
  decided,
  accepting,
  open,
  breaking,
  closing,
  over
};

/// The destination of datagrams, from SIDR.
struct Service {
  AhAttr ah;
  std::uint32_t qp_num = 0, qkey = 0;
};

struct Connection {
  EndpointId id = 0;
  QpType type = QpType::rc;
  Phase phase = Phase::noted;
  bool initiator = true;
  bool search = false;        // from Manager::resolve(): ends with Resolved
  bool accept = false;        // the decision
  bool disconnected = false;  // rdma_disconnect was called
  bool told_disconnected = false, told_exit = false;
  bool peer_left = false;  // DISCONNECTED was received
  bool notified = false;   // rdma_notify replaced the peer's RTU
  rdma_cm_id* cm = nullptr;
  NicDevice* device = nullptr;
  Address local{}, peer{};
  std::optional<Address> asked_local{};
  cm::Depths depths{};   // requested, later effective
  cm::Depths offered{};  // responder: the peer's offer
  bool forced = false;   // linger expired
  std::uint8_t retry_count = 7, rnr_retry_count = 7;
  Bytes private_data;  // for the Request, or for the decision
  Duration resolve_timeout{}, reply_timeout{};
  Instant start{};
  cm::Steps steps;
  cm::NicSteps nic;  // initiator
  WcStatus broken = WcStatus::success;
  Duration keepalive{}, dead_after{};  // 0: never
  std::uint64_t heard = 0;             // highest value of Qp::heard() so far
  Instant heard_at{}, probed_at{};
  Duration silent{};                 // breaking: the time without an answer
  std::uint64_t left = 0;            // requests that were unconfirmed when the connection was hung up
  std::optional<Service> service{};  // UD, once open
  cm::OwnQueues own;                 // declared before the queue pair, which uses it
  std::unique_ptr<verbs::Qp> qp;
  std::unique_ptr<trace::Scope> trace;  // null: no trace
  bool begun = false;                   // it has left Phase::noted once, as reported to the trace
  /// UD: no connection, only a service and its requester.
  bool datagrams() const { return type == QpType::ud; }
  /// Requests are acknowledged, and Reads answered.
  bool reliable() const { return type != QpType::uc && type != QpType::ud; }
  /// The program has received Established, and no end.
  bool live() const { return phase == Phase::open || phase == Phase::breaking || phase == Phase::closing; }
};

struct Listener {
  EndpointId id = 0;
  rdma_cm_id* cm = nullptr;
  Address address{};
  int backlog = 0;
  cm::Depths depths{};
  Duration keepalive{}, dead_after{};
  ib::Options options;
};

/// At most one of the two is set.
struct Slot {
  std::unique_ptr<Connection> connection;
  std::unique_ptr<Listener> listener;
};

/// An event of librdmacm that is already acknowledged.
struct CmEvent {
  rdma_cm_event_type type{};
  int status = 0;
  rdma_cm_id* cm = nullptr;
  EndpointId id = 0;  // the listener's, for a request
  cm::Depths depths{};
  std::optional<Service> service{};  // for an id of UD
  Bytes private_data;
};

class Rdmacm final : public cm::Provider {
 public:
  /// Errors: unreachable, not_permitted, no_space.
  static Result<std::unique_ptr<Rdmacm>> open(const RdmaHostOptions& options);
  ~Rdmacm() override;

  // Provider
  void start(cm::Core& core) override { core_ = &core; }
  std::span<Device* const> devices() override { return shown_; }
  Device* device(EndpointId endpoint) const override;
  Result<cm::Limits> limits(const cm::TransportOptions& options, cm::Depths depths) const override;
  Result<cm::Limits> limits(EndpointId endpoint) const override;
  Result<cm::Route> resolve(const Address& peer, const std::optional<Address>& local) override;
  Result<void> begin_resolve(EndpointId endpoint, const Address& peer, const cm::ResolveOptions& options) override;
  bool is_resolved(EndpointId endpoint) const override;
  Result<void> listen(EndpointId endpoint, const Address& local, const cm::ListenOptions& options) override;
  Result<void> connect(EndpointId endpoint, const Address& peer, const cm::ConnectOptions& options) override;
  Result<QueuePair*> create_qp(EndpointId endpoint, const QpInit& init) override;
  QueuePair* qp(EndpointId endpoint) override;
  Result<Address> local_address(EndpointId endpoint) const override;
  Result<Address> peer_address(EndpointId endpoint) const override;
  Result<void> accept(EndpointId endpoint, const cm::AcceptOptions& options) override;
  Result<void> reject(EndpointId endpoint, ConstBytes private_data) override;
  Result<void> disconnect(EndpointId endpoint) override;
  void destroy(EndpointId endpoint) noexcept override;
  Result<std::unique_ptr<cm::DetachedRequestBody>> detach(EndpointId endpoint) override;
  Result<void> adopt(EndpointId endpoint, std::unique_ptr<cm::DetachedRequestBody>& body,
                     const cm::ConnectRequest& request) override;
  bool has_events() const override;

  // The driver's side
  /// The device file of that name in /dev/infiniband was deleted.
  void handle_node_removed(std::string_view node);
  int channel_fd() const { return channel_->fd; }
  /// Commands, events of the system and deadlines. True if there was any work.
  bool turn(Instant now);
  /// As NicDevice::arm, for all devices.
  bool arm();
  /// Commands wait for a turn, or a queue must be armed before a wait.
  bool has_work() const;
  Instant next_deadline() const { return std::min(deadlines_.next(), core_->retries.next_deadline()); }
  /// Devices added since the last call: their descriptors must be watched.
  std::vector<NicDevice*> take_new_devices() { return std::exchange(new_devices_, {}); }
  /// Devices that are gone and not released yet; the same ones in each call.
  std::vector<NicDevice*> gone_devices() const;

 private:
  explicit Rdmacm(const RdmaHostOptions& options) : options_(options) {}

  // provider.cpp: endpoints and commands
  Slot& slot_for(EndpointId id);
  Connection* find(EndpointId endpoint) const;
  Listener* find_listener(EndpointId endpoint) const;
  void forget(Slot& slot);
  void free_slot(EndpointId endpoint);
  Result<NicDevice*> device_for(ibv_context* context);
  Result<void> make_qp(Connection& c, NicDevice& device, const QpInit* init);
  void drop_qp(Connection& c);
  void set_deadline(Connection& c, Instant at);
  void enter(Connection& c, Phase phase);
  cm::Id id_of(const Connection& c) const { return core_->id(c.id); }

  // setup.cpp: from nothing to Established or to a failure
  void carry_out(EndpointId id, Instant now);
  void start_listening(Listener& l);
  void start_attempt(Connection& c, Instant now);
  bool report_known(Connection& c, Instant now);
  void begin_search(Connection& c, Instant now);
  void on_route(Connection& c, Instant now);
  void request(Connection& c, Instant now);
  bool accept(Connection& c, Instant now, Result<void> ready);
  void decide(Connection& c, Instant now);
  void on_address(Connection& c, Instant now);
  void on_response(Connection& c, Instant now, CmEvent& event);
  void on_request(Listener& l, Instant now, CmEvent& event);
  void on_rejected(Connection& c, Instant now, CmEvent& event);
  void established(Connection& c, Instant now, Bytes private_data);
  Result<void> advance(Connection& c, ibv_qp_state state);
  Result<void> to_rts(Connection& c);
  void fail_setup(Connection& c, Instant now, cm::Failure why);
  void report_failed(Connection& c, Instant now, cm::Failure why);
  bool try_again(Connection& c, Instant now, cm::Failure& why);
  void give_way(EndpointId who, Instant now);
  cm::TransportParameters parameters_of(const Connection& c) const;
  std::optional<GidInfo> source_gid(const Connection& c) const;
  cm::FoundPath way_of(const Connection& c) const;
  void report_resolved(Connection& c, cm::FoundPath way);
  void start_waiting(Instant now);

  // services.cpp: types of queue pairs other than RC
  bool create_id(rdma_cm_id*& id, EndpointId owner, QpType type, const Address& local);
  Result<void> ready_for_datagrams(Connection& c);
  void grant(Connection& c, Instant now);
  void on_granted(Connection& c, Instant now, CmEvent& event);
  void on_refused(Connection& c, Instant now, CmEvent& event);
  void peer_gave_up(Connection& c, Instant now);

  // events.cpp: the system's events, and how connections end
  bool poll_channel();
  void handle(CmEvent& event, Instant now);
  void handle_end(Connection& c, Instant now, CmEvent& event);
  void on_broken(NicDevice& device, Instant now);
  void on_deadline(Connection& c, Instant now);
  void out_of_time(Connection& c, Instant now);
  void check_closing(Connection& c, Instant now);
  void hang_up(Connection& c);
  void broke(Connection& c);
  void drop_cm(Connection& c);
  void on_disconnected(Connection& c, const CmEvent& event);
  void ended_by_itself(Connection& c, bool asked);
  void disconnected(Connection& c, cm::Failure why, bool graceful);
  void removed(Connection& c, Instant now);
  void remove_device(const NicDevice& device, Instant now);
  void release_removed();
  void end(Connection& c);

  // liveness.cpp: whether an idle peer is still there
  void begin_watch(Connection& c, Instant now);
  void watch(Connection& c, Instant now);
  void silent_end(Connection& c, bool answered);

  // rdmacm_trace.cpp: the trace
  void begin_trace(Connection& c);
  trace::Scope trace_of(const Listener& l, const Address& peer);
  void trace_phase(Connection& c, Phase to);
  void trace_destroyed(Connection& c) noexcept;
  void trace_moved(Connection& c);
  void trace_expired(const Connection& c);
  void trace_way(const Connection& c);
  void trace_refused(const Listener& l, rdma_cm_id& request, cm::ReachedLimit scarce, const Address& peer);
  void trace_kernel_event(Connection& c, const CmEvent& event);
  void trace_kernel_messages(const Connection& c, cm::RdmaCmStep told);
  void trace_event(const Connection& c, const cm::Event& event);
  /// A successful call.
  void called(const Connection& c, std::string_view call, int status = 0) {
    if (c.trace) [[unlikely]]
      trace_kernel_messages(c, {.by = call, .status = status});
  }
  template <class E>
  void record(const Connection& c, const E& event) {
    if (!c.trace) [[likely]]
      return;
    now_ = clock_now();
    c.trace->record(event);
  }
  template <class E>
  void push_event(const Connection& c, E&& event) {
    if (c.trace) [[unlikely]]
      trace_event(c, cm::Event(event));
    core_->push(std::forward<E>(event));
  }
  void push_event(const Listener& l, cm::Event event);

  RdmaHostOptions options_;
  rdma_event_channel* channel_ = nullptr;
  ibv_context** held_ = nullptr;                     // keeps librdmacm from closing the devices: NicDevice releases
                                                     // them
  std::vector<std::unique_ptr<NicDevice>> devices_;  // declared before slots_: queue pairs are destroyed first
  std::vector<Device*> shown_;
  std::vector<NicDevice*> new_devices_;
  cm::Core* core_ = nullptr;
  std::vector<Slot> slots_;  // by EndpointTable::slot
  std::map<std::pair<const NicDevice*, std::uint32_t>, EndpointId> by_qp_;
  std::vector<EndpointId> closing_;  // connections that wait for their requests to complete
  DeadlineQueue deadlines_;
  Instant now_{};  // for the trace
  std::uint64_t connections_traced_ = 0;
};

/// The Liveness of `options` for `to`, a Connection or a Listener.
template <class To, class Options>
void set_liveness(To& to, const Options& options) {
  to.keepalive = options.keepalive.value_or(Duration{});
  to.dead_after = options.dead_after.value_or(Duration{});
}

/// The parameters for rdma_connect and rdma_accept.
rdma_conn_param param_of(const Connection& c);

/// An id from create_id() is then already bound.
inline bool is_bound(QpType type) { return type != QpType::rc && type != QpType::ud; }

/// The GIDs of a port, each with its rank (devices.cpp).
std::vector<GidInfo> gids_of(ibv_context* context, std::uint32_t port, bool iwarp);

/// After a request failed, a disconnect with the reason may still arrive.
inline constexpr Duration settle_time = std::chrono::milliseconds(200);

/// IBA 1.x §12.6.7.2: the reason of a REJ by the peer's program.
inline constexpr int consumer_reject = static_cast<int>(wire::ib::CmReject::consumer);

/// `status` is an event's: a negative errno.
cm::Failure event_failure(const cm::Step& step, int status, const Address& peer, std::string advice);
cm::Failure call_failure(const cm::Step& step, const Error& error, const Address& peer);

}  // namespace parley::rdmacm
