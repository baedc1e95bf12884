// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Octets and numbers that a user gives as hexadecimal digits.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "parley/bytes.hpp"

namespace parley::tools {

/// Appends the octets that pairs of hexadecimal digits in `text` denote to `out`. Blanks, ':' and a "0x" before a pair
/// are skipped. Returns an error message if the text contains anything else, or if `out` would exceed `max` octets.
std::string parse_hex_into(std::string_view text, Bytes& out, std::size_t max);

/// A number of up to 16 digits, with "0x" before them or not. Nothing: it is another text.
std::optional<std::uint64_t> parse_hex_number(std::string_view text);

}  // namespace parley::tools
