// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The InfiniBand Communication Manager on one port's QP1, for one CA GUID: IBA vol. 1 §12. Input: MADs, commands and a
// time. Output: MADs, events and a deadline (base/machine.hpp). It does not change queue pairs: the user does, at its
// events.
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
// Every successful connect() ends with one of ReplyReceived, Rejected and Failed. A set-up that continues after that ends with
// one of Disconnected, Rejected and Failed. Every accepted RequestReceived is followed by one of Ready, Rejected, Failed and
// DisconnectRequested. A set-up that ends before the user decides is reported too; commands then fail with wrong_state. After
// destroy() there are no more events of an id.
//
// docs/ibcm.md has the states, the timers and the intended differences from Linux; tests/states/ibcm.txt has every state with
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

  /// Any octets received on QP1. Those that are not a MAD of this class are counted.
  void handle_mad(Instant now, const MadFrom& from, ConstBytes mad);
  void handle_deadline(Instant now);
  Instant next_deadline() const;

  /// Writes the next MAD, 256 octets, into `out`. False: there is none.
  bool poll_transmit(MadTo& to, MutBytes out);
  bool has_transmit() const;
  std::optional<Event> poll_event();
  bool has_event() const;
  /// poll_transmit() or poll_event() may return something.
  bool has_work() const;
  /// has_work() is false, and next_deadline() is later than `now`.
  bool is_quiet(Instant now) const;

  // Commands. Errors of all: wrong_state (also for an unknown id); invalid_argument; bad_private_data (too long); no_space (a
  // bound of AgentOptions).

  /// Errors: address_in_use.
  Result<void> listen(std::uint64_t service_id, const ListenOptions& options);
  /// Requests that wait for the user's decision are kept.
  void unlisten(std::uint64_t service_id);

  /// Active: sends a REQ, or queues it until the window has room. Ends with ReplyReceived, Rejected or Failed.
  Result<ConnectionId> connect(Instant now, const ConnectParameters& parameters);
  /// Passive, in req_rcvd or mra_req_sent: sends the REP. Move the queue pair to RTR first.
  Result<void> accept(Instant now, ConnectionId id, const AcceptParameters& parameters);
  /// Active, in rep_rcvd or mra_rep_sent: sends the RTU; the connection is then established. Move the queue pair to RTS first.
  Result<void> ready(Instant now, ConnectionId id, ConstBytes private_data);
  /// Before the connection is established, on either side. If a REP was sent, TimewaitExit follows.
  Result<void> reject(Instant now, ConnectionId id, const RejectParameters& parameters);
  /// Asks the peer to wait 4.096 us * 2^service_timeout for this side's REP, RTU or APR.
  Result<void> send_mra(Instant now, ConnectionId id, std::uint8_t service_timeout, ConstBytes private_data = {});
  /// Passive: limits the service timeout (0 to 31, timeout_of()) of MRAs that answer duplicates of this REQ; the lower of this and
  /// AgentOptions::mra_timeout applies.
  void limit_mra(ConnectionId id, std::uint8_t service_timeout);
  /// Passive, while the user decides and no MRA was sent: sends one with this service timeout (0 to 31), after which the peer
  /// retransmits its REQ. No-op in other states and without AgentOptions::mra_timeout.
  void remind(ConnectionId id, std::uint8_t service_timeout);
  /// When the peer's REQ last arrived, duplicates included; Instant::min() for an unknown id.
  Instant requested_at(ConnectionId id) const;
  /// Passive, in rep_sent: data arrived before the RTU (IBA §12.9; rdma_notify(COMM_EST)).
  Result<void> communication_established(Instant now, ConnectionId id);
  /// Established: sends a DREQ, ends with Disconnected. After DisconnectRequested: sends the DREP. `end` is added to a DREQ, after at
  /// most 212 octets of private data.
  Result<void> disconnect(Instant now, ConnectionId id, ConstBytes private_data = {},
                          const std::optional<EndNote>& end = {});
  /// The user releases the id, in any state: a request of ours is withdrawn (REJ 4), an undecided one rejected (REJ 28), an
  /// established connection disconnected. Messages owed to the peer are still sent; there are no more events. Unknown ids are
  /// ignored.
  void destroy(Instant now, ConnectionId id, const std::optional<EndNote>& end = {});

  /// Passive, in req_rcvd: the user has no room for the request. It is answered according to the listener's `when_full` and
  /// forgotten, so that its next copy is a new request. In another state, or without a listener, the same as destroy().
  void turn_away(Instant now, ConnectionId id);

  /// Active, established, no other LAP in progress: ends with AlternateAnswered.
  Result<void> load_alternate(Instant now, ConnectionId id, const wire::ib::CmPath& alternate,
                              ConstBytes private_data = {});
  /// Passive, after AlternateRequested.
  Result<void> answer_alternate(Instant now, ConnectionId id, const AlternateAnswer& answer);

  /// Ends with SidrReplied or Failed; destroy() withdraws it.
  Result<ConnectionId> sidr_request(Instant now, const SidrParameters& parameters);
  /// After SidrRequested. The answer is kept for duplicates of the request; the id is closed.
  Result<void> sidr_reply(Instant now, ConnectionId id, const SidrAnswer& answer);

  // Attributes of a connection; none for unknown ids.
  std::optional<State> state(ConnectionId id) const;
  std::optional<AlternateState> alternate_state(ConnectionId id) const;
  struct Ids {
    std::uint32_t local_comm_id = 0, remote_comm_id = 0;
    std::uint32_t local_qpn = 0, remote_qpn = 0;
    std::uint64_t remote_ca_guid = 0;  ///< 0: unknown
  };
  std::optional<Ids> ids(ConnectionId id) const;
  /// The step of this side, for a failure.
  Step step(ConnectionId id) const;

  const Counters& counters() const;
  /// Ids alive, including those that the user destroyed but that still owe a message or are remembered.
  std::size_t connection_count() const;
  /// Ended connections that are remembered.
  std::size_t remembered_count() const;

 private:
  class Body;
  explicit Agent(std::unique_ptr<Body> body);
  std::unique_ptr<Body> body_;
};

}  // namespace parley::cm::ibcm
