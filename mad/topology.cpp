// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "mad/topology.hpp"

#include <algorithm>

namespace parley::mad {

using wire::mad::NodeInfo;
using wire::mad::NodeType;
using wire::mad::PortInfo;

void TopologyPort::set(const PortInfo& info) {
  lid = info.get(PortInfo::lid);
  lmc = info.get(PortInfo::lmc);
  capability_mask = info.get(PortInfo::capability_mask);
  width_supported = info.get(PortInfo::link_width_supported);
  width_enabled = info.get(PortInfo::link_width_enabled);
  width_active = info.get(PortInfo::link_width_active);
  speed_supported = info.get(PortInfo::link_speed_supported) & 15U;
  speed_enabled = info.get(PortInfo::link_speed_enabled) & 15U;
  speed_active = info.get(PortInfo::link_speed_active) & 15U;
  ext_supported = info.get(PortInfo::link_speed_ext_supported) & 15U;
  ext_enabled = info.get(PortInfo::link_speed_ext_enabled) & 15U;
  ext_active = info.get(PortInfo::link_speed_ext_active) & 15U;
  ext2_supported = info.get(PortInfo::link_speed_ext_supported2) & 3U;
  ext2_enabled = info.get(PortInfo::link_speed_ext_enabled2) & 7U;
  ext2_active = info.get(PortInfo::link_speed_ext_active2) & 3U;
  state = static_cast<std::uint8_t>(info.get(PortInfo::port_state)) & 15U;
  physical_state = static_cast<std::uint8_t>(info.get(PortInfo::port_physical_state)) & 15U;
  mtu = static_cast<std::uint8_t>(info.get(PortInfo::neighbor_mtu)) & 15U;
  mtu_cap = static_cast<std::uint8_t>(info.get(PortInfo::mtu_cap)) & 15U;
  known = true;
}

std::uint32_t Topology::find(std::uint64_t guid) const {
  const auto found = by_guid_.find(guid);
  return found != by_guid_.end() ? found->second : no_node;
}

std::size_t Topology::links() const {
  return static_cast<std::size_t>(
             std::count_if(ports_.begin(), ports_.end(), [](const TopologyPort& p) { return p.peer != no_node; })) /
         2;
}

std::size_t Topology::count(NodeType type) const {
  return static_cast<std::size_t>(
      std::count_if(nodes_.begin(), nodes_.end(), [type](const TopologyNode& n) { return n.type == type; }));
}

std::uint16_t Topology::lid_of(std::uint32_t node, std::uint8_t number) const {
  return port(node, nodes_[node].type == NodeType::switch_ ? std::uint8_t{0} : number).lid;
}

std::optional<Route> Topology::route_to(std::uint32_t node) const {
  Route out;
  if (nodes_[node].hops > PARLEY_MAD_PATH_MAX - 1) return std::nullopt;
  out.hops = nodes_[node].hops;
  for (std::size_t hop = out.hops; hop > 0; --hop) {
    out.octets[hop] = nodes_[node].parent_port;
    node = nodes_[node].parent;
  }
  return out;
}

bool Topology::is_first_end(std::uint32_t node, std::uint8_t number) const {
  const TopologyPort& end = port(node, number);
  return end.peer > node || (end.peer == node && end.peer_port >= number);
}

Topology::Added Topology::add(const NodeInfo& info, std::uint32_t parent, std::uint8_t parent_port) {
  const std::uint64_t guid = info.get(NodeInfo::node_guid);
  const auto [place, is_new] = by_guid_.emplace(guid, static_cast<std::uint32_t>(nodes_.size()));
  if (!is_new) return {place->second, false};
  TopologyNode node;
  node.guid = guid;
  node.system_image_guid = info.get(NodeInfo::system_image_guid);
  node.port_guid = info.get(NodeInfo::port_guid);
  node.vendor_id = info.get(NodeInfo::vendor_id);
  node.device_id = info.get(NodeInfo::device_id);
  node.revision = info.get(NodeInfo::revision);
  node.type = info.get(NodeInfo::node_type);
  node.ports = std::min<std::uint8_t>(info.get(NodeInfo::num_ports), 254);
  node.reached_port = info.get(NodeInfo::local_port_num);
  node.first_port = static_cast<std::uint32_t>(ports_.size());
  node.parent = parent;
  node.parent_port = parent_port;
  if (parent != no_node) node.hops = static_cast<std::uint8_t>(std::min(nodes_[parent].hops + 1, 255));
  ports_.resize(ports_.size() + node.ports + 1U);
  if (node.type == NodeType::switch_) ports_[node.first_port].guid = node.port_guid;
  nodes_.push_back(node);
  return {place->second, true};
}

void Topology::set_description(std::uint32_t node, std::string_view text) {
  nodes_[node].text_at = static_cast<std::uint32_t>(texts_.size());
  nodes_[node].text_octets = static_cast<std::uint8_t>(text.size());
  texts_ += text;
}

bool Topology::link(std::uint32_t a, std::uint8_t a_port, std::uint32_t b, std::uint8_t b_port) {
  if (a_port > nodes_[a].ports || b_port > nodes_[b].ports) return false;
  TopologyPort &x = port(a, a_port), &y = port(b, b_port);
  const bool fits = (x.peer == no_node || (x.peer == b && x.peer_port == b_port)) &&
                    (y.peer == no_node || (y.peer == a && y.peer_port == a_port));
  if (!fits) return false;
  x.peer = b;
  x.peer_port = b_port;
  y.peer = a;
  y.peer_port = a_port;
  return true;
}

std::string width_text(std::uint8_t width) {
  const std::string_view name = wire::mad::name_of(wire::mad::Kind::link_width, width);
  return name.empty() ? "?" : std::string(name);
}

std::string_view speed_text(const TopologyPort& port) {
  if ((port.ext2_active & 1U) != 0) return "XDR";
  switch (port.ext_active) {
    case 0: break;
    case 1: return "FDR";
    case 2: return "EDR";
    case 4: return "HDR";
    case 8: return "NDR";
    default: return "?";
  }
  switch (port.speed_active) {
    case 1: return "SDR";
    case 2: return "DDR";
    case 4: return "QDR";
    default: return "?";
  }
}

std::string link_text(const TopologyPort& port) {
  return width_text(port.width_active) + std::string(speed_text(port));
}

}  // namespace parley::mad
