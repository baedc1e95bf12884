// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Reports what the checker decodes in TCP streams, while it reads: startup frames (RFC 5044 §7.1.1), FPDUs (§4.1), and
// messages of a staged QP negotiation (docs/negotiation.md). The anonymizer uses this interface, so that it need not
// follow the connections a second time and perhaps differently.
#pragma once
#include <cstdint>

#include "capture/read/fpdu/fpdu_walker.hpp"
#include "parley/address.hpp"

namespace parley::capture {

/// One direction of one connection. Positions count octets of the stream; 0 has the sequence number `first_seq`.
struct TappedStream {
  std::uint64_t connection = 0;  ///< its first frame, which identifies it
  Address source, destination;
  std::uint32_t first_seq = 0;
  std::uint64_t fpdus_at = 0;  ///< marker positions count from here (RFC 5044 §4.3)
  Known markers = Known::no;
};

class StreamTap {
 public:
  virtual ~StreamTap() = default;
  /// A startup frame, or the part of it that was sent. Octets that the capture lacks are 0.
  virtual void startup(const TappedStream& stream, std::uint64_t at, ConstBytes octets) = 0;
  /// `fpdu.position` is relative to stream.fpdus_at.
  virtual void fpdu(const TappedStream& stream, const WalkedFpdu& fpdu) = 0;
  /// A ULPDU_Length without its FPDU: it is invalid, or the FPDU's octets never arrived.
  virtual void lone_length(const TappedStream& stream, std::uint64_t at) = 0;
  /// A message of a staged QP negotiation, or the part of it that was sent. `qp_turns`: its Turns are those of verbs-*.
  virtual void negotiation(const TappedStream& stream, std::uint64_t at, ConstBytes octets, bool qp_turns) = 0;
  /// The connection is over and was judged. This is the last call for it.
  virtual void judged(std::uint64_t connection, std::uint64_t last_frame) = 0;
};

}  // namespace parley::capture
