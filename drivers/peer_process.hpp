// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#pragma once
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

namespace parley {

/// A pidfd of the process that connected to a Unix socket, whose number `pid` is: unlike the number, it is never reused.
/// Negative: not available. The caller closes it.
inline int process_behind(int fd, pid_t pid) {
  int pidfd = -1;
  socklen_t length = sizeof(pidfd);
  if (::getsockopt(fd, SOL_SOCKET, SO_PEERPIDFD, &pidfd, &length) == 0) return pidfd;
  return static_cast<int>(::syscall(SYS_pidfd_open, pid, 0));
}

}  // namespace parley
