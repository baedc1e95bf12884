// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// One captured InfiniBand transport packet, from the BTH to the ICRC, whatever carried it, with what is known of it: a snap length
// may have cut it.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "parley/time.hpp"
#include "wire/ib/packet.hpp"
#include "wire/pcap.hpp"

namespace parley::capture {

struct TransportPacket {
  std::uint64_t frame = 0;
  Instant at{};
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

/// What the readers of the several carriers have in common.
class TransportReader {
 public:
  enum class Status : std::uint8_t {
    packet,
    cut,        ///< the capture ends before the BTH does
    fragment,   ///< of an IP packet: fragments are not joined
    other,      ///< no packet of InfiniBand's transport
    malformed,  ///< `why` says where
  };
  /// "frame 12, octet 42: ...".
  const std::string& why() const { return why_; }

 protected:
  ~TransportReader() = default;
  Status malformed(const wire::CapturedPacket& captured, std::size_t at, std::string_view what);
  /// The rest of `out`, whose bth_at is set. `network`: what icrc() covers. `packet`: BTH to ICRC, with zeros for what is missing.
  Status read_transport(const wire::CapturedPacket& captured, ConstBytes network, ConstBytes packet,
                        TransportPacket& out);
  /// `octets` with zeros up to `size`, until the next call.
  ConstBytes filled(ConstBytes octets, std::size_t size);

 private:
  Bytes filled_;
  std::string why_;
};

}  // namespace parley::capture
