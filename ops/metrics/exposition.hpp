// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Prometheus' text exposition format, version 0.0.4. Only this class writes it. All samples of a family must be added
// before the next family begins, so that each family's HELP and TYPE lines occur once and before its samples.
#pragma once
#include <array>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

#include "parley/time.hpp"

namespace parley::ops {

/// The HTTP content type of this format.
inline constexpr std::string_view exposition_content_type = "text/plain; version=0.0.4; charset=utf-8";

struct Label {
  std::string_view name, value;
};

/// A histogram of times. Its bucket limits suit connection set-up, from loopback to the retransmissions of a lost SYN.
class Histogram {
 public:
  static constexpr std::array<Duration, 17> limits{
      std::chrono::microseconds(50),   std::chrono::microseconds(100),  std::chrono::microseconds(250),
      std::chrono::microseconds(500),  std::chrono::milliseconds(1),    std::chrono::microseconds(2500),
      std::chrono::milliseconds(5),    std::chrono::milliseconds(10),   std::chrono::milliseconds(25),
      std::chrono::milliseconds(100),  std::chrono::milliseconds(250),  std::chrono::seconds(1),
      std::chrono::milliseconds(2500), std::chrono::milliseconds(5000), std::chrono::seconds(10),
      std::chrono::seconds(30),        std::chrono::seconds(60)};

  /// Negative times count as 0.
  void observe(Duration time);
  std::uint64_t count() const { return count_; }
  Duration sum() const { return sum_; }
  /// Observations within this bucket's limit that exceed the limits of all earlier buckets.
  std::uint64_t in_bucket(std::size_t at) const { return buckets_[at]; }

 private:
  std::array<std::uint64_t, limits.size()> buckets_{};
  std::uint64_t count_ = 0;
  Duration sum_{};
};

class Exposition {
 public:
  enum class Type : std::uint8_t { counter, gauge, histogram };

  /// Names must be the program's own and valid in Prometheus. Label values and help may be any text.
  void family(std::string_view name, Type type, std::string_view help);
  /// Adds a sample to the current family.
  void sample(std::initializer_list<Label> labels, std::uint64_t value);
  void sample(std::initializer_list<Label> labels, const Histogram& times);
  /// In seconds.
  void sample(std::initializer_list<Label> labels, Duration time);

  const std::string& text() const { return text_; }

 private:
  void line(std::string_view suffix, std::initializer_list<Label> labels, Label last, std::string_view value);

  std::string text_, name_;
};

/// Exact, without an exponent or trailing zeros: "0.00025", "3".
std::string seconds_text(Duration time);

}  // namespace parley::ops
