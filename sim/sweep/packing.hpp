// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Fields of the files and messages of a sweep: numbers as LEB128, texts with their length in front. What is read is
// bounded; after a wrong field ok() stays false and all further fields are empty.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/bytes_io.hpp"
#include "parley/bytes.hpp"
#include "parley/time.hpp"

namespace parley::sim {

inline bool is_control(std::string_view text, std::size_t at) {
  const auto octet = [text](std::size_t i) { return i < text.size() ? static_cast<std::uint8_t>(text[i]) : 0x20; };
  return octet(at) < 0x20 || octet(at) == 0x7F || (octet(at) == 0xC2 && octet(at + 1) >= 0x80 && octet(at + 1) < 0xA0);
}

class Packer {
 public:
  void number(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) out_.push_back(static_cast<std::uint8_t>(value | 0x80));
    out_.push_back(static_cast<std::uint8_t>(value));
  }
  void flag(bool value) { number(value ? 1 : 0); }
  void time(Duration value) { number(static_cast<std::uint64_t>(value.count())); }
  void octets(ConstBytes value) {
    number(value.size());
    out_.insert(out_.end(), value.begin(), value.end());
  }
  void text(std::string_view value) {
    octets(ConstBytes(reinterpret_cast<const std::uint8_t*>(value.data()), value.size()));
  }
  Bytes take() { return std::move(out_); }

 private:
  Bytes out_;
};

class Unpacker {
 public:
  explicit Unpacker(ConstBytes in) : in_(in) {}

  bool ok() const { return ok_ && in_.ok(); }
  /// Everything was read, and all of it was right.
  bool at_end() const { return ok() && in_.left() == 0; }
  std::size_t left() const { return ok() ? in_.left() : 0; }
  std::size_t offset() const { return in_.offset(); }

  /// A number up to `max`.
  std::uint64_t number(std::uint64_t max = ~std::uint64_t{0}) {
    std::uint64_t value = 0;
    for (unsigned shift = 0; ok(); shift += 7) {
      const std::uint64_t octet = in_.u8();
      if (shift == 63 && octet > 1) ok_ = false;  // more than 64 bits
      value |= (octet & 0x7F) << shift;
      if ((octet & 0x80) != 0) continue;
      if (value > max) ok_ = false;
      break;
    }
    return ok() ? value : 0;
  }
  bool flag() { return number(1) != 0; }
  Duration time() { return Duration(static_cast<Duration::rep>(number(INT64_MAX))); }
  /// Up to `max` octets.
  ConstBytes octets(std::size_t max) { return in_.bytes(number(max)); }
  std::string text(std::size_t max) {
    const ConstBytes found = octets(max);
    return {found.begin(), found.end()};
  }
  /// A text that can be printed in a line as it is: no control characters of ASCII or of Unicode (C1).
  std::string line(std::size_t max) {
    std::string found = text(max);
    for (std::size_t i = 0; i < found.size(); ++i)
      if (is_control(found, i)) ok_ = false;
    return found;
  }
  /// The length of a list. Each of its elements takes at least one octet, so a longer one is wrong.
  std::size_t length(std::size_t max) {
    const std::uint64_t n = number(max);
    if (n > left()) ok_ = false;
    return ok() ? n : 0;
  }

 private:
  Reader in_;
  bool ok_ = true;
};

}  // namespace parley::sim
