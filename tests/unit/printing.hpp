// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// How failing tests show what they compare: enumerators by their names, times with their units, octets in hexadecimal, and
// the first difference before both values. Precompiled with GoogleTest's headers, so that each test file has it.
// Not "#pragma once": gcc compares times of files with those in a precompiled header, which may come out of ccache.
#ifndef PARLEY_TESTS_UNIT_PRINTING_HPP
#define PARLEY_TESTS_UNIT_PRINTING_HPP
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <ostream>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace parley::printing {

/// The compilers tell a template what its argument is called: "... E = parley::QpState; E Value = parley::QpState::rts]",
/// and "(parley::QpState)9" where no enumerator has the value.
template <class E, E Value>
constexpr std::string_view enumerator() {
  std::string_view text = __PRETTY_FUNCTION__;
  text = text.substr(text.rfind("Value = ") + 8);
  text = text.substr(0, text.find_first_of(";]"));
  text = text.substr(text.rfind(':') + 1);
  return text.find_first_of("()") == text.npos ? text : std::string_view();  // "QpState)9"
}

inline constexpr std::size_t enumerators_max = 64;  // of a type; those above are shown as numbers

template <class E, std::size_t... Values>
constexpr auto enumerators(std::index_sequence<Values...>) {
  return std::array{enumerator<E, static_cast<E>(Values)>()...};
}

template <class E>
std::string enumerator_text(E value) {
  static constexpr auto names = enumerators<E>(std::make_index_sequence<enumerators_max>());
  const auto number = static_cast<long long>(value);
  if (number >= 0 && number < static_cast<long long>(names.size()) && !names[static_cast<std::size_t>(number)].empty())
    return std::string(names[static_cast<std::size_t>(number)]);
  return fmt::format("{} (no enumerator)", number);
}

template <class E>
inline constexpr bool is_scoped_enum = std::is_enum_v<E> && !std::is_convertible_v<E, long long>;

/// "1.5 ms": the largest unit of which there is one at least.
inline std::string time_text(long double nanoseconds) {
  constexpr std::array<std::pair<long double, const char*>, 4> units{
      {{1e9L, "s"}, {1e6L, "ms"}, {1e3L, "us"}, {1, "ns"}}};
  for (const auto& [size, name] : units)
    if (nanoseconds >= size || nanoseconds <= -size)
      return fmt::format("{} {}", static_cast<double>(nanoseconds / size), name);
  return "0 s";
}

template <class Rep, class Period>
std::string time_text(std::chrono::duration<Rep, Period> time) {
  if (time == time.max()) return "never";
  return time_text(std::chrono::duration<long double, std::nano>(time).count());
}

/// "6 octets: 4d504120 4944"
inline std::string octets_text(std::span<const std::uint8_t> octets) {
  std::string out =
      fmt::format("{} octet{}{}", octets.size(), octets.size() == 1 ? "" : "s", octets.empty() ? "" : ":");
  for (std::size_t i = 0; i < octets.size(); ++i) out += fmt::format("{}{:02x}", i % 4 == 0 ? " " : "", octets[i]);
  return out;
}

inline std::string difference(std::span<const std::uint8_t> a, std::span<const std::uint8_t> b) {
  const auto at = static_cast<std::size_t>(std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin());
  const auto shown = [at](std::span<const std::uint8_t> x) {
    return at < x.size() ? fmt::format("{:02x}", x[at]) : "the end";
  };
  return fmt::format("They differ first at octet {}: {} and {}.", at, shown(a), shown(b));
}

inline std::string_view line_at(std::string_view text, std::size_t begin) {
  return text.substr(begin, text.find('\n', begin) - begin);
}

/// Of texts with more than one line; otherwise nothing.
inline std::string difference(std::string_view a, std::string_view b) {
  if (a.find('\n') == a.npos && b.find('\n') == b.npos) return {};
  const auto at = static_cast<std::size_t>(std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin());
  const std::size_t before = at == 0 ? a.npos : a.rfind('\n', at - 1);
  const std::size_t begin = before == a.npos ? 0 : before + 1;
  return fmt::format("They differ first in line {}:\n- {}\n+ {}",
                     1 + std::count(a.begin(), a.begin() + static_cast<std::ptrdiff_t>(begin), '\n'), line_at(a, begin),
                     line_at(b, begin));
}

template <class T>
testing::AssertionResult compared(const char* a_text, const char* b_text, const T& a, const T& b) {
  if (a == b) return testing::AssertionSuccess();
  const std::string first = difference(a, b);
  return testing::AssertionFailure() << first << (first.empty() ? "" : "\n")
                                     << testing::internal::CmpHelperEQFailure(a_text, b_text, a, b).message();
}

}  // namespace parley::printing

namespace testing::internal {

template <class E>
requires parley::printing::is_scoped_enum<E>
class UniversalPrinter<E> {
 public:
  static void Print(const E& value, std::ostream* os) { *os << parley::printing::enumerator_text(value); }
};

template <class Rep, class Period>
class UniversalPrinter<std::chrono::duration<Rep, Period>> {
 public:
  static void Print(const std::chrono::duration<Rep, Period>& time, std::ostream* os) {
    *os << parley::printing::time_text(time);
  }
};

template <class Clock, class Duration>
class UniversalPrinter<std::chrono::time_point<Clock, Duration>> {
 public:
  static void Print(const std::chrono::time_point<Clock, Duration>& time, std::ostream* os) {
    *os << parley::printing::time_text(time.time_since_epoch());
  }
};

template <>
class UniversalPrinter<std::vector<std::uint8_t>> {
 public:
  static void Print(const std::vector<std::uint8_t>& octets, std::ostream* os) {
    *os << parley::printing::octets_text(octets);
  }
};

template <>
class UniversalPrinter<std::span<const std::uint8_t>> {
 public:
  static void Print(const std::span<const std::uint8_t>& octets, std::ostream* os) {
    *os << parley::printing::octets_text(octets);
  }
};

template <>
inline AssertionResult CmpHelperEQ(const char* a_text, const char* b_text, const std::vector<std::uint8_t>& a,
                                   const std::vector<std::uint8_t>& b) {
  return parley::printing::compared(a_text, b_text, a, b);
}

template <>
inline AssertionResult CmpHelperEQ(const char* a_text, const char* b_text, const std::string& a, const std::string& b) {
  return parley::printing::compared(a_text, b_text, a, b);
}

}  // namespace testing::internal

#endif
