// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "capture/rules/roce/psn_map.hpp"

#include <gtest/gtest.h>

#include <iterator>
#include <map>
#include <random>

namespace parley::capture {
namespace {

using Ring = PsnMap<int>;

/// The place that an iterator stands at, or 0 at the end.
template <typename Entries>
std::uint64_t place(const Entries& entries, typename Entries::const_iterator it) {
  return it == entries.end() ? 0 : it->first;
}

TEST(PsnMap, FindsWhatATreeFinds) {
  for (unsigned seed = 1; seed <= 5; ++seed) {
    std::mt19937 chance(seed);
    Ring ring;
    std::map<std::uint64_t, int> tree;
    const std::uint64_t begin = std::uint64_t{1} << 40;
    std::uint64_t next = begin;
    for (int n = 0; n < 400; ++n) {
      // Mostly the next one; at times behind a gap, as after a Read, and at times one that a gap left.
      next += chance() % 8 == 0 ? 1 + chance() % 9 : 1;
      const std::uint64_t at = chance() % 6 == 0 ? next - chance() % 30 : next;
      if (at >= begin && !tree.contains(at)) {
        EXPECT_EQ(ring.insert(at, n)->first, at);
        tree.emplace(at, n);
      }
      if (ring.size() > 64) {
        ring.forget_first();
        tree.erase(tree.begin());
      }
      ASSERT_EQ(ring.size(), tree.size());
      for (std::uint64_t wanted = next - 40; wanted < next + 3; ++wanted) {
        const Ring& fixed = ring;
        ASSERT_EQ(place(fixed, fixed.find(wanted)), place(tree, tree.find(wanted))) << seed << ' ' << n;
        ASSERT_EQ(place(fixed, fixed.upper_bound(wanted)), place(tree, tree.upper_bound(wanted))) << seed << ' ' << n;
      }
    }
    for (auto ours = ring.begin(); const auto& [first, value] : tree) {
      EXPECT_EQ(ours->first, first);
      EXPECT_EQ(ours->second, value);
      ++ours;
    }
  }
}

TEST(PsnMap, FindsNothingWhereNothingIs) {
  Ring ring;
  EXPECT_EQ(ring.find(7), ring.end());
  EXPECT_EQ(ring.upper_bound(7), ring.end());
  ring.insert(7, 1);
  ring.clear();
  EXPECT_EQ(ring.find(7), ring.end());
  EXPECT_TRUE(ring.empty());
}

}  // namespace
}  // namespace parley::capture
