// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Faults of processes and hosts that stop, with and without a fault that lets them go on: every run settles.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <numeric>
#include <vector>

#include "base/rng.hpp"
#include "tests/unit/sim/run_kit.hpp"

namespace parley::sim::process_faults_test {
namespace {

using namespace std::chrono_literals;
using run_kit::run;
using run_kit::words;
using testing::HasSubstr;
using A = FaultAction;

/// Hosts a and b on one link; b listens, a connects.
Scenario two_hosts(NicEngine engine) {
  Scenario s;
  s.hosts = {{.name = "a"}, {.name = "b"}};
  for (ScenarioHost& host : s.hosts) host.options.engine = engine;
  s.links = {{.name = "a-b", .ends = {"a", "b"}}};
  s.listens.resize(1);
  s.listens[0].host = "b";
  s.connects.resize(1);
  ScenarioConnect& c = s.connects[0];
  c.from = "a";
  c.to = "b";
  c.mpa.rtr = mpa::Rtr::read;
  c.expect = Expect::settled;
  return s;
}

ScenarioFault action_on(std::string_view host, A action, Duration at) {
  ScenarioFault out;
  out.host = host;
  out.rule.action = action;
  out.rule.from = Instant(at);
  return out;
}

constexpr NicEngine engines[] = {NicEngine::iwarp, NicEngine::roce};
constexpr std::string_view names[] = {"a", "b"};

/// A host whose process stays stopped, or that stays paused, in the middle of the data.
TEST(SimProcessFaults, AnEndThatStaysStoppedIsNotWaitedFor) {
  for (const NicEngine engine : engines)
    for (const A action : {A::stop_process, A::pause})
      for (const std::string_view host : names) {
        Scenario s = two_hosts(engine);
        s.connects[0].messages = 20'000;
        s.connects[0].retries = 1;
        s.connects[0].retry_after = 1s;
        s.faults = {action_on(host, action, 1ms)};
        const RunReport report = run(s);
        const std::string what = fmt::format("{} {} {}\n{}", to_string(engine), to_string(action), host, words(report));
        EXPECT_EQ(report.end, RunEnd::settled) << what;
        EXPECT_TRUE(report.passed()) << what;
        const bool initiator = host == "a";
        ASSERT_FALSE(report.outcomes.empty());
        const ConnectionOutcome& first = report.outcomes.front();
        EXPECT_EQ(initiator ? first.initiator : first.responder, "stopped") << what;
        EXPECT_THAT(initiator ? first.responder : first.initiator, HasSubstr("failed: ")) << what;
      }
}

/// Connections that a stopped process has yet to make are not waited for either.
TEST(SimProcessFaults, AProcessThatStaysStoppedMakesNoMoreConnections) {
  for (const NicEngine engine : engines) {
    Scenario s = two_hosts(engine);
    s.connects[0].count = 3;
    s.connects[0].interval = 1s;
    s.faults = {action_on("a", A::stop_process, 1500ms)};
    const RunReport report = run(s);
    EXPECT_TRUE(report.passed()) << words(report);
    EXPECT_EQ(report.outcomes.size(), 2U);
    EXPECT_EQ(report.established, 2U);
  }
}

/// A fault that is still to come and changes the state is waited for: here after everything else has ended.
TEST(SimProcessFaults, AFaultThatLetsAStoppedProcessGoOnOrEndIsWaitedFor) {
  for (const NicEngine engine : engines)
    for (const A second : {A::continue_process, A::end_process, A::crash, A::restart}) {
      Scenario s = two_hosts(engine);
      s.connects[0].messages = 20'000;
      s.faults = {action_on("b", A::stop_process, 1ms), action_on("b", second, 2h)};
      s.bounds.time = 3h;
      const RunReport report = run(s);
      const std::string what = fmt::format("{} {}\n{}", to_string(engine), to_string(second), words(report));
      EXPECT_TRUE(report.passed()) << what;
      EXPECT_GE(report.finished_at, Instant(2h)) << what;
      ASSERT_EQ(report.outcomes.size(), 1U);
      EXPECT_NE(report.outcomes[0].responder, "stopped") << what;
    }
}

/// The frame that the continue waits for never comes: it is waited for as a restart is.
TEST(SimProcessFaults, AContinueThatNoFrameBringsIsNotWaitedForLong) {
  for (const NicEngine engine : engines) {
    Scenario s = two_hosts(engine);
    s.connects[0].messages = 20'000;
    ScenarioFault never_comes = action_on("b", A::continue_process, Duration{});
    never_comes.link = "a-b";
    never_comes.rule.match = {.message = MessageKind::tcp_syn, .nth = 1000, .times = 1};
    never_comes.may_miss = true;
    s.faults = {action_on("b", A::stop_process, 1ms), never_comes};
    const RunReport report = run(s);
    EXPECT_TRUE(report.passed()) << words(report);
    ASSERT_EQ(report.outcomes.size(), 1U);
    EXPECT_EQ(report.outcomes[0].responder, "stopped");
  }
}

/// An idle connection over iWARP outlives a stopped process: its kernel answers for it.
TEST(SimProcessFaults, AConnectionThatNeitherSideClosesRestsOnAStoppedProcess) {
  for (const std::string_view host : names) {
    Scenario s = two_hosts(NicEngine::iwarp);
    s.connects[0].closer = ClosingSide::nobody;
    s.connects[0].messages = 3;
    s.connects[0].expect = Expect::established;
    s.faults = {action_on(host, A::stop_process, 1s)};
    const RunReport report = run(s);
    EXPECT_TRUE(report.passed()) << host << '\n' << words(report);
  }
}

/// One to four actions on either host, at times from the set-up to after the data, or tied to a frame.
Scenario drawn(std::uint64_t seed) {
  Rng rng(seed);
  Scenario s = two_hosts(rng.between(0, 1) == 0 ? NicEngine::iwarp : NicEngine::roce);
  ScenarioConnect& c = s.connects[0];
  c.messages = static_cast<std::uint32_t>(rng.between(0, 60));
  c.octets = 4096;
  c.count = static_cast<std::uint32_t>(rng.between(1, 3));
  c.interval = rng.between(0, 1) == 0 ? 1ms : 700ms;
  c.retries = static_cast<std::uint32_t>(rng.between(0, 2));
  c.retry_after = 300ms;
  c.close_after = rng.between(0, 2) == 0 ? Duration(5s) : Duration{};
  constexpr ClosingSide closers[] = {ClosingSide::initiator, ClosingSide::responder, ClosingSide::both,
                                     ClosingSide::nobody};
  c.closer = closers[rng.between(0, 3)];
  if (c.closer != ClosingSide::nobody && rng.between(0, 1) == 0)
    for (ScenarioHost& host : s.hosts) host.options.manager.liveness = {1s, 3s};
  constexpr A actions[] = {A::end_process, A::stop_process, A::stop_process, A::continue_process,
                           A::crash,       A::restart,      A::pause,        A::resume};
  for (std::uint64_t left = rng.between(1, 4); left > 0; --left) {
    const Duration at =
        std::chrono::microseconds(rng.between(0, 1) == 0 ? rng.between(0, 400) : rng.between(0, 4'000'000));
    ScenarioFault fault = action_on(names[rng.between(0, 1)], actions[rng.between(0, std::size(actions) - 1)], at);
    fault.may_miss = true;
    if (rng.between(0, 2) == 0) {
      fault.link = "a-b";
      fault.rule.match = {.nth = static_cast<std::uint32_t>(rng.between(1, 30)), .times = 1};
      fault.rule.delay = std::chrono::milliseconds(rng.between(0, 20));
    }
    s.faults.push_back(fault);
  }
  return s;
}

TEST(SimProcessFaults, EveryRunSettles) {
  std::vector<std::uint64_t> seeds(250);
  std::iota(seeds.begin(), seeds.end(), std::uint64_t{1});
  seeds.insert(seeds.end(),
               {672, 1044, 1578, 1933, 1940, 2928});  // stopped or paused just when everything else had ended
  for (const std::uint64_t seed : seeds) {
    const Scenario s = drawn(seed);
    const RunReport report = run(s, seed);
    std::string faults;
    for (const ScenarioFault& fault : s.faults)
      faults +=
          fmt::format("{} {} {}\n", fault.host, fault.rule.to_string(), fault.rule.from.time_since_epoch().count());
    EXPECT_EQ(report.end, RunEnd::settled) << seed << '\n' << faults << words(report);
    EXPECT_TRUE(report.passed()) << seed << '\n' << faults << words(report);
  }
}

}  // namespace
}  // namespace parley::sim::process_faults_test
