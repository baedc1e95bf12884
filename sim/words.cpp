// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "sim/words.hpp"

#include <fmt/format.h>

namespace parley::sim {

std::string duration_words(Duration time) {
  const std::int64_t ns = time.count();
  if (ns == 0) return "0 s";
  if (ns % 1'000'000'000 == 0) return fmt::format("{} s", ns / 1'000'000'000);
  if (ns % 1'000'000 == 0) return fmt::format("{} ms", ns / 1'000'000);
  if (ns % 1'000 == 0) return fmt::format("{} us", ns / 1'000);
  return fmt::format("{} ns", ns);
}

std::string rate_words(std::uint64_t rate_bps) {
  if (rate_bps != 0 && rate_bps % 1'000'000'000 == 0) return fmt::format("{} Gb/s", rate_bps / 1'000'000'000);
  if (rate_bps != 0 && rate_bps % 1'000'000 == 0) return fmt::format("{} Mb/s", rate_bps / 1'000'000);
  if (rate_bps != 0 && rate_bps % 1'000 == 0) return fmt::format("{} kb/s", rate_bps / 1'000);
  return fmt::format("{} b/s", rate_bps);
}

std::string ordinal(std::uint32_t n) {
  const bool teen = n % 100 >= 11 && n % 100 <= 13;
  const std::string_view end = teen || n % 10 > 3 || n % 10 == 0 ? "th"
                               : n % 10 == 1                     ? "st"
                               : n % 10 == 2                     ? "nd"
                                                                 : "rd";
  return fmt::format("{}{}", n, end);
}

std::string plural(std::uint64_t n, std::string_view word) {
  return fmt::format("{} {}{}", n, word, n == 1 ? "" : "s");
}

}  // namespace parley::sim
