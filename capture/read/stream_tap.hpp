// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// What the checker understood of the streams of TCP connections, told while it reads: which octets were a startup frame
// (RFC 5044 §7.1.1), which an FPDU (§4.1), and which a message of a staged QP negotiation (docs/negotiation.md). Whoever rewrites a capture listens here instead of
// following the connections a second time, perhaps differently.
#pragma once
#include <cstdint>

#include "capture/read/fpdu/fpdu_walker.hpp"
#include "parley/address.hpp"

namespace parley::capture {

/// One direction of one connection. Positions count octets of the stream; 0 has the sequence number `first_seq`.
struct TappedStream {
  std::uint64_t connection = 0;  ///< the frame with which it began: no two have the same
  Address source, destination;
  std::uint32_t first_seq = 0;
  std::uint64_t fpdus_at = 0;  ///< from here markers count (RFC 5044 §4.3)
  Known markers = Known::no;
};

class StreamTap {
 public:
  virtual ~StreamTap() = default;
  /// A startup frame, or as much of it as came. Octets that the capture lacks read 0.
  virtual void startup(const TappedStream& stream, std::uint64_t at, ConstBytes octets) = 0;
  /// `fpdu.position` is relative to stream.fpdus_at.
  virtual void fpdu(const TappedStream& stream, const WalkedFpdu& fpdu) = 0;
  /// Here stands a ULPDU_Length without its FPDU: one that cannot be, or one whose octets never came.
  virtual void lone_length(const TappedStream& stream, std::uint64_t at) = 0;
  /// A message of a staged QP negotiation, or as much of it as came. `qp_turns`: Turns are read as those of verbs-*.
  virtual void negotiation(const TappedStream& stream, std::uint64_t at, ConstBytes octets, bool qp_turns) = 0;
  /// The connection is over and was judged; nothing else of it follows.
  virtual void judged(std::uint64_t connection, std::uint64_t last_frame) = 0;
};

}  // namespace parley::capture
