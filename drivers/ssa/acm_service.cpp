// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "drivers/ssa/acm_service.hpp"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <algorithm>
#include <array>
#include <cstring>

namespace parley::ssa_driver {

namespace {

constexpr std::size_t input_octets = 4096;  // of one client in a turn; their answers have up to 38 times as many
constexpr std::size_t at_once = 64;         // events, and new clients, in a turn
constexpr int out_of_files_wait_ms = 10;    // the listener stays readable
// Event data in epoll: 0 is wake_, then the listeners, then clients.
constexpr std::uint64_t wake_number = 0, clients_from = 1 + acm_sockets_max + 1;

/// As many as asked for, and at most half of the files that the process may open.
std::size_t clients_within(std::size_t most) {
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) != 0) return most;
  return static_cast<std::size_t>(std::min<rlim_t>(most, std::max<rlim_t>(files.rlim_cur, 64) / 2));
}

Error system_error() { return {std::error_code(errno, std::generic_category())}; }

Result<sockaddr_un> unix_address(const std::string& path) {
  sockaddr_un out{};
  if (path.empty() || path.size() >= sizeof(out.sun_path))
    return fail(Errc::invalid_argument, "the path of a socket has {a} octets; it must have 1 to {b}",
                static_cast<std::int64_t>(path.size()), static_cast<std::int64_t>(sizeof(out.sun_path) - 1));
  out.sun_family = AF_UNIX;
  std::memcpy(out.sun_path, path.c_str(), path.size());
  return out;
}

/// Removes the socket of a process that was killed.
Result<void> clear_way(const std::string& path, const sockaddr_un& address) {
  struct stat s {};
  if (::lstat(path.c_str(), &s) != 0) return {};
  if (!S_ISSOCK(s.st_mode) || s.st_uid != ::geteuid())
    return fail(Errc::address_in_use, "a file that is not this user's socket is there");
  const asio_driver::Descriptor probe(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const int connected = ::connect(probe.fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address));
  if (connected == 0 || errno == EAGAIN) return fail(Errc::address_in_use, "another process listens there");
  ::unlink(path.c_str());
  return {};
}

Result<void> write_port(const std::string& path, std::uint16_t port) {
  const std::string text = std::to_string(port) + "\n";
  const asio_driver::Descriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0644));
  if (file.fd < 0 || ::write(file.fd, text.data(), text.size()) != static_cast<ssize_t>(text.size()))
    return tl::unexpected(system_error());
  return {};
}

}  // namespace

AcmService::AcmService(const AcmServiceOptions& options)
    : clients_max_(clients_within(options.clients_max)),
      epoll_(::epoll_create1(EPOLL_CLOEXEC)),
      wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      server_(options.asks_sa),
      last_(clients_from),
      input_(input_octets) {}

Result<std::unique_ptr<AcmService>> AcmService::open(const AcmServiceOptions& options, std::string* wrong) {
  if ((options.sockets.empty() && !options.port) || options.sockets.size() > acm_sockets_max)
    return fail(Errc::invalid_argument, "there are {a} sockets; there must be a TCP port, or 1 to {b}",
                static_cast<std::int64_t>(options.sockets.size()), static_cast<std::int64_t>(acm_sockets_max));
  std::unique_ptr<AcmService> service(new AcmService(options));
  epoll_event event{EPOLLIN, {.u64 = wake_number}};
  if (service->epoll_.fd < 0 || service->wake_.fd < 0 ||
      ::epoll_ctl(service->epoll_.fd, EPOLL_CTL_ADD, service->wake_.fd, &event) != 0)
    return tl::unexpected(system_error());
  std::string place;
  if (const auto listening = service->listen(options, place); !listening) {
    if (wrong != nullptr) *wrong = place;
    return tl::unexpected(listening.error());
  }
  service->thread_ = std::thread([raw = service.get()] { raw->run(); });
  return service;
}

void AcmService::stop() {
  {
    const std::scoped_lock lock(mutex_);
    ending_ = true;
  }
  wake();
  if (thread_.joinable()) thread_.join();
}

AcmService::~AcmService() {
  stop();
  for (const auto& [number, client] : clients_) ::close(client.fd);
  for (const int fd : listeners_) ::close(fd);
  for (const std::string& path : files_) ::unlink(path.c_str());
}

// ---- places ------------------------------------------------------------------------------------------------------

Result<void> AcmService::listen(const AcmServiceOptions& options, std::string& place) {
  for (const std::string& path : options.sockets) {
    place = path;
    if (const auto done = listen_unix(path); !done) return done;
  }
  if (!options.port) return {};
  place = "127.0.0.1:" + std::to_string(*options.port);
  if (const auto done = listen_tcp(*options.port); !done) return done;
  for (const std::string& path : options.port_files) {
    place = path;
    if (const auto done = write_port(path, port_); !done) return done;
    files_.push_back(path);
  }
  return {};
}

Result<void> AcmService::watch_listener(int fd) {
  listeners_.push_back(fd);
  epoll_event event{EPOLLIN, {.u64 = listeners_.size()}};
  if (::listen(fd, SOMAXCONN) != 0 || ::epoll_ctl(epoll_.fd, EPOLL_CTL_ADD, fd, &event) != 0)
    return tl::unexpected(system_error());
  return {};
}

Result<void> AcmService::listen_unix(const std::string& path) {
  const auto address = unix_address(path);
  if (!address) return tl::unexpected(address.error());
  if (const auto clear = clear_way(path, *address); !clear) return clear;
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return tl::unexpected(system_error());
  if (::bind(fd, reinterpret_cast<const sockaddr*>(&*address), sizeof(*address)) != 0) {
    const Error error = errno == EADDRINUSE ? Error(Errc::address_in_use) : system_error();
    ::close(fd);
    return tl::unexpected(error);
  }
  files_.push_back(path);
  if (::chmod(path.c_str(), ::geteuid() == 0 ? 0666 : 0600) != 0) {
    const Error error = system_error();
    ::close(fd);
    return tl::unexpected(error);
  }
  return watch_listener(fd);
}

Result<void> AcmService::listen_tcp(std::uint16_t port) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return tl::unexpected(system_error());
  const int on = 1;
  (void)::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(address);
  auto* const raw = reinterpret_cast<sockaddr*>(&address);
  if (::bind(fd, raw, length) != 0 || ::getsockname(fd, raw, &length) != 0) {
    const Error error = errno == EADDRINUSE ? Error(Errc::address_in_use) : system_error();
    ::close(fd);
    return tl::unexpected(error);
  }
  port_ = ntohs(address.sin_port);
  return watch_listener(fd);
}

// ---- the owner's side --------------------------------------------------------------------------------------------

void AcmService::wake() const {
  const std::uint64_t one = 1;
  (void)!::write(wake_.fd, &one, sizeof(one));
}

void AcmService::publish(std::shared_ptr<const ssa::acm::Data> data) {
  {
    const std::scoped_lock lock(mutex_);
    fresh_.swap(data);
  }
  wake();
}

std::optional<AcmQuery> AcmService::wait_query(Duration longest) {
  std::unique_lock lock(mutex_);
  if (!asked_any_.wait_for(lock, longest, [this] { return !asked_.empty(); })) return std::nullopt;
  AcmQuery out = asked_.front();
  asked_.pop_front();
  return out;
}

void AcmService::answer(std::uint64_t client, const tl::expected<wire::mad::PathRecord, ssa::acm::Status>& answer) {
  {
    const std::scoped_lock lock(mutex_);
    answered_.push_back({client, answer});
  }
  wake();
}

// ---- the service's thread ----------------------------------------------------------------------------------------

void AcmService::run() {
  for (;;) {
    turn();
    const std::scoped_lock lock(mutex_);
    if (ending_) return;
  }
}

void AcmService::turn() {
  std::array<epoll_event, at_once> events{};
  const int count = ::epoll_wait(epoll_.fd, events.data(), static_cast<int>(events.size()), -1);
  for (int i = 0; i < count; ++i) {
    const epoll_event& event = events.at(static_cast<std::size_t>(i));
    const std::uint64_t number = event.data.u64;
    if (number == wake_number) {
      take_messages();
    } else if (number < clients_from) {
      accept_all(listeners_[number - 1]);
    } else {
      if ((event.events & EPOLLOUT) != 0) write(number);
      if ((event.events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0) read(number);
    }
  }
}

void AcmService::take_messages() {
  std::uint64_t wakes = 0;
  (void)!::read(wake_.fd, &wakes, sizeof(wakes));
  std::shared_ptr<const ssa::acm::Data> data;
  std::deque<Answer> answers;
  {
    const std::scoped_lock lock(mutex_);
    data.swap(fresh_);
    answers.swap(answered_);
  }
  if (data != nullptr) server_.set_data(std::move(data));
  for (const Answer& a : answers) {
    const auto found = clients_.find(a.client);
    if (found == clients_.end() || !found->second.asked) continue;
    Client& client = found->second;
    client.asked = false;
    if (client.session.handle_answer(a.record, client.unsent))
      write(a.client);
    else
      drop(a.client);
  }
}

void AcmService::accept_all(int listener) {
  for (std::size_t i = 0; i < at_once; ++i) {
    const int fd = ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0 && (errno == EMFILE || errno == ENFILE)) ::poll(nullptr, 0, out_of_files_wait_ms);
    if (fd < 0) return;
    const int on = 1;
    (void)::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));  // a Unix socket refuses it
    epoll_event event{EPOLLIN, {.u64 = last_ + 1}};
    if (clients_.size() >= clients_max_ || ::epoll_ctl(epoll_.fd, EPOLL_CTL_ADD, fd, &event) != 0) {
      ::close(fd);
      continue;
    }
    clients_.try_emplace(++last_, fd, server_).first->second.watched = EPOLLIN;
  }
}

void AcmService::drop(std::uint64_t number) {
  const auto found = clients_.find(number);
  if (found == clients_.end()) return;
  if (found->second.asked) {
    const std::scoped_lock lock(mutex_);
    std::erase_if(asked_, [number](const AcmQuery& query) { return query.client == number; });
  }
  ::close(found->second.fd);
  clients_.erase(found);
}

void AcmService::read(std::uint64_t number) {
  const auto found = clients_.find(number);
  if (found == clients_.end()) return;
  Client& client = found->second;
  const ssize_t count = ::recv(client.fd, input_.data(), input_.size(), 0);
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (count <= 0) return drop(number);
  const auto fed = client.session.feed(ConstBytes(input_).first(static_cast<std::size_t>(count)), client.unsent);
  write(number);
  if (!fed) drop(number);
}

void AcmService::write(std::uint64_t number) {
  const auto found = clients_.find(number);
  if (found == clients_.end()) return;
  Client& client = found->second;
  if (!client.unsent.empty()) {
    const ssize_t sent = ::send(client.fd, client.unsent.data(), client.unsent.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno != EAGAIN && errno != EINTR && errno != ENOBUFS) return drop(number);
    if (sent > 0) client.unsent.erase(client.unsent.begin(), client.unsent.begin() + sent);
  }
  settle(number, client);
}

/// A client that does not read its answers, or waits for subnet administration, is not read from.
void AcmService::settle(std::uint64_t number, Client& client) {
  if (client.session.is_waiting() && !client.asked) {
    client.asked = true;
    const std::scoped_lock lock(mutex_);
    asked_.push_back({number, *client.session.query()});
    asked_any_.notify_one();
  }
  const bool paused = client.session.is_waiting() || !client.unsent.empty();
  const std::uint32_t wanted = (paused ? 0U : static_cast<std::uint32_t>(EPOLLIN)) |
                               (client.unsent.empty() ? 0U : static_cast<std::uint32_t>(EPOLLOUT));
  if (wanted == client.watched) return;
  epoll_event event{wanted, {.u64 = number}};
  ::epoll_ctl(epoll_.fd, EPOLL_CTL_MOD, client.fd, &event);
  client.watched = wanted;
}

}  // namespace parley::ssa_driver
