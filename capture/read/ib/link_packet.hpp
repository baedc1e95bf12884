// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// One captured packet of an InfiniBand link (IBA §7.7, §8.3): of the link type InfiniBand, which begins with the LRH, or an ERF record
// of that type, which Wireshark and `parley mad --pcap` write.
#pragma once
#include <optional>

#include "capture/read/ib/transport_packet.hpp"
#include "wire/ib/roce.hpp"

namespace parley::capture {

struct LinkPacket : TransportPacket {
  std::uint16_t source_lid = 0, destination_lid = 0;
  std::optional<wire::ib::RoceHeader> grh;
};

/// Reads packet after packet: of one that is cut it makes a whole one, which the next call overwrites. The VCRC, which not every
/// capture has, is not looked at.
class LinkReader : public TransportReader {
 public:
  static bool reads(std::uint16_t link_type) {
    return link_type == wire::link_type_erf || link_type == wire::link_type_infiniband;
  }
  /// `captured` is of a link type that it reads.
  Status read(const wire::CapturedPacket& captured, LinkPacket& out);

 private:
  Status read_link(const wire::CapturedPacket& captured, std::size_t lrh_at, std::size_t on_wire, LinkPacket& out);
};

}  // namespace parley::capture
