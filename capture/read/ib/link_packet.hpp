// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// One captured packet of an InfiniBand link (IBA §7.7, §8.3). The link type is InfiniBand (the packet begins with the
// LRH), or ERF with a record of type InfiniBand, as Wireshark and `parley mad --pcap` write it.
#pragma once
#include <optional>

#include "capture/read/ib/transport_packet.hpp"
#include "wire/ib/roce.hpp"

namespace parley::capture {

struct LinkPacket : TransportPacket {
  std::uint16_t source_lid = 0, destination_lid = 0;
  std::optional<wire::ib::RoceHeader> grh;
};

/// Reads packets one by one. It fills a cut packet with zeros up to its length; the next call overwrites that copy. It
/// ignores the VCRC, which not every capture has.
class LinkReader : public TransportReader {
 public:
  static bool reads(std::uint16_t link_type) {
    return link_type == wire::link_type_erf || link_type == wire::link_type_infiniband;
  }
  /// reads(captured.link_type) must be true.
  Status read(const wire::CapturedPacket& captured, LinkPacket& out);

 private:
  Status read_link(const wire::CapturedPacket& captured, std::size_t lrh_at, std::size_t on_wire, LinkPacket& out);
};

}  // namespace parley::capture
