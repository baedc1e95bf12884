// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include <gtest/gtest.h>

#include <array>

#include "base/bits.hpp"

namespace parley {
namespace {

using Octets = std::array<std::uint8_t, 24>;

bool bit_of(const Octets& octets, std::size_t bit) { return (octets[bit / 8] >> (7 - bit % 8) & 1) != 0; }

/// Each of the number's bits stands at its place, and each other bit is what it was.
void expect_written(std::uint8_t around, std::size_t bit, std::size_t width, std::uint64_t value) {
  Octets octets;
  octets.fill(around);
  const Octets before = octets;
  write_bits(octets, bit, width, value);
  for (std::size_t i = 0; i < octets.size() * 8; ++i) {
    const bool within = i >= bit && i < bit + width;
    const bool expected = within ? (value >> (bit + width - 1 - i) & 1) != 0 : bit_of(before, i);
    ASSERT_EQ(bit_of(octets, i), expected) << "bit " << i << ", of " << width << " from " << bit;
  }
  const std::uint64_t kept = width == 64 ? value : value & ((std::uint64_t{1} << width) - 1);
  ASSERT_EQ(read_bits(octets, bit, width), kept) << width << " bits from " << bit;
}

TEST(Bits, StandWhereTheyAreWrittenAndLeaveThoseAround) {
  for (std::size_t bit = 0; bit < 64; ++bit) {
    for (std::size_t width = 1; bits_fit(bit, width); ++width) {
      for (const std::uint8_t around : std::array<std::uint8_t, 3>{0x00, 0xFF, 0xA6}) {
        for (const std::uint64_t value : std::array<std::uint64_t, 2>{0x0123456789ABCDEF, 0xFEDCBA9876543210})
          ASSERT_NO_FATAL_FAILURE(expect_written(around, bit, width, value));
      }
    }
  }
}

TEST(Bits, ReachTheEnd) {
  Octets octets{};
  for (const std::size_t width : std::array<std::size_t, 7>{1, 8, 13, 16, 24, 32, 64}) {
    write_bits(octets, octets.size() * 8 - width, width, 5);
    EXPECT_EQ(read_bits(octets, octets.size() * 8 - width, width), width == 1 ? 1U : 5U) << width;
  }
}

}  // namespace
}  // namespace parley
