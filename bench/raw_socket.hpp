// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The socket calls that the raw limits need. Any error ends the bench, because a limit that works only in part is worse
// than none.
#pragma once
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <string>
#include <system_error>
#include <utility>

namespace parley::bench {

template <class T>
T checked(T value, const char* what) {
  if (value < 0) throw std::system_error(errno, std::generic_category(), what);
  return value;
}

class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Fd() {
    if (fd_ >= 0) ::close(fd_);
  }
  int get() const { return fd_; }

 private:
  int fd_ = -1;
};

/// 127.0.0.1 to 127.0.0.200 in turn: the ports of one address pair would run out in TIME_WAIT.
inline sockaddr_in loopback_address(std::uint16_t port, std::uint32_t turn) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK + turn % 200);
  return address;
}

inline Fd listen_anywhere(std::uint16_t& port, const std::string& congestion = {}) {
  Fd listener(checked(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), "socket"));
  if (!congestion.empty()) {
    checked(::setsockopt(listener.get(), IPPROTO_TCP, TCP_CONGESTION, congestion.data(),
                         static_cast<socklen_t>(congestion.size())),
            "TCP_CONGESTION");
  }
  sockaddr_in address{};
  address.sin_family = AF_INET;
  socklen_t length = sizeof address;
  checked(::bind(listener.get(), reinterpret_cast<sockaddr*>(&address), length), "bind");
  checked(::listen(listener.get(), 4096), "listen");
  checked(::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &length), "getsockname");
  port = ntohs(address.sin_port);
  return listener;
}

inline void watch(int epoll, int fd, std::uint32_t events, std::uint64_t tag, int operation = EPOLL_CTL_ADD) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = tag;
  checked(::epoll_ctl(epoll, operation, fd, &event), "epoll_ctl");
}

/// Makes close() send an RST, so that no TIME_WAIT remains.
inline void reset_on_close(int fd) {
  const linger now{.l_onoff = 1, .l_linger = 0};
  ::setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
}

}  // namespace parley::bench
