// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Who is at the other end of a socket in the file system. Any user may have created a socket at a known path, for instance
// in /tmp: only root and the user's own processes are trusted.
#pragma once
#include <sys/socket.h>
#include <unistd.h>

#include <optional>

namespace parley {

/// The process at the other end of this AF_UNIX socket, and its user, when it connected or began to listen (SO_PEERCRED). A
/// socket without such a peer, as of TCP, has pid 0 and uid -1. None: not a socket.
inline std::optional<ucred> peer_of(int fd) {
  ucred who{};
  socklen_t length = sizeof(who);
  if (::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &length) != 0) return std::nullopt;
  return who;
}

/// Whether that process is root's or of this process's user.
inline bool is_own_or_root(int fd) {
  const auto who = peer_of(fd);
  return who && (who->uid == 0 || who->uid == ::geteuid());
}

}  // namespace parley
