// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// What many timers may do at once.
#pragma once
#include <cstddef>

#include "base/after.hpp"
#include "parley/time.hpp"

namespace parley {

/// So many in each tick at most; a tick begins with the first.
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
  /// If nothing is left: when there is.
  Instant next() const { return end_; }

  /// `at`, or the next multiple of the tick: timers that are near one another then wake once.
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
