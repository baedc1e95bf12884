// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Tests over many seeds: which seeds fail, which faults are needed for it, and what is shown of it. parley/sim_test.hpp too.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>

#include "parley/sim_test.hpp"

namespace parley::sim::trials_test {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

struct Peer : App {
  std::optional<Address> server;  // empty: it is the server
  bool up = false;
  void on_start(Host& host) override {
    if (server)
      (void)host.cm().connect(*server, {.transport = mpa::Options{.rtr = mpa::Rtr::read}});
    else
      (void)host.cm().listen(Address::any(Address::Family::v4, 7471));
  }
  void on_turn(Host& host) override {
    while (auto event = host.cm().poll_event()) {
      if (auto* request = std::get_if<cm::ConnectRequest>(&*event)) (void)request->id.accept();
      up = up || std::holds_alternative<cm::Established>(*event);
    }
  }
  void on_crash(Host&) override {}
  void on_timer(Host&, std::uint64_t) override {}
};

/// Connects within 100 ms of virtual time, which a lost Request does not allow.
struct Pair {
  Peer client, server;
  World world;
  LinkId link = 0;

  explicit Pair(const Trial& trial) : world(trial.seed()) {
    Host& a = **world.add_host("a");
    Host& b = **world.add_host("b");
    link = *world.add_link(0, 1, {.delay = 2us});
    client.server = b.address();
    client.server->port = 7471;
    a.set_app(&client);
    b.set_app(&server);
  }
  bool connects() {
    return world.run_until([this] { return client.up && server.up; }, 100ms);
  }
};

FaultRule drop(MessageKind message, std::uint32_t nth = 1) {
  return {.match = {.message = message, .nth = nth, .times = 1}};
}

TEST(Trials, EachSeedIsRunAndThoseThatFailAreTold) {
  std::vector<std::uint64_t> seeds;
  const TrialsReport report = run_trials({.seeds = {3, 8}}, [&](Trial& trial) {
    seeds.push_back(trial.seed());
    return trial.seed() % 3 == 0 ? "three divides it" : "";
  });
  EXPECT_EQ(report.runs, 6u);
  EXPECT_THAT(report.failed, ElementsAre(3, 6));
  EXPECT_FALSE(report.passed());
  EXPECT_EQ(report.why, "three divides it");
  EXPECT_THAT(std::vector(seeds.begin(), seeds.begin() + 6), ElementsAre(3, 4, 5, 6, 7, 8));
}

TEST(Trials, TheLastSeedOfAllIsRunOnce) {
  const TrialsReport report = run_trials({.seeds = {~0ULL - 1, ~0ULL}}, [](Trial&) { return ""; });
  EXPECT_EQ(report.runs, 2u);
  EXPECT_TRUE(report.passed());
}

TEST(Trials, FailuresBeyondTheBoundAreNotLookedForAndThatIsSaid) {
  const TrialsReport report = run_trials({.seeds = {1, 100}, .failures_max = 2}, [](Trial&) { return "always"; });
  EXPECT_EQ(report.runs, 2u);
  EXPECT_TRUE(report.cut_off);
  EXPECT_THAT(report.to_string(), HasSubstr("2 of 2 seeds failed: 1, 2, and the rest was not run"));
  EXPECT_FALSE(run_trials({.seeds = {1, 2}, .failures_max = 2}, [](Trial&) { return "always"; }).cut_off);
}

TEST(Trials, FaultsWithoutWhichItFailsTooAreLeftOut) {
  unsigned runs = 0;
  const TrialsReport report = run_trials({.seeds = {7, 7}}, [&](Trial& trial) -> std::string {
    ++runs;
    Pair pair(trial);
    for (std::uint32_t nth = 2; nth < 12; ++nth)
      (void)trial.add_fault(pair.world, pair.link, LinkDirection::both, drop(MessageKind::tcp_fin, nth));
    (void)trial.add_fault(pair.world, pair.link, LinkDirection::forward, drop(MessageKind::mpa_request));
    (void)trial.add_fault(pair.world, {.from = Instant(1s), .action = FaultAction::pause, .host = 1});
    trial.watch(pair.world);
    return pair.connects() ? "" : "not connected";
  });
  EXPECT_THAT(report.failed, ElementsAre(7));
  EXPECT_TRUE(report.repeatable);
  EXPECT_EQ(report.faults, 12u);
  ASSERT_EQ(report.faults_left.size(), 1u) << report.to_string();
  EXPECT_THAT(report.faults_left[0], HasSubstr("a/p1 > b/p1: "));
  EXPECT_THAT(report.faults_left[0], HasSubstr("mpa_request"));
  EXPECT_LT(runs, 40u);
  EXPECT_THAT(report.ladder, HasSubstr("MPA Request"));
  EXPECT_THAT(report.ladder, Not(HasSubstr("MPA Reply")));
  ASSERT_GT(report.pcapng.size(), 4u);
  EXPECT_EQ(report.pcapng[0], 0x0a) << "a Section Header Block";
}

TEST(Trials, FaultsGivenToTheWorldItselfStay) {
  const TrialsReport report = run_trials({.seeds = {1, 1}}, [](Trial& trial) -> std::string {
    Pair pair(trial);
    (void)pair.world.add_fault(pair.link, LinkDirection::forward, drop(MessageKind::mpa_request));
    (void)trial.add_fault(pair.world, pair.link, LinkDirection::both, drop(MessageKind::mpa_reply));
    return pair.connects() ? "" : "not connected";
  });
  EXPECT_EQ(report.faults, 1u);
  EXPECT_THAT(report.faults_left, IsEmpty());
  EXPECT_THAT(report.ladder, IsEmpty()) << "the test does not call watch()";
}

TEST(Trials, TheSearchEndsAtItsBoundAndSaysSo) {
  const auto needs_all = [](Trial& trial) -> std::string {
    Pair pair(trial);
    for (std::uint32_t nth = 1; nth <= 8; ++nth)
      (void)trial.add_fault(pair.world, pair.link, LinkDirection::both, drop(MessageKind::tcp_fin, nth));
    return "always";
  };
  const TrialsReport report = run_trials({.seeds = {1, 1}, .shrink_runs_max = 0}, needs_all);
  EXPECT_TRUE(report.shrink_cut_off);
  EXPECT_EQ(report.faults_left.size(), 8u);
  EXPECT_THAT(report.to_string(), HasSubstr("faults that it needs, at most: 8 of 8"));
}

TEST(Trials, ATestThatDependsOnMoreThanItsSeedIsTold) {
  int runs = 0;
  const TrialsReport report = run_trials({.seeds = {1, 1}}, [&](Trial&) { return ++runs == 1 ? "once" : ""; });
  EXPECT_FALSE(report.repeatable);
  EXPECT_THAT(report.to_string(), HasSubstr("depends on more than its seed"));
}

TEST(Trials, AnExceptionIsAFailure) {
  const TrialsReport report =
      run_trials({.seeds = {1, 1}}, [](Trial&) -> std::string { throw std::runtime_error("thrown"); });
  EXPECT_THAT(report.failed, ElementsAre(1));
  EXPECT_THAT(report.why, HasSubstr("thrown"));
}

TEST(Trials, AFaultOfAnUnknownLinkIsAnErrorAndCountsForNothing) {
  const TrialsReport report = run_trials({.seeds = {1, 1}}, [](Trial& trial) -> std::string {
    Pair pair(trial);
    return trial.add_fault(pair.world, 9, LinkDirection::both, drop(MessageKind::mpa_reply)) ? "" : "refused";
  });
  EXPECT_EQ(report.why, "refused");
  EXPECT_EQ(report.faults, 0u);
}

TEST(Trials, ExpectationsOfEverySeedBecomeOneFailure) {
  testing::TestPartResultArray told;
  {
    testing::ScopedFakeTestPartResultReporter reporter(
        testing::ScopedFakeTestPartResultReporter::INTERCEPT_ONLY_CURRENT_THREAD, &told);
    expect_for_seeds({.seeds = {1, 4}}, [](Trial& trial) { EXPECT_NE(trial.seed() % 2, 0u) << "an even seed"; });
  }
  ASSERT_EQ(told.size(), 1);
  EXPECT_THAT(told.GetTestPartResult(0).message(), HasSubstr("2 of 4 seeds failed: 2, 4"));
  EXPECT_THAT(told.GetTestPartResult(0).message(), HasSubstr("an even seed"));
  EXPECT_THAT(told.GetTestPartResult(0).message(), HasSubstr("trials_test.cpp:"));
}

TEST(Trials, ATestThatPassesForEverySeedTellsNothing) {
  expect_for_seeds({.seeds = {1, 20}}, [](Trial& trial) {
    Pair pair(trial);
    EXPECT_TRUE(pair.connects());
  });
}

}  // namespace
}  // namespace parley::sim::trials_test
