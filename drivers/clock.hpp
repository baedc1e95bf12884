// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The clock of all code on sockets and NICs, and the one for timestamps of captures.
#pragma once
#include <chrono>
#include <ctime>

#include "parley/time.hpp"

namespace parley {

inline Instant clock_now() {
  return Instant(std::chrono::duration_cast<Duration>(std::chrono::steady_clock::now().time_since_epoch()));
}

/// As the argument of system calls.
inline timespec timespec_of(Duration d) {
  const auto whole = std::chrono::floor<std::chrono::seconds>(d);
  return {static_cast<time_t>(whole.count()), static_cast<long>((d - whole).count())};
}

/// Since 1970-01-01, as in capture files.
inline Instant wall_clock_now() {
  return Instant(std::chrono::duration_cast<Duration>(std::chrono::system_clock::now().time_since_epoch()));
}

}  // namespace parley
