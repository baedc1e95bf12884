// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "drivers/xrcd/broker.hpp"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "base/after.hpp"
#include "drivers/asio/local_socket.hpp"
#include "drivers/clock.hpp"
#include "drivers/local_peer.hpp"
#include "drivers/open_files.hpp"
#include "drivers/passed_files.hpp"
#include "drivers/peer_process.hpp"
#include "drivers/system_error.hpp"

namespace parley::xrc {
namespace {

// Event data in epoll: a connection is twice its number, its process one more.
constexpr std::uint64_t listeners_name = 0;
constexpr std::uint64_t name_of(ConnectionNumber number, bool process) { return 2 * number + (process ? 1 : 0); }
constexpr std::size_t at_once = 64;          // events per turn
constexpr std::size_t messages_at_once = 8;  // per connection, before others have their turn

/// Facts about the descriptor that arrived with a message; all received descriptors are closed.
std::optional<FileFacts> received_file(msghdr& message) {
  std::optional<FileFacts> facts;
  each_received_file(message, [&](int fd) {
    if (!facts) facts = facts_of(fd);
    ::close(fd);
  });
  return facts;
}

/// How many messages, at most messages_at_once, the system accepted; or sendmsg(2)'s error.
ssize_t send_messages(int socket, const std::vector<Bytes>& all) {
  constexpr int flags = MSG_DONTWAIT | MSG_NOSIGNAL;
  if (all.size() == 1) return ::send(socket, all[0].data(), all[0].size(), flags) < 0 ? -1 : 1;
  std::array<iovec, messages_at_once> parts;
  std::array<mmsghdr, messages_at_once> messages{};
  for (std::size_t i = 0; i < all.size(); ++i) {
    parts.at(i) = {const_cast<std::uint8_t*>(all[i].data()), all[i].size()};  // only read
    messages[i].msg_hdr.msg_iov = &parts[i];
    messages[i].msg_hdr.msg_iovlen = 1;
  }
  return ::sendmmsg(socket, messages.data(), static_cast<unsigned>(all.size()), flags);
}

/// Removes the socket of a broker that died; its lock is ours. Errors: socket_foreign (another kind of file is there),
/// busy (a broker listens there, although the lock file was removed).
Result<void> clear_way(const SocketAddress& address, int fd) {
  struct stat s {};
  if (::lstat(address.path.c_str(), &s) != 0) return {};
  if (!S_ISSOCK(s.st_mode) || s.st_uid != ::geteuid()) return refused(Refusal::socket_foreign);
  if (address.connect(fd) == 0 || errno == EAGAIN) return refused(Refusal::busy);
  ::unlink(address.path.c_str());
  return {};
}

Result<int> listen_on(const SocketAddress& address) {
  constexpr int type = SOCK_SEQPACKET;
  const Descriptor probe(::socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (probe.fd < 0) return tl::unexpected(system_error());
  if (const auto clear = clear_way(address, probe.fd); !clear) return tl::unexpected(clear.error());
  // Any user who can reach it may connect: permissions depend on the peer's credentials.
  const auto fd = bind_name(address, type, ::geteuid() == 0 ? 0666 : 0600);
  if (!fd || ::listen(*fd, SOMAXCONN) == 0) return fd;
  const Error error = system_error();
  ::close(*fd);
  return tl::unexpected(error);
}

}  // namespace

Result<std::unique_ptr<Broker>> Broker::open(const BrokerOptions& given) {
  BrokerOptions options = given;
  if (options.socket.empty()) options.socket = default_socket();
  const auto address = SocketAddress::of(options.socket);
  if (!address) return refused(Refusal::invalid);
  auto tenure = BrokerLock::acquire(options.socket);
  if (!tenure) return tl::unexpected(tenure.error());
  RegistryOptions& r = options.registry;
  r.epoch = tenure->epoch();
  r.qpn_next = tenure->qpn_next() >= r.qpn_first && tenure->qpn_next() <= r.qpn_last ? tenure->qpn_next() : 0;
  options.server.admin_uid = r.admin_uid = ::geteuid();
  options.server.key = tenure->key();
  options.server.connections_max = static_cast<std::uint32_t>(
      std::min<std::size_t>(options.server.connections_max, std::max<std::size_t>(half_of_open_files(), 20) - 16));
  auto registry = Registry::create(clock_now(), r);
  if (!registry) return tl::unexpected(registry.error());
  int listener = options.listening;
  if (listener < 0) {
    const auto made = listen_on(*address);
    if (!made) return tl::unexpected(made.error());
    listener = *made;
  } else if (::fcntl(listener, F_SETFL, O_NONBLOCK) != 0 || ::fcntl(listener, F_SETFD, FD_CLOEXEC) != 0) {
    return tl::unexpected(system_error());
  }
  const int epoll = ::epoll_create1(EPOLL_CLOEXEC);
  epoll_event event{EPOLLIN, {.u64 = listeners_name}};
  if (epoll < 0 || ::epoll_ctl(epoll, EPOLL_CTL_ADD, listener, &event) != 0) return tl::unexpected(system_error());
  return std::unique_ptr<Broker>(new Broker(options, std::move(*tenure), std::move(*registry), epoll, listener));
}

Broker::Broker(const BrokerOptions& options, BrokerLock tenure, Registry registry, int epoll, int listener)
    : options_(options),
      tenure_(std::move(tenure)),
      server_(std::move(registry), options.server),
      epoll_(epoll),
      listener_(listener),
      quiet_since_(clock_now()) {
  settle();
}

Broker::~Broker() {
  if (options_.listening < 0) ::unlink(options_.socket.c_str());
  for (const auto& [number, c] : connections_) {
    ::close(c.fd);
    if (c.process >= 0) ::close(c.process);
  }
  ::close(listener_);
  ::close(epoll_);
}

// ---- connections come and go -------------------------------------------------------------------------------------

void Broker::accept_all() {
  for (std::size_t i = 0; i < at_once; ++i) {
    const int fd = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0) return;
    admit(fd);
  }
}

void Broker::admit(int fd) {
  const auto peer = peer_of(fd);
  const bool known = peer.has_value();
  const ucred who = peer.value_or(ucred{});
  Connection c{.fd = fd, .process = known ? process_behind(fd, who.pid) : -1};
  const ConnectionNumber number = ++last_;
  const Credentials credentials{static_cast<std::uint32_t>(who.pid), who.uid,
                                who.pid > 0 ? start_of(static_cast<std::uint32_t>(who.pid)) : 0};
  // Checked after its start was read: the value then cannot belong to a later process.
  const bool dead = c.process >= 0 && has_died(c.process);
  auto accepted = known && !dead ? server_.connected(number, credentials) : refused(Refusal::wrong_process);
  if (!accepted) {
    const Bytes why = emit(Answer{.refusal = static_cast<Refusal>(accepted.error().code().value())});
    (void)send_message(fd, why, -1, MSG_DONTWAIT | MSG_NOSIGNAL);
    ::close(fd);
    if (c.process >= 0) ::close(c.process);
    return;
  }
  epoll_event event{EPOLLIN, {.u64 = name_of(number, false)}};
  c.watched = EPOLLIN;
  ::epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &event);
  event.data.u64 = name_of(number, true);
  if (c.process >= 0) ::epoll_ctl(epoll_, EPOLL_CTL_ADD, c.process, &event);
  connections_.emplace(number, std::move(c));
}

void Broker::drop(ConnectionNumber number) {
  const auto found = connections_.find(number);
  if (found == connections_.end()) return;
  ::close(found->second.fd);
  if (found->second.process >= 0) ::close(found->second.process);
  connections_.erase(found);
  server_.disconnected(clock_now(), number);
  quiet_since_ = clock_now();
}

// ---- messages ----------------------------------------------------------------------------------------------------

/// At most this many, with one call; returns the number of messages.
std::size_t Broker::read_some(ConnectionNumber number, Connection& c, std::size_t most) {
  struct ReceiveBuffer {
    std::array<std::uint8_t, message_max + 1> octets;                    // one more octet detects a message that is too
                                                                         // long
    alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control;  // any message may carry a file
    iovec part;
  };
  std::array<ReceiveBuffer, messages_at_once> places;
  std::array<mmsghdr, messages_at_once> messages{};
  for (std::size_t i = 0; i < most; ++i) {
    ReceiveBuffer& p = places.at(i);
    p.part = {p.octets.data(), p.octets.size()};
    messages[i].msg_hdr.msg_iov = &p.part;
    messages[i].msg_hdr.msg_iovlen = 1;
    messages[i].msg_hdr.msg_control = p.control.data();
    messages[i].msg_hdr.msg_controllen = p.control.size();
  }
  const int count =
      ::recvmmsg(c.fd, messages.data(), static_cast<unsigned>(most), MSG_DONTWAIT | MSG_CMSG_CLOEXEC, nullptr);
  if (count < 0) {
    c.ended = errno != EAGAIN && errno != EINTR;
    return 0;
  }
  const Instant now = clock_now();
  for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
    const auto file = received_file(messages[i].msg_hdr);
    // An empty packet and end of file look the same; the protocol has no empty packets.
    c.ended = c.ended || messages[i].msg_len == 0;
    if (!c.ended) server_.handle_message(now, number, ConstBytes(places[i].octets).first(messages[i].msg_len), file);
  }
  return static_cast<std::size_t>(count);
}

/// `to_the_end`: its process is dead, but its earlier messages still count.
void Broker::read(ConnectionNumber number, bool to_the_end) {
  const auto found = connections_.find(number);
  if (found == connections_.end()) return;
  Connection& c = found->second;
  // Checking for a message that is not there costs nearly as much as reading one: only for connections that recently
  // had several, or now and then.
  const bool several = to_the_end || c.talks || ++c.turns % messages_at_once == 0;
  c.talks = false;
  for (bool more = true; more && !c.ended;) {
    const std::size_t most = std::min(server_.input_room(number), several ? messages_at_once : 1);
    const std::size_t n = most > 0 ? read_some(number, c, most) : 0;
    c.talks = c.talks || n > 1;
    more = to_the_end && n > 0;
  }
  if (to_the_end || c.ended) drop(number);
}

void Broker::send(ConnectionNumber number) {
  const auto found = connections_.find(number);
  if (found == connections_.end()) return;
  Connection& c = found->second;
  const Instant now = clock_now();
  c.more = true;
  for (std::size_t sent = 0; c.more && sent < at_once;) {
    bool last = false;
    while (!last && c.unsent.size() < messages_at_once) {
      auto next = server_.poll_transmit(now, number);
      last = !next;
      if (next) c.unsent.push_back(std::move(*next));
    }
    const ssize_t n = c.unsent.empty() ? 0 : send_messages(c.fd, c.unsent);
    if (n < 0 && (errno == EAGAIN || errno == ENOBUFS)) break;
    if (n < 0) return drop(number);
    c.unsent.erase(c.unsent.begin(), c.unsent.begin() + n);
    c.more = !last || !c.unsent.empty();
    sent += static_cast<std::size_t>(n);
  }
  if (!c.more && server_.is_over(number)) return drop(number);
  watch(number, c);
}

void Broker::watch(ConnectionNumber number, Connection& c) {
  const std::uint32_t wanted =
      (server_.accepts_input(number) ? EPOLLIN : 0U) | (c.more ? static_cast<std::uint32_t>(EPOLLOUT) : 0U);
  if (wanted == c.watched) return;
  epoll_event event{wanted, {.u64 = name_of(number, false)}};
  ::epoll_ctl(epoll_, EPOLL_CTL_MOD, c.fd, &event);
  c.watched = wanted;
}

/// Sends pending messages, and removes ended connections: the real queue pairs belong to their members.
void Broker::settle() {
  const RegistryOptions& r = server_.registry().options();
  tenure_.keep(server_.registry().qpn_next(), r.qpn_first, r.qpn_last);
  while (const auto number = server_.poll_waiting()) send(*number);
  while (server_.poll_ended()) {
  }
}

bool Broker::run_once(Duration longest) {
  const Instant now = clock_now();
  Duration wait = std::min(longest, server_.next_deadline() == never ? longest : server_.next_deadline() - now);
  if (options_.idle > Duration{} && connections_.empty())
    wait = std::min(wait, after(quiet_since_, options_.idle) - now);
  const auto milliseconds = std::chrono::ceil<std::chrono::milliseconds>(std::max(wait, Duration{})).count();
  std::array<epoll_event, at_once> events{};
  const int n = ::epoll_wait(epoll_, events.data(), static_cast<int>(at_once),
                             static_cast<int>(std::min<std::int64_t>(milliseconds, 60'000)));
  for (int i = 0; i < n; ++i) {
    const epoll_event& e = events[static_cast<std::size_t>(i)];
    const ConnectionNumber number = e.data.u64 / 2;
    if (e.data.u64 == listeners_name) {
      accept_all();
    } else if (e.data.u64 == name_of(number, true)) {
      read(number, true);
    } else {
      if ((e.events & EPOLLOUT) != 0) send(number);
      if ((e.events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0) read(number, (e.events & (EPOLLHUP | EPOLLERR)) != 0);
      if (const auto c = connections_.find(number); c != connections_.end()) watch(number, c->second);
    }
    settle();
  }
  server_.handle_deadline(clock_now());
  settle();
  return options_.idle == Duration{} || !connections_.empty() || clock_now() < after(quiet_since_, options_.idle);
}

}  // namespace parley::xrc
