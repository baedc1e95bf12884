// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Time in Parley's pure code: int64 nanoseconds of a clock that this code cannot read.
#pragma once
#include <chrono>
#include <cstdint>
#include <ratio>

namespace parley {

/// A chrono clock without now(): drivers and the simulator make Instants; protocol code only receives them.
struct Clock {
  using rep = std::int64_t;
  using period = std::nano;
  using duration = std::chrono::duration<rep, period>;
  using time_point = std::chrono::time_point<Clock>;
  static constexpr bool is_steady = true;
};

using Duration = Clock::duration;
using Instant = Clock::time_point;

/// The deadline of an object that waits for no time.
inline constexpr Instant never = Instant::max();

}  // namespace parley
