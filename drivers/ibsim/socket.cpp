// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "drivers/ibsim/socket.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>

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

/// False: errno is ETIMEDOUT, or what poll says.
bool is_ready(int fd, short events, Instant end) {
  pollfd wait{.fd = fd, .events = events};
  int found = 0;
  do {
    const Duration left = std::max(end - clock_now(), Duration::zero());
    found = ::poll(&wait, 1, static_cast<int>(std::chrono::ceil<std::chrono::milliseconds>(left).count()));
  } while (found < 0 && errno == EINTR);
  if (found == 0) errno = ETIMEDOUT;
  return found > 0;
}

/// By `end`; errno as of exchange().
bool receive_control(int fd, Control& message, Instant end) {
  if (!is_ready(fd, POLLIN, end)) return false;
  const ssize_t got = ::recv(fd, &message, sizeof(message), MSG_DONTWAIT);
  if (got < 0) return false;
  if (got == sizeof(message) && message.magic == magic) return true;
  errno = EBADMSG;
  return false;
}

}  // namespace

bool bind_to(int fd, const std::string& name) {
  return with_address(name, [fd](const sockaddr* at, socklen_t length) { return ::bind(fd, at, length); });
}
bool connect_to(int fd, const std::string& name) {
  return with_address(name, [fd](const sockaddr* at, socklen_t length) { return ::connect(fd, at, length); });
}

bool exchange(int fd, Control& message, Duration patience) {
  const Instant begin = clock_now(), end = begin + patience;
  Control late;
  while (receive_control(fd, late, begin)) {
  }
  ssize_t sent = 0;
  do sent = ::send(fd, &message, sizeof(message), MSG_NOSIGNAL | MSG_DONTWAIT);
  while (sent < 0 && (errno == EINTR || (errno == EAGAIN && is_ready(fd, POLLOUT, end))));
  if (sent != sizeof(message)) return false;
  const ControlType asked = message.type;
  do
    if (!receive_control(fd, message, end)) return false;
  while (message.type != asked && message.type != ControlType::error);
  return true;
}

}  // namespace parley::ibsim
