// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "drivers/ssa/acm_service.hpp"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>

#include "drivers/local_peer.hpp"
#include "drivers/open_files.hpp"
#include "drivers/system_error.hpp"

namespace parley::ssa_driver {

namespace {

constexpr std::size_t input_octets = 4096;  // of one client in a turn; their answers have up to 38 times as many
constexpr std::size_t at_once = 64;         // events, and new clients, in a turn
constexpr int out_of_files_wait_ms = 10;    // the listener stays readable
// Event data in epoll: 0 is wake_, then the listeners, then clients.
constexpr std::uint64_t wake_number = 0, clients_from = 1 + acm_sockets_max + 1;

/// As many as asked for, and at most half of the files that the process may open.
std::size_t clients_within(std::size_t most) { return std::min(most, std::max<std::size_t>(half_of_open_files(), 32)); }

/// The owner of the process at the other end of a Unix socket; no_user for TCP.
constexpr uid_t no_user = ~uid_t{0};
uid_t user_of(int fd) {
  const auto peer = peer_of(fd);
  return peer ? peer->uid : no_user;
}

}  // namespace

AcmService::AcmService(const AcmServiceOptions& options)
    : clients_max_(clients_within(options.clients_max)),
      clients_of_other_max_(options.clients_of_other_max),
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
  if (const auto bound = service->bind(options, place); !bound) {
    if (wrong != nullptr) *wrong = place;
    return tl::unexpected(bound.error());
  }
  return service;
}

Result<void> AcmService::start(std::shared_ptr<const ssa::acm::Data> data, std::string* wrong) {
  server_.set_data(std::move(data));
  for (std::size_t i = 0; i < listeners_.size(); ++i) {
    epoll_event event{EPOLLIN, {.u64 = i + 1}};
    if (::listen(listeners_[i].fd, SOMAXCONN) == 0 &&
        ::epoll_ctl(epoll_.fd, EPOLL_CTL_ADD, listeners_[i].fd, &event) == 0)
      continue;
    if (wrong != nullptr) *wrong = listeners_[i].place;
    return tl::unexpected(errno == EADDRINUSE ? Error(Errc::address_in_use) : system_error());
  }
  thread_ = std::thread([this] { run(); });
  return {};
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
}

// ---- places ------------------------------------------------------------------------------------------------------

Result<void> AcmService::bind(const AcmServiceOptions& options, std::string& place) {
  for (const std::string& path : options.sockets) {
    place = path;
    const auto fd = places_.bind_socket(path);
    if (!fd) return tl::unexpected(fd.error());
    listeners_.push_back({*fd, path});
  }
  if (!options.port) return {};
  place = "127.0.0.1:" + std::to_string(*options.port);
  if (const auto done = bind_tcp(*options.port, place); !done) return done;
  for (const std::string& path : options.port_files) {
    place = path;
    if (const auto done = places_.write_port(path, port_); !done) return done;
  }
  return {};
}

Result<void> AcmService::bind_tcp(std::uint16_t port, const std::string& place) {
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
  tcp_.emplace(fd);
  port_ = ntohs(address.sin_port);
  listeners_.push_back({fd, place});
  return {};
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

std::size_t AcmService::queries() {
  const std::scoped_lock lock(mutex_);
  return asked_.size();
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
    for (std::size_t i = 0; i < counts_.size(); ++i) counts_[i] = server_.counter(static_cast<ssa::acm::Counter>(i));
    if (ending_) return;
  }
}

std::uint64_t AcmService::counter(ssa::acm::Counter which) const {
  const std::scoped_lock lock(mutex_);
  return counts_[static_cast<std::size_t>(which)];
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
      accept_all(listeners_[number - 1].fd);
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
    const uid_t user = user_of(fd);
    if (!has_room_for(user) || ::epoll_ctl(epoll_.fd, EPOLL_CTL_ADD, fd, &event) != 0) {
      ::close(fd);
      continue;
    }
    clients_.try_emplace(++last_, fd, user, server_).first->second.watched = EPOLLIN;
    ++users_[user];
  }
}

bool AcmService::has_room_for(uid_t user) const {
  if (clients_.size() >= clients_max_) return false;
  const auto found = users_.find(user);
  return user == ::geteuid() || found == users_.end() || found->second < clients_of_other_max_;
}

void AcmService::drop(std::uint64_t number) {
  const auto found = clients_.find(number);
  if (found == clients_.end()) return;
  if (found->second.asked) {
    const std::scoped_lock lock(mutex_);
    std::erase_if(asked_, [number](const AcmQuery& query) { return query.client == number; });
  }
  ::close(found->second.fd);
  if (const auto user = users_.find(found->second.user); --user->second == 0) users_.erase(user);
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
