// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The nodes, ports and links of a subnet that a discovery has found, in compact form, for printers and checks.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "mad/path.hpp"
#include "wire/mad/smp.hpp"

namespace parley::mad {

inline constexpr std::uint32_t no_node = ~0U;

/// The data of a port. Numbers are those of PortInfo.
struct TopologyPort {
  std::uint64_t guid = 0;  ///< for ports of channel adapters and routers, and for port 0 of switches
  std::uint32_t peer = no_node;
  std::uint32_t capability_mask = 0;
  std::uint16_t lid = 0;
  std::uint8_t peer_port = 0, lmc = 0;
  std::uint8_t width_supported = 0, width_enabled = 0, width_active = 0;
  std::uint8_t speed_supported : 4 = 0, speed_enabled : 4 = 0;
  std::uint8_t speed_active : 4 = 0, ext_active : 4 = 0;
  std::uint8_t ext_supported : 4 = 0, ext_enabled : 4 = 0;
  std::uint8_t ext2_supported : 2 = 0, ext2_enabled : 3 = 0, ext2_active : 2 = 0;
  std::uint8_t state : 4 = 0, physical_state : 4 = 0;
  std::uint8_t mtu : 4 = 0, mtu_cap : 4 = 0;
  bool known : 1 = false;      ///< its PortInfo was read
  bool lost : 1 = false;       ///< there was no answer for its PortInfo
  bool peer_lost : 1 = false;  ///< the node behind it did not answer

  bool link_up() const { return physical_state == static_cast<std::uint8_t>(wire::mad::PortPhysicalState::link_up); }
  void set(const wire::mad::PortInfo& info);
};

struct TopologyNode {
  std::uint64_t guid = 0, system_image_guid = 0, port_guid = 0;
  std::uint32_t vendor_id = 0, revision = 0;
  std::uint32_t first_port = 0;    ///< index of port 0
  std::uint32_t text_at = 0;       ///< index of its description
  std::uint32_t parent = no_node;  ///< the next node towards the start of the discovery
  std::uint16_t device_id = 0;
  std::uint8_t ports = 0, parent_port = 0, text_octets = 0;
  std::uint8_t reached_port = 0;  ///< the port by which the discovery reached the node
  std::uint8_t hops = 0;
  wire::mad::NodeType type{};
  bool enhanced_port0 : 1 = false;
  bool by_lid : 1 = false;  ///< it answers as the same node at its LID
  bool lost : 1 = false;    ///< a request to it had no answer
};

class Topology {
 public:
  const std::vector<TopologyNode>& nodes() const { return nodes_; }
  std::span<const TopologyPort> ports_of(const TopologyNode& node) const {
    return std::span(ports_).subspan(node.first_port, node.ports + std::size_t{1});
  }
  const TopologyPort& port(std::uint32_t node, std::uint8_t number) const {
    return ports_[nodes_[node].first_port + number];
  }
  TopologyPort& port(std::uint32_t node, std::uint8_t number) { return ports_[nodes_[node].first_port + number]; }
  TopologyNode& node(std::uint32_t index) { return nodes_[index]; }
  std::string_view description(const TopologyNode& node) const {
    return std::string_view(texts_).substr(node.text_at, node.text_octets);
  }
  std::uint32_t find(std::uint64_t guid) const;
  /// Links, each counted once.
  std::size_t links() const;
  std::size_t count(wire::mad::NodeType type) const;
  /// The port's LID; for a switch, the LID of port 0.
  std::uint16_t lid_of(std::uint32_t node, std::uint8_t port) const;
  /// The directed route by which the discovery reached a node; none if it has more than 63 hops.
  std::optional<Route> route_to(std::uint32_t node) const;
  /// For a linked port: whether it is the lesser end of its link. Use it to visit each link once.
  bool is_first_end(std::uint32_t node, std::uint8_t port) const;

  /// The index of the node with that GUID; adds the node if there is none.
  struct Added {
    std::uint32_t node;
    bool is_new;
  };
  Added add(const wire::mad::NodeInfo& info, std::uint32_t parent, std::uint8_t parent_port);
  void set_description(std::uint32_t node, std::string_view text);
  /// Links both ends. False: one of them is linked to another port already, or the node has no such port.
  bool link(std::uint32_t a, std::uint8_t a_port, std::uint32_t b, std::uint8_t b_port);

 private:
  std::vector<TopologyNode> nodes_;
  std::vector<TopologyPort> ports_;
  std::string texts_;
  std::unordered_map<std::uint64_t, std::uint32_t> by_guid_;
};

/// "4x"; "?" for a value without a name.
std::string width_text(std::uint8_t width);
/// The active speed: "SDR", "EDR", ...
std::string_view speed_text(const TopologyPort& port);
/// A link's width and speed as "4xEDR".
std::string link_text(const TopologyPort& port);

}  // namespace parley::mad
