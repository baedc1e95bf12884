// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// A table of values by number: open addressing, at most half full. A look-up costs about one cache line. Memory is
// allocated only when the table grows.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace parley::mad {

template <class Value>
class FlatTable {
 public:
  FlatTable() : cells_(least) {}

  /// Null if there is none.
  const Value* find(std::uint64_t key) const {
    for (std::size_t at = home(key);; at = next(at)) {
      if (!cells_[at].taken) return nullptr;
      if (cells_[at].key == key) return &cells_[at].value;
    }
  }
  /// `key` must not be in the table.
  void insert(std::uint64_t key, Value value) {
    if (2 * (size_ + 1) > cells_.size()) grow();
    put(key, value);
    ++size_;
  }
  void erase(std::uint64_t key) {
    std::size_t hole = home(key);
    for (; cells_[hole].taken && cells_[hole].key != key;) hole = next(hole);
    if (!cells_[hole].taken) return;
    --size_;
    for (std::size_t at = next(hole); cells_[at].taken; at = next(at)) {  // moves cells that a search would miss
      const std::size_t wanted = home(cells_[at].key), mask = cells_.size() - 1;
      if (((at - wanted) & mask) < ((at - hole) & mask)) continue;
      cells_[hole] = cells_[at];
      hole = at;
    }
    cells_[hole].taken = false;
  }
  std::size_t size() const { return size_; }

 private:
  static constexpr std::size_t least = 64;
  struct Cell {
    std::uint64_t key = 0;
    Value value{};
    bool taken = false;
  };
  std::size_t home(std::uint64_t key) const {
    return static_cast<std::size_t>(key * 0x9E3779B97F4A7C15 >> 32) & (cells_.size() - 1);
  }
  std::size_t next(std::size_t at) const { return (at + 1) & (cells_.size() - 1); }
  void put(std::uint64_t key, Value value) {
    std::size_t at = home(key);
    while (cells_[at].taken) at = next(at);
    cells_[at] = {key, value, true};
  }
  void grow() {
    std::vector<Cell> old(cells_.size() * 2);
    old.swap(cells_);
    for (const Cell& cell : old)
      if (cell.taken) put(cell.key, cell.value);
  }

  std::vector<Cell> cells_;
  std::size_t size_ = 0;
};

}  // namespace parley::mad
