// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Ethernet frames in a pool: a frame is one block followed by its octets, allocated and freed without the heap once the
// pool is warm. A world has one pool; worlds share nothing.
#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "parley/bytes.hpp"

namespace parley::sim {

class FramePool;

struct Frame {
  FramePool* pool = nullptr;
  std::uint64_t id = 0;    ///< copies on later hops have the same id
  std::uint32_t size = 0;  ///< octets of Ethernet frame, without FCS
  std::uint32_t capacity = 0;
  std::uint8_t size_class = 0;
  bool altered = false;  ///< a fault changed its octets
  std::uint8_t* data() { return reinterpret_cast<std::uint8_t*>(this + 1); }
  const std::uint8_t* data() const { return reinterpret_cast<const std::uint8_t*>(this + 1); }
  MutBytes octets() { return {data(), size}; }
  ConstBytes octets() const { return {data(), size}; }
};

struct FrameReturn {
  void operator()(Frame* frame) const;
};
using FramePtr = std::unique_ptr<Frame, FrameReturn>;

class FramePool {
 public:
  static constexpr std::size_t frame_max = 9216;  ///< a 9000-octet MTU with Ethernet header and VLAN tags
  FramePool() = default;
  FramePool(const FramePool&) = delete;
  FramePool& operator=(const FramePool&) = delete;
  ~FramePool();

  /// A frame of `size` octets, uninitialised, with a new id; size at most frame_max.
  FramePtr take(std::size_t size);
  /// The same octets and id.
  FramePtr copy(const Frame& frame);
  /// One more, or one less, copy of a frame that is in memory once: out() and peak() count copies.
  void share() { peak_ = std::max(peak_, ++out_); }
  void unshare() { --out_; }
  std::size_t out() const { return out_; }  ///< frames not returned yet
  std::size_t peak() const { return peak_; }

 private:
  friend struct FrameReturn;
  void give_back(Frame* frame);
  static constexpr std::array<std::uint32_t, 4> class_octets{128, 640, 1664, 9216};
  std::array<std::vector<Frame*>, 4> free_;
  std::vector<std::unique_ptr<std::uint8_t[]>> blocks_;  // every block ever made; freed with the pool
  std::uint64_t serial_ = 0;
  std::size_t out_ = 0, peak_ = 0;
};

}  // namespace parley::sim
