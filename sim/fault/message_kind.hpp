// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The meaning of frames in one direction of a link: follows the TCP connections on it (only this direction, so that each
// direction can be evaluated alone), and finds the beginnings of MPA startup frames and FPDUs, with markers. Bounded
// memory: 65,536 connections, 1 Mi messages remembered for retransmissions, 16 MiB of octets ahead of holes.
//
// Limits: Connections are numbered by their SYNs in this direction (a SYN ACK begins one), so if SYNs were lost the two
// directions may number differently. Octets ahead of a hole have no parts when they pass, because the beginnings of FPDUs
// in them are still unknown. A retransmission of a message that is no longer remembered has no parts either.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "parley/sim.hpp"
#include "sim/fault/message_kind_frame.hpp"
#include "sim/fault/message_kind_stream.hpp"

namespace parley::sim {

/// A message, or its beginning, inside a frame. An FPDU that is a Terminate or the RTR is listed as an fpdu, and again
/// under its own kind in the frame with the octet that shows it (nearly always the same frame).
struct Part {
  MessageKind message = MessageKind::any;  ///< of a layer inside the TCP stream
  std::uint32_t fpdu = 0;                  ///< number of the FPDU in its direction, from 1; 0: a startup frame
  std::uint32_t offset = 0;                ///< offset of its first octet present in the Ethernet frame
  std::uint32_t size = 0;                  ///< its octets in this frame
  std::uint32_t whole = 0;  ///< octets of the whole message on the wire (with pad, CRC and markers); 0: not known yet
  std::uint64_t position = 0;  ///< stream position of its first octet
};

struct FrameContent {
  MessageKind kind = MessageKind::any;  ///< by headers only: arp_request ... tcp_data
  KindSet kinds;                        ///< each such kind that holds: a FIN may carry data
  std::uint32_t connection = 0;         ///< n-th connection seen in this direction, from 1; 0: none
  bool repeated = false;                ///< all octets were seen before
  std::optional<std::uint32_t> psn;     ///< RoCE packets only
  std::uint32_t payload_offset = 0, payload_size = 0;
  static constexpr std::uint64_t nowhere = ~std::uint64_t{0};
  std::uint64_t position = nowhere;  ///< stream position of the first payload octet; nowhere: it is before the stream,
                                     ///< or there is no payload
  std::vector<Part> parts;
  bool has(MessageKind message, std::uint32_t fpdu = 0) const {
    return message == MessageKind::any || find(message, fpdu) != 0;
  }
  bool has(Layer layer) const;
  /// 0: not present; 1: the whole frame is one; larger: parts[n - 2].
  std::size_t find(MessageKind message, std::uint32_t fpdu = 0) const;
};

class MessageTracker {
 public:
  static constexpr std::size_t connections_max = 65536;  ///< the oldest is forgotten
  /// `depth` startup: FPDUs are not needed, so they are not walked.
  explicit MessageTracker(StreamDepth depth = StreamDepth::fpdus);
  ~MessageTracker();
  /// Frames in the order in which they pass. The peer's M flag is not visible in this direction: the content shows
  /// whether FPDUs carry markers, without ambiguity (sim/fault/message_kind_stream.hpp).
  FrameContent look(ConstBytes frame);
  /// The same for a frame with a known layout, into a value whose memory is reused.
  void look(ConstBytes frame, const FrameLayout& layout, FrameContent& out);
  /// The stream of a connection, while it is remembered.
  const MessageStream* stream(std::uint32_t connection) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace parley::sim
