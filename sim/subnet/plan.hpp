// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The structure of an InfiniBand subnet: nodes and links, read from files or generated as regular networks.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "wire/mad/smp.hpp"

namespace parley::sim::subnet {

using wire::mad::NodeType;

inline constexpr std::uint32_t nowhere = 0xFFFFFFFF;
inline constexpr std::size_t nodes_max = 65535;
inline constexpr std::size_t ports_max = 254;  ///< per node; IBA §14.2.5.3
inline constexpr std::size_t name_max = 64;    ///< octets

struct PlanPort {
  std::uint32_t peer = nowhere;  ///< the node at the other end
  std::uint8_t peer_port = 0;
  std::uint8_t widths = 2, speeds = 1, speeds_ext = 0;  ///< enabled values, as bits of PortInfo
  std::uint8_t lmc = 0;
  std::uint16_t lid = 0;
  std::uint64_t guid = 0;  ///< 0: the node's GUID plus the port number
  std::size_t line = 0;    ///< line in the file; 0: none
};

struct PlanNode {
  NodeType type = NodeType::channel_adapter;
  std::string name, description;
  std::vector<PlanPort> ports;  ///< port n is ports[n - 1]
  std::uint64_t guid = 0, system_guid = 0;
  std::uint32_t vendor = 0, device = 0;
  std::uint16_t lid = 0;  ///< for a switch
  std::uint8_t lmc = 0;
  bool enhanced_port0 = false;
  std::size_t line = 0;
};

struct Plan {
  std::vector<PlanNode> nodes;
};

/// The line of the file, from 1; 0 if the error belongs to no line.
struct PlanError {
  std::size_t line = 0;
  std::string text;
};
template <class T>
using Planned = tl::expected<T, PlanError>;

/// A file in ibsim's net format, or the output of ibnetdiscover. Missing GUIDs are assigned as ibsim does. ibsim's
/// `include`, `module` and aliases are refused.
Planned<Plan> read_plan(std::string_view text);
/// In ibsim's net format; read_plan() reads the same plan back.
std::string write_plan(const Plan& plan);

/// `levels` 2 or 3. Two: `pods` leaf switches of `hosts` hosts, each linked `trunk` times to each spine. Three: `pods`
/// of radix/2 leaf and radix/2 middle switches, whose uplinks go in trunks to the cores of their position.
struct FatTree {
  unsigned levels = 2, radix = 36, pods = 36, hosts = 18, trunk = 1;
};
/// Rings of switches in each dimension (a single link for size two), `hosts` at each switch.
struct Torus {
  std::vector<unsigned> sizes;  ///< 1 to 4 dimensions
  unsigned hosts = 1, trunk = 1;
};
/// Groups of `routers` that are fully linked, each router with `hosts` and `globals` links to other groups.
struct Dragonfly {
  unsigned routers = 4, globals = 2, hosts = 2, groups = 0;  ///< groups 0: the maximum
};
/// Hosts are H00000 and following, switches S0000 and following. Errors: impossible sizes.
Planned<Plan> make_plan(const FatTree& shape);
Planned<Plan> make_plan(const Torus& shape);
Planned<Plan> make_plan(const Dragonfly& shape);

}  // namespace parley::sim::subnet
