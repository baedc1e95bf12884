// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// FNV-1a, 64 bits: detects accidental differences, not intended ones.
#pragma once
#include <cstdint>

#include "parley/bytes.hpp"

namespace parley {

inline constexpr std::uint64_t fnv1a_start = 0xCBF29CE484222325;

/// Continues from `hash`, so that octets can be added in pieces.
constexpr std::uint64_t fnv1a(ConstBytes octets, std::uint64_t hash = fnv1a_start) {
  for (const std::uint8_t octet : octets) hash = (hash ^ octet) * 0x100000001B3;
  return hash;
}

}  // namespace parley
