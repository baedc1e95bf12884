// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Shrinking: whatever makes a scenario fail stays, everything else goes, and never is a scenario tried that could not
// be run.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>

#include "sim/scenario/scenario.hpp"

namespace parley::sim {
namespace {

using namespace std::chrono_literals;

/// Four hosts at two switches, three listeners, several connections, a dozen faults.
Scenario big() {
  std::string text = "name = \"big\"\n[[switch]]\nname = \"s\"\n[[switch]]\nname = \"t\"\n";
  for (const char* host : {"a", "b", "c", "d"}) text += std::string("[[host]]\nname = \"") + host + "\"\n";
  text +=
      "[[link]]\nends = [\"a\", \"s\"]\ndelay = \"12.345us\"\n[[link]]\nends = [\"b\", \"t\"]\n[[link]]\n"
      "ends = [\"c\", \"s\"]\n[[link]]\nends = [\"d\", \"t\"]\n[[link]]\nends = [\"s\", \"t\"]\nrate = \"1Gbps\"\n";
  for (const char* host : {"b", "c", "d"})
    text += std::string("[[listen]]\nhost = \"") + host + "\"\naccept_after = \"3ms\"\n[listen.mpa]\nmarkers = true\n";
  for (const char* to : {"b", "c", "d", "b"})
    text += std::string("[[connect]]\nfrom = \"a\"\nto = \"") + to +
            "\"\ncount = 100\ninterval = \"1ms\"\nmessages = 50\noctets = 1000\nprivate_data = 44\n"
            "[connect.mpa]\nrtr = \"read\"\n";
  for (int i = 0; i < 6; ++i)
    text +=
        "[[fault]]\naction = \"drop\"\nlink = \"s-t\"\nchance = \"5%\"\nfrom = \"123.456ms\"\nuntil = \"1.777s\"\n"
        "[[fault]]\naction = \"delay\"\nlink = \"a-s\"\nto = \"s\"\ndelay = \"7.654us\"\n";
  text += "[[fault]]\naction = \"drop\"\nlink = \"b-t\"\nmask = 0b1110110111\n";
  const auto read = parse_scenario(text, "big.toml");
  EXPECT_TRUE(read) << read.error().front().to_string();
  return read ? *read : Scenario{};
}

TEST(SimShrink, LeavesTheLeastScenarioWhenEverythingFails) {
  const Scenario small = shrink(
      big(), [](const Scenario&) { return true; }, 10000);
  EXPECT_TRUE(small.faults.empty());
  ASSERT_EQ(small.connects.size(), 1u);
  EXPECT_EQ(small.connects[0].count, 1u);
  EXPECT_EQ(small.connects[0].messages, 0u);
  EXPECT_EQ(small.connects[0].octets, 0u);
  EXPECT_EQ(small.connects[0].mpa.rtr, mpa::Rtr::none);
  EXPECT_TRUE(small.connects[0].private_data.empty());
  EXPECT_EQ(small.listens.size(), 1u) << "whom the connection meets";
  EXPECT_EQ(small.hosts.size(), 2u);
  EXPECT_EQ(small.links.size(), 1u) << to_toml(small);
  EXPECT_TRUE(check_scenario(small).empty());
}

TEST(SimShrink, FindsTheTwoFaultsThatFailTogether) {
  const auto fails = [](const Scenario& s) {
    const auto has = [&](const char* link, FaultAction action) {
      return std::any_of(s.faults.begin(), s.faults.end(),
                         [&](const ScenarioFault& f) { return f.link == link && f.rule.action == action; });
    };
    return has("s-t", FaultAction::drop) && has("a-s", FaultAction::delay);
  };
  const Scenario small = shrink(big(), fails, 10000);
  ASSERT_EQ(small.faults.size(), 2u) << to_toml(small);
  EXPECT_TRUE(fails(small));
  EXPECT_EQ(small.connects.size(), 1u);
}

TEST(SimShrink, FindsTheLeastNumbers) {
  const auto fails = [](const Scenario& s) {
    return std::any_of(s.connects.begin(), s.connects.end(), [](const ScenarioConnect& c) {
      return c.to == "b" && c.count >= 7 && c.messages >= 13 && c.octets >= 777;
    });
  };
  const Scenario small = shrink(big(), fails, 10000);
  ASSERT_EQ(small.connects.size(), 1u);
  EXPECT_EQ(small.connects[0].count, 7u);
  EXPECT_EQ(small.connects[0].messages, 13u);
  EXPECT_EQ(small.connects[0].octets, 777u);
  EXPECT_EQ(small.listens.size(), 1u);
  EXPECT_EQ(small.hosts.size(), 2u) << to_toml(small);
}

TEST(SimShrink, KeepsTheOptionThatMatters) {
  const auto fails = [](const Scenario& s) {
    return std::any_of(s.listens.begin(), s.listens.end(), [](const ScenarioListen& l) { return l.mpa.markers; });
  };
  const Scenario small = shrink(big(), fails, 10000);
  EXPECT_TRUE(fails(small));
  EXPECT_EQ(small.connects[0].mpa.rtr, mpa::Rtr::none) << "that one mattered not";
  EXPECT_EQ(small.listens[0].accept_after, Duration{});
}

TEST(SimShrink, JoinsTheLinksOfASwitchAndKeepsTheOneThatMatters) {
  for (const char* slow : {"a-s", "b-t", "s-t"}) {
    Scenario from = big();
    for (ScenarioLink& link : from.links)
      if (link.name == slow) link.options.delay = 77ms;
    const auto fails = [](const Scenario& s) {
      return std::any_of(s.links.begin(), s.links.end(),
                         [](const ScenarioLink& l) { return l.options.delay >= 70ms; }) &&
             std::any_of(s.connects.begin(), s.connects.end(), [](const ScenarioConnect& c) { return c.to == "b"; });
    };
    const Scenario small = shrink(from, fails, 10000);
    EXPECT_EQ(small.hosts.size(), 2u) << slow << '\n' << to_toml(small);
    ASSERT_EQ(small.links.size(), 1u) << slow << '\n' << to_toml(small);
    EXPECT_EQ(small.links[0].options.delay, 80ms);
  }
}

TEST(SimShrink, ThinsAMaskToTheBitsThatMatter) {
  const auto fails = [](const Scenario& s) {
    return std::any_of(s.faults.begin(), s.faults.end(),
                       [](const ScenarioFault& f) { return f.rule.mask && (*f.rule.mask & 0b1000100) == 0b0000100; }) ||
           std::any_of(s.faults.begin(), s.faults.end(),
                       [](const ScenarioFault& f) { return f.rule.mask && (*f.rule.mask & 0b100000) != 0; });
  };
  const Scenario small = shrink(big(), fails, 10000);
  ASSERT_EQ(small.faults.size(), 1u);
  EXPECT_EQ(std::popcount(small.faults[0].rule.mask.value_or(0)), 1);
  EXPECT_NE(small.faults[0].way, LinkDirection::both) << "one way is enough";
}

TEST(SimShrink, RoundsTimes) {
  const auto fails = [](const Scenario& s) {
    return std::any_of(s.faults.begin(), s.faults.end(),
                       [](const ScenarioFault& f) { return f.rule.until != never && f.rule.until >= Instant(1500ms); });
  };
  const Scenario small = shrink(big(), fails, 10000);
  ASSERT_EQ(small.faults.size(), 1u);
  EXPECT_EQ(small.faults[0].rule.until, Instant(2s));
  EXPECT_EQ(small.faults[0].rule.from, Instant(100ms));
}

TEST(SimShrink, StopsAfterSoManyRunsWithTheBestSoFar) {
  std::uint32_t runs = 0;
  const auto fails = [&](const Scenario& s) {
    ++runs;
    return s.connects.size() >= 2;
  };
  const Scenario small = shrink(big(), fails, 5);
  EXPECT_LE(runs, 5u);
  EXPECT_GE(small.connects.size(), 2u);
  EXPECT_LT(small.faults.size(), big().faults.size());
}

TEST(SimShrink, TriesOnlyScenariosThatCanRunAndGivesTheSameEachTime) {
  std::vector<std::string> steps[2];
  std::string result[2];
  for (int round = 0; round < 2; ++round) {
    const auto fails = [](const Scenario& s) {
      const auto errors = check_scenario(s);
      EXPECT_TRUE(errors.empty()) << errors.front().to_string();
      return s.connects.size() + s.faults.size() >= 3;
    };
    const auto progress = [&](const ShrinkStep& step) {
      steps[round].push_back(std::to_string(step.tries) + ' ' + step.what);
    };
    result[round] = to_toml(shrink(big(), fails, 10000, progress));
  }
  EXPECT_EQ(result[0], result[1]);
  EXPECT_EQ(steps[0], steps[1]);
  EXPECT_THAT(steps[0], testing::Contains(testing::HasSubstr("removed")));
  EXPECT_THAT(steps[0], testing::Contains(testing::HasSubstr("count lowered to 1")));
}

TEST(SimShrink, ReturnsWhatCannotBeMadeSmaller) {
  const auto nothing = [](const Scenario&) { return false; };
  EXPECT_EQ(to_toml(shrink(big(), nothing, 10000)), to_toml(big()));
}

TEST(SimShrink, ShrinksDrawnScenariosToTheirCause) {
  const auto fails = [](const Scenario& s) {
    return std::any_of(s.faults.begin(), s.faults.end(),
                       [](const ScenarioFault& f) { return f.rule.action == FaultAction::crash; });
  };
  int tried = 0;
  for (std::uint64_t seed = 0; seed < 300 && tried < 10; ++seed) {
    const Scenario drawn = draw_swarm(big(), seed);
    if (!fails(drawn)) continue;
    ++tried;
    const Scenario small = shrink(drawn, fails, 10000);
    EXPECT_TRUE(fails(small));
    EXPECT_EQ(small.faults.size(), 1u) << to_toml(small);
    EXPECT_EQ(small.connects.size(), 1u);
    EXPECT_TRUE(!small.faults[0].link.empty() || small.hosts.size() <= 3) << to_toml(small);
    EXPECT_EQ(small.faults[0].rule.match.nth, 1u);
  }
  EXPECT_EQ(tried, 10);
}

}  // namespace
}  // namespace parley::sim
