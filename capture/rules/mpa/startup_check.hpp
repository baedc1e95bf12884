// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Judges MPA startup frames and tells what they agree on: RFC 5044 §7.1, RFC 6581 §6, §9, §10, OFA 2007-10 Rtr.
#pragma once
#include <optional>
#include <string_view>

#include "capture/findings.hpp"
#include "capture/read/fpdu/fpdu_walker.hpp"

namespace parley::capture {

inline constexpr std::string_view key_head = "MPA ID ";  ///< all keys begin so, and a misspelt one is worth a finding
/// As far as both go.
bool begins_like(ConstBytes head, std::string_view text);

/// What Request and Reply say together; either may be missing from the capture.
struct Agreement {
  std::uint8_t revision = 1;
  bool accepted = false;
  Known crc = Known::unknown;
  Known markers_to_responder = Known::unknown, markers_to_initiator = Known::unknown;
  bool peer_to_peer = false;                                      ///< A on both sides (RFC 6581 §9.2)
  mpa::RtrSet rtr;                                                ///< kinds common to both, with peer_to_peer
  bool rtr_frame = false;                                         ///< S on both sides under revision 1
  bool depths = false;                                            ///< both frames carried enhanced data
  std::uint16_t ird = 0, ord = 0;                                 ///< the initiator's
  std::optional<std::uint16_t> initiator_reads, responder_reads;  ///< how many Reads each may have outstanding
};

Agreement agree(const std::optional<StartupSeen>& request, const std::optional<StartupSeen>& reply);

void check_request(const StartupSeen& request, Findings& findings);
/// `request` may be unknown.
void check_reply(const std::optional<StartupSeen>& request, const StartupSeen& reply, Findings& findings);

/// A responder has to answer it, if only with R=1 (RFC 5044 §7.1.2 rule 2). Not one of revision 0: a receiver that cannot
/// interoperate with a revision closes the connection (§7.1.1).
bool proper_request(const StartupSeen& request);
/// No initiator may go on after this Reply (RFC 5044 §7.1.2 rules 3, 5, 9, RFC 6581 §6).
bool invalid_reply(const StartupSeen& reply);
/// The Reply holds something that makes initiators close: M, a revision that was not asked for or is unknown, too much
/// private data, no enhanced data in return. `request` may be unknown.
bool may_refuse(const std::optional<StartupSeen>& request, const StartupSeen& reply);
/// Neither side has to raise anything (RFC 6581 §9.1): no cause for a Terminate for lack of IRD.
bool depths_fit(const wire::MpaEnhanced& request, const wire::MpaEnhanced& reply);

/// What a frame says; when and where it was seen is the caller's to add.
/// `known`: so many octets of the private data, as PD_Length counts them, are in the capture.
StartupSeen read_startup(const wire::MpaFrameView& frame, std::size_t known = ~std::size_t{0});
/// "rev=2 C S A D ird=8 ord=8 pd=4", for people.
std::string describe_startup(const StartupSeen& frame);

}  // namespace parley::capture
