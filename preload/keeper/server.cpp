// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "preload/keeper/server.hpp"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "drivers/clock.hpp"
#include "drivers/peer_process.hpp"
#include "preload/port/channel.hpp"
#include "preload/port/place.hpp"

namespace parley::preload::port {

namespace {

// epoll's data: the kind in the upper half; below it the connection's number, or the socket's descriptor (SocketGround's
// entries have nothing in the upper half).
constexpr std::uint64_t of_member = 1ULL << 32, of_process = 2ULL << 32, of_listener = 3ULL << 32;
constexpr Duration longest_wait = std::chrono::seconds(10);

}  // namespace

Server::Server(int listener)
    : listener_(listener),
      epoll_(::epoll_create1(EPOLL_CLOEXEC)),
      spare_(::eventfd(0, EFD_CLOEXEC)),
      ground_(epoll_.fd),
      keeper_(ground_, clock_now()) {
  watch(listener_.fd, of_listener, EPOLLIN);
}

void Server::watch(int fd, std::uint64_t data, std::uint32_t what) const {
  epoll_event event{};
  event.events = what;
  event.data.u64 = data;
  if (::epoll_ctl(epoll_.fd, EPOLL_CTL_ADD, fd, &event) != 0) (void)::epoll_ctl(epoll_.fd, EPOLL_CTL_MOD, fd, &event);
}

void Server::run() {
  for (;;) {
    wait();
    keeper_.handle_deadline(clock_now());
    ground_.handle_deadline(clock_now());
    carry_out();
    if (keeper_.is_done(clock_now()) && !accept_all()) return;
  }
}

void Server::wait() {
  const Instant now = clock_now();
  const Instant deadline = std::min({keeper_.next_deadline(), ground_.next_deadline(), now + longest_wait});
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(std::max(deadline - now, Duration{}));
  std::array<epoll_event, 64> events;
  const int n = ::epoll_wait(epoll_.fd, events.data(), static_cast<int>(events.size()), static_cast<int>(left.count()));
  for (int i = 0; i < n; ++i) {
    const std::uint64_t data = events[static_cast<std::size_t>(i)].data.u64;
    const auto low = static_cast<std::uint32_t>(data);
    if (data == of_listener) {
      (void)accept_all();
    } else if (data >> 32 == of_process >> 32) {
      drop(low);
    } else if (data >> 32 == of_member >> 32) {
      if ((events[static_cast<std::size_t>(i)].events & EPOLLOUT) != 0) flush(low);
      if ((events[static_cast<std::size_t>(i)].events & ~std::uint32_t{EPOLLOUT}) != 0) receive(low);
    } else {
      (void)ground_.serve(static_cast<int>(low));
    }
  }
}

/// -1: no connection waits. At the limit of open files a connection is refused; otherwise the listener would stay readable.
int Server::accept() {
  const int fd = ::accept4(listener_.fd, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (fd >= 0 || (errno != EMFILE && errno != ENFILE) || spare_ < 0) return fd;
  ::close(spare_);
  const int refused = ::accept4(listener_.fd, nullptr, nullptr, SOCK_CLOEXEC);
  if (refused >= 0) ::close(refused);
  spare_ = ::eventfd(0, EFD_CLOEXEC);
  return -1;
}

/// True: a connection was accepted.
bool Server::accept_all() {
  bool any = false;
  for (;;) {
    const int fd = accept();
    if (fd < 0) return any;
    pid_t pid = 0;
    const MemberId id = ++last_;
    if (!same_user(fd, &pid) || !keeper_.connected(clock_now(), id)) {
      ::close(fd);
      continue;
    }
    any = true;
    Connection& made = connections_[id];
    made.fd = fd;
    watch(fd, of_member | id, EPOLLIN);
    if (pid > 0) made.process = process_behind(fd, pid);
    if (made.process >= 0) watch(made.process, of_process | id, EPOLLIN);
  }
}

void Server::receive(MemberId id) {
  const auto at = connections_.find(id);
  if (at == connections_.end()) return;
  Received message;
  const ssize_t size = receive_with(at->second.fd, message);
  if (size < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (size <= 0 || message.cut) return drop(id);
  keeper_.handle(clock_now(), id, message.octets, message.files);
  carry_out();
}

void Server::drop(MemberId id) {
  const auto at = connections_.find(id);
  if (at == connections_.end()) return;
  ::close(at->second.fd);
  if (at->second.process >= 0) ::close(at->second.process);
  connections_.erase(at);
  keeper_.gone(clock_now(), id);
  carry_out();
}

void Server::carry_out() {
  ground_.send_partings();
  while (const auto mourned = ground_.poll_mourned()) keeper_.mourned(clock_now(), mourned->addresses, mourned->prefix);
  while (auto output = keeper_.poll_output()) {
    const MemberId id = output->to;
    const auto at = connections_.find(id);
    if (at == connections_.end()) continue;
    if (output->hang_up || at->second.outputs.size() >= outputs_max * 4) {
      drop(id);
      continue;
    }
    // Copies for the next keeper, which a member that is stopped does not need now.
    if (output->octets.empty() && at->second.outputs.size() >= outputs_max) continue;
    at->second.outputs.push_back(std::move(*output));
    flush(id);
  }
}

void Server::flush(MemberId id) {
  const auto at = connections_.find(id);
  if (at == connections_.end()) return;
  Connection& to = at->second;
  while (!to.outputs.empty() && send(to, to.outputs.front())) to.outputs.pop_front();
  watch(to.fd, of_member | id, to.outputs.empty() ? std::uint32_t{EPOLLIN} : std::uint32_t{EPOLLIN | EPOLLOUT});
}

/// False: later.
bool Server::send(Connection& to, const Output& output) {
  if (!output.octets.empty()) return send_with(to.fd, output.octets, {}) >= 0 || errno != EAGAIN;
  for (std::size_t at = output.first; at < output.first + output.count;) {
    std::vector<int> files;
    const std::size_t first = at;
    for (int fd = 0; at < output.first + output.count && (fd = ground_.socket(output.group, at)) >= 0; ++at)
      files.push_back(fd);
    if (files.empty()) {
      ++at;
      continue;
    }
    const Bytes octets = encode(Sockets{.position = output.position, .first = static_cast<std::uint8_t>(first)});
    if (send_with(to.fd, octets, files) < 0 && errno == EAGAIN) return false;
  }
  return true;
}

}  // namespace parley::preload::port
