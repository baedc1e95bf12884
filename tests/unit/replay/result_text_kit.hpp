// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// What a player said and told, as text for tables.
#pragma once
#include <fmt/format.h>

#include "kit.hpp"
#include "mpa/crc32c.hpp"
#include "tests/unit/reviewed.hpp"
#include "tests/unit/runs.hpp"

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

inline std::string result_text(const PlayResult& r) {
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

/// By values: steps played, items compared, differences; a letter for each note and for the difference, which of the frames it
/// is about.
inline std::string in_short(const PlayResult& r, Legend& legend) {
  std::string out = fmt::format("{}/{} played, {}/{} compared, {} more, {} differences{}{}", r.steps_played, r.steps,
                                r.compared, r.expected, r.not_compared, r.differences, r.left_out ? ", left out" : "",
                                r.partial ? ", partial" : "");
  for (const std::string& n : r.notes) out += fmt::format(" [{}]", legend.letter_of_form(n));
  if (!r.difference) return out;
  const Difference& d = *r.difference;
  out += fmt::format(" DIFFERENCE [{}]", legend.letter_of_form(fmt::format("{} [{}]", d.what, d.rule)));
  for (const auto& [name, e] : {std::pair("recorded", &d.recorded), std::pair("live", &d.live)})
    if (*e) out += fmt::format(" {} {} at {} ms, {} octets", name, (*e)->frame, (*e)->at / 1ms, (*e)->octets.size());
  return out;
}

/// Every line of the log by its form, every note, and the numbers of a result.
inline void add_result(Tally& tally, const PlayResult& r) {
  const auto n = [](auto of) { return static_cast<std::int64_t>(of); };
  tally.add("results", {n(r.steps_played), n(r.steps), n(r.compared), n(r.expected), n(r.not_compared),
                        n(r.differences), n(r.ignored), r.left_out ? 1 : 0, r.partial ? 1 : 0});
  for (const std::string& note : r.notes) tally.add("note: " + without_numbers(note));
  for (const std::string& word : r.ignored_words) tally.add("ignored: " + without_numbers(word));
  for (const LogLine& l : r.log)
    tally.add((l.played ? "played " : "live ") + without_numbers(l.text), {l.at / 1ms, n(l.frame)});
  if (!r.difference) return;
  const Difference& d = *r.difference;
  tally.add(fmt::format("difference: {} [{}]", without_numbers(d.what), d.rule));
  for (const auto& [name, e] : {std::pair("recorded", &d.recorded), std::pair("live", &d.live)})
    if (*e)
      tally.add(fmt::format("{}: {}", name, without_numbers((*e)->words)),
                {n((*e)->frame), (*e)->at / 1ms, n((*e)->octets.size()), n((*e)->known)});
}

inline PlayOptions going_on(bool recorded_only = false) {
  PlayOptions o;
  o.keep_going = true;
  o.says_recorded_only = recorded_only;
  return o;
}

}  // namespace parley::replay::test
