// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// What both renderings of a picture share: times, silences, and texts that may hold anything.
#pragma once
#include <string>
#include <string_view>

#include "parley/time.hpp"

namespace parley::verdict {

/// A silence at least that long is worth a line of its own.
inline constexpr Duration picture_gap = std::chrono::milliseconds(10);

/// "1.200013": seconds, cut to microseconds.
std::string picture_time(Instant at);
/// All nine digits.
std::string picture_exact_time(Instant at);
/// "200 ms", "3 s", "1.25 s", "800 us".
std::string picture_duration(Duration d);
/// Text that a terminal may be given: what controls one, and octets that are no UTF-8, become '?'; with `ascii` so does
/// everything beyond ASCII.
std::string picture_words(std::string_view text, bool ascii);

/// The colour of a result: "good" of one that begins with "passed", "warn" of "partial", else "bad".
std::string_view result_class(std::string_view result);

/// Text in HTML: nothing in it can end an element, an attribute or the page.
std::string html_escape(std::string_view text);

}  // namespace parley::verdict
