// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The inside of the iWARP provider: one Connection per endpoint, driven by the stream seam from below and by commands
// from above. RFC 5044 §7, RFC 6581 §9-10, OFA 2007-10 Rtr.
//
// Phase       | input                          | next      | what happens
// ------------|--------------------------------|-----------|-----------------------------------------------------------
// noted       | the driver's turn              | opening   | open the stream
// opening     | connected                      | startup   | mpa::Startup made, Request sent
// opening     | connect failed, tcp_timeout    | over      | ConnectFailed
// (accepted)  | the driver accepts             | startup   | mpa::Startup made, waits for the Request
// startup     | request                        | deciding  | ConnectRequest
// startup     | retry_v1, echo found           | opening   | Retrying; a new stream
// startup     | terminate, failed, rejected    | over      | ConnectFailed or Rejected, after a Terminate if one is due
// startup     | established                    | open      | queue pair attached, or its fence lifted; Established
// startup     | established, peer unknown/slow | holding   | echo watch, first FPDU delay: attached afterwards
// deciding    | accept() or reject()           | decided   | queued for the driver's turn
// deciding    | peer ends, stray octets        | over      | ConnectFailed
// decided     | the driver's turn, accept      | startup   | queue pair attached and fenced, then the Reply leaves
// decided     | the driver's turn, reject      | over      | the Reply with R=1 leaves, then FIN
// holding     | deadline, good octets, FIN     | open      | queue pair attached; Established
// open        | disconnect()                   | closing   | posted work is finished
// open        | peer's FIN                     | open      | our half goes on, then FIN as in closing (RFC 5044 §7.2)
// open,closing| Terminate, error, reset        | over      | Disconnected with the reason
// closing     | all sent, FIN both ways        | over      | Disconnected, graceful
// over        | destroy()                      | gone      | octets still owed and FINs pass without the id
#pragma once
#include <algorithm>
#include <deque>
#include <map>
#include <unordered_map>
#include <vector>

#include "base/deadline_queue.hpp"
#include "cm/admission.hpp"
#include "cm/providers/iwarp/iwarp.hpp"
#include "mpa/startup.hpp"
#include "nic/iwarp/stream_qp.hpp"

namespace parley::cm::iwarp {

enum class Phase : std::uint8_t { noted, opening, startup, deciding, decided, holding, open, closing, over };

/// Our view of the byte stream. `shut`: our FIN is out and the peer's is awaited.
enum class Wire : std::uint8_t { none, opening, up, shut, gone };

struct Decision {
  bool accept = false;
  std::unique_ptr<mpa::Options> mpa;  // null: the listener's
  Bytes private_data;
};

/// What only set-up needs; freed when it is over, so that an idle connection stays small. Rarely used parts are
/// allocated on their own: from 1008 octets on, glibc's malloc takes a slow path.
struct Setup {
  mpa::Options options;
  Bytes private_data;  // initiator: of the Request
  Address local{};
  bool bind_local = false;
  Duration tcp_timeout{};
  std::optional<mpa::Startup> startup;
  std::optional<Decision> decision;
  std::unique_ptr<mpa::StartupEvent> reply;  // holding: what Established will say
  Bytes early;                               // holding: the peer's first octets; at most early_max
  Instant start{};
  bool watching = false;       // holding: for a Terminate that exposes an echoing peer
  bool request_timed = false;  // times.request is set
  bool retried_v1 = false;
  StepTimes times;
};
/// A deadline beyond the clock's end means none.
constexpr Instant after(Instant now, Duration wait) { return wait > never - now ? never : now + wait; }

inline constexpr std::size_t early_max = 4096;  // octets kept while holding; more of them end the hold

struct Connection {
  EndpointId id = 0;
  std::uint32_t slot = 0;
  mpa::Role role = mpa::Role::initiator;
  Phase phase = Phase::noted;
  Wire wire = Wire::none;
  bool orphan = false;     // the id was destroyed; it exists only for octets still owed
  bool announced = false;  // the user has had an event with this id, or made it
  bool peer_fin = false;
  bool want_fin = false;  // FIN as soon as nothing is left to send
  bool in_ready = false;
  bool attached = false;  // the queue pair owns the stream's octets
  bool grace = false;     // open, after the peer's FIN: `deadline` is the end of half_close_grace
  std::uint16_t emss = 1460;
  std::uint32_t tx_at = 0;
  StreamId stream = 0;
  EndpointId listener = 0;
  Instant deadline = never;     // phases without a Startup: TCP, holding, half close, linger
  Admission::Ticket pending{};  // in its listener's table of that name
  Admission::Ticket silent{};   // in the provider's
  Address local{};
  Address peer{};
  Bytes tx;  // startup frames, at most two; of an orphan the queue pair's last octets, at most tail_max
  std::unique_ptr<Setup> setup;
  std::unique_ptr<nic::iwarp::StreamQp> qp;
};
inline constexpr std::uint32_t slot_bits = 24;
inline constexpr std::size_t tail_max = 288 << 10;  // what a queue pair frames ahead, one FPDU more and a Terminate

/// What ran out.
enum class Scarce : std::uint8_t { pending_max, endpoints_max, streams };

/// Peers that were turned away and not yet reported to the user.
struct Turned {
  Scarce scarce = Scarce::pending_max;
  std::uint64_t gave_way = 0, refused = 0;
  Address peer{};
  std::optional<Duration> waited;  // that peer; none for a newcomer
  bool any() const { return gave_way + refused > 0; }
};

struct Listener {
  Listener(EndpointId own_id, StreamId own_stream, const Address& at, const ListenOptions& with)
      : id(own_id),
        stream(own_stream),
        address(at),
        options(with),
        pending(with.pending_max + share(with.pending_max), share(with.pending_max)) {}
  /// For networks that have no pending connection, beyond pending_max.
  static constexpr std::uint32_t share(std::uint32_t pending_max) {
    return std::min(pending_max / 8, 0xFFFFFFFF - pending_max);
  }

  EndpointId id = 0;
  StreamId stream = 0;
  bool up = false;
  Address address{};
  ListenOptions options;
  Admission pending;  // pending connections: at most options.pending_max and the share
  Turned turned;
};

struct Slot {
  std::uint32_t generation = 0;
  std::unique_ptr<Connection> connection;
  std::unique_ptr<Listener> listener;
};

/// What is known about peers that were sent an Rtr frame: by address and port, at most `max` of them.
class EchoMemory {
 public:
  enum class Verdict : std::uint8_t { unknown, honest, echoes };
  static constexpr std::size_t max = 1024;
  Verdict of(const Address& peer) const {
    const auto at = known_.find(peer);
    return at == known_.end() ? Verdict::unknown : at->second;
  }
  void note(const Address& peer, Verdict verdict) {
    // Forgetting everything costs each peer one more watch; keeping them ordered by age would cost more than that.
    if (known_.size() >= max && !known_.contains(peer)) known_.clear();
    known_[peer] = verdict;
  }

 private:
  std::map<Address, Verdict> known_;
};

class Iwarp final : public IwarpProvider {
 public:
  explicit Iwarp(const IwarpProviderOptions& options);
  ~Iwarp() override;

  // Provider
  Device& device() override { return *device_; }
  Result<EndpointId> listen(const Address& local, const ListenOptions& options) override;
  Result<EndpointId> connect(const Address& peer, const ConnectOptions& options) override;
  Result<QueuePair*> create_qp(EndpointId endpoint, const QpInit& init) override;
  QueuePair* qp(EndpointId endpoint) override;
  Result<Address> local_address(EndpointId endpoint) const override;
  Result<Address> peer_address(EndpointId endpoint) const override;
  Result<void> accept(EndpointId endpoint, const AcceptOptions& options) override;
  Result<void> reject(EndpointId endpoint, ConstBytes private_data) override;
  Result<void> disconnect(EndpointId endpoint) override;
  void destroy(EndpointId endpoint) override;
  std::optional<ProviderEvent> poll_event() override;

  // IwarpProvider
  bool has_events() const override { return events_at_ < events_.size() || device_->has_events(); }
  bool has_work() const override {
    return !noted_.empty() || !commands_.empty() || !ready_.empty() || device_->has_dirty();
  }
  std::size_t endpoint_count() const override { return alive_; }

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
  tl::unexpected<Error> no_endpoint() const;
  Slot* new_slot(EndpointId& id);
  void free_slot(std::uint32_t slot);
  void free_retired();
  const Slot* slot_at(EndpointId endpoint) const;
  Connection* find(EndpointId endpoint) const;
  Listener* find_listener(EndpointId endpoint) const;
  Connection* by_stream(StreamId stream);
  Listener* listener_by_stream(StreamId stream);
  void note(EndpointId endpoint) { noted_.push_back(endpoint); }
  Result<void> make_qp(Connection& c, const QpInit* init);
  void drop_qp(Connection& c);
  void keep_tail(Connection& c);
  void push_event(ProviderEvent event) { events_.push_back(std::move(event)); }
  ProviderEvent event_of(const Connection& c, ProviderEvent::Kind kind) const;
  // This side's streams are odd and carry their slot, so that only the driver's need a map.
  StreamId next_stream(std::uint32_t slot) { return (++stream_serial_ << slot_bits | slot) << 1 | 1; }
  void unmap_stream(StreamId stream) {
    if ((stream & 1) == 0) accepted_.erase(stream);
  }
  std::uint32_t slot_of(StreamId stream) const;
  void command(StreamCommand::Kind kind, StreamId stream);

  // iwarp_admission.cpp: who may be pending, and who is evicted
  bool admit(Connection& c, Instant now);
  void our_turn(Connection& c);
  void peers_turn(Connection& c);
  void await_first_message(Connection& c);
  void uncount(Connection& c);
  bool make_room(Instant now, Scarce scarce);
  void give_way(EndpointId who, Instant now, Scarce scarce);
  Turned& turned(Listener& l, Scarce scarce, const Address& peer);
  void tell_turned(Listener& l, ProviderEvent& event);

  // iwarp_setup.cpp: from nothing to Established or to a failure
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
  void retry(Connection& c, Instant now, mpa::Failure why);
  void fail_setup(Connection& c, Instant now, mpa::Failure why, mpa::StartupEvent::Close close);

  // iwarp_data.cpp: the open connection and its end
  void feed_qp(Connection& c, Instant now, ConstBytes in);
  void poll_qp(Connection& c, Instant now);
  void on_qp_event(Connection& c, Instant now, const nic::iwarp::QpEvent& event);
  void lose_stream(Connection& c, Instant now, StreamEnd end);
  void disconnected(Connection& c, Instant now, mpa::Failure why, bool graceful);
  void begin_linger(Connection& c, Instant now);
  void drop_stream(Connection& c, StreamCommand::Kind how);
  void stream_finished(Connection& c, Instant now);
  void settle(Connection& c, Instant now);
  bool has_transmit(const Connection& c) const;
  void mark_ready(Connection& c);
  void refresh_deadline(Connection& c);
  void on_deadline(Connection& c, Instant now);

  IwarpProviderOptions options_;
  std::unique_ptr<nic::iwarp::IwarpDevice> device_;  // before slots_: queue pairs are destroyed first
  PdHandle default_pd_ = 0;
  std::vector<Slot> slots_;  // at most options_.endpoints_max
  std::vector<std::uint32_t> free_slots_;
  std::vector<std::uint32_t> retired_;  // freed at the next input: callers up the stack still use them
  std::size_t alive_ = 0;
  std::unordered_map<StreamId, std::uint32_t> accepted_;  // the driver's streams; at most one per endpoint
  // The last look-up: one message asks several times. The caller compares the stream's name, so it may be stale.
  mutable StreamId last_found_ = 0;
  mutable std::uint32_t last_found_slot_ = 0xFFFFFFFF;
  StreamId stream_serial_ = 0;
  std::vector<EndpointId> noted_;       // at most three per endpoint
  std::deque<StreamCommand> commands_;  // at most two per stream
  std::deque<StreamId> ready_;          // each stream once
  // Per endpoint: at most two Retrying, ConnectRequest, Established and an end; per listener one turned_away. Those
  // before events_at_ were read. Not a deque: an event is larger than its chunks, so each would be allocated.
  std::vector<ProviderEvent> events_;
  std::size_t events_at_ = 0;
  DeadlineQueue deadlines_;
  std::vector<EndpointId> listeners_;
  // Accepted without an RTR, and silent since. Evicted only when endpoints or streams run out.
  Admission silent_{0xFFFFFFFF, 0};
  EchoMemory echoes_;
  EndpointId reported_dead_ = 0;  // an endpoint the user never knew: destroyed after its ConnectFailed was read
  Instant now_{};
};

// iwarp_text.cpp: failures as text
/// Every local port towards `address` is in use.
mpa::Failure ports_exhausted(const Address& address);
mpa::Failure system_failure(mpa::Stage stage, std::error_code why, const Address& address);
mpa::Failure listen_failure(std::error_code why, const Address& address);
mpa::Failure stream_lost(mpa::Stage stage, StreamEnd end);
/// `limit`: what `scarce` allows; not used for streams, which the driver counts.
mpa::Failure no_room(mpa::Stage stage, Scarce scarce, std::uint32_t limit, std::string received);
mpa::Failure plain_failure(mpa::Stage stage, Errc code, std::string rule, std::string received, std::string advice);
std::string seconds_text(Duration duration);
std::string terminate_text(const parley::iwarp::TerminateInfo& info);

}  // namespace parley::cm::iwarp
