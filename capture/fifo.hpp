// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// A queue that owns no memory while it is empty: a checker follows tens of thousands of connections, most of which
// never put anything into most of their queues, and std::deque takes half a kilooctet for each of those.
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
    // What left the front makes room before the memory grows, once it is half of it: each item moves once for that.
    if (items_.size() == items_.capacity() && head_ > items_.size() / 2) trim();
    items_.push_back(std::move(item));
  }
  void pop_front() {
    *begin() = T{};  // what it holds goes now
    if (++head_ == items_.size()) clear();
  }
  /// `first` and `last` as begin() and end() count.
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
  std::size_t head_ = 0;  // what lies before has left
};

}  // namespace parley::capture
