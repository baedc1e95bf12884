// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// GrowRing: a bounded FIFO that allocates memory only as needed, so that ten thousand idle queue pairs stay small. It
// doubles until it holds `max`; once a connection has reached its depth, there are no more allocations.
#pragma once
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace parley::nic {

/// Elements are identified by a sequence number that never repeats: head() is the oldest, tail() the next one.
template <class T>
class GrowRing {
 public:
  explicit GrowRing(std::size_t max) : max_(max) {}

  bool empty() const { return head_ == tail_; }
  bool full() const { return size() >= max_; }
  std::size_t size() const { return static_cast<std::size_t>(tail_ - head_); }
  std::size_t max() const { return max_; }
  /// Existing elements stay, even if there are more.
  void set_max(std::size_t max) { max_ = max; }
  std::uint64_t head() const { return head_; }
  std::uint64_t tail() const { return tail_; }

  T& operator[](std::uint64_t sequence) { return slots_[sequence & mask_]; }
  const T& operator[](std::uint64_t sequence) const { return slots_[sequence & mask_]; }
  T& front() { return (*this)[head_]; }
  const T& front() const { return (*this)[head_]; }

  /// Appends an element that contains whatever its slot contained before: the caller assigns all of it. The caller has
  /// checked full().
  T& push() {
    if (size() == slots_.size()) grow();
    return (*this)[tail_++];
  }
  /// Reserves memory for `more` elements: the next push() calls allocate nothing.
  void make_room(std::size_t more = 1) {
    while (size() + more > slots_.size()) grow();
  }
  void pop() { ++head_; }
  /// Undoes the last push().
  void unpush() { --tail_; }

 private:
  void grow() {
    std::vector<T> bigger(slots_.empty() ? 4 : slots_.size() * 2);
    for (std::uint64_t s = head_; s != tail_; ++s) bigger[s & (bigger.size() - 1)] = std::move((*this)[s]);
    slots_ = std::move(bigger);
    mask_ = slots_.size() - 1;
  }

  std::vector<T> slots_;    // size: a power of two, or 0
  std::uint64_t mask_ = 0;  // size less one
  std::size_t max_;
  std::uint64_t head_ = 0, tail_ = 0;
};

}  // namespace parley::nic
