// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The information about a world that recorders need.
#include <set>
#include <string>
#include <utility>

#include "sim/record/record.hpp"

namespace parley::sim {

RecordTopology topology_of(const World& world) {
  RecordTopology out;
  for (NodeId node = 0; node < world.node_count(); ++node)
    out.nodes.push_back({world.node_name(node), world.is_switch(node), {}});
  std::set<std::pair<NodeId, std::string>> linked;  // NICs as "host/nic"
  for (LinkId link = 0; link < world.link_count(); ++link) {
    RecordTopology::Link l;
    l.options = world.link_options(link);
    for (std::uint8_t end = 0; end < 2; ++end) {
      l.ends[end] = world.link_end(link, end);
      linked.emplace(l.ends[end].node, l.ends[end].name);
    }
    out.links.push_back(std::move(l));
  }
  for (std::size_t i = 0; i < world.host_count(); ++i) {
    const Host& host = world.host(i);
    if (host.id() >= out.nodes.size()) continue;
    std::vector<Address>& addresses = out.nodes[host.id()].addresses;
    for (std::uint16_t nic = 0; nic < host.nic_count(); ++nic) {
      if (!linked.contains({host.id(), host.name() + "/" + host.nic_name(nic)})) continue;
      for (const Address& a :
           {host.address(Address::Family::v4, nic), host.address(Address::Family::v6, nic), host.link_local(nic)})
        if (!a.is_any()) addresses.push_back(a);
    }
  }
  return out;
}

}  // namespace parley::sim
