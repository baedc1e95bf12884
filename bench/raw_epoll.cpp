// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "bench/raw_epoll.hpp"

#include <algorithm>
#include <array>
#include <vector>

#include "bench/raw_socket.hpp"

namespace parley::bench {
namespace {

/// One thread, one epoll, both ends of every connection.
class RawHandshakes {
 public:
  explicit RawHandshakes(const HandshakeOctets& octets) : octets_(octets) {
    epoll_ = Fd(checked(::epoll_create1(0), "epoll_create1"));
    listener_ = listen_anywhere(port_);
    watch(epoll_.get(), listener_.get(), EPOLLIN, static_cast<std::uint64_t>(listener_.get()));
  }

  ~RawHandshakes() {
    for (std::size_t fd = 0; fd < ends_.size(); ++fd) {
      if (ends_[fd].role == Role::none) continue;
      reset_on_close(static_cast<int>(fd));
      ::close(static_cast<int>(fd));
    }
  }

  Sample connect_and_close(double seconds) {
    close_when_done_ = true;
    Stopwatch watch_;
    for (int i = 0; i < in_flight; ++i) start();
    while (watch_.wall_s() < seconds) turn();
    return watch_.stop(static_cast<double>(done_));
  }

  Sample keep_open(long n) {
    to_start_ = n;
    const long before = done_;
    Stopwatch watch_;
    for (int i = 0; i < in_flight; ++i) start();
    while (done_ - before < n) turn();
    return watch_.stop(static_cast<double>(done_ - before));
  }

 private:
  enum class Role : std::uint8_t { none, initiator, responder };
  struct End {
    Role role = Role::none;
    std::uint8_t step = 0;       // messages received so far
    std::uint16_t received = 0;  // octets of the present one
  };

  void start() {
    if (!close_when_done_ && to_start_-- <= 0) return;
    const int fd = checked(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), "socket");
    const sockaddr_in address = loopback_address(port_, turn_++);
    if (::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) < 0 && errno != EINPROGRESS) {
      checked(-1, "connect");
    }
    end(fd) = {.role = Role::initiator};
    // On loopback the connection is up when connect() returns, even with EINPROGRESS; elsewhere EPOLLOUT reports it.
    watch(epoll_.get(), fd, send(fd, octets_.request) ? EPOLLIN : EPOLLOUT, static_cast<std::uint64_t>(fd));
  }

  void turn() {
    const int n = ::epoll_wait(epoll_.get(), events_.data(), static_cast<int>(events_.size()), 100);
    for (int i = 0; i < n; ++i) {
      const int fd = static_cast<int>(events_[static_cast<std::size_t>(i)].data.u64);
      if (fd == listener_.get()) {
        accept_some();
      } else if (events_[static_cast<std::size_t>(i)].events & EPOLLOUT) {
        if (send(fd, octets_.request)) watch(epoll_.get(), fd, EPOLLIN, static_cast<std::uint64_t>(fd), EPOLL_CTL_MOD);
      } else {
        receive(fd);
      }
    }
  }

  void accept_some() {
    for (int i = 0; i < in_flight; ++i) {
      const int fd = ::accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK);
      if (fd < 0) return;
      end(fd) = {.role = Role::responder};
      watch(epoll_.get(), fd, EPOLLIN, static_cast<std::uint64_t>(fd));
      receive(fd);  // The Request has usually arrived already.
    }
  }

  void receive(int fd) {
    const ssize_t n = ::recv(fd, buffer_.data(), buffer_.size(), 0);
    if (n < 0 && errno == EAGAIN) return;
    if (n <= 0) return forget(fd);
    End& e = end(fd);
    e.received = static_cast<std::uint16_t>(e.received + n);
    if (e.role == Role::initiator) {
      from_responder(fd, e);
    } else {
      from_initiator(fd, e);
    }
  }

  void from_responder(int fd, End& e) {
    if (e.step == 0 && e.received >= octets_.reply) {
      e = {.role = e.role, .step = 1, .received = static_cast<std::uint16_t>(e.received - octets_.reply)};
      if (octets_.rtr > 0) send(fd, octets_.rtr);
      if (octets_.response == 0) return finished(fd, octets_.rtr == 0);
    }
    if (e.step == 1 && octets_.response > 0 && e.received >= octets_.response) finished(fd, true);
  }

  void from_initiator(int fd, End& e) {
    if (e.step == 0 && e.received >= octets_.request) {
      e = {.role = e.role, .step = 1, .received = static_cast<std::uint16_t>(e.received - octets_.request)};
      send(fd, octets_.reply);
    }
    if (e.step == 1 && octets_.rtr > 0 && e.received >= octets_.rtr) {
      e = {.role = e.role, .step = 2, .received = 0};
      if (octets_.response > 0) {
        send(fd, octets_.response);
      } else {
        ++done_;
      }
    }
  }

  /// The initiator has nothing more to do. `last`: neither has the responder.
  void finished(int fd, bool last) {
    if (last) ++done_;
    if (close_when_done_) forget(fd);
    start();
  }

  void forget(int fd) {
    end(fd) = {};
    ::close(fd);
  }

  bool send(int fd, std::size_t n) { return ::send(fd, message_.data(), n, MSG_NOSIGNAL) == static_cast<ssize_t>(n); }

  End& end(int fd) {
    if (static_cast<std::size_t>(fd) >= ends_.size()) ends_.resize(static_cast<std::size_t>(fd) + 1024);
    return ends_[static_cast<std::size_t>(fd)];
  }

  HandshakeOctets octets_;
  Fd epoll_, listener_;
  std::uint16_t port_ = 0;
  std::uint32_t turn_ = 0;
  bool close_when_done_ = false;
  long to_start_ = 0;
  long done_ = 0;
  std::vector<End> ends_;
  std::array<epoll_event, 512> events_{};
  std::array<char, 1024> buffer_{};
  std::array<char, 1024> message_{};
};

}  // namespace

Sample raw_connect_and_close(const HandshakeOctets& octets, double seconds) {
  return RawHandshakes(octets).connect_and_close(seconds);
}

Sample raw_keep_open(const HandshakeOctets& octets, long n, long more) {
  RawHandshakes handshakes(octets);
  const Sample first = handshakes.keep_open(n);
  return more == 0 ? first : handshakes.keep_open(more);
}

}  // namespace parley::bench
