// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Deadlines of many small keys, one per key, in O(log n): an indexed binary heap. Ties go to the smaller key, so that a
// run depends on its input only.
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "base/assert.hpp"
#include "parley/time.hpp"

namespace parley {

/// Keys are dense small numbers (slot indices). Memory: four octets per key ever used, and one entry per set deadline.
class DeadlineQueue {
 public:
  using Key = std::uint32_t;

  /// Sets, moves or (with `never`) clears the deadline of a key.
  void set(Key key, Instant at) {
    if (key >= place_.size()) {
      if (at == never) return;
      place_.resize(key + std::size_t{1}, nowhere);
    }
    const std::uint32_t place = place_[key];
    if (place == nowhere) {
      if (at == never) return;
      heap_.push_back({at, key});
      place_[key] = static_cast<std::uint32_t>(heap_.size() - 1);
      rise(place_[key]);
    } else if (at == never) {
      remove(place);
    } else if (heap_[place].at != at) {
      heap_[place].at = at;
      sink(rise(place));
    }
  }

  Instant next() const { return heap_.empty() ? never : heap_.front().at; }

  /// Removes and returns the key with the earliest deadline if that has passed.
  std::optional<Key> pop_due(Instant now) {
    if (heap_.empty() || heap_.front().at > now) return std::nullopt;
    const Key key = heap_.front().key;
    remove(0);
    return key;
  }

  std::size_t size() const { return heap_.size(); }

 private:
  struct Entry {
    Instant at;
    Key key;
    bool operator<(const Entry& other) const { return at != other.at ? at < other.at : key < other.key; }
  };
  static constexpr std::uint32_t nowhere = 0xFFFFFFFF;

  void put(std::uint32_t place, Entry entry) {
    heap_[place] = entry;
    place_[entry.key] = place;
  }

  std::uint32_t rise(std::uint32_t place) {
    const Entry entry = heap_[place];
    while (place > 0) {
      const std::uint32_t parent = (place - 1) / 2;
      if (!(entry < heap_[parent])) break;
      put(place, heap_[parent]);
      place = parent;
    }
    put(place, entry);
    return place;
  }

  void sink(std::uint32_t place) {
    const Entry entry = heap_[place];
    const auto size = static_cast<std::uint32_t>(heap_.size());
    for (std::uint32_t child = 2 * place + 1; child < size; child = 2 * place + 1) {
      if (child + 1 < size && heap_[child + 1] < heap_[child]) ++child;
      if (!(heap_[child] < entry)) break;
      put(place, heap_[child]);
      place = child;
    }
    put(place, entry);
  }

  void remove(std::uint32_t place) {
    PARLEY_ASSERT(place < heap_.size());
    place_[heap_[place].key] = nowhere;
    const Entry last = heap_.back();
    heap_.pop_back();
    if (place == heap_.size()) return;
    put(place, last);
    sink(rise(place));
  }

  std::vector<Entry> heap_;
  std::vector<std::uint32_t> place_;  // key to its place in the heap
};

}  // namespace parley
