// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// A cursor over the pieces of a ULPDU: the only place where received payload is copied.
#pragma once
#include <algorithm>
#include <cstring>
#include <span>

#include "parley/bytes.hpp"

namespace parley::nic::iwarp {

class Cursor {
 public:
  explicit Cursor(std::span<const ConstBytes> pieces) : pieces_(pieces) {}

  void skip(std::size_t n) {
    while (n > 0 && !pieces_.empty()) {
      const std::size_t step = std::min(n, pieces_.front().size() - at_);
      advance(step);
      n -= step;
    }
  }
  /// Fills `out` as far as the pieces suffice; returns the octets copied.
  std::size_t copy(MutBytes out) {
    std::size_t done = 0;
    while (done < out.size() && !pieces_.empty()) {
      const std::size_t step = std::min(out.size() - done, pieces_.front().size() - at_);
      if (step > 0) std::memcpy(out.data() + done, pieces_.front().data() + at_, step);
      done += step;
      advance(step);
    }
    return done;
  }

 private:
  void advance(std::size_t step) {
    at_ += step;
    if (at_ < pieces_.front().size()) return;
    pieces_ = pieces_.subspan(1);
    at_ = 0;
  }

  std::span<const ConstBytes> pieces_;
  std::size_t at_ = 0;
};

}  // namespace parley::nic::iwarp
