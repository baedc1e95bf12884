// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// When keepalives of idle streams go, in time that the test gives.
#include "drivers/asio/keepalive_pace.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

namespace parley::asio_driver {
namespace {

using namespace std::chrono_literals;
using Kind = KeepalivePace::Step::Kind;

const Instant start = Instant{} + 1000s;

/// Steps up to `until`, as a host takes them that wakes when it must.
struct PacedHost {
  void to(Instant until) {
    for (; now <= until; now = std::max(pace.next_deadline(), now + 1us)) take();
    now = until;
  }
  void take() {
    while (const auto step = pace.poll(now)) (step->kind == Kind::ask ? asked : settled).emplace_back(now, step->slot);
  }
  std::size_t most_at_once() const {
    std::map<Instant, std::size_t> at;
    std::size_t most = 0;
    for (const auto& [when, slot] : asked) most = std::max(most, ++at[when]);
    return most;
  }
  KeepalivePace pace;
  Instant now = start;
  std::vector<std::pair<Instant, std::uint32_t>> asked, settled;
};

TEST(KeepalivePace, AStreamIsAskedAfterEachSilence) {
  PacedHost host;
  host.pace.watch(start, 7, 5s);
  host.to(start + 16s);
  using Step = std::pair<Instant, std::uint32_t>;
  EXPECT_THAT(host.asked, testing::ElementsAre(Step{start + 5s, 7}, Step{start + 10s, 7}, Step{start + 15s, 7}));
  EXPECT_THAT(host.settled,
              testing::ElementsAre(Step{start + 5100ms, 7}, Step{start + 10100ms, 7}, Step{start + 15100ms, 7}));
}

TEST(KeepalivePace, OctetsPutTheNextKeepaliveOff) {
  PacedHost host;
  host.pace.watch(start, 0, 5s);
  for (int i = 1; i <= 20; ++i) {
    host.to(start + i * 1s);
    host.pace.heard(host.now, 0);
  }
  host.to(start + 24900ms);
  EXPECT_TRUE(host.asked.empty());
  host.to(start + 25s);
  ASSERT_EQ(host.asked.size(), 1U);
  EXPECT_EQ(host.asked[0].first, start + 25s);
}

TEST(KeepalivePace, TenThousandStreamsOfOneInstantAreAskedAFewAtATime) {
  constexpr std::uint32_t streams = 10'000;
  PacedHost host;
  for (std::uint32_t slot = 0; slot < streams; ++slot) host.pace.watch(start, slot, 5s);
  host.to(start + 5s + 1s);
  EXPECT_EQ(host.asked.size(), streams) << "within a second";
  EXPECT_EQ(host.most_at_once(), KeepalivePace::most_per_tick);
  host.to(start + 60s + 1s);
  EXPECT_GE(host.asked.size(), 11 * streams) << "in each further 5 s again";
  EXPECT_LE(host.most_at_once(), KeepalivePace::most_per_tick);
}

TEST(KeepalivePace, AHostThatWasStoppedAsksAFewAtATime) {
  PacedHost host;
  for (std::uint32_t slot = 0; slot < 5000; ++slot) host.pace.watch(start + slot * 1ms, slot, 5s);
  host.to(start + 20s);
  host.asked.clear();
  host.now = start + 60s;
  host.to(start + 61s);
  EXPECT_EQ(host.asked.size(), 5000U);
  EXPECT_EQ(host.most_at_once(), KeepalivePace::most_per_tick);
}

TEST(KeepalivePace, AStreamThatIsForgottenIsNotAsked) {
  PacedHost host;
  host.pace.watch(start, 3, 5s);
  host.pace.watch(start, 4, 5s);
  host.to(start + 5s);  // both are asked and not settled
  host.pace.forget(3);
  host.to(start + 11s);
  EXPECT_THAT(host.settled, testing::Each(testing::Field(&std::pair<Instant, std::uint32_t>::second, 4U)));
  ASSERT_EQ(host.asked.size(), 3U);
  EXPECT_EQ(host.asked[2].second, 4U);
}

TEST(KeepalivePace, WithoutAKeepaliveNothingIsDue) {
  KeepalivePace pace;
  pace.watch(start, 0, 0s);
  pace.heard(start, 0);
  EXPECT_EQ(pace.next_deadline(), never);
  EXPECT_FALSE(pace.poll(start + 24h));
}

}  // namespace
}  // namespace parley::asio_driver
