// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// A descriptor for the caller's own loop: a thread sleeps on the bell of a member of a shared registry, and makes the
// descriptor readable.
#pragma once
#include <atomic>
#include <memory>
#include <thread>

#include "drivers/ready_set.hpp"
#include "drivers/xrcshm/segment.hpp"

namespace parley::xrc {

class BellWaiter {
 public:
  /// Null: no descriptor or thread is available.
  static std::unique_ptr<BellWaiter> make(std::shared_ptr<Segment> segment, std::uint64_t member);
  ~BellWaiter();
  BellWaiter(const BellWaiter&) = delete;
  BellWaiter& operator=(const BellWaiter&) = delete;

  int fd() const { return ready_->fd(); }
  /// Not readable until the bell rings again: call it before checking for events.
  void quiet();
  /// After checking: whether there may be more events, and the next deadline.
  void show(Instant now, bool more, Instant due);
  /// In a forked child, where the thread does not exist.
  void forget();

 private:
  BellWaiter(std::shared_ptr<Segment> segment, std::uint64_t member);
  void run();

  std::shared_ptr<Segment> segment_;
  std::uint64_t member_;
  asio_driver::Descriptor rung_;  // an eventfd
  std::unique_ptr<ReadySet> ready_;
  std::atomic<bool> stop_ = false;
  std::thread thread_;
};

}  // namespace parley::xrc
