// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Incarnations of masters, and when the root collects its subnet.
#include "drivers/ssa/root_times.hpp"

#include <gtest/gtest.h>

namespace parley::ssa_driver {
namespace ssa_root_times_test {
namespace {

using namespace std::chrono_literals;

TEST(SsaRootTimes, AnIncarnationIsAboveAllBefore) {
  EXPECT_EQ(next_incarnation(0, 0, 1000), 1000U);
  EXPECT_EQ(next_incarnation(1000, 0, 1000), 1001U);
  EXPECT_EQ(next_incarnation(0, 5000, 1000), 5001U) << "the clock is behind that of the master before";
  EXPECT_EQ(next_incarnation(0xFFFFFFFF, 0, 1000), 0xFFFFFFFF) << "0 is none";
}

TEST(SsaRootTimes, AnIncarnationFarAheadOfTheClockIsALie) {
  constexpr std::uint32_t seconds = 1'800'000'000;
  EXPECT_TRUE(is_plausible(seconds + 365U * 86400, seconds));
  EXPECT_FALSE(is_plausible(seconds + 11U * 365 * 86400, seconds));
  EXPECT_FALSE(is_plausible(0xFFFFFFFF, seconds));
}

TEST(SsaRootTimes, AnUnknownPortBringsACollectionSoonAndLessOftenIfItIsNotFound) {
  SurveyTimes times(60s);
  Instant now = Instant{} + 100s;
  times.start(now);
  EXPECT_EQ(times.at(), now);
  times.ended(now, 1s, 10);
  EXPECT_EQ(times.at(), now + 60s);
  for (const Duration pause : {2s, 4s, 8s, 16s, 32s, 60s, 60s}) {
    times.unknown_port(now);
    EXPECT_EQ(times.at(), now + pause);
    times.ended(now = times.at(), 1s, 10);
  }
  times.unknown_port(now);
  times.ended(now, 1s, 11);
  times.unknown_port(now);
  EXPECT_EQ(times.at(), now + 2s) << "a port was found";
}

TEST(SsaRootTimes, FailedCollectionsAreTriedLessOftenAndEndTheCurrency) {
  SurveyTimes times(10s);
  Instant now = Instant{} + 100s;
  times.start(now);
  EXPECT_FALSE(times.is_current(now)) << "none yet";
  times.ended(now, 0s, 10);
  const Instant good = now;
  EXPECT_TRUE(times.is_current(now));
  for (const Duration pause : {4s, 8s, 10s, 10s}) {
    times.ended(now, 0s, std::nullopt);
    EXPECT_EQ(times.at(), now + pause);
    now = times.at();
  }
  EXPECT_TRUE(times.is_current(good + 30s));
  EXPECT_FALSE(times.is_current(good + 30s + 1ns));
  times.ended(now, 0s, 10);
  EXPECT_TRUE(times.is_current(now));
}

}  // namespace
}  // namespace ssa_root_times_test
}  // namespace parley::ssa_driver
