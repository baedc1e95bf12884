// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Octets of one direction, and holes among them, that are kept until their meaning is known. Bounded: octets that do not
// fit become one hole.
#pragma once
#include <cstdint>
#include <optional>

#include "capture/fifo.hpp"
#include "capture/read/tcp/tcp_half.hpp"

namespace parley::capture {

struct KeptPiece {
  Bytes data;
  std::uint64_t missing = 0;  // octets that the capture lacks; then there are no data
  bool cut = false, start = false;
  SegmentRef ref;
  std::uint64_t at = 0;   // stream position
  bool overflow = false;  // missing because there was no room for more
};

class KeptOctets {
 public:
  static constexpr std::size_t max = 256 << 10;

  /// `piece.data`, or `piece.missing` octets. Once there is no room, all that follows is one hole.
  void keep(KeptPiece piece);
  bool empty() const { return pieces_.empty(); }
  /// Stream position of the first octet; not empty.
  std::uint64_t at() const { return pieces_.front().at; }
  const KeptPiece& front() const { return pieces_.front(); }
  struct Head {
    Bytes octets;
    bool hole = false;  // behind them
  };
  /// The octets before the first hole, at most `limit`.
  Head head(std::size_t limit = ~std::size_t{0}) const;
  /// The segment that carried the last of the first `n` octets, which are there.
  SegmentRef carrier(std::size_t n) const;
  /// Removes the first `n` octets, which are there.
  void drop(std::size_t n);
  /// The oldest piece; none: empty.
  std::optional<KeptPiece> take();
  void clear();
  /// Octets that did not fit, in total.
  std::uint64_t dropped() const { return dropped_; }

 private:
  static constexpr std::size_t per_piece = 64;  // memory of a piece without its octets

  Fifo<KeptPiece> pieces_;
  std::size_t used_ = 0;
  std::uint64_t dropped_ = 0;
};

}  // namespace parley::capture
