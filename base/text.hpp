// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Formatting of numbers, times and octets for people, and fitting of text into columns. All code uses these functions.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "parley/bytes.hpp"
#include "parley/time.hpp"

namespace parley {

/// "1 packet", "2 packets"
std::string counted(std::uint64_t n, std::string_view word);
/// "a Send", "an Atomic Request", "an RDMA Write": abbreviations are read letter by letter.
std::string with_article(std::string_view noun);
/// "1st", "2nd", "11th"
std::string ordinal(std::uint32_t n);

/// Rounded: "1.25 s", "3.2 ms", "850 µs", "7 ns".
std::string duration_text(Duration d);
/// As measured: "850 us", "1.25 ms", "3.20 s".
std::string measured_duration_text(Duration d);
/// Truncated, not rounded, without trailing zeros: "3 s", "1.25 s", "800 us". Negative times are 0.
std::string brief_duration_text(Duration d);
/// Exact, in the largest unit that divides it: "3 s", "1500 us", "7 ns".
std::string exact_duration_text(Duration d);
/// For a time limit, truncated to milliseconds: "5 s", "1500 ms".
std::string limit_text(Duration d);
/// Truncated: "340 ms".
std::string milliseconds_text(Duration d);
/// Truncated to three decimals: "12.345 us", "1.250 s". Not for negative times.
std::string precise_duration_text(Duration d);
/// Seconds truncated to `digits` (at most 9) decimals, without the unit: "12.000345".
std::string decimal_seconds(Duration d, unsigned digits);
/// "10 Gb/s", "1500 kb/s": in the largest unit that needs no fraction.
std::string bit_rate_text(std::uint64_t bits_per_second);

/// "01 ab 20"; beyond `max` octets only the first ones and their total number.
std::string hex_text(ConstBytes octets, std::size_t max = 32);
/// "01ab20": all of them.
std::string hex_digits(ConstBytes octets);
/// ASCII except control characters.
constexpr bool is_printable(std::uint8_t octet) { return octet >= 0x20 && octet < 0x7F; }
/// Whether all octets are printable.
bool is_printable(ConstBytes octets);
/// Octets as ASCII, '.' for other octets; beyond `max` only the first ones, then dots.
std::string readable_text(ConstBytes octets, std::size_t max);

struct Utf8Sequence {
  std::size_t length;
  bool whole;  ///< a character; otherwise the octets together become one U+FFFD (Unicode §3.9, maximal subparts)
};
/// The UTF-8 sequence (RFC 3629 §4) at the start of `text`, which is not empty.
Utf8Sequence utf8_sequence(std::string_view text);
/// Octets of the UTF-8 character at the start of the text; 0 if there is none.
std::size_t utf8_length(std::string_view text);
/// Width of the text in columns, counting each UTF-8 character as one.
std::size_t columns(std::string_view text);
/// Wraps the text at `width`; each line after the first starts with `indent` spaces.
std::string wrap(std::string_view text, std::size_t width, std::size_t indent);
/// The text in at most n columns; dots replace the omitted rest.
std::string clip(const std::string& text, std::size_t n);
std::string repeat(std::string_view glyph, std::size_t n);

}  // namespace parley
