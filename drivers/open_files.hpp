// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The limit of open files of this process.
#pragma once
#include <sys/resource.h>

#include <algorithm>
#include <cstddef>
#include <limits>

namespace parley {

/// Raises the limit to what the system allows: the usual 1024 exists for select(), which is not used here.
inline void raise_open_files() {
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur >= files.rlim_max) return;
  files.rlim_cur = files.rlim_max;
  static_cast<void>(::setrlimit(RLIMIT_NOFILE, &files));
}

/// Half of the files that this process may open: for clients, so that the rest is there for what serves them.
inline std::size_t half_of_open_files() {
  constexpr std::size_t most = std::numeric_limits<std::size_t>::max();
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) != 0) return most;
  return static_cast<std::size_t>(std::min<rlim_t>(files.rlim_cur, most)) / 2;
}

}  // namespace parley
