// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Numbers in words, as notes, captures and reports show them.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "parley/time.hpp"

namespace parley::sim {

/// "3 s", "200 ms", "1500 us", "7 ns": whole numbers of the largest unit that divides it.
std::string duration_words(Duration time);
/// "10 Gb/s", "1500 kb/s": in the largest unit that needs no fraction.
std::string rate_words(std::uint64_t rate_bps);
/// "1st", "2nd", "11th".
std::string ordinal(std::uint32_t n);
/// "1 fault", "2 faults".
std::string plural(std::uint64_t n, std::string_view word);

}  // namespace parley::sim
