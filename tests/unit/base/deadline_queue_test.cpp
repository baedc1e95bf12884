// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include <gtest/gtest.h>

#include <map>

#include "base/deadline_queue.hpp"

namespace parley {
namespace {

using namespace std::chrono_literals;

TEST(DeadlineQueue, GivesDueKeysInOrderOfTimeThenKey) {
  DeadlineQueue q;
  EXPECT_EQ(q.next(), never);
  q.set(7, Instant(2s));
  q.set(3, Instant(2s));
  q.set(5, Instant(1s));
  q.set(1, Instant(9s));
  EXPECT_EQ(q.next(), Instant(1s));
  EXPECT_EQ(q.pop_due(Instant(500ms)), std::nullopt);
  EXPECT_EQ(q.pop_due(Instant(3s)), 5U);
  EXPECT_EQ(q.pop_due(Instant(3s)), 3U);
  EXPECT_EQ(q.pop_due(Instant(3s)), 7U);
  EXPECT_EQ(q.pop_due(Instant(3s)), std::nullopt);
  EXPECT_EQ(q.next(), Instant(9s));
  q.set(1, never);
  EXPECT_EQ(q.next(), never);
  q.set(99, never);
  EXPECT_EQ(q.size(), 0U);
}

TEST(DeadlineQueue, AgreesWithASortedMapUnderRandomChanges) {
  DeadlineQueue q;
  std::map<DeadlineQueue::Key, Instant> model;
  std::uint64_t state = 1;
  const auto roll = [&state](std::uint64_t n) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    return (state >> 33) % n;
  };
  for (int i = 0; i < 20000; ++i) {
    const auto key = static_cast<DeadlineQueue::Key>(roll(200));
    const Instant at = roll(5) == 0 ? never : Instant(std::chrono::milliseconds(roll(1000)));
    q.set(key, at);
    if (at == never)
      model.erase(key);
    else
      model[key] = at;
    if (roll(4) == 0) {
      auto first = model.end();
      for (auto m = model.begin(); m != model.end(); ++m)
        if (first == model.end() || m->second < first->second) first = m;
      const auto popped = q.pop_due(Instant(500ms));
      if (first == model.end() || first->second > Instant(500ms)) {
        ASSERT_EQ(popped, std::nullopt);
      } else {
        ASSERT_EQ(popped, first->first);
        model.erase(first);
      }
    }
    ASSERT_EQ(q.size(), model.size());
  }
}

}  // namespace
}  // namespace parley
