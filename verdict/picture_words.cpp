// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "verdict/picture_words.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace parley::verdict {
namespace {

std::uint64_t nanoseconds(Instant at) {
  return static_cast<std::uint64_t>(std::max<std::int64_t>(at.time_since_epoch().count(), 0));
}

/// Octets of the UTF-8 sequence that begins here; 0 when none does (RFC 3629 §4, surrogates and overlong forms apart).
std::size_t sequence(std::string_view text) {
  const auto c = static_cast<unsigned char>(text.front());
  const std::size_t n = c < 0x80                ? 1
                        : c >= 0xC2 && c < 0xE0 ? 2
                        : c >= 0xE0 && c < 0xF0 ? 3
                        : c >= 0xF0 && c < 0xF5 ? 4
                                                : 0;
  if (n == 0 || n > text.size()) return 0;
  const auto follows = [&](std::size_t i) { return (static_cast<unsigned char>(text[i]) & 0xC0) == 0x80; };
  for (std::size_t i = 1; i < n; ++i)
    if (!follows(i)) return 0;
  const auto second = n > 1 ? static_cast<unsigned char>(text[1]) : 0;
  if ((c == 0xE0 && second < 0xA0) || (c == 0xED && second > 0x9F) || (c == 0xF0 && second < 0x90) ||
      (c == 0xF4 && second > 0x8F))
    return 0;
  if (c == 0xC2 && second < 0xA0) return 0;  // C1 controls
  return n;
}

std::string scaled(std::uint64_t value, std::uint64_t unit, std::string_view name) {
  const std::uint64_t hundredths = value % unit * 100 / unit;
  if (hundredths == 0 || value / unit >= 100) return fmt::format("{} {}", value / unit, name);
  if (hundredths % 10 == 0) return fmt::format("{}.{} {}", value / unit, hundredths / 10, name);
  return fmt::format("{}.{:02} {}", value / unit, hundredths, name);
}

}  // namespace

std::string picture_time(Instant at) {
  const std::uint64_t ns = nanoseconds(at);
  return fmt::format("{}.{:06}", ns / 1'000'000'000, ns % 1'000'000'000 / 1000);
}

std::string picture_exact_time(Instant at) {
  const std::uint64_t ns = nanoseconds(at);
  return fmt::format("{}.{:09}", ns / 1'000'000'000, ns % 1'000'000'000);
}

std::string picture_duration(Duration d) {
  const auto ns = static_cast<std::uint64_t>(std::max<std::int64_t>(d.count(), 0));
  if (ns >= 1'000'000'000) return scaled(ns, 1'000'000'000, "s");
  if (ns >= 1'000'000) return scaled(ns, 1'000'000, "ms");
  if (ns >= 1000) return scaled(ns, 1000, "us");
  return fmt::format("{} ns", ns);
}

std::string picture_words(std::string_view text, bool ascii) {
  std::string out;
  while (!text.empty()) {
    const std::size_t n = sequence(text);
    const auto c = static_cast<unsigned char>(text.front());
    if (n == 0 || c < 0x20 || c == 0x7F || (ascii && n > 1))
      out += '?';
    else
      out += text.substr(0, n);
    text.remove_prefix(std::max<std::size_t>(n, 1));
  }
  return out;
}

std::string_view result_class(std::string_view result) {
  return result.starts_with("passed") ? "good" : result.starts_with("partial") ? "warn" : "bad";
}

std::string html_escape(std::string_view text) {
  std::string out;
  for (const char c : text) switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      case '\'': out += "&#39;"; break;
      default: out += c;
    }
  return out;
}

}  // namespace parley::verdict
