// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The event queue: the earliest of up to 2^24 pending events, ties in the order in which they were pushed. Two levels:
// a timing wheel for the near future and a 4-heap of 128-bit keys (time, sequence, handle) for the rest.
#pragma once
#include <cstdint>
#include <vector>

#include "parley/time.hpp"

namespace parley::sim {

class EventQueue {
 public:
  static constexpr std::uint32_t handles_max = 1u << 24;  ///< a key has 24 bits for the handle, 40 for the sequence

  EventQueue();
  bool empty() const { return size() == 0; }
  std::size_t size() const;
  Instant next() const;  ///< time of the earliest; not when empty
  /// `at` is not before the time of the last pop; handle below handles_max.
  void push(Instant at, std::uint32_t handle);
  struct Popped {
    Instant at;
    std::uint32_t handle;
  };
  Popped pop();
};

}  // namespace parley::sim
