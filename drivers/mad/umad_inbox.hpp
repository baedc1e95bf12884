// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Datagrams that one thread reads and another takes, which waits for a descriptor. ibsim's preloaded library returns
// fake descriptors: neither epoll nor a second descriptor in poll() can wait for them.
#pragma once
#include <sys/eventfd.h>

#include <atomic>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "drivers/asio/descriptor.hpp"
#include "parley/bytes.hpp"

namespace parley::mad_driver {

class UmadInbox {
 public:
  /// `read` waits at most a tenth of a second for a datagram with its umad header, in a separate thread.
  explicit UmadInbox(std::function<std::optional<Bytes>()> read)
      : event_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)), thread_([this, read = std::move(read)] { serve(read); }) {}
  ~UmadInbox() {
    stop_ = true;
    thread_.join();
  }
  UmadInbox(const UmadInbox&) = delete;
  UmadInbox& operator=(const UmadInbox&) = delete;

  int fd() const { return event_.fd; }
  std::optional<Bytes> take() {
    const std::lock_guard lock(mutex_);
    if (waiting_.empty()) {
      eventfd_t count = 0;
      static_cast<void>(::eventfd_read(event_.fd, &count));
      return std::nullopt;
    }
    std::optional<Bytes> out(std::move(waiting_.front()));
    waiting_.pop_front();
    return out;
  }

 private:
  static constexpr std::size_t waiting_max = 4096;  // beyond it datagrams are dropped, as on the wire

  void serve(const std::function<std::optional<Bytes>()>& read) {
    while (!stop_) {
      auto one = read();
      if (!one) continue;
      const std::lock_guard lock(mutex_);
      if (waiting_.size() < waiting_max) waiting_.push_back(std::move(*one));
      static_cast<void>(::eventfd_write(event_.fd, 1));
    }
  }

  asio_driver::Descriptor event_;
  std::mutex mutex_;
  std::deque<Bytes> waiting_;
  std::atomic<bool> stop_{false};
  std::thread thread_;  // last member, because it uses the others
};

}  // namespace parley::mad_driver
