// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Connections that a seed draws, with faults of the peers and of whoever captured them: what the report says of each
// (tests/states/capture_drawn.txt), and that an anonymized capture has the same verdict.
#include <gtest/gtest.h>

#include <algorithm>
#include <regex>

#include "base/fnv1a.hpp"
#include "tests/unit/capture/anonymize_kit.hpp"
#include "tests/unit/capture/drawn.hpp"
#include "tests/unit/capture/runs.hpp"
#include "tests/unit/reviewed.hpp"

namespace parley::capture {
namespace {

/// The numbers of a header that is none are names to whoever anonymizes, and become others.
std::string without_numbers(const std::string& json) {
  static const std::regex number("(queue|MSN|MO) [0-9]+( was due)?|, [0-9]+ was due");
  return std::regex_replace(json, number, "#");
}

TEST(CaptureDrawn, ConnectionsAreJudgedAsReviewed) {
  std::string out;
  for (std::uint64_t seed = 1; seed <= 360; ++seed) {
    const test::Frames frames = test::DrawnConnection(seed).draw();
    out += fmt::format("== {}: {} packets ==\n", seed, frames.size()) + test::brief(frames);
  }
  expect_as_reviewed("capture_drawn.txt", out);
}

TEST(CaptureDrawn, ConnectionsOfWhichTheBeginningIsNotThere) {
  std::string out;
  for (std::uint64_t seed = 2001; seed <= 2200; ++seed) {
    test::Frames frames = test::DrawnConnection(seed).draw();
    const std::size_t first = std::min<std::size_t>(1 + seed % 11, frames.size() - 1);
    frames.erase(frames.begin(), frames.begin() + static_cast<std::ptrdiff_t>(first));
    out += fmt::format("== {}: {} packets, from the {}. on ==\n", seed, frames.size(), first + 1);
    const std::string unnamed = test::brief(frames);
    const std::string named = test::brief(test::analyse(frames, AnalyzerOptions{.mpa_ports = {9001}}));
    out += unnamed;
    if (named != unnamed) out += "-- its port is said to carry MPA --\n" + named;
  }
  expect_as_reviewed("capture_drawn_late.txt", out);
}

TEST(CaptureDrawn, TwoConnectionsOnTheSamePorts) {
  std::string out;
  for (std::uint64_t seed = 3001; seed <= 3120; ++seed) {
    test::Frames frames = test::DrawnConnection(seed).draw();
    test::Frames more = test::DrawnConnection(seed + 7 * 200).draw();  // of the same family
    const Duration later = std::chrono::milliseconds(seed % 3 == 0 ? 5 : 200'000);
    const Duration ahead = frames.back().at - more.front().at;
    for (test::Frame& f : more) f.at += ahead + later;
    frames.insert(frames.end(), more.begin(), more.end());
    out += fmt::format("== {}: {} and {} packets ==\n", seed, frames.size() - more.size(), more.size()) +
           test::brief(frames);
  }
  expect_as_reviewed("capture_drawn_again.txt", out);
}

/// Of the drawn connection: whole; without its first packets or its last; and beside another of the same ports.
std::string judged_in_many_ways(std::uint64_t seed) {
  const test::Frames frames = test::DrawnConnection(seed).draw();
  std::string out = test::brief(frames);
  const auto place = [&frames](std::uint64_t n) { return frames.begin() + static_cast<std::ptrdiff_t>(n); };
  const std::uint64_t first = std::min<std::uint64_t>(1 + seed % 13, frames.size() - 1);
  const test::Frames late(place(first), frames.end()), cut(frames.begin(), place(frames.size() - first));
  out += test::brief(late) + test::brief(test::analyse(late, AnalyzerOptions{.mpa_ports = {9001}})) + test::brief(cut);
  test::Frames both = frames;
  for (test::Frame f : test::DrawnConnection(seed + 7 * 4000).draw()) {
    f.at += Duration(static_cast<std::int64_t>(seed % 5) * 20'000'000);
    both.push_back(f);
  }
  std::stable_sort(both.begin(), both.end(), [](const test::Frame& a, const test::Frame& b) { return a.at < b.at; });
  return out + test::brief(both);
}

// What so many of them say nobody reads; that it has changed is to be noticed.
TEST(CaptureDrawn, ManyMoreAreJudgedAsTheyWere) {
  constexpr std::uint64_t of_each = 50;
  std::string out = fmt::format("# Hashes of what is said of {} drawn connections each, in five ways.\n", of_each);
  for (std::uint64_t first = 6001; first < 7501; first += of_each) {
    std::uint64_t hash = fnv1a_start;
    for (std::uint64_t seed = first; seed < first + of_each; ++seed) {
      const std::string said = judged_in_many_ways(seed);
      hash = fnv1a({reinterpret_cast<const std::uint8_t*>(said.data()), said.size()}, hash);
    }
    out += fmt::format("{} to {}: {:016x}\n", first, first + of_each - 1, hash);
  }
  expect_as_reviewed("capture_drawn_hashes.txt", out);
}

TEST(CaptureDrawn, AnonymizedConnectionsHaveTheSameVerdict) {
  for (std::uint64_t seed = 1055; seed < 1255; ++seed) {
    const Bytes file = test::to_pcap(test::DrawnConnection(seed).draw());
    const test::Anonymized a = test::anonymize(file);
    if (!a.refusal.empty()) continue;
    EXPECT_EQ(without_numbers(test::comparable(a.file)), without_numbers(test::comparable(file))) << "seed " << seed;
  }
}

}  // namespace
}  // namespace parley::capture
