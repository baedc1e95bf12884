// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Scenarios with XRC: what they may say, what comes of them, and what of them swarms draw.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include <fmt/format.h>

#include "sim/check/xrc.hpp"
#include "sim/scenario/scenario.hpp"
#include "sim/workload/workload_xrc.hpp"
#include "tests/unit/sim/run_kit.hpp"
#include "tests/unit/sim/scenario_kit.hpp"

namespace parley::sim::scenario_xrc_test {
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
qp = "xrc"
processes = 3
[[connect]]
from = "a"
to = "b"
qp = "xrc"
octets = 1500
messages = 30
)";

std::string with(std::string_view old_text, std::string_view new_text) {
  return exchanged(std::string(good), old_text, new_text);
}
std::string more(std::string_view lines) { return std::string(good) + std::string(lines); }

/// What each process of the only node got.
std::vector<std::uint64_t> messages(const RunReport& report) {
  std::vector<std::uint64_t> out;
  if (report.xrc.size() != 1) return out;
  for (const XrcOutcome::Process& process : report.xrc[0].processes) out.push_back(process.messages);
  return out;
}

TEST(ScenarioXrc, IsReadAndWritten) {
  const auto read =
      parse_scenario(more("srq = 2\n[[exit]]\nhost = \"b\"\nprocess = 3\nat = \"1ms\"\nhow = \"leave\"\n"), "x.toml");
  ASSERT_TRUE(read) << read.error().front().to_string();
  EXPECT_EQ(read->listens[0].qp, QpKind::xrc);
  EXPECT_EQ(read->listens[0].processes, 3U);
  EXPECT_EQ(read->connects[0].srq, 2U);
  ASSERT_EQ(read->exits.size(), 1U);
  EXPECT_EQ(read->exits[0].how, ExitKind::leave);
  EXPECT_THAT(to_toml(*read), HasSubstr("[[exit]]\nhost = \"b\"\nprocess = 3\nat = \"1ms\"\nhow = \"leave\"\n"));
  const auto again = parse_scenario(to_toml(*read), "x.toml");
  ASSERT_TRUE(again) << again.error().front().to_string();
  expect_same(*read, *again);
}

TEST(ScenarioXrc, WhatItCannotDoIsRefusedWithItsLine) {
  EXPECT_THAT(errors_of(with("octets = 1500", "octets = 7")),
              ElementsAre("x.toml:17:1: octets: over XRC write 8..65536"));
  EXPECT_THAT(errors_of(with("octets = 1500", "transfer = \"write\"")),
              ElementsAre("x.toml:17:1: transfer: to shared receive queues go Sends alone: write \"send\", or qp = "
                          "\"rc\""));
  EXPECT_THAT(errors_of(more("srq = 4\n")), ElementsAre("x.toml:19:1: srq: 'b' has processes = 3 at port 7471"));
  EXPECT_THAT(errors_of(more("srq = 17\n")),
              ElementsAre(HasSubstr("srq: the number 17 is not a whole number in 0..16")));
  EXPECT_THAT(errors_of(more("close = \"responder\"\n")),
              ElementsAre("x.toml:19:1: close: not allowed with XRC: only the initiator disconnects. Remove it"));
  EXPECT_THAT(errors_of(more("expect = \"rejected\"\n")),
              ElementsAre(HasSubstr("x.toml:19:1: expect: the service of an XRC node never rejects")));
  EXPECT_THAT(errors_of(with("processes = 3", "processes = 17")),
              testing::Contains(HasSubstr("processes: the number 17 is not a whole number in 1..16")));
  for (const char* line : {"accept_after = \"1ms\"", "reject = true", "private_data = \"x\""})
    EXPECT_THAT(
        errors_of(with("processes = 3", line)),
        ElementsAre(HasSubstr("the service of an XRC node answers each at once, and has nothing to say besides")))
        << line;
  EXPECT_THAT(errors_of(more("private_data = 57\n")), ElementsAre(HasSubstr("at most 56 fit into a REQ")));
}

TEST(ScenarioXrc, IsOfRoceAndItsServiceHasThePortOfBothSpaces) {
  std::string iwarp(good);
  for (std::size_t at = iwarp.find("engine = \"roce\"\n"); at != std::string::npos;
       at = iwarp.find("engine = \"roce\"\n"))
    iwarp.erase(at, 16);
  EXPECT_THAT(errors_of(iwarp), testing::Contains(HasSubstr("qp: \"xrc\" is of RoCE")));
  for (const char* qp : {"rc", "ud", "xrc"})
    EXPECT_THAT(errors_of(with("[[connect]]", fmt::format("[[listen]]\nhost = \"b\"\nqp = \"{}\"\n[[connect]]", qp))),
                ElementsAre("x.toml:13:1: port: 7471 of 'b' is taken by the listener of line 9; choose another"))
        << qp;
  EXPECT_THAT(errors_of(with("to = \"b\"\nqp = \"xrc\"", "to = \"b\"")),
              ElementsAre(HasSubstr("qp: 'b' listens on port 7471 with qp = \"xrc\" only")));
}

TEST(ScenarioXrc, ExitsAreOfProcessesThatAreThere) {
  const auto with_exit = [](std::string_view lines) { return errors_of(more(fmt::format("[[exit]]\n{}", lines))); };
  EXPECT_THAT(with_exit("host = \"b\"\n"), IsEmpty());
  EXPECT_THAT(with_exit("process = 2\n"), ElementsAre("x.toml:19:1: host is missing: add host = \"<name of a host>\""));
  EXPECT_THAT(with_exit("host = \"a\"\n"),
              ElementsAre("x.toml:19:1: port: there is no listener on port 7471 of 'a' with qp = \"xrc\""));
  EXPECT_THAT(with_exit("host = \"b\"\nprocess = 4\n"),
              ElementsAre("x.toml:21:1: process: 'b' has processes = 3 at port 7471"));
  EXPECT_THAT(with_exit("host = \"b\"\n[[exit]]\nhost = \"b\"\n"),
              ElementsAre("x.toml:21:1: process: number 1 ends in another [[exit]] already"));
  EXPECT_THAT(with_exit("host = \"b\"\nat = \"2m\"\n"),
              ElementsAre("x.toml:21:1: at: write a time from 0s on, below [bounds] time, which is 120s"));
  EXPECT_THAT(with_exit("host = \"b\"\nhow = \"die\"\n"), ElementsAre(HasSubstr("x.toml:21:1: how: 'die' is")));
}

TEST(ScenarioXrc, MessagesReachEachQueueInTurnOrTheChosenOne) {
  const RunReport each = run(std::string(good));
  EXPECT_TRUE(each.passed()) << words(each);
  EXPECT_THAT(messages(each), ElementsAre(10, 10, 10));
  EXPECT_EQ(each.outcomes.at(0).octets, 30U * 1500);
  EXPECT_EQ(connections_text(each), "1 established, 1 TGT queue pair");
  const RunReport one = run(more("srq = 2\ncount = 4\n"));
  EXPECT_TRUE(one.passed()) << words(one);
  EXPECT_THAT(messages(one), ElementsAre(0, 120, 0));
  EXPECT_EQ(one.xrc[0].created, 4U) << "each INI queue pair has its own";
  EXPECT_EQ(one.xrc[0].destroyed, 4U);
  EXPECT_EQ(one.xrc[0].reaped, 0U) << "all let go";
  const RunReport none = run(with("messages = 30", "messages = 0"));
  EXPECT_TRUE(none.passed()) << words(none);
}

TEST(ScenarioXrc, BesideOtherNodesAndIPv6) {
  const RunReport report =
      run(more("[[listen]]\nhost = \"b\"\nqp = \"xrc\"\nport = 7472\naddress = \"v6\"\n[[connect]]\n"
               "from = \"a\"\nto = \"b\"\nqp = \"xrc\"\nport = 7472\naddress = \"v6\"\nmessages = "
               "7\n"));
  EXPECT_TRUE(report.passed()) << words(report);
  ASSERT_EQ(report.xrc.size(), 2U);
  EXPECT_EQ(report.xrc[0].label, "b:7471");
  EXPECT_EQ(report.xrc[1].processes.at(0).messages, 7U);
}

TEST(ScenarioXrc, AProcessThatIsKilledTakesItsQueueAlone) {
  for (const char* how : {"kill", "leave"}) {
    const RunReport report =
        run(with("messages = 30",
                 "messages = 3000\nsrq = 1\n[[connect]]\nfrom = \"a\"\nto = \"b\"\nqp = \"xrc\"\nmessages "
                 "= 3000\nsrq = 2\nexpect = \"settled\"") +
            fmt::format("[[exit]]\nhost = \"b\"\nprocess = 2\nat = \"200us\"\nhow = \"{}\"\n", how));
    EXPECT_TRUE(report.passed()) << how << '\n' << words(report);
    ASSERT_EQ(report.xrc.size(), 1U);
    EXPECT_THAT(report.outcomes.at(1).initiator, HasSubstr("no ACK of 10.0.0.2:7471 in 7 retries"));
    EXPECT_EQ(report.xrc[0].processes[0].messages, 3000U) << how;
    EXPECT_LT(report.xrc[0].processes[1].messages, 3000U) << how;
    EXPECT_GT(report.xrc[0].processes[1].messages, 0U) << how;
    EXPECT_TRUE(report.xrc[0].processes[1].exited);
    EXPECT_EQ(report.xrc[0].created, 2U);
    EXPECT_EQ(report.xrc[0].destroyed, 2U) << "the end of an INI queue pair is that of its TGT";
  }
}

TEST(ScenarioXrc, AQueueThatNobodyHasIsSaidSo) {
  const RunReport no = run(more("srq = 2\nat = \"1ms\"\nexpect = \"failed\"\n[[exit]]\nhost = \"b\"\nprocess = 2\n"));
  EXPECT_TRUE(no.passed()) << words(no);
  EXPECT_THAT(no.outcomes.at(0).initiator, HasSubstr("rejected by the service"));
  const RunReport others = run(more("at = \"1ms\"\n[[exit]]\nhost = \"b\"\nprocess = 2\n"));
  EXPECT_TRUE(others.passed()) << words(others);
  EXPECT_THAT(messages(others), ElementsAre(15, 0, 15)) << "they get its share";
  const RunReport nobody =
      run(with("processes = 3", "processes = 1") + "at = \"1ms\"\nexpect = \"failed\"\n[[exit]]\nhost = \"b\"\n");
  EXPECT_TRUE(nobody.passed()) << words(nobody);
  EXPECT_EQ(nobody.xrc.at(0).created, 0U);
}

TEST(ScenarioXrc, ALostMessageOfTheSetUpComesAgain) {
  for (const MessageKind kind : {MessageKind::cm_sidr_req, MessageKind::cm_sidr_rep, MessageKind::cm_req,
                                 MessageKind::cm_rep, MessageKind::cm_rtu, MessageKind::cm_dreq, MessageKind::cm_drep})
    for (const FaultAction action : {FaultAction::drop, FaultAction::duplicate, FaultAction::corrupt}) {
      Scenario s = *parse_scenario(good, "x.toml");
      ScenarioFault fault;
      fault.link = "a-b";
      fault.rule.match = {.message = kind, .nth = 1, .times = 1};
      fault.rule.action = action;
      s.faults.push_back(std::move(fault));
      const RunReport report = run(s);
      EXPECT_TRUE(report.passed()) << to_string(kind) << ' ' << to_string(action) << '\n' << words(report);
      EXPECT_THAT(messages(report), ElementsAre(10, 10, 10)) << to_string(kind) << ' ' << to_string(action);
      EXPECT_EQ(report.xrc.at(0).created, report.xrc.at(0).destroyed);
    }
}

// Nobody tells a TGT queue pair that its peer's host has crashed: it stays, and the run ends all the same.
TEST(ScenarioXrc, AnInitiatorThatCrashesLeavesItsTgtQueuePair) {
  const RunReport report = run(with("messages = 30", "messages = 4000\nexpect = \"settled\"") +
                               "[[fault]]\naction = \"crash\"\nhost = \"a\"\nat = \"500us\"\n");
  EXPECT_TRUE(report.passed()) << words(report);
  EXPECT_EQ(report.xrc.at(0).created, 1U);
  EXPECT_EQ(report.xrc.at(0).destroyed, 0U);
}

TEST(ScenarioXrc, ANodeThatComesBackHasItsProcessesAgain) {
  const RunReport report =
      run(with("messages = 30", "messages = 3000\nretries = 3\nretry_after = \"10ms\"") +
          "[[exit]]\nhost = \"b\"\nprocess = 3\nat = \"100us\"\n[[fault]]\naction = \"crash\"\nhost = \"b\"\nat = "
          "\"500us\"\n[[fault]]\naction = \"restart\"\nhost = \"b\"\nat = \"1ms\"\n");
  EXPECT_TRUE(report.passed()) << words(report);
  EXPECT_GE(report.outcomes.size(), 2U);
  EXPECT_GT(messages(report).at(1), 1000U) << "the second try";
  EXPECT_TRUE(report.xrc.at(0).processes[2].exited) << "who has ended does not come back";
}

TEST(ScenarioXrc, SwarmsDrawWhatItTakes) {
  const Scenario from = *parse_scenario(good, "x.toml");
  std::set<std::string> seen;
  for (std::uint64_t seed = 0; seed < 1500; ++seed) {
    const Scenario drawn = draw_swarm(from, seed);
    const auto problems = check_scenario(drawn);
    ASSERT_TRUE(problems.empty()) << seed << ": " << problems.front().to_string();
    EXPECT_EQ(drawn.connects[0].qp, QpKind::xrc);
    for (const ScenarioFault& fault : drawn.faults) seen.insert(std::string(to_string(fault.rule.match.message)));
  }
  for (const char* kind : {"cm_sidr_req", "cm_sidr_rep", "cm_req", "roce_send"})
    EXPECT_TRUE(seen.contains(kind)) << kind;
  EXPECT_FALSE(seen.contains("roce_datagram"));
}

TEST(XrcCheck, CountsWhatIsLeft) {
  const auto said = [](const check::XrcState& state) {
    check::Judge judge;
    check::check_xrc(state, Instant(1s), judge);
    std::vector<std::string> out;
    for (const Violation& violation : judge.list()) out.push_back(violation.text);
    return out;
  };
  check::XrcState right{.label = "b:7471",
                        .held = 1,
                        .members = 3,
                        .members_expected = 3,
                        .registrants = {3},
                        .created = 5,
                        .destroyed = 4};
  EXPECT_THAT(said(right), IsEmpty());
  check::XrcState state = right;
  state.held = 0;
  EXPECT_THAT(said(state),
              ElementsAre("1 TGT queue pairs are there when everything is over, and 0 connections that need "
                          "one"));
  state = right;
  state.destroyed = 3;
  EXPECT_THAT(said(state), ElementsAre("5 TGT queue pairs were made and 3 have ended, but 1 are there"));
  state = right;
  state.registrants = {2};
  EXPECT_THAT(said(state), ElementsAre("2 are registered with a TGT queue pair, and 3 processes live"));
  state = right;
  state.members = 4;
  EXPECT_THAT(said(state), ElementsAre("the domain has 4 members, and 3 processes live"));
}

TEST(XrcCheck, MessagesAreKnownByAllOfTheirOctets) {
  for (const std::size_t size : {8, 9, 300}) {
    Bytes octets(size);
    write_xrc_message({7, 11}, octets);
    const auto read = read_xrc_message(octets);
    ASSERT_TRUE(read) << size;
    EXPECT_EQ(read->attempt, 7U);
    EXPECT_EQ(read->message, 11U);
    octets.back() ^= 1;
    const auto other = read_xrc_message(octets);
    EXPECT_FALSE(other && other->message == 11) << size;
  }
  EXPECT_FALSE(read_xrc_message(Bytes(7)));
}

}  // namespace
}  // namespace parley::sim::scenario_xrc_test
