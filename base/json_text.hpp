// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Conversions of human-readable output to JSON.
#pragma once
#include "base/json.hpp"
#include "parley/bytes.hpp"
#include "parley/time.hpp"

namespace parley {

/// Times as numbers: the key names the unit ("at_us", "took_s").
inline double in_microseconds(Duration d) { return static_cast<double>(d.count()) / 1e3; }
inline double in_milliseconds(Duration d) { return static_cast<double>(d.count()) / 1e6; }
inline double in_seconds(Duration d) { return static_cast<double>(d.count()) / 1e9; }

/// "not run" becomes "not_run".
std::string json_word(std::string_view words);
/// `length`, `hex`, and `text` if all octets are printable.
Json json_octets(ConstBytes octets);

}  // namespace parley
