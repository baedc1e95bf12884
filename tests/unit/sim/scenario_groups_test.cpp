// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Scenarios with multicast groups: what they may say, what comes of them, and what of them swarms draw.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include <fmt/format.h>

#include "sim/scenario/scenario.hpp"
#include "tests/unit/sim/run_kit.hpp"
#include "tests/unit/sim/scenario_kit.hpp"

namespace parley::sim::scenario_groups_test {
namespace {

using namespace std::chrono_literals;
using run_kit::run;
using run_kit::words;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr std::string_view network = R"([[host]]
name = "a"
engine = "roce"
[[host]]
name = "b"
engine = "roce"
[[host]]
name = "c"
engine = "roce"
[[switch]]
name = "s"
[[link]]
ends = ["a", "s"]
[[link]]
ends = ["b", "s"]
[[link]]
ends = ["c", "s"]
)";
constexpr std::string_view work = R"([[member]]
host = "b"
group = "239.1.2.3"
[[send]]
from = "a"
group = "239.1.2.3"
messages = 30
)";

std::string good() { return std::string(network) + std::string(work); }
std::vector<std::string> errors_with(std::string_view old_text, std::string_view new_text) {
  return errors_of(exchanged(good(), old_text, new_text));
}

std::vector<std::uint64_t> counts(const RunReport& report) {
  std::vector<std::uint64_t> out;
  for (const GroupOutcome& group : report.groups) out.push_back(group.datagrams);
  return out;
}

TEST(ScenarioGroups, AreReadAndWritten) {
  const std::string text = good() + R"([[member]]
host = "c"
group = "ff0e::7174"
at = "1ms"
until = "2ms"
rejoin = false
expect = 7
)";
  const auto read = parse_scenario(text, "x.toml");
  ASSERT_TRUE(read) << read.error().front().to_string();
  ASSERT_EQ(read->members.size(), 2U);
  EXPECT_EQ(read->members[0].until, never);
  EXPECT_FALSE(read->members[0].expect);
  EXPECT_EQ(read->members[1].expect, 7U);
  EXPECT_EQ(read->sends.at(0).group, Address::v4(239, 1, 2, 3, 0));
  EXPECT_THAT(to_toml(*read),
              HasSubstr("group = \"ff0e::7174\"\nat = \"1ms\"\nuntil = \"2ms\"\nrejoin = false\nexpect = 7\n"));
  const auto again = parse_scenario(to_toml(*read), "x.toml");
  ASSERT_TRUE(again) << again.error().front().to_string();
  expect_same(*read, *again);
}

TEST(ScenarioGroups, WhatIsNoGroupIsRefusedWithItsLine) {
  for (const char* no : {"\"10.1.2.3\"", "\"239.1.2.3:7174\"", "\"fe80::1\"", "\"ff02::1%3\"", "\"b\"", "7"})
    EXPECT_THAT(errors_with("\"239.1.2.3\"", no), testing::Contains(testing::StartsWith("x.toml:20:1: group: "))) << no;
  EXPECT_THAT(errors_with("\"239.1.2.3\"", "\"10.1.2.3\""),
              testing::Contains("x.toml:20:1: group: '10.1.2.3' is not a multicast address such as \"239.1.2.3\" or "
                                "\"ff0e::7174\""));
  EXPECT_THAT(errors_with("group = \"239.1.2.3\"\n[[send]]", "[[send]]"),
              ElementsAre("x.toml:18:1: group is missing: add group = \"239.1.2.3\", or another"));
}

TEST(ScenarioGroups, MembersAndSendersAreHostsWithOneNicOfRoce) {
  EXPECT_THAT(errors_with("host = \"b\"", "host = \"x\""),
              ElementsAre("x.toml:19:1: host: host 'x' is not there; did you mean 'a'?"));
  EXPECT_THAT(errors_with("from = \"a\"\n", ""),
              ElementsAre("x.toml:21:1: from is missing: add from = \"<name of a host>\""));
  EXPECT_THAT(errors_with("from = \"a\"", "from = \"s\""),
              ElementsAre("x.toml:22:1: from: 's' is a switch, and a host is needed"));
  EXPECT_THAT(
      errors_with("name = \"b\"\nengine = \"roce\"", "name = \"b\""),
      ElementsAre("x.toml:18:1: host: 'b' has engine = \"iwarp\", and groups are of RoCE: write engine = \"roce\" "
                  "in the [[host]]"));
  EXPECT_THAT(errors_with("[[member]]", "[[link]]\nends = [\"a\", \"c\"]\n[[member]]"),
              ElementsAre("x.toml:24:1: from: 'a' has several NICs with RoCE, and a group is of one network: give it "
                          "one"));
  const auto nics = [](std::string_view names) {
    std::string text = "name = \"b\"\n";
    for (const char name : names) text += fmt::format("[[host.nic]]\nname = \"{}\"\nengine = \"roce\"\n", name);
    return exchanged(good(), "name = \"b\"\nengine = \"roce\"\n", text);
  };
  EXPECT_THAT(errors_of(nics("xy")), Contains(HasSubstr("host: 'b' has several NICs with RoCE")));
  EXPECT_THAT(errors_of(nics("x")), IsEmpty());
  std::string v6 = exchanged(good(), "name = \"b\"", "name = \"b\"\nipv6 = false");
  for (int i = 0; i < 2; ++i) v6 = exchanged(v6, "239.1.2.3", "ff0e::1");
  EXPECT_THAT(errors_of(v6), ElementsAre("x.toml:21:1: group: 'b' has ipv6 = false"));
}

TEST(ScenarioGroups, WhatCannotBeIsRefused) {
  EXPECT_THAT(errors_with("messages = 30", "octets = 7"),
              ElementsAre("x.toml:24:1: octets: write 8 or more, so that datagrams differ"));
  EXPECT_THAT(errors_with("messages = 30", "octets = 1025"),
              ElementsAre("x.toml:24:1: octets: a datagram is one packet, and those of 'a' have at most 1024 octets: "
                          "hca = { mtu = ... }"));
  EXPECT_THAT(errors_with("messages = 30", "messages = 100001"),
              ElementsAre("x.toml:24:1: messages: the number 100001 is not a whole number in 0..100000"));
  EXPECT_THAT(errors_with("messages = 30", "messages = 30\ninterval = \"5s\""),
              ElementsAre("x.toml:25:1: the last datagram would leave when the run is over: [bounds] time is 120s"));
  EXPECT_THAT(errors_with("messages = 30", "messages = 3\nat = \"2m\""),
              ElementsAre(HasSubstr("x.toml:21:1: the last datagram would leave when the run is over")));
  EXPECT_THAT(errors_with("[[send]]", "until = \"0s\"\n[[send]]"),
              ElementsAre("x.toml:21:1: until: it must come after at, when the host joins"));
  EXPECT_THAT(errors_with("[[send]]", "until = \"1h\"\n[[send]]"),
              ElementsAre("x.toml:21:1: until: the run is over by then: [bounds] time is 120s"));
  EXPECT_THAT(errors_with("[[send]]", "at = \"never\"\n[[send]]"),
              ElementsAre("x.toml:21:1: at: write a time from 0s on, below [bounds] time, which is 120s"));
  EXPECT_THAT(errors_with("[[member]]", "[[listen]]\nhost = \"b\"\nqp = \"ud\"\nport = 7174\n[[member]]"),
              ElementsAre("x.toml:21:1: port: 7174 is where hosts of a scenario with groups hold their address; choose "
                          "another"));
  EXPECT_THAT(errors_with("ends = [\"b\", \"s\"]", "ends = [\"b\", \"c\"]"),
              testing::Contains(HasSubstr("group: no path leads from 'a' to the member 'b'; hosts do not forward")));
}

TEST(ScenarioGroups, BoundsOfTheWhole) {
  std::string many = good();
  for (int i = 0; i < 11; ++i) many += "[[send]]\nfrom = \"a\"\ngroup = \"239.1.2.3\"\nmessages = 100000\n";
  EXPECT_THAT(errors_of(many), ElementsAre("x.toml:64:1: messages: more than 1000000 in one scenario, counted at each "
                                           "member of their groups"));
  std::string groups = good();
  for (int i = 0; i < 64; ++i) groups += fmt::format("[[member]]\nhost = \"c\"\ngroup = \"239.1.3.{}\"\n", i);
  EXPECT_THAT(errors_of(groups), ElementsAre("x.toml:20:1: group: 65 groups in one scenario, at most 64"));
  std::string members = good();
  for (int i = 0; i < 1024; ++i) members += "[[member]]\nhost = \"c\"\ngroup = \"239.1.2.3\"\n";
  EXPECT_THAT(errors_of(members), ElementsAre(HasSubstr("more than 1024 of [[member]] in one scenario")));
  EXPECT_THAT(
      errors_of(network),
      testing::Contains(HasSubstr("nothing happens here: add a [[connect]], or a [[send]] to a multicast group")));
}

TEST(ScenarioGroups, EachMemberGetsEachDatagramOnceAndNobodyElseAny) {
  for (const char* group : {"239.1.2.3", "ff0e::7174"}) {
    std::string text = good() + fmt::format(
                                    "[[member]]\nhost = \"b\"\ngroup = \"{0}\"\n[[member]]\nhost = \"a\"\ngroup = "
                                    "\"{0}\"\n[[send]]\nfrom = \"c\"\ngroup = \"{0}\"\nmessages = 20\noctets = "
                                    "1024\n",
                                    group);
    for (int i = 0; i < 2; ++i)
      text = exchanged(text, "group = \"239.1.2.3\"\n", fmt::format("group = \"{}\"\n", group));
    const RunReport report = run(text);
    EXPECT_TRUE(report.passed()) << words(report);
    EXPECT_THAT(counts(report), ElementsAre(50, 50, 50, 30, 20)) << "a hears itself";
    EXPECT_EQ(report.groups[0].octets, 30U * 64 + 20 * 1024);
    EXPECT_EQ(connections_text(report), "50 sent to groups, 150 received");
  }
}

TEST(ScenarioGroups, WhoLeavesGetsNoMore) {
  std::string text = exchanged(good(), "messages = 30", "messages = 30\ninterval = \"10us\"");
  text = exchanged(text, "[[send]]", "at = \"45us\"\nuntil = \"145us\"\nexpect = 10\n[[send]]");
  const RunReport report = run(text);
  EXPECT_TRUE(report.passed()) << words(report);
  const RunReport wrong = run(exchanged(text, "expect = 10", "expect = 11"));
  ASSERT_EQ(wrong.violations.size(), 1U) << words(wrong);
  EXPECT_EQ(wrong.violations[0].checker, "expectation");
  EXPECT_EQ(wrong.violations[0].text, "got 10 datagrams, and 11 were expected");
}

/// A fault on the datagram of a PSN, towards b.
Scenario with_fault(FaultAction action, std::uint32_t psn) {
  Scenario s = *parse_scenario(
      exchanged(good(), "[[send]]", "[[member]]\nhost = \"c\"\ngroup = \"239.1.2.3\"\n[[send]]"), "x.toml");
  ScenarioFault fault;
  fault.link = "b-s";
  fault.way = LinkDirection::backward;
  fault.rule.match = {.message = MessageKind::roce_datagram, .psn = psn};
  fault.rule.action = action;
  if (action == FaultAction::delay) fault.rule.delay = 3us;
  fault.rule.reorder = action == FaultAction::delay;
  s.faults.push_back(std::move(fault));
  return s;
}

TEST(ScenarioGroups, WhatIsLostIsMissingThereAlone) {
  for (const std::uint32_t psn : {0U, 13U, 29U})
    for (const FaultAction action : {FaultAction::drop, FaultAction::corrupt, FaultAction::corrupt_roce}) {
      const RunReport report = run(with_fault(action, psn));
      EXPECT_TRUE(report.passed()) << psn << ' ' << to_string(action) << '\n' << words(report);
      EXPECT_THAT(counts(report), ElementsAre(29, 30, 30)) << psn << ' ' << to_string(action);
    }
  for (const FaultAction action : {FaultAction::duplicate, FaultAction::delay}) {
    const RunReport report = run(with_fault(action, 4));
    EXPECT_TRUE(report.passed()) << to_string(action) << '\n' << words(report);
    EXPECT_THAT(counts(report), ElementsAre(30, 30, 30)) << to_string(action);
  }
}

TEST(ScenarioGroups, AHostThatComesBackJoinsAgainUnlessItIsToldNotTo) {
  std::string text = exchanged(good(), "messages = 30", "messages = 30\ninterval = \"100us\"");
  text +=
      "[[fault]]\naction = \"crash\"\nhost = \"b\"\nat = \"950us\"\n[[fault]]\naction = \"restart\"\nhost = "
      "\"b\"\nat = \"1950us\"\n";
  const RunReport report = run(text);
  EXPECT_TRUE(report.passed()) << words(report);
  EXPECT_THAT(counts(report), ElementsAre(20, 30));
  const RunReport away = run(exchanged(text, "[[send]]", "rejoin = false\n[[send]]"));
  EXPECT_TRUE(away.passed()) << words(away);
  EXPECT_THAT(counts(away), ElementsAre(10, 30));
  std::string sender = exchanged(text, "host = \"b\"\nat = \"950us\"", "host = \"a\"\nat = \"950us\"");
  sender = exchanged(sender, "host = \"b\"\nat = \"1950us\"", "host = \"a\"\nat = \"1950us\"");
  const RunReport goes_on = run(sender);
  EXPECT_TRUE(goes_on.passed()) << words(goes_on);
  EXPECT_THAT(counts(goes_on), ElementsAre(30, 30));
}

TEST(ScenarioGroups, AHostThatStaysDownIsNotWaitedFor) {
  for (const char* host : {"a", "b"}) {
    const RunReport report = run(exchanged(good(), "messages = 30", "messages = 30\ninterval = \"100us\"") +
                                 fmt::format("[[fault]]\naction = \"crash\"\nhost = \"{}\"\nat = \"950us\"\n", host));
    EXPECT_TRUE(report.passed()) << words(report);
    EXPECT_EQ(counts(report).at(0), 10U) << host;
  }
}

TEST(ScenarioGroups, NobodyConnectsToWhereAHostHoldsItsAddress) {
  EXPECT_THAT(errors_of(good() + "[[connect]]\nfrom = \"a\"\nto = \"b\"\nqp = \"ud\"\nport = 7174\nexpect = "
                                 "\"failed\"\n"),
              ElementsAre(HasSubstr("port: 7174 is where hosts of a scenario with groups hold their address")));
}

TEST(ScenarioGroups, SwarmsDrawWhatGroupsTake) {
  const Scenario from = *parse_scenario(exchanged(good(), "[[send]]", "expect = 30\n[[send]]"), "x.toml");
  std::set<std::string> seen;
  for (std::uint64_t seed = 0; seed < 1000; ++seed) {
    std::vector<std::string> drawn_text;
    const Scenario drawn = draw_swarm(from, seed, &drawn_text);
    const auto problems = check_scenario(drawn);
    ASSERT_TRUE(problems.empty()) << seed << ": " << problems.front().to_string();
    EXPECT_FALSE(drawn.members[0].expect);
    for (const std::string& line : drawn_text)
      if (line.starts_with("send 1: ")) seen.insert(line.substr(8, line.find(' ', 8) - 8));
    for (const ScenarioFault& fault : drawn.faults) seen.insert(std::string(to_string(fault.rule.match.message)));
  }
  for (const char* word : {"messages", "octets", "interval", "at", "roce_datagram"})
    EXPECT_TRUE(seen.contains(word)) << word;
  EXPECT_FALSE(seen.contains("cm_sidr_req")) << "no group is set up";
}

TEST(ScenarioGroups, AFailingOneBecomesSmaller) {
  const Scenario failing = *parse_scenario(
      exchanged(exchanged(good(), "[[send]]", "expect = 99\n[[member]]\nhost = \"c\"\ngroup = \"239.1.2.3\"\n[[send]]"),
                "messages = 30", "messages = 30\n[[send]]\nfrom = \"c\"\ngroup = \"239.9.9.9\"\n"),
      "x.toml");
  const auto fails = [](const Scenario& s) {
    const RunReport report = run(s);
    return !report.violations.empty() && report.violations.front().checker == "expectation";
  };
  ASSERT_TRUE(fails(failing));
  const Scenario small = shrink(failing, fails, 500);
  EXPECT_EQ(small.members.size(), 1U);
  ASSERT_EQ(small.sends.size(), 1U);
  EXPECT_EQ(small.sends[0].messages, 0U);
  EXPECT_EQ(small.hosts.size(), 2U) << to_toml(small);
}

}  // namespace
}  // namespace parley::sim::scenario_groups_test
