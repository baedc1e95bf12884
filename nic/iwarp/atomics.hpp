// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The arithmetic of masked Atomics: RFC 7306 §5.1. Values are plain numbers; wire and memory order are the caller's.
#pragma once
#include <cstdint>

namespace parley::nic::iwarp {

/// RFC 7306 §5.1.1: a set mask bit is the top bit of a field; fields add independently, carries out of them are lost.
constexpr std::uint64_t masked_add(std::uint64_t value, std::uint64_t add, std::uint64_t mask) {
  // Without the fields' top bits no carry can leave a field; the top bits are then added without carry.
  return ((value & ~mask) + (add & ~mask)) ^ ((value ^ add) & mask);
}

/// RFC 7306 §5.1.2: compares under compare_mask, swaps under swap_mask.
constexpr std::uint64_t masked_swap(std::uint64_t value, std::uint64_t compare, std::uint64_t compare_mask,
                                    std::uint64_t swap, std::uint64_t swap_mask) {
  if (((compare ^ value) & compare_mask) != 0) return value;
  return (value & ~swap_mask) | (swap & swap_mask);
}

}  // namespace parley::nic::iwarp
