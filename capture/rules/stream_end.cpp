// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "capture/rules/stream_end.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.hpp"

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

std::string missing_text(Side side, std::uint64_t octets, std::uint64_t places, bool cut) {
  return fmt::format("{} of the {} {} not in the capture ({}{}); what {} held is not judged", counted(octets, "octet"),
                     to_string(side), octets == 1 ? "is" : "are", counted(places, "place"),
                     cut ? ", packets cut by the snap length" : "", octets == 1 ? "it" : "they");
}

std::string retransmissions_text(Side side, std::uint64_t count) {
  return fmt::format("{} by the {}", counted(count, "TCP retransmission"), to_string(side));
}

}  // namespace parley::capture
