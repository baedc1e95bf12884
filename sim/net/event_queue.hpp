// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The event queue: the earliest of up to 2^24 pending events, ties in the order in which they were pushed. Two levels:
// a timing wheel of 64 ns buckets for the next 262 us, and 4-heaps of 128-bit keys (time, sequence, handle) for the
// rest.
//
// A bucket is a list of small chunks, filled in push order and sorted by a stable counting sort over its 64 nanoseconds
// when its turn comes: many events in one nanosecond cost no more than many apart. An event pushed into the present
// bucket goes to the end of the sorted run, or into a separate heap if it does not belong there.
#pragma once
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "parley/time.hpp"

namespace parley::sim {

/// Time in the high half; sequence (40 bits) and handle (24 bits) in the low half. Events are ordered by key.
using EventKey = unsigned __int128;

/// A heap of four children per node, earliest first.
class EventHeap {
 public:
  bool empty() const { return keys_.empty(); }
  std::size_t size() const { return keys_.size(); }
  EventKey top() const { return keys_.front(); }
  void push(EventKey key) {
    std::size_t i = keys_.size();
    keys_.push_back(key);
    while (i != 0) {
      const std::size_t parent = (i - 1) / 4;
      if (keys_[parent] <= key) break;
      keys_[i] = keys_[parent];
      i = parent;
    }
    keys_[i] = key;
  }
  EventKey pop();

 private:
  std::vector<EventKey> keys_;
};

class EventQueue {
 public:
  static constexpr std::uint32_t handles_max = 1u << 24;   ///< a key has 24 bits for the handle
  static constexpr std::uint64_t pushes_max = 1ull << 40;  ///< 40 bits for the sequence: one day of running
  static constexpr std::int64_t bucket_ns = 64;            ///< width of a bucket of the wheel
  static constexpr std::size_t buckets = 4096;             ///< number of buckets of the wheel
  struct Popped {
    Instant at;
    std::uint32_t handle;
  };

  EventQueue();
  bool empty() const { return size_ == 0; }
  std::size_t size() const { return size_; }
  /// No event can be pushed: all sequence numbers are used.
  bool full() const { return sequence_ == pushes_max; }
  /// Time of the earliest event; `never` if empty. Not const, because the wheel may turn.
  Instant next() { return empty() ? never : time_of(earliest()); }
  /// `at` is not before the time of the last pop, nor before 1970; handle below handles_max.
  void push(Instant at, std::uint32_t handle);
  /// Removes the earliest; the queue must not be empty.
  Popped pop() { return take(earliest()); }
  /// The same, only if there is an event whose time is at most `limit`.
  std::optional<Popped> pop_due(Instant limit);

 private:
  static constexpr std::uint32_t none = ~0u;
  static constexpr EventKey end_key = ~EventKey{0};
  struct Chunk {
    static constexpr std::uint32_t room = 7;
    EventKey keys[room];
    std::uint32_t count;
    std::uint32_t next;  // the previously filled chunk
    std::uint64_t unused;
  };
  static_assert(sizeof(Chunk) == 128);

  static Instant time_of(EventKey key) {
    return Instant(Duration(static_cast<std::int64_t>(static_cast<std::uint64_t>(key >> 64))));
  }
  static std::uint64_t bucket_of(EventKey key) { return static_cast<std::uint64_t>(key >> 64) / bucket_ns; }
  void into_bucket(std::size_t bucket, EventKey key);
  void into_present(EventKey key);
  /// The bucket number (not its place in the wheel) of the next bucket with events; ~0 if there is none.
  std::uint64_t next_bucket() const;
  EventKey earliest();
  Popped take(EventKey key);
  void turn();
  void load(std::size_t bucket);
  void sort_run();

  std::uint64_t present_ = 0;  // number of the current bucket; all earlier ones are empty
  std::uint64_t sequence_ = 0;
  std::size_t size_ = 0;
  std::size_t run_at_ = 0;  // run_[run_at_...] is the rest of the current bucket, sorted
  std::vector<EventKey> run_;
  std::vector<EventKey> unsorted_;  // scratch space of sort_run
  EventHeap late_;                  // events of the current bucket or earlier that did not fit at the end of the run
  EventHeap far_;                   // events beyond the wheel when they were pushed
  std::vector<Chunk> chunks_;
  std::uint32_t free_chunk_ = none;
  std::array<std::uint32_t, buckets> head_;  // the chunk being filled
  std::array<std::uint64_t, buckets / 64> used_{};
  std::uint64_t used_words_ = 0;
};

inline void EventQueue::into_bucket(std::size_t bucket, EventKey key) {
  const std::uint32_t head = head_[bucket];
  if (head == none || chunks_[head].count == Chunk::room) {
    std::uint32_t fresh = free_chunk_;
    if (fresh == none) {
      fresh = static_cast<std::uint32_t>(chunks_.size());
      chunks_.emplace_back();
    } else {
      free_chunk_ = chunks_[fresh].next;
    }
    Chunk& chunk = chunks_[fresh];
    chunk.next = head;
    chunk.count = 1;
    chunk.keys[0] = key;
    head_[bucket] = fresh;
    if (head == none) {
      used_[bucket / 64] |= 1ull << (bucket % 64);
      used_words_ |= 1ull << (bucket / 64);
    }
    return;
  }
  Chunk& chunk = chunks_[head];
  chunk.keys[chunk.count++] = key;
}

inline void EventQueue::push(Instant at, std::uint32_t handle) {
  const std::int64_t ns = at.time_since_epoch().count();
  const std::uint64_t time = ns < 0 ? 0 : static_cast<std::uint64_t>(ns);
  const EventKey key = EventKey{time} << 64 | (sequence_++ << 24 | handle);
  const std::uint64_t bucket = time / bucket_ns;
  ++size_;
  if (bucket <= present_) {
    into_present(key);
  } else if (bucket - present_ < buckets) {
    into_bucket(bucket % buckets, key);
  } else {
    far_.push(key);
  }
}

inline EventKey EventQueue::earliest() {
  if (run_at_ == run_.size()) turn();
  EventKey best = run_at_ != run_.size() ? run_[run_at_] : end_key;
  if (!late_.empty() && late_.top() < best) best = late_.top();
  if (!far_.empty() && far_.top() < best) best = far_.top();
  return best;
}

inline std::optional<EventQueue::Popped> EventQueue::pop_due(Instant limit) {
  if (empty()) return std::nullopt;
  const EventKey key = earliest();
  if (time_of(key) > limit) return std::nullopt;
  return take(key);
}

/// `key` is the earliest.
inline EventQueue::Popped EventQueue::take(EventKey key) {
  --size_;
  if (run_at_ != run_.size() && run_[run_at_] == key) {
    ++run_at_;
  } else if (!late_.empty() && late_.top() == key) {
    late_.pop();
  } else {
    far_.pop();
  }
  return {time_of(key), static_cast<std::uint32_t>(key) & (handles_max - 1)};
}

}  // namespace parley::sim
