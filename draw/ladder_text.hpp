// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Common parts of both renderings of a ladder: times, silences and the colour of a result.
#pragma once
#include <string>
#include <string_view>

#include "base/escape.hpp"
#include "base/text.hpp"
#include "parley/time.hpp"

namespace parley::draw {

/// A silence of at least this length is drawn as a separate line.
inline constexpr Duration ladder_gap = std::chrono::milliseconds(10);

/// "1.200013": seconds, cut to microseconds.
std::string ladder_time(Instant at);
/// All nine digits.
std::string ladder_exact_time(Instant at);
/// "1.200013456 s".
std::string ladder_exact_seconds(Instant at);
/// The colour of a result: "good" if it begins with "passed", "warn" for "partial", else "bad".
std::string_view result_class(std::string_view result);

}  // namespace parley::draw
