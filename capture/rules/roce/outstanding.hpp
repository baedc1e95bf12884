// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Reads and Atomics of one side that have no answer yet, against as many as its peer has room for (IBA vol. 1 §9.7.3.3.1). Requests and
// answers go opposite ways: that an answer came later than a request is shown by the time between the two, or by a NAK.
#pragma once
#include <algorithm>
#include <deque>
#include <optional>

#include "capture/rules/roce/rules.hpp"
#include "wire/ib/packet.hpp"

namespace parley::capture {

class Outstanding {
 public:
  using Place = std::uint64_t;
  struct One {
    Place first = 0, last = 0;
    FrameRef ref;
    wire::ib::Operation operation{};
  };

  void sent(const One& one) {
    if (those_.size() >= most) those_.pop_front();
    auto at = those_.end();
    while (at != those_.begin() && std::prev(at)->first > one.first) --at;
    those_.insert(at, one);
  }
  /// An answer to what has this place: the first one beyond `depth`, if so many had been sent before the answer was.
  std::optional<One> beyond_at_answer(Place place, Instant at, std::size_t depth) const {
    std::size_t n = 0;
    for (const One& one : those_) {
      if (one.last < place || at - one.ref.at < paths_apart) continue;
      if (n == 0 && one.first > place) return std::nullopt;
      if (++n > depth) return one;
    }
    return std::nullopt;
  }
  /// A NAK of what has this place, which is beyond `depth`.
  std::optional<One> beyond_at_nak(Place place, std::size_t depth) const {
    std::size_t n = 0;
    for (const One& one : those_)
      if (++n > depth && one.first <= place && place <= one.last) return one;
    return std::nullopt;
  }
  /// What ends up to and with this place is over.
  void answered(Place place) {
    std::erase_if(those_, [place](const One& one) { return one.last <= place; });
  }
  void clear() { those_.clear(); }
  std::size_t size() const { return those_.size(); }

 private:
  static constexpr std::size_t most = 512;  // no depth is greater than 255
  std::deque<One> those_;                   // by place
};

}  // namespace parley::capture
