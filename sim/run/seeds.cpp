// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include <fmt/format.h>

#include <charconv>

#include "parley/sim_trial.hpp"

namespace parley::sim {

Checked<std::uint64_t> parse_seed(std::string_view text) {
  const bool hex = text.starts_with("0x") || text.starts_with("0X");
  const std::string_view digits = hex ? text.substr(2) : text;
  std::uint64_t seed = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), seed, hex ? 16 : 10);
  if (error == std::errc::result_out_of_range)
    return tl::unexpected(fmt::format("'{}' is more than 18446744073709551615 (0xffffffffffffffff)", text));
  if (error != std::errc{} || end != digits.data() + digits.size())
    return tl::unexpected(fmt::format("'{}' is neither a decimal nor a 0x hexadecimal number", text));
  return seed;
}

Checked<Seeds> parse_seeds(std::string_view text) {
  const auto named = [text](const std::string& wrong) {
    return tl::unexpected(fmt::format("{} in the seeds '{}'; write A..B", wrong, text));
  };
  const std::size_t dots = text.find("..");
  const auto first = parse_seed(text.substr(0, dots));
  if (!first) return named(first.error());
  if (dots == std::string_view::npos) return Seeds{*first, *first};
  const auto last = parse_seed(text.substr(dots + 2));
  if (!last) return named(last.error());
  if (*last < *first)
    return tl::unexpected(fmt::format("the seeds '{}' are reversed; the smaller one comes first", text));
  return Seeds{*first, *last};
}

}  // namespace parley::sim
