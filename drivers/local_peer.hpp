// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Who is at the other end of a socket in the file system. Any user may have created a socket at a known path, for instance
// in /tmp: only root and the user's own processes are trusted.
#pragma once
#include <sys/socket.h>
#include <unistd.h>

namespace parley {

/// Whether the process at the other end of this AF_UNIX socket is root's or of this process's user (SO_PEERCRED).
inline bool is_own_or_root(int fd) {
  ucred who{};
  socklen_t length = sizeof(who);
  return ::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &length) == 0 && (who.uid == 0 || who.uid == ::geteuid());
}

}  // namespace parley
