// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Descriptors next to a message on a Unix socket (SCM_RIGHTS, unix(7)).
#pragma once
#include <sys/socket.h>
#include <sys/uio.h>

#include <array>
#include <cstring>
#include <span>

#include "parley/bytes.hpp"

namespace parley {

inline constexpr std::size_t passed_files_max = 64;  ///< in a message

/// Room for the descriptors of one message, as msg_control.
struct PassedFiles {
  alignas(cmsghdr) std::array<char, CMSG_SPACE(passed_files_max * sizeof(int))> octets{};
};

/// One message with at most passed_files_max descriptors. As sendmsg(2).
inline ssize_t send_with_files(int socket, ConstBytes octets, std::span<const int> files, int flags) {
  iovec piece{const_cast<std::uint8_t*>(octets.data()), octets.size()};  // only read
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  PassedFiles control;
  if (!files.empty()) {
    message.msg_control = control.octets.data();
    message.msg_controllen = CMSG_SPACE(files.size_bytes());
    cmsghdr* const entry = CMSG_FIRSTHDR(&message);
    entry->cmsg_level = SOL_SOCKET;
    entry->cmsg_type = SCM_RIGHTS;
    entry->cmsg_len = CMSG_LEN(files.size_bytes());
    std::memcpy(CMSG_DATA(entry), files.data(), files.size_bytes());
  }
  return ::sendmsg(socket, &message, flags);
}

/// Calls `take(fd)` for each descriptor that arrived with a message. They belong to `take`.
template <class Take>
void each_received_file(msghdr& message, Take&& take) {
  for (cmsghdr* entry = CMSG_FIRSTHDR(&message); entry != nullptr; entry = CMSG_NXTHDR(&message, entry)) {
    if (entry->cmsg_level != SOL_SOCKET || entry->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (entry->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(entry) + i * sizeof fd, sizeof fd);
      take(fd);
    }
  }
}

}  // namespace parley
