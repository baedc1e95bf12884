// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Verdicts of whole runs: whom they hold to what, whom they excuse, and what they say is left open.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/run/run.hpp"

namespace parley::sim {
namespace {

using namespace std::chrono_literals;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// Hosts a and b on one link; b listens, a connects once.
Scenario two_quiet_hosts() {
  Scenario s;
  s.hosts = {{.name = "a"}, {.name = "b"}};
  s.links = {{.name = "a-b", .ends = {"a", "b"}}};
  s.listens.resize(1);
  s.listens[0].host = "b";
  s.connects.resize(1);
  s.connects[0].from = "a";
  s.connects[0].to = "b";
  s.connects[0].mpa.rtr = mpa::Rtr::read;
  return s;
}

std::vector<std::string> said(const RunReport& report) {
  std::vector<std::string> out;
  for (const Violation& v : report.violations) out.push_back(v.checker + ": " + v.text);
  return out;
}

ScenarioFault drop_of(MessageKind message, std::uint32_t nth) {
  ScenarioFault out;
  out.link = "a-b";
  out.rule.match = {.message = message, .nth = nth, .times = 1};
  return out;
}

TEST(SimVerdict, AFaultThatHitsNothingFailsTheRun) {
  Scenario s = two_quiet_hosts();
  s.file = "x.toml";
  s.faults = {drop_of(MessageKind::mpa_request, 1), drop_of(MessageKind::terminate, 1),
              drop_of(MessageKind::mpa_reply, 7)};
  s.faults[1].line = 30;
  EXPECT_THAT(
      said(run_scenario(s, {})),
      ElementsAre(HasSubstr("faults: the fault at x.toml:30 (drop the 1st terminate) never hit anything: no such "
                            "frame passed while it held; mend it, or write may_miss = true"),
                  HasSubstr("faults: fault 3 (drop the 7th mpa_reply) never hit anything: 1 such frames passed, "
                            "and nth, times, chance or mask ask for others")));
  s.faults[1].may_miss = s.faults[2].may_miss = true;
  EXPECT_THAT(said(run_scenario(s, {})), IsEmpty());
}

TEST(SimVerdict, AFaultThatComesAfterEverythingHasHitNothing) {
  Scenario s = two_quiet_hosts();
  s.faults.resize(1);
  s.faults[0].host = "b";
  s.faults[0].rule.action = FaultAction::crash;
  s.faults[0].rule.from = Instant(50s);
  EXPECT_THAT(said(run_scenario(s, {})), ElementsAre(HasSubstr("fault 1 (crash b at 50 s) never hit anything: "
                                                               "everything had settled before its time")));
  s.faults[0].rule.action = FaultAction::resume;
  EXPECT_THAT(said(run_scenario(s, {})), ElementsAre(HasSubstr("in none that the action applies to")));
}

ScenarioFault action_on_b(FaultAction action, Duration at) {
  ScenarioFault out;
  out.host = "b";
  out.rule.action = action;
  out.rule.from = Instant(at);
  return out;
}

// A process that has ended neither ends, stops nor goes on; one that runs does not go on, and a stopped one stops no more.
TEST(SimVerdict, AnActionHitsNothingWhereTheProcessIsInNoStateForIt) {
  constexpr auto missed = "in none that the action applies to";
  using A = FaultAction;
  struct Case {
    A first, second;
    bool hits;
  };
  for (const auto& [first, second, hits] :
       {Case{A::end_process, A::end_process, false}, Case{A::end_process, A::stop_process, false},
        Case{A::end_process, A::continue_process, false}, Case{A::end_process, A::crash, true},
        Case{A::stop_process, A::end_process, true}, Case{A::stop_process, A::stop_process, false},
        Case{A::stop_process, A::continue_process, true}, Case{A::crash, A::end_process, false},
        Case{A::crash, A::stop_process, false}, Case{A::crash, A::continue_process, false}}) {
    Scenario s = two_quiet_hosts();
    s.connects[0].close_after = 1s;
    s.connects[0].expect = Expect::settled;
    s.faults = {action_on_b(first, 1ms), action_on_b(second, 1ms + 100ns)};  // before a can know of the first
    const auto words = said(run_scenario(s, {}));
    if (hits)
      EXPECT_THAT(words, IsEmpty()) << to_string(first) << ' ' << to_string(second);
    else
      EXPECT_THAT(words, ElementsAre(HasSubstr(missed))) << to_string(first) << ' ' << to_string(second);
  }
  Scenario s = two_quiet_hosts();
  s.faults = {action_on_b(A::continue_process, 30us)};
  EXPECT_THAT(said(run_scenario(s, {})), ElementsAre(HasSubstr(missed)));
}

TEST(SimVerdict, ChanceAndTheMaskOfARunMayLeaveAFaultWithoutAHit) {
  Scenario s = two_quiet_hosts();
  s.faults = {drop_of(MessageKind::mpa_request, 1)};
  s.faults[0].rule.chance = {1, 1'000'000'000};
  EXPECT_THAT(said(run_scenario(s, {})), IsEmpty());
  s.faults[0].rule.chance = {0, 1};
  EXPECT_THAT(said(run_scenario(s, {})), ElementsAre(HasSubstr("never hit anything")));
  s.faults = {drop_of(MessageKind::terminate, 1)};
  EXPECT_THAT(said(run_scenario(s, {.drop_mask = DropMask{.bits = 1}})), IsEmpty());
}

TEST(SimVerdict, EveryHostIsHeldToTheBounds) {
  Scenario s = two_quiet_hosts();
  s.bounds.send_queue = 1;
  s.bounds.frames = 1;
  const auto words = said(run_scenario(s, {}));
  EXPECT_THAT(words, Contains(HasSubstr("bounds: octets in a send queue of a: ")));
  EXPECT_THAT(words, Contains(HasSubstr("bounds: octets in a send queue of b: ")));
  EXPECT_THAT(words, Contains(HasSubstr("bounds: frames in flight: ")));
  EXPECT_EQ(words.size(), 3U);
}

// RFC 5044 §7.1.2 rule 4 is what siw does not keep to, on either end where it listens.
TEST(SimVerdict, AnEndThatPlaysAQuirkMayBreakRulesOnTheWireAndNoOther) {
  Scenario s = two_quiet_hosts();
  s.connects[0].mpa.rtr = mpa::Rtr::none;
  s.connects[0].mpa.ird = s.connects[0].mpa.ord = s.listens[0].mpa.ird = s.listens[0].mpa.ord = 8;
  s.listens[0].mpa.play_quirk = "siw";
  s.connects[0].mpa.peer_quirk = "siw";
  s.connects[0].expect = Expect::settled;
  EXPECT_THAT(said(run_scenario(s, {})), IsEmpty());
}

TEST(SimVerdict, AnEndWhosePeerIsGoneForGoodIsWaitedFor) {
  for (const char* host : {"a", "b"}) {
    Scenario s = two_quiet_hosts();
    s.connects[0].closer = ClosingSide::nobody;
    s.connects[0].expect = Expect::settled;
    s.bounds.time = 1h;
    ScenarioFault crash;
    crash.host = host;
    crash.rule.action = FaultAction::crash;
    crash.rule.from = Instant(1s);
    s.faults = {crash};
    const RunReport report = run_scenario(s, {});
    EXPECT_THAT(said(report), IsEmpty());
    EXPECT_EQ(report.end, RunEnd::settled);
    EXPECT_GT(report.finished_at, Instant(30s)) << "it loses patience, half of converge after its last progress";
  }
}

// The restart would come with a message that nobody sends any more.
TEST(SimVerdict, AHostThatNoEventBringsBackIsNotWaitedFor) {
  for (const bool initiator : {true, false}) {
    Scenario s = two_quiet_hosts();
    s.connects[0].expect = Expect::settled;
    s.connects[0].count = 2;
    s.connects[0].interval = 1s;
    ScenarioFault crash, restart;
    crash.host = restart.host = initiator ? "a" : "b";
    crash.rule.action = FaultAction::crash;
    crash.rule.from = Instant(500ms);
    restart.link = "a-b";
    restart.rule.action = FaultAction::restart;
    restart.rule.match.message = MessageKind::tcp_syn;
    restart.rule.match.nth = 1000;
    restart.rule.delay = 2h;
    restart.may_miss = true;
    s.faults = {crash, restart};
    s.bounds.time = 1h;
    const RunReport report = run_scenario(s, {});
    EXPECT_THAT(said(report), IsEmpty());
    EXPECT_THAT(report.pending, IsEmpty());
    EXPECT_EQ(report.end, RunEnd::settled);
    EXPECT_EQ(report.outcomes.size(), initiator ? 1U : 2U) << "who has crashed connects no more";
  }
}

TEST(SimVerdict, WithoutACrashConnectionsThatNobodyClosesRest) {
  Scenario s = two_quiet_hosts();
  s.connects[0].closer = ClosingSide::nobody;
  const RunReport report = run_scenario(s, {});
  EXPECT_THAT(said(report), IsEmpty());
  EXPECT_LT(report.finished_at, Instant(1s));
}

TEST(SimVerdict, WhatIsPendingIsToldOfEachEndWithHowFarItGot) {
  const auto pending = [](Transfer transfer) {
    Scenario s = two_quiet_hosts();
    s.connects[0].transfer = transfer;
    s.connects[0].messages = 3;
    s.connects[0].octets = 1'000'000;
    s.links[0].options.rate_bps = 1'000'000;
    s.bounds.time = 10s;
    const RunReport report = run_scenario(s, {});
    EXPECT_EQ(report.end, RunEnd::time_bound);
    return report.pending;
  };
  for (const Transfer transfer : {Transfer::send, Transfer::write, Transfer::read}) {
    const auto words = pending(transfer);
    ASSERT_GE(words.size(), 2U);
    const std::string_view initiator = transfer == Transfer::read ? "of 3 messages read" : "of 3 messages sent, ";
    EXPECT_THAT(words, Contains(::testing::AllOf(HasSubstr("the initiator on a waits; last told Established; "),
                                                 HasSubstr(initiator))))
        << to_string(transfer);
    EXPECT_THAT(words, Contains(HasSubstr("the responder on b waits; last told Established; ")));
  }
}

TEST(SimVerdict, ConnectionsThatWereNotStartedAreCounted) {
  Scenario s = two_quiet_hosts();
  s.connects[0].count = 10;
  s.connects[0].interval = 1s;
  s.bounds.events = 100;
  const RunReport report = run_scenario(s, {});
  EXPECT_EQ(report.end, RunEnd::event_bound);
  ASSERT_FALSE(report.pending.empty());
  EXPECT_THAT(report.pending[0], HasSubstr("connect 1 (a > b:7471): "));
  EXPECT_THAT(report.pending[0], HasSubstr(" of 10 not started"));
}

}  // namespace
}  // namespace parley::sim
