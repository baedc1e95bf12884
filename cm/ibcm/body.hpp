// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The Agent's tables and state machines. For cm/ibcm only.
#pragma once
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/deadline_queue.hpp"
#include "base/flat_map.hpp"
#include "base/rng.hpp"
#include "cm/endpoint_table.hpp"
#include "cm/fifo.hpp"
#include "cm/ibcm/agent.hpp"
#include "cm/ibcm/connection.hpp"
#include "cm/ibcm/window.hpp"
#include "cm/spares.hpp"
#include "wire/ib/packet.hpp"

namespace parley::cm::ibcm {

class Agent::Body {
 public:
  explicit Body(const AgentOptions& options);

  void handle_mad(Instant now, const MadFrom& from, ConstBytes mad);
  void handle_deadline(Instant now);
  Instant next_deadline() const { return deadlines_.next(); }
  bool poll_transmit(MadTo& to, MutBytes out);
  bool has_transmit() const { return !transmit_.empty(); }
  std::optional<Event> poll_event();
  bool has_event();
  bool has_work() const { return !events_.empty() || has_transmit(); }
  const Connection* find(ConnectionId id) const;

  // Commands; see agent.hpp.
  Result<void> listen(std::uint64_t service_id, const ListenOptions& options);
  void unlisten(std::uint64_t service_id);
  Result<ConnectionId> connect(Instant now, const ConnectParameters& p);
  Result<void> accept(Instant now, ConnectionId id, const AcceptParameters& p);
  Result<void> ready(Instant now, ConnectionId id, ConstBytes private_data);
  Result<void> reject(Instant now, ConnectionId id, const RejectParameters& p);
  void limit_mra(ConnectionId id, std::uint8_t service_timeout);
  void remind(ConnectionId id, std::uint8_t service_timeout);
  Instant requested_at(ConnectionId id);
  Result<void> send_mra(Instant now, ConnectionId id, std::uint8_t service_timeout, ConstBytes private_data);
  Result<void> communication_established(ConnectionId id);
  Result<void> disconnect(Instant now, ConnectionId id, ConstBytes private_data, const std::optional<EndNote>& end);
  void destroy(Instant now, ConnectionId id, const std::optional<EndNote>& end = {});
  void turn_away(Instant now, ConnectionId id);
  Result<void> load_alternate(Instant now, ConnectionId id, const wire::ib::CmPath& path, ConstBytes private_data);
  Result<void> answer_alternate(ConnectionId id, const AlternateAnswer& p);
  Result<ConnectionId> sidr_request(Instant now, const SidrParameters& p);
  Result<void> sidr_reply(Instant now, ConnectionId id, const SidrAnswer& p);

  Counters counters;
  std::size_t connection_count() const { return ids_.alive(); }
  std::size_t remembered_count() const { return remembered_[0].size() + remembered_[1].size(); }

 private:
  struct Message {
    MadTo to;
    Octets octets;
  };
  struct Listener {
    Listener(std::uint64_t service_id, const ListenOptions& o);
    std::uint64_t service_id;
    ListenOptions options;
    Admission admission;  // at most pending_max plus an eighth
    TurnedAway turned{};
    bool told = false;  // `turned` is in the queue of events
  };
  using PeerKey = std::pair<std::uint64_t, std::uint32_t>;       // CA GUID, and communication ID or QPN
  using SidrKey = std::tuple<Gid, std::uint8_t, std::uint32_t>;  // GID and MadTo::sgid_index, request ID

  // Tables (body.cpp).
  Connection* get(ConnectionId id);
  Connection* by_local(std::uint32_t local_id);
  template <class Table, class Key>
  Connection* found_in(const Table& table, const Key& key) {
    const ConnectionId* id = table.find(key);
    return id == nullptr ? nullptr : get(*id);
  }
  /// For a message with both IDs, from the peer's GID; counts messages without a connection.
  Connection* by_both(const MadFrom& from, std::uint32_t local_id, std::uint32_t remote_id);
  static bool same_peer(const MadTo& a, const MadTo& b);
  bool from_peer(const Connection& c, const MadFrom& from);
  static SidrKey sidr_key(const MadTo& to, std::uint32_t request_id) {
    return {to.destination, to.sgid_index, request_id};
  }
  Result<Connection*> make(bool active);
  void know_peer(Connection& c, std::uint64_t guid, std::uint32_t comm_id, std::uint32_t qpn);
  void forget_qpn(Connection& c);
  void forget_peer(Connection& c);
  void release(Connection& c);
  std::uint32_t next_local_id();

  bool is_wanted(const Event& event);
  bool has_p_key(std::uint16_t p_key) const { return wire::ib::p_keys_match(p_key, options_.p_key); }
  bool plays(wire::ib::Departure what) const { return options_.play.has(what); }

  // Sending and time (timing.cpp).
  void send(const MadTo& to, const Octets& octets);
  void send_again(const MadTo& to, const Octets& octets);
  template <class M>
  static Octets octets_of(std::uint64_t tid, const M& body, std::uint32_t modifier = 0) {
    Octets out;
    wire::ib::emit_cm(body, tid, modifier, out);
    return out;
  }
  template <class M>
  void send_once(const MadTo& to, std::uint64_t tid, const M& body) {
    send(to, octets_of(tid, body));
  }
  void keep(std::unique_ptr<Octets>& place, const Octets& octets);
  void drop(std::unique_ptr<Octets>& place) noexcept;
  void await_answer(Instant now, Connection& c, const Octets& octets);
  void stop_waiting(Connection& c);
  void answer(Connection& c, const Octets& octets);
  void answer_again(Connection& c);
  void set_deadline(Connection& c, Instant at);
  void arm(Instant now, Connection& c);
  void wait_longer(Instant now, Connection& c, Duration wait, Waiting event);
  void on_deadline(Instant now, Connection& c);
  void give_up(Instant now, Connection& c);
  Duration time_of(std::uint8_t code) const;
  Duration peer_timeout(std::uint8_t code) const;
  Duration timewait_of(std::uint8_t ack_timeout) const;

  // Events and ends (ending.cpp).
  template <class E>
  void push_event(Connection& c, E&& event) {
    if (c.orphan) return;
    event.id = c.id;
    events_.push(std::forward<E>(event));
  }
  void leave_set_up(Connection& c);
  void close(Instant now, Connection& c, bool remember);
  /// `drep`: the peer's, if one arrived.
  void enter_timewait(Instant now, Connection& c, const wire::ib::CmDrep* drep = nullptr);
  void leave_timewait(Connection& c, bool early);
  void remember(Instant now, Connection& c);
  void forget(Connection& c);
  wire::ib::CmRej rej_of(const Connection& c, wire::ib::CmReject reason) const;
  wire::ib::CmRej timeout_rej_of(const Connection& c) const;
  void begin_disconnect(Instant now, Connection& c, ConstBytes private_data, const std::optional<EndNote>& end);
  void send_drep(Instant now, Connection& c, ConstBytes private_data);
  void destroy_set_up(Instant now, Connection& c);

  // Messages.
  void judge_other(const MadFrom& from, ConstBytes mad);
  using Head = wire::ib::CmMessage;
  void on_message(Instant now, const MadFrom& from, const Head& head, const wire::ib::CmReq& m);
  void on_message(Instant now, const MadFrom& from, const Head& head, const wire::ib::CmRep& m);
  void on_message(Instant now, const MadFrom& from, const Head& head, const wire::ib::CmRtu& m);
  void on_message(Instant now, const MadFrom& from, const Head& head, const wire::ib::CmMra& m);
  void on_message(Instant now, const MadFrom& from, const Head& head, const wire::ib::CmRej& m);
  void on_message(Instant now, const MadFrom& from, const Head& head, const wire::ib::CmDreq& m);
  void on_message(Instant now, const MadFrom& from, const Head& head, const wire::ib::CmDrep& m);
  void on_message(Instant now, const MadFrom& from, const Head& head, const wire::ib::CmLap& m);
  void on_message(Instant now, const MadFrom& from, const Head& head, const wire::ib::CmApr& m);
  void on_message(Instant now, const MadFrom& from, const Head& head, const wire::ib::CmSidrReq& m);
  void on_message(Instant now, const MadFrom& from, const Head& head, const wire::ib::CmSidrRep& m);

  void answer_sidr(Instant now, Connection& c, const SidrAnswer& p);

  // Active (active.cpp).
  Result<ConnectionId> start(Instant now, Connection& c);
  void begin(Instant now, Connection& c);
  void begin_next(Instant now);
  void accept_rep(Instant now, Connection& c, const Head& head, const wire::ib::CmRep& m);
  void refuse_rep(Instant now, Connection& c, const wire::ib::CmRep& m, wire::ib::CmReject reason, Failure why);
  Connection* rejected_by(const MadFrom& from, const wire::ib::CmRej& m);
  std::optional<Duration> busy_wait(const Connection& c, const wire::ib::CmRej& m);
  void rejected(Instant now, Connection& c, const wire::ib::CmRej& m);

  // Passive (passive.cpp).
  void refuse(const MadFrom& from, const Head& head, const wire::ib::CmReq& m, wire::ib::CmReject reason,
              ConstBytes info = {});
  bool check_req(const MadFrom& from, const Head& head, const wire::ib::CmReq& m);
  void duplicate_req(Connection& c, const MadFrom& from, const Head& head, const wire::ib::CmReq& m);
  void stale(Instant now, Connection& old, const MadTo& peer);
  void new_req(Instant now, const MadFrom& from, const Head& head, const wire::ib::CmReq& m, Listener& listener);
  /// False: no room.
  bool admit(Instant now, Connection& c, Listener& listener);
  void evict(Instant now, Connection& c);
  void turn_away(Listener& listener, const MadFrom& from, const Head& head, const wire::ib::CmReq& m);
  void answer_when_full(const ListenOptions& options, const MadTo& to, std::uint64_t tid, std::uint32_t peer_id,
                        bool offered);
  void report_turned_away(Listener& listener, const Gid& peer);
  void establish(Connection& c, Ready event);
  Listener* listener_of(std::uint64_t service_id);
  void leave_listener(Connection& c);

  AgentOptions options_;
  Rng rng_;
  std::uint32_t operand_;      // communication IDs are a counter combined with this
  std::uint32_t incarnation_;  // upper half of transaction IDs
  std::uint32_t counter_ = 0;
  EndpointTable ids_;                                        // at most connections_max
  std::vector<std::unique_ptr<Connection>> connections_;     // by slot
  FlatMap<std::uint32_t, ConnectionId, CountedHash> local_;  // at most one per connection
  FlatMap<PeerKey, ConnectionId> by_peer_id_, by_peer_qpn_;  // at most one per connection
  std::map<SidrKey, ConnectionId> sidr_;                     // at most one per connection
  std::list<ConnectionId> remembered_[2];                    // [0] never established, [1] established. Oldest first
  FreeList<std::unique_ptr<Connection>> spare_connections_;
  FreeList<std::unique_ptr<Octets>> spare_octets_;
  std::list<ConnectionId> spare_places_;  // nodes of remembered_ for reuse; at most FreeList::most
  std::map<std::uint64_t, std::unique_ptr<Listener>> listeners_;  // by service ID; at most listeners_max
  Window window_;
  DeadlineQueue deadlines_;  // by slot
  Fifo<Message> transmit_;   // at most transmit_max
  // At most a dozen per connection plus its `waits_max` of Waiting; those of destroyed connections are skipped. One TurnedAway per
  // listener.
  Fifo<Event> events_;
};

/// False: it does not fit.
template <std::size_t N>
bool fill(std::array<std::uint8_t, N>& field, ConstBytes octets) {
  if (octets.size() > N) return false;
  std::copy(octets.begin(), octets.end(), field.begin());
  return true;
}

/// For a command whose private data or information is too long for its field.
tl::unexpected<Error> too_long(std::size_t size, std::size_t room);

Result<void> check(const Timers& timers);

/// The type of one of this side's own messages.
inline wire::ib::CmMessageType type_in(const Octets& octets) {
  return static_cast<wire::ib::CmMessageType>(wire::ib::MadHeader::parse(octets)->attribute_id);
}

/// Whether a connection can have this queue pair number.
constexpr bool can_connect(std::uint32_t qpn) { return qpn > PARLEY_IB_GSI_QPN && qpn < PARLEY_IB_QPN_MULTICAST; }

/// The return path.
MadTo reply_to(const MadFrom& from);
MadTo way_of(const Path& path);

// Failures (text.cpp).
Step step_of(State state);
Failure nothing_came(const Connection& c, Instant now);
Failure rejected_because(State state, const wire::ib::CmRej& m);
Failure unusable_qpn(State state, std::string_view message, std::uint32_t qpn);
Failure broken(State state, Errc code, std::string received, std::string advice);

}  // namespace parley::cm::ibcm
