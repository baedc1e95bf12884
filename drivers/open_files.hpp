// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The limit of open files of this process.
#pragma once
#include <sys/resource.h>

namespace parley {

/// Raises the limit to what the system allows: the usual 1024 exists for select(), which is not used here.
inline void raise_open_files() {
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur >= files.rlim_max) return;
  files.rlim_cur = files.rlim_max;
  static_cast<void>(::setrlimit(RLIMIT_NOFILE, &files));
}

}  // namespace parley
