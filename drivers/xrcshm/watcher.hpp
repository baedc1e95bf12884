// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Who of a shared registry's members is dead, and the thread by which each member hears of the death of those behind it.
#pragma once
#include <atomic>
#include <map>
#include <memory>
#include <thread>

#include "drivers/xrcd/place.hpp"
#include "drivers/xrcshm/segment.hpp"

namespace parley::xrc {

/// A process named for good by a descriptor, if it lives and began when it was said to.
class Witness {
 public:
  explicit Witness(const Process& process);
  Witness(Witness&& other) noexcept : fd_(std::exchange(other.fd_, -1)), wrong_(other.wrong_) {}
  Witness& operator=(Witness&&) = delete;
  ~Witness();
  /// It has ended, or another process has its number.
  bool is_dead() const;
  int fd() const { return fd_; }  ///< readable when it has; negative: the system gave none

 private:
  int fd_ = -1;
  bool wrong_ = false;
};

/// Takes out all members that are dead: for who comes, and for who looks. `own`: the caller's, of the same Segment.
Result<void> sweep(Segment& segment, std::uint64_t own = 0);

/// For as long as it lives, deaths of the members behind this one (by number, and around) are found as they happen. Each
/// watches a few, so that some may stand still or die together; when all do, whoever comes next finds it.
class Watcher {
 public:
  /// Null: no descriptor is left, or no thread.
  static std::unique_ptr<Watcher> make(std::shared_ptr<Segment> segment, std::uint64_t member);
  ~Watcher();
  Watcher(const Watcher&) = delete;
  Watcher& operator=(const Watcher&) = delete;
  /// In a forked child, where there is no thread.
  void forget();

 private:
  static constexpr std::size_t behind = 4;
  struct Heard {
    bool stop = false, newcomer = false, closed = false;  // closed: somebody's file
  };
  Watcher(std::shared_ptr<Segment> segment, std::uint64_t member);
  void run();
  bool look();
  void choose(const std::vector<MemberView>& members);
  std::vector<std::uint64_t> dead() const;
  Heard wait(int longest) const;

  std::shared_ptr<Segment> segment_;
  std::uint64_t member_;
  Descriptor stop_, notices_;  // an eventfd; an inotify instance on the segment's file, if the user has one left
  bool hears_ = false;         // of those who come
  std::map<std::uint64_t, Witness> watched_{};  // by member; `behind`
  std::thread thread_;
};

}  // namespace parley::xrc
