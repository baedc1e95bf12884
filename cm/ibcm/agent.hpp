// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The InfiniBand Communication Manager behind one port's QP1, for one CA GUID: IBA vol. 1 §12. MADs, commands and a time go in;
// MADs, events and a deadline come out (base/machine.hpp). It moves no queue pair: an event says when the user has to.
//
// The active side                                     The passive side
//   connect()            -> REQ                         listen()
//   ReplyReceived        <- REP                         RequestReceived <- REQ
//   (RTR, RTS) ready()   -> RTU                         (RTR, RTS) accept() -> REP, or reject() -> REJ
//                                                       Ready           <- RTU
//   disconnect()         -> DREQ                        DisconnectRequested <- DREQ
//   Disconnected         <- DREP                        disconnect()    -> DREP; Disconnected
//   TimewaitExit                                        TimewaitExit
//
// Every connect() that succeeds ends with one of ReplyReceived, Rejected and Failed, and a set-up that came further than that
// with one of Disconnected, Rejected and Failed. Every RequestReceived that was accepted is followed by one of Ready, Rejected,
// Failed and DisconnectRequested. A set-up that has ended before the user decided says so too; commands are wrong_state then.
// After destroy() nothing more is said of an id.
//
// docs/ibcm.md has the states, the timers, and where this departs from Linux on purpose; tests/states/ibcm.txt every state with
// every input.
#pragma once
#include <memory>
#include <optional>
#include <span>

#include "base/machine.hpp"
#include "cm/ibcm/events.hpp"
#include "cm/ibcm/options.hpp"
#include "parley/result.hpp"

namespace parley::cm::ibcm {

class Agent {
 public:
  /// Errors: invalid_argument, with the option's name.
  static Result<Agent> create(const AgentOptions& options);
  Agent(Agent&&) noexcept;
  Agent& operator=(Agent&&) noexcept;
  ~Agent();

  /// Any octets that came to QP1. Those that are no MAD of this class are counted.
  void handle_mad(Instant now, const MadFrom& from, ConstBytes mad);
  void handle_deadline(Instant now);
  Instant next_deadline() const;

  /// The next MAD: 256 octets into `out`, which has room for them. False: there is none.
  bool poll_transmit(MadTo& to, MutBytes out);
  bool has_transmit() const;
  std::optional<Event> poll_event();
  bool has_event() const;
  /// poll_transmit() or poll_event() may give something.
  bool has_work() const;
  /// Not has_work(), and next_deadline() is later.
  bool is_quiet(Instant now) const;

  // Commands. Errors of all: wrong_state (also for an id that is not known any more); invalid_argument; bad_private_data (too
  // long); no_space (a bound of AgentOptions).

  /// Errors: address_in_use.
  Result<void> listen(std::uint64_t service_id, const ListenOptions& options);
  /// Requests that wait for the user go on.
  void unlisten(std::uint64_t service_id);

  /// Active: sends a REQ, or queues it for its turn. Ends with ReplyReceived, Rejected or Failed.
  Result<ConnectionId> connect(Instant now, const ConnectParameters& parameters);
  /// Passive, in req_rcvd or mra_req_sent: sends the REP. Have the queue pair in RTR before.
  Result<void> accept(Instant now, ConnectionId id, const AcceptParameters& parameters);
  /// Active, in rep_rcvd or mra_rep_sent: sends the RTU, and established it is. Have the queue pair in RTS before.
  Result<void> ready(Instant now, ConnectionId id, ConstBytes private_data);
  /// Before the connection is established, either side. Where a REP was sent, TimewaitExit follows.
  Result<void> reject(Instant now, ConnectionId id, const RejectParameters& parameters);
  /// Asks the peer to wait 4.096 us * 2^service_timeout for the REP, the RTU or the APR that this side owes.
  Result<void> send_mra(Instant now, ConnectionId id, std::uint8_t service_timeout, ConstBytes private_data = {});
  /// Passive: MRAs that answer duplicates of this REQ ask for at most this time (0 to 31, timeout_of()), and for less where
  /// AgentOptions::mra_timeout is less.
  void limit_mra(ConnectionId id, std::uint8_t service_timeout);
  /// Passive, while the user decides and no MRA has gone: sends one with this service timeout (0 to 31), after which the peer repeats its
  /// REQ. No-op in other states and without AgentOptions::mra_timeout.
  void remind(Instant now, ConnectionId id, std::uint8_t service_timeout);
  /// When the peer's REQ came last, the first time or again; Instant::min() of an id that is not known.
  Instant requested_at(ConnectionId id) const;
  /// Passive, in rep_sent: data came before the RTU (IBA §12.9; rdma_notify(COMM_EST)).
  Result<void> communication_established(Instant now, ConnectionId id);
  /// Established: sends a DREQ, ends with Disconnected. After DisconnectRequested: sends the DREP. `end` goes into a DREQ, behind at most
  /// 212 octets of private data.
  Result<void> disconnect(Instant now, ConnectionId id, ConstBytes private_data = {},
                          const std::optional<EndNote>& end = {});
  /// The user has done with it, in any state: a request of ours is taken back (REJ 4), an undecided one rejected (REJ 28), an
  /// established connection disconnected. What is owed to the peer goes on; nothing more is said of it. Unknown ids are ignored.
  void destroy(Instant now, ConnectionId id, const std::optional<EndNote>& end = {});

  /// Passive, in req_rcvd: its user has no room for the request. It is answered as the listener's `when_full` has it, and
  /// forgotten, so that the next copy of it is a new one. In another state, or where nobody listens any more, as destroy().
  void turn_away(Instant now, ConnectionId id);

  /// Active, established, no other LAP under way: ends with AlternateAnswered.
  Result<void> load_alternate(Instant now, ConnectionId id, const wire::ib::CmPath& alternate,
                              ConstBytes private_data = {});
  /// Passive, after AlternateRequested.
  Result<void> answer_alternate(Instant now, ConnectionId id, const AlternateAnswer& answer);

  /// Ends with SidrReplied, or Failed; destroy() takes it back.
  Result<ConnectionId> sidr_request(Instant now, const SidrParameters& parameters);
  /// After SidrRequested. The answer is kept for duplicates of the request; the id is closed.
  Result<void> sidr_reply(Instant now, ConnectionId id, const SidrAnswer& answer);

  // What is known of a connection; none for ids that are not known.
  std::optional<State> state(ConnectionId id) const;
  std::optional<AlternateState> alternate_state(ConnectionId id) const;
  struct Ids {
    std::uint32_t local_comm_id = 0, remote_comm_id = 0;
    std::uint32_t local_qpn = 0, remote_qpn = 0;
    std::uint64_t remote_ca_guid = 0;  ///< 0: not known yet
  };
  std::optional<Ids> ids(ConnectionId id) const;
  /// What this side is doing there, in the terms of a failure.
  Step step(ConnectionId id) const;

  const Counters& counters() const;
  /// Ids alive, those that the user destroyed and that still owe or remember something included.
  std::size_t connection_count() const;
  /// Ended ones that are remembered.
  std::size_t remembered_count() const;

 private:
  class Body;
  explicit Agent(std::unique_ptr<Body> body);
  std::unique_ptr<Body> body_;
};

}  // namespace parley::cm::ibcm
