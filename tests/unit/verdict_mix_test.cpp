// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Captures of which it is known how many FPDUs are in them: every one is found, whole and with a good CRC, however the
// segments were cut, marked, packed, late or doubled, and nobody is accused.
#include <gtest/gtest.h>

#include <string>

#include "bench/capture_mix.hpp"
#include "tests/unit/verdict_exchange.hpp"
#include "verdict/analyzer.hpp"

namespace parley::verdict {
namespace {

struct Checked {
  bench::MixTotals made;
  FileReport report;
};

Checked check(bench::Mix mix, std::uint64_t packets) {
  Checked out;
  Analyzer analyzer;
  wire::CapturedPacket p;
  p.link_type = 1;
  out.made = bench::CaptureMix(mix, packets, [&](Instant at, ConstBytes frame) {
               ++p.frame;
               p.at = at;
               p.octets = frame;
               p.original_length = static_cast<std::uint32_t>(frame.size());
               analyzer.push(p);
             }).run();
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

INSTANTIATE_TEST_SUITE_P(Verdict, EveryMix, testing::ValuesIn(bench::mixes), [](const auto& mix) {
  std::string name(mix.param.second);
  std::erase(name, ' ');
  return name;
});

}  // namespace
}  // namespace parley::verdict
