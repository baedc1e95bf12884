// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Random numbers that are the same on every machine: our own integer generator (xoshiro256**, seeded by splitmix64),
// and probabilities as two integers. No std distribution and no floating point, whose results differ between libraries.
#pragma once
#include <array>
#include <bit>
#include <cstdint>

#include "parley/ratio.hpp"

namespace parley {

class Rng {
 public:
  explicit Rng(std::uint64_t seed) {
    for (std::uint64_t& word : state_) {  // splitmix64: a seed of few bits still fills the state
      seed += 0x9E3779B97F4A7C15;
      std::uint64_t z = seed;
      z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
      z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
      word = z ^ (z >> 31);
    }
  }

  std::uint64_t next() {
    const std::uint64_t result = std::rotl(state_[1] * 5, 7) * 9;
    const std::uint64_t t = state_[1] << 17;
    state_[2] ^= state_[0];
    state_[3] ^= state_[1];
    state_[1] ^= state_[2];
    state_[0] ^= state_[3];
    state_[2] ^= t;
    state_[3] = std::rotl(state_[3], 45);
    return result;
  }

  /// Uniform in [0, n); 0 if n is 0. It is the high half of a product: the bias is below n / 2^64.
  std::uint64_t below(std::uint64_t n) {
    return static_cast<std::uint64_t>((static_cast<unsigned __int128>(next()) * n) >> 64);
  }
  /// Uniform in [low, high].
  std::uint64_t between(std::uint64_t low, std::uint64_t high) {
    return low + (high - low == ~0ULL ? next() : below(high - low + 1));
  }
  bool chance(Ratio ratio) { return ratio.of != 0 && below(ratio.in) < ratio.of; }
  /// A separate generator for one part of a world, so that the draws of one part do not change those of another.
  Rng split() { return Rng(next()); }

 private:
  std::array<std::uint64_t, 4> state_{};
};

}  // namespace parley
