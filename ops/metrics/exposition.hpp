// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Prometheus' text exposition format, version 0.0.4: the only place that writes it. A family is begun, and gets its
// samples before the next one begins, so that the HELP and TYPE lines of each stand once and above them.
#pragma once
#include <array>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

#include "parley/time.hpp"

namespace parley::ops {

/// What a text in this format is announced as in HTTP.
inline constexpr std::string_view exposition_content_type = "text/plain; version=0.0.4; charset=utf-8";

struct Label {
  std::string_view name, value;
};

/// Times in buckets whose upper limits are chosen for connection set-up: from loopback to a lost SYN's retransmissions.
class Histogram {
 public:
  static constexpr std::array<Duration, 17> limits{
      std::chrono::microseconds(50),   std::chrono::microseconds(100),  std::chrono::microseconds(250),
      std::chrono::microseconds(500),  std::chrono::milliseconds(1),    std::chrono::microseconds(2500),
      std::chrono::milliseconds(5),    std::chrono::milliseconds(10),   std::chrono::milliseconds(25),
      std::chrono::milliseconds(100),  std::chrono::milliseconds(250),  std::chrono::seconds(1),
      std::chrono::milliseconds(2500), std::chrono::milliseconds(5000), std::chrono::seconds(10),
      std::chrono::seconds(30),        std::chrono::seconds(60)};

  /// A time below 0 counts as 0.
  void observe(Duration time);
  std::uint64_t count() const { return count_; }
  Duration sum() const { return sum_; }
  /// Observations that were in the bucket of that limit, and in none before it.
  std::uint64_t in_bucket(std::size_t at) const { return buckets_[at]; }

 private:
  std::array<std::uint64_t, limits.size()> buckets_{};
  std::uint64_t count_ = 0;
  Duration sum_{};
};

class Exposition {
 public:
  enum class Type : std::uint8_t { counter, gauge, histogram };

  /// Names are the program's own, and of the form that Prometheus asks for; values of labels and help may be anything.
  void family(std::string_view name, Type type, std::string_view help);
  /// Of the family that was begun last.
  void sample(std::initializer_list<Label> labels, std::uint64_t value);
  void sample(std::initializer_list<Label> labels, const Histogram& times);

  const std::string& text() const { return text_; }

 private:
  void line(std::string_view suffix, std::initializer_list<Label> labels, Label last, std::string_view value);

  std::string text_, name_;
};

/// Exact, without an exponent or trailing zeros: "0.00025", "3".
std::string seconds_text(Duration time);

}  // namespace parley::ops
