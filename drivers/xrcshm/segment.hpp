// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// A file that processes of one user map, with a registry in it; and a lock that one of them holds at a time. If a
// process dies with the lock, the next one finds the registry as it was before that process's transaction.
#pragma once
#include <pthread.h>

#include <atomic>
#include <cerrno>
#include <memory>
#include <string>
#include <vector>

#include "xrc/shared_registry.hpp"

namespace parley::xrc {

/// $PARLEY_XRC_SEGMENT, or /dev/shm/parley-xrc-UID.
std::string default_segment();

class Segment {
 public:
  struct Options {
    std::string path{};  ///< empty: default_segment()
    bool make = true;    ///< created if it does not exist
    Duration patience = std::chrono::seconds(5);
    RegistryOptions registry{};  ///< for a new one; bounds are lowered to the capacity of the block
  };
  /// Errors: no_segment, segment_full, segment_owner, segment_foreign, segment_version, segment_elsewhere, timed_out
  /// (another process is creating it), invalid, the system's.
  static Result<std::shared_ptr<Segment>> open(const Options& options);
  ~Segment();
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;

  /// Runs `work` on the registry as a transaction, and then wakes members that have events. Expired deadlines are
  /// processed before. Errors: no_memory; timed_out (another process holds the lock and does not continue); stale_epoch
  /// (the block is damaged: it can no longer be used, and the next open creates a new one). Exceptions of `work` are
  /// passed on.
  template <class Work>
  auto enter(Instant now, Arena::Kind kind, Work work) -> Result<std::invoke_result_t<Work, SharedRegistry&>> {
    using Out = Result<std::invoke_result_t<Work, SharedRegistry&>>;
    if (head().lost.load(std::memory_order_relaxed) != 0) return Out(tl::unexpected(Error(Refusal::stale_epoch)));
    if (const int error = ::pthread_mutex_trylock(&head().mutex); error != 0)
      if (const auto locked = wait_for_lock(error); !locked) return Out(tl::unexpected(locked.error()));
    const Unlock unlock{head().mutex};
    arena().point();
    if (registry_in(arena()).next_deadline() <= now)
      (void)transact(arena(), Arena::Kind::lets_go, [now](SharedRegistry& r) { r.handle_deadline(now); });
    std::vector<std::uint64_t> waking;
    auto out = transact(arena(), kind, [&](SharedRegistry& r) {
      if constexpr (std::is_void_v<std::invoke_result_t<Work, SharedRegistry&>>) {
        work(r);
        settle(r, waking);
      } else {
        auto answer = work(r);
        settle(r, waking);
        return answer;
      }
    });
    if (out) ring(waking);
    arena().point();
    return out;
  }

  /// The value from which wait() waits for a change; read it before checking for events.
  std::uint32_t bell(std::uint64_t member) const;
  /// Waits until the member's bell rings, or until then. Errors: none; it may return early.
  void wait(std::uint64_t member, std::uint32_t seen, Instant until) const;
  /// Ends a wait() without an event.
  void nudge(std::uint64_t member) const { ring(head().bell[member % bells]); }
  /// For watchers: the set of members has changed.
  void announce() const;

  /// A lock on an octet of the file (the member's number) distinguishes this process's attachments from those of its
  /// children, and of a program that it becomes by exec.
  bool hold(std::uint64_t member) const;
  bool is_held(std::uint64_t member) const;

  const std::string& path() const { return path_; }
  std::uint32_t epoch() const { return head().epoch; }
  Arena& arena() const { return Arena::of(block_); }

 private:
  static constexpr std::uint32_t bells = 4096;
  struct Head {
    std::array<char, 8> magic;  // written last
    std::uint32_t version, layout;
    std::uint32_t epoch;
    std::atomic<std::uint32_t> lost;  // damaged
    std::uint64_t pid_namespace;
    std::array<char, 40> boot;
    pthread_mutex_t mutex;
    std::array<std::atomic<std::uint32_t>, bells> bell;  // by member; members share them
  };
  static_assert(sizeof(Head) <= Arena::before && std::atomic<std::uint32_t>::is_always_lock_free);
  struct Unlock {
    pthread_mutex_t& mutex;
    ~Unlock() { ::pthread_mutex_unlock(&mutex); }
  };
  enum class SegmentState : std::uint8_t { usable, unmade, of_earlier_boot };

  Segment(std::string path, int fd, Duration patience) : path_(std::move(path)), fd_(fd), patience_(patience) {}
  static Result<std::shared_ptr<Segment>> attempt(const Options& options, bool& again, std::uint32_t& epoch);
  Result<void> lock_file();
  Result<bool> is_proper() const;
  Result<void> map();
  Result<SegmentState> look() const;
  Result<void> make(const RegistryOptions& options, std::uint32_t epoch);
  Result<void> wait_for_lock(int error);
  Result<void> give_up() const;
  static void settle(SharedRegistry& registry, std::vector<std::uint64_t>& waking);
  void ring_all() const;
  static void ring(std::atomic<std::uint32_t>& bell);
  void ring(const std::vector<std::uint64_t>& members);

  Head& head() const { return *static_cast<Head*>(block_); }

  std::string path_;
  int fd_;
  Duration patience_;
  void* whole_ = nullptr;  // the mapping; the block is its aligned part
  void* block_ = nullptr;
};

}  // namespace parley::xrc
