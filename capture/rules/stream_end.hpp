// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// How a TCP connection ended, in words.
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
/// Of one side; frames of 0 are none.
void add_ends(std::vector<StreamEnd>& to, std::uint64_t fin_frame, std::uint64_t rst_frame, Side side);
/// "FIN by the initiator (frame 75), FIN by the responder (frame 76)", "open at the end of the capture"
std::string end_text(std::vector<StreamEnd> ends);

}  // namespace parley::capture
