// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Shared by the parsers of users' texts.
#pragma once
#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

#include "base/escape.hpp"

namespace parley::mad {

/// The whole text as a number: decimal, or hexadecimal after 0x.
inline std::optional<std::uint64_t> number_in(std::string_view text) {
  const bool hex = text.starts_with("0x") || text.starts_with("0X");
  if (hex) text.remove_prefix(2);
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, hex ? 16 : 10);
  return error == std::errc() && end == text.data() + text.size() ? std::optional(value) : std::nullopt;
}

/// A port of a device or switch: 1 to 254.
inline std::optional<std::uint8_t> port_in(std::string_view text) {
  const auto number = number_in(text);
  if (!number || *number < 1 || *number > 254) return std::nullopt;
  return static_cast<std::uint8_t>(*number);
}

/// For messages: in quotes, cut to 80 octets, and with unprintable octets escaped.
inline std::string quoted(std::string_view text) { return "'" + printable(text.substr(0, 80), false) + "'"; }

}  // namespace parley::mad
