// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// A queue that allocates no memory while it is empty. The checker follows tens of thousands of connections, and most of
// their queues stay empty. An empty std::deque allocates about 512 octets.
#pragma once
#include <cstddef>
#include <iterator>
#include <utility>
#include <vector>

namespace parley::capture {

template <class T>
class Fifo {
 public:
  bool empty() const { return head_ == items_.size(); }
  std::size_t size() const { return items_.size() - head_; }
  auto begin() { return items_.begin() + static_cast<std::ptrdiff_t>(head_); }
  auto end() { return items_.end(); }
  auto begin() const { return items_.begin() + static_cast<std::ptrdiff_t>(head_); }
  auto end() const { return items_.end(); }
  T& front() { return *begin(); }
  T& back() { return items_.back(); }
  const T& front() const { return *begin(); }
  const T& back() const { return items_.back(); }

  void push_back(T item) {
    // Before the vector grows, reuse the room of the removed items if they are more than half: amortised O(1) per item.
    if (items_.size() == items_.capacity() && head_ > items_.size() / 2) trim();
    items_.push_back(std::move(item));
  }
  void pop_front() {
    *begin() = T{};  // release the item's memory now
    if (++head_ == items_.size()) clear();
  }
  /// `first` and `last` lie between begin() and end().
  template <class It>
  void erase(It first, It last) {
    items_.erase(first, last);
    if (empty()) clear();
  }
  template <class It>
  void erase(It at) {
    if (at == begin()) return pop_front();
    items_.erase(at);
  }
  void clear() {
    items_.clear();
    head_ = 0;
  }

 private:
  void trim() {
    items_.erase(items_.begin(), begin());
    head_ = 0;
  }
  std::vector<T> items_;
  std::size_t head_ = 0;  // index of the first item; the items before it were removed
};

}  // namespace parley::capture
