// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// A hash index of slots: open addressing with linear probing and removal by shifting back, so there are no tombstones.
// Identical on every machine: the hash is computed from integers, and the table is never iterated in its order.
#pragma once
#include <array>
#include <cstdint>
#include <cstring>
#include <vector>

namespace parley::sim {

/// Mixes 64 bits: every output bit depends on every input bit.
constexpr std::uint64_t mix_bits(std::uint64_t x) {
  x ^= x >> 32;
  x *= 0xD6E8FEB86659FD93;
  x ^= x >> 32;
  x *= 0xD6E8FEB86659FD93;
  x ^= x >> 32;
  return x;
}

/// Hashes an IP address and 64 bits with the rest of a key.
inline std::uint32_t hash_of_address(const std::array<std::uint8_t, 16>& octets, std::uint64_t rest) {
  std::uint64_t high = 0, low = 0;
  std::memcpy(&high, octets.data(), 8);
  std::memcpy(&low, octets.data() + 8, 8);
  return static_cast<std::uint32_t>(mix_bits(mix_bits(high ^ rest) + low));
}

/// Keys are in the caller's slots; the index keeps 32 bits of each hash next to the slot's number. Eight octets per
/// cell, at most three of four cells in use.
class SlotIndex {
 public:
  static constexpr std::uint32_t none = 0xFFFFFFFF;

  /// The slot with that hash for which `equal(slot)` holds, or none.
  template <class Equal>
  std::uint32_t find(std::uint32_t hash, Equal equal) const {
    if (cells_.empty()) return none;
    for (std::size_t at = hash & mask_;; at = (at + 1) & mask_) {
      const Cell& cell = cells_[at];
      if (cell.slot == none) return none;
      if (cell.hash == hash && equal(cell.slot)) return cell.slot;
    }
  }

  /// The slot is not in the index yet.
  void insert(std::uint32_t hash, std::uint32_t slot) {
    if ((size_ + 1) * 4 > cells_.size() * 3) grow();
    place({hash, slot});
    ++size_;
  }

  void erase(std::uint32_t hash, std::uint32_t slot) {
    if (cells_.empty()) return;
    std::size_t at = hash & mask_;
    while (cells_[at].slot != slot) {
      if (cells_[at].slot == none) return;
      at = (at + 1) & mask_;
    }
    --size_;
    // An entry after the hole that may move into it does so; a lookup therefore never meets a hole before its entry.
    for (std::size_t next = (at + 1) & mask_; cells_[next].slot != none; next = (next + 1) & mask_) {
      const std::size_t home = cells_[next].hash & mask_;
      if (((next - home) & mask_) < ((next - at) & mask_)) continue;
      cells_[at] = cells_[next];
      at = next;
    }
    cells_[at] = Cell{};
  }

  std::size_t size() const { return size_; }
  void clear() {
    cells_.clear();
    size_ = mask_ = 0;
  }

 private:
  struct Cell {
    std::uint32_t hash = 0;
    std::uint32_t slot = none;
  };
  void place(Cell cell) {
    std::size_t at = cell.hash & mask_;
    while (cells_[at].slot != none) at = (at + 1) & mask_;
    cells_[at] = cell;
  }
  void grow() {
    std::vector<Cell> old(cells_.empty() ? 16 : cells_.size() * 2);
    old.swap(cells_);
    mask_ = cells_.size() - 1;
    for (const Cell& cell : old)
      if (cell.slot != none) place(cell);
  }

  std::vector<Cell> cells_;  // a power of two of them
  std::size_t size_ = 0, mask_ = 0;
};

}  // namespace parley::sim
