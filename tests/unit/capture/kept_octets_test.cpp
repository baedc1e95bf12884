// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "capture/rules/mpa/kept_octets.hpp"

#include <gtest/gtest.h>

namespace parley::capture::kept_octets {
namespace {

KeptPiece data(std::string_view text, std::uint64_t at, std::uint64_t frame = 1) {
  return {.data = Bytes(text.begin(), text.end()), .start = true, .ref = {frame, {}, 0}, .at = at};
}
KeptPiece hole(std::uint64_t missing, std::uint64_t at) { return {.missing = missing, .at = at}; }
std::string text(const Bytes& octets) { return {octets.begin(), octets.end()}; }

TEST(KeptOctets, TheHeadEndsAtTheFirstHoleOrTheLimit) {
  KeptOctets kept;
  kept.keep(data("abc", 10));
  kept.keep(data("de", 13));
  EXPECT_EQ(text(kept.head().octets), "abcde");
  EXPECT_FALSE(kept.head().hole);
  kept.keep(hole(4, 15));
  kept.keep(data("f", 19));
  EXPECT_EQ(text(kept.head().octets), "abcde");
  EXPECT_TRUE(kept.head().hole);
  EXPECT_EQ(text(kept.head(4).octets), "abcd");
  EXPECT_FALSE(kept.head(4).hole);
  EXPECT_EQ(kept.at(), 10u);
}

TEST(KeptOctets, DroppedOctetsMoveThePlaceAndBeginNoSegment) {
  KeptOctets kept;
  kept.keep(data("abc", 10, 7));
  kept.keep(data("de", 13, 8));
  EXPECT_EQ(kept.carrier(3).frame, 7u);
  EXPECT_EQ(kept.carrier(4).frame, 8u);
  kept.drop(4);
  EXPECT_EQ(kept.at(), 14u);
  EXPECT_EQ(text(kept.head().octets), "e");
  EXPECT_FALSE(kept.front().start);
  const auto last = kept.take();
  ASSERT_TRUE(last);
  EXPECT_EQ(last->ref.frame, 8u);
  EXPECT_TRUE(kept.empty());
  EXPECT_FALSE(kept.take());
}

TEST(KeptOctets, WhatDoesNotFitIsOneHole) {
  KeptOctets kept;
  const std::string big(KeptOctets::max / 2, 'x');
  kept.keep(data(big, 0));
  kept.keep(data(big.substr(100), big.size()));
  EXPECT_EQ(kept.dropped(), 0u);
  const std::uint64_t at = 2 * big.size() - 100;
  kept.keep(data(big, at));
  kept.keep(data("ab", at + big.size()));  // there would be room, but what is before it is gone
  kept.keep(hole(3, at + big.size() + 2));
  EXPECT_EQ(kept.dropped(), big.size() + 5);
  (void)kept.take();
  (void)kept.take();
  const auto lost = kept.take();
  ASSERT_TRUE(lost);
  EXPECT_TRUE(lost->data.empty());
  EXPECT_EQ(lost->missing, big.size() + 5);
  EXPECT_EQ(lost->at, at);
  EXPECT_TRUE(kept.empty());
}

TEST(KeptOctets, TheRoomOfWhatWasTakenIsFreeAgain) {
  KeptOctets kept;
  const std::string most(KeptOctets::max - 100, 'x');
  for (int round = 0; round < 3; ++round) {
    kept.keep(data(most, 0));
    EXPECT_EQ(kept.dropped(), 0u);
    if (round == 0) kept.clear();
    if (round == 1) (void)kept.take();
    if (round == 2) kept.drop(most.size());
    EXPECT_TRUE(kept.empty());
  }
  kept.keep(data(most, 0));
  EXPECT_EQ(kept.dropped(), 0u);
}

}  // namespace
}  // namespace parley::capture::kept_octets
