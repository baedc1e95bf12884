// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Limits the outstanding requests. The window grows by one after a full window of answers, and is halved after a loss.
// Losses of requests that were sent before the last halving do not halve it again: they count as the same loss.
#pragma once
#include <algorithm>
#include <cstddef>

#include "parley/time.hpp"

namespace parley::mad {

struct WindowOptions {
  std::size_t start = 16, least = 1, most = 64;  ///< `most` is at least `start`
};

class Window {
 public:
  explicit Window(const WindowOptions& options)
      : size_(std::max<std::size_t>(1, options.start)),
        least_(std::clamp<std::size_t>(options.least, 1, size_)),
        most_(std::max(options.most, size_)) {}

  bool has_room() const { return used_ < size_; }
  std::size_t used() const { return used_; }
  std::size_t size() const { return size_; }
  void enter() { ++used_; }
  void leave() { --used_; }

  void answered() {
    if (size_ >= most_ || ++answers_ < size_) return;
    answers_ = 0;
    ++size_;
  }
  /// `sent`: when the lost request was sent.
  void lost(Instant sent, Instant now) {
    if (sent < halved_) return;
    halved_ = now;
    answers_ = 0;
    size_ = std::max(least_, size_ / 2);
  }

 private:
  std::size_t size_, least_, most_, used_ = 0, answers_ = 0;
  Instant halved_{};
};

}  // namespace parley::mad
