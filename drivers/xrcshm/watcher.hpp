// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Detection of dead members of a shared registry, and the thread by which each member learns of the death of the
// members after it.
#pragma once
#include <atomic>
#include <map>
#include <memory>
#include <thread>

#include "drivers/xrcd/place.hpp"
#include "drivers/xrcshm/segment.hpp"

namespace parley::xrc {

/// Refers to one process by a descriptor, if it is alive and has the expected start time.
class ProcessWatch {
 public:
  explicit ProcessWatch(const Process& process);
  ProcessWatch(ProcessWatch&& other) noexcept : fd_(std::exchange(other.fd_, -1)), wrong_(other.wrong_) {}
  ProcessWatch& operator=(ProcessWatch&&) = delete;
  ~ProcessWatch();
  /// It has ended, or another process has its number.
  bool is_dead() const;
  int fd() const { return fd_; }  ///< readable once it has ended; negative: not available

 private:
  int fd_ = -1;
  bool wrong_ = false;
};

/// Removes all dead members: called by newcomers and by watchers. `own`: the caller's member number in the same
/// Segment.
Result<void> sweep(Segment& segment, std::uint64_t own = 0);

/// While it exists, deaths of the members after this one (by number, cyclically) are detected as they happen. Each
/// member watches a few others, so that some may be stopped or die together; if all do, the next newcomer detects it.
class Watcher {
 public:
  /// Null: no descriptor or thread is available.
  static std::unique_ptr<Watcher> make(std::shared_ptr<Segment> segment, std::uint64_t member);
  ~Watcher();
  Watcher(const Watcher&) = delete;
  Watcher& operator=(const Watcher&) = delete;
  /// In a forked child, where the thread does not exist.
  void forget();

 private:
  static constexpr std::size_t behind = 4;
  struct Wakeup {
    bool stop = false, newcomer = false, closed = false;  // closed: a member's file was closed
  };
  Watcher(std::shared_ptr<Segment> segment, std::uint64_t member);
  void run();
  bool look();
  void choose(const std::vector<MemberView>& members);
  std::vector<std::uint64_t> dead() const;
  Wakeup wait(int longest) const;

  std::shared_ptr<Segment> segment_;
  std::uint64_t member_;
  Descriptor stop_, notices_;  // an eventfd; an inotify instance on the segment's file, if one is available
  bool hears_ = false;         // newcomers are reported
  std::map<std::uint64_t, ProcessWatch> watched_{};  // by member; at most `behind`
  std::thread thread_;
};

}  // namespace parley::xrc
