// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Deadlines that do not overflow.
#pragma once
#include "parley/time.hpp"

namespace parley {

/// Never, where `wait` leads beyond the clock's end.
constexpr Instant after(Instant now, Duration wait) { return wait > never - now ? never : now + wait; }
/// As after(), of a time limit: zero or less is none.
constexpr Instant limited(Instant now, Duration limit) { return limit <= Duration{} ? never : after(now, limit); }

}  // namespace parley
