// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The Agent's data of one connection, set-up or SIDR exchange.
#pragma once
#include <array>
#include <list>
#include <memory>
#include <utility>

#include "cm/admission.hpp"
#include "cm/ibcm/events.hpp"

namespace parley::cm::ibcm {

using Octets = std::array<std::uint8_t, PARLEY_IB_MAD_LEN>;

struct Connection {
  ConnectionId id = 0;
  State state = State::closed;
  AlternateState alternate = AlternateState::idle;
  QpType qp_type = QpType::rc;
  bool active = false;           // sent the REQ, or the SIDR_REQ
  bool orphan = false;           // destroyed by the user
  bool was_established = false;  // a Disconnected must follow
  bool peer_known = false;       // remote_id, remote_guid and remote_qpn are valid
  bool by_id = false;            // found by (remote_guid, remote_id)
  bool by_qpn = false;           // found by (remote_guid, remote_qpn)
  bool by_sidr = false;          // found by (to.destination, remote_id)
  bool has_alternate = false;    // the REQ has one
  bool offered_retry_after = false;
  std::uint32_t local_id = 0, remote_id = 0;
  std::uint32_t local_qpn = 0, remote_qpn = 0;
  std::uint64_t remote_guid = 0;
  std::uint64_t service_id = 0;
  std::uint64_t tid = 0;          // of the exchange
  std::uint64_t lap_tid = 0;      // of the last LAP
  std::uint32_t request_psn = 0;  // of the peer's REQ: distinguishes duplicates (with tid and remote_qpn)
  MadTo to{};                     // the path to the peer
  Admission::Ticket ticket{};     // passive: in its listener's admission
  std::uint64_t place = 0;        // active, queued: its place in the window
  bool in_window = false;         // active: counts as outstanding
  bool is_remembered = false;     // in the list of ended connections,
  std::list<ConnectionId>::iterator remembered{};  // at this position
  std::optional<EndNote> peer_end;                 // from a DREQ that crossed this side's
  std::unique_ptr<Failure> why;                    // for the Disconnected that must follow; none: graceful

  // The message that waits for its answer, and the last answer, kept for duplicates.
  std::unique_ptr<Octets> unanswered, answer;
  wire::ib::CmMessageType unanswered_type{}, answer_type{};
  Timers timers{};
  std::uint32_t retries = 0;     // most retransmissions of a message
  std::uint32_t sends = 0;       // transmissions of `unanswered`
  std::uint32_t waits = 0;       // waits that the peer has requested
  std::uint8_t mra_timeout = 0;  // passive: for MRAs that answer duplicates of the REQ
  Duration interval{};           // with Timers::Kind::spec
  Duration back_off{};           // the next wait
  Duration timewait{};
  Instant begun{}, give_up = never;
  Instant requested_at = Instant::min();  // passive: arrival of the REQ, duplicates included
  Instant deadline = never;
};

inline constexpr std::uint32_t waits_max = 64;  // MRAs and busy answers that a set-up accepts

}  // namespace parley::cm::ibcm
