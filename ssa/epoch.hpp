// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The version of a database: which master made it, and how many changes that master has published. One number for the
// whole tree, so that it means the same under every parent.
#pragma once
#include <cstdint>

namespace parley::ssa {

/// {0, 0}: no database. A new master has a new incarnation, and its first version the counter 1.
struct Epoch {
  std::uint32_t incarnation = 0, counter = 0;

  constexpr bool is_valid() const { return incarnation != 0 && counter != 0; }
  constexpr std::uint64_t number() const { return std::uint64_t{incarnation} << 32 | counter; }
  static constexpr Epoch of(std::uint64_t number) {
    return {static_cast<std::uint32_t>(number >> 32), static_cast<std::uint32_t>(number)};
  }
  constexpr bool operator==(const Epoch&) const = default;
};

enum class EpochOrder : std::uint8_t { same, older, newer, unrelated };

/// Whether `a` is older or newer than `b`. Versions of different masters are unrelated.
constexpr EpochOrder compare(Epoch a, Epoch b) {
  if (a.incarnation != b.incarnation) return EpochOrder::unrelated;
  if (a.counter == b.counter) return EpochOrder::same;
  return a.counter < b.counter ? EpochOrder::older : EpochOrder::newer;
}

}  // namespace parley::ssa
