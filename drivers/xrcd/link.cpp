// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "drivers/xrcd/link.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <new>

#include "base/after.hpp"
#include "drivers/asio/local_socket.hpp"
#include "drivers/clock.hpp"
#include "drivers/local_peer.hpp"
#include "drivers/secure_env.hpp"
#include "drivers/xrcd/place.hpp"

namespace parley::xrc {
namespace {

constexpr Duration between_attempts = std::chrono::milliseconds(20), between_starts = std::chrono::seconds(1);
constexpr Duration longest_sleep = std::chrono::seconds(1);

/// Sets the time limit of recv(2). False: the system refuses.
bool lets_wait(int fd) {
  const timeval longest{std::chrono::duration_cast<std::chrono::seconds>(longest_sleep).count(), 0};
  return ::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &longest, sizeof(longest)) == 0 && ::fcntl(fd, F_SETFL, 0) == 0;
}

/// Reassembles a list.
class ListAssembler {
 public:
  void add(const Item& i) {
    switch (i.what) {
      case Item::What::domain:
        domains_.push_back({.number = i.large[0]});
        if ((i.flags & Item::shared) != 0) domains_.back().key = DomainKey{i.large[1], i.large[2], i.large[3]};
        break;
      case Item::What::member:
        if (domains_.empty()) break;
        domains_.back().members.push_back(
            {.number = i.large[1],
             .process = {.pid = i.small[0], .uid = i.small[1], .start = i.large[2], .command = i.command},
             .registrations = i.small[2],
             .srqs = static_cast<std::uint32_t>(i.large[3] >> 32),
             .events_waiting = static_cast<std::uint32_t>(i.large[3]),
             .events_lost = (i.flags & Item::events_lost) != 0});
        break;
      case Item::What::tgt:
        if (domains_.empty()) break;
        domains_.back().tgts.push_back({.id = {i.small[0], i.large[1]},
                                        .state = i.state,
                                        .why = i.why,
                                        .reason = i.small[1],
                                        .age = Duration(static_cast<std::int64_t>(i.large[3])),
                                        .events = i.large[4]});
        if ((i.flags & Item::has_peer) != 0) domains_.back().tgts.back().peer = Peer{i.large[2], i.small[2]};
        break;
      case Item::What::registrant:
        if (!domains_.empty() && !domains_.back().tgts.empty())
          domains_.back().tgts.back().registrants.push_back(i.large[1]);
        break;
      case Item::What::counter: count(i.small[0], i.large[0]); break;
    }
  }
  Overview take(std::uint32_t epoch) { return {std::move(domains_), counters_, epoch}; }

 private:
  void count(std::uint32_t which, std::uint64_t value) {
    std::uint32_t at = 0;
#define PARLEY_X(name, text) \
  if (which == at++) counters_.name = value;
    PARLEY_XRC_COUNTERS(PARLEY_X)
#undef PARLEY_X
  }
  std::vector<DomainView> domains_;
  Counters counters_;
};

/// Empty: none may be started. A program that has more rights than its user does not search that user's PATH.
std::string program_of(const DomainOptions& options) {
  const char* const named = secure_env("PARLEY_XRCD_PROGRAM");
  const std::string standard = named != nullptr && *named != '\0' ? named : "parley";
  const std::string out = options.program.empty() ? standard : options.program;
  return has_more_rights() && !out.starts_with('/') ? std::string() : out;
}

}  // namespace

BrokerLink::BrokerLink(const DomainOptions& options, const ClientOptions& client)
    : options_(options), client_(client) {}

BrokerLink::~BrokerLink() {
  // In a forked child these are copies; the parent's connection stays.
  if (fd_ >= 0) ::close(fd_);
  if (file_ >= 0) ::close(file_);
}

Result<std::shared_ptr<Link>> BrokerLink::open(const DomainOptions& given, bool member, int file) {
  DomainOptions options = given;
  if (options.socket.empty()) options.socket = default_socket();
  const auto pid = static_cast<std::uint32_t>(::getpid());
  const ClientOptions client{.process = {.pid = pid, .start = start_of(pid), .command = command_of(pid)},
                             .member = member,
                             .shared = file != -1,
                             .create = options.create,
                             .exclusive = options.exclusive,
                             .carrier = options.carrier,
                             .device = options.device,
                             .patience = options.patience};
  std::shared_ptr<BrokerLink> link(new BrokerLink(options, client));
  if (file != -1 && (link->file_ = ::fcntl(file, F_DUPFD_CLOEXEC, 0)) < 0)
    return tl::unexpected(Error(Refusal::bad_descriptor));
  if (!SocketAddress::of(options.socket)) return refused(Refusal::invalid);
  const Instant end = after(clock_now(), options.patience);
  while (link->client_.phase() != Client::Phase::up) {
    if (link->client_.phase() == Client::Phase::refused) {
      // Only briefly: other members may not have registered with a new broker yet.
      if (link->client_.refusal() != Refusal::busy || clock_now() >= end)
        return tl::unexpected(Error(link->client_.refusal()));
      link->hang_up();
      link->client_ = Client(client);
      link->try_at_ = after(clock_now(), between_attempts);
    }
    if (clock_now() >= end && link->foreign_) return tl::unexpected(Error(Refusal::socket_foreign));
    if (clock_now() >= end)
      return tl::unexpected(Error(link->connected_once_ ? Refusal::timed_out : Refusal::no_broker));
    link->turn(end);
  }
  return link;
}

Result<int> BrokerLink::fd() {
  if (!process_.is_own()) return tl::unexpected(Error(Refusal::not_member));
  if (ready_ == nullptr) {
    ready_ = ReadySet::make();
    if (ready_ == nullptr) return fail(Errc::no_space, "epoll and timerfd: no descriptor is left");
    show();
  }
  return ready_->fd();
}

/// Signals on fd() that there is something to wait for.
void BrokerLink::show() {
  if (ready_ == nullptr) return;
  if (fd_ >= 0 && shown_ < 0) {
    (void)ready_->add(fd_);
    shown_ = fd_;
    shown_blocked_ = false;
  }
  if (fd_ >= 0 && blocked_ != shown_blocked_) {
    (void)ready_->change(fd_, blocked_ ? EPOLLIN | EPOLLOUT : EPOLLIN);
    shown_blocked_ = blocked_;
  }
  const bool now = client_.has_events() || unread_ != 0 || cut_off_ || client_.phase() == Client::Phase::refused;
  const Instant due = fd_ < 0 ? std::min(try_at_, client_.next_deadline()) : client_.next_deadline();
  ready_->arm(clock_now(), now ? Instant{} : due);
}

/// Earlier answers belong to calls that had timed out.
std::optional<Answer> BrokerLink::answer_to(std::uint64_t number) {
  while (const auto answer = client_.poll_answer())
    if (answer->number == number) return answer;
  return std::nullopt;
}

Result<Answer> BrokerLink::call(const Request& request) {
  if (!process_.is_own()) return tl::unexpected(Error(Refusal::not_member));
  Instant now = clock_now();
  const Instant end = after(now, options_.patience);
  for (; client_.has_abandoned() && now < end; now = clock_now()) turn(end);
  const auto number = client_.ask(now, request);
  if (!number) return tl::unexpected(number.error());
  std::optional<Answer> answer;
  try {
    for (client_.handle_deadline(now); !(answer = answer_to(*number));) turn(client_.next_deadline());
  } catch (const std::bad_alloc&) {
    answer = answer_to(*number);  // there may have been no memory for the answers after it
    client_.abandon(*number);
    if (!answer) throw;
  }
  show();
  if (answer->refusal != Refusal::none) return tl::unexpected(Error(answer->refusal));
  return *answer;
}

Result<std::optional<Event>> BrokerLink::wait_event(Duration longest) {
  if (!process_.is_own()) return tl::unexpected(Error(Refusal::not_member));
  const Instant end = after(clock_now(), longest);
  for (;;) {
    auto event = client_.poll_event();
    if (!event && client_.phase() == Client::Phase::refused) return tl::unexpected(Error(client_.refusal()));
    if (!event) {
      turn(end);
      event = client_.poll_event();
    }
    if (!event && clock_now() < end) continue;
    show();
    return event;
  }
}

Result<Overview> BrokerLink::overview() {
  const auto answer = call({.ask = RequestType::list});
  if (!answer) return tl::unexpected(answer.error());
  ListAssembler gathering;
  while (const auto item = client_.poll_item()) gathering.add(*item);
  return gathering.take(client_.epoch());
}

// ---- the socket --------------------------------------------------------------------------------------------------

/// Waits for the broker until then, and does the pending work.
void BrokerLink::turn(Instant until) {
  const Instant now = clock_now();
  if (cut_off_) client_.disconnected();
  cut_off_ = false;
  if (fd_ < 0 && now >= try_at_ && client_.phase() != Client::Phase::refused) connect(now);
  if (fd_ >= 0) send();
  if (fd_ < 0) until = std::min(until, try_at_);
  await(std::min(until, client_.next_deadline()));
  client_.handle_deadline(clock_now());
  if (fd_ >= 0) send();
}

/// Waits for messages of the broker, and for room to send.
void BrokerLink::await(Instant until) {
  const Duration wait = unread_ != 0 ? Duration{} : std::max(until - clock_now(), Duration{});
  // One call instead of three, if the socket's own time limit is shorter. Later messages are not read.
  if (fd_ >= 0 && !blocked_ && wait >= longest_sleep) {
    (void)receive_one(0);
    return;
  }
  const auto milliseconds = std::chrono::ceil<std::chrono::milliseconds>(std::min(wait, longest_sleep)).count();
  pollfd waits{fd_, static_cast<short>(blocked_ ? POLLIN | POLLOUT : POLLIN), 0};
  const int ready = ::poll(&waits, fd_ >= 0 ? 1 : 0, static_cast<int>(milliseconds));
  if (ready > 0 && (waits.revents & POLLOUT) != 0) blocked_ = false;
  if (ready > 0 || unread_ != 0) receive();
}

void BrokerLink::connect(Instant now) {
  try_at_ = after(now, between_attempts);
  const auto address = SocketAddress::of(options_.socket);
  const int fd = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0 || !address) return;
  if (address->connect(fd) == 0) {
    foreign_ = !is_own_or_root(fd);
    if (foreign_ || !lets_wait(fd)) {
      ::close(fd);
      return;
    }
    try {
      client_.connected(now);
    } catch (...) {
      ::close(fd);
      throw;
    }
    fd_ = fd;
    connected_once_ = true;
    return;
  }
  const int error = errno;
  ::close(fd);
  struct stat s {};
  const bool other_file = ::lstat(options_.socket.c_str(), &s) == 0 && !S_ISSOCK(s.st_mode);
  foreign_ = foreign_ || other_file || error == EACCES || error == EPROTOTYPE;
  const bool absent = error == ENOENT || error == ECONNREFUSED;
  if (absent && options_.start && now >= started_at_) {
    started_at_ = after(now, between_starts);
    start_broker();
  }
}

void BrokerLink::send() {
  while (!blocked_ && fd_ >= 0) {
    if (!unsent_) unsent_ = client_.poll_transmit();
    if (!unsent_) return;
    const int file = unsent_->with_file ? file_ : -1;
    if (send_message(fd_, unsent_->octets, file, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0) {
      unsent_.reset();
    } else if (errno == EAGAIN || errno == ENOBUFS) {
      blocked_ = true;
    } else {
      // Its last message may still be unread, such as the reason for closing.
      receive();
      if (fd_ >= 0) hang_up();
    }
  }
}

/// False: nothing to read now.
bool BrokerLink::receive_one(int flags) {
  if (fd_ < 0) return false;
  if (unread_ == 0) {
    const ssize_t n = ::recv(fd_, octets_.data(), octets_.size(), flags);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return false;
    // It died before it read everything that was sent to it. Its own messages follow this error.
    if (n < 0 && errno == ECONNRESET) return true;
    if (n <= 0) {
      hang_up();
      return false;
    }
    unread_ = static_cast<std::size_t>(n);
  }
  client_.handle_message(clock_now(), ConstBytes(octets_.data(), unread_));
  unread_ = 0;
  return true;
}

void BrokerLink::receive() {
  while (receive_one(MSG_DONTWAIT)) {
  }
}

void BrokerLink::hang_up() {
  // A forked child may still have it open. Both processes share the set, which belongs to the parent.
  if (shown_ >= 0 && process_.is_own()) (void)ready_->remove(shown_);
  if (fd_ >= 0) ::close(fd_);
  fd_ = shown_ = -1;
  blocked_ = false;
  unsent_.reset();
  unread_ = 0;
  cut_off_ = true;
  client_.disconnected();
  cut_off_ = false;
}

/// Reparented, so that it neither ends with this process nor becomes its zombie. If several are started at once, one
/// survives.
void BrokerLink::start_broker() const {
  const std::string program = program_of(options_);
  if (program.empty()) return;
  const std::array<const char*, 7> words{program.c_str(), "xrcd", "--socket", options_.socket.c_str(),
                                         "--idle",        "10s",  nullptr};
  const pid_t child = ::fork();
  if (child < 0) return;
  if (child > 0) {
    while (::waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
    }
    return;
  }
  if (::fork() != 0) ::_exit(0);
  ::setsid();
  const int nothing = ::open("/dev/null", O_RDWR);
  for (int fd = 0; fd <= 2; ++fd) ::dup2(nothing, fd);
  ::close_range(3, ~0U, 0);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  (void)!::chdir("/");
  // Sets these rights permanently, so that the user cannot end it, and passes nothing of that user's environment.
  if (has_more_rights()) {
    std::array<char*, 1> nothing_set{nullptr};
    const bool lasting = ::setresgid(::getegid(), ::getegid(), ::getegid()) == 0 &&
                         ::setresuid(::geteuid(), ::geteuid(), ::geteuid()) == 0;
    if (lasting) ::execve(words[0], const_cast<char* const*>(words.data()), nothing_set.data());
    ::_exit(127);
  }
  ::execvp(words[0], const_cast<char* const*>(words.data()));
  ::_exit(127);
}

}  // namespace parley::xrc
