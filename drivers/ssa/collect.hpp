// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The tables for paths (ssa/paths_schema.hpp), read from a subnet by management datagrams: for a master without its subnet
// manager's memory, and to check it. A discovery comes first; it finds nodes, ports and links.
#pragma once
#include <map>
#include <set>
#include <string>
#include <utility>

#include "mad/port.hpp"
#include "mad/topology.hpp"
#include "ssa/paths_schema.hpp"

namespace parley::ssa_driver {

struct CollectOptions {
  mad::Path path = mad::Path::to_self();  ///< retries, times and keys of all requests
  std::size_t jobs_max = 256;             ///< requests given to the Port at a time
  bool route_sls = false;  ///< ask subnet administration for the SL of each path from one host of each switch
};

/// What a discovery does not find. The numbers may be read while it is collected.
struct SubnetTables {
  struct Switch {
    std::uint16_t top = 0;
    std::map<std::uint16_t, std::array<std::uint8_t, ssa::lid_block>> lft, sls;  // by block
  };
  ssa::PathSubnet subnet;
  std::map<std::uint32_t, Switch> switches;                                             // by node
  std::map<std::pair<std::uint32_t, std::uint8_t>, std::vector<std::uint16_t>> p_keys;  // by node and port
  std::map<std::uint16_t, std::uint8_t> partitions;  // SL by the P_Key without member bit
  std::set<std::uint16_t> sl_unknown;                ///< P_Keys of which subnet administration gave no path
  std::size_t asked = 0;                             ///< requests answered or given up
  std::size_t lost = 0;                              ///< of these: given up
  std::string first_error;                           ///< of those given up
  bool whole = false;                                ///< not stopped, and nothing lost
};

/// Whether packets end at this port of the node: port 0 of a switch, each other port of others.
inline bool is_end_port(const mad::TopologyNode& node, std::size_t number) {
  return (node.type == wire::mad::NodeType::switch_) == (number == 0);
}

/// Reads forwarding tables, P_Key tables and SLs. `topology` and `out` must outlive the task. Ends early if the task's
/// scope is stopped.
mad::Task<void> collect(mad::Port& port, const mad::Topology& topology, CollectOptions options, SubnetTables& out);

}  // namespace parley::ssa_driver
