// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// One descriptor that represents several others and a deadline, so that a waiting caller needs only this one.
#pragma once
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <memory>

#include "drivers/asio/descriptor.hpp"
#include "drivers/clock.hpp"

namespace parley {

class ReadySet {
 public:
  /// Null: no descriptor is available.
  static std::unique_ptr<ReadySet> make() {
    std::unique_ptr<ReadySet> set(new ReadySet);
    return set->fd() >= 0 && set->timer_.fd >= 0 && set->watch(set->timer_.fd, EPOLLIN, EPOLL_CTL_ADD) ? std::move(set)
                                                                                                       : nullptr;
  }
  int fd() const { return set_.fd; }
  /// Until it is removed, or closed by all processes that have it. False: the system refuses.
  bool add(int fd) { return watch(fd, EPOLLIN, EPOLL_CTL_ADD); }
  bool remove(int fd) { return watch(fd, 0, EPOLL_CTL_DEL); }
  /// Changes the events to wait for: EPOLLIN, EPOLLOUT.
  bool change(int fd, std::uint32_t events) { return watch(fd, events, EPOLL_CTL_MOD); }
  /// It becomes readable at that time, until this is called with a later time.
  void arm(Instant now, Instant at) {
    if (at == armed_ || (at <= now && armed_ <= now)) return;
    armed_ = at;
    itimerspec spec{};  // all zero: off
    if (at != never) spec.it_value = timespec_of(std::max(at - now, Duration(1)));
    ::timerfd_settime(timer_.fd, 0, &spec, nullptr);
  }

 private:
  ReadySet() = default;
  bool watch(int fd, std::uint32_t events, int what) {
    epoll_event event{};
    event.events = events;
    return ::epoll_ctl(set_.fd, what, fd, &event) == 0;
  }

  asio_driver::Descriptor set_{::epoll_create1(EPOLL_CLOEXEC)};
  asio_driver::Descriptor timer_{::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK)};
  Instant armed_ = never;
};

}  // namespace parley
