// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// A hash table in one block of memory: an entry needs no allocation, and a lookup costs one cache miss. For tables with
// a lookup per set-up or packet. It has no iteration, so nothing can depend on its order.
//
// Linear probing with at most three quarters of the places in use; erasing leaves no tombstone. Memory grows with the
// largest number of entries so far, and is not returned.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace parley {

/// For keys that a peer may choose: without knowing the seed, it cannot cause collisions.
struct SeededHash {
  std::uint64_t seed = 0;
  /// The final steps of splitmix64.
  static std::uint64_t mix(std::uint64_t z) {
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
    return z ^ (z >> 31);
  }
  std::uint64_t operator()(std::uint64_t key) const { return mix(key ^ seed); }
  template <class A, class B>
  std::uint64_t operator()(const std::pair<A, B>& key) const {
    return mix((*this)(key.first) ^ key.second);
  }
};

/// For numbers that this side counts up: four consecutive numbers are adjacent. Longer sequences would form a run that
/// each search must walk to its end.
struct CountedHash {
  std::uint64_t operator()(std::uint64_t key) const { return SeededHash::mix(key >> 2) << 2 | (key & 3); }
};

template <class Key, class Value, class Hash = SeededHash>
class FlatMap {
 public:
  explicit FlatMap(Hash hash) : hash_(hash) {}

  std::size_t size() const { return size_; }
  /// Null: not found. Valid until the next change of the table.
  const Value* find(const Key& key) const {
    if (size_ == 0) return nullptr;
    const std::size_t at = place_of(key);
    return places_[at] ? &places_[at]->second : nullptr;
  }
  bool contains(const Key& key) const { return find(key) != nullptr; }
  /// False: the key already exists, and its value is unchanged.
  bool insert(const Key& key, const Value& value) {
    if (4 * (size_ + 1) > 3 * places_.size()) grow();
    const std::size_t at = place_of(key);
    if (places_[at]) return false;
    places_[at].emplace(key, value);
    ++size_;
    return true;
  }
  bool erase(const Key& key) noexcept {
    if (size_ == 0) return false;
    std::size_t gap = place_of(key);
    if (!places_[gap]) return false;
    --size_;
    // Entries that were displaced beyond the gap move up, so that no search ends too early.
    for (std::size_t at = next(gap); places_[at]; at = next(at)) {
      const std::size_t wanted = first_of(places_[at]->first);
      if (((at - wanted) & mask()) < ((at - gap) & mask())) continue;
      places_[gap] = std::move(places_[at]);
      gap = at;
    }
    places_[gap].reset();
    return true;
  }

 private:
  using Place = std::optional<std::pair<Key, Value>>;

  std::size_t mask() const { return places_.size() - 1; }
  std::size_t next(std::size_t at) const { return (at + 1) & mask(); }
  std::size_t first_of(const Key& key) const { return static_cast<std::size_t>(hash_(key)) & mask(); }
  /// The key's place, or the free place where it would go.
  std::size_t place_of(const Key& key) const {
    std::size_t at = first_of(key);
    while (places_[at] && places_[at]->first != key) at = next(at);
    return at;
  }
  void grow() {
    std::vector<Place> old(places_.empty() ? 16 : 2 * places_.size());
    std::swap(old, places_);
    for (Place& place : old)
      if (place) places_[place_of(place->first)] = std::move(place);
  }

  Hash hash_;
  std::size_t size_ = 0;
  std::vector<Place> places_;  // size: a power of two, or zero
};

}  // namespace parley
