// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Reader and Writer: cursors over a span with sticky failure, the only place that indexes raw octets.
// After an overrun, ok() stays false, reads give zero and writes do nothing.
#pragma once
#include <cstring>

#include "parley/bytes.hpp"

namespace parley {

class Reader {
 public:
  explicit Reader(ConstBytes in) : in_(in) {}

  bool ok() const { return ok_; }
  std::size_t offset() const { return at_; }
  std::size_t left() const { return ok_ ? in_.size() - at_ : 0; }

  std::uint8_t u8() { return static_cast<std::uint8_t>(be(1)); }
  std::uint16_t be16() { return static_cast<std::uint16_t>(be(2)); }
  std::uint32_t be32() { return static_cast<std::uint32_t>(be(4)); }
  std::uint64_t be64() { return be(8); }
  std::uint16_t le16() { return static_cast<std::uint16_t>(le(2)); }
  std::uint32_t le32() { return static_cast<std::uint32_t>(le(4)); }
  std::uint64_t le64() { return le(8); }

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
  std::uint64_t be(std::size_t n) {
    std::uint64_t v = 0;
    if (take(n))
      for (std::size_t i = at_ - n; i < at_; ++i) v = v << 8 | in_[i];
    return v;
  }
  std::uint64_t le(std::size_t n) {
    std::uint64_t v = 0;
    if (take(n))
      for (std::size_t i = at_; i-- > at_ - n;) v = v << 8 | in_[i];
    return v;
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

  void u8(std::uint8_t v) { be(v, 1); }
  void be16(std::uint16_t v) { be(v, 2); }
  void be32(std::uint32_t v) { be(v, 4); }
  void be64(std::uint64_t v) { be(v, 8); }
  void le16(std::uint16_t v) { le(v, 2); }
  void le32(std::uint32_t v) { le(v, 4); }
  void le64(std::uint64_t v) { le(v, 8); }
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
  void be(std::uint64_t v, std::size_t n) {
    if (!take(n)) return;
    for (std::size_t i = at_; i-- > at_ - n; v >>= 8) out_[i] = static_cast<std::uint8_t>(v);
  }
  void le(std::uint64_t v, std::size_t n) {
    if (!take(n)) return;
    for (std::size_t i = at_ - n; i < at_; ++i, v >>= 8) out_[i] = static_cast<std::uint8_t>(v);
  }

  MutBytes out_;
  std::size_t at_ = 0;
  bool ok_ = true;
};

}  // namespace parley
