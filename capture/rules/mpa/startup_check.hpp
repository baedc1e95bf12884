// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Checks MPA startup frames, and computes what they agree on: RFC 5044 §7.1, RFC 6581 §6, §9, §10, OFA 2007-10 Rtr.
#pragma once
#include <optional>
#include <string_view>

#include "capture/findings.hpp"
#include "capture/read/fpdu/fpdu_walker.hpp"

namespace parley::capture {

inline constexpr std::string_view key_head = "MPA ID ";  ///< the common beginning of all keys, even misspelt ones
/// Whether the two are equal up to the length of the shorter one.
bool begins_like(ConstBytes head, std::string_view text);

/// What Request and Reply agree on. Either may be missing from the capture.
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
/// `request` may be missing.
void check_reply(const std::optional<StartupSeen>& request, const StartupSeen& reply, Findings& findings);

/// Whether a responder must answer this Request, at least with R=1 (RFC 5044 §7.1.2 rule 2). False for revisions other
/// than 1 and 2: a receiver that cannot interoperate with a revision closes the connection (§7.1.1).
bool proper_request(const StartupSeen& request);
/// Whether the initiator must not continue after this Reply (RFC 5044 §7.1.2 rules 3, 5, 9, RFC 6581 §6).
bool invalid_reply(const StartupSeen& reply);
/// Whether initiators may close after this Reply: it has M, a revision that is unknown or was not requested, too much
/// private data, or no enhanced data in answer to enhanced data. `request` may be missing.
bool may_refuse(const std::optional<StartupSeen>& request, const StartupSeen& reply);
/// Whether neither side must raise a depth (RFC 6581 §9.1). Then there is no cause for a Terminate for lack of IRD.
bool depths_fit(const wire::MpaEnhanced& request, const wire::MpaEnhanced& reply);

/// Reads a frame. The caller adds frame number and time. `known`: how many octets of the private data, as PD_Length
/// counts them, are in the capture.
StartupSeen read_startup(const wire::MpaFrameView& frame, std::size_t known = ~std::size_t{0});
/// "rev=2 C S A+D ird=8 ord=8 pd=4".
std::string describe_startup(const StartupSeen& frame);

}  // namespace parley::capture
