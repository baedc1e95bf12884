// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "drivers/ssa/subnet_places.hpp"

#include <algorithm>

#include "base/bits.hpp"
#include "ssa/paths.hpp"
#include "ssa/paths_p_keys.hpp"

namespace parley::ssa_driver {

SubnetPlaces::SubnetPlaces(const mad::Topology& topology, const SubnetTables& tables)
    : gid_prefix_(tables.subnet.gid_prefix) {
  const auto& nodes = topology.nodes();
  const auto is_switch = [&](std::uint32_t node) {
    return node != mad::no_node && nodes[node].type == wire::mad::NodeType::switch_;
  };
  neighbours_.resize(nodes.size());
  for (std::uint32_t i = 0; i < nodes.size(); ++i) {
    guids_.push_back(nodes[i].guid);
    const auto ports = topology.ports_of(nodes[i]);
    for (std::size_t n = 0; n < ports.size(); ++n) {
      if (is_switch(i) && n != 0) {
        if (is_switch(ports[n].peer)) neighbours_[i].push_back(ports[n].peer);
        continue;
      }
      if (!ports[n].known || ports[n].guid == 0) continue;
      Place& place = places_[ports[n].guid];
      place.leaf = is_switch(i) ? i : is_switch(ports[n].peer) ? ports[n].peer : mad::no_node;
      const auto keys = tables.p_keys.find({i, static_cast<std::uint8_t>(n)});
      if (keys != tables.p_keys.end()) place.p_keys = keys->second;
    }
  }
}

const SubnetPlaces::Place* SubnetPlaces::find(const Gid& gid) const {
  const std::uint64_t prefix = read_bits(gid, 0, 64);
  if (prefix != gid_prefix_ && prefix != ssa::link_local_prefix) return nullptr;
  const auto at = places_.find(read_bits(gid, 64, 64));
  return at == places_.end() ? nullptr : &at->second;
}

std::uint64_t SubnetPlaces::leaf_of(const Gid& gid) const {
  const Place* place = find(gid);
  return place == nullptr || place->leaf == mad::no_node ? 0 : guids_[place->leaf];
}

unsigned SubnetPlaces::hops(const Gid& a, const Gid& b) const {
  const Place *from = find(a), *to = find(b);
  if (from == nullptr || to == nullptr || from->leaf == mad::no_node || to->leaf == mad::no_node) return unknown_hops;
  const std::uint8_t between = distances_from(to->leaf)[from->leaf];  // parents have fewer leaves
  return between >= unknown_hops ? unknown_hops : between + 2U;
}

/// Breadth first, over switches.
const std::vector<std::uint8_t>& SubnetPlaces::distances_from(std::uint32_t leaf) const {
  const auto [at, is_new] = distances_.try_emplace(leaf);
  if (!is_new) return at->second;
  std::vector<std::uint8_t>& out = at->second;
  out.assign(neighbours_.size(), unknown_hops);
  std::vector<std::uint32_t> level{leaf}, next;
  out[leaf] = 0;
  for (std::uint8_t hops = 1; !level.empty() && hops < unknown_hops; ++hops, level.swap(next), next.clear())
    for (const std::uint32_t node : level)
      for (const std::uint32_t peer : neighbours_[node])
        if (out[peer] == unknown_hops) {
          out[peer] = hops;
          next.push_back(peer);
        }
  return out;
}

bool SubnetPlaces::has_p_key(const Gid& gid, std::uint16_t p_key) const {
  const Place* place = find(gid);
  if (place == nullptr) return false;
  return std::any_of(place->p_keys.begin(), place->p_keys.end(),
                     [&](std::uint16_t own) { return own == p_key || own == (p_key | ssa::p_key_full); });
}

}  // namespace parley::ssa_driver
