// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "tests/stress/raw_peers.hpp"

#include <netinet/in.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>

#include "wire/mpa.hpp"

namespace parley::stress {
namespace {

int checked(int value, const char* what) {
  if (value < 0) throw std::system_error(errno, std::generic_category(), what);
  return value;
}

sockaddr_in any_loopback(std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_ANY);
  return address;
}

void watch(int epoll, int fd) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = fd;
  checked(::epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event), "epoll_ctl");
}

/// To a free port, which is told.
int bound(std::uint16_t& port) {
  const int fd = checked(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), "socket");
  sockaddr_in address = any_loopback(0);
  socklen_t size = sizeof address;
  checked(::bind(fd, reinterpret_cast<const sockaddr*>(&address), size), "bind");
  checked(::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size), "getsockname");
  port = ntohs(address.sin_port);
  return fd;
}

}  // namespace

RawPeers::RawPeers(std::uint64_t seed) : rng_(seed) {
  epoll_ = checked(::epoll_create1(EPOLL_CLOEXEC), "epoll_create1");
  nobody_ = bound(nobody_port_);
  for (std::size_t i = 0; i < server_count; ++i) {
    listeners_[i] = bound(ports_[i]);
    checked(::listen(listeners_[i], 4096), "listen");
    watch(epoll_, listeners_[i]);
  }
}

RawPeers::~RawPeers() {
  for (const auto& [fd, peer] : peers_) ::close(fd);
  for (const int fd : listeners_) ::close(fd);
  ::close(nobody_);
  ::close(epoll_);
}

void RawPeers::connect(Client client, const Address& to) {
  const int fd = checked(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), "socket");
  sockaddr_in address = any_loopback(to.port);
  std::memcpy(&address.sin_addr, to.octets.data(), sizeof address.sin_addr);
  // On loopback it is up when connect() returns.
  checked(::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address), "connect");
  peers_[fd] = {.listens = false, .client = client};
  watch(epoll_, fd);
  if (client == Client::garbage) send_garbage(fd, 1 + rng_.below(600));
  if (client == Client::half) {
    send_request(fd, 1 + rng_.below(PARLEY_MPA_HEADER_LEN - 1));
    end(fd, true);
  }
  if (client == Client::closes_at_once) ::shutdown(fd, SHUT_WR);
  if (client == Client::vanishes || client == Client::stays_silent) send_request(fd, PARLEY_MPA_HEADER_LEN);
}

void RawPeers::turn() {
  std::array<epoll_event, 128> events;
  const int n = ::epoll_wait(epoll_, events.data(), static_cast<int>(events.size()), 0);
  for (int i = 0; i < n; ++i) {
    const int fd = events[static_cast<std::size_t>(i)].data.fd;
    const auto listener = std::find(listeners_.begin(), listeners_.end(), fd);
    if (listener != listeners_.end()) {
      accept_all(static_cast<std::size_t>(listener - listeners_.begin()));
    } else if (const auto at = peers_.find(fd); at != peers_.end()) {
      read(fd, at->second);  // one that got its descriptor in this turn has nothing to read yet
    }
  }
}

void RawPeers::accept_all(std::size_t server) {
  for (;;) {
    const int fd = ::accept4(listeners_[server], nullptr, nullptr, SOCK_CLOEXEC);
    if (fd < 0) return;
    peers_[fd] = {.listens = true, .server = static_cast<Server>(server)};
    watch(epoll_, fd);
  }
}

void RawPeers::read(int fd, Peer& peer) {
  std::array<std::uint8_t, 65536> in;
  const ssize_t n = ::recv(fd, in.data(), in.size(), MSG_DONTWAIT);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (n <= 0) return end(fd, false);
  if (++peer.heard <= 2) answer(fd, peer);
}

void RawPeers::answer(int fd, const Peer& peer) {
  if (!peer.listens) {
    if (peer.client == Client::vanishes) end(fd, true);
    return;
  }
  if (peer.server == Server::floods && peer.heard == 2) return send_garbage(fd, 65536);
  if (peer.heard == 2) return;
  switch (peer.server) {
    case Server::stalls: return;
    case Server::resets: return end(fd, true);
    case Server::garbage: return send_garbage(fd, 100 + rng_.below(1000));
    case Server::floods: {
      const auto reply = wire::MpaFrame{.key = wire::MpaKey::rep, .flags = PARLEY_MPA_FLAG_C, .revision = 1}.emit();
      (void)::send(fd, reply->data(), reply->size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    }
  }
}

void RawPeers::send_garbage(int fd, std::size_t octets) {
  Bytes out(octets);
  for (std::uint8_t& octet : out) octet = static_cast<std::uint8_t>(rng_.next());
  out[0] |= 0x80;  // no key begins so, and no FPDU of this length is there whole
  (void)::send(fd, out.data(), out.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
}

void RawPeers::send_request(int fd, std::size_t octets) {
  const auto request = wire::MpaFrame{.key = wire::MpaKey::req, .flags = PARLEY_MPA_FLAG_C, .revision = 1}.emit();
  (void)::send(fd, request->data(), octets, MSG_NOSIGNAL | MSG_DONTWAIT);
}

void RawPeers::end(int fd, bool reset) {
  if (reset) {
    const linger now{.l_onoff = 1, .l_linger = 0};
    ::setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
  }
  peers_.erase(fd);
  ::close(fd);
}

}  // namespace parley::stress
