// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Searches for ways: their bound, their order, who waits for whom, and what is known without one.
#include "cm/resolver.hpp"

#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "base/rng.hpp"
#include "cm/failure_text.hpp"
#include "nic/roce/device.hpp"
#include "parley/ib.hpp"
#include "tests/unit/printing.hpp"

namespace parley::cm {
namespace {

using namespace std::chrono_literals;

Address peer(std::uint8_t n, std::uint16_t port = 7174) { return Address::v4(192, 0, 2, n, port); }
Resolver::Key key(std::uint8_t n) { return {peer(n), std::nullopt}; }
Failure unreachable() {
  return plain_failure(ib::step::resolve_addr, Errc::unreachable, {}, "192.0.2.1:1: no route", "check the cable");
}
constexpr Instant start{100s};

/// Who is due now; "x" behind those that have failed by what was known.
std::vector<std::string> turns(Resolver& r, Instant now = start) {
  std::vector<std::string> out;
  while (const auto turn = r.next(now)) out.push_back(std::to_string(turn->id) + (turn->failed ? "x" : ""));
  return out;
}
using Ids = std::vector<std::string>;

TEST(CmResolver, SearchesAreBoundedAndTheOthersWaitInOrder) {
  Resolver r({.searches_max = 2});
  for (std::uint8_t n = 1; n <= 4; ++n) r.ask(n, key(n), false, start);
  EXPECT_EQ(turns(r), (Ids{"1", "2"}));
  EXPECT_FALSE(r.has_turn());
  EXPECT_EQ(r.waiting(), 2U);
  r.found(2, {}, start);
  EXPECT_TRUE(r.has_turn());
  EXPECT_EQ(turns(r), (Ids{"3"}));
  r.leave(1);
  EXPECT_EQ(turns(r), (Ids{"4"}));
}

TEST(CmResolver, APeerThatIsNotThereTakesOnePlaceAndItsAnswerIsEverybodys) {
  Resolver r({.searches_max = 2, .failed_kept = 0s});
  for (EndpointId id = 1; id <= 5; ++id) r.ask(id, key(1), false, start);
  r.ask(6, key(2), false, start);
  EXPECT_EQ(turns(r), (Ids{"1", "6"})) << "the other place is another peer's";
  r.not_found(1, unreachable(), start + 2s);
  std::vector<EndpointId> failed;
  while (const auto turn = r.next(start + 2s)) {
    ASSERT_TRUE(turn->failed);
    EXPECT_EQ(turn->failed->code, make_error_code(Errc::unreachable));
    EXPECT_EQ(turn->at, start + 2s);
    failed.push_back(turn->id);
  }
  EXPECT_EQ(failed, (std::vector<EndpointId>{2, 3, 4, 5}));
  r.ask(7, key(1), false, start + 2s);
  EXPECT_EQ(turns(r, start + 2s), (Ids{"7"})) << "nothing was kept";
}

TEST(CmResolver, WhereSomebodyIsThereTheOthersSearchAtOnceAndInTheirOrder) {
  for (const Duration kept : {Duration{0s}, Duration{10s}}) {
    Resolver r({.searches_max = 8, .found_kept = kept});
    for (EndpointId id = 1; id <= 4; ++id) r.ask(id, key(1), false, start);
    EXPECT_EQ(turns(r), (Ids{"1"}));
    r.found(1, {}, start);
    EXPECT_EQ(turns(r), (Ids{"2", "3", "4"}));
  }
}

TEST(CmResolver, ALeaderThatLeavesIsFollowedByTheNext) {
  Resolver r({.searches_max = 8});
  for (EndpointId id = 1; id <= 3; ++id) r.ask(id, key(1), false, start);
  EXPECT_EQ(turns(r), (Ids{"1"}));
  r.leave(1);
  EXPECT_EQ(turns(r), (Ids{"2"}));
  r.leave(3);
  r.not_found(2, unreachable(), start);
  EXPECT_EQ(turns(r), Ids{});
  EXPECT_EQ(r.waiting(), 0U);
}

TEST(CmResolver, AFailureIsKeptForFirstAttemptsAndForAWhile) {
  Resolver r({.failed_kept = 1s});
  r.ask(1, key(1), false, start);
  EXPECT_EQ(turns(r), (Ids{"1"}));
  r.not_found(1, unreachable(), start);
  r.ask(2, {peer(1, 9), std::nullopt}, false, start + 999ms);
  const auto turn = r.next(start + 999ms);
  ASSERT_TRUE(turn && turn->failed);
  const Failure told = turn->failed->of(peer(1, 9), start + 999ms - turn->at);
  EXPECT_EQ(told.step, ib::step::resolve_addr);
  EXPECT_EQ(told.code, make_error_code(Errc::unreachable));
  EXPECT_EQ(told.received, "192.0.2.1:9: as another search found 999.0 ms ago");
  EXPECT_EQ(turn->failed->of(peer(1), -1us).received, "192.0.2.1:7174: as another search has just found")
      << "what came during a turn is newer than the turn";
  EXPECT_EQ(told.advice, "check the cable");
  r.ask(3, key(1), true, start + 999ms);
  EXPECT_EQ(turns(r, start + 999ms), (Ids{"3"})) << "a later attempt asks the network";
  r.leave(3);
  r.ask(4, {peer(1), peer(9)}, false, start);
  EXPECT_EQ(turns(r), (Ids{"4"})) << "from another address it is another way";
  r.ask(5, key(1), false, start + 1s);
  EXPECT_EQ(turns(r, start + 1s), (Ids{"5"}));
}

TEST(CmResolver, WhatFailsOnThisSideSaysNothingOfThePeer) {
  Resolver r({.failed_kept = 1s});
  for (EndpointId id = 1; id <= 2; ++id) r.ask(id, key(1), false, start);
  EXPECT_EQ(turns(r), (Ids{"1"}));
  r.not_found(1, plain_failure(ib::step::resolve_addr, Errc::no_space, {}, "no descriptor", "raise it"), start);
  EXPECT_EQ(turns(r), (Ids{"2"}));
  EXPECT_EQ(r.known_count(), 0U);
}

TEST(CmResolver, AWayIsKnownUntilItsTimeIsOverOrSomethingChanged) {
  const auto device = nic::roce::make_device({});
  const auto other = nic::roce::make_device({});
  Resolver r({.found_kept = 10s});
  const auto find = [&] {
    r.ask(1, key(1), false, start);
    (void)turns(r);
    r.found(1, {.device = device->get(), .local = peer(7, 0), .reason = "because"}, start);
  };
  find();
  ASSERT_NE(r.known(key(1), start + 9s), nullptr);
  EXPECT_EQ(r.known(key(1), start + 9s)->reason, "because");
  EXPECT_EQ(r.known_since(key(1)), start);
  EXPECT_EQ(r.known(key(1), start + 10s), nullptr);
  EXPECT_EQ(r.known(key(2), start), nullptr);
  r.forget(**other);
  EXPECT_NE(r.known(key(1), start), nullptr);
  r.forget(**device);
  EXPECT_EQ(r.known(key(1), start), nullptr);
  find();
  r.forget(peer(2));
  EXPECT_NE(r.known(key(1), start), nullptr);
  r.forget(peer(1));
  EXPECT_EQ(r.known(key(1), start), nullptr);
  find();
  r.ask(2, key(1), true, start);
  EXPECT_EQ(turns(r), (Ids{"2"}));
  r.not_found(2, unreachable(), start);
  EXPECT_EQ(r.known(key(1), start), nullptr) << "a failure is the newer answer";
}

TEST(CmResolver, KnownAnswersAreBounded) {
  Resolver r({.failed_kept = 1s, .known_max = 3});
  const auto fail = [&](std::uint8_t n, Instant now) {
    r.ask(n, key(n), false, now);
    (void)turns(r, now);
    r.not_found(n, unreachable(), now);
  };
  for (std::uint8_t n = 1; n <= 5; ++n) fail(n, start);
  EXPECT_EQ(r.known_count(), 3U);
  fail(6, start + 2s);
  EXPECT_EQ(r.known_count(), 1U) << "those that are over made room";
}

TEST(CmResolver, AnIdThatAsksAgainHasOneTurn) {
  Resolver r({});
  r.ask(1, key(1), false, start);
  r.ask(1, key(2), false, start);
  EXPECT_EQ(turns(r), (Ids{"1"}));
  r.ask(1, key(3), true, start);
  EXPECT_EQ(r.under_way(), 0U);
  EXPECT_EQ(turns(r), (Ids{"1"}));
}

// Drawn: whatever happens in whatever order, the bound holds, who asks gets one turn, and at the end nobody waits.
TEST(CmResolver, WhateverHappensEachGetsItsTurnAndNobodyIsLeft) {
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(seed);
    Rng rng(seed);
    const auto kept = [&] { return Duration(std::chrono::milliseconds(rng.below(3) * 500)); };
    const ResolvePolicy policy{.searches_max = static_cast<std::uint32_t>(1 + rng.below(4)),
                               .found_kept = kept(),
                               .failed_kept = kept(),
                               .known_max = static_cast<std::uint32_t>(rng.below(4))};
    Resolver r(policy);
    Instant now = start;
    std::set<EndpointId> waits, searches;
    EndpointId last = 0;
    const auto one_of = [&](const std::set<EndpointId>& ids) {
      return *std::next(ids.begin(), static_cast<std::ptrdiff_t>(rng.below(ids.size())));
    };
    const auto take_turns = [&] {
      while (const auto turn = r.next(now)) {
        ASSERT_EQ(waits.erase(turn->id), 1U) << "id " << turn->id << " had its turn, or never asked";
        if (!turn->failed) searches.insert(turn->id);
        ASSERT_LE(searches.size(), policy.searches_max);
      }
      ASSERT_EQ(r.under_way(), searches.size());
      ASSERT_EQ(r.waiting(), waits.size());
      ASSERT_LE(r.known_count(), policy.known_max);
      // Nobody waits where nothing is under way.
      ASSERT_TRUE(!searches.empty() || waits.empty()) << waits.size() << " wait for ever";
    };
    const auto end_one = [&] {
      const EndpointId id = one_of(searches);
      searches.erase(id);
      switch (rng.below(4)) {
        case 0: return r.not_found(id, unreachable(), now);
        case 1: return r.leave(id);
        case 2:
          return r.not_found(id, plain_failure(ib::step::resolve_addr, Errc::no_space, {}, "none", "raise it"), now);
        default: return r.found(id, {}, now);
      }
    };
    for (int step = 0; step < 200; ++step) {
      now += std::chrono::milliseconds(rng.below(200));
      const auto n = static_cast<std::uint8_t>(1 + rng.below(5));
      switch (rng.below(6)) {
        case 0:
        case 1:
        case 2: waits.insert(++last), r.ask(last, key(n), rng.below(3) == 0, now); break;
        case 3:
          if (!searches.empty()) end_one();
          break;
        case 4:
          if (!waits.empty()) {
            const EndpointId id = one_of(waits);
            waits.erase(id);
            r.leave(id);
          }
          break;
        default: r.forget(peer(n)); break;
      }
      take_turns();
      if (testing::Test::HasFatalFailure()) return;
    }
    while (!searches.empty()) {
      end_one();
      take_turns();
      if (testing::Test::HasFatalFailure()) return;
    }
    EXPECT_TRUE(waits.empty());
    EXPECT_EQ(r.waiting() + r.under_way(), 0U);
  }
}

}  // namespace
}  // namespace parley::cm
