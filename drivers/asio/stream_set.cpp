// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "drivers/asio/stream_set.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "base/pump.hpp"
#include "drivers/asio/sockaddr.hpp"
#include "drivers/asio/socket_end.hpp"
#include "drivers/clock.hpp"

namespace parley::asio_driver {
namespace {

constexpr int events_max = 256;       // per turn
constexpr int accepts_per_turn = 64;  // so that a flood of connections leaves time for the established ones
constexpr int reads_per_turn = 4;     // and one fast stream leaves time for the others
constexpr int guesses_max = 16;       // reads of predicted sockets before epoll is called again
constexpr int looks_max = 64;         // unsuccessful ones, for a caller that polls
// Octets written to one stream before the others have their turn. Written octets stay in the second-level cache until a
// reader on the same machine reads them: 4 MiB at once reduce the throughput by a quarter.
constexpr std::size_t write_bound = 256 << 10;
constexpr std::size_t small_write = 4096;  // below this size, checking for more is not worth the cost
constexpr Duration rearm_delay = std::chrono::milliseconds(100);

std::error_code system_error(int number) { return {number, std::generic_category()}; }

// The effective MSS (RFC 5044 §4.5) if the connection is established, otherwise 0.
std::uint16_t emss_if_up(int fd) {
  tcp_info info{};
  socklen_t size = sizeof info;
  if (::getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return 0;
  if (info.tcpi_state == TCP_SYN_SENT || info.tcpi_state == TCP_SYN_RECV || info.tcpi_state == TCP_CLOSE) return 0;
  return static_cast<std::uint16_t>(std::clamp<std::uint32_t>(info.tcpi_snd_mss, 128, 65535));
}

// The same for a socket from accept(): it is established, and reading this one value costs less than reading all.
std::uint16_t emss_of_accepted(int fd) {
  int mss = 0;
  socklen_t size = sizeof mss;
  if (::getsockopt(fd, IPPROTO_TCP, TCP_MAXSEG, &mss, &size) != 0) return 536;
  return static_cast<std::uint16_t>(std::clamp(mss, 128, 65535));
}

Address local_of(int fd) {
  SockAddr local;
  local.size = sizeof local.storage;
  if (::getsockname(fd, local.get(), &local.size) != 0) return {};
  return from_sockaddr(local);
}

bool out_of_descriptors(int number) {
  return number == EMFILE || number == ENFILE || number == ENOBUFS || number == ENOMEM;
}

StreamEnd end_of(int error) { return means_silence(error) ? StreamEnd::timeout : StreamEnd::rst; }

}  // namespace

StreamSet::StreamSet(StreamMachine& machine, const TcpHostOptions& options, int epoll, int wake)
    : machine_(machine),
      options_(options),
      epoll_(epoll),
      wake_(wake),
      buffer_(std::max<std::size_t>(options.receive_buffer, 2048)) {}

StreamSet::~StreamSet() {
  for (const Socket& socket : sockets_)
    if (socket.fd >= 0) ::close(socket.fd);
}

bool StreamSet::drain(Instant now) {
  now_ = now;
  return pump(machine_, *this);
}

StreamSet::Socket* StreamSet::find(StreamId id) {
  const auto at = by_id_.find(id);
  return at == by_id_.end() ? nullptr : &sockets_[at->second];
}

std::uint32_t StreamSet::add(int fd, Kind kind, StreamId id) {
  std::uint32_t slot = 0;
  if (free_.empty()) {
    slot = static_cast<std::uint32_t>(sockets_.size());
    sockets_.emplace_back();
  } else {
    slot = free_.back();
    free_.pop_back();
  }
  Socket& socket = sockets_[slot];
  const std::uint32_t generation = socket.generation;
  socket = Socket{};
  socket.fd = fd;
  socket.kind = kind;
  socket.generation = generation;
  socket.id = id;
  by_id_.emplace(id, slot);
  if (kind != Kind::listener) ++streams_;
  return slot;
}

// The caller closes the descriptor, which removes it from the epoll set.
void StreamSet::forget(std::uint32_t slot) {
  Socket& socket = sockets_[slot];
  by_id_.erase(socket.id);
  if (socket.kind != Kind::listener) --streams_;
  if (socket.parked) std::erase(parked_, slot);
  pace_.forget(slot);
  ++socket.generation;
  socket.kind = Kind::free;
  socket.fd = -1;
  free_.push_back(slot);
}

void StreamSet::watch(std::uint32_t slot) {
  Socket& socket = sockets_[slot];
  std::uint32_t wanted = 0;
  if (socket.kind == Kind::connecting) {
    wanted = EPOLLOUT;
  } else if (socket.kind == Kind::listener) {
    if (!socket.parked) wanted = EPOLLIN;
  } else {
    if (!socket.paused && !socket.fin_in) wanted |= EPOLLIN;
    if (socket.blocked && !socket.finishing) wanted |= EPOLLOUT;
  }
  // Errors and hang-ups are always reported. EPOLLET only marks "in the set" while no event is wanted, and keeps a
  // hung-up but unread socket from being reported for ever.
  if (wanted == 0) wanted = EPOLLET;
  if (wanted == socket.watched) return;
  epoll_event event{};
  event.events = wanted;
  event.data.u64 = std::uint64_t{socket.generation} << 32 | slot;
  (void)::epoll_ctl(epoll_, socket.watched == 0 ? EPOLL_CTL_ADD : EPOLL_CTL_MOD, socket.fd, &event);
  socket.watched = wanted;
}

bool StreamSet::serve(bool polling) {
  bool any = false;
  if (now_ >= rearm_at_) {
    unpark();
    any = true;
  }
  if (now_ >= pace_.next_deadline()) keep_alive();
  if (std::uint32_t slot = 0; guess(slot)) {
    if (read_guessed(slot)) return true;
    // A caller that polls for the next octets of one busy socket finds them fastest by reading it.
    if (polling && slot == last_ && looks_left_ > 0) {
      --looks_left_;
      ++guesses_left_;
      return true;
    }
  }
  std::array<epoll_event, events_max> events;
  const int n = ::epoll_wait(epoll_, events.data(), events_max, 0);
  if (n <= 0) return any;
  if (n == 1)
    learn(events[0]);
  else
    guesses_left_ = 0;
  for (int i = 0; i < n; ++i) serve_event(events[i]);
  return true;
}

void StreamSet::serve_event(const epoll_event& event) {
  if (event.data.u64 == wake_data) {
    eventfd_t times = 0;
    (void)::eventfd_read(wake_, &times);
    return;
  }
  const auto slot = static_cast<std::uint32_t>(event.data.u64);
  const auto generation = static_cast<std::uint32_t>(event.data.u64 >> 32);
  const std::uint32_t what = event.events;
  if (!same(slot, generation)) return;
  switch (sockets_[slot].kind) {
    case Kind::free: break;
    case Kind::listener: accept_some(slot); break;
    case Kind::connecting: finish_connect(slot); break;
    case Kind::stream:
      if (sockets_[slot].finishing) return check_finished(slot);
      if ((what & EPOLLOUT) != 0) {
        sockets_[slot].blocked = false;
        write(sockets_[slot].id);
        pump(machine_, *this);
        if (same(slot, generation)) watch(slot);
      }
      if (same(slot, generation) && (what & ~static_cast<std::uint32_t>(EPOLLOUT)) != 0) read(slot);
      break;
  }
}

void StreamSet::keep_alive() {
  while (const auto step = pace_.poll(now_)) {
    const Socket& socket = sockets_[step->slot];
    if (step->kind == KeepalivePace::Step::Kind::ask)
      ask_peer(socket.fd);
    else
      let_rest(socket.fd, socket.keepalive);
  }
}

bool StreamSet::serve_partner() {
  std::uint32_t slot = 0;
  return guess(slot) && slot != last_ && read_guessed(slot);
}

bool StreamSet::guess(std::uint32_t& slot) const {
  if (guesses_left_ == 0 || !same(last_, last_generation_)) return false;
  const Socket& last = sockets_[last_];
  slot = last.follower;
  return last.follower_sure && same(slot, last.follower_generation);
}

bool StreamSet::read_guessed(std::uint32_t slot) {
  --guesses_left_;
  const std::uint32_t generation = sockets_[slot].generation;
  if (!read(slot)) return false;  // not yet, or no longer: epoll will report it
  last_ = slot;
  last_generation_ = generation;
  return true;
}

void StreamSet::learn(const epoll_event& only) {
  const auto slot = static_cast<std::uint32_t>(only.data.u64);
  const auto generation = static_cast<std::uint32_t>(only.data.u64 >> 32);
  guesses_left_ = 0;
  if (only.data.u64 == wake_data || !same(slot, generation) || sockets_[slot].kind != Kind::stream ||
      only.events != EPOLLIN)
    return;
  if (same(last_, last_generation_)) {
    Socket& last = sockets_[last_];
    last.follower_sure = last.follower == slot && last.follower_generation == generation;
    last.follower = slot;
    last.follower_generation = generation;
  }
  last_ = slot;
  last_generation_ = generation;
  guesses_left_ = guesses_max;
  looks_left_ = looks_max;
}

void StreamSet::carry_out(const StreamCommand& command) {
  switch (command.kind) {
    case StreamCommand::Kind::open: open(command); break;
    case StreamCommand::Kind::listen: listen(command); break;
    case StreamCommand::Kind::shutdown: shut(command.id); break;
    case StreamCommand::Kind::finish: finish(command.id); break;
    case StreamCommand::Kind::close: close(command.id, false); break;
    case StreamCommand::Kind::reset: close(command.id, true); break;
    case StreamCommand::Kind::pause:
    case StreamCommand::Kind::resume:
      if (const auto at = by_id_.find(command.id); at != by_id_.end()) {
        sockets_[at->second].paused = command.kind == StreamCommand::Kind::pause;
        watch(at->second);
      }
      break;
  }
}

void StreamSet::listen(const StreamCommand& command) {
  const SockAddr local = to_sockaddr(command.address);
  const int fd = ::socket(local.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  int error = fd < 0 ? errno : 0;
  if (error == 0) {
    set_option(fd, SOL_SOCKET, SO_REUSEADDR, 1);
    // [::] means IPv6 only, so that both families can be listened on side by side whatever the system's default.
    if (command.address.family == Address::Family::v6) set_option(fd, IPPROTO_IPV6, IPV6_V6ONLY, 1);
    // Accepted sockets inherit all of these, which saves the calls for each.
    set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    reset_when_closed(fd, true);
    watch_peer(fd, command.keepalive, command.dead_after);
    if (!options_.congestion.empty())
      (void)::setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, options_.congestion.data(),
                         static_cast<socklen_t>(options_.congestion.size()));
    if (::bind(fd, local.get(), local.size) != 0 || ::listen(fd, command.backlog) != 0) error = errno;
  }
  if (error != 0) {
    if (fd >= 0) ::close(fd);
    machine_.handle_listen_failed(now_, command.id, system_error(error));
    return;
  }
  const std::uint32_t slot = add(fd, Kind::listener, command.id);
  sockets_[slot].keepalive = command.keepalive;
  sockets_[slot].local = local_of(fd);
  watch(slot);
  machine_.handle_listening(now_, command.id, sockets_[slot].local);
}

void StreamSet::open(const StreamCommand& command) {
  const SockAddr peer = to_sockaddr(command.address);
  const int fd = ::socket(peer.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  int error = fd < 0 ? errno : streams_ >= options_.streams_max ? EMFILE : 0;
  if (error == 0) {
    if (!options_.congestion.empty())
      (void)::setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, options_.congestion.data(),
                         static_cast<socklen_t>(options_.congestion.size()));
    if (!command.local.is_any() || command.local.port != 0) {
      const SockAddr local = to_sockaddr(command.local);
      set_option(fd, SOL_SOCKET, SO_REUSEADDR, 1);
      if (::bind(fd, local.get(), local.size) != 0) error = errno;
    }
  }
  if (error == 0 && ::connect(fd, peer.get(), peer.size) != 0 && errno != EINPROGRESS) error = errno;
  if (error != 0) {
    if (fd >= 0) ::close(fd);
    machine_.handle_connect_failed(now_, command.id, system_error(error));
    return;
  }
  const std::uint32_t slot = add(fd, Kind::connecting, command.id);
  sockets_[slot].peer = command.address;
  sockets_[slot].keepalive = command.keepalive;
  sockets_[slot].dead_after = command.dead_after;
  // A near peer has answered already: then the first octets are sent in this turn.
  if (const std::uint16_t emss = emss_if_up(fd); emss != 0)
    connected(slot, emss);
  else
    watch(slot);
}

void StreamSet::finish_connect(std::uint32_t slot) {
  Socket& socket = sockets_[slot];
  int error = 0;
  socklen_t size = sizeof error;
  if (::getsockopt(socket.fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0) error = errno;
  const std::uint16_t emss = error == 0 ? emss_if_up(socket.fd) : std::uint16_t{0};
  if (error == 0 && emss == 0) return;  // not yet: a spurious report
  if (error == 0) {
    connected(slot, emss);
  } else {
    const StreamId id = socket.id;
    ::close(socket.fd);
    forget(slot);
    machine_.handle_connect_failed(now_, id, system_error(error));
  }
  pump(machine_, *this);
}

void StreamSet::connected(std::uint32_t slot, std::uint16_t emss) {
  Socket& socket = sockets_[slot];
  socket.kind = Kind::stream;
  reset_when_closed(socket.fd, true);
  watch_peer(socket.fd, socket.keepalive, socket.dead_after);  // not before: an attempt has transport_timeout
  pace_.watch(now_, slot, in_whole_seconds(socket.keepalive));
  socket.local = local_of(socket.fd);
  if (tap_) tap(socket, TapRecord::Kind::connected);
  watch(slot);
  now_ = clock_now();  // a near peer connects within the turn: its time counts for the connection
  machine_.handle_connected(now_, socket.id, {socket.local, socket.peer, emss});
}

void StreamSet::accept_some(std::uint32_t slot) {
  const std::uint32_t generation = sockets_[slot].generation;
  for (int i = 0; i < accepts_per_turn; ++i) {
    if (!same(slot, generation)) return;
    if (streams_ >= options_.streams_max) {
      if (make_room(slot)) continue;
      return;
    }
    SockAddr peer;
    peer.size = sizeof peer.storage;
    const int fd = ::accept4(sockets_[slot].fd, peer.get(), &peer.size, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd >= 0) {
      add_accepted(slot, fd, from_sockaddr(peer));
    } else if (out_of_descriptors(errno)) {
      if (!make_room(slot)) return;
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      return;
    }
    // Any other error concerns only the connection that was being accepted (accept(2)).
  }
}

// Out of descriptors or streams: a half-open connection is evicted if a peer waits at the listener. (The system does
// not check for peers without a free descriptor.) If none can be evicted, the backlog holds the peers for a while.
bool StreamSet::make_room(std::uint32_t listener) {
  pollfd waits{.fd = sockets_[listener].fd, .events = POLLIN, .revents = 0};
  if (::poll(&waits, 1, 0) != 1) return false;
  if (machine_.handle_no_room(now_, sockets_[listener].id)) {
    pump(machine_, *this);
    return true;
  }
  park(listener);
  return false;
}

void StreamSet::add_accepted(std::uint32_t listener, int fd, const Address& peer) {
  const StreamId id = serial_ += 2;
  const StreamId from = sockets_[listener].id;
  const std::uint32_t slot = add(fd, Kind::stream, id);
  Socket& socket = sockets_[slot];
  socket.keepalive = sockets_[listener].keepalive;
  pace_.watch(now_, slot, in_whole_seconds(socket.keepalive));
  const Address& bound = sockets_[listener].local;
  socket.writes = writes_without_nodelay;  // inherited from the listener
  socket.local = bound.is_any() || bound.is_link_local() ? local_of(fd) : bound;
  socket.peer = peer;
  if (tap_) tap(socket, TapRecord::Kind::accepted);
  if (!machine_.handle_accepted(now_, from, id, {socket.local, peer, emss_of_accepted(fd)})) {
    close(id, true);
    return;
  }
  const std::uint32_t generation = socket.generation;
  read(slot);  // the Request has usually arrived
  if (same(slot, generation)) watch(slot);
}

// Otherwise the set would report the listener for ever.
void StreamSet::park(std::uint32_t listener) {
  sockets_[listener].parked = true;
  parked_.push_back(listener);
  watch(listener);
  rearm_at_ = now_ + rearm_delay;
}

void StreamSet::unpark() {
  rearm_at_ = never;
  for (const std::uint32_t slot : std::exchange(parked_, {})) {
    sockets_[slot].parked = false;
    watch(slot);
  }
}

bool StreamSet::read(std::uint32_t slot) {
  const std::uint32_t generation = sockets_[slot].generation;
  bool any = false;
  for (int i = 0; i < reads_per_turn; ++i) {
    Socket& socket = sockets_[slot];
    if (socket.paused || socket.fin_in) {
      // A socket that is not read is only reported for an error or hang-up.
      int error = 0;
      socklen_t size = sizeof error;
      if (::getsockopt(socket.fd, SOL_SOCKET, SO_ERROR, &error, &size) == 0 && error != 0) ended(slot, end_of(error));
      return any;
    }
    const ssize_t n = ::recv(socket.fd, buffer_.data(), buffer_.size(), 0);
    if (n > 0) {
      const ConstBytes in(buffer_.data(), static_cast<std::size_t>(n));
      socket.unanswered = false;
      pace_.heard(now_, slot);
      if (tap_) tap(socket, TapRecord::Kind::received, in);
      machine_.handle_bytes(now_, socket.id, in);
      pump(machine_, *this);
      any = true;
      if (!same(slot, generation) || in.size() < buffer_.size()) return true;
      continue;
    }
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return any;
    if (n == 0) {
      // A failed write has consumed the socket's error: then the end of the stream is not a FIN.
      ended(slot, socket.error == 0 ? StreamEnd::fin : end_of(socket.error));
    } else {
      ended(slot, end_of(errno));
    }
    return true;
  }
  return any;
}

void StreamSet::ended(std::uint32_t slot, StreamEnd end) {
  Socket& socket = sockets_[slot];
  const StreamId id = socket.id;
  if (end == StreamEnd::fin) {
    const std::uint32_t generation = socket.generation;
    socket.fin_in = true;
    if (tap_) tap(socket, TapRecord::Kind::fin_received);
    machine_.handle_end(now_, id, end);
    pump(machine_, *this);
    if (same(slot, generation)) watch(slot);
    return;
  }
  if (tap_ && end == StreamEnd::rst) tap(socket, TapRecord::Kind::rst_received);
  ::close(socket.fd);
  forget(slot);
  machine_.handle_end(now_, id, end);
  pump(machine_, *this);
}

void StreamSet::write(StreamId stream) {
  const auto at = by_id_.find(stream);
  if (at == by_id_.end()) return;
  const std::uint32_t slot = at->second;
  Socket& socket = sockets_[slot];
  if (socket.kind != Kind::stream || socket.blocked) return;
  std::span<ConstBytes> pieces = pieces_;
  for (std::size_t written = 0;;) {
    const std::size_t count = machine_.gather(stream, pieces);
    if (count == 0) return;
    std::size_t total = 0;
    for (std::size_t i = 0; i < count; ++i) {
      vectors_[i] = {const_cast<std::uint8_t*>(pieces[i].data()), pieces[i].size()};
      total += pieces[i].size();
    }
    if (socket.writes < writes_without_nodelay && (++socket.writes == writes_without_nodelay || socket.unanswered)) {
      // RFC 5044 §5: an FPDU must not wait for the acknowledgement of the one before it.
      set_option(socket.fd, IPPROTO_TCP, TCP_NODELAY, 1);
      socket.writes = writes_without_nodelay;
    }
    socket.unanswered = true;
    msghdr message{};
    message.msg_iov = vectors_.data();
    message.msg_iovlen = count;
    const ssize_t n = count == 1 ? ::send(socket.fd, pieces[0].data(), total, MSG_NOSIGNAL)
                                 : ::sendmsg(socket.fd, &message, MSG_NOSIGNAL);
    if (n < 0) {
      if (errno == EINTR) continue;
      if (errno == EAGAIN || errno == EWOULDBLOCK) break;
      // The stream is broken. Octets that the peer sent before must still be read, unless reading has stopped.
      socket.error = errno;
      if (socket.fin_in || socket.paused) ended(slot, end_of(socket.error));
      return;
    }
    const auto octets = static_cast<std::size_t>(n);
    if (tap_) tap_sent(socket, pieces.first(count), octets);
    machine_.sent(now_, stream, octets);
    written += octets;
    if (octets < total || written >= write_bound) break;
    if (total < small_write && count < pieces.size()) return;  // the machine names the stream again if there is more
  }
  socket.blocked = true;
  watch(slot);
}

void StreamSet::shut(StreamId id) {
  Socket* socket = find(id);
  if (socket == nullptr) return;
  if (tap_) tap(*socket, TapRecord::Kind::fin_sent);
  socket->fin_out = true;
  reset_when_closed(socket->fd, false);
  (void)::shutdown(socket->fd, SHUT_WR);
}

void StreamSet::finish(StreamId id) {
  const auto at = by_id_.find(id);
  if (at == by_id_.end()) return;
  const std::uint32_t slot = at->second;
  if (!all_acknowledged(sockets_[slot].fd, sockets_[slot].fin_out)) {
    if (!sockets_[slot].fin_out) shut(id);
    sockets_[slot].finishing = true;
    return watch(slot);
  }
  close(id, false);
  machine_.handle_end(now_, id, StreamEnd::delivered);
}

// If both FINs were exchanged, epoll reports (EPOLLHUP) when all octets are acknowledged, or on failure.
void StreamSet::check_finished(std::uint32_t slot) {
  Socket& socket = sockets_[slot];
  int error = socket.error;
  socklen_t size = sizeof error;
  if (error == 0 && ::getsockopt(socket.fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0) error = errno;
  if (error != 0) return ended(slot, end_of(error));
  if (!all_acknowledged(socket.fd, true)) return;
  const StreamId id = socket.id;
  close(id, false);
  machine_.handle_end(now_, id, StreamEnd::delivered);
  pump(machine_, *this);
}

void StreamSet::close(StreamId id, bool reset) {
  const auto at = by_id_.find(id);
  if (at == by_id_.end()) return;
  const std::uint32_t slot = at->second;
  const Socket& socket = sockets_[slot];
  if (tap_ && socket.kind == Kind::stream) {
    if (reset)
      tap(socket, TapRecord::Kind::rst_sent);
    else if (!socket.fin_out)
      tap(socket, TapRecord::Kind::fin_sent);
  }
  if (socket.kind == Kind::stream && reset == socket.fin_out) reset_when_closed(socket.fd, reset);
  ::close(socket.fd);
  forget(slot);
  if (!parked_.empty()) rearm_at_ = now_;
}

void StreamSet::tap(const Socket& socket, TapRecord::Kind kind, ConstBytes octets) {
  tap_({clock_now(), socket.local, socket.peer, kind, octets});
}

void StreamSet::tap_sent(const Socket& socket, std::span<const ConstBytes> pieces, std::size_t n) {
  tapped_.clear();
  for (const ConstBytes piece : pieces) {
    const std::size_t take = std::min(piece.size(), n - tapped_.size());
    tapped_.insert(tapped_.end(), piece.begin(), piece.begin() + static_cast<std::ptrdiff_t>(take));
  }
  tap(socket, TapRecord::Kind::sent, tapped_);
}

}  // namespace parley::asio_driver
