// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "base/text.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace parley {
namespace {

bool continues(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

/// To the nearest; ties go to the even one.
std::int64_t rounded_microseconds(std::int64_t ns) {
  const std::int64_t whole = ns / 1000, rest = ns % 1000, away = ns < 0 ? -1 : 1;
  const bool up = rest * away > 500 || (rest * away == 500 && whole % 2 != 0);
  return whole + (up ? away : 0);
}

std::string cut_to_hundredths(std::uint64_t value, std::uint64_t unit, std::string_view name) {
  const std::uint64_t hundredths = value % unit * 100 / unit;
  if (hundredths == 0 || value / unit >= 100) return fmt::format("{} {}", value / unit, name);
  if (hundredths % 10 == 0) return fmt::format("{}.{} {}", value / unit, hundredths / 10, name);
  return fmt::format("{}.{:02} {}", value / unit, hundredths, name);
}

}  // namespace

std::string counted(std::uint64_t n, std::string_view word) {
  return fmt::format("{} {}{}", n, word, n == 1 ? "" : "s");
}

std::string with_article(std::string_view noun) {
  const auto upper = [&](std::size_t i) { return i < noun.size() && noun[i] >= 'A' && noun[i] <= 'Z'; };
  const bool spelled = upper(0) && upper(1) && !noun.starts_with("SEND");  // which is a word
  const std::string_view vowels = spelled ? "AEFHILMNORSX" : "AEIOaeio";
  const bool an = !noun.empty() && vowels.find(noun.front()) != std::string_view::npos;
  return fmt::format("{} {}", an ? "an" : "a", noun);
}

std::string ordinal(std::uint32_t n) {
  const bool teen = n % 100 >= 11 && n % 100 <= 13;
  const std::string_view end = teen || n % 10 > 3 || n % 10 == 0 ? "th"
                               : n % 10 == 1                     ? "st"
                               : n % 10 == 2                     ? "nd"
                                                                 : "rd";
  return fmt::format("{}{}", n, end);
}

std::string duration_text(Duration d) {
  const auto ns = static_cast<double>(d.count());
  const double size = ns < 0 ? -ns : ns;
  if (size >= 1e9) return fmt::format("{:.2f} s", ns / 1e9);
  if (size >= 1e6) return fmt::format("{:.1f} ms", ns / 1e6);
  if (size >= 1e3) return fmt::format("{} µs", rounded_microseconds(d.count()));
  return fmt::format("{} ns", d.count());
}

std::string measured_duration_text(Duration d) {
  const double us = static_cast<double>(d.count()) / 1e3;
  if (us < 1000) return fmt::format("{:.0f} us", us);
  if (us < 1e6) return fmt::format("{:.2f} ms", us / 1e3);
  return fmt::format("{:.2f} s", us / 1e6);
}

std::string brief_duration_text(Duration d) {
  const auto ns = static_cast<std::uint64_t>(std::max<std::int64_t>(d.count(), 0));
  if (ns >= 1'000'000'000) return cut_to_hundredths(ns, 1'000'000'000, "s");
  if (ns >= 1'000'000) return cut_to_hundredths(ns, 1'000'000, "ms");
  if (ns >= 1000) return cut_to_hundredths(ns, 1000, "us");
  return fmt::format("{} ns", ns);
}

std::string exact_duration_text(Duration d) {
  const std::int64_t ns = d.count();
  if (ns == 0) return "0 s";
  if (ns % 1'000'000'000 == 0) return fmt::format("{} s", ns / 1'000'000'000);
  if (ns % 1'000'000 == 0) return fmt::format("{} ms", ns / 1'000'000);
  if (ns % 1'000 == 0) return fmt::format("{} us", ns / 1'000);
  return fmt::format("{} ns", ns);
}

std::string limit_text(Duration d) {
  const auto ms = d / std::chrono::milliseconds(1);
  return ms % 1000 == 0 ? fmt::format("{} s", ms / 1000) : fmt::format("{} ms", ms);
}

std::string milliseconds_text(Duration d) { return fmt::format("{} ms", d / std::chrono::milliseconds(1)); }

std::string precise_duration_text(Duration d) {
  const std::int64_t ns = d.count();
  if (ns < 1'000'000) return fmt::format("{}.{:03} us", ns / 1'000, ns % 1'000);
  if (ns < 1'000'000'000) return fmt::format("{}.{:03} ms", ns / 1'000'000, ns / 1'000 % 1'000);
  return fmt::format("{}.{:03} s", ns / 1'000'000'000, ns / 1'000'000 % 1'000);
}

std::string decimal_seconds(Duration d, unsigned digits) {
  const bool negative = d.count() < 0;
  const std::uint64_t ns = negative ? 0 - static_cast<std::uint64_t>(d.count()) : static_cast<std::uint64_t>(d.count());
  std::uint64_t unit = 1'000'000'000;
  for (unsigned i = 0; i < digits; ++i) unit /= 10;
  return fmt::format("{}{}.{:0{}}", negative ? "-" : "", ns / 1'000'000'000, ns % 1'000'000'000 / unit, digits);
}

std::string bit_rate_text(std::uint64_t rate) {
  if (rate != 0 && rate % 1'000'000'000 == 0) return fmt::format("{} Gb/s", rate / 1'000'000'000);
  if (rate != 0 && rate % 1'000'000 == 0) return fmt::format("{} Mb/s", rate / 1'000'000);
  if (rate != 0 && rate % 1'000 == 0) return fmt::format("{} kb/s", rate / 1'000);
  return fmt::format("{} b/s", rate);
}

std::string hex_text(ConstBytes octets, std::size_t max) {
  std::string out;
  for (const std::uint8_t octet : octets.first(std::min(octets.size(), max)))
    out += fmt::format("{}{:02x}", out.empty() ? "" : " ", octet);
  if (octets.size() > max) out += fmt::format(" ... ({} octets)", octets.size());
  return out;
}

std::string hex_digits(ConstBytes octets) {
  std::string out;
  out.reserve(octets.size() * 2);
  for (const std::uint8_t octet : octets) out += fmt::format("{:02x}", octet);
  return out;
}

bool is_printable(ConstBytes octets) {
  return std::all_of(octets.begin(), octets.end(), [](std::uint8_t octet) { return is_printable(octet); });
}

std::string readable_text(ConstBytes octets, std::size_t max) {
  std::string out;
  for (const std::uint8_t octet : octets.first(std::min(octets.size(), max)))
    out += is_printable(octet) ? static_cast<char>(octet) : '.';
  if (octets.size() > max) out += "...";
  return out;
}

Utf8Sequence utf8_sequence(std::string_view text) {
  const auto octet = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned first = octet(0);
  const std::size_t length = first < 0x80                     ? 1
                             : first >= 0xC2 && first <= 0xDF ? 2
                             : first >= 0xE0 && first <= 0xEF ? 3
                             : first >= 0xF0 && first <= 0xF4 ? 4
                                                              : 0;
  if (length == 0) return {1, false};
  for (std::size_t i = 1; i < length; ++i) {
    // The second octet rules out overlong forms, surrogates and anything above U+10FFFF.
    const unsigned least = i > 1 ? 0x80 : first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
    const unsigned most = i > 1 ? 0xBF : first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
    if (i == text.size() || octet(i) < least || octet(i) > most) return {i, false};
  }
  return {length, true};
}

std::size_t utf8_length(std::string_view text) {
  if (text.empty()) return 0;
  const auto [length, whole] = utf8_sequence(text);
  return whole ? length : 0;
}

std::size_t columns(std::string_view text) {
  return text.size() - static_cast<std::size_t>(std::count_if(text.begin(), text.end(), continues));
}

std::string wrap(std::string_view text, std::size_t width, std::size_t indent) {
  std::string out;
  std::size_t at = indent;
  while (!text.empty()) {
    const std::size_t space = text.find(' ');
    const std::string_view word = text.substr(0, space);
    const std::size_t n = columns(word);
    if (at > indent && at + 1 + n > width) {
      out += '\n';
      out.append(indent, ' ');
      at = indent;
    } else if (at > indent) {
      out += ' ';
      ++at;
    }
    out += word;
    at += n;
    text.remove_prefix(space == std::string_view::npos ? text.size() : space + 1);
  }
  return out;
}

std::string clip(const std::string& text, std::size_t n) {
  if (columns(text) <= n) return text;
  std::string out;
  std::size_t at = 0;
  for (const char c : text) {
    if (!continues(c) && ++at + 3 > n) break;
    out += c;
  }
  return out + std::string(std::min<std::size_t>(n, 3), '.');
}

std::string repeat(std::string_view glyph, std::size_t n) {
  std::string out;
  for (std::size_t i = 0; i < n; ++i) out += glyph;
  return out;
}

}  // namespace parley
