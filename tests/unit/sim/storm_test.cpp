// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Storms: every pattern gets all of its connections, losses are survived, nothing is left over, and the quantiles are
// those of the times themselves.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "base/rng.hpp"
#include "sim/run/storm_histogram.hpp"
#include "sim/run/storm_plan.hpp"

namespace parley::sim {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string words(const StormReport& report) {
  std::string out;
  for (const Violation& v : report.violations) out += v.connection + ": " + v.text + "\n";
  return out;
}

// ---- who connects to whom

using Connections = std::vector<std::pair<std::uint32_t, std::uint32_t>>;
Connections all_of(const StormPlan& plan) {
  Connections out;
  for (std::uint32_t p = 0; p < plan.processes(); ++p) {
    std::uint32_t cursor = 0;
    while (const auto target = plan.next(p, cursor)) out.emplace_back(p, *target);
  }
  return out;
}

StormOptions sized(std::uint32_t nodes, std::uint32_t ppn, StormPattern pattern = StormPattern::alltoall) {
  StormOptions options;
  options.nodes = nodes;
  options.ppn = ppn;
  options.pattern = pattern;
  return options;
}

TEST(SimStorm, AllToAllHasEachPairOfProcessesOnDifferentNodesOnce) {
  for (std::uint32_t nodes = 2; nodes <= 9; ++nodes) {
    for (std::uint32_t ppn = 1; ppn <= 4; ++ppn) {
      SCOPED_TRACE(std::to_string(nodes) + " x " + std::to_string(ppn));
      const StormPlan plan(sized(nodes, ppn));
      std::set<std::pair<std::uint32_t, std::uint32_t>> pairs;
      std::vector<std::size_t> each(plan.processes());
      const Connections connections = all_of(plan);
      for (const auto& [from, to] : connections) {
        EXPECT_NE(plan.node_of(from), plan.node_of(to));
        pairs.insert(std::minmax(from, to));
        ++each[from];
      }
      EXPECT_EQ(pairs.size(), connections.size()) << "a pair came twice";
      EXPECT_EQ(pairs.size(), std::size_t{nodes} * (nodes - 1) / 2 * ppn * ppn);
      EXPECT_EQ(pairs.size(), plan.wanted());
      EXPECT_LE(*std::max_element(each.begin(), each.end()) - *std::min_element(each.begin(), each.end()), ppn)
          << "the work is shared";
    }
  }
}

TEST(SimStorm, ASampleIsSpreadOverAllAndHasNoPairTwice) {
  for (const std::uint32_t nodes : {2U, 3U, 10U, 11U}) {
    for (const std::uint32_t ppn : {1U, 2U, 3U, 8U}) {
      for (std::uint32_t sample = 1; sample <= nodes * ppn / 2 + 1; ++sample) {
        StormOptions options = sized(nodes, ppn);
        options.sample = sample;
        SCOPED_TRACE(fmt::format("{} of {} x {}", sample, nodes, ppn));
        const StormPlan plan(options);
        std::set<std::pair<std::uint32_t, std::uint32_t>> pairs;
        const Connections connections = all_of(plan);
        for (const auto& [from, to] : connections) {
          EXPECT_NE(plan.node_of(from), plan.node_of(to));
          pairs.insert(std::minmax(from, to));
        }
        EXPECT_EQ(pairs.size(), connections.size()) << "a pair came twice";
        EXPECT_EQ(connections.size(), plan.wanted());
        EXPECT_EQ(plan.wanted(),
                  std::min(std::uint64_t{plan.processes()} * sample, StormPlan(sized(nodes, ppn)).wanted()));
      }
    }
  }
  StormOptions options = sized(10'000, 1);
  options.sample = 4;
  std::uint32_t cursor = 0;
  const StormPlan plan(options);
  for (const std::uint32_t target : {8U, 1257U, 2507U, 3757U}) EXPECT_EQ(plan.next(7, cursor), target);
  EXPECT_FALSE(plan.next(7, cursor));
}

TEST(SimStorm, ThousandNodesHaveAHalfMillionConnections) { EXPECT_EQ(StormPlan(sized(1000, 1)).wanted(), 499'500U); }

TEST(SimStorm, RingAndIncastAreAsTheirNamesSay) {
  const StormPlan ring(sized(4, 1, StormPattern::ring));
  EXPECT_EQ(all_of(ring), (Connections{{0, 1}, {1, 2}, {2, 3}, {3, 0}}));
  EXPECT_EQ(ring.wanted(), 4U);
  const StormPlan wide(sized(3, 2, StormPattern::ring));
  EXPECT_EQ(all_of(wide).size(), wide.wanted());
  const StormPlan incast(sized(3, 2, StormPattern::incast));
  EXPECT_EQ(all_of(incast), (Connections{{2, 0}, {3, 0}, {4, 0}, {5, 0}}));
  EXPECT_EQ(incast.wanted(), 4U);
}

// ---- quantiles

TEST(SimStorm, QuantilesAreRightToOnePartInAThousand) {
  Rng rng(5);
  for (const std::uint64_t scale : {100ULL, 3'000ULL, 1'000'000ULL, 60'000'000'000ULL}) {
    DurationHistogram histogram;
    std::vector<std::uint64_t> values;
    for (int i = 0; i < 5000; ++i) {
      values.push_back(rng.below(scale));
      histogram.add(Duration(static_cast<Duration::rep>(values.back())));
    }
    std::sort(values.begin(), values.end());
    EXPECT_EQ(histogram.count(), values.size());
    EXPECT_EQ(histogram.quantile(0), Duration(static_cast<Duration::rep>(values.front())));
    EXPECT_EQ(histogram.quantile(100), Duration(static_cast<Duration::rep>(values.back())));
    for (const unsigned percent : {1U, 50U, 90U, 99U}) {
      const std::uint64_t exact = values[(values.size() * percent + 99) / 100 - 1];
      const auto said = static_cast<std::uint64_t>(histogram.quantile(percent).count());
      EXPECT_LE(said, exact);
      EXPECT_GE(said + exact / 1000 + (exact < 2048 ? 0 : 1), exact) << percent << " % of " << scale;
    }
  }
}

TEST(SimStorm, QuantilesOfNothingAreNothing) { EXPECT_EQ(DurationHistogram().quantile(50), Duration{}); }

// ---- storms

TEST(SimStorm, ConnectsEveryPatternUnderEveryForm) {
  for (const StormPattern pattern : {StormPattern::alltoall, StormPattern::ring, StormPattern::incast})
    for (const mpa::Rtr rtr : {mpa::Rtr::none, mpa::Rtr::send, mpa::Rtr::write, mpa::Rtr::read, mpa::Rtr::frame}) {
      StormOptions options = sized(6, 2, pattern);
      options.mpa.rtr = rtr;
      if (rtr == mpa::Rtr::frame) options.mpa.revision = 1;
      const StormReport report = run_storm(options);
      EXPECT_THAT(report.violations, IsEmpty()) << words(report);
      EXPECT_EQ(report.wanted, StormPlan(options).wanted());
      EXPECT_EQ(report.established, report.wanted);
      EXPECT_EQ(report.failed + report.retried, 0U);
      EXPECT_GT(report.steps.at("total")[0], Duration{});
      EXPECT_GE(report.steps.at("total")[4], report.steps.at("total")[0]);
    }
}

TEST(SimStorm, KeepsConnectionsOpenWhenAskedTo) {
  StormOptions options = sized(8, 2);
  options.in_setup = 1;
  const StormReport closing = run_storm(options);
  options.keep_open = true;
  const StormReport open = run_storm(options);
  EXPECT_THAT(open.violations, IsEmpty()) << words(open);
  EXPECT_EQ(open.alive_peak, open.wanted);
  EXPECT_LT(closing.alive_peak, closing.wanted) << "those that were up have been closed";
}

TEST(SimStorm, SurvivesLoss) {
  StormOptions options = sized(6, 2);
  options.loss = {1, 20};
  const StormReport report = run_storm(options);
  EXPECT_EQ(report.established + report.failed, report.wanted);
  EXPECT_GE(report.established, report.wanted - 1) << words(report);
  EXPECT_GT(report.counters.dropped, 0U);
}

// What is lost is sent again; IBA's timers wait 4.3 s for that each time, and keep the others no longer than before.
TEST(SimStorm, OverRoceLossCostsWhatItsTimersSay) {
  for (const bool spec : {false, true}) {
    for (const StormPattern pattern : {StormPattern::alltoall, StormPattern::ring, StormPattern::incast}) {
      StormOptions options = sized(8, 2, pattern);
      options.engine = NicEngine::roce;
      options.hca.spec_timers = spec;
      options.loss = {1, 25};
      const StormReport report = run_storm(options);
      EXPECT_EQ(report.established, report.wanted) << words(report);
      EXPECT_THAT(report.violations, IsEmpty()) << words(report);
      EXPECT_GT(report.counters.dropped, 0U);
      EXPECT_EQ(report.virtual_time > 4s, spec) << report.virtual_time.count();
      EXPECT_LT(report.steps.at("total")[1], 1ms);
    }
  }
}

/// What the hosts of a storm put on the wire before they connect.
struct FloodTap final : Tap {
  void on_frame(const TapFrame& frame) override {
    if (frame.outbound && (frame.octets[0] & 1) != 0) ++groups;
  }
  void on_note(Instant, NodeId, NoteKind, std::string_view) override {}
  std::uint64_t groups = 0;  // frames to a group address, at each link end
};

TEST(SimStorm, NeighboursAreKnownUnlessToBeDiscovered) {
  for (const NicEngine engine : {NicEngine::iwarp, NicEngine::roce}) {
    FloodTap known, discovered;
    StormOptions options = sized(20, 1, StormPattern::ring);
    options.engine = engine;
    options.tap = &known;
    const StormReport fast = run_storm(options);
    options.neighbours = Neighbours::discovered;
    options.tap = &discovered;
    const StormReport slow = run_storm(options);
    EXPECT_EQ(fast.established + slow.established, 40U) << words(fast) << words(slow);
    EXPECT_EQ(known.groups, 0U);
    EXPECT_GE(discovered.groups, 20U * 20);
    EXPECT_EQ(fast.counters.packet_hops + 20 * 20, slow.counters.packet_hops) << "an announcement of each to all";
  }
}

/// The initiators send no RTR, and the responders wait for a first FPDU for as long as `first_fpdu` says; 0s is for ever.
StormOptions stuck(Duration first_fpdu) {
  StormOptions options = sized(2, 1);
  options.mpa.revision = 1;
  options.mpa.rtr = mpa::Rtr::frame;
  options.mpa.accept_rtr_frame = false;
  options.mpa.timeouts.first_fpdu = first_fpdu;
  return options;
}

TEST(SimStorm, SaysWhichConnectionsAreNeitherUpNorFailedWhenNothingHappensAnyMore) {
  const StormReport report = run_storm(stuck({}));
  EXPECT_EQ(report.established + report.failed, 0U);
  EXPECT_EQ(words(report),
            ": 1 of 1 connections are neither established nor failed, and nothing is left to happen\n"
            "n0 > n1 (process 0 > 1): try 1; the initiator is up, the responder is not up\n");
}

TEST(SimStorm, ADayIsLongEnough) {
  const StormReport soon = run_storm(stuck(23h + 59min)), late = run_storm(stuck(24h + 30min));
  EXPECT_GT(soon.retried, 0U) << words(soon);
  EXPECT_EQ(late.retried, 0U) << words(late);
  EXPECT_LE(late.virtual_time, 24h);
  ASSERT_FALSE(late.violations.empty());
  EXPECT_THAT(late.violations[0].text, HasSubstr("neither established nor failed"));
}

TEST(SimStorm, WhatFailsFiveTimesHasFailed) {
  StormOptions options = sized(3, 2);
  options.loss = {1, 1};
  const StormReport report = run_storm(options);
  EXPECT_EQ(report.wanted, 12U);
  EXPECT_EQ(report.failed, 12U);
  EXPECT_EQ(report.retried, 4 * report.failed);
  EXPECT_EQ(report.established, 0U);
  ASSERT_EQ(report.violations.size(), 12U);
  for (const Violation& v : report.violations) {
    EXPECT_THAT(v.connection, ::testing::MatchesRegex("n[0-2] > n[0-2] \\(process [0-5] > [0-5]\\)"));
    EXPECT_THAT(v.text, HasSubstr("failed 5 times; the last time: "));
  }
}

// A responder that keeps no fence is up as soon as it has replied; its initiator may have given up by then.
TEST(SimStorm, AConnectionIsOnlyUpWhenBothEndsAre) {
  StormOptions options = sized(3, 1);
  options.mpa.play_quirk = "siw";
  options.link.delay = 1ms;
  options.mpa.timeouts.reply = 3ms;  // and the way there and back takes four
  const StormReport report = run_storm(options);
  EXPECT_EQ(report.wanted, 3U);
  EXPECT_EQ(report.failed, 3U) << words(report);
  EXPECT_EQ(report.retried, 12U);
  EXPECT_EQ(report.established, 0U);
}

TEST(SimStorm, TellsItsProgressEveryThousandEventsAndAtTheEnd) {
  std::vector<std::uint64_t> told;
  const StormReport report = run_storm(sized(10, 2), [&](std::uint64_t done) {
    told.push_back(done);
    return true;
  });
  EXPECT_TRUE(std::is_sorted(told.begin(), told.end()));
  EXPECT_EQ(told.front(), 0U);
  EXPECT_EQ(told.back(), report.wanted);
  EXPECT_GE(told.size(), report.counters.events / 1024 / 2);
  EXPECT_LE(told.size(), report.counters.events / 1024 + 2);
}

TEST(SimStorm, IsTheSameForTheSameSeed) {
  StormOptions options = sized(5, 2);
  options.loss = {1, 50};
  const StormReport one = run_storm(options), two = run_storm(options);
  EXPECT_EQ(one.counters.events, two.counters.events);
  EXPECT_EQ(one.steps, two.steps);
  options.seed = 2;
  EXPECT_NE(run_storm(options).counters.events, one.counters.events);
}

TEST(SimStorm, StopsWhenAskedTo) {
  std::uint64_t seen = 0;
  const StormReport report = run_storm(sized(20, 2), [&](std::uint64_t done) {
    seen = done;
    return done < 100;
  });
  EXPECT_GE(seen, 100U);
  EXPECT_LT(report.established, report.wanted);
}

// Each connection that connect() refuses has failed, and the next one is tried.
TEST(SimStorm, SaysWhichConnectionsWereRefusedAtOnceAndGoesOn) {
  for (const std::uint32_t in_setup : {1U, 2U, 100U}) {
    StormOptions options = sized(3, 2);
    options.in_setup = in_setup;
    options.mpa.play_quirk = "nobody's";
    const StormPlan plan(options);
    const std::string why =
        "an argument is out of its documented range: mpa::Options::play_quirk is the name of no quirk (`parley "
        "quirks`)\n";
    std::string expected;
    for (int node = 0; node < 3; ++node) expected += fmt::format(": n{} cannot listen: {}", node, why);
    for (const auto& [from, to] : all_of(plan))
      expected += fmt::format("n{} > n{} (process {} > {}): connect() was refused: {}", plan.node_of(from),
                              plan.node_of(to), from, to, why);
    for (int node = 0; node < 3; ++node)
      expected += fmt::format(": n{} holds 0 endpoints at the end instead of its listener alone\n", node);
    const StormReport report = run_storm(options);
    EXPECT_EQ(words(report), expected);
    EXPECT_EQ(report.wanted, 12U);
    EXPECT_EQ(report.failed, 12U);
    EXPECT_EQ(report.established + report.retried, 0U);
    EXPECT_EQ(report.alive_peak, 1U);
  }
}

TEST(SimStorm, SaysWhyItCannotBegin) {
  const StormReport report = run_storm(sized(1, 1));
  ASSERT_EQ(report.violations.size(), 1U);
  EXPECT_THAT(report.violations[0].text, HasSubstr("two nodes"));
}

}  // namespace
}  // namespace parley::sim
