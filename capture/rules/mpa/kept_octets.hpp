// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Keeps octets of one direction, and holes among them, until it is known how to read them. Bounded: octets that do not
// fit become one hole.
#pragma once
#include <cstdint>
#include <optional>

#include "capture/fifo.hpp"
#include "capture/read/tcp/tcp_half.hpp"

namespace parley::capture {

struct KeptPiece {
  Bytes data;
  std::uint64_t missing = 0;  // octets that the capture lacks; then `data` is empty
  bool cut = false, start = false;
  SegmentRef ref;
  std::uint64_t at = 0;   // stream position
  bool overflow = false;  // missing because KeptOctets was full
};

class KeptOctets {
 public:
  static constexpr std::size_t max = 256 << 10;

  /// Adds `piece.data`, or a hole of `piece.missing` octets. Once it is full, all later pieces become one hole.
  void keep(KeptPiece piece);
  bool empty() const { return pieces_.empty(); }
  /// Stream position of the first octet. Must not be empty.
  std::uint64_t at() const { return pieces_.front().at; }
  const KeptPiece& front() const { return pieces_.front(); }
  struct Head {
    Bytes octets;
    bool hole = false;  // a hole follows them
  };
  /// The octets before the first hole, at most `limit`.
  Head head(std::size_t limit = ~std::size_t{0}) const;
  /// The segment that carried octet `n` (from 1). The first `n` octets must be kept.
  SegmentRef carrier(std::size_t n) const;
  /// Removes the first `n` octets, which must be kept.
  void drop(std::size_t n);
  /// Removes and returns the oldest piece; none if empty.
  std::optional<KeptPiece> take();
  void clear();
  /// Octets that did not fit, in total.
  std::uint64_t dropped() const { return dropped_; }

 private:
  static constexpr std::size_t per_piece = 64;  // counted for each piece in addition to its octets

  Fifo<KeptPiece> pieces_;
  std::size_t used_ = 0;
  std::uint64_t dropped_ = 0;
};

}  // namespace parley::capture
