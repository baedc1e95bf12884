// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "sim/scenario/scenario_value.hpp"

#include <algorithm>
#include <array>
#include <numeric>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "base/text.hpp"

namespace parley::sim {
namespace {

struct Unit {
  std::string_view name;
  std::uint64_t factor;
};
// In each table, the units used for writing are in descending order.
constexpr Unit time_units[] = {{"h", 3'600'000'000'000}, {"m", 60'000'000'000}, {"s", 1'000'000'000},
                               {"ms", 1'000'000},        {"us", 1000},          {"ns", 1}};
constexpr Unit rate_units[] = {
    {"Tbps", 1'000'000'000'000}, {"Gbps", 1'000'000'000}, {"Mbps", 1'000'000}, {"kbps", 1000}, {"bps", 1}};
constexpr Unit size_units[] = {{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"B", 1}};
// Accepted but never written: 1500 octets are "1500B" and not "1.5kB".
constexpr Unit size_units_read[] = {{"GB", 1'000'000'000}, {"MB", 1'000'000}, {"kB", 1000}};
constexpr std::uint64_t value_max = 1ULL << 60;  // sums of two still fit into int64

bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// "12.345" as 12345 / 10^3.
struct Decimal {
  std::uint64_t digits = 0;
  std::uint64_t scale = 1;
  std::string_view rest;  ///< the text after the number
};

std::optional<Decimal> read_decimal(std::string_view text) {
  Decimal out;
  std::size_t at = 0, whole = 0, fraction = 0;
  const auto take = [&] {
    if (out.digits > value_max / 10) return false;
    out.digits = out.digits * 10 + static_cast<std::uint64_t>(text[at++] - '0');
    return true;
  };
  for (; at < text.size() && is_digit(text[at]); ++whole)
    if (!take()) return std::nullopt;
  if (at < text.size() && text[at] == '.') {
    ++at;
    for (; at < text.size() && is_digit(text[at]); ++fraction) {
      if (fraction >= 15 || !take()) return std::nullopt;
      out.scale *= 10;
    }
    if (fraction == 0) return std::nullopt;
  }
  if (whole == 0) return std::nullopt;
  out.rest = text.substr(at);
  return out;
}

/// Exact, or none.
std::optional<std::uint64_t> read_units(std::string_view text, std::span<const Unit> units) {
  const auto number = read_decimal(text);
  if (!number) return std::nullopt;
  for (const Unit& unit : units) {
    if (number->rest != unit.name) continue;
    const unsigned __int128 product = static_cast<unsigned __int128>(number->digits) * unit.factor;
    if (product % number->scale != 0 || product / number->scale > value_max) return std::nullopt;
    return static_cast<std::uint64_t>(product / number->scale);
  }
  return std::nullopt;
}

/// In the largest unit that needs at most three digits after the point.
std::string write_units(std::uint64_t value, std::span<const Unit> units) {
  for (const Unit& unit : units) {
    // 1.025m is hard to read, and 2m could be metres.
    if (value < unit.factor || unit.name == "m" || unit.name == "h") continue;
    const std::uint64_t whole = value / unit.factor;
    const unsigned __int128 thousandths = static_cast<unsigned __int128>(value % unit.factor) * 1000;
    if (thousandths % unit.factor != 0) continue;
    const auto fraction = static_cast<std::uint64_t>(thousandths / unit.factor);
    if (fraction == 0) return fmt::format("{}{}", whole, unit.name);
    if (unit.factor % 1000 != 0) continue;  // the same for 1.125KiB
    std::string digits = fmt::format("{:03}", fraction);
    while (digits.back() == '0') digits.pop_back();
    return fmt::format("{}.{}{}", whole, digits, unit.name);
  }
  return fmt::format("{}{}", value, units.back().name);
}

std::optional<std::uint64_t> read_number(std::string_view text, unsigned base) {
  std::uint64_t value = 0;
  if (text.empty()) return std::nullopt;
  for (const char c : text) {
    if (c == '_') continue;
    unsigned digit = base;
    if (is_digit(c)) digit = static_cast<unsigned>(c - '0');
    if (c >= 'a' && c <= 'f') digit = static_cast<unsigned>(c - 'a' + 10);
    if (c >= 'A' && c <= 'F') digit = static_cast<unsigned>(c - 'A' + 10);
    if (digit >= base || value > (~0ULL - digit) / base) return std::nullopt;
    value = value * base + digit;
  }
  return value;
}

/// Optimal string alignment: insertions, deletions, substitutions and transpositions count one each.
std::size_t edits(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before(b.size() + 1), row(b.size() + 1), next(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    next[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      next[j] = std::min({row[j] + 1, next[j - 1] + 1, row[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        next[j] = std::min(next[j], before[j - 2] + 1);
    }
    std::swap(before, row);
    std::swap(row, next);
  }
  return row[b.size()];
}

}  // namespace

const DocEntry* DocValue::find(std::string_view key) const {
  for (const DocEntry& entry : entries)
    if (entry.key == key) return &entry;
  return nullptr;
}

std::string describe(const DocValue& value) {
  const std::string shown = value.text.empty() ? "this" : fmt::format("'{}'", value.text);
  switch (value.kind) {
    case DocValue::Kind::text: return fmt::format("'{}'", value.text.substr(0, 60));
    case DocValue::Kind::integer: return fmt::format("the number {}", value.integer);
    case DocValue::Kind::boolean: return value.boolean ? "true" : "false";
    case DocValue::Kind::real: return shown + " (a number with a fraction)";
    case DocValue::Kind::date: return shown + " (a date or time of day)";
    case DocValue::Kind::array: return "an array";
    case DocValue::Kind::table: return "a table";
  }
  return shown;
}

std::string quote(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto octet = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (octet < 0x20 || octet == 0x7F) {
      out += fmt::format("\\u{:04X}", octet);
    } else {
      out += c;
    }
  }
  return out + '"';
}

std::optional<Duration> parse_time(std::string_view text) {
  const auto ns = read_units(text, time_units);
  if (!ns) return std::nullopt;
  return Duration(static_cast<std::int64_t>(*ns));
}
std::string time_text(Duration time) {
  if (time.count() == 0) return "0s";
  if (time.count() < 0) return fmt::format("{}ns", time.count());
  return write_units(static_cast<std::uint64_t>(time.count()), time_units);
}

std::optional<std::uint64_t> parse_rate(std::string_view text) { return read_units(text, rate_units); }
std::string rate_text(std::uint64_t bps) { return write_units(bps, rate_units); }

std::optional<std::uint64_t> parse_size(std::string_view text) {
  const auto size = read_units(text, size_units);
  return size ? size : read_units(text, size_units_read);
}
std::string size_text(std::uint64_t octets) { return write_units(octets, size_units); }

std::optional<Ratio> parse_ratio(std::string_view text) {
  const auto number = read_decimal(text);
  if (!number) return std::nullopt;
  unsigned __int128 of = number->digits, in = number->scale;
  if (number->rest.starts_with('/') && number->scale == 1) {
    const auto below = read_number(number->rest.substr(1), 10);
    if (!below || *below == 0) return std::nullopt;
    in = *below;
  } else if (number->rest == "%") {
    in *= 100;
  } else if (!number->rest.empty()) {
    return std::nullopt;
  }
  if (of > in) return std::nullopt;
  unsigned __int128 a = of, b = in;  // the greatest common divisor: "1/1000" and "0.1%" are the same ratio
  while (b != 0) {
    const unsigned __int128 rest = a % b;
    a = b;
    b = rest;
  }
  of /= a;
  in /= a;
  if (in > 0xFFFF'FFFF) return std::nullopt;
  return Ratio{static_cast<std::uint32_t>(of), static_cast<std::uint32_t>(in)};
}

std::string ratio_text(Ratio ratio) {
  const std::uint64_t in = ratio.in == 0 ? 1 : ratio.in;
  const std::uint64_t thousandths = std::uint64_t{ratio.of} * 100'000;  // thousandths of a percent
  // A ratio that is not in lowest terms would be read back reduced; it is still the same probability.
  if (thousandths % in != 0) return fmt::format("{}/{}", ratio.of, in);
  const std::uint64_t value = thousandths / in;
  if (value % 1000 == 0) return fmt::format("{}%", value / 1000);
  std::string digits = fmt::format("{}.{:03}", value / 1000, value % 1000);
  while (digits.back() == '0') digits.pop_back();
  return digits + '%';
}

std::optional<std::uint64_t> parse_mask(std::string_view text) {
  if (text.starts_with("0b")) return read_number(text.substr(2), 2);
  if (text.starts_with("0x")) return read_number(text.substr(2), 16);
  return read_number(text, 10);
}
std::string mask_text(std::uint64_t mask) {
  return mask < 0x10000 ? fmt::format("0b{:b}", mask) : fmt::format("0x{:x}", mask);
}

std::optional<std::string> parse_octets(std::string_view text) {
  if (!text.starts_with("hex:")) return std::string(text);
  text.remove_prefix(4);
  if (text.size() % 2 != 0) return std::nullopt;
  std::string out;
  for (std::size_t i = 0; i < text.size(); i += 2) {
    const auto octet = text[i] == '_' || text[i + 1] == '_' ? std::nullopt : read_number(text.substr(i, 2), 16);
    if (!octet) return std::nullopt;
    out += static_cast<char>(*octet);
  }
  return out;
}

std::string octets_text(std::string_view text) {
  const Bytes octets(text.begin(), text.end());
  return is_printable(octets) && !text.starts_with("hex:") ? std::string(text) : "hex:" + hex_digits(octets);
}

std::string filler(std::size_t octets) {
  std::string out(octets, 'a');
  for (std::size_t i = 0; i < octets; ++i) out[i] = static_cast<char>('a' + i % 26);
  return out;
}

std::string_view nearest(std::string_view word, const std::vector<std::string_view>& words) {
  if (word.empty() || word.size() > 64) return {};
  std::string_view best;
  std::size_t best_edits = std::max<std::size_t>(1, word.size() / 3) + 1;
  for (const std::string_view other : words) {
    // A word that was cut short or extended ("request" for "request_timeout") has distance one.
    const bool part = word.size() >= 3 && (other.starts_with(word) || other.ends_with(word) || word.starts_with(other));
    const std::size_t distance =
        part && !other.empty() ? std::min<std::size_t>(1, edits(word, other)) : edits(word, other);
    if (distance < best_edits) {
      best = other;
      best_edits = distance;
    }
  }
  return best;
}

}  // namespace parley::sim
