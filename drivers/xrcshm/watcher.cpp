// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "drivers/xrcshm/watcher.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/syscall.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <new>

#include <fmt/format.h>

#include "drivers/clock.hpp"
#include "drivers/xrcshm/quiet_thread.hpp"

namespace parley::xrc {
namespace {

Result<std::vector<MemberView>> members_of(Segment& segment) {
  return segment.enter(clock_now(), Arena::Kind::lets_go, [](SharedRegistry& r) { return std::as_const(r).members(); });
}

/// R5. Their objects are removed before another process gets the lock, or by the next one that gets it.
Result<void> bury(Segment& segment, const std::vector<std::uint64_t>& dead) {
  const Instant now = clock_now();
  const std::uint32_t epoch = segment.epoch();
  return segment.enter(now, Arena::Kind::lets_go, [&](SharedRegistry& r) {
    for (const std::uint64_t number : dead) r.dead(now, {epoch, number});
  });
}

}  // namespace

ProcessWatch::ProcessWatch(const Process& process) {
  fd_ = static_cast<int>(::syscall(SYS_pidfd_open, static_cast<pid_t>(process.pid), 0));
  if (fd_ < 0 && errno == ESRCH) wrong_ = true;
  // Read after the descriptor was opened: if it matches, the descriptor belongs to that process.
  const std::uint64_t start = wrong_ ? 0 : start_of(process.pid);
  if (start != 0 && process.start != 0) wrong_ = start != process.start;
}

ProcessWatch::~ProcessWatch() {
  if (fd_ >= 0) ::close(fd_);
}

bool ProcessWatch::is_dead() const { return wrong_ || (fd_ >= 0 && has_died(fd_)); }

Result<void> sweep(Segment& segment, std::uint64_t own) {
  const auto members = members_of(segment);
  if (!members) return tl::unexpected(members.error());
  std::vector<std::uint64_t> dead;
  for (const MemberView& m : *members)
    if (m.number != own && (ProcessWatch(m.process).is_dead() || !segment.is_held(m.number))) dead.push_back(m.number);
  return dead.empty() ? Result<void>() : bury(segment, dead);
}

// ---- the thread --------------------------------------------------------------------------------------------------

Watcher::Watcher(std::shared_ptr<Segment> segment, std::uint64_t member)
    : segment_(std::move(segment)),
      member_(member),
      stop_(::eventfd(0, EFD_CLOEXEC)),
      notices_(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK)) {}

std::unique_ptr<Watcher> Watcher::make(std::shared_ptr<Segment> segment, std::uint64_t member) {
  std::unique_ptr<Watcher> made(new Watcher(std::move(segment), member));
  if (made->stop_.fd < 0) return nullptr;
  made->hears_ = made->notices_.fd >= 0 && ::inotify_add_watch(made->notices_.fd, made->segment_->path().c_str(),
                                                               IN_ATTRIB | IN_CLOSE_WRITE) >= 0;
  made->thread_ = quiet_thread([watcher = made.get()] { watcher->run(); });
  return made->thread_.joinable() ? std::move(made) : nullptr;
}

Watcher::~Watcher() {
  if (!thread_.joinable()) return;
  (void)::eventfd_write(stop_.fd, 1);
  thread_.join();
}

void Watcher::forget() {
  if (thread_.joinable()) thread_.detach();
}

void Watcher::run() {
  constexpr int moment = 5, moments = 80, second = 1000;  // ms
  Wakeup heard{.newcomer = true};
  for (int soon = 0;;) {
    bool informed = hears_;
    try {
      // Most notifications are about members that others watch: these need no lock.
      if ((heard.newcomer || !dead().empty()) && !look()) return;
    } catch (const std::bad_alloc&) {
      informed = false;
      watched_.clear();
    }
    // The close of a descriptor is reported shortly before its lock is released; on a busy machine that may take long.
    soon = heard.closed ? moment : soon < moments ? 2 * soon : 0;
    const int longest = informed ? -1 : second;
    heard = wait(soon != 0 ? soon : longest);
    if (heard.stop) return;
    heard.newcomer = heard.newcomer || !informed;
  }
}

std::vector<std::uint64_t> Watcher::dead() const {
  std::vector<std::uint64_t> out;
  for (const auto& [number, witness] : watched_)
    if (witness.is_dead() || !segment_->is_held(number)) out.push_back(number);
  return out;
}

/// Finds the dead among the members that it watches, and then among those after them. False: there is nothing to watch.
bool Watcher::look() {
  for (;;) {
    const auto members = members_of(*segment_);
    if (!members) return members.error() == make_error_code(Refusal::timed_out);
    choose(*members);
    const std::vector<std::uint64_t> found = dead();
    if (found.empty()) return true;
    (void)bury(*segment_, found);
  }
}

void Watcher::choose(const std::vector<MemberView>& members) {
  std::map<std::uint64_t, const Process*> wanted;
  const auto own = std::find_if(members.begin(), members.end(), [this](auto& m) { return m.number > member_; });
  const auto first = static_cast<std::size_t>(own - members.begin());
  for (std::size_t i = 0; i < std::min(behind, members.size()); ++i) {
    const MemberView& m = members[(first + i) % members.size()];
    if (m.number != member_) wanted[m.number] = &m.process;
  }
  // Members for which there was no descriptor are tried again.
  std::erase_if(watched_, [&wanted](const auto& w) { return !wanted.contains(w.first) || w.second.fd() < 0; });
  for (const auto& [number, process] : wanted)
    if (!watched_.contains(number)) watched_.emplace(number, ProcessWatch(*process));
}

/// Waits until something may have changed, at most this many milliseconds; negative: no limit.
Watcher::Wakeup Watcher::wait(int longest) const {
  std::array<pollfd, 2 + behind> fds{{{stop_.fd, POLLIN, 0}, {notices_.fd, POLLIN, 0}}};
  nfds_t count = 2;
  for (const auto& [number, witness] : watched_) fds.at(count++) = {witness.fd(), POLLIN, 0};
  (void)::poll(fds.data(), count, longest);
  Wakeup out{.stop = fds[0].revents != 0};
  alignas(inotify_event) std::array<char, 4096> octets;
  for (ssize_t n = 0; notices_.fd >= 0 && (n = ::read(notices_.fd, octets.data(), octets.size())) > 0;)
    for (std::size_t at = 0; at + sizeof(inotify_event) <= static_cast<std::size_t>(n);) {
      inotify_event event{};
      std::memcpy(&event, octets.data() + at, sizeof(event));
      at += sizeof(event) + event.len;
      out.newcomer = out.newcomer || (event.mask & (IN_ATTRIB | IN_Q_OVERFLOW)) != 0;
      out.closed = out.closed || (event.mask & IN_CLOSE_WRITE) != 0;
    }
  return out;
}

}  // namespace parley::xrc
