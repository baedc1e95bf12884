// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Connections that a seed draws, with faults of the peers and of the capture: which rules each breaks in which frame
// (tests/states/capture_drawn*.txt), and that an anonymized capture has the same verdict.
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <regex>

#include "tests/unit/capture/anonymize_kit.hpp"
#include "tests/unit/capture/drawn.hpp"
#include "tests/unit/capture/runs.hpp"
#include "tests/unit/reviewed.hpp"

namespace parley::capture {
namespace {

/// The numbers of a header that is none are names to whoever anonymizes, and become others.
std::string without_header_numbers(const std::string& json) {
  static const std::regex number("(queue|MSN|MO) [0-9]+( was expected)?|, [0-9]+ was expected");
  return std::regex_replace(json, number, "#");
}

TEST(CaptureDrawn, ConnectionsAreJudgedAsReviewed) {
  std::string out;
  for (std::uint64_t seed = 1; seed <= 360; ++seed) {
    const test::Frames frames = test::DrawnConnection(seed).draw();
    out += fmt::format("{}: {} packets, {}\n", seed, frames.size(), test::brief(frames));
  }
  test::expect_ids_as_reviewed("capture_drawn.txt", out);
}

TEST(CaptureDrawn, ConnectionsOfWhichTheBeginningIsNotThere) {
  std::string out;
  for (std::uint64_t seed = 2001; seed <= 2200; ++seed) {
    test::Frames frames = test::DrawnConnection(seed).draw();
    const std::size_t first = std::min<std::size_t>(1 + seed % 11, frames.size() - 1);
    frames.erase(frames.begin(), frames.begin() + static_cast<std::ptrdiff_t>(first));
    const std::string unnamed = test::brief(frames);
    const std::string named = test::brief(test::analyse(frames, AnalyzerOptions{.mpa_ports = {9001}}));
    out += fmt::format("{} from packet {} of {}: {}\n", seed, first + 1, frames.size(), unnamed);
    if (named != unnamed) out += "  port of MPA: " + named + "\n";
  }
  test::expect_ids_as_reviewed("capture_drawn_late.txt", out);
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
    out +=
        fmt::format("{}: {} and {} packets, {}\n", seed, frames.size() - more.size(), more.size(), test::brief(frames));
  }
  test::expect_ids_as_reviewed("capture_drawn_again.txt", out);
}

/// Of the drawn connection: whole; without its first packets or its last; and beside another of the same ports.
std::array<FileReport, 5> judged_in_many_ways(std::uint64_t seed) {
  const test::Frames frames = test::DrawnConnection(seed).draw();
  const auto place = [&frames](std::uint64_t n) { return frames.begin() + static_cast<std::ptrdiff_t>(n); };
  const std::uint64_t first = std::min<std::uint64_t>(1 + seed % 13, frames.size() - 1);
  const test::Frames late(place(first), frames.end()), cut(frames.begin(), place(frames.size() - first));
  test::Frames both = frames;
  for (test::Frame f : test::DrawnConnection(seed + 7 * 4000).draw()) {
    f.at += Duration(static_cast<std::int64_t>(seed % 5) * 20'000'000);
    both.push_back(f);
  }
  std::stable_sort(both.begin(), both.end(), [](const test::Frame& a, const test::Frame& b) { return a.at < b.at; });
  return {test::analyse(frames, AnalyzerOptions{}), test::analyse(late, AnalyzerOptions{}),
          test::analyse(late, AnalyzerOptions{.mpa_ports = {9001}}), test::analyse(cut, AnalyzerOptions{}),
          test::analyse(both, AnalyzerOptions{})};
}

// Of so many of them no one reads each verdict: how often each rule is found broken by which side, and the sum of the frames, is a line.
TEST(CaptureDrawn, ManyMoreAreJudgedAsTheyWere) {
  std::map<std::string, std::array<std::uint64_t, 5>> times, frames;
  const auto add = [&times](std::string what, std::size_t way, std::uint64_t n) { times[std::move(what)][way] += n; };
  for (std::uint64_t seed = 6001; seed < 7501; ++seed) {
    const std::array<FileReport, 5> reports = judged_in_many_ways(seed);
    for (std::size_t way = 0; way < reports.size(); ++way)
      for (const ConnectionReport& c : reports[way].connections) {
        for (const Finding& f : c.findings) {
          test::Sentences::met().add(f);
          const std::string side(f.side ? to_string(*f.side) : "neither");
          const std::string of = fmt::format("{} {} of {}", f.key(), to_string(f.severity), side);
          add(of, way, 1), frames[of][way] += f.frame == 0 ? 0 : f.frame - c.first_frame;
        }
        add(fmt::format("{} {}", to_string(c.outcome), to_string(c.judgement.standing)), way, 1);
        add(fmt::format("revision {}{}, {}", c.revision, c.crc ? " CRC" : "", rtr_text(c)), way, 1);
        for (const auto& [side, d] : {std::pair("initiator", &c.from_initiator), {"responder", &c.from_responder}}) {
          add(fmt::format("FPDUs of the {}", side), way, d->fpdus);
          add(fmt::format("messages of the {}", side), way, d->messages);
          add(fmt::format("octets of the {}", side), way, d->octets);
          add(fmt::format("octets of the {} that are missing", side), way, d->missing_octets);
          add(fmt::format("packets of the {} again", side), way, d->retransmissions);
          add(fmt::format("packets of the {} out of order", side), way, d->out_of_order);
        }
      }
  }
  std::string out =
      "# 1500 drawn connections: whole; begun late, without and with the port said to carry MPA; cut; two on\n"
      "# the same ports.\n";
  for (const auto& [what, of] : times) {
    out += what + ":";
    for (const std::uint64_t n : of) out += fmt::format(" {}", n);
    if (const auto at = frames.find(what); at != frames.end())
      out += fmt::format(", frames {}", fmt::join(at->second, " "));
    out += "\n";
  }
  test::expect_ids_as_reviewed("capture_drawn_counts.txt", out);
}

TEST(CaptureDrawn, AnonymizedConnectionsHaveTheSameVerdict) {
  for (std::uint64_t seed = 1055; seed < 1255; ++seed) {
    const Bytes file = test::to_pcap(test::DrawnConnection(seed).draw());
    const test::Anonymized a = test::anonymize(file);
    if (!a.refusal.empty()) continue;
    EXPECT_EQ(without_header_numbers(test::comparable(a.file)), without_header_numbers(test::comparable(file)))
        << "seed " << seed;
  }
}

}  // namespace
}  // namespace parley::capture
