// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// What a player said and told, as text for tables.
#pragma once
#include <fmt/format.h>

#include "kit.hpp"
#include "mpa/crc32c.hpp"
#include "tests/unit/reviewed.hpp"

namespace parley::replay::test {

/// The items of what a player said.
inline std::string items_text(ConstBytes stream) {
  StepReader reader;
  reader.octets(stream, {}, true);
  reader.agreed(capture::Known::yes, capture::Known::no, false);
  reader.finish({}, true);
  Assembler assembler;
  std::size_t n = 0;
  for (const Step& s : reader.steps()) assembler.add(s, n++);
  assembler.finish();
  std::string out;
  for (const Item& item : assembler.items())
    out += fmt::format("    {}, CRC32c {:08x}\n", describe(item),
                       mpa::crc32c(item.kind == Item::Kind::message ? item.payload : item.octets));
  return out;
}

inline std::string numbers(const PlayResult& r) {
  return fmt::format("{} of {} steps played, {} of {} compared, {} not in the recording, {} differences{}{}\n",
                     r.steps_played, r.steps, r.compared, r.expected, r.not_compared, r.differences,
                     r.left_out ? ", left out" : "", r.partial ? ", partial" : "");
}

inline std::string told(const PlayResult& r) {
  std::string out = "  " + numbers(r);
  for (const std::string& n : r.notes) out += "  " + n + "\n";
  if (!r.difference) return out;
  const Difference& d = *r.difference;
  out += fmt::format("  DIFFERENCE: {} [{}]\n", d.what, d.rule);
  for (const auto& [name, e] : {std::pair("recorded", &d.recorded), std::pair("live", &d.live)})
    if (*e)
      out += fmt::format("    {}: frame {} at {} ms: {}: {}\n", name, (*e)->frame, (*e)->at / 1ms, (*e)->words,
                         hex((*e)->octets, (*e)->known, 24));
  return out;
}

inline std::string lines_of(const PlayResult& r) {
  std::string out;
  for (const LogLine& l : r.log)
    out += fmt::format("  {:>5} ms {} {:>2}: {}\n", l.at / 1ms, l.played ? "played" : "live  ", l.frame, l.text);
  return out;
}

inline PlayOptions going_on(bool recorded_only = false) {
  PlayOptions o;
  o.keep_going = true;
  o.says_recorded_only = recorded_only;
  return o;
}

}  // namespace parley::replay::test
