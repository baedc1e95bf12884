// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Equality of two addresses in memory, for code that runs per packet: g++ 12 calls memcmp for std::array's operator.
#pragma once
#include <array>
#include <cstdint>
#include <cstring>

namespace parley {

inline bool same_octets(const std::array<std::uint8_t, 16>& a, const std::array<std::uint8_t, 16>& b) {
  std::array<std::uint64_t, 2> x, y;
  std::memcpy(x.data(), a.data(), sizeof x);
  std::memcpy(y.data(), b.data(), sizeof y);
  return ((x[0] ^ y[0]) | (x[1] ^ y[1])) == 0;
}

}  // namespace parley
