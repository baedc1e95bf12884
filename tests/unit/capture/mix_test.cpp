// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Captures of which it is known how many FPDUs, or Sends of RoCEv2, are in them: every one is found, whole and with a good CRC, however the
// segments were cut, marked, packed, late or doubled, and nobody is accused.
#include <gtest/gtest.h>

#include <string>

#include "bench/capture_mix.hpp"
#include "bench/capture_roce.hpp"
#include "capture/analyzer.hpp"
#include "tests/unit/capture/exchange.hpp"

namespace parley::capture {
namespace {

/// A sink that has an analyzer judge what it is given.
auto push_into(Analyzer& analyzer) {
  return [&analyzer, p = wire::CapturedPacket{}](Instant at, ConstBytes frame) mutable {
    p.link_type = 1;
    ++p.frame;
    p.at = at;
    p.octets = frame;
    p.original_length = static_cast<std::uint32_t>(frame.size());
    analyzer.push(p);
  };
}

struct Checked {
  bench::MixTotals made;
  FileReport report;
};

Checked check(bench::Mix mix, std::uint64_t packets, const AnalyzerOptions& options = {}) {
  Checked out;
  Analyzer analyzer(options);
  out.made = bench::CaptureMix(mix, packets, push_into(analyzer)).run();
  out.report = analyzer.finish();
  return out;
}

class EveryMix : public testing::TestWithParam<std::pair<bench::Mix, std::string_view>> {};

TEST_P(EveryMix, HasAllItsFpdusFoundAndNobodyAccused) {
  const auto [made, report] = check(GetParam().first, 3000);
  EXPECT_EQ(report.packets, made.packets);
  ASSERT_EQ(report.connections.size(), made.connections);
  std::uint64_t fpdus = 0, again = 0, late = 0;
  for (const ConnectionReport& c : report.connections) {
    EXPECT_EQ(c.outcome, Outcome::established);
    fpdus += c.from_initiator.fpdus + c.from_responder.fpdus;
    again += c.from_initiator.retransmissions + c.from_responder.retransmissions;
    late += c.from_initiator.out_of_order + c.from_responder.out_of_order;
    EXPECT_EQ(c.from_initiator.missing_octets + c.from_responder.missing_octets, 0u);
  }
  EXPECT_GT(made.fpdus, 250u);
  EXPECT_EQ(fpdus, made.fpdus);
  EXPECT_EQ(again, made.again);
  EXPECT_GE(late, made.late > 0 ? 1u : 0u);
  EXPECT_EQ(report.count(Severity::error) + report.count(Severity::warning), 0u) << test::words(report);
}

// So many that each flow forgets its first requests.
TEST(RoceMix, HasAllItsMessagesFoundAndNobodyAccused) {
  Analyzer analyzer;
  const bench::RoceTotals made = bench::CaptureRoce(13, 90'000, push_into(analyzer)).run();
  const FileReport report = analyzer.finish();
  ASSERT_EQ(report.connections.size(), made.connections);
  std::uint64_t messages = 0;
  for (const ConnectionReport& c : report.connections) {
    EXPECT_EQ(c.outcome, Outcome::established);
    messages += c.from_initiator.messages + c.from_responder.messages;
    EXPECT_EQ(c.from_initiator.retransmissions + c.from_responder.retransmissions, 0u);
  }
  EXPECT_EQ(messages, made.messages);
  EXPECT_EQ(report.count(Severity::error) + report.count(Severity::warning), 0u) << test::words(report);
}

INSTANTIATE_TEST_SUITE_P(Verdict, EveryMix, testing::ValuesIn(bench::mixes), [](const auto& mix) {
  std::string name(mix.param.second);
  std::erase(name, ' ');
  return name;
});

TEST(ManyConnections, BeyondTheRoomOfAReportAreJudgedAndCounted) {
  const auto all = check(bench::Mix::connections, 6000);
  const auto few = check(bench::Mix::connections, 6000, {.report_octets_max = 100'000});
  ASSERT_EQ(all.report.connections.size(), all.made.connections);
  EXPECT_TRUE(all.report.notes.empty());
  EXPECT_LT(few.report.connections.size(), 200u);
  EXPECT_GT(few.report.connections.size(), 20u);
  const ConnectionTally& rest = few.report.unlisted;
  EXPECT_EQ(few.report.connections.size() + rest.connections, few.made.connections);
  EXPECT_EQ(rest.outcomes[static_cast<std::size_t>(Outcome::established)], rest.connections);
  EXPECT_EQ(few.report.connections.size() * 6 + rest.fpdus, few.made.fpdus);
  ASSERT_EQ(few.report.notes.size(), 1u);
  EXPECT_NE(few.report.notes[0].find("were judged but are not listed"), std::string::npos) << few.report.notes[0];
  for (std::size_t i = 1; i < few.report.connections.size(); ++i)
    EXPECT_LT(few.report.connections[i - 1].first_frame, few.report.connections[i].first_frame);
}

TEST(ManyConnections, WithFaultsKeepAPlaceInAReportThatIsFull) {
  // The CRC of every hundredth data segment is broken, late in the file.
  Analyzer analyzer({.report_octets_max = 100'000});
  wire::CapturedPacket p;
  p.link_type = 1;
  std::uint64_t broken = 0, data = 0;
  bench::CaptureMix(bench::Mix::connections, 6000, [&](Instant at, ConstBytes frame) {
    ++p.frame;
    p.at = at;
    Bytes octets(frame.begin(), frame.end());
    if (octets.size() > 100 && ++data % 100 == 0 && p.frame > 4000) {
      octets.back() ^= 1;
      ++broken;
    }
    p.octets = octets;
    p.original_length = static_cast<std::uint32_t>(octets.size());
    analyzer.push(p);
  }).run();
  const FileReport report = analyzer.finish();
  EXPECT_GT(report.unlisted.connections, 0u);
  ASSERT_GT(broken, 5u);
  EXPECT_GE(report.count(Severity::error), broken);
  std::uint64_t listed = 0;
  for (const ConnectionReport& c : report.connections) listed += c.count(Severity::error) > 0 ? 1 : 0;
  EXPECT_EQ(listed, broken);
}

}  // namespace
}  // namespace parley::capture
