// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// What a report says, on one line, for tables of what becomes of a capture when each of its octets is altered or lost.
#pragma once
#include <fmt/format.h>

#include "capture/report/text.hpp"
#include "tests/unit/capture/ids.hpp"
#include "tests/unit/runs.hpp"

namespace parley::capture::test {

using parley::by_letters;
using parley::Runs;

/// A connection by values and ids: outcome, what was agreed, frames of the startup frames, what each side sent
/// (FPDUs/messages, octets, octets that are missing, packets again and out of order), and the findings.
inline std::string brief(const ConnectionReport& c) {
  const auto counts = [](const DirectionCounts& d) {
    std::string out = fmt::format("{}/{} {} octets", d.fpdus, d.messages, d.octets);
    if (d.missing_octets > 0) out += fmt::format(" -{} octets", d.missing_octets);
    if (d.retransmissions > 0) out += fmt::format(" again {}", d.retransmissions);
    if (d.out_of_order > 0) out += fmt::format(" late {}", d.out_of_order);
    return out;
  };
  const auto frame = [](const std::optional<StartupSeen>& s) {
    return s ? fmt::format("{}{}{}", s->frame, s->enhanced_cut ? "e" : "", s->private_data_whole ? "" : "p")
             : std::string("-");
  };
  std::string out = fmt::format("{} {}, revision {}{}{}{}, {}", to_string(c.outcome), to_string(c.judgement.standing),
                                c.revision, c.crc ? " CRC" : "", c.markers_to_responder ? " M>r" : "",
                                c.markers_to_initiator ? " M>i" : "", rtr_text(c));
  if (c.depths_negotiated || c.ird != 0 || c.ord != 0)
    out += fmt::format(", {}{}/{}", c.depths_negotiated ? "" : "not negotiated ", c.ird, c.ord);
  out += fmt::format(", {} {}", frame(c.request), frame(c.reply));
  if (c.terminate) out += fmt::format(" T{}{}", c.terminate->frame, to_string(c.terminate->from)[0]);
  out += fmt::format(" | {} | {}", counts(c.from_initiator), counts(c.from_responder));
  return out + found(c);
}
inline std::string brief(const FileReport& r) {
  std::string out;
  for (const ConnectionReport& c : r.connections) out += (out.empty() ? "" : " || ") + brief(c);
  return out.empty() ? "no MPA connection" : out;
}
inline std::string brief(const Frames& frames) { return brief(analyse(frames)); }

}  // namespace parley::capture::test
