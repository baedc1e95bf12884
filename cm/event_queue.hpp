// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The events that wait for poll_event(), oldest first. What bounds them is in docs/cm.md; those of a destroyed id stay
// until they are polled, and are passed over then.
#pragma once
#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "parley/cm.hpp"

namespace parley::cm {

class EventQueue {
 public:
  void push(Event event) { events_.push_back(std::move(event)); }
  bool empty() const { return at_ == events_.size(); }
  std::optional<Event> pop() {
    if (empty()) return std::nullopt;
    std::optional<Event> event(std::move(events_[at_++]));
    // What was read is erased all at once, or half at a time if the user never catches up.
    if (empty() || at_ >= std::max(kept, events_.size() / 2)) {
      events_.erase(events_.begin(), events_.begin() + static_cast<std::ptrdiff_t>(at_));
      at_ = 0;
    }
    return event;
  }

 private:
  static constexpr std::size_t kept = 64;  // events already read that may precede the others
  std::vector<Event> events_;
  std::size_t at_ = 0;
};

}  // namespace parley::cm
