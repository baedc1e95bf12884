// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Octets that a user gives as hexadecimal digits.
#pragma once
#include <string>
#include <string_view>

#include "parley/bytes.hpp"

namespace parley::tools {

/// Adds the octets of pairs of digits to `out`; blanks and ':' are passed over, as is "0x" before a pair. Returns a sentence if
/// the text is something else, or `out` would have more than `max` octets.
std::string take_hex(std::string_view text, Bytes& out, std::size_t max);

}  // namespace parley::tools
