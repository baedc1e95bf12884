// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "preload/port_member.hpp"

#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <fcntl.h>
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <random>

#include "drivers/asio/packet_set.hpp"
#include "drivers/clock.hpp"
#include "preload/objects.hpp"
#include "preload/port_start.hpp"

namespace parley::preload {

namespace {

using namespace std::chrono_literals;

constexpr std::size_t descriptors_spare = 64;  // of the limit of open files, for the program
constexpr auto answer_within = 10s;            // of the keeper, to a join; more than Keeper::patience
constexpr auto claim_within = 10s;
constexpr auto leave_within = 200ms;
constexpr auto between_recoveries = 100ms;

/// False: after `within` there is still no message.
bool wait_readable(int fd, std::chrono::milliseconds within) {
  pollfd ready{.fd = fd, .events = POLLIN, .revents = 0};
  const Instant end = clock_now() + within;
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(std::max(end - clock_now(), Duration{}));
    const int n = ::poll(&ready, 1, static_cast<int>(left.count()));
    if (n > 0) return true;
    if (n == 0 || errno != EINTR) return false;
  }
}

Error refused_because(const port::Refused& refused, const std::vector<Address>& addresses) {
  switch (refused.why) {
    case port::Refusal::system:
      return asio_driver::port_in_use(addresses.at(std::min<std::size_t>(refused.position, addresses.size() - 1)),
                                      false);
    case port::Refusal::full:
      return {Errc::no_space, "{a} processes share this address already, which is the most", port::prefix_max};
    default: return {Errc::address_in_use, "another process has taken this one's place at the address"};
  }
}

/// Enough for the sockets of a small group at each address, and for the program.
bool has_descriptors(std::size_t addresses) {
  rlimit limit{};
  return ::getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur >= descriptors_spare + 8 + 8 * addresses;
}

}  // namespace

PortMember::PortMember(const std::vector<Address>& addresses)
    : addresses_(addresses),
      will_(::memfd_create("parley-will", MFD_CLOEXEC)),
      stop_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      sockets_(addresses.size()) {
  constexpr std::size_t size = port::will_record_size * port::will_records_max;
  if (will_ < 0 || ::ftruncate(will_, size) != 0) return;
  void* const memory = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, will_, 0);
  if (memory == MAP_FAILED) return;
  (void)::madvise(memory, size, MADV_DONTFORK);
  will_memory_ = MutBytes(static_cast<std::uint8_t*>(memory), size);
}

Result<std::unique_ptr<PortMember>> PortMember::join(const std::vector<Address>& addresses) {
  if (addresses.empty()) return nullptr;
  const auto alone = [](const std::string& why) {
    note("no other process can use these addresses at the same time", why);
    return Result<std::unique_ptr<PortMember>>(nullptr);
  };
  if (addresses.size() > port::addresses_max) return alone("they are too many");
  if (!has_descriptors(addresses.size())) return alone("the limit of open files is low (ulimit -n)");
  std::unique_ptr<PortMember> made(new PortMember(addresses));
  if (made->will_memory_.empty() || made->stop_.fd < 0) return alone("the system gives no descriptor");
  std::string why;
  for (int attempt = 0; attempt < 3; ++attempt) {  // a keeper may be just ending
    const int fd = connect_keeper(why);
    if (fd < 0) return alone(why);
    made->keeper_ = fd;
    std::string impossible;
    const auto entered = made->enter(fd, impossible);
    if (!entered) return tl::unexpected(entered.error());
    if (*entered) {
      sigset_t all, before;  // the program's own threads handle signals
      ::sigfillset(&all);
      ::pthread_sigmask(SIG_SETMASK, &all, &before);
      made->thread_ = std::thread([port = made.get()] { port->run(); });
      (void)::pthread_setname_np(made->thread_.native_handle(), "parley-port");
      ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
      return made;
    }
    made->give_up(fd);
    if (!impossible.empty()) return alone(impossible);
    why = "parley-port does not answer";
  }
  return alone(why);
}

/// Leaves a keeper that did not answer as it should, so that its sockets are free for this process alone.
void PortMember::give_up(int fd) {
  for (auto& group : sockets_) {
    for (const int socket : group)
      if (socket >= 0) ::close(socket);
    group.clear();
  }
  (void)port::send_with(fd, port::encode(port::Leave{}), {});
  for (port::Received message; wait_readable(fd, leave_within) && port::receive_with(fd, message) > 0;)
    if (const auto decoded = port::decode_from_keeper(message.octets);
        decoded && std::holds_alternative<port::Left>(*decoded))
      break;
  ::close(std::exchange(keeper_, -1));
}

bool PortMember::has_all() const {
  return std::all_of(sockets_.begin(), sockets_.end(),
                     [&](const auto& group) { return group.size() > prefix_ && group[prefix_] >= 0; });
}

/// True: this process is a member. False: the keeper does not answer as it should, or the system has not what it needs,
/// for the reason in `impossible`.
Result<bool> PortMember::enter(int fd, std::string& impossible) {
  const Bytes join = port::encode(port::Join{.prefix = 0, .addresses = addresses_});
  if (port::send_with(fd, join, {&will_, 1}) < 0) return false;
  for (;;) {
    port::Received message;
    if (!wait_readable(fd, answer_within)) return false;
    const ssize_t size = port::receive_with(fd, message);
    if (size < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (size <= 0) return false;
    const auto decoded = port::decode_from_keeper(message.octets);
    if (!decoded) return false;
    if (const auto* const sockets = std::get_if<port::Sockets>(&*decoded)) {
      keep(*sockets, message.files);
    } else if (const auto* const refused = std::get_if<port::Refused>(&*decoded)) {
      if (refused->why != port::Refusal::system || refused->error == EADDRINUSE)
        return tl::unexpected(refused_because(*refused, addresses_));
      if (refused->error == EADDRNOTAVAIL) return tl::unexpected(Error({EADDRNOTAVAIL, std::generic_category()}));
      impossible = std::string("the system cannot share the port: ") + std::strerror(refused->error);
      return false;
    } else if (const auto* const joined = std::get_if<port::Joined>(&*decoded)) {
      prefix_ = joined->prefix;
      first_qpn_ = std::uint32_t{prefix_} << 16 | (std::random_device{}() & 0xFFFF);
      return has_all();
    }
  }
}

/// Keeps as many of the other members' sockets as leave the program most of its descriptors: from 0 on without a gap, so
/// that the system does not renumber them when the keeper ends.
void PortMember::keep(const port::Sockets& at, std::vector<int>& files) {
  if (at.position >= sockets_.size()) return;
  auto& group = sockets_[at.position];
  rlimit limit{};
  (void)::getrlimit(RLIMIT_NOFILE, &limit);
  const std::size_t copies = std::max<std::size_t>(8, limit.rlim_cur / 4 / addresses_.size());
  for (std::size_t i = 0; i < files.size(); ++i) {
    const std::size_t index = at.first + i;
    if (index > port::prefix_max) break;
    if (prefix_ != 0 && index != prefix_ && index >= copies) continue;
    if (group.size() <= index) group.resize(index + 1, -1);
    if (group[index] < 0) std::swap(group[index], files[i]);
  }
  std::erase(files, -1);
}

Result<int> PortMember::open(const Address& local) {
  const std::scoped_lock hold(lock_);
  const auto at = std::find(addresses_.begin(), addresses_.end(), local);
  if (at == addresses_.end()) return fail(Errc::bad_address);
  const int own = sockets_[static_cast<std::size_t>(at - addresses_.begin())][prefix_];
  const int fd = ::fcntl(own, F_DUPFD_CLOEXEC, 0);
  if (fd < 0) return tl::unexpected(Error(std::error_code(errno, std::generic_category())));
  return fd;
}

// ---- services and the will ---------------------------------------------------------------------------------------

int PortMember::claim(std::uint64_t service, const std::vector<std::uint8_t>& gids) {
  const std::scoped_lock hold(lock_);
  const auto at = asked_.find(std::this_thread::get_id());
  if (at == asked_.end()) {
    ask(asked_[std::this_thread::get_id()] = {.service = service, .positions = gids});
    return undecided;
  }
  if (!at->second.result) return undecided;
  const int result = *at->second.result;
  if (result == 0) claims_.emplace(service, gids);
  asked_.erase(at);
  return result;
}

void PortMember::ask(Asked& asked) {
  asked.request = ++last_request_;
  asked.keeper = keepers_;
  const port::Claim claim{.request = asked.request, .service = asked.service, .positions = asked.positions};
  if (keeper_ >= 0) (void)port::send_with(keeper_, port::encode(claim), {});
}

void PortMember::answered(const port::Answer& answer) {
  for (auto& [thread, asked] : asked_) {
    if (asked.request != answer.request) continue;
    asked.result = answer.result == port::ClaimResult::yours   ? 0
                   : answer.result == port::ClaimResult::taken ? EADDRINUSE
                                                               : ENOMEM;
  }
}

void PortMember::settle_claim() {
  std::unique_lock hold(lock_);
  const auto at = asked_.find(std::this_thread::get_id());
  if (at == asked_.end()) return;
  int before = 0;
  (void)::pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
  Asked& asked = at->second;  // only this thread erases it
  const auto end = std::chrono::steady_clock::now() + claim_within;
  while (!asked.result) {
    const bool told = news_.wait_until(
        hold, end, [&] { return left_ || asked.result || (keeper_ >= 0 && keepers_ != asked.keeper); });
    if (asked.result) break;
    if (told && !left_) {
      ask(asked);  // of a new keeper
      continue;
    }
    asked.result = ENOMEM;
    send_release(asked.service, asked.positions);
  }
  (void)::pthread_setcancelstate(before, nullptr);
}

/// The keeper ignores the release of another member's service.
void PortMember::send_release(std::uint64_t service, const port::Positions& positions) {
  const port::Release release{.service = service, .positions = positions};
  if (keeper_ >= 0) (void)port::send_with(keeper_, port::encode(release), {});
}

void PortMember::drop_claim() noexcept try {
  const std::scoped_lock hold(lock_);
  const auto at = asked_.find(std::this_thread::get_id());
  if (at == asked_.end()) return;
  if (!at->second.result || at->second.result == 0) send_release(at->second.service, at->second.positions);
  asked_.erase(at);
} catch (...) {  // out of memory: the service stays this process's
}

void PortMember::release(std::uint64_t service, const std::vector<std::uint8_t>& gids) noexcept try {
  const std::scoped_lock hold(lock_);
  const auto [from, end] = claims_.equal_range(service);
  const auto at = std::find_if(from, end, [&](const auto& claim) { return claim.second == gids; });
  if (at == end) return;
  claims_.erase(at);
  send_release(service, gids);
} catch (...) {  // out of memory: the service stays this process's
}

void PortMember::sent(const Gid& local, const Gid& remote, ConstBytes mad) {
  book_.sent(local, remote, mad);
  write_will();
}

void PortMember::received(const Gid& local, const Gid& remote, ConstBytes mad) {
  book_.received(local, remote, mad);
  write_will();
}

void PortMember::write_will() {
  while (const auto write = book_.poll_write())
    std::copy(write->octets.begin(), write->octets.end(),
              will_memory_.begin() + static_cast<std::ptrdiff_t>(write->offset));
}

// ---- the thread --------------------------------------------------------------------------------------------------

void PortMember::run() {
  for (;;) {
    pollfd fds[2] = {{.fd = stop_.fd, .events = POLLIN, .revents = 0}, {.fd = keeper_, .events = POLLIN, .revents = 0}};
    const int timeout = keeper_ >= 0 ? -1 : static_cast<int>(std::chrono::milliseconds(between_recoveries).count());
    if (::poll(fds, 2, timeout) < 0 && errno != EINTR) return;
    if (fds[0].revents != 0) return;
    if (keeper_ >= 0 && (fds[1].revents == 0 || serve())) continue;
    if (closed_ || !recover()) return;
  }
}

/// The program has closed this library's descriptors, as daemons close all. Their numbers may be other files' by now.
void PortMember::give_up_descriptors() {
  const std::scoped_lock hold(lock_);
  keeper_ = will_ = -1;
  sockets_.clear();
  closed_ = left_ = leaving_ = true;
  news_.notify_all();
}

/// The engine goes on without sockets, so that its connections end by their retries.
void PortMember::lose() {
  note("this process was stopped for too long", "another process has its place at the addresses");
  lost_ = true;
  const std::scoped_lock hold(lock_);
  close_sockets();
  closed_ = left_ = leaving_ = true;
  news_.notify_all();
}

/// False: the keeper has ended.
bool PortMember::serve() {
  port::Received message;
  const ssize_t size = port::receive_with(keeper_, message);
  if (size < 0 && (errno == EINTR || errno == EAGAIN)) return true;
  if (size < 0 && (errno == EBADF || errno == ENOTSOCK)) return give_up_descriptors(), false;
  if (size <= 0) return false;
  const auto decoded = port::decode_from_keeper(message.octets);
  if (!decoded) return false;
  const std::scoped_lock hold(lock_);
  if (const auto* const sockets = std::get_if<port::Sockets>(&*decoded)) {
    keep(*sockets, message.files);
  } else if (const auto* const answer = std::get_if<port::Answer>(&*decoded)) {
    answered(*answer);
  } else if (std::holds_alternative<port::Left>(*decoded)) {
    left_ = true;
  }
  news_.notify_all();
  return true;
}

/// The keeper has ended: finds or starts the next one, and offers it the sockets. False: this process has left.
bool PortMember::recover() {
  {
    const std::scoped_lock hold(lock_);
    if (keeper_ >= 0) ::close(std::exchange(keeper_, -1));
    if (leaving_) left_ = true;
    news_.notify_all();
    if (leaving_) return false;
  }
  std::string why;
  const int fd = connect_keeper(why);
  if (fd < 0) return true;  // tried again later
  if (rejoin(fd)) return true;
  ::close(fd);
  return !closed_;
}

/// Gives the keeper copies of all sockets. Linux bounds how many a user may have on the way (ETOOMANYREFS).
bool PortMember::offer(int fd) {
  const Instant end = clock_now() + answer_within;
  for (std::size_t i = 0; i < addresses_.size(); ++i)
    for (std::size_t at = 0;;) {
      {
        const std::scoped_lock hold(lock_);
        if (leaving_ || i >= sockets_.size()) return false;
        const std::vector<int>& group = sockets_[i];
        while (at < group.size() && group[at] < 0) ++at;
        if (at == group.size()) break;
        const port::Offer offer{.position = static_cast<std::uint8_t>(i), .first = static_cast<std::uint8_t>(at)};
        std::vector<int> files;
        for (std::size_t n = at; n < group.size() && group[n] >= 0 && files.size() < port::sockets_at_once; ++n)
          files.push_back(group[n]);
        if (port::send_with(fd, port::encode(offer), files) >= 0) {
          at += files.size();
          continue;
        }
        if ((errno != EAGAIN && errno != ETOOMANYREFS) || clock_now() >= end) return false;
      }
      std::this_thread::sleep_for(2ms);
    }
  return true;
}

bool PortMember::rejoin(int fd) {
  {
    const std::scoped_lock hold(lock_);
    if (port::send_with(fd, port::encode(port::Join{.prefix = prefix_, .addresses = addresses_}), {&will_, 1}) < 0)
      return false;
  }
  if (!offer(fd) || port::send_with(fd, port::encode(port::Offered{}), {}) < 0) return false;
  port::Received message;
  if (!wait_readable(fd, answer_within) || port::receive_with(fd, message) <= 0) return false;
  const auto decoded = port::decode_from_keeper(message.octets);
  if (decoded && std::holds_alternative<port::Refused>(*decoded)) return lose(), false;
  if (!decoded || !std::holds_alternative<port::Joined>(*decoded)) return false;
  const std::scoped_lock hold(lock_);
  for (const auto& [service, positions] : claims_)
    (void)port::send_with(fd, port::encode(port::Claim{.request = 0, .service = service, .positions = positions}), {});
  keeper_ = fd;
  ++keepers_;
  news_.notify_all();
  return true;
}

// ---- the end -----------------------------------------------------------------------------------------------------

void PortMember::leave() noexcept try {
  std::unique_lock hold(lock_, std::defer_lock);
  const auto end = std::chrono::steady_clock::now() + leave_within;
  while (!hold.try_lock() && std::chrono::steady_clock::now() < end) std::this_thread::sleep_for(100us);
  if (!hold || leaving_) return;
  leaving_ = true;
  close_sockets();
  if (keeper_ >= 0 && port::send_with(keeper_, port::encode(port::Leave{}), {}) >= 0)
    (void)news_.wait_until(hold, end, [&] { return left_; });
  (void)::eventfd_write(stop_.fd, 1);
} catch (...) {  // the keeper sees the end of the connection instead
}

void PortMember::close_sockets() noexcept {
  for (auto& group : sockets_)
    for (int& fd : group)
      if (fd >= 0) ::close(std::exchange(fd, -1));
}

void PortMember::close_all() noexcept {
  close_sockets();
  if (keeper_ >= 0) ::close(std::exchange(keeper_, -1));
  if (will_ >= 0) ::close(std::exchange(will_, -1));
}

PortMember::~PortMember() {
  if (thread_.joinable()) {
    leave();
    thread_.join();
  }
  close_all();
  if (!will_memory_.empty()) ::munmap(will_memory_.data(), will_memory_.size());
}

void PortMember::after_fork(bool in_child) noexcept {
  if (in_child) close_all();
  lock_.unlock();
}

}  // namespace parley::preload
