// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Deadlines that do not overflow.
#pragma once
#include "parley/time.hpp"

namespace parley {

/// now + wait, or never if that is beyond the clock's range.
constexpr Instant after(Instant now, Duration wait) { return wait > never - now ? never : now + wait; }
/// Like after() for a time limit: zero or less means no limit.
constexpr Instant limited(Instant now, Duration limit) { return limit <= Duration{} ? never : after(now, limit); }

}  // namespace parley
