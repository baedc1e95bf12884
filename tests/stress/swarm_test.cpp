// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The whole layer under faults, in the simulator's time. Seeds draw clients, servers that crash, reject, decide late or do
// not listen, losses, a flood, back-off and bounds. In every run:
//   - each connect has one outcome (Established, Rejected, ConnectFailed), each established connection one end;
//   - addresses are tried in their order, a round after a wait of half its back-off to all of it, no round too many, and
//     nobody gives up early for a reason that may pass;
//   - at no time more are pending at a listener than pending_max and an eighth;
//   - after a failure that all clients share, no retry wave: in no window of a sixteenth of a round's back-off, that is an
//     eighth of the interval over which waits are spread, more than `wave_max` of 64 clients try again. Eight are
//     expected there, with a standard deviation of 2.6.
// PARLEY_STRESS in the environment, 10,000 of ./dev stress, gives a tenth of it as the number of seeds; without it, 200.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "tests/stress/fleet.hpp"

namespace parley::stress {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t clients = 64, wave_max = 24;

std::uint64_t seeds() {
  const char* const asked = std::getenv("PARLEY_STRESS");
  return asked == nullptr ? 200 : std::max<std::uint64_t>(1, std::strtoul(asked, nullptr, 10) / 10);
}

void expect_nothing_wrong(const Fleet& fleet) {
  for (const std::string& text : fleet.wrong()) ADD_FAILURE() << text;
}

/// The most attempts in any window of that length.
std::size_t most_within(std::vector<Instant> times, Duration window) {
  std::sort(times.begin(), times.end());
  std::size_t most = 0, first = 0;
  for (std::size_t i = 0; i < times.size(); ++i) {
    while (times[i] - times[first] > window) ++first;
    most = std::max(most, i - first + 1);
  }
  return most;
}

TEST(LayerSwarm, EachConnectHasOneOutcomeAndNoBoundIsExceeded) {
  std::uint64_t full = 0;
  Tally sum;
  for (std::uint64_t seed = 1; seed <= seeds(); ++seed) {
    Rng rng(seed);
    const FleetPlan plan = FleetPlan::draw(rng);
    SCOPED_TRACE("seed " + std::to_string(seed) + ": " + plan.to_string());
    Fleet fleet(plan, seed);
    fleet.run(2h);
    expect_nothing_wrong(fleet);
    for (std::size_t i = 0; i < plan.servers.size(); ++i) full += fleet.pending_peak(i) >= plan.servers[i].pending_max;
    sum.established += fleet.tally().established;
    sum.rejected += fleet.tally().rejected;
    sum.failed += fleet.tally().failed;
    sum.retries += fleet.tally().retries;
    if (testing::Test::HasFailure()) return;  // one seed is enough to look at
  }
  std::printf("%u established, %u rejected, %u failed, %u retries; %llu listeners were full\n", sum.established,
              sum.rejected, sum.failed, sum.retries, static_cast<unsigned long long>(full));
  EXPECT_GT(full, seeds() / 10) << "a bound that is never reached proves nothing";
  EXPECT_GT(std::min({sum.established, sum.rejected, sum.failed, sum.retries}), seeds() / 4);
}

TEST(LayerSwarm, AfterACommonFailureClientsComeBackOneByOne) {
  for (std::uint64_t seed = 1; seed <= std::max<std::uint64_t>(seeds() / 4, 1); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    FleetPlan plan;
    plan.clients = clients;
    plan.servers = {{.listens = false}};
    plan.retry = {.rounds = 5, .first = 100ms, .cap = 400ms};
    Fleet fleet(plan, seed);
    fleet.run(1h);
    expect_nothing_wrong(fleet);
    ASSERT_EQ(fleet.attempts().size(), 5U);
    EXPECT_GE(most_within(fleet.attempts()[0], 5ms), clients) << "they do fail together";
    const Duration rounds[] = {100ms, 200ms, 400ms, 400ms};
    for (std::size_t i = 0; i < std::size(rounds); ++i) {
      ASSERT_EQ(fleet.attempts()[i + 1].size(), clients);
      EXPECT_LE(most_within(fleet.attempts()[i + 1], rounds[i] / 16), wave_max) << "in round " << i + 2;
    }
  }
}

TEST(LayerSwarm, AStandbyTakesAllWhenTheFirstServerIsGone) {
  for (std::uint64_t seed = 1; seed <= std::max<std::uint64_t>(seeds() / 4, 1); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    FleetPlan plan;
    plan.clients = 30;
    plan.connects = 2;
    // It crashes while they connect and does not come back; the other takes 16 at a time and turns away the rest.
    plan.servers = {{.decide_max = 2ms, .crash_at = 6ms}, {.pending_max = 16, .decide_max = 1ms}};
    plan.retry = {.rounds = 8, .first = 20ms, .cap = 1s};
    Fleet fleet(plan, seed);
    fleet.run(1h);
    expect_nothing_wrong(fleet);
    EXPECT_EQ(fleet.tally().established, 60U);
  }
}

}  // namespace
}  // namespace parley::stress
