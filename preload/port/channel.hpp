// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Messages with descriptors on a Unix socket (SOCK_SEQPACKET).
#pragma once
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <vector>

#include "preload/port/messages.hpp"

namespace parley::preload::port {

/// As sendmsg(2), without waiting; at most sockets_at_once descriptors.
inline ssize_t send_with(int fd, ConstBytes octets, std::span<const int> files) {
  iovec piece{const_cast<std::uint8_t*>(octets.data()), octets.size()};  // only read
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sockets_at_once * sizeof(int))> control{};
  if (!files.empty()) {
    message.msg_control = control.data();
    message.msg_controllen = CMSG_SPACE(files.size_bytes());
    cmsghdr* const entry = CMSG_FIRSTHDR(&message);
    entry->cmsg_level = SOL_SOCKET;
    entry->cmsg_type = SCM_RIGHTS;
    entry->cmsg_len = CMSG_LEN(files.size_bytes());
    std::memcpy(CMSG_DATA(entry), files.data(), files.size_bytes());
  }
  return ::sendmsg(fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
}

/// A received message; descriptors that the caller leaves in it are closed.
struct Received {
  Received() = default;
  Received(const Received&) = delete;
  Received& operator=(const Received&) = delete;
  ~Received() { close_files(); }
  void close_files() {
    for (const int fd : files) ::close(fd);
    files.clear();
  }
  Bytes octets{};
  std::vector<int> files{};
  bool cut = false;  ///< descriptors are missing: the limit of open files, or more than sockets_at_once
};

/// As recvmsg(2), without waiting: the size, 0 at the end, or -1.
inline ssize_t receive_with(int fd, Received& out) {
  out.close_files();
  out.octets.resize(message_max);
  iovec piece{out.octets.data(), out.octets.size()};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sockets_at_once * sizeof(int))> control{};
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  const ssize_t size = ::recvmsg(fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  out.octets.resize(static_cast<std::size_t>(std::max<ssize_t>(size, 0)));
  if (size < 0) return size;
  out.cut = (message.msg_flags & MSG_CTRUNC) != 0;
  for (cmsghdr* entry = CMSG_FIRSTHDR(&message); entry != nullptr; entry = CMSG_NXTHDR(&message, entry)) {
    if (entry->cmsg_level != SOL_SOCKET || entry->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (entry->cmsg_len - CMSG_LEN(0)) / sizeof(int), had = out.files.size();
    out.files.resize(had + count);
    std::memcpy(out.files.data() + had, CMSG_DATA(entry), count * sizeof(int));
  }
  return size;
}

}  // namespace parley::preload::port
