// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "sim/scenario/scenario_ascii.hpp"

#include <algorithm>
#include <string>

namespace parley::sim {
namespace {

constexpr std::string_view byte_order_mark = "\xEF\xBB\xBF";

/// The offset after the string whose opening quote is at `at`, or the end of its line or of the text.
std::size_t behind_string(std::string_view text, std::size_t at) {
  const char quote = text[at];
  const std::string triple(3, quote);
  const bool multi_line = text.substr(at, 3) == triple;
  at += multi_line ? 3 : 1;
  while (at < text.size()) {
    if (quote == '"' && text[at] == '\\') {
      at += 2;
    } else if (multi_line && text.substr(at, 3) == triple) {
      // Up to two quotes may directly precede the closing three.
      at += 3;
      for (int more = 0; more < 2 && at < text.size() && text[at] == quote; ++more) ++at;
      return at;
    } else if (!multi_line && (text[at] == quote || text[at] == '\n')) {
      return at + 1;
    } else {
      ++at;
    }
  }
  return text.size();
}

}  // namespace

std::optional<std::size_t> beyond_ascii(std::string_view toml) {
  std::size_t at = toml.substr(0, byte_order_mark.size()) == byte_order_mark ? byte_order_mark.size() : 0;
  while (at < toml.size()) {
    const char c = toml[at];
    if (c == '#')
      at = std::min(toml.find('\n', at), toml.size());
    else if (c == '"' || c == '\'')
      at = behind_string(toml, at);
    else if ((c & 0x80) != 0)
      return at;
    else
      ++at;
  }
  return std::nullopt;
}

}  // namespace parley::sim
