// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Tracks which octets of one message have been placed if its segments arrive in any order (increasing MO or TO is only
// a SHOULD in RFC 5041 §5.3). Segments in order update one number and need no memory.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace parley::nic::iwarp {

class Placed {
 public:
  /// Runs of octets not connected to the start of the message: 32 KiB. A message in order has none, one in reverse
  /// order has one; the worst order of a message of 8 MB in segments of 1 KiB needs them all.
  static constexpr std::size_t runs_max = 4096;

  enum class Result : std::uint8_t {
    ok,
    again,  ///< some of these octets were placed before
    full,   ///< there would be one run too many
  };

  void start() {
    from_start_ = 0;
    apart_.clear();
  }
  /// [at, at + length) of a message below 2^32 octets.
  Result add(std::uint32_t at, std::uint32_t length) {
    if (length == 0) return Result::ok;
    if (at == from_start_ && apart_.empty()) {
      from_start_ += length;
      return Result::ok;
    }
    return add_apart(at, at + length);
  }
  /// Whether the placed octets are exactly the first `size`.
  bool exactly(std::uint32_t size) const { return apart_.empty() && from_start_ == size; }
  /// Number of contiguous octets from the first one.
  std::uint32_t without_hole() const { return from_start_; }

 private:
  struct Run {
    std::uint32_t begin, end;
  };

  Result add_apart(std::uint32_t begin, std::uint32_t end) {
    const auto next = std::lower_bound(apart_.begin(), apart_.end(), begin,
                                       [](const Run& r, std::uint32_t b) { return r.begin < b; });
    const std::uint32_t before = next == apart_.begin() ? from_start_ : std::prev(next)->end;
    if (begin < before || (next != apart_.end() && next->begin < end)) return Result::again;
    const bool joins_next = next != apart_.end() && next->begin == end;
    if (begin == before) {
      std::uint32_t& grows = next == apart_.begin() ? from_start_ : std::prev(next)->end;
      grows = joins_next ? next->end : end;
      if (joins_next) apart_.erase(next);
    } else if (joins_next) {
      next->begin = begin;
    } else {
      if (apart_.size() == runs_max) return Result::full;
      apart_.insert(next, {begin, end});
    }
    return Result::ok;
  }

  std::uint32_t from_start_ = 0;
  std::vector<Run> apart_;  // sorted, none touching another or the start; at most runs_max
};

}  // namespace parley::nic::iwarp
