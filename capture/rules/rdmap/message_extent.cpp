// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "capture/rules/rdmap/message_extent.hpp"

#include <algorithm>
#include <utility>

namespace parley::capture {

std::uint64_t MessageExtent::octets() const {
  std::uint64_t n = run_.end - run_.begin;
  for (const Range& r : ahead_) n += r.end - r.begin;
  return n;
}

MessageExtent::Placed MessageExtent::place(std::uint64_t at, std::uint64_t length, bool last) {
  const std::uint64_t end = at + length;
  // The last segment has the highest offset, and there is only one.
  if (end < at || (last_ && (last || end > due())) || (last && end < due())) return Placed::wrong;
  if (ahead_.empty() && at == run_.end) {
    run_.end = end;
    last_ = last_ || last;
    return Placed::in_order;
  }
  const auto overlaps = [&](const Range& r) { return at < r.end && r.begin < end; };
  if (start_known_ && at < run_.begin) return Placed::wrong;
  if (overlaps(run_) || std::any_of(ahead_.begin(), ahead_.end(), overlaps)) return Placed::wrong;
  if (ahead_.size() >= ranges_max) return Placed::unknown;
  last_ = last_ || last;
  ahead_.push_back({at, end});
  if (!start_known_) ahead_.push_back(std::exchange(run_, {}));
  std::sort(ahead_.begin(), ahead_.end(), [](const Range& a, const Range& b) { return a.begin < b.begin; });
  if (!start_known_) {
    run_ = ahead_.front();
    ahead_.erase(ahead_.begin());
  }
  std::size_t kept = 0;
  for (const Range& r : ahead_) {
    Range& before = kept == 0 ? run_ : ahead_[kept - 1];
    if (r.begin == before.end)
      before.end = r.end;
    else
      ahead_[kept++] = r;
  }
  ahead_.resize(kept);
  return Placed::out_of_order;
}

}  // namespace parley::capture
