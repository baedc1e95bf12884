// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// What a report says, in few lines, for tables of what becomes of a capture when each of its octets is altered or lost.
#pragma once
#include <fmt/format.h>

#include "capture/report/text.hpp"
#include "tests/unit/capture/exchange.hpp"
#include "tests/unit/runs.hpp"

namespace parley::capture::test {

using parley::by_letters;
using parley::Runs;

/// All that a report says of a connection but its addresses and times, in few lines.
inline std::string brief(const ConnectionReport& c) {
  const auto counts = [](const DirectionCounts& d) {
    std::string out = fmt::format("{} FPDUs, {} messages, {} octets", d.fpdus, d.messages, d.octets);
    if (d.missing_octets > 0) out += fmt::format(", {} octets missing", d.missing_octets);
    if (d.retransmissions > 0) out += fmt::format(", {} repeated", d.retransmissions);
    if (d.out_of_order > 0) out += fmt::format(", {} out of order", d.out_of_order);
    return out;
  };
  const auto frame = [](const std::optional<StartupSeen>& s) {
    return s ? fmt::format("{}{}{}", s->frame, s->enhanced_cut ? ", enhanced data cut" : "",
                           s->private_data_whole ? "" : ", cut")
             : std::string("none");
  };
  const std::string result = c.judgement.why.find("not in the capture") != std::string::npos
                                 ? fmt::format("{}, {}", to_string(c.outcome), to_string(c.judgement.standing))
                                 : result_text(c);
  std::string out = fmt::format("  {}; revision {}{}{}{}; {}", result, c.revision, c.crc ? ", CRC" : "",
                                c.markers_to_responder ? ", markers to the responder" : "",
                                c.markers_to_initiator ? ", markers to the initiator" : "", rtr_text(c));
  if (c.depths_negotiated || c.ird != 0 || c.ord != 0)
    out += fmt::format("; IRD {} ORD {}{}", c.ird, c.ord, c.depths_negotiated ? "" : " not negotiated");
  out += fmt::format("; Request {}, Reply {}", frame(c.request), frame(c.reply));
  if (c.terminate) out += fmt::format("; Terminate {} by the {}", c.terminate->frame, to_string(c.terminate->from));
  out += fmt::format("\n  {} | {}\n", counts(c.from_initiator), counts(c.from_responder));
  for (const Finding& f : c.findings)
    out += fmt::format("    {} {}{}: {} [{}]\n", f.frame, to_string(f.severity),
                       f.side ? fmt::format(" of the {}", to_string(*f.side)) : "", f.text, f.rule);
  return out;
}
inline std::string brief(const FileReport& r) {
  std::string out;
  for (const ConnectionReport& c : r.connections) out += brief(c);
  return out.empty() ? "  no MPA connection\n" : out;
}
inline std::string brief(const Frames& frames) { return brief(analyse(frames)); }

}  // namespace parley::capture::test
