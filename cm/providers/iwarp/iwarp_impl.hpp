// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Implementation of the iWARP provider: one Connection per endpoint, driven by the streams from below and by commands from
// above. RFC 5044 §7, RFC 6581 §9-10, OFA 2007-10 Rtr.
//
// Phase       | input                          | next      | what happens
// ------------|--------------------------------|-----------|-----------------------------------------------------------
// noted       | the driver's turn              | opening   | open the stream
// opening     | connected                      | startup   | mpa::Startup created, Request sent
// opening     | connect failed, time-out       | opening   | Retrying, at the next address, if cm/retries.hpp has one
//             |                                | waiting   | Retrying, after a wait
//             |                                | over      | ConnectFailed
// waiting     | the wait is over               | opening   | a new stream
// (accepted)  | the driver accepts             | startup   | mpa::Startup created, waits for the Request
// startup     | request                        | deciding  | ConnectRequest
// startup     | retry_v1, echo found           | opening   | Retrying; a new stream
// startup     | failed, temporary              | as opening| before the queue pair is attached
// startup     | terminate, failed, rejected    | over      | ConnectFailed or Rejected, after a Terminate if required
// waiting..   | ConnectOptions::timeout        | over      | ConnectFailed; not after startup
// startup     | established                    | open      | queue pair attached, or its fence lifted; Established
// startup     | established, peer unknown/slow | holding   | echo watch, first FPDU delay: attached afterwards
// deciding    | accept() or reject()           | decided   | queued for the driver's turn
// deciding    | peer ends, stray octets        | over      | ConnectFailed
// deciding    | detach()                       | moved     | id and stream are free; the rest is in the Migrant
// (moved)     | adopt(), of another provider   | deciding  | a new id and stream with the same set-up
// decided     | the driver's turn, accept      | startup   | queue pair attached and fenced, then the Reply is sent
// decided     | the driver's turn, reject      | over      | the Reply with R=1 is sent, then FIN
// holding     | deadline, good octets, FIN     | open      | queue pair attached; Established
// holding     | echo found                     | opening   | Retrying; a new stream. over, if ConnectOptions::timeout is past
// open        | disconnect()                   | closing   | posted work is finished
// open        | peer's FIN                     | open      | our half continues, then FIN as in closing (RFC 5044 §7.2)
// open,closing| Terminate, error, reset        | over      | Disconnected with the reason
// closing     | all sent, FIN both ways        | over      | Disconnected, graceful
// over        | destroy()                      | gone      | remaining octets and FINs are sent without the id
#pragma once
#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/after.hpp"
#include "base/deadline_queue.hpp"
#include "base/trace.hpp"
#include "cm/core.hpp"
#include "cm/failure_text.hpp"
#include "cm/providers/iwarp/iwarp.hpp"
#include "cm/trace_events.hpp"
#include "mpa/startup.hpp"
#include "nic/iwarp/stream_qp.hpp"

namespace parley::cm::iwarp {

enum class Phase : std::uint8_t { noted, waiting, opening, startup, deciding, decided, holding, open, closing, over };

/// Our view of the byte stream. `shut`: our FIN is sent, and the peer's has not arrived.
enum class Wire : std::uint8_t {
  none,
  opening,
  up,
  shut,       // our FIN is queued or sent
  finishing,  // both FINs; our octets are not acknowledged yet
  gone
};

struct Decision {
  bool accept = false;
  std::unique_ptr<mpa::StartupOptions> options;  // null: the listener's
  Bytes private_data;
};

/// Data of the set-up only; freed after it, so that an idle connection stays small. Rarely used parts are allocated separately:
/// for 1008 octets and more, glibc's malloc takes a slow path.
struct Setup {
  mpa::StartupOptions options;
  std::unique_ptr<mpa::StartupOptions> asked;  // if another address may be tried: the options to start with there
  Bytes private_data;                          // initiator: for the Request
  Address local{};
  bool bind_local = false;
  Duration transport_timeout{};
  Duration keepalive{};
  std::optional<mpa::Startup> startup;
  std::optional<Decision> decision;
  std::unique_ptr<mpa::StartupEvent> reply;  // holding: the contents of Established
  Bytes early;                               // holding: the peer's first octets; at most early_max
  Instant start{};
  bool watching = false;       // holding: waiting for a Terminate that exposes an echoing peer
  bool request_timed = false;  // times.request is set
  bool retried_v1 = false;
  Steps times;
};

inline constexpr std::size_t early_max = 4096;  // octets kept while holding; more of them end the hold

struct Connection {
  EndpointId id = 0;
  std::uint32_t slot = 0;
  mpa::Role role = mpa::Role::initiator;
  Phase phase = Phase::noted;
  Wire wire = Wire::none;
  bool peer_fin = false;
  bool want_fin = false;  // send FIN as soon as nothing is left to send
  bool in_ready = false;
  bool attached = false;  // the queue pair processes the stream's octets
  bool grace = false;     // open, after the peer's FIN: `deadline` is the end of half_close_grace
  std::uint16_t emss = 1460;
  std::uint32_t tx_at = 0;
  StreamId stream = 0;
  Duration dead_after{};     // for messages; TCP enforces it
  Instant deadline = never;  // phases without a Startup: TCP, holding, half close, linger
  Address local{};
  Address peer{};
  Bytes tx;  // startup frames, at most two; for an orphan the queue pair's last octets, at most tail_max
  std::unique_ptr<Setup> setup;
  std::unique_ptr<trace::Scope> trace;  // null: no trace. Before the queue pair, which uses it too
  std::unique_ptr<nic::iwarp::StreamQp> qp;
};
inline constexpr std::uint32_t slot_bits = 24;
inline constexpr std::size_t tail_max =
    288 << 10;  // octets that a queue pair frames in advance, one more FPDU and a Terminate

struct Listener {
  EndpointId id = 0;
  StreamId stream = 0;
  bool up = false;
  Address address{};
  mpa::StartupOptions options;
  int backlog = 0;
  Duration keepalive{}, dead_after{};
};

/// At most one of the two.
struct Slot {
  std::unique_ptr<Connection> connection;
  std::unique_ptr<Listener> listener;
};

/// Results for peers that were sent an Rtr frame, by address and port, at most `max` of them.
class EchoMemory {
 public:
  enum class Trait : std::uint8_t { unknown, honest, echoes };
  static constexpr std::size_t max = 1024;
  Trait of(const Address& peer) const {
    const auto at = known_.find(peer);
    return at == known_.end() ? Trait::unknown : at->second;
  }
  void note(const Address& peer, Trait trait) {
    // Clearing the table costs each peer one more watch; ordering the entries by age would cost more than that.
    if (known_.size() >= max && !known_.contains(peer)) known_.clear();
    known_[peer] = trait;
  }

 private:
  std::map<Address, Trait> known_;
};

class Iwarp final : public IwarpProvider {
 public:
  explicit Iwarp(const IwarpProviderOptions& options);
  ~Iwarp() override;

  // Provider
  void start(Core& core) override;
  std::span<Device* const> devices() override { return devices_; }
  Result<Limits> limits(const TransportOptions& options, Depths depths) const override;
  Result<Limits> limits(EndpointId endpoint) const override;
  Result<Route> resolve(const Address& peer, const std::optional<Address>& local) override;
  Result<void> listen(EndpointId endpoint, const Address& local, const ListenOptions& options) override;
  Result<void> connect(EndpointId endpoint, const Address& peer, const ConnectOptions& options) override;
  Result<QueuePair*> create_qp(EndpointId endpoint, const QpInit& init) override;
  QueuePair* qp(EndpointId endpoint) override;
  Device* device(EndpointId endpoint) const override { return known(endpoint) != nullptr ? device_.get() : nullptr; }
  Result<Address> local_address(EndpointId endpoint) const override;
  Result<Address> peer_address(EndpointId endpoint) const override;
  Result<void> accept(EndpointId endpoint, const AcceptOptions& options) override;
  Result<void> reject(EndpointId endpoint, ConstBytes private_data) override;
  Result<void> disconnect(EndpointId endpoint) override;
  void destroy(EndpointId endpoint) noexcept override;
  Result<std::unique_ptr<DetachedRequestBody>> detach(EndpointId endpoint) override;
  Result<void> adopt(EndpointId endpoint, std::unique_ptr<DetachedRequestBody>& body,
                     const ConnectRequest& request) override;
  bool has_events() const override { return device_->has_events(); }

  // IwarpProvider
  bool has_work() const override {
    return core_->has_noted() || !commands_.empty() || !ready_.empty() || device_->has_dirty();
  }
  std::size_t endpoint_count() const override { return core_->ids.alive(); }
  void set_mover(StreamMover* mover) override { mover_ = mover; }

  // StreamMachine
  void handle_listening(Instant now, StreamId listener, const Address& local) override;
  void handle_listen_failed(Instant now, StreamId listener, std::error_code why) override;
  void handle_connected(Instant now, StreamId stream, const StreamInfo& info) override;
  void handle_connect_failed(Instant now, StreamId stream, std::error_code why) override;
  bool handle_accepted(Instant now, StreamId listener, StreamId stream, const StreamInfo& info) override;
  bool handle_no_room(Instant now, StreamId listener) override;
  void handle_bytes(Instant now, StreamId stream, ConstBytes in) override;
  void handle_end(Instant now, StreamId stream, StreamEnd end) override;
  void handle_deadline(Instant now) override;
  bool poll_command(StreamCommand& out) override;
  StreamId poll_ready() override;
  std::size_t gather(StreamId stream, std::span<ConstBytes> out) override;
  void sent(Instant now, StreamId stream, std::size_t n) override;
  Instant next_deadline() const override;

 private:
  // iwarp.cpp: endpoints and commands
  Slot& slot_for(EndpointId id);
  const Slot* slot_at(EndpointId endpoint) const;
  void free_slot(std::uint32_t slot);
  void free_retired();
  Connection* find(EndpointId endpoint) const;
  Connection* known(EndpointId endpoint) const;
  Listener* find_listener(EndpointId endpoint) const;
  Connection* by_stream(StreamId stream);
  Listener* listener_by_stream(StreamId stream);
  Result<void> make_qp(Connection& c, const QpInit* init);
  void drop_qp(Connection& c);
  bool keep_tail(Connection& c) noexcept;
  Id id_of(const Connection& c) const { return core_->id(c.id); }
  EndpointId listener_of(const Connection& c) const { return core_->ids.find(c.id)->listener; }
  // The id was destroyed; the connection exists only until its remaining octets are sent.
  bool orphan(const Connection& c) const { return core_->ids.find(c.id)->orphan; }
  void end(Connection& c);
  // Numbers of this side's streams are odd and contain the slot, so that only the driver's streams need a map.
  StreamId next_stream(std::uint32_t slot) { return (++stream_serial_ << slot_bits | slot) << 1 | 1; }
  void unmap_stream(StreamId stream) {
    if ((stream & 1) == 0) accepted_.erase(stream);
  }
  std::uint32_t slot_of(StreamId stream) const;
  void command(const StreamCommand& command);
  void command(StreamCommand::Kind kind, StreamId stream);
  void last_command(StreamCommand::Kind kind, StreamId stream) noexcept;

  // iwarp_admission.cpp: pending connections and eviction
  bool admit(Connection& c, Instant now);
  void turn_away(EndpointId listener, ReachedLimit scarce, const Address& peer);
  bool make_room(Instant now, ReachedLimit scarce);
  void give_way(EndpointId who, Instant now, ReachedLimit scarce);

  // iwarp_trace.cpp
  void begin_trace(Connection& c);
  trace::Scope trace_of(const Listener& l, const Address& peer) const;
  void enter(Connection& c, Phase phase) {
    if (c.trace) [[unlikely]]
      trace_phase(c, phase);
    c.phase = phase;
  }
  static void trace_phase(const Connection& c, Phase to);
  static void trace_destroyed(const Connection& c) noexcept;
  static void trace_moved(const Connection& c);
  template <class E>
  void push_event(const Connection& c, E&& event) {
    if (c.trace) [[unlikely]]
      cm::trace_event(*c.trace, Event(event));
    core_->push(std::forward<E>(event));
  }
  static void trace_reasons(const trace::Scope& scope, const mpa::Reasons& reasons);
  void trace_deadline(Connection& c, Instant at) const;
  static void trace_expired(const Connection& c);
  void trace_end(const Connection& c, StreamEnd end) const;
  void trace_refused(EndpointId listener, ReachedLimit scarce, const Address& peer) const;
  void trace_evicted(const Connection& c, ReachedLimit scarce, Duration waited) const;

  // iwarp_setup.cpp: from the start to Established or a failure
  void carry_out(Connection& c, Instant now);
  void carry_out(Listener& l);
  void open_stream(Connection& c, Instant now);
  void begin_startup(Connection& c, Instant now);
  void drain_startup(Connection& c, Instant now);
  void on_startup_event(Connection& c, Instant now, mpa::StartupEvent& event);
  void on_reply(Connection& c, Instant now, mpa::StartupEvent& event);
  void decide(Connection& c, Instant now);
  void end_hold(Connection& c, Instant now);
  void early_octets(Connection& c, Instant now, ConstBytes in);
  void echo_found(Connection& c, Instant now, std::string received);
  bool attach(Connection& c, Instant now, mpa::Parameters& parameters, mpa::Rtr send_rtr, bool fenced);
  void establish(Connection& c, Instant now, mpa::StartupEvent& event);
  void refuse_with_terminate(Connection& c, Instant now, mpa::StartupEvent& event);
  void retry(Connection& c, Instant now, Failure why, const Address& failed, Duration wait = {});
  bool try_again(Connection& c, Instant now, Failure& why);
  void fail_setup(Connection& c, Instant now, Failure why, mpa::StartupEvent::Close close);

  // iwarp_data.cpp: the open connection and its end
  void feed_qp(Connection& c, Instant now, ConstBytes in);
  void poll_qp(Connection& c, Instant now);
  void on_qp_event(Connection& c, Instant now, const nic::iwarp::QpEvent& event);
  void lose_stream(Connection& c, Instant now, StreamEnd end);
  void disconnected(Connection& c, Instant now, Failure why, bool graceful);
  void begin_linger(Connection& c, Instant now);
  void drop_stream(Connection& c, StreamCommand::Kind how);
  void stream_finished(Connection& c, Instant now);
  void settle(Connection& c, Instant now);
  bool has_transmit(const Connection& c) const;
  void mark_ready(Connection& c);
  void refresh_deadline(Connection& c);
  void on_deadline(Connection& c, Instant now);
  void out_of_time(Connection& c, Instant now);

  IwarpProviderOptions options_;
  std::unique_ptr<nic::iwarp::IwarpDevice> device_;  // before slots_: queue pairs are destroyed first
  std::array<Device*, 1> devices_;
  PdHandle default_pd_ = 0;
  Core* core_ = nullptr;
  StreamMover* mover_ = nullptr;
  std::vector<Slot> slots_;             // by EndpointTable::slot
  std::vector<std::uint32_t> retired_;  // freed at the next input, because callers on the stack still use them
  std::unordered_map<StreamId, std::uint32_t> accepted_;  // the driver's streams; at most one per endpoint
  // Cache of the last look-up: one message needs several. May be stale; the caller compares the stream's number.
  mutable StreamId last_found_ = 0;
  mutable std::uint32_t last_found_slot_ = 0xFFFFFFFF;
  StreamId stream_serial_ = 0;
  Fifo<StreamCommand> commands_;  // at most two per stream, and always room for one more per endpoint
  std::deque<StreamId> ready_;    // each stream at most once
  DeadlineQueue deadlines_;
  EchoMemory echoes_;
  Instant now_{};
  std::uint64_t connections_traced_ = 0;
};

// iwarp_text.cpp: failures as text
Failure stream_lost(const Step& step, StreamEnd end, const Connection& c);
/// After both FINs, before the peer acknowledged all octets: the stream failed, or linger ended (no `end`).
Failure not_acknowledged(std::optional<StreamEnd> end, Duration linger);
std::string terminate_text(const parley::iwarp::TerminateInfo& info);

}  // namespace parley::cm::iwarp
