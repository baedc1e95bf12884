// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The Internet checksum (RFC 1071) at memory speed: sixteen octets at a time into 64-bit sums, copying in the same
// pass. A hot path: it indexes raw octets.
#pragma once
#include <bit>
#include <cstdint>
#include <cstring>

#include "parley/bytes.hpp"

namespace parley::sim {

/// A one's complement sum over octets in packet order, in host byte order (RFC 1071 §2 B).
class InternetSum {
 public:
  void add(ConstBytes in) { run<false>(nullptr, in); }
  /// Copies to `out` as well.
  void copy(std::uint8_t* out, ConstBytes in) { run<true>(out, in); }
  /// A 16-bit number in host order; at an even offset.
  void add16(std::uint16_t value) { sum_ += swapped(value); }

  /// The checksum as it is in the packet, to be stored with memcpy.
  std::uint16_t checksum() const { return static_cast<std::uint16_t>(~folded(sum_)); }
  /// Over a packet that contains its checksum: whether it is right.
  bool right() const { return folded(sum_) == 0xFFFF; }

 private:
  using Lanes __attribute__((vector_size(16))) = std::uint64_t;

  static constexpr std::uint16_t swapped(std::uint16_t v) {
    return std::endian::native == std::endian::little ? static_cast<std::uint16_t>(v << 8 | v >> 8) : v;
  }
  static constexpr std::uint16_t folded(std::uint64_t sum) {
    sum = (sum & 0xFFFFFFFF) + (sum >> 32);
    sum = (sum & 0xFFFF) + (sum >> 16);
    sum = (sum & 0xFFFF) + (sum >> 16);
    return static_cast<std::uint16_t>((sum & 0xFFFF) + (sum >> 16));
  }

  template <bool copying>
  void run(std::uint8_t* out, ConstBytes in) {
    const std::uint8_t* at = in.data();
    std::size_t left = in.size();
    // Half words of 32 bits: 2^32 of them fit into a lane, more than any packet has.
    Lanes low{}, high{};
    const Lanes mask{0xFFFFFFFF, 0xFFFFFFFF};
    for (; left >= sizeof(Lanes); left -= sizeof(Lanes), at += sizeof(Lanes)) {
      Lanes v;
      std::memcpy(&v, at, sizeof v);
      if constexpr (copying) {
        std::memcpy(out, &v, sizeof v);
        out += sizeof v;
      }
      low += v & mask;
      high += v >> 32;
    }
    std::uint64_t sum = low[0] + low[1] + high[0] + high[1];
    // Headers are short, and come for each packet.
    for (; left >= 4; left -= 4, at += 4) sum += next<copying, std::uint32_t>(out, at);
    if (left >= 2) {
      sum += next<copying, std::uint16_t>(out, at);
      left -= 2, at += 2;
    }
    if (left != 0) {
      if constexpr (copying) *out = *at;
      sum += swapped(static_cast<std::uint16_t>(*at << 8));
    }
    // RFC 1071 §2 B: a piece that begins at an odd offset counts with its octets swapped. It is less than 2^48, and pieces are few.
    sum_ += odd_ ? __builtin_bswap16(folded(sum)) : sum;
    odd_ = odd_ != ((in.size() & 1) != 0);
  }

  template <bool copying, class Word>
  static Word next(std::uint8_t*& out, const std::uint8_t* at) {
    Word v = 0;
    std::memcpy(&v, at, sizeof v);
    if constexpr (copying) {
      std::memcpy(out, &v, sizeof v);
      out += sizeof v;
    }
    return v;
  }

  std::uint64_t sum_ = 0;
  bool odd_ = false;
};

}  // namespace parley::sim
