// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Memory for coroutine frames. Freed frames are kept for later ones of the same size class, so that a port in steady
// state allocates nothing.
#pragma once
#include <array>
#include <cstddef>
#include <memory>
#include <vector>

namespace parley::mad {

class FramePool {
 public:
  FramePool() = default;
  FramePool(const FramePool&) = delete;
  FramePool& operator=(const FramePool&) = delete;

  /// `pool` null: from the heap. The pool must outlive its frames.
  static void* take(FramePool* pool, std::size_t octets);
  static void give_back(void* frame) noexcept;

  std::size_t in_use() const { return in_use_; }  ///< frames

 private:
  static constexpr std::size_t step = 128, classes = 64;  // frames above 8 KiB come from the heap
  struct Header {
    FramePool* pool;
    std::size_t size_class;
  };
  struct Free {
    Free* next;
  };
  void refill(std::size_t size_class);

  std::array<Free*, classes> free_{};
  std::vector<std::unique_ptr<std::byte[]>> blocks_;
  std::size_t in_use_ = 0;
};

}  // namespace parley::mad
