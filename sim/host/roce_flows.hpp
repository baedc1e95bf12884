// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// What the RoCE packets of one flow have in common, cached between packets: a host's last flows, in each direction.
#pragma once
#include <array>
#include <cstdint>
#include <vector>

#include "base/same_octets.hpp"
#include "sim/host/host_sum.hpp"
#include "wire/ib/sealer.hpp"

namespace parley::sim {

struct RoceFlow {
  std::uint64_t way = 0;          ///< PacketPath::way: never reused; 0: none
  std::uint16_t port = 0;         ///< of the NIC: link-local addresses may be the same on each (RFC 4007 §4)
  wire::ib::RoceHeader header{};  ///< identification, checksum and flow label are unset
  wire::ib::IcrcSealer sealer{};
  /// TX: header template (Ethernet to UDP) for a payload of `head_for` octets, IP ID unset. RX: IP and UDP headers of
  /// the last packet.
  std::array<std::uint8_t, 14 + 40 + 8> head{};
  std::size_t head_for = 0;
  /// TX: sums without the checksum fields: over the IPv4 header; over the pseudo header and the UDP header.
  InternetSum network_sum{}, udp_sum{};
};

/// Flows that share a place in the table evict each other.
class RoceFlows {
 public:
  RoceFlow& of(const wire::ib::RoceHeader& header, std::uint16_t port = 0) {
    if (flows_.empty()) flows_.resize(places);
    RoceFlow& flow =
        flows_[(header.source_port + 7U * header.source[15] + 3U * header.destination[15] + 5U * port) % places];
    if (flow.way == 0 || flow.port != port || !same(flow.header, header))
      flow = {.way = ++last_way_, .port = port, .header = header, .sealer = wire::ib::IcrcSealer(header)};
    last_ = &flow;
    return flow;
  }
  /// The last result of of() if it was for this port, else null.
  RoceFlow* last(std::uint16_t port) const { return last_ != nullptr && last_->port == port ? last_ : nullptr; }

 private:
  static constexpr std::size_t places = 16;
  static bool same(const wire::ib::RoceHeader& a, const wire::ib::RoceHeader& b) {
    return a.v2 == b.v2 && a.source_port == b.source_port && a.traffic_class == b.traffic_class &&
           a.hop_limit == b.hop_limit && a.dont_fragment == b.dont_fragment && same_octets(a.source, b.source) &&
           same_octets(a.destination, b.destination);
  }

  std::vector<RoceFlow> flows_;  // `places` elements, allocated with the first packet
  RoceFlow* last_ = nullptr;
  std::uint64_t last_way_ = 0;
};

}  // namespace parley::sim
