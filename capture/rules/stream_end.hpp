// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Remarks on a TCP connection, used for MPA and for QP negotiations.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "capture/report.hpp"

namespace parley::capture {

struct StreamEnd {
  std::uint64_t frame = 0;
  std::string_view what;
  Side side = Side::initiator;
};
/// Adds the ends of one side. Frame 0: no such segment was seen.
void add_ends(std::vector<StreamEnd>& to, std::uint64_t fin_frame, std::uint64_t rst_frame, Side side);
/// "FIN by the initiator (frame 75), FIN by the responder (frame 76)", "open at the end of the capture"
std::string end_text(std::vector<StreamEnd> ends);

/// "120 octets of the initiator are not in the capture (2 places); what they held is not judged"
/// `places`: number of holes. `cut`: the snap length cut packets.
std::string missing_text(Side side, std::uint64_t octets, std::uint64_t places, bool cut);
/// "3 TCP retransmissions by the initiator"
std::string retransmissions_text(Side side, std::uint64_t count);

}  // namespace parley::capture
