// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "capture/rules/stream_end.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace parley::capture {

void add_ends(std::vector<StreamEnd>& to, std::uint64_t fin_frame, std::uint64_t rst_frame, Side side) {
  if (fin_frame != 0) to.push_back({fin_frame, "FIN", side});
  if (rst_frame != 0) to.push_back({rst_frame, "RST", side});
}

std::string end_text(std::vector<StreamEnd> ends) {
  std::sort(ends.begin(), ends.end(), [](const StreamEnd& a, const StreamEnd& b) { return a.frame < b.frame; });
  std::string out;
  for (const StreamEnd& e : ends)
    out += fmt::format("{}{} by the {} (frame {})", out.empty() ? "" : ", ", e.what, to_string(e.side), e.frame);
  return out.empty() ? "open at the end of the capture" : out;
}

}  // namespace parley::capture
