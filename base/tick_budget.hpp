// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// A limit on how many timers may act at the same time.
#pragma once
#include <cstddef>

#include "base/after.hpp"
#include "parley/time.hpp"

namespace parley {

/// At most `most` in each tick. A tick begins with its first take().
class TickBudget {
 public:
  constexpr TickBudget(Duration tick, std::size_t most) : tick_(tick), most_(most) {}

  bool has(Instant now) const { return left_ > 0 || now >= end_; }
  bool take(Instant now) {
    if (now >= end_) {
      end_ = after(now, tick_);
      left_ = most_;
    }
    if (left_ == 0) return false;
    --left_;
    return true;
  }
  /// If nothing is left: the end of this tick.
  Instant next() const { return end_; }

  /// `at`, rounded up to a multiple of the tick, so that timers close to each other cause one wake-up.
  Instant round_up(Instant at) const {
    const Duration beyond = at.time_since_epoch() % tick_;
    return beyond > Duration{} ? after(at, tick_ - beyond) : at;
  }

 private:
  Duration tick_;
  std::size_t most_;
  Instant end_ = Instant::min();
  std::size_t left_ = 0;
};

}  // namespace parley
