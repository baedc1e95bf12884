// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// What the RoCE packets of one flow have in common, kept from one to the next: a host's last flows, each way.
#pragma once
#include <cstdint>
#include <vector>

#include "base/same_octets.hpp"
#include "wire/ib/sealer.hpp"

namespace parley::sim {

struct RoceFlow {
  std::uint64_t way = 0;          ///< PacketPath::way: never reused; 0: none
  wire::ib::RoceHeader header{};  ///< the identification, the checksum and the flow label say nothing
  wire::ib::Sealer sealer{};
};

/// Flows that meet in a place of the table drive each other out.
class RoceFlows {
 public:
  RoceFlow& of(const wire::ib::RoceHeader& header) {
    if (flows_.empty()) flows_.resize(places);
    RoceFlow& flow = flows_[(header.source_port + 7U * header.source[15] + 3U * header.destination[15]) % places];
    if (flow.way == 0 || !same(flow.header, header))
      flow = {.way = ++last_way_, .header = header, .sealer = wire::ib::Sealer(header)};
    return flow;
  }

 private:
  static constexpr std::size_t places = 16;
  static bool same(const wire::ib::RoceHeader& a, const wire::ib::RoceHeader& b) {
    return a.v2 == b.v2 && a.source_port == b.source_port && a.traffic_class == b.traffic_class &&
           a.hop_limit == b.hop_limit && a.dont_fragment == b.dont_fragment && same_octets(a.source, b.source) &&
           same_octets(a.destination, b.destination);
  }

  std::vector<RoceFlow> flows_;  // `places`, from the first packet on
  std::uint64_t last_way_ = 0;
};

}  // namespace parley::sim
