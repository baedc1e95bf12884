// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Files with the data of programs: captures and recordings. Only their owner may read them.
#pragma once
#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <string>

namespace parley {

/// rw-------. An existing file keeps its mode.
inline constexpr mode_t private_mode = 0600;

/// Truncates an existing file. Null, with errno: it cannot be created.
inline std::FILE* create_private(const std::string& path) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, private_mode);
  std::FILE* const file = fd < 0 ? nullptr : ::fdopen(fd, "wb");
  if (fd >= 0 && file == nullptr) ::close(fd);
  return file;
}

}  // namespace parley
