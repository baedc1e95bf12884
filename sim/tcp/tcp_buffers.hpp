// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Memory for the octets that TCP connections send and reassemble: rings that are allocated when needed, grow, and
// return to a pool when empty, so that a million idle connections need none. RFC 9293 §3.8 (octets to keep).
#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "parley/bytes.hpp"

namespace parley::sim {

/// Blocks of 2^n octets, for the connections of one world; must outlive them. Steady traffic does not use
/// the heap: the next connection reuses the blocks that another one returns.
class TcpBuffers {
 public:
  static constexpr std::uint32_t block_min = 128;
  /// Octets kept free for reuse; anything returned beyond that goes to the heap.
  static constexpr std::size_t free_max = 16 << 20;
  TcpBuffers() = default;
  TcpBuffers(const TcpBuffers&) = delete;
  TcpBuffers& operator=(const TcpBuffers&) = delete;

  std::size_t out() const { return out_; }      ///< octets taken and not given back
  std::size_t peak() const { return peak_; }    ///< the peak of it
  std::uint64_t made() const { return made_; }  ///< blocks taken from the heap so far

 private:
  friend class TcpRing;
  std::uint8_t* take(std::uint32_t capacity);
  void give_back(std::uint8_t* block, std::uint32_t capacity);
  std::array<std::vector<std::unique_ptr<std::uint8_t[]>>, 33> free_;  // by the binary logarithm of the size
  std::size_t out_ = 0, peak_ = 0, kept_ = 0;
  std::uint64_t made_ = 0;
};

/// Octets of a stream, addressed by their sequence number: number s is at s modulo the capacity, a power of two. The
/// user knows which numbers are in use. One of the hot paths that handle raw octets without Reader and Writer.
class TcpRing {
 public:
  static constexpr std::uint32_t capacity_max = 1u << 30;
  TcpRing() = default;
  TcpRing(TcpRing&& other) noexcept : data_(other.data_), capacity_(other.capacity_) {
    other.data_ = nullptr;
    other.capacity_ = 0;
  }
  TcpRing& operator=(TcpRing&&) = delete;

  std::uint32_t capacity() const { return capacity_; }
  /// Room for [first, first + size), keeping [first, first + used); at most capacity_max.
  void reserve(TcpBuffers& buffers, std::uint32_t first, std::uint32_t used, std::uint32_t size) {
    if (size > capacity_) grow(buffers, first, used, size);
  }
  void put(std::uint32_t seq, ConstBytes octets);
  /// `size` octets from `seq` on, in two pieces where the ring wraps.
  std::array<ConstBytes, 2> view(std::uint32_t seq, std::uint32_t size) const {
    const std::uint32_t at = seq & (capacity_ - 1);
    if (size <= capacity_ - at) return {ConstBytes{data_ + at, size}, {}};
    return {ConstBytes{data_ + at, capacity_ - at}, ConstBytes{data_, size - (capacity_ - at)}};
  }
  void release(TcpBuffers& buffers) {
    if (data_ != nullptr) buffers.give_back(data_, capacity_);
    data_ = nullptr;
    capacity_ = 0;
  }

 private:
  void grow(TcpBuffers& buffers, std::uint32_t first, std::uint32_t used, std::uint32_t size);
  std::uint8_t* data_ = nullptr;  // from TcpBuffers; release() before the end
  std::uint32_t capacity_ = 0;
};

/// Octets [left, right) of sequence space.
struct TcpRange {
  std::uint32_t left = 0, right = 0;
};

/// Received octets that cannot be delivered yet: octets after a gap, and unread octets in order. Exists only while
/// there are any.
struct TcpReassembly {
  /// Gaps beyond this number are not stored; the octets after them are retransmitted.
  static constexpr std::size_t ranges_max = 64;
  TcpRing ring;
  std::vector<TcpRange> ranges;  ///< after the gap, in order, not touching each other; at most ranges_max
  std::uint32_t newest = 0;      ///< left edge of the latest arrival, to be reported first (RFC 2018 §4)

  /// Stores that the octets of `range` have arrived, unless there are too many gaps.
  void insert(TcpRange range);
};

}  // namespace parley::sim
