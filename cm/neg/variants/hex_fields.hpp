// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Hexadecimal fields of fixed width, separated by colons, as verbs programs exchange them.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "parley/neg.hpp"

namespace parley::neg {

/// Reads fields one by one, with a sticky error.
class HexFields {
 public:
  explicit HexFields(std::string_view text) : text_(text) {}
  /// Reads `digits` hexadecimal digits and, unless it is the last field, a colon.
  std::uint64_t next(std::size_t digits, bool last = false) {
    std::uint64_t out = 0;
    for (std::size_t i = 0; i < digits; ++i) {
      const int digit = at_ < text_.size() ? value_of(text_[at_]) : -1;
      if (digit < 0) {
        ok_ = false;
        return 0;
      }
      out = out << 4 | static_cast<std::uint64_t>(digit);
      ++at_;
    }
    if (!last) {
      ok_ = ok_ && at_ < text_.size() && text_[at_] == ':';
      ++at_;
    }
    return out;
  }
  bool ok() const { return ok_; }
  std::size_t at() const { return at_; }

 private:
  static int value_of(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
  }
  std::string_view text_;
  std::size_t at_ = 0;
  bool ok_ = true;
};

}  // namespace parley::neg
