// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "base/flat_map.hpp"

#include <gtest/gtest.h>

#include <map>

#include "base/rng.hpp"

namespace parley {
namespace {

TEST(FlatMap, FindsWhatWasInsertedAndNothingElse) {
  FlatMap<std::uint64_t, int> map(SeededHash{1});
  EXPECT_EQ(map.find(7), nullptr);
  EXPECT_FALSE(map.erase(7));
  EXPECT_TRUE(map.insert(7, 70));
  EXPECT_FALSE(map.insert(7, 71));
  ASSERT_NE(map.find(7), nullptr);
  EXPECT_EQ(*map.find(7), 70);
  EXPECT_FALSE(map.contains(8));
  EXPECT_TRUE(map.erase(7));
  EXPECT_FALSE(map.contains(7));
  EXPECT_EQ(map.size(), 0U);
}

// Few places, many meetings: each key wants one of four.
struct Crowded {
  std::uint64_t operator()(std::uint64_t key) const { return key % 4 * 5; }
};

template <class Map>
void expect_as_std_map(Map map, std::uint64_t seed) {
  std::map<std::uint64_t, std::uint64_t> model;
  Rng rng(seed);
  for (int step = 0; step < 5'000; ++step) {
    const std::uint64_t key = rng.below(200), value = rng.next();
    if (rng.below(2) == 0)
      ASSERT_EQ(map.insert(key, value), model.emplace(key, value).second) << "seed " << seed << ", step " << step;
    else
      ASSERT_EQ(map.erase(key), model.erase(key) == 1) << "seed " << seed << ", step " << step;
    const auto at = model.find(rng.below(200));
    if (at != model.end()) {
      ASSERT_NE(map.find(at->first), nullptr) << "seed " << seed << ", step " << step;
      ASSERT_EQ(*map.find(at->first), at->second) << "seed " << seed << ", step " << step;
    }
    ASSERT_EQ(map.size(), model.size());
  }
  for (std::uint64_t key = 0; key < 200; ++key) EXPECT_EQ(map.contains(key), model.contains(key)) << key;
}

TEST(FlatMap, HoldsWhatStdMapHolds) {
  for (std::uint64_t seed = 1; seed <= 4; ++seed)
    expect_as_std_map(FlatMap<std::uint64_t, std::uint64_t>(SeededHash{seed}), seed);
}

TEST(FlatMap, HoldsThemWhereAllKeysMeet) {
  for (std::uint64_t seed = 1; seed <= 4; ++seed)
    expect_as_std_map(FlatMap<std::uint64_t, std::uint64_t, Crowded>(Crowded{}), seed);
}

TEST(FlatMap, SeedsSpreadPairsDifferently) {
  using Key = std::pair<std::uint64_t, std::uint32_t>;
  std::size_t same = 0;
  for (std::uint32_t i = 0; i < 256; ++i)
    same += (SeededHash{1}(Key{i, 5}) & 0xFF) == (SeededHash{2}(Key{i, 5}) & 0xFF);
  EXPECT_LT(same, 32U);
}

}  // namespace
}  // namespace parley
