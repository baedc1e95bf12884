// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Outstanding Reads and Atomics of one side, to be compared with its peer's responder resources (IBA vol. 1
// §9.7.3.3.1). Requests and answers travel in opposite directions. Only the time between the two, or a NAK, proves that
// an answer was sent after a request.
#pragma once
#include <algorithm>
#include <deque>
#include <optional>

#include "capture/rules/roce/rules.hpp"
#include "wire/ib/packet.hpp"

namespace parley::capture {

class Outstanding {
 public:
  using ExtendedPsn = std::uint64_t;
  struct One {
    ExtendedPsn first = 0, last = 0;
    FrameRef ref;
    wire::ib::Operation operation{};
  };

  void sent(const One& one) {
    if (those_.size() >= most) those_.pop_front();
    auto at = those_.end();
    while (at != those_.begin() && std::prev(at)->first > one.first) --at;
    those_.insert(at, one);
  }
  /// For an answer to the request at `place`: the first request beyond `depth` that was sent before the answer, if any.
  std::optional<One> beyond_at_answer(ExtendedPsn place, Instant at, std::size_t depth) const {
    std::size_t n = 0;
    for (const One& one : those_) {
      if (one.last < place || at - one.ref.at < paths_apart) continue;
      if (n == 0 && one.first > place) return std::nullopt;
      if (++n > depth) return one;
    }
    return std::nullopt;
  }
  /// For a NAK of the request at `place`: that request, if it is beyond `depth`.
  std::optional<One> beyond_at_nak(ExtendedPsn place, std::size_t depth) const {
    std::size_t n = 0;
    for (const One& one : those_)
      if (++n > depth && one.first <= place && place <= one.last) return one;
    return std::nullopt;
  }
  /// Removes the requests that end at or before this place.
  void answered(ExtendedPsn place) {
    std::erase_if(those_, [place](const One& one) { return one.last <= place; });
  }
  void clear() { those_.clear(); }
  std::size_t size() const { return those_.size(); }

 private:
  static constexpr std::size_t most = 512;  // a depth is at most 255
  std::deque<One> those_;                   // by place
};

}  // namespace parley::capture
