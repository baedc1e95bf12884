// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// When to check again whether a port has changed, if nothing reports changes.
#pragma once
#include "drivers/clock.hpp"

namespace parley::mad_driver {

class Recheck {
 public:
  /// True once a second.
  bool due() {
    const Instant now = clock_now();
    if (now < next_) return false;
    next_ = now + std::chrono::seconds(1);
    return true;
  }

 private:
  Instant next_ = clock_now() + std::chrono::seconds(1);
};

}  // namespace parley::mad_driver
