// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// How long a test on sockets, processes or threads waits for what must happen: only a hang takes as long, on a slow machine too.
#pragma once
#include <chrono>

namespace parley {

inline constexpr unsigned hang_seconds = 300;
inline constexpr std::chrono::seconds hang_limit{hang_seconds};
inline constexpr int hang_milliseconds = 1000 * static_cast<int>(hang_seconds);

}  // namespace parley
