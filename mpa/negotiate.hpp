// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The decisions of MPA set-up as plain functions: the offer, the answer, the meaning of an answer.
// RFC 5044 §4.3, §4.4 (markers, CRC), RFC 6581 §9 (IRD, ORD, RTR), OFA 2007-10 Rtr §2 (S on revision 1).
// Every decision adds a sentence to Parameters.reasons.
#pragma once
#include "mpa/quirks.hpp"
#include "mpa/startup_options.hpp"
#include "wire/mpa.hpp"

namespace parley::mpa {

inline constexpr std::size_t reasons_max = 16;
/// Adds a sentence; does nothing once there are reasons_max.
void add_reason(Parameters& p, const Reason& reason);
inline void add_reason(Parameters& p, std::string_view text) { add_reason(p, Reason{.text = text}); }

/// "Send, Write" or "none".
std::string to_string(const RtrSet& set);
inline RtrSet both(const RtrSet& x, const RtrSet& y) {
  return {x.send && y.send, x.write && y.write, x.read && y.read};
}

/// Errors: invalid_argument if a value is out of range or two contradict each other.
Result<void> check_options(Role role, const StartupOptions& options);

/// The contents of the initiator's Request.
struct RequestPlan {
  std::uint8_t revision = 1;
  std::uint8_t flags = 0;
  std::optional<wire::MpaEnhanced> enhanced;
};
/// Fills p with this side's half: revision, crc, rx_markers, the wanted rtr, ird, ord, offered, peer_to_peer.
RequestPlan plan_request(const StartupOptions& options, const Quirk& peer, const Quirk& play, Parameters& p);

/// Why an accepting Reply cannot be used; terminate_code 0: it can be used.
struct Refusal {
  std::uint8_t terminate_code = 0;
  Errc code = Errc::ok;
  std::string_view rule;
  std::string received;
  std::string advice;
};
/// Initiator, enhanced Reply: settles p.ird, p.ord and p.rtr, or returns the Terminate's code (RFC 6581 §9.1, §9.2).
Refusal judge_enhanced_reply(const StartupOptions& options, const Quirk& peer, const Quirk& play,
                             const wire::MpaEnhanced& reply, Parameters& p);
/// Initiator, revision 1: settles p.rtr by the Reply's S flag (OFA 2007-10 Rtr §2 rule 2).
void judge_plain_reply(const StartupOptions& options, bool asked_s, bool reply_s, Parameters& p);

/// Responder, enhanced Request: returns the answer and settles p.ird, p.ord, p.rtr, p.answered and p.peer_to_peer.
wire::MpaEnhanced answer_enhanced(const StartupOptions& options, const Quirk& play, const wire::MpaEnhanced& request,
                                  Parameters& p);
/// Responder, Request that is not enhanced: returns whether to answer with S, which is false above revision 1; settles
/// p.ird, p.ord and p.rtr (OFA 2007-10 Rtr §2 rule 2).
bool answer_plain(const StartupOptions& options, const Quirk& peer, const Quirk& play, std::uint8_t revision,
                  bool request_s, Parameters& p);
/// CRC and markers from both halves' flags (RFC 5044 §4.3, §4.4, §7.1.1).
void settle_flags(bool own_c, bool own_m, std::uint8_t peer_flags, Parameters& p);

}  // namespace parley::mpa
