// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// A queue in one block of memory that can be reserved in advance, for events that must be queued where no memory may be
// allocated.
#pragma once
#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

namespace parley::cm {

/// Has no bound: the code that uses it must limit it.
template <class T>
class Fifo {
 public:
  /// Constructs a T in place.
  template <class U = T>
  void push(U&& item) {
    items_.emplace_back(std::forward<U>(item));
  }
  /// Reserves memory for the next `more` calls of push().
  void make_room(std::size_t more) {
    const std::size_t needed = items_.size() + more;
    if (needed > items_.capacity()) items_.reserve(std::max(needed, 2 * items_.capacity()));
  }
  bool empty() const { return at_ == items_.size(); }
  std::size_t size() const { return items_.size() - at_; }
  /// The oldest item; there must be one.
  T& front() { return items_[at_]; }
  /// The waiting items, in order.
  auto begin() { return items_.begin() + static_cast<std::ptrdiff_t>(at_); }
  auto end() { return items_.end(); }
  /// Moves the items for which `is` returns true to `to`, in order; nothing changes if memory is short.
  template <class Is>
  void move_to(Fifo& to, Is&& is) {
    to.make_room(static_cast<std::size_t>(std::count_if(begin(), end(), is)));
    auto kept_end = begin();
    for (auto it = begin(); it != end(); ++it) {
      if (is(std::as_const(*it)))
        to.push(std::move(*it));
      else if (auto at = kept_end++; at != it)
        *at = std::move(*it);
    }
    items_.erase(kept_end, items_.end());
  }
  std::optional<T> pop() {
    if (empty()) return std::nullopt;
    std::optional<T> item(std::move(front()));
    drop();
    return item;
  }
  /// Removes the oldest item.
  void drop() {
    ++at_;
    // Items that were read are erased all at once, or half at a time if the reader never catches up.
    if (empty() || at_ >= std::max(kept, items_.size() / 2)) {
      items_.erase(items_.begin(), items_.begin() + static_cast<std::ptrdiff_t>(at_));
      at_ = 0;
    }
  }

 private:
  static constexpr std::size_t kept = 64;  // items already read that may precede the others
  std::vector<T> items_;
  std::size_t at_ = 0;
};

}  // namespace parley::cm
