// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Implementation of the RoCE provider: one Connection per endpoint, driven by the connection manager's agent and the queue pairs'
// device from below, and by commands from above. IBA vol. 1 §12, Annexes A11 and A17.
//
// Phase      | input                          | next       | what happens
// -----------|--------------------------------|------------|-----------------------------------------------------------
// noted      | the driver's turn              | binding    | request an address of this host towards the peer
// binding    | bound                          | requesting | REQ
// binding..  | refused, REJ, time-out, ICMP   | waiting    | Retrying, if cm/retries.hpp has an address
// requesting |                                | over       | ConnectFailed
// waiting    | the wait is over               | binding    | a new REQ
// requesting | REP                            | open       | RTR, RTS, RTU; Established
// requesting | REJ that names a path MTU      | requesting | a new REQ with that MTU; once
// requesting | REJ by the peer's program      | over       | Rejected
// (listener) | REQ                            | deciding   | ConnectRequest
// deciding   | accept()                       | decided    | queued for the driver's turn
// decided    | the driver's turn              | accepting  | RTR, REP
// accepting  | RTU, or the first packet       | open       | RTS; Established
// accepting  | REJ, time-out                  | over       | ConnectFailed
// deciding.. | reject()                       | over       | REJ; no event
// open       | disconnect()                   | closing    | posted requests complete first, or linger ends; then DREQ
// open       | DREQ                           | over       | DREP; Disconnected
// open       | the queue pair failed          | over       | DREQ; Disconnected
// open       | the peer is silent             | open       | SIDR_REQ: does its connection manager answer? (roce_silence.cpp)
// open       | dead_after has passed          | over       | DREQ; Disconnected
// closing    | DREP, DREQ, linger             | over       | Disconnected
// over       | time-wait is over              | over       | TimewaitExit, after Disconnected
// waiting..  | ConnectOptions::timeout        | over       | ConnectFailed; not after requesting
//
// UD makes no connection (IBA vol. 1 §12.11): SIDR_REQ and SIDR_REP replace REQ and REP, and:
// requesting | SIDR_REP, valid                | open       | RTR, RTS; Established
// requesting | SIDR_REP, another status       | over       | Rejected if the peer's program rejected it; else as for a REJ
// decided    | the driver's turn              | open       | RTR, RTS, SIDR_REP; Established
// open       | disconnect()                   | closing    | nothing is sent to the peer
// closing    | posted requests are complete   | over       | Disconnected
#pragma once
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
#include "cm/ibcm/agent.hpp"
#include "cm/providers/roce/roce.hpp"
#include "cm/spares.hpp"
#include "cm/trace_events.hpp"
#include "nic/roce/addresses.hpp"
#include "wire/ib/cma.hpp"

namespace parley::cm::roce {

enum class Phase : std::uint8_t {
  noted,
  waiting,
  binding,
  requesting,
  deciding,
  decided,
  accepting,
  open,
  closing,
  over
};

struct Connection {
  EndpointId id = 0;
  Phase phase = Phase::noted;
  bool initiator = true;
  bool accept = false;        // decided
  bool asked = false;         // closing: the DREQ was sent
  bool forced = false;        // ended by linger
  bool told_end = false;      // Disconnected was its last event
  ibcm::ConnectionId cm = 0;  // 0: none, or no longer
  BindId bind = 0;
  Address local{}, peer{};
  std::optional<Address> asked_local{};
  Depths depths{};   // requested, then negotiated
  Depths offered{};  // responder: the peer's
  ib::Options options;
  Duration reply_timeout{};
  Bytes private_data;            // for the REQ, or for the decision
  std::uint32_t psn = 0;         // the peer's first PSN
  std::uint32_t remote_psn = 0;  // this side's first PSN
  std::uint32_t remote_qpn = 0;
  std::uint32_t remote_qkey = 0;  // UD
  std::uint64_t remote_ca_guid = 0;
  std::optional<AhAttr> ah;  // UD, once it is open
  std::uint8_t ack_timeout = 0;
  std::uint8_t rnr_retry = 7;  // requested by the peer
  Mtu mtu = Mtu::octets_1024;
  std::optional<Mtu> mtu_named{};         // initiator: from a peer that does not support this side's
  wire::ib::CmPath path;                  // from this side's view
  std::size_t left = 0;                   // requests that were incomplete at the end
  std::optional<ibcm::EndNote> peer_end;  // from the peer's DREQ
  nic::roce::QpWatch watch;
  Instant reminded{};  // responder, deciding: when an unsolicited MRA was sent
  Instant pinged{};    // deciding: when its host was last asked, or `reminded`
  Instant start{};
  Steps steps;
  OwnQueues own;  // before the queue pair, which uses it
  std::unique_ptr<nic::roce::RoceQp> qp;
  std::unique_ptr<trace::Scope> trace;  // null: no trace
  /// UD: no connection, but a service or a request for one.
  bool datagrams() const { return options.qp_type == QpType::ud; }
  bool unreliable() const { return options.qp_type == QpType::uc; }
  /// The program has received Established, and no end.
  bool live() const { return phase == Phase::open || phase == Phase::closing; }
  bool in_set_up() const { return phase < Phase::open; }
};

struct Listener {
  EndpointId id = 0;
  bool up = false;
  BindId bind = 0;
  Address address{};
  Depths depths{};
  ib::Options options;
  nic::roce::QpWatch watch;
};

/// The address of destroyed connections, whose peers may still be sent messages.
struct LingeringAddress {
  Instant until;
  Address local;
  BindId bind = 0;
};

/// A peer's host whose connection manager is asked whether it is up, for all connections to it.
struct HostProbe {
  Address peer{};                 // without port
  ibcm::Path path{};              // of the last connection that asked
  ibcm::ConnectionId asking = 0;  // the SIDR_REQ; 0: none in progress
  Duration interval{};            // between retransmissions
  Instant until{};                // a connection needs the answer until then
  Instant answered = Instant::min();
};

/// At most one of the two.
struct Slot {
  std::unique_ptr<Connection> connection;
  std::unique_ptr<Listener> listener;
};

class Roce final : public RoceProvider {
 public:
  explicit Roce(const RoceProviderOptions& options, ibcm::Agent agent, std::unique_ptr<nic::roce::RoceDevice> device);
  ~Roce() override;

  // Provider
  void start(Core& core) override;
  std::span<Device* const> devices() override { return {&shown_, 1}; }
  Device* device(EndpointId endpoint) const override;
  Result<Limits> limits(const TransportOptions& options, Depths depths) const override;
  Result<Limits> limits(EndpointId endpoint) const override;
  Result<Route> resolve(const Address& peer, const std::optional<Address>& local) override;
  Result<void> listen(EndpointId endpoint, const Address& local, const ListenOptions& options) override;
  Result<void> connect(EndpointId endpoint, const Address& peer, const ConnectOptions& options) override;
  Result<QueuePair*> create_qp(EndpointId endpoint, const QpInit& init) override;
  QueuePair* qp(EndpointId endpoint) override;
  Result<Address> local_address(EndpointId endpoint) const override;
  Result<Address> peer_address(EndpointId endpoint) const override;
  Result<void> accept(EndpointId endpoint, const AcceptOptions& options) override;
  Result<void> reject(EndpointId endpoint, ConstBytes private_data) override;
  Result<void> disconnect(EndpointId endpoint) override;
  void destroy(EndpointId endpoint) noexcept override;
  bool has_events() const override { return device_->has_events(); }

  // RoceProvider
  bool has_work() const override;
  std::size_t endpoint_count() const override { return core_->ids.alive(); }
  const nic::roce::Counters& device_counters() const override { return device_->counters(); }
  const ibcm::Counters& cm_counters() const override { return agent_.counters(); }

  void set_groups(PacketGroups* groups) noexcept override { device_->set_groups(groups); }

  // PacketMachine
  void handle_bound(Instant now, BindId id, const Address& local) override;
  void handle_bind_failed(Instant now, BindId id, const Error& why, const Address& local) override;
  void handle_packet(Instant now, const PacketPath& from, ConstBytes packet) override;
  void handle_unreachable(Instant now, const PacketPath& path, std::error_code why) override;
  void handle_deadline(Instant now) override;
  bool is_quiet(Instant now) override {
    now_ = now;
    return !core_->has_noted() && commands_.empty() && closing_.empty() && device_->is_quiet(now) &&
           agent_.is_quiet(now) && own_deadline() > now;
  }
  void reset_all(Instant now) noexcept override;
  bool poll_command(PacketCommand& out) override;
  std::size_t poll_packet(Instant now, PacketPath& to, MutBytes out) override;
  PacketRun poll_packets(Instant now, std::size_t most, PacketPath& to, MutBytes out) override;
  PacketPlacement place_of(const PacketPath& from, std::size_t size, ConstBytes packets) override {
    return addresses_.place_of(from, size, packets);
  }
  void handle_placed(Instant now, const PacketPath& from, std::size_t size, ConstBytes packets) override;
  Instant next_deadline() const override;

 private:
  // roce.cpp: endpoints and commands
  Slot& slot_for(EndpointId id);
  Connection* find(EndpointId endpoint) const;
  Listener* find_listener(EndpointId endpoint) const;
  Connection* by_cm(ibcm::ConnectionId id) const;
  void free_slot(EndpointId endpoint);
  Result<void> make_qp(Connection& c, const QpInit* init);
  void drop_qp(Connection& c);
  void set_deadline(Connection& c, Instant at) { deadlines_.set(EndpointTable::slot(c.id), at); }
  Id id_of(const Connection& c) const { return core_->id(c.id); }
  void join_agent(Connection& c, ibcm::ConnectionId cm);
  void leave_agent(Connection& c) noexcept;
  std::uint16_t next_port();
  std::uint32_t next_psn() { return static_cast<std::uint32_t>(rng_.below(1U << 24)); }

  // roce_packets.cpp: addresses and packets
  BindId bind(EndpointId owner, const Address& local, const Address& peer);
  Slot* owner_of(BindId bind);
  void release(BindId& bind) noexcept;
  void release_later(Connection& c) noexcept;
  bool prepare_to_poll(Instant now);
  Instant own_deadline() const {
    const Instant own = std::min(deadlines_.next(), leaving_.empty() ? never : leaving_.front().until);
    return std::min(own, core_->retries.next_deadline());
  }
  bool at_rest() const { return closing_.empty() && !device_->has_news() && !agent_.has_work(); }
  void settle(Instant now);
  bool settle_once(Instant now);

  // roce_setup.cpp: from the start to Established or a failure
  void carry_out(EndpointId id, Instant now);
  void start_listening(Listener& l, const Address& local);
  ibcm::OverloadAction when_full() const;
  void start_attempt(Connection& c, Instant now);
  void request(Connection& c, Instant now);
  ibcm::Path path_to_peer(const Connection& c) const;
  ibcm::Timers timers_of(const Connection& c) const;
  using RequestData = std::array<std::uint8_t, 216>;  // size of a SIDR_REQ's; a REQ has less (IBA §12.6.5, §12.11.1)
  Duration reply_timeout_of(const ib::Options& options, const nic::roce::QpWatch& watch) const;
  static ConstBytes private_data_of(const Connection& c, RequestData& room);
  Listener* listener_for(std::uint64_t service, const Address& local) const;
  EndpointId admit(const Listener& l, const Address& peer, Instant now);
  std::unique_ptr<Connection> connection_at(const Listener& l, ibcm::ConnectionId cm, const Address& local,
                                            const Address& peer);
  std::unique_ptr<Connection> connection_of(const Listener& l, const ibcm::RequestReceived& event, const Address& local,
                                            const Address& peer);
  void ask(const Listener& l, EndpointId id, std::unique_ptr<Connection> made, Bytes private_data, Instant now);
  void on_request(Instant now, ibcm::RequestReceived& event);
  void refuse(Instant now, ibcm::ConnectionId id, wire::ib::CmReject reason);
  void decide(Connection& c, Instant now);
  void on_reply(Connection& c, Instant now, ibcm::ReplyReceived& event);
  static std::optional<Mtu> mtu_named_by(const Connection& c, const wire::ib::CmRej& rej);
  void on_rejected(Connection& c, Instant now, ibcm::Rejected& event);
  void established(Connection& c, Instant now, Bytes private_data);
  Result<AhAttr> way_to_peer(const Connection& c);
  Result<void> to_rtr(Connection& c);
  Result<void> to_rts(Connection& c);
  bool try_again(Connection& c, Instant now, Failure& why);
  void fail_setup(Connection& c, Instant now, Failure why);
  void give_way(EndpointId who, Instant now);
  ib::Parameters parameters_of(const Connection& c) const;

  // roce_datagrams.cpp: UD
  void request_service(Connection& c, Instant now);
  void on_service_request(Instant now, ibcm::SidrRequested& event);
  void on_service_reply(Connection& c, Instant now, ibcm::SidrReplied& event);
  void grant_service(Connection& c, Instant now);
  void send_refusal(Connection& c, Instant now, bool by_program);
  Result<void> to_rts_for_datagrams(Connection& c);

  // roce_end.cpp: events of the agent and the device, and how connections end
  void on_event(Instant now, ibcm::Event& event);
  void on_notice(Instant now, const nic::roce::QpNotice& notice);
  void on_deadline(Connection& c, Instant now);
  void out_of_time(Connection& c, Instant now);
  void check_closing(Connection& c, Instant now);
  void hang_up(Connection& c, Instant now);
  static void stop_qp(Connection& c);
  void on_disconnect_requested(Connection& c, Instant now, const ibcm::DisconnectRequested& event);
  void on_disconnected(Connection& c, ibcm::Disconnected& event);
  void disconnected(Connection& c, Failure why, bool graceful);
  void end(Connection& c);

  // roce_silence.cpp: silent peers, during set-up and afterwards
  nic::roce::QpWatch watch_of(const Connection& c) const;
  Instant asker_dead_at(const Connection& c) const;
  void check_asker(Connection& c, Instant now);
  void watch_asker(Connection& c, Instant now);
  Instant next_ping(const Connection& c) const;
  void limit_patience(const Connection& c);
  void watch_decider(Connection& c, Instant now);
  void ask_decider(Connection& c, Instant now);
  void ping_host(const Connection& c, Instant now);
  void ask_host(const Connection& c, Instant now);
  void ask_host_for(const Connection& c, Instant now, Duration time);
  void ask_host(HostProbe& host, Instant now);
  void on_host_answer(Instant now, const ibcm::Event& event);
  bool host_answered(const Connection& c, Instant now) const;

  // roce_trace.cpp
  void begin_trace(Connection& c);
  void enter(Connection& c, Phase phase);
  void trace_destroyed(Connection& c) noexcept;
  void trace_refused(const Listener& l, ReachedLimit scarce, const Address& peer);
  template <class E>
  void record(const Connection& c, const E& event) {
    trace::record(c.trace.get(), event);
  }
  template <class E>
  void push_event(const Connection& c, E&& event) {
    if (c.trace) [[unlikely]]
      cm::trace_event(*c.trace, Event(event));
    core_->push(std::forward<E>(event));
  }

  bool plays(wire::ib::Departure what) const { return play_.has(what); }

  RoceProviderOptions options_;
  wire::ib::DepartureSet play_;
  Rng rng_;
  ibcm::Agent agent_;
  std::unique_ptr<nic::roce::RoceDevice> device_;  // before slots_: queue pairs are destroyed first
  nic::roce::Addresses addresses_;
  DeviceAttr attr_;
  Device* shown_ = nullptr;
  Core* core_ = nullptr;
  std::vector<Slot> slots_;  // by EndpointTable::slot
  FreeList<std::unique_ptr<Connection>> spare_connections_;
  FreeList<OwnQueues> spare_queues_;
  std::vector<EndpointId> by_cm_;  // by EndpointTable::slot of the agent's id
  Address unreachable_{};          // of the last ICMP error that was handled, and its time
  Instant unreachable_at_ = Instant::min();
  std::map<std::uint64_t, std::vector<EndpointId>> services_;  // active listeners, by service ID
  std::vector<EndpointId> closing_;                            // waiting for their requests to complete
  std::vector<HostProbe> asked_hosts_;                         // those of the last few seconds
  std::vector<LingeringAddress> leaving_;                      // ordered by time, at most one per local address
  Fifo<PacketCommand> commands_;                               // at most two per endpoint
  nic::roce::MadIn mad_in_;  // kept, because creating it for each message costs more than filling it
  nic::roce::MadOut mad_out_;
  DeadlineQueue deadlines_;
  std::uint64_t binds_ = 0;  // so far
  std::uint16_t last_port_ = 0;
  Instant now_{};
  std::uint64_t connections_traced_ = 0;
};

// roce_text.cpp: ends as text
/// For a queue pair that went to ERR on its own.
Failure failure_of(const Connection& c, const nic::roce::QpFailure& why);
/// None: this side had delivered everything, and the peer reports nothing else about its end.
std::optional<Failure> not_all_delivered(const Connection& c, const Step& step);
/// The current step of a set-up, with the names of connections on a NIC.
const Step& step_of(const Connection& c);

inline std::uint64_t service_of(QpType type, std::uint16_t port) {
  return wire::ib::service_id_of(type == QpType::ud ? wire::ib::PortSpace::udp : wire::ib::PortSpace::tcp, port);
}

inline Address without_port(Address address) {
  address.port = 0;
  return address;
}

Failure local_failure(const Step& step, const Error& error);

template <std::size_t N>
Bytes bytes_of(const wire::ib::PrivateData<N>& data, std::size_t from = 0) {
  return {data.begin() + static_cast<std::ptrdiff_t>(from), data.end()};
}

}  // namespace parley::cm::roce
