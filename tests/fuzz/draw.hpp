// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Draws choices from a fuzzer's input, front to back; at its end everything drawn is zero or empty.
#pragma once
#include <algorithm>

#include "base/assert.hpp"
#include "base/bytes_io.hpp"

namespace parley::fuzz {

class Draw {
 public:
  explicit Draw(ConstBytes in) : in_(in) {}

  bool empty() const { return in_.empty(); }
  std::uint8_t u8() { return static_cast<std::uint8_t>(number(1)); }
  std::uint16_t u16() { return static_cast<std::uint16_t>(number(2)); }
  std::uint32_t u32() { return static_cast<std::uint32_t>(number(4)); }
  std::uint64_t u64() { return number(8); }
  bool bit() { return (u8() & 1) != 0; }
  /// 0 .. count - 1
  std::size_t below(std::size_t count) { return u8() % count; }
  /// As many octets as asked for, or as there are.
  ConstBytes bytes(std::size_t size) {
    const ConstBytes out = in_.first(std::min(size, in_.size()));
    in_ = in_.subspan(out.size());
    return out;
  }
  ConstBytes rest() { return bytes(in_.size()); }

 private:
  std::uint64_t number(std::size_t size) {
    std::uint64_t v = 0;
    for (const std::uint8_t octet : bytes(size)) v = v << 8 | octet;
    return v;
  }

  ConstBytes in_;
};

/// The chunks an input is cut into are made from a seed, so that they cost the input one octet.
class Chunks {
 public:
  explicit Chunks(std::uint8_t seed) : state_(seed * 0x9E3779B97F4A7C15ULL + 1), longest_(1U << seed % 13) {}
  std::size_t next() {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    return 1 + state_ % longest_;
  }

 private:
  std::uint64_t state_;
  std::size_t longest_;
};

}  // namespace parley::fuzz
