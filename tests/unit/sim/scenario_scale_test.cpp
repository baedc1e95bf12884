// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Scenarios of many hosts: `count`, `neighbours`, and bounds that grow.
#include <gmock/gmock.h>

#include "run_kit.hpp"
#include "scenario_kit.hpp"

namespace parley::sim::scenario_scale_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Scenario parsed(const std::string& toml) {
  auto read = parse_scenario(toml, "x.toml");
  EXPECT_TRUE(read) << read.error().front().to_string();
  return read.value_or(Scenario{});
}

std::vector<std::string> ways_of(const Scenario& s) {
  std::vector<std::string> out;
  for (const ScenarioConnect& c : s.connects) out.push_back(c.from + ">" + c.to);
  return out;
}

/// `count` hosts h1, h2, ... around a switch, each connected to the next.
std::string ring(std::uint32_t count, std::string_view top = "") {
  return fmt::format(
      "{}\n[[host]]\nname = \"h\"\ncount = {}\n[[switch]]\nname = \"s\"\n[[link]]\nends = [\"h\", \"s\"]\n"
      "[[listen]]\nhost = \"h\"\n[[connect]]\nfrom = \"h\"\nto = \"h\"\n",
      top, count);
}

// ---- count

TEST(SimScenarioCount, AHostWithACountIsThatManyHostsAndSoIsWhatNamesIt) {
  const Scenario s = parsed(ring(3));
  ASSERT_EQ(s.hosts.size(), 4U);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(s.hosts[i].name, fmt::format("h{}", i + 1));
    EXPECT_EQ(s.hosts[i].count, 1U);
    EXPECT_EQ(s.hosts[i].line, 2);
    EXPECT_EQ(s.links[i].name, fmt::format("h{}-s", i + 1));
    EXPECT_EQ(s.listens[i].host, s.hosts[i].name);
  }
  EXPECT_THAT(ways_of(s), ElementsAre("h1>h2", "h2>h3", "h3>h1"));
}

TEST(SimScenarioCount, TheExpandedScenarioReadsBackAsItself) {
  const Scenario s = parsed(ring(3, "neighbours = \"known\""));
  expect_same(s, parsed(to_toml(s)));
}

TEST(SimScenarioCount, ConnectsOfAllToOneOneToAllAndPairs) {
  const std::string more =
      "[[host]]\nname = \"b\"\ncount = 2\n[[link]]\nends = [\"s\", \"b\"]\n[[listen]]\nhost = \"b\"\n";
  const auto connects = [&](std::string_view from, std::string_view to) {
    return ways_of(parsed(ring(3) + more + fmt::format("[[connect]]\nfrom = \"{}\"\nto = \"{}\"\n", from, to)));
  };
  const auto behind_the_ring = [](std::vector<std::string> all) {
    return std::vector<std::string>(all.begin() + 3, all.end());
  };
  EXPECT_THAT(behind_the_ring(connects("h", "b1")), ElementsAre("h1>b1", "h2>b1", "h3>b1"));
  EXPECT_THAT(behind_the_ring(connects("h", "h2")), ElementsAre("h1>h2", "h3>h2"));
  EXPECT_THAT(behind_the_ring(connects("h3", "b")), ElementsAre("h3>b1", "h3>b2"));
  EXPECT_THAT(behind_the_ring(connects("h", "b")), ElementsAre("h1>b1", "h2>b2", "h3>b1"));
  EXPECT_THAT(behind_the_ring(connects("b", "h")), ElementsAre("b1>h1", "b2>h2", "b1>h3"));
}

TEST(SimScenarioCount, FaultsOfALinkOrHostWithACountAreOneForEach) {
  const Scenario s = parsed(ring(2) +
                            "[[fault]]\naction = \"drop\"\nlink = \"h-s\"\nto = \"h\"\nchance = \"1%\"\n"
                            "[[fault]]\naction = \"crash\"\nhost = \"h\"\nat = \"1s\"\nmay_miss = true\n");
  ASSERT_EQ(s.faults.size(), 4U);
  EXPECT_EQ(s.faults[1].link, "h2-s");
  EXPECT_EQ(s.faults[1].toward, "h2");
  EXPECT_EQ(s.faults[1].way, LinkDirection::backward);
  EXPECT_EQ(s.faults[3].host, "h2");
}

TEST(SimScenarioCount, ErrorsNameTheLine) {
  EXPECT_THAT(errors_of(ring(10'000'000)), ElementsAre("x.toml:4:1: count: 10000000 hosts are too many: a scenario has "
                                                       "at most 60000 hosts and switches"));
  EXPECT_THAT(errors_of(ring(0)),
              ElementsAre(HasSubstr("x.toml:4:1: count: the number 0 is not a whole number in 1..")));
  EXPECT_THAT(errors_of(ring(59'999) + "[[host]]\nname = \"b\"\ncount = 2\n"),
              ElementsAre(HasSubstr("x.toml:16:1: count: 60002 hosts")));
  EXPECT_THAT(errors_of(exchanged(ring(3), "to = \"h\"", "to = \"h4\"")),
              ElementsAre("x.toml:13:1: to: host 'h4' is not there; did you mean 'h1'?"));
  EXPECT_THAT(errors_of(exchanged(ring(3), "[\"h\", \"s\"]", "[\"h\", \"h\"]")),
              ::testing::Contains(HasSubstr("x.toml:8:1: ends: hosts of two counts")));
}

// Each error once, not once for each host.
TEST(SimScenarioCount, AnErrorOfATableIsReportedOnce) {
  EXPECT_THAT(errors_of(exchanged(ring(500), "[[link]]\nends = [\"h\", \"s\"]\n", "")),
              ElementsAre(HasSubstr("host 'h1' has no link"), HasSubstr("no path leads from 'h1' to 'h2'")));
}

TEST(SimScenarioCount, AnErrorOfThousandsOfHostsHidesNoOther) {
  EXPECT_THAT(errors_of(exchanged(ring(2000), "count = 2000", "count = 2000\nkeepalive = \"5s\"\ndead_after = \"1s\"") +
                        "[[connect]]\nfrom = \"h\"\nto = \"x\"\n"),
              ElementsAre(HasSubstr("x.toml:6:1: dead_after: "), HasSubstr("x.toml:18:1: to: host 'x' is not there")));
}

TEST(SimScenarioCount, SeveralErrorsOfOneKeyAreAllReported) {
  EXPECT_THAT(errors_of(ring(2) + "[[link]]\nends = [\"x\", \"y\"]\n[[link]]\nends = [\"h\", \"zzz\"]\n"),
              ElementsAre(HasSubstr("host or switch 'x' is not there"), HasSubstr("host or switch 'y' is not there"),
                          HasSubstr("host or switch 'zzz' is not there")));
}

TEST(SimScenarioCount, ANameOfHostsOrLinksWithACountIsNoOthersName) {
  constexpr std::string_view one_more = "[[host]]\nname = \"h\"\n", two_more = "[[host]]\nname = \"h\"\ncount = 2\n";
  for (const std::string_view more : {one_more, two_more})
    EXPECT_THAT(errors_of(ring(2) + std::string(more)),
                ElementsAre(HasSubstr("x.toml:15:1: name: 'h' is taken already")));
  EXPECT_THAT(errors_of(exchanged(ring(2), "count = 2", "") + std::string(two_more)),
              ElementsAre(HasSubstr("x.toml:15:1: name: 'h' is taken already")));
  const std::string named = exchanged(ring(2), "ends = [\"h\", \"s\"]", "name = \"l\"\nends = [\"h\", \"s\"]");
  const std::string other = "[[host]]\nname = \"b\"\n[[link]]\nends = [\"b\", \"s\"]\n";
  EXPECT_THAT(errors_of(named + other), IsEmpty());
  EXPECT_THAT(errors_of(named + other + "name = \"l\"\n"),
              ElementsAre(HasSubstr("x.toml:19:1: name: a link is called 'l' already")));
  EXPECT_THAT(errors_of(ring(2) + other + "name = \"h-s\"\n"),
              ElementsAre(HasSubstr("x.toml:18:1: name: a link is called 'h-s' already")));
}

TEST(SimScenarioCount, EachOfHundredsOfHostsMayHaveAFault) {
  const std::string crash = "[[fault]]\naction = \"crash\"\n";
  EXPECT_EQ(parsed(ring(300) + crash + "at = \"1s\"\nhost = \"h\"\n").faults.size(), 300U);
  EXPECT_THAT(errors_of(ring(300) + crash + "host = \"h\"\nlink = \"h1-s\"\n"),
              ElementsAre(HasSubstr("link: more than 256 faults of one link")));
}

// The connections never start: their hosts are down for good.
TEST(SimScenarioCount, AllHostsMayCrash) {
  const RunReport report = run_kit::run(ring(1000, "neighbours = \"known\"") + "at = \"2s\"\nexpect = \"settled\"\n" +
                                        "[[fault]]\naction = \"crash\"\nat = \"1s\"\nhost = \"h\"\n");
  EXPECT_TRUE(report.passed()) << run_kit::words(report);
  EXPECT_EQ(report.established + report.failed, 0U);
  EXPECT_EQ(report.faults_hit, 1000U);
}

// ---- neighbours

TEST(SimScenarioNeighbours, KnownNeighboursAreNotDiscovered) {
  const RunReport asked = run_kit::run(ring(4)), known = run_kit::run(ring(4, "neighbours = \"known\""));
  EXPECT_TRUE(asked.passed() && known.passed()) << run_kit::words(asked) << run_kit::words(known);
  EXPECT_LT(known.counters.packet_hops + 4 * 3 * 4, asked.counters.packet_hops);
}

TEST(SimScenarioNeighbours, FaultsOfDiscoveryAreRefusedWhereNoneIs) {
  for (const std::string_view match : {"arp_request", "nd.advert"}) {
    const std::string file =
        ring(2, "neighbours = \"known\"") +
        fmt::format("[[fault]]\naction = \"drop\"\nlink = \"h1-s\"\nmatch = \"{}\"\nmay_miss = true\n", match);
    EXPECT_THAT(errors_of(file),
                ElementsAre(HasSubstr("x.toml:17:1: match: with neighbours = \"known\" no host sends ")));
    EXPECT_THAT(errors_of(exchanged(file, "\"known\"", "\"discovered\"")), IsEmpty());
  }
  EXPECT_THAT(errors_of(ring(2, "neighbours = \"knwon\"")), ElementsAre(HasSubstr("did you mean 'known'?")));
}

// ---- bounds

TEST(SimScenarioBounds, DefaultsGrowWithTheScenarioAndValuesOfTheFileDoNot) {
  const ScenarioBounds small = bounds_of(parsed(ring(4)));
  EXPECT_EQ(small.events, 50'000'000U);
  EXPECT_EQ(small.frames, 1U << 20);
  const ScenarioBounds large = bounds_of(parsed(ring(1000)));
  EXPECT_GE(large.frames, 3U * 1000 * 1000) << "announcements of all at once";
  EXPECT_GE(large.events, small.events);
  Scenario many = parsed(ring(4));
  many.connects[0].count = 1'000'000;
  EXPECT_GT(bounds_of(many).events, 1'000'000'000U);
  for (const std::string_view written : {"frames = 7\nevents = 8", "frames = 1048576\nevents = 50000000"}) {
    const Scenario scenario = parsed(ring(500, fmt::format("[bounds]\n{}", written)));
    EXPECT_EQ(fmt::format("frames = {}\nevents = {}", *bounds_of(scenario).frames, *bounds_of(scenario).events),
              written);
    expect_same(scenario, parsed(to_toml(scenario)));
  }
}

TEST(SimScenarioBounds, DiscoveryAmongTenThousandNeedsBoundsOfItsOwn) {
  Scenario s = parsed(ring(2));
  const auto errors = [&] {
    std::vector<std::string> out;
    for (const ScenarioError& error : check_scenario(s))
      if (error.key == "neighbours") out.push_back(error.text);
    return out;
  };
  s.hosts.resize(4096 + 1);  // with the switch
  EXPECT_THAT(errors(), IsEmpty());
  s.hosts.resize(4097 + 1);
  EXPECT_THAT(errors(), ElementsAre(HasSubstr("4097 are more than 4096: write neighbours = \"known\"")));
  s.bounds.events = 8;
  EXPECT_THAT(errors(), ::testing::SizeIs(1));
  s.bounds.frames = 7;
  EXPECT_THAT(errors(), IsEmpty());
  s.bounds = {};
  s.hosts.resize(60'000);
  EXPECT_LT(bounds_of(s).events, 1'000'000'000U);
  s.neighbours = Neighbours::known;
  EXPECT_THAT(errors(), IsEmpty());
}

TEST(SimScenarioBounds, TheReportHasTheBoundsThatApplied) {
  const RunReport report = run_kit::run(ring(3, "[bounds]\nevents = 20"));
  EXPECT_EQ(report.end, RunEnd::event_bound);
  EXPECT_EQ(report.bounds.events, 20U);
}

}  // namespace
}  // namespace parley::sim::scenario_scale_test
