// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The event queue gives the earliest event, and of equal ones the one pushed first, however events lie in time.
#include <gtest/gtest.h>

#include <set>
#include <tuple>

#include "base/rng.hpp"
#include "sim/net/engine.hpp"

namespace parley::sim {
namespace {

Instant at(std::int64_t ns) { return Instant(Duration(ns)); }

/// The queue beside a plain ordered set: every pop has to agree.
class TwoQueues {
 public:
  void push(std::int64_t ns) {
    const auto handle = static_cast<std::uint32_t>(sequence_ & 0xFFFFFF);
    queue.push(at(ns), handle);
    model_.insert({ns, sequence_++, handle});
  }
  ::testing::AssertionResult pop(std::int64_t& now) {
    const auto [ns, sequence, handle] = *model_.begin();
    model_.erase(model_.begin());
    const EventQueue::Popped popped = queue.pop();
    now = popped.at.time_since_epoch().count();
    if (now == ns && popped.handle == handle && queue.size() == model_.size()) return ::testing::AssertionSuccess();
    return ::testing::AssertionFailure() << "event " << sequence << " at " << ns << ", got handle " << popped.handle
                                         << " at " << now;
  }
  bool empty() const { return model_.empty(); }
  std::int64_t next() const { return std::get<0>(*model_.begin()); }
  EventQueue queue;

 private:
  std::set<std::tuple<std::int64_t, std::uint64_t, std::uint32_t>> model_;
  std::uint64_t sequence_ = 0;
};

TEST(SimEventQueue, GivesTheEarliestFirstAndEqualTimesInPushOrder) {
  EventQueue queue;
  queue.push(at(50), 1);
  queue.push(at(10), 2);
  queue.push(at(50), 3);
  queue.push(at(10), 4);
  queue.push(at(5'000'000'000), 5);
  queue.push(at(300'000), 6);
  EXPECT_EQ(queue.next(), at(10));
  for (const std::uint32_t handle : {2u, 4u, 1u, 3u, 6u, 5u}) EXPECT_EQ(queue.pop().handle, handle);
  EXPECT_TRUE(queue.empty());
  EXPECT_EQ(queue.next(), never);
}

TEST(SimEventQueue, EventsPushedForThePresentWhilePoppingComeBeforeLaterOnes) {
  EventQueue queue;
  queue.push(at(100), 1);
  queue.push(at(100), 2);
  queue.push(at(101), 3);
  EXPECT_EQ(queue.pop().handle, 1u);
  queue.push(at(100), 4);
  queue.push(at(100), 5);
  for (const std::uint32_t handle : {2u, 4u, 5u, 3u}) EXPECT_EQ(queue.pop().handle, handle);
}

TEST(SimEventQueue, AnEventPushedBeforeTheOneThatWasPeekedAtComesFirst) {
  EventQueue queue;
  queue.push(at(200'000), 1);
  EXPECT_EQ(queue.next(), at(200'000));
  queue.push(at(150), 2);
  queue.push(at(199'999), 3);
  EXPECT_EQ(queue.next(), at(150));
  for (const std::uint32_t handle : {2u, 3u, 1u}) EXPECT_EQ(queue.pop().handle, handle);
}

TEST(SimEventQueue, GivesWhatIsDueAndNothingElse) {
  EventQueue queue;
  EXPECT_FALSE(queue.pop_due(never));
  queue.push(at(50), 1);
  queue.push(at(1'000'000), 2);
  EXPECT_FALSE(queue.pop_due(at(49)));
  EXPECT_EQ(queue.size(), 2u);
  queue.push(at(40), 3);
  for (const std::uint32_t handle : {3u, 1u}) EXPECT_EQ(queue.pop_due(at(50)).value().handle, handle);
  EXPECT_FALSE(queue.pop_due(at(999'999)));
  EXPECT_EQ(queue.pop_due(never).value().at, at(1'000'000));
  EXPECT_FALSE(queue.pop_due(never));
}

TEST(SimEventQueue, AgreesWithAnOrderedSetOverEveryReach) {
  // Reaches around the width of a bucket, of the wheel, and far beyond, and mixtures of them.
  const std::vector<std::vector<std::uint64_t>> mixtures = {{1},
                                                            {2},
                                                            {64},
                                                            {65},
                                                            {4096},
                                                            {64 * 4096 - 1},
                                                            {64 * 4096},
                                                            {64 * 4096 + 1},
                                                            {1'000'000'000},
                                                            {1, 70, 300'000},
                                                            {1, 64, 4096, 262'143, 262'145, 1'000'000'000'000}};
  for (std::size_t m = 0; m < mixtures.size(); ++m) {
    Rng rng(m);
    TwoQueues pair;
    std::int64_t now = 0;
    for (int i = 0; i < 20'000; ++i) {
      const bool push = pair.empty() || rng.below(1000) < (i / 4000 % 2 == 0 ? 700u : 350u);
      if (push) {
        const std::uint64_t reach = mixtures[m][rng.below(mixtures[m].size())];
        pair.push(now + static_cast<std::int64_t>(rng.below(reach + 1)));
        if (rng.below(4) == 0) {
          ASSERT_EQ(pair.queue.next(), at(pair.next())) << "mixture " << m;
        }
      } else {
        ASSERT_TRUE(pair.pop(now)) << "mixture " << m << " step " << i;
      }
    }
    while (!pair.empty()) ASSERT_TRUE(pair.pop(now)) << "mixture " << m;
    EXPECT_TRUE(pair.queue.empty());
  }
}

TEST(SimEventQueue, ManyEventsInOneNanosecondDoNotCollapse) {
  // Quadratic behaviour would take minutes: a hundred thousand events of one moment, each of which pushes another for
  // the same moment, in front of one that is later in the same bucket.
  EventQueue queue;
  constexpr std::uint32_t count = 100'000;
  queue.push(at(1001), EventQueue::handles_max - 1);
  for (std::uint32_t i = 0; i < count; ++i) queue.push(at(1000), i);
  for (std::uint32_t i = 0; i < count; ++i) {
    ASSERT_EQ(queue.pop().handle, i);
    queue.push(at(1000), count + i);
  }
  for (std::uint32_t i = 0; i < count; ++i) ASSERT_EQ(queue.pop().handle, count + i);
  EXPECT_EQ(queue.pop().at, at(1001));
}

TEST(SimEventQueue, TimesBeforeTheStartCountAsTheStart) {
  EventQueue queue;
  queue.push(at(-5), 1);
  queue.push(at(0), 2);
  const EventQueue::Popped popped = queue.pop();
  EXPECT_EQ(popped.handle, 1u);
  EXPECT_EQ(popped.at, at(0));
}

// ---- the engine on top -------------------------------------------------------------------------------------------

struct Counter final : EventTarget {
  void on_event(std::uint32_t kind, std::uint64_t argument) override { seen.emplace_back(kind, argument); }
  std::vector<std::pair<std::uint32_t, std::uint64_t>> seen;
};

TEST(SimEngine, CarriesOutWhatIsDueAndTellsEachTargetWhatItAskedFor) {
  Engine engine;
  Counter a, b;
  engine.at(at(20), a, 1, 100);
  engine.at(at(10), b, 2, 200);
  engine.at(never, a, 9, 900);
  EXPECT_FALSE(engine.step(at(9)));
  EXPECT_EQ(engine.now(), at(0));
  EXPECT_TRUE(engine.step(at(15)));
  EXPECT_EQ(engine.now(), at(10));
  engine.at(at(3), b, 4, 400);  // in the past: now
  EXPECT_TRUE(engine.step(at(15)));
  EXPECT_EQ(engine.now(), at(10));
  EXPECT_FALSE(engine.step(at(15)));
  EXPECT_TRUE(engine.step(never));
  EXPECT_FALSE(engine.step(never));
  EXPECT_EQ(a.seen, (std::vector<std::pair<std::uint32_t, std::uint64_t>>{{1, 100}}));
  EXPECT_EQ(b.seen, (std::vector<std::pair<std::uint32_t, std::uint64_t>>{{2, 200}, {4, 400}}));
  EXPECT_EQ(engine.counters.events, 3u);
}

TEST(SimEngine, EventsInARowTakeOneEntryAndNothingComesBetweenThem) {
  Engine engine(2);
  Counter counter;
  engine.at_each(at(5), counter, 7, 70, 3);
  engine.at(at(5), counter, 8, 80);
  EXPECT_FALSE(engine.exhausted()) << "four events, two entries";
  EXPECT_EQ(engine.pending(), 4u);
  EXPECT_FALSE(engine.step(at(4)));
  EXPECT_TRUE(engine.step(at(5)));
  engine.at(at(5), counter, 9, 90);
  EXPECT_EQ(engine.next(), at(5));
  EXPECT_EQ(engine.pending(), 4u);
  EXPECT_FALSE(engine.step(at(4))) << "the rest is not due either";
  while (engine.step(at(5))) continue;
  EXPECT_EQ(counter.seen,
            (std::vector<std::pair<std::uint32_t, std::uint64_t>>{{7, 70}, {7, 70}, {7, 70}, {8, 80}, {9, 90}}));
  EXPECT_EQ(engine.counters.events, 5u);
  EXPECT_EQ(engine.pending(), 0u);
  EXPECT_EQ(engine.next(), never);
}

TEST(SimEngine, StopsWhenMoreEventsArePendingThanItKeeps) {
  Engine engine(3);
  Counter counter;
  for (std::uint64_t i = 0; i < 3; ++i) engine.at(at(1), counter, 0, i);
  EXPECT_TRUE(engine.step(never));
  engine.at(at(1), counter, 0, 3);  // there is room again
  EXPECT_FALSE(engine.exhausted());
  engine.at(at(1), counter, 0, 4);
  EXPECT_TRUE(engine.exhausted());
  EXPECT_FALSE(engine.step(never));
  EXPECT_EQ(counter.seen.size(), 1u);
}

}  // namespace
}  // namespace parley::sim
