// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// What recorders need to know of a world.
#include "sim/record/record.hpp"

namespace parley::sim {

RecordTopology topology_of(const World& world) {
  RecordTopology out;
  for (NodeId node = 0; node < world.node_count(); ++node)
    out.nodes.push_back({world.node_name(node), world.is_switch(node), {}});
  std::vector<std::uint16_t> ports(out.nodes.size());
  for (LinkId link = 0; link < world.link_count(); ++link) {
    RecordTopology::Link l;
    l.options = world.link_options(link);
    for (std::uint8_t end = 0; end < 2; ++end) {
      l.ends[end] = world.link_end(link, end);
      if (l.ends[end].node < ports.size()) ++ports[l.ends[end].node];
    }
    out.links.push_back(std::move(l));
  }
  for (std::size_t i = 0; i < world.host_count(); ++i) {
    const Host& host = world.host(i);
    if (host.id() >= out.nodes.size()) continue;
    std::vector<Address>& addresses = out.nodes[host.id()].addresses;
    for (std::uint16_t port = 0; port < ports[host.id()]; ++port)
      for (const Address& a :
           {host.address(Address::Family::v4, port), host.address(Address::Family::v6, port), host.link_local(port)})
        if (!a.is_any()) addresses.push_back(a);
  }
  return out;
}

}  // namespace parley::sim
