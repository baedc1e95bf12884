// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// What shrinking tries and in which words it says so, step by step.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "sim/scenario/scenario.hpp"

namespace parley::sim {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

/// Hosts a and b on a link; one connection of no message.
Scenario least() {
  Scenario s;
  s.hosts = {{.name = "a"}, {.name = "b"}};
  s.links = {{.name = "a-b", .ends = {"a", "b"}}};
  s.listens.resize(1);
  s.listens[0].host = "b";
  s.connects.resize(1);
  s.connects[0].from = "a";
  s.connects[0].to = "b";
  s.connects[0].messages = s.connects[0].octets = 0;
  return s;
}

ScenarioFault on_link(FaultRule rule, std::string link = "a-b") {
  ScenarioFault fault;
  fault.link = std::move(link);
  fault.rule = rule;
  return fault;
}

struct Shrunk {
  Scenario scenario;
  std::vector<std::string> steps;
  std::uint32_t tries = 0;
};
Shrunk shrunk(const Scenario& from, const std::function<bool(const Scenario&)>& fails) {
  EXPECT_THAT(check_scenario(from), IsEmpty());
  Shrunk out;
  out.scenario = shrink(from, fails, 10000, [&](const ShrinkStep& step) {
    out.steps.push_back(step.what);
    out.tries = step.tries;
  });
  return out;
}
bool always(const Scenario&) { return true; }
auto with_faults(std::size_t n) {
  return [n](const Scenario& s) { return s.faults.size() == n; };
}

TEST(SimShrinkSteps, NothingIsLeftToTakeFromTheLeast) { EXPECT_THAT(shrunk(least(), always).steps, IsEmpty()); }

TEST(SimShrinkSteps, ListsLoseAllThenHalvesThenSingleEntries) {
  Scenario s = least();
  s.faults.assign(5, on_link({}));
  for (std::size_t i = 0; i < 5; ++i) s.faults[i].rule.match = {.nth = static_cast<std::uint32_t>(i + 1), .times = 1};
  for (auto& fault : s.faults) fault.way = LinkDirection::forward, fault.toward = "b";
  EXPECT_THAT(shrunk(s, always).steps, ElementsAre("faults 1 to 5 removed"));
  const auto keeps = [](std::uint32_t nth) {
    return [nth](const Scenario& t) {
      return std::any_of(t.faults.begin(), t.faults.end(), [nth](const auto& f) { return f.rule.match.nth == nth; });
    };
  };
  EXPECT_THAT(shrunk(s, keeps(3)).steps, ElementsAre("faults 4 to 5 removed", "fault 1 removed", "fault 1 removed"));
  EXPECT_THAT(shrunk(s, keeps(5)).steps, ElementsAre("faults 2 to 3 removed", "fault 1 removed", "fault 1 removed"));
}

TEST(SimShrinkSteps, NumbersGoToTheLeastOrDownInHalvesAndSteps) {
  Scenario s = least();
  ScenarioConnect& c = s.connects[0];
  c.count = 40;
  c.messages = 20;
  c.octets = 100;
  c.retries = 3;
  EXPECT_THAT(shrunk(s, always).steps,
              ElementsAre("connect 1: count lowered to 1", "connect 1: messages lowered to 0",
                          "connect 1: octets lowered to 0", "connect 1: retries lowered to 0"));
  const auto found = shrunk(s, [](const Scenario& t) { return t.connects[0].count >= 7; });
  EXPECT_THAT(found.steps, ElementsAre("connect 1: count lowered to 20", "connect 1: count lowered to 10",
                                       "connect 1: count lowered to 8", "connect 1: count lowered to 7",
                                       "connect 1: messages lowered to 0", "connect 1: octets lowered to 0",
                                       "connect 1: retries lowered to 0"));
}

TEST(SimShrinkSteps, WhatNothingRefersToIsRemoved) {
  Scenario s = least();
  s.hosts.push_back({.name = "c"});
  s.hosts.push_back({.name = "s", .is_switch = true});
  s.links.push_back({.name = "c-s", .ends = {"c", "s"}});
  s.links.push_back({.name = "spare", .ends = {"a", "b"}});
  EXPECT_THAT(shrunk(s, always).steps, ElementsAre("host c removed", "link spare removed", "switch s removed"));
}

// What an earlier step of the same round could not do may be possible once something else is gone.
TEST(SimShrinkSteps, GoesRoundAgainAfterAnyThatWasTaken) {
  Scenario s = least();
  s.hosts.push_back({.name = "c"});
  s.links.push_back({.name = "b-c", .ends = {"b", "c"}});
  s.connects.push_back(s.connects[0]);
  const auto fails = [](const Scenario& t) { return t.connects.size() == 2 || t.hosts.size() == 2; };
  EXPECT_THAT(shrunk(s, fails).steps, ElementsAre("host c removed", "connect 2 removed"));
}

TEST(SimShrinkSteps, ASwitchBetweenTwoLinksGoesAndTheFaultsOfBothStay) {
  Scenario s = least();
  s.hosts.push_back({.name = "s", .is_switch = true});
  s.links = {{.name = "a-s", .ends = {"a", "s"}}, {.name = "s-b", .ends = {"s", "b"}}};
  s.links[1].options.delay = 7ms;
  s.faults = {on_link({.match = {.nth = 1, .times = 1}}, "a-s"), on_link({.match = {.nth = 1, .times = 1}}, "a-s"),
              on_link({.match = {.nth = 1, .times = 1}}, "s-b"), on_link({.match = {.nth = 1, .times = 1}}, "s-b")};
  const std::pair<LinkDirection, std::string> ways[] = {{LinkDirection::forward, "s"},
                                                        {LinkDirection::backward, "a"},
                                                        {LinkDirection::forward, "b"},
                                                        {LinkDirection::backward, "s"}};
  for (std::size_t i = 0; i < 4; ++i) s.faults[i].way = ways[i].first, s.faults[i].toward = ways[i].second;
  const auto first = shrunk(s, with_faults(4));
  EXPECT_THAT(first.steps, ElementsAre("switch s removed"));
  const auto slow =
      shrunk(s, [](const Scenario& t) { return t.faults.size() == 4 && t.links.back().options.delay == 7ms; });
  EXPECT_THAT(slow.steps, ElementsAre("switch s removed"));
  for (const Shrunk* result : {&first, &slow}) {
    const Scenario& t = result->scenario;
    ASSERT_EQ(t.links.size(), 1U);
    EXPECT_EQ(t.links[0].name, result == &first ? "a-s" : "s-b");
    EXPECT_EQ(t.links[0].ends[0], "a");
    EXPECT_EQ(t.links[0].ends[1], "b");
    for (std::size_t i = 0; i < 4; ++i) {
      EXPECT_EQ(t.faults[i].link, t.links[0].name);
      EXPECT_EQ(t.faults[i].toward, i % 2 == 0 ? "b" : "a") << i;
      EXPECT_EQ(t.faults[i].way, i % 2 == 0 ? LinkDirection::forward : LinkDirection::backward) << i;
    }
  }
}

TEST(SimShrinkSteps, EveryFaultIsMendedAsFarAsItGoes) {
  Scenario s = least();
  s.faults = {on_link({.match = {.nth = 3, .times = 2}, .chance = {1, 2}}),
              on_link({.action = FaultAction::duplicate, .count = 5}), on_link({.mask = 0b1010}),
              on_link({.match = {.nth = 1, .times = 1}, .action = FaultAction::corrupt, .count = 9})};
  EXPECT_THAT(
      shrunk(s, with_faults(4)).steps,
      ElementsAre("fault 1: one time less", "fault 1: an earlier frame", "fault 1: an earlier frame",
                  "fault 1: one way only", "fault 1: chance became certain", "fault 2: count lowered to 1",
                  "fault 2: hits once only", "fault 2: one way only", "fault 3: one way only",
                  "fault 3: bit 3 of the mask cleared", "fault 4: count lowered to 1", "fault 4: one way only"));
}

TEST(SimShrinkSteps, AChanceWithoutALimitStaysOne) {
  Scenario s = least();
  s.faults = {on_link({.chance = {1, 2}})};
  s.faults[0].way = LinkDirection::forward, s.faults[0].toward = "b";
  const auto unlimited =
      shrunk(s, [](const Scenario& t) { return t.faults.size() == 1 && t.faults[0].rule.match.times == 0; });
  EXPECT_THAT(unlimited.steps, IsEmpty());
}

TEST(SimShrinkSteps, OneWayIsTheOneThatStillFails) {
  Scenario s = least();
  s.faults = {on_link({.match = {.nth = 1, .times = 1}})};
  for (const LinkDirection way : {LinkDirection::forward, LinkDirection::backward}) {
    const auto result = shrunk(s, [way](const Scenario& t) {
      return t.faults.size() == 1 && (t.faults[0].way == LinkDirection::both || t.faults[0].way == way);
    });
    EXPECT_THAT(result.steps, ElementsAre("fault 1: one way only"));
    EXPECT_EQ(result.scenario.faults[0].toward, way == LinkDirection::forward ? "b" : "a");
  }
}

TEST(SimShrinkSteps, TimesAreRoundedToOneDigit) {
  Scenario s = least();
  s.connects[0].at = Instant(123ms);
  s.connects[0].close_after = 96us;
  s.faults = {on_link({.match = {.nth = 1, .times = 1}})};
  s.faults[0].way = LinkDirection::forward, s.faults[0].toward = "b";
  s.faults[0].rule.from = Instant(15ms);
  s.faults[0].rule.until = Instant(144ms);
  // Whatever is back at its default needs no rounding.
  const auto fails = [](const Scenario& t) {
    return t.faults.size() == 1 && t.connects[0].at > Instant{} && t.connects[0].close_after > 0s &&
           t.faults[0].rule.from > Instant{};
  };
  const auto result = shrunk(s, fails);
  EXPECT_THAT(result.steps, ElementsAre("connect 1: close_after rounded", "connect 1: at rounded",
                                        "fault 1: from rounded", "fault 1: until rounded"));
  EXPECT_EQ(result.scenario.connects[0].at, Instant(100ms));
  EXPECT_EQ(result.scenario.connects[0].close_after, 100us);
  EXPECT_EQ(result.scenario.faults[0].rule.from, Instant(20ms));
  EXPECT_EQ(result.scenario.faults[0].rule.until, Instant(100ms));
}

TEST(SimShrinkSteps, KeysGoBackToTheirDefaultsOneByOne) {
  Scenario s = least();
  s.bounds.time = 77s;
  s.bounds.fence = false;
  s.hosts[1].options.ring = 5;
  s.hosts[1].options.tcp.timestamps = false;
  s.hosts[0].options.rnic.linger = 9s;
  s.links[0].options.mtu = 9000;
  s.listens[0].pending_max = 3;
  s.connects[0].both_ways = false;
  s.connects[0].mpa.crc = s.listens[0].mpa.crc = false;
  EXPECT_THAT(shrunk(s, always).steps,
              ElementsAre("all MPA options back to their defaults", "host 2: ring back to its default",
                          "host 2: timestamps back to its default", "host 1: linger back to its default",
                          "link 1: mtu back to its default", "listen 1: pending_max back to its default",
                          "connect 1: both_ways back to its default", "bounds: time back to its default"));
  const auto apart = shrunk(s, [](const Scenario& t) { return !t.connects[0].mpa.crc; });
  EXPECT_THAT(apart.steps, ::testing::Contains("listen 1: crc back to its default"));
  EXPECT_FALSE(apart.scenario.bounds.fence) << "what is expected is not an option";
}

TEST(SimShrinkSteps, TheTriesAreCountedAndBounded) {
  Scenario s = least();
  s.faults.assign(4, on_link({}));
  std::uint32_t runs = 0;
  const auto counting = [&](const Scenario&) {
    ++runs;
    return false;
  };
  (void)shrink(s, counting, 3);
  EXPECT_EQ(runs, 3U);
  std::vector<std::uint32_t> tries;
  (void)shrink(s, with_faults(3), 100, [&](const ShrinkStep& step) { tries.push_back(step.tries); });
  ASSERT_FALSE(tries.empty());
  EXPECT_EQ(tries[0], 4U) << "all four, two, two, and then the last";
}

}  // namespace
}  // namespace parley::sim
