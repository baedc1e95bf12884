// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "tools/hex.hpp"

#include <charconv>

#include <fmt/format.h>

#include "base/escape.hpp"

namespace parley::tools {

namespace {

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

bool is_prefix(std::string_view text) { return text.starts_with("0x") || text.starts_with("0X"); }

}  // namespace

std::string parse_hex_into(std::string_view text, Bytes& out, std::size_t max) {
  int high = -1;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == ' ' || c == '\t' || c == '\r' || c == ':') continue;
    if (high < 0 && is_prefix(text.substr(i))) {
      ++i;
      continue;
    }
    const int digit = hex_digit(c);
    if (digit < 0) return fmt::format("'{}' is not a hexadecimal digit", printable(text.substr(i, 1), true));
    if (high < 0) {
      high = digit;
      continue;
    }
    if (out.size() >= max) return fmt::format("more than {} octets", max);
    out.push_back(static_cast<std::uint8_t>(high << 4 | digit));
    high = -1;
  }
  return high < 0 ? std::string() : "an odd number of hexadecimal digits";
}

std::optional<std::uint64_t> parse_hex_number(std::string_view text) {
  if (text.starts_with("0x")) text.remove_prefix(2);
  std::uint64_t out = 0;
  const auto [end, why] = std::from_chars(text.data(), text.data() + text.size(), out, 16);
  if (why != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return out;
}

}  // namespace parley::tools
