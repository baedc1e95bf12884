// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The process's open files of /dev/infiniband/rdma_cm, on the engine. A descriptor is readable while an event is
// pending.
#pragma once
#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "preload/objects.hpp"

namespace parley::preload::ucma {

class Files {
 public:
  static constexpr int descriptors_max = 65536;
  static constexpr const char* path = "/dev/infiniband/rdma_cm";

  static Files& get();
  /// Whether `fd` is one of these files. Takes no lock if it never was one. A file that the program closed in another way than by
  /// close(), as close_range() and dup2() do, is closed here.
  bool owns(int fd) {
    if (fd < 0 || fd >= descriptors_max) return false;
    const auto at = static_cast<std::size_t>(fd);
    return (owned_[at / 64].load(std::memory_order_acquire) >> at % 64 & 1) != 0 && is_still_open(fd);
  }
  /// As open(2) with `flags`. -1: errno is EMFILE, or the error that occurred when the engine bound its addresses.
  int open(int flags);
  ssize_t write(int fd, const void* octets, std::size_t size);
  int close(int fd);

 private:
  struct Opened;
  Files() = default;
  std::shared_ptr<Opened> find(int fd);
  void mark(int fd, bool owned);
  bool is_still_open(int fd);
  void lose(std::map<int, std::shared_ptr<Opened>>::iterator at);
  void close_lost();

  std::mutex mutex_;  // guards opened_, lost_ and writes to owned_; never held during a call that blocks
  std::map<int, std::shared_ptr<Opened>> opened_;
  std::vector<std::pair<int, std::shared_ptr<Opened>>>
      lost_;  // their descriptors are gone; closed by the next open() or close()
  std::atomic<std::uint64_t> owned_[descriptors_max / 64]{};
};

}  // namespace parley::preload::ucma
