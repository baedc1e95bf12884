// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Scenarios with services of UD: what they may say, what comes of them, and what of them swarms draw.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include <fmt/format.h>

#include "run_kit.hpp"
#include "scenario_kit.hpp"
#include "sim/scenario/scenario.hpp"

namespace parley::sim::scenario_datagrams_test {
namespace {

using namespace std::chrono_literals;
using run_kit::run;
using run_kit::words;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr std::string_view good = R"([[host]]
name = "a"
engine = "roce"
[[host]]
name = "b"
engine = "roce"
[[link]]
ends = ["a", "b"]
[[listen]]
host = "b"
qp = "ud"
private_data = 136
[[connect]]
from = "a"
to = "b"
qp = "ud"
octets = 1024
private_data = 180
)";

std::string text_with(std::string_view old_text, std::string_view new_text) {
  return exchanged(std::string(good), old_text, new_text);
}
std::vector<std::string> refusals_with(std::string_view old_text, std::string_view new_text) {
  return errors_of(text_with(old_text, new_text));
}

TEST(ScenarioDatagrams, AreReadAndWritten) {
  const auto read = parse_scenario(good, "x.toml");
  ASSERT_TRUE(read) << read.error().front().to_string();
  EXPECT_EQ(read->listens[0].qp, QpKind::ud);
  EXPECT_EQ(read->connects[0].qp, QpKind::ud);
  EXPECT_EQ(parse_scenario(text_with("qp = \"ud\"\nprivate", "private"), "x.toml").has_value(), false);
  EXPECT_THAT(to_toml(*read), HasSubstr("qp = \"ud\"\n"));
  EXPECT_THAT(errors_of(to_toml(*read)), IsEmpty());
}

TEST(ScenarioDatagrams, WhatUdCannotDoIsRefusedWithItsLine) {
  EXPECT_THAT(refusals_with("to = \"b\"\nqp = \"ud\"", "to = \"b\"\nqp = \"uc\""),
              testing::Contains("x.toml:16:1: qp: 'uc' is unknown; did you mean 'rc'? (one of rc, ud, xrc)"));
  EXPECT_THAT(refusals_with("octets = 1024", "octets = 1025"),
              ElementsAre("x.toml:17:1: octets: a datagram is one packet, and those of 'a' have at most 1024 octets: "
                          "hca = { mtu = ... }"));
  EXPECT_THAT(refusals_with("octets = 1024", "transfer = \"read\""),
              ElementsAre("x.toml:17:1: transfer: over UD go Sends alone: write \"send\", or qp = \"rc\""));
  EXPECT_THAT(refusals_with("private_data = 180", "private_data = 181"),
              ElementsAre("x.toml:18:1: private_data: 181 octets, at most 180 fit into a SIDR_REQ (IBA Annex A11)"));
  EXPECT_THAT(refusals_with("private_data = 136", "private_data = 137"),
              ElementsAre("x.toml:12:1: private_data: 137 octets, at most 136 fit into a SIDR_REP (IBA §12.6)"));
  EXPECT_THAT(refusals_with("private_data = 136", "reject = true\nprivate_data = 137"),
              testing::Contains(HasSubstr("at most 136 fit into a SIDR_REP")));
}

TEST(ScenarioDatagrams, AreOfRoce) {
  std::string iwarp(good);
  for (std::size_t at = iwarp.find("engine = \"roce\"\n"); at != std::string::npos;
       at = iwarp.find("engine = \"roce\"\n"))
    iwarp.erase(at, 16);
  EXPECT_THAT(
      errors_of(iwarp),
      ElementsAre("x.toml:9:1: qp: \"ud\" is of RoCE: write engine = \"roce\" in the [[host]], or leave qp out",
                  "x.toml:14:1: qp: \"ud\" is of RoCE: write engine = \"roce\" in the [[host]], or leave qp out"));
}

TEST(ScenarioDatagrams, AServiceAndAListenerMayHaveOnePortAndEachIsAskedForByItsKind) {
  EXPECT_THAT(refusals_with("[[connect]]", "[[listen]]\nhost = \"b\"\n[[connect]]"), IsEmpty());
  EXPECT_THAT(refusals_with("[[connect]]", "[[listen]]\nhost = \"b\"\nqp = \"ud\"\n[[connect]]"),
              ElementsAre(HasSubstr("port: 7471 of 'b' is taken by the listener of line 9")));
  EXPECT_THAT(refusals_with("host = \"b\"\nqp = \"ud\"", "host = \"b\""),
              ElementsAre("x.toml:15:1: qp: 'b' listens on port 7471 with qp = \"rc\" only"));
  EXPECT_THAT(refusals_with("to = \"b\"\nqp = \"ud\"\noctets = 1024\nprivate_data = 180", "to = \"b\""),
              ElementsAre(HasSubstr("qp: 'b' listens on port 7471 with qp = \"ud\" only")));
}

TEST(ScenarioDatagrams, EveryOneIsDeliveredOnceAndAnswered) {
  for (const std::string_view more : {"messages = 100", "messages = 100\nboth_ways = false", "messages = 0",
                                      "messages = 40\ncount = 5\nclose = \"nobody\""}) {
    const RunReport report = run(std::string(good) + std::string(more) + "\n");
    EXPECT_TRUE(report.passed()) << more << '\n' << words(report);
    EXPECT_LT(report.finished_at, Instant(1s)) << "nobody waited for what had come: " << more;
  }
  const RunReport one = run(text_with("octets = 1024", "messages = 100\noctets = 3"));
  EXPECT_TRUE(one.passed()) << words(one);
  EXPECT_EQ(one.outcomes.at(0).octets, 600U);
}

TEST(ScenarioDatagrams, AServiceThatIsNotThereAndOneThatSaysNo) {
  const RunReport nobody = run(text_with("to = \"b\"\nqp", "to = \"b\"\nport = 9\nexpect = \"failed\"\nqp"));
  EXPECT_TRUE(nobody.passed()) << words(nobody);
  EXPECT_THAT(nobody.outcomes.at(0).initiator, HasSubstr("service ID not supported"));
  const RunReport no = run(text_with("octets = 1024", "octets = 1024\nexpect = \"rejected\"")
                               .replace(std::string(good).find("private_data = 136"), 0, "reject = true\n"));
  EXPECT_TRUE(no.passed()) << words(no);
  EXPECT_THAT(no.outcomes.at(0).initiator, HasSubstr("rejected by the service"));
}

/// A fault on the n-th message of a kind.
Scenario with_fault(MessageKind kind, FaultAction action, std::uint32_t nth) {
  Scenario s = *parse_scenario(std::string(good) + "messages = 30\n", "x.toml");
  ScenarioFault fault;
  fault.link = "a-b";
  fault.rule.match = {.message = kind, .nth = nth, .times = 1};
  fault.rule.action = action;
  s.faults.push_back(std::move(fault));
  return s;
}

// A message of the set-up may be lost or doubled: every datagram comes all the same.
TEST(ScenarioDatagrams, ALostMessageOfTheSetUpCostsNoDatagram) {
  for (const MessageKind kind : {MessageKind::cm_sidr_req, MessageKind::cm_sidr_rep})
    for (const FaultAction action : {FaultAction::drop, FaultAction::duplicate, FaultAction::corrupt}) {
      const RunReport report = run(with_fault(kind, action, 1));
      EXPECT_TRUE(report.passed()) << to_string(kind) << ' ' << to_string(action) << '\n' << words(report);
      EXPECT_EQ(report.outcomes.at(0).octets, 2U * 30 * 1024) << to_string(kind) << ' ' << to_string(action);
    }
}

TEST(ScenarioDatagrams, OneThatIsLostStaysLostAndNobodyWaitsForEver) {
  for (const std::uint32_t nth : {1U, 20U, 30U}) {
    Scenario s = with_fault(MessageKind::roce_datagram, FaultAction::drop, nth);
    s.faults[0].way = LinkDirection::forward;
    const RunReport report = run(s);
    EXPECT_TRUE(report.passed()) << nth << '\n' << words(report);
    EXPECT_EQ(report.outcomes.at(0).octets, 2U * 29 * 1024) << nth;
    EXPECT_LT(report.finished_at, Instant(30s)) << nth;
  }
  const RunReport twice = run(with_fault(MessageKind::roce_datagram, FaultAction::duplicate, 5));
  EXPECT_TRUE(twice.passed()) << words(twice);
  EXPECT_EQ(twice.outcomes.at(0).octets, 2U * 30 * 1024) << "the copy counts for nothing";
}

TEST(ScenarioDatagrams, WhatComesLateIsNotLost) {
  Scenario s = with_fault(MessageKind::roce_datagram, FaultAction::delay, 1);
  s.faults[0].rule.delay = 6s;  // longer than anybody waits for an answer otherwise
  const RunReport report = run(s);
  EXPECT_TRUE(report.passed()) << words(report);
  EXPECT_EQ(report.outcomes.at(0).octets, 2U * 30 * 1024);
}

TEST(ScenarioDatagrams, SwarmsDrawWhatUdTakesAndItsMessages) {
  const Scenario from = *parse_scenario(good, "x.toml");
  std::set<std::string> seen;
  for (std::uint64_t seed = 0; seed < 3000; ++seed) {
    const Scenario drawn = draw_swarm(from, seed);
    const auto problems = check_scenario(drawn);
    ASSERT_TRUE(problems.empty()) << seed << ": " << problems.front().to_string();
    EXPECT_EQ(drawn.connects[0].qp, QpKind::ud);
    for (const ScenarioFault& fault : drawn.faults) seen.insert(std::string(to_string(fault.rule.match.message)));
  }
  for (const char* kind : {"cm_sidr_req", "cm_sidr_rep", "roce_datagram"}) EXPECT_TRUE(seen.contains(kind)) << kind;
}

}  // namespace
}  // namespace parley::sim::scenario_datagrams_test
