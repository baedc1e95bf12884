// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "drivers/xrcshm/bell_waiter.hpp"

#include <sys/eventfd.h>

#include <utility>

#include "drivers/xrcshm/quiet_thread.hpp"

namespace parley::xrc {

BellWaiter::BellWaiter(std::shared_ptr<Segment> segment, std::uint64_t member)
    : segment_(std::move(segment)),
      member_(member),
      rung_{::eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK)},  // the initial state is unread
      ready_(ReadySet::make()) {}

std::unique_ptr<BellWaiter> BellWaiter::make(std::shared_ptr<Segment> segment, std::uint64_t member) {
  std::unique_ptr<BellWaiter> made(new BellWaiter(std::move(segment), member));
  if (made->rung_.fd < 0 || made->ready_ == nullptr || !made->ready_->add(made->rung_.fd)) return nullptr;
  made->thread_ = quiet_thread([waiter = made.get()] { waiter->run(); });
  return made->thread_.joinable() ? std::move(made) : nullptr;
}

BellWaiter::~BellWaiter() {
  if (!thread_.joinable()) return;
  stop_ = true;
  segment_->nudge(member_);
  thread_.join();
}

void BellWaiter::forget() {
  if (thread_.joinable()) thread_.detach();
}

void BellWaiter::run() {
  std::uint32_t seen = segment_->bell(member_);
  (void)::eventfd_write(rung_.fd, 1);  // for earlier wake-ups
  while (!stop_) {
    segment_->wait(member_, seen, never);
    const std::uint32_t now = segment_->bell(member_);
    if (std::exchange(seen, now) != now) (void)::eventfd_write(rung_.fd, 1);
  }
}

void BellWaiter::quiet() {
  eventfd_t rings = 0;
  (void)::eventfd_read(rung_.fd, &rings);
}

void BellWaiter::show(Instant now, bool more, Instant due) {
  if (more) (void)::eventfd_write(rung_.fd, 1);
  ready_->arm(now, due);
}

}  // namespace parley::xrc
