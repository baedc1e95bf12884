// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// How the texts of scenarios are read and written, beside tests/states/sim_scenario_texts.txt: times, rates, sizes, ratios,
// masks, octets, names that were meant, and documents of which a line is no TOML.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include "scenario_kit.hpp"
#include "sim/scenario/scenario_value.hpp"
#include "tests/unit/reviewed.hpp"

namespace parley::sim {
namespace {

/// Separated by '|'.
constexpr std::string_view texts =
    "0|1|0.5|1.5|0.123456789012345|0.1234567890123456|1.|.5|1..2|01|1 |-1|+1|1e3|0.30000000|1s|1ms|1us|"
    "1ns|1m|1h|1.5ns|0.001us|0.0001us|320255h|320256h|1S|1sec|1s1|s||1bps|1kbps|1Kbps|1Mbps|1Gbps|1Tbps|"
    "1.5bps|1152921Tbps|1152922Tbps|1B|1kB|1KB|1KiB|1MB|1MiB|1GB|1GiB|1.5KiB|0.5B|1152921504606846976B|"
    "1152921504606846977B|1%|100%|100.1%|0.001%|0.0000001%|1/2|2/4|3/2|1/1|0/1|2/1|1/0|0/5|1/4294967295|1/4294967296|"
    "1.5/2|1/|/2|1/2%|0b1|0b|0b2|0x|0xF|0xg|1_000|0b1_1|18446744073709551615|18446744073709551616|"
    "0xffffffffffffffff|0x10000000000000000|hex:|hex:0|hex:00|hex:0_0|hex:_0|hex:0g|hex:DeAd|Hex:00|text";

std::vector<std::string_view> split(std::string_view all) {
  std::vector<std::string_view> out;
  for (;;) {
    const std::size_t end = all.find('|');
    out.push_back(all.substr(0, end));
    if (end == all.npos) return out;
    all.remove_prefix(end + 1);
  }
}

std::string read_texts() {
  std::string out = "Read as a time in ns; a rate; a size; a ratio; a mask; octets\n";
  const auto number = [](const auto& value) { return value ? fmt::format("{}", *value) : std::string("-"); };
  for (const std::string_view text : split(texts)) {
    const auto time = parse_time(text);
    const auto ratio = parse_ratio(text);
    const auto octets = parse_octets(text);
    out +=
        fmt::format("  {}{}; {}; {}; {}; {}; ", pad(fmt::format("'{}'", text), 24),
                    time ? fmt::format("{}", time->count()) : "-", number(parse_rate(text)), number(parse_size(text)),
                    ratio ? fmt::format("{}/{}", ratio->of, ratio->in) : "-", number(parse_mask(text)));
    if (octets)
      for (const char c : *octets) out += fmt::format("{:02x}", static_cast<unsigned char>(c));
    else
      out += "-";
    out += "\n";
  }
  return out;
}

constexpr std::uint64_t numbers[] = {0ULL,
                                     1ULL,
                                     9ULL,
                                     10ULL,
                                     999ULL,
                                     1000ULL,
                                     1001ULL,
                                     1023ULL,
                                     1024ULL,
                                     1500ULL,
                                     1536ULL,
                                     2048ULL,
                                     9999ULL,
                                     10'240ULL,
                                     65'535ULL,
                                     65'536ULL,
                                     999'999ULL,
                                     1'000'000ULL,
                                     1'000'001ULL,
                                     1'048'576ULL,
                                     1'500'000ULL,
                                     2'500'000'000ULL,
                                     60'000'000'000ULL,
                                     90'000'000'000ULL,
                                     1'234'500'000ULL,
                                     3'600'000'000'000ULL,
                                     1ULL << 30,
                                     3ULL << 30,
                                     1ULL << 50};

std::string written_texts() {
  std::string out = "Written as a time; a rate; a size; a mask\n";
  for (const std::uint64_t n : numbers) {
    out += fmt::format("  {}: {}; {}; {}; {}\n", n, time_text(Duration(static_cast<std::int64_t>(n))), rate_text(n),
                       size_text(n), mask_text(n));
  }
  out += fmt::format("  -1: {}; -5 s: {}\nRatios\n", time_text(Duration(-1)), time_text(Duration(-5'000'000'000)));
  for (const Ratio r : {Ratio{0, 1},
                        {1, 1},
                        {1, 2},
                        {1, 3},
                        {2, 4},
                        {1, 100},
                        {1, 1000},
                        {1, 100'000},
                        {1, 1'000'000},
                        {999, 1000},
                        {7, 8},
                        {1, 0},
                        {0xFFFF'FFFF, 0xFFFF'FFFF},
                        {1, 0xFFFF'FFFF}})
    out += fmt::format("  {}/{}: {}\n", r.of, r.in, ratio_text(r));
  out += "Octets and quotes\n";
  for (const std::string_view text : {std::string_view("plain"), std::string_view("hex:00"), std::string_view("a\nb"),
                                      std::string_view("a\"b\\c"), std::string_view("\x01\x1F\x7F\x20", 4),
                                      std::string_view("\0\xFF", 2), std::string_view("\xC3\xA9"), std::string_view()})
    out += fmt::format("  {} {}\n", quote(octets_text(text)), text.find('\xFF') == text.npos ? quote(text) : "");
  for (const std::size_t n : {0U, 1U, 26U, 27U, 53U}) out += fmt::format("  {}: '{}'\n", n, filler(n));
  return out;
}

std::string names_meant() {
  const std::vector<std::string_view> words{
      "port", "private_data", "pending_max", "request_timeout", "rtr", "rto_min", "", "to"};
  std::string out = "Meant\n";
  for (const std::string_view word : {"port",
                                      "prot",
                                      "pord",
                                      "ort",
                                      "xport",
                                      "po",
                                      "privatedata",
                                      "data_private",
                                      "private",
                                      "data",
                                      "request",
                                      "timeout",
                                      "pending",
                                      "rt",
                                      "rrt",
                                      "rtrt",
                                      "rto_mni",
                                      "rto",
                                      "t",
                                      "ot",
                                      "tox",
                                      "x",
                                      "",
                                      "unlike",
                                      "request_timeouts_all",
                                      "pirvate_adta",
                                      "pendingmax",
                                      "max",
                                      "ma"})
    out += fmt::format("  '{}': '{}'\n", word, nearest(word, words));
  out += fmt::format("  64 times p: '{}', 65 times port...: '{}'\n", nearest(std::string(64, 'p'), words),
                     nearest("port" + std::string(61, 'x'), words));
  return out;
}

constexpr std::string_view documents[] = {"a = ",
                                          "a = 1\nb = = 2\nc = 3",
                                          "a = 1 2",
                                          " = 1",
                                          "a",
                                          "a = 'x",
                                          "a = \"x\nb = 2",
                                          "a = \"\"\"x\nb = 2",
                                          "[a\nb = 1",
                                          "[a.b\nc = 1",
                                          "[a.]\nc = 1",
                                          "[[a]\nb = 1",
                                          "[]\nb = 1",
                                          "[[]]\nb = 1",
                                          "[=]",
                                          "a = 1\na = 2\nb = 3",
                                          "[a]\n[a]\nb = 1",
                                          "a = {b = 1",
                                          "a = [1,\n2",
                                          "a = 2021-13-01\nb = 1",
                                          "a = 1.\nb = 2",
                                          "a = 0x\nb = 2",
                                          "a = \xC3\xA9",
                                          "# \xC3\xA9\na = '\xC3\xA9'\nb = \xC3\xA9",
                                          "\xEF\xBB\xBF"
                                          "a = 1",
                                          "a = \"\\x\"\nb = 1",
                                          "  a =\t \nb = 1",
                                          "a-b = \nc_d = \nE1 = 1",
                                          "a = '''x'''''\xC3\xA9",
                                          "a = 'b'\xC3\xA9",
                                          "a = \"\\\"\"\xC3\xA9",
                                          "\n\n\n   x\xC3\xA9",
                                          "a = true\nb = inf\nc = 1979-05-27T07:32:00Z\nd = [1, 'x', {e = 2}]"};

/// Documents of which lines are wrong by themselves: what is told, and which keys are still there.
std::string broken_documents() {
  std::string out = "Documents with broken lines\n";
  for (const std::string_view document : documents) {
    const Document read = read_document(document, "d");
    std::string shown(document);
    for (std::size_t at = 0; (at = shown.find('\n', at)) != std::string::npos;) shown.replace(at, 1, " | ");
    out += fmt::format("  {}\n", shown);
    for (const ScenarioError& error : read.errors) out += fmt::format("    {}\n", told(error));
    out += read.whole ? "    whole:" : "    not whole:";
    for (const DocEntry& entry : read.root.entries)
      out += fmt::format(" {} at {}:{}, {} at {}:{};", entry.key, entry.line, entry.column, describe(entry.value),
                         entry.value.line, entry.value.column);
    out += "\n";
  }
  const std::string long_text(1 << 20, '#');
  out += fmt::format("  1 MiB: {} errors; an octet more: {}\n", read_document(long_text, "d").errors.size(),
                     read_document(long_text + "#", "d").errors.at(0).to_string());
  return out;
}

// What stands behind a text in memory is no part of it.
TEST(SimScenarioTexts, APartOfALongerTextIsReadAlone) {
  for (const std::string_view whole : {"1.5s", "10", "0.25%", "1/2", "0b11", "0xff", "64KiB", "hex:0a0b", "1.5Gbps"})
    for (std::size_t size = 0; size <= whole.size(); ++size) {
      const std::string alone(whole.substr(0, size));
      const std::string_view part = whole.substr(0, size);
      EXPECT_EQ(parse_time(part), parse_time(alone)) << alone;
      EXPECT_EQ(parse_rate(part), parse_rate(alone)) << alone;
      EXPECT_EQ(parse_size(part), parse_size(alone)) << alone;
      EXPECT_EQ(parse_mask(part), parse_mask(alone)) << alone;
      EXPECT_EQ(parse_octets(part), parse_octets(alone)) << alone;
      EXPECT_EQ(parse_ratio(part), parse_ratio(alone)) << alone;
    }
  EXPECT_EQ(parse_ratio(std::string_view("1.5").substr(0, 1)), (Ratio{1, 1}));
}

TEST(SimScenarioTexts, AreReadAndWrittenAsReviewed) {
  expect_as_reviewed("sim_scenario_texts.txt", read_texts() + written_texts() + names_meant() + broken_documents());
}

}  // namespace
}  // namespace parley::sim
