// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Messages with descriptors on a Unix socket (SOCK_SEQPACKET).
#pragma once
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <span>
#include <vector>

#include "drivers/passed_files.hpp"
#include "preload/port/messages.hpp"

namespace parley::preload::port {

static_assert(sockets_at_once <= passed_files_max);

/// As sendmsg(2), without waiting; at most sockets_at_once descriptors.
inline ssize_t send_with(int fd, ConstBytes octets, std::span<const int> files) {
  return send_with_files(fd, octets, files, MSG_DONTWAIT | MSG_NOSIGNAL);
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
  bool cut = false;  ///< descriptors are missing: the limit of open files, or more than passed_files_max
};

/// As recvmsg(2), without waiting: the size, 0 at the end, or -1.
inline ssize_t receive_with(int fd, Received& out) {
  out.close_files();
  out.octets.resize(message_max);
  iovec piece{out.octets.data(), out.octets.size()};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  PassedFiles control;
  message.msg_control = control.octets.data();
  message.msg_controllen = control.octets.size();
  const ssize_t size = ::recvmsg(fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  out.octets.resize(static_cast<std::size_t>(std::max<ssize_t>(size, 0)));
  if (size < 0) return size;
  out.cut = (message.msg_flags & MSG_CTRUNC) != 0;
  each_received_file(message, [&](int file) { out.files.push_back(file); });
  return size;
}

}  // namespace parley::preload::port
