// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "ssa/paths_rate.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <string_view>

#include "parley/wire/ib_codes.h"

namespace parley::ssa {

namespace {

struct Rate {
  unsigned tenths;  ///< of Gb/s
  std::uint8_t code;
};

/// "2.5 Gb/s" is 25.
constexpr unsigned tenths_of(std::string_view text) {
  unsigned out = 0;
  std::size_t at = 0;
  const auto digit = [&] { return at < text.size() && text[at] >= '0' && text[at] <= '9'; };
  for (; digit(); ++at) out = out * 10 + static_cast<unsigned>(text[at] - '0');
  const bool has_tenths = text.substr(at, 1) == ".";
  at += has_tenths;
  return out * 10 + (has_tenths && digit() ? static_cast<unsigned>(text[at] - '0') : 0);
}
static_assert(tenths_of("2.5 Gb/s") == 25 && tenths_of("400 Gb/s") == 4000);

/// In the order of the rates.
constexpr auto rates = [] {
  std::array out{
#define PARLEY_X(name, code, text) Rate{tenths_of(text), code},
      PARLEY_IB_RATES(PARLEY_X)
#undef PARLEY_X
  };
  std::sort(out.begin(), out.end(), [](const Rate& a, const Rate& b) { return a.tenths < b.tenths; });
  return out;
}();

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
  const auto found =
      std::find_if(std::begin(rates), std::end(rates), [&](const Rate& rate) { return rate.tenths == tenths; });
  return found == std::end(rates) ? rates[0].code : found->code;
}

std::uint8_t rate_rank(std::uint8_t code) { return ranks[code]; }

std::uint8_t code_of_rank(std::uint8_t rank) {
  return rank == 0 || rank > std::size(rates) ? std::uint8_t{0} : rates[rank - 1U].code;
}

}  // namespace parley::ssa
