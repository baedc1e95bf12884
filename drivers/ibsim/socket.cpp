// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "drivers/ibsim/socket.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "drivers/clock.hpp"

namespace parley::ibsim {

namespace {

template <class Call>
bool with_address(const std::string& name, const Call& call) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::size_t length = name.copy(address.sun_path + 1, sizeof(address.sun_path) - 2);
  return call(reinterpret_cast<const sockaddr*>(&address),
              static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + length + 2)) == 0;
}

/// The socket of an exchange, and information about the other side.
struct Exchange {
  int fd, server = -1;
  std::uint32_t pid = 0;  // process ID of the sender, if the socket requests it
};

/// False: errno is ETIMEDOUT, ECONNREFUSED if the server has ended, or poll's error.
bool is_ready(const Exchange& of, short events, Instant end) {
  std::array<pollfd, 2> wait{
      {{.fd = of.fd, .events = events, .revents = 0}, {.fd = of.server, .events = POLLIN, .revents = 0}}};
  int found = 0;
  do {
    const Duration left = std::max(end - clock_now(), Duration::zero());
    found =
        ::poll(wait.data(), wait.size(), static_cast<int>(std::chrono::ceil<std::chrono::milliseconds>(left).count()));
  } while (found < 0 && errno == EINTR);
  if (wait[0].revents != 0) return true;
  if (found >= 0) errno = found == 0 ? ETIMEDOUT : ECONNREFUSED;
  return false;
}

/// Until `end`; errno as for exchange().
bool receive_control(Exchange& of, Control& message, Instant end) {
  if (!is_ready(of, POLLIN, end)) return false;
  iovec part{&message, sizeof(message)};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(ucred))> extra{};
  msghdr whole{};
  whole.msg_iov = &part;
  whole.msg_iovlen = 1;
  whole.msg_control = extra.data();
  whole.msg_controllen = extra.size();
  const ssize_t got = ::recvmsg(of.fd, &whole, MSG_DONTWAIT);
  if (got < 0) return false;
  of.pid = sender_in(whole);
  if (got == sizeof(message) && message.magic == magic) return true;
  errno = EBADMSG;
  return false;
}

bool exchange_by(Exchange& of, Control& message, Duration patience) {
  const Instant begin = clock_now(), end = begin + patience;
  Control late;
  while (receive_control(of, late, begin)) {
  }
  ssize_t sent = 0;
  do sent = ::send(of.fd, &message, sizeof(message), MSG_NOSIGNAL | MSG_DONTWAIT);
  while (sent < 0 && (errno == EINTR || (errno == EAGAIN && is_ready(of, POLLOUT, end))));
  if (sent != sizeof(message)) return false;
  const ControlType asked = message.type;
  do
    if (!receive_control(of, message, end)) return false;
  while (message.type != asked && message.type != ControlType::error);
  return true;
}

}  // namespace

bool bind_to(int fd, const std::string& name) {
  return with_address(name, [fd](const sockaddr* at, socklen_t length) { return ::bind(fd, at, length); });
}
bool connect_to(int fd, const std::string& name) {
  return with_address(name, [fd](const sockaddr* at, socklen_t length) { return ::connect(fd, at, length); });
}

std::uint32_t sender_in(msghdr& message) {
  for (cmsghdr* head = CMSG_FIRSTHDR(&message); head != nullptr; head = CMSG_NXTHDR(&message, head)) {
    if (head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_CREDENTIALS) continue;
    ucred credentials{};
    std::memcpy(&credentials, CMSG_DATA(head), sizeof(credentials));
    return static_cast<std::uint32_t>(credentials.pid);
  }
  return 0;
}

bool exchange(int fd, Control& message, Duration patience, int server) {
  Exchange by{.fd = fd, .server = server};
  return exchange_by(by, message, patience);
}

bool ask_for_sender(int fd) {
  const int on = 1;
  return ::setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)) == 0;
}

bool exchange_with_sender(int fd, Control& message, Duration patience, std::uint32_t& pid) {
  Exchange by{.fd = fd};
  const bool good = exchange_by(by, message, patience);
  pid = by.pid;
  return good;
}

}  // namespace parley::ibsim
