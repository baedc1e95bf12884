// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Which octets of one DDP message have come. Senders SHOULD keep the order of the offsets (RFC 5041 §5.3), which costs
// no memory; segments that stand ahead of their turn are kept as ranges until what is missing before them came.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace parley::capture {

class MessageExtent {
 public:
  enum class Placed : std::uint8_t {
    in_order,
    out_of_order,  ///< nothing is wrong with it if the others come
    wrong,         ///< octets that came already, or beyond the last segment, or a second last one
    unknown,       ///< so many ranges that they are not followed
  };
  struct Range {
    std::uint64_t begin = 0, end = 0;
  };
  /// The first segment out of order: it is told when the message turns out to lack octets.
  struct Odd {
    std::uint64_t frame = 0;  ///< 0: none
    std::uint64_t at = 0, due = 0;
  };

  /// A message whose first octet has the offset `start`.
  void open_at(std::uint64_t start) { *this = {}, open_ = true, run_ = {start, start}; }
  /// A message of which this is a segment, perhaps not the first.
  void open_with(std::uint64_t at) { open_at(at), start_known_ = false; }
  void close() { *this = {}; }
  Placed place(std::uint64_t at, std::uint64_t length, bool last);
  void note_odd(const Odd& odd) {
    if (odd_.frame == 0) odd_ = odd;
  }

  bool open() const { return open_; }
  bool last_seen() const { return last_; }
  /// Without holes, as far as it came.
  bool contiguous() const { return ahead_.empty(); }
  bool whole() const { return last_ && ahead_.empty(); }
  /// Segments of it may have come before what was seen first.
  bool begin_unknown() const { return !start_known_; }
  std::uint64_t begin() const { return run_.begin; }
  /// The offset that is due next when segments come in order.
  std::uint64_t due() const { return ahead_.empty() ? run_.end : ahead_.back().end; }
  std::uint64_t octets() const;
  const Odd& odd() const { return odd_; }

 private:
  static constexpr std::size_t ranges_max = 64;  // of a message that is sent in no order at all

  bool open_ = false, last_ = false, start_known_ = true;
  Range run_;                 // from the begin of the message on
  std::vector<Range> ahead_;  // in order, neither touching each other nor run_
  Odd odd_;
};

}  // namespace parley::capture
