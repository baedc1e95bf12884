// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// When to check again whether a port has changed, if nothing reports changes.
#pragma once
#include "drivers/clock.hpp"

namespace parley::mad_driver {

class Recheck {
 public:
  explicit Recheck(Duration every = std::chrono::seconds(1)) : every_(every), next_(clock_now() + every) {}
  /// True once in each such time.
  bool due() {
    const Instant now = clock_now();
    if (now < next_) return false;
    next_ = now + every_;
    return true;
  }

 private:
  Duration every_;
  Instant next_;
};

}  // namespace parley::mad_driver
