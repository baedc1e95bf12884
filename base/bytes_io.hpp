// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Reader and Writer: cursors over a span with a sticky error, the only code that indexes raw octets. After an overrun,
// ok() stays false, reads return zero and writes do nothing.
#pragma once
#include <bit>
#include <concepts>
#include <cstdint>
#include <cstring>

#include "parley/bytes.hpp"

namespace parley {

/// The number with its octets in reverse order.
template <std::unsigned_integral T>
constexpr T swapped_octets(T v) {
  if constexpr (sizeof(T) == 1)
    return v;
  else if constexpr (sizeof(T) == 2)
    return __builtin_bswap16(v);
  else if constexpr (sizeof(T) == 4)
    return __builtin_bswap32(v);
  else
    return __builtin_bswap64(v);
}

/// Reads the number at `at`; all its octets must be readable.
template <std::unsigned_integral T>
T load(const std::uint8_t* at, std::endian order) {
  T v;
  std::memcpy(&v, at, sizeof v);
  return order == std::endian::native ? v : swapped_octets(v);
}
template <std::unsigned_integral T>
void store(std::uint8_t* at, T v, std::endian order) {
  if (order != std::endian::native) v = swapped_octets(v);
  std::memcpy(at, &v, sizeof v);
}

class Reader {
 public:
  explicit Reader(ConstBytes in) : in_(in) {}

  bool ok() const { return ok_; }
  std::size_t offset() const { return at_; }
  std::size_t left() const { return ok_ ? in_.size() - at_ : 0; }

  std::uint8_t u8() { return number<std::uint8_t>(std::endian::big); }
  std::uint16_t be16() { return number<std::uint16_t>(std::endian::big); }
  std::uint32_t be32() { return number<std::uint32_t>(std::endian::big); }
  std::uint64_t be64() { return number<std::uint64_t>(std::endian::big); }
  std::uint16_t le16() { return number<std::uint16_t>(std::endian::little); }
  std::uint32_t le32() { return number<std::uint32_t>(std::endian::little); }
  std::uint64_t le64() { return number<std::uint64_t>(std::endian::little); }

  /// A view of the next n octets; empty after failure.
  ConstBytes bytes(std::size_t n) {
    if (!take(n)) return {};
    return in_.subspan(at_ - n, n);
  }
  ConstBytes rest() { return bytes(left()); }
  void skip(std::size_t n) { (void)take(n); }

 private:
  bool take(std::size_t n) {
    if (!ok_ || n > in_.size() - at_) {
      ok_ = false;
      return false;
    }
    at_ += n;
    return true;
  }
  template <class T>
  T number(std::endian order) {
    return take(sizeof(T)) ? load<T>(in_.data() + at_ - sizeof(T), order) : T{0};
  }

  ConstBytes in_;
  std::size_t at_ = 0;
  bool ok_ = true;
};

class Writer {
 public:
  explicit Writer(MutBytes out) : out_(out) {}

  bool ok() const { return ok_; }
  std::size_t size() const { return at_; }

  void u8(std::uint8_t v) { number(v, std::endian::big); }
  void be16(std::uint16_t v) { number(v, std::endian::big); }
  void be32(std::uint32_t v) { number(v, std::endian::big); }
  void be64(std::uint64_t v) { number(v, std::endian::big); }
  void le16(std::uint16_t v) { number(v, std::endian::little); }
  void le32(std::uint32_t v) { number(v, std::endian::little); }
  void le64(std::uint64_t v) { number(v, std::endian::little); }
  void bytes(ConstBytes in) {
    if (!take(in.size()) || in.empty()) return;
    std::memcpy(out_.data() + at_ - in.size(), in.data(), in.size());
  }
  void zeros(std::size_t n) {
    if (!take(n) || n == 0) return;
    std::memset(out_.data() + at_ - n, 0, n);
  }

 private:
  bool take(std::size_t n) {
    if (!ok_ || n > out_.size() - at_) {
      ok_ = false;
      return false;
    }
    at_ += n;
    return true;
  }
  template <class T>
  void number(T v, std::endian order) {
    if (take(sizeof v)) store(out_.data() + at_ - sizeof v, v, order);
  }

  MutBytes out_;
  std::size_t at_ = 0;
  bool ok_ = true;
};

}  // namespace parley
