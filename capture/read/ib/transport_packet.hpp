// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// One captured InfiniBand transport packet, from the BTH to the ICRC, over any link (InfiniBand or RoCE). A snap length
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
  wire::ib::Packet packet;                ///< octets that the capture lacks are 0
  std::size_t wire_size = 0;              ///< octets from the BTH to the ICRC, inclusive
  std::size_t known = 0;                  ///< how many of them are in the capture
  std::size_t bth_at = 0;                 ///< offset of the BTH in the frame
  std::optional<std::uint32_t> icrc_due;  ///< the computed ICRC; only if all octets were captured

  bool whole() const { return known == wire_size; }
  bool icrc_wrong() const { return icrc_due && *icrc_due != packet.icrc; }
  std::size_t headers_size() const;
  /// The headers behind the BTH are in the capture.
  bool headers_known() const { return known >= headers_size(); }
  /// The captured part of the payload.
  ConstBytes known_payload() const;
  wire::ib::Operation operation() const { return wire::ib::operation_of(packet.bth.opcode); }
  wire::ib::Service service() const { return wire::ib::service_of(packet.bth.opcode); }
};

/// Eight hexadecimal digits in wire order: the least significant octet first (IBA §7.8.1).
std::string icrc_text(std::uint32_t icrc);

/// The common part of the readers of InfiniBand links and RoCE.
class TransportReader {
 public:
  enum class Status : std::uint8_t {
    packet,
    cut,        ///< the capture ends before the end of the BTH
    fragment,   ///< an IP fragment; fragments are not joined
    other,      ///< not a packet of InfiniBand's transport
    malformed,  ///< why() has the position and the reason
  };
  /// "frame 12, octet 42: ...".
  const std::string& why() const { return why_; }

 protected:
  ~TransportReader() = default;
  Status malformed(const wire::CapturedPacket& captured, std::size_t at, std::string_view what);
  /// Fills `out`; out.bth_at must be set. `network`: the octets below the BTH that the ICRC covers. `packet`: BTH to
  /// ICRC, with zeros for missing octets.
  Status read_transport(const wire::CapturedPacket& captured, ConstBytes network, ConstBytes packet,
                        TransportPacket& out);
  /// `octets` with zeros appended up to `size`; valid until the next call.
  ConstBytes filled(ConstBytes octets, std::size_t size);

 private:
  Bytes filled_;
  std::string why_;
};

}  // namespace parley::capture
