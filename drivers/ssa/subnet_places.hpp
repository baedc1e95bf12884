// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// What the master asks about a port when it gives a node a place: its leaf switch, the hops to another port, and the
// P_Keys that the subnet manager has given it. Copied from a collection.
#pragma once
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "base/gid.hpp"
#include "drivers/ssa/collect.hpp"

namespace parley::ssa_driver {

class SubnetPlaces {
 public:
  SubnetPlaces(const mad::Topology& topology, const SubnetTables& tables);

  /// Ports of hosts and switches.
  std::size_t size() const { return places_.size(); }
  bool has(const Gid& gid) const { return find(gid) != nullptr; }
  /// GUID of the switch at the port's link; 0: unknown.
  std::uint64_t leaf_of(const Gid& gid) const;
  /// Links between two ports; unknown_hops if one is unknown or has no switch.
  unsigned hops(const Gid& a, const Gid& b) const;
  /// A limited P_Key also if the port has the full one.
  bool has_p_key(const Gid& gid, std::uint16_t p_key) const;

  static constexpr unsigned unknown_hops = 64;

 private:
  struct Place {
    std::uint32_t leaf = mad::no_node;  // a switch, by its index in the topology
    std::vector<std::uint16_t> p_keys;
  };
  const Place* find(const Gid& gid) const;
  const std::vector<std::uint8_t>& distances_from(std::uint32_t leaf) const;

  std::uint64_t gid_prefix_;
  std::unordered_map<std::uint64_t, Place> places_;     // by port GUID
  std::vector<std::uint64_t> guids_;                    // of nodes
  std::vector<std::vector<std::uint32_t>> neighbours_;  // of switches: switches
  mutable std::unordered_map<std::uint32_t, std::vector<std::uint8_t>>
      distances_;  // by leaf, when they are first needed
};

}  // namespace parley::ssa_driver
