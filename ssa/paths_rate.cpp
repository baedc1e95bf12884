// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "ssa/paths_rate.hpp"

#include <algorithm>
#include <array>
#include <iterator>

namespace parley::ssa {

namespace {

struct Rate {
  unsigned tenths;  ///< of Gb/s, as the code's name says
  std::uint8_t code;
};
/// In the order of the rates.
constexpr Rate rates[] = {{25, 2},    {50, 5},    {100, 3},   {140, 11},  {200, 6},   {250, 15},
                          {280, 19},  {300, 4},   {400, 7},   {500, 20},  {560, 12},  {600, 8},
                          {800, 9},   {1000, 16}, {1120, 13}, {1200, 10}, {1680, 14}, {2000, 17},
                          {3000, 18}, {4000, 21}, {6000, 22}, {8000, 23}, {12000, 24}};

constexpr std::array<std::uint8_t, 256> ranks = [] {
  std::array<std::uint8_t, 256> out{};
  for (std::size_t i = 0; i < std::size(rates); ++i) out[rates[i].code] = static_cast<std::uint8_t>(i + 1);
  return out;
}();

unsigned lanes_of(std::uint8_t width) {
  switch (width) {
    case 1: return 1;
    case 2: return 4;
    case 4: return 8;
    case 8: return 12;
    case 16: return 2;
    default: return 0;
  }
}

/// Tenths of Gb/s of one lane; 0: unknown.
unsigned lane_of(const LinkSpeeds& link) {
  if ((link.ext2 & 1U) != 0) return 2000;
  switch (link.ext) {
    case 0: break;
    case 1: return 140;
    case 2: return 250;
    case 4: return 500;
    case 8: return 1000;
    default: return 0;
  }
  switch (link.speed) {
    case 1: return 25;
    case 2: return 50;
    case 4: return 100;
    default: return 0;
  }
}

}  // namespace

std::uint8_t rate_code(const LinkSpeeds& link) {
  const unsigned tenths = lanes_of(link.width) * lane_of(link);
  const auto* const found =
      std::find_if(std::begin(rates), std::end(rates), [&](const Rate& rate) { return rate.tenths == tenths; });
  return found == std::end(rates) ? rates[0].code : found->code;
}

std::uint8_t rate_rank(std::uint8_t code) { return ranks[code]; }

std::uint8_t code_of_rank(std::uint8_t rank) {
  return rank == 0 || rank > std::size(rates) ? std::uint8_t{0} : rates[rank - 1U].code;
}

}  // namespace parley::ssa
