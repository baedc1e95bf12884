// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// How many seeds the tests of management datagrams draw: PARLEY_MAD_SEEDS in the environment (./dev stress: 10,000); without it 2,000, under
// sanitizers, which take ten times as long, 300.
#pragma once
#include <cstdint>
#include <cstdlib>

namespace parley::mad {

inline std::uint64_t seed_count() {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  constexpr std::uint64_t usual = 300;
#else
  constexpr std::uint64_t usual = 2000;
#endif
  const char* const given = std::getenv("PARLEY_MAD_SEEDS");
  return given == nullptr ? usual : std::strtoull(given, nullptr, 10);
}

}  // namespace parley::mad
