// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// One captured RoCE packet, of version 1 or 2, with what is known of it: a snap length may have cut it.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "parley/time.hpp"
#include "wire/ib/packet.hpp"
#include "wire/ib/roce.hpp"
#include "wire/packet.hpp"
#include "wire/pcap.hpp"

namespace parley::capture {

struct RocePacket {
  std::uint64_t frame = 0;
  Instant at{};
  wire::ib::RoceHeader network;
  wire::ib::Packet packet;                ///< octets that the capture lacks read 0
  std::size_t wire_size = 0;              ///< octets from the BTH to the ICRC
  std::size_t known = 0;                  ///< so many of them are in the capture
  std::size_t bth_at = 0;                 ///< octet of the frame where the BTH begins
  std::optional<std::uint32_t> icrc_due;  ///< what its octets give; only when they are all there

  bool whole() const { return known == wire_size; }
  bool icrc_wrong() const { return icrc_due && *icrc_due != packet.icrc; }
  std::size_t headers_size() const;
  /// The headers behind the BTH are in the capture.
  bool headers_known() const { return known >= headers_size(); }
  /// Payload that is in the capture.
  ConstBytes known_payload() const;
  wire::ib::Operation operation() const { return wire::ib::operation_of(packet.bth.opcode); }
  wire::ib::Service service() const { return wire::ib::service_of(packet.bth.opcode); }
};

/// Eight digits, in the order of the octets on the wire: the least significant one first (IBA §7.8.1).
std::string icrc_text(std::uint32_t icrc);

/// Reads packet after packet: of one that is cut it makes a whole one, which the next call overwrites.
class RoceReader {
 public:
  enum class Status : std::uint8_t {
    packet,
    cut,        ///< the capture ends before the BTH does
    fragment,   ///< of an IP packet: fragments are not joined
    malformed,  ///< `why` says where
  };
  /// `view` is of that frame, and carries RoCE.
  Status read(const wire::PacketView& view, const wire::CapturedPacket& captured, RocePacket& out);
  /// "frame 12, octet 42: ...".
  const std::string& why() const { return why_; }

 private:
  Status malformed(const wire::CapturedPacket& captured, std::size_t at, std::string_view what);
  Bytes filled_;
  std::string why_;
};

}  // namespace parley::capture
