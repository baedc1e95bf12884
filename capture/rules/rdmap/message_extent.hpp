// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Tracks which octets of one DDP message were sent. Senders SHOULD send segments in order of their offsets (RFC 5041
// §5.3); this needs no memory. Segments ahead of missing ones are kept as ranges until the missing octets arrive.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace parley::capture {

class MessageExtent {
 public:
  enum class Placed : std::uint8_t {
    in_order,
    out_of_order,  ///< valid if the missing segments follow
    wrong,         ///< repeats octets, or lies beyond the last segment, or is a second last segment
    unknown,       ///< more than ranges_max ranges: not followed
  };
  struct Range {
    std::uint64_t begin = 0, end = 0;
  };
  /// The first segment out of order. It is reported if the message turns out to lack octets.
  struct OutOfOrderSegment {
    std::uint64_t frame = 0;  ///< 0: none
    std::uint64_t at = 0, due = 0;
  };

  /// Begins a message whose first octet has the offset `start`.
  void open_at(std::uint64_t start) { *this = {}, open_ = true, run_ = {start, start}; }
  /// Begins a message by a segment at `at` that may not be its first.
  void open_with(std::uint64_t at) { open_at(at), start_known_ = false; }
  void close() { *this = {}; }
  Placed place(std::uint64_t at, std::uint64_t length, bool last);
  void note_odd(const OutOfOrderSegment& odd) {
    if (odd_.frame == 0) odd_ = odd;
  }

  bool open() const { return open_; }
  bool last_seen() const { return last_; }
  /// The octets so far have no holes.
  bool contiguous() const { return ahead_.empty(); }
  bool whole() const { return last_ && ahead_.empty(); }
  /// There may be earlier segments than the first one seen.
  bool begin_unknown() const { return !start_known_; }
  std::uint64_t begin() const { return run_.begin; }
  /// The offset of the next segment if segments are in order.
  std::uint64_t due() const { return ahead_.empty() ? run_.end : ahead_.back().end; }
  std::uint64_t octets() const;
  const OutOfOrderSegment& odd() const { return odd_; }

 private:
  static constexpr std::size_t ranges_max = 64;

  bool open_ = false, last_ = false, start_known_ = true;
  Range run_;                 // from the beginning of the message on
  std::vector<Range> ahead_;  // ascending; adjacent neither to each other nor to run_
  OutOfOrderSegment odd_;
};

}  // namespace parley::capture
