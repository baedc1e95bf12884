// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "drivers/ssa/control.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "drivers/asio/descriptor.hpp"
#include "drivers/clock.hpp"
#include "drivers/local_peer.hpp"
#include "drivers/secure_env.hpp"
#include "drivers/system_error.hpp"

namespace parley::ssa_driver {

namespace {

constexpr std::size_t part_octets = 64 << 10;

/// Waits for at most `patience`, which is not zero, if the queue of the daemon is full (EAGAIN then).
int connect_to(const SocketAddress& address, Duration patience) {
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return fd;
  const auto whole = std::chrono::duration_cast<std::chrono::seconds>(patience);
  const auto rest = std::chrono::duration_cast<std::chrono::microseconds>(patience - whole);
  const timeval longest{whole.count(), rest.count()};
  static_cast<void>(::setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &longest, sizeof(longest)));
  if (address.connect(fd) == 0) return fd;
  const int why = errno;
  ::close(fd);
  errno = why;
  return -1;
}

/// Waits for the events. False: the time is over.
bool wait_for(int fd, short events, Instant until) {
  pollfd one{fd, events, 0};
  const Duration left = std::max(until - clock_now(), Duration{});
  const timespec patience = timespec_of(left);
  return ::ppoll(&one, 1, &patience, nullptr) != 0 || errno == EINTR;
}

}  // namespace

ControlServer::ControlServer(LocalListener listener, Answer answer)
    : listener_(std::move(listener)), answer_(std::move(answer)) {}

std::string default_control_socket() {
  const char* own = secure_env("XDG_RUNTIME_DIR");
  const bool has_own = ::geteuid() != 0 && own != nullptr && *own == '/';
  return std::string(has_own ? own : "/run") + "/parley-ssad.sock";
}

Result<std::unique_ptr<ControlServer>> ControlServer::open(const std::string& path, Answer answer) {
  auto listener = LocalListener::open(path, {.type = SOCK_STREAM, .mode = 0600});
  if (!listener) return tl::unexpected(listener.error());
  if (::listen(listener->fd(), clients_max) != 0) return tl::unexpected(system_error());
  return std::unique_ptr<ControlServer>(new ControlServer(std::move(*listener), std::move(answer)));
}

ControlServer::~ControlServer() {
  for (const Client& client : clients_) ::close(client.fd);
}

void ControlServer::turn(Instant now) {
  if (now >= accept_at_) accept_all(now);
  for (auto at = clients_.begin(); at != clients_.end();) {
    if (serve(now, *at)) {
      ++at;
      continue;
    }
    ::close(at->fd);
    at = clients_.erase(at);
  }
}

void ControlServer::accept_all(Instant now) {
  for (std::size_t i = 0; i < clients_max; ++i) {
    const int client = ::accept4(listener_.fd(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (client < 0) {
      // Without a descriptor the client stays in the queue, and the listener ready: it is looked at again later.
      const bool full = errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS;
      accept_at_ = full ? now + accept_pause : Instant{};
      return;
    }
    if (clients_.size() < clients_max && is_own_or_root(client)) {
      clients_.push_back({client, now + client_time, {}, {}});
      continue;
    }
    ++refused_;
    ::close(client);
  }
}

bool ControlServer::serve(Instant now, Client& client) {
  if (now >= client.until) {
    ++refused_;
    return false;
  }
  return client.out.empty() ? read(now, client) : write(now, client);
}

bool ControlServer::read(Instant now, Client& client) {
  std::array<char, request_max + 1> part;
  const ssize_t got = ::recv(client.fd, part.data(), part.size(), 0);
  if (got < 0) return errno == EAGAIN || errno == EINTR;
  if (got == 0) return false;
  client.in.append(part.data(), static_cast<std::size_t>(got));
  const std::size_t end = client.in.find('\n');
  if (end > request_max && client.in.size() > request_max) {
    ++refused_;
    return false;
  }
  if (end == std::string::npos) return true;
  client.out = answer_(std::string_view(client.in).substr(0, end));
  return !client.out.empty() && write(now, client);
}

bool ControlServer::write(Instant now, Client& client) {
  while (client.out_at < client.out.size()) {
    const std::size_t size = std::min(part_octets, client.out.size() - client.out_at);
    const ssize_t sent = ::send(client.fd, client.out.data() + client.out_at, size, MSG_NOSIGNAL);
    if (sent < 0) return errno == EAGAIN || errno == EINTR;
    client.out_at += static_cast<std::size_t>(sent);
    client.until = now + client_time;
  }
  return false;
}

void ControlServer::add_to(std::vector<pollfd>& polls) const {
  if (accept_at_ == Instant{}) polls.push_back({listener_.fd(), POLLIN, 0});
  for (const Client& client : clients_)
    polls.push_back({client.fd, static_cast<short>(client.out.empty() ? POLLIN : POLLOUT), 0});
}

Instant ControlServer::next_deadline() const {
  Instant first = accept_at_ == Instant{} ? never : accept_at_;
  for (const Client& client : clients_) first = std::min(first, client.until);
  return first;
}

Result<std::string> ask_daemon(const std::string& path, std::string_view request, Duration patience,
                               std::size_t octets_max) {
  const auto address = SocketAddress::of(path);
  if (!address) return tl::unexpected(address.error());
  const Instant until = clock_now() + patience;
  const auto silent = [] { return fail(Errc::timed_out, "the daemon does not answer"); };
  const asio_driver::Descriptor socket(
      connect_to(*address, std::max<Duration>(patience, std::chrono::microseconds(1))));
  if (socket.fd < 0 && errno == EAGAIN) return silent();
  if (socket.fd < 0) return tl::unexpected(system_error());
  if (!is_own_or_root(socket.fd)) return fail(Errc::refused, "the socket is that of another user");
  const std::string line = std::string(request) + '\n';
  if (::send(socket.fd, line.data(), line.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(line.size()))
    return tl::unexpected(system_error());
  std::string out;
  std::vector<char> part(part_octets);
  while (clock_now() < until && wait_for(socket.fd, POLLIN, until)) {
    const ssize_t got = ::recv(socket.fd, part.data(), part.size(), MSG_DONTWAIT);
    if (got == 0 && out.empty()) return fail(Errc::refused, "the daemon has ended the connection without an answer");
    if (got == 0) return out;
    if (got < 0 && errno != EAGAIN && errno != EINTR) return tl::unexpected(system_error());
    if (got < 0) continue;
    out.append(part.data(), static_cast<std::size_t>(got));
    if (out.size() > octets_max)
      return fail(Errc::no_space, "the answer of the daemon has more than {a} octets",
                  static_cast<std::int64_t>(octets_max));
  }
  return silent();
}

}  // namespace parley::ssa_driver
