// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Subnets for tests of paths: a model, the database of it, and a walk through the model hop by hop that knows nothing of
// the code under test.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>
#include <utility>

#include "base/rng.hpp"
#include "sim/subnet/plan.hpp"
#include "ssa/paths.hpp"
#include "ssa/writer.hpp"

namespace parley::ssa {

/// A port, by the index of its node and its number.
using NetPort = std::pair<std::uint32_t, unsigned>;

struct Net {
  struct Port {
    std::uint64_t guid = 0;
    std::uint16_t lid = 0;
    std::uint8_t lmc = 0, mtu = 5, rate = 7;
    std::vector<std::uint16_t> p_keys{0xFFFF};
    std::optional<NetPort> peer;
  };
  struct Node {
    bool is_switch = false;
    unsigned ports = 0;
    std::map<unsigned, unsigned> lft, sls;  // by LID
    unsigned top = 0;
  };
  std::vector<Node> nodes;
  std::map<NetPort, Port> ports;
  std::map<unsigned, NetPort> owners;  // by LID
  std::map<std::uint16_t, std::uint8_t> partitions;
  PathSubnet subnet;

  void link(NetPort a, NetPort b) {
    ports[a].peer = b;
    ports[b].peer = a;
  }
  bool is_end(const NetPort& port) const { return !nodes[port.first].is_switch || port.second == 0; }
  std::optional<NetPort> owner(unsigned lid) const {
    const auto found = owners.find(lid);
    return found == owners.end() ? std::nullopt : std::optional(found->second);
  }
  std::vector<NetPort> ends() const {
    std::vector<NetPort> out;
    for (const auto& [at, port] : ports)
      if (is_end(at)) out.push_back(at);
    return out;
  }
};

/// Copies the plan's nodes and links behind those that are there.
inline void add_plan(Net& net, const sim::subnet::Plan& plan) {
  const auto first = static_cast<std::uint32_t>(net.nodes.size());
  for (std::uint32_t i = 0; i < plan.nodes.size(); ++i) {
    const auto& node = plan.nodes[i];
    const bool is_switch = node.type == sim::subnet::NodeType::switch_;
    net.nodes.push_back({.is_switch = is_switch, .ports = static_cast<unsigned>(node.ports.size())});
    if (is_switch) net.ports[{first + i, 0}] = {};
    for (unsigned n = 1; n <= node.ports.size(); ++n) {
      const auto& port = node.ports[n - 1];
      if (port.peer != sim::subnet::nowhere)
        net.ports[{first + i, n}].peer = NetPort{first + port.peer, port.peer_port};
    }
  }
}

/// Gives each end port a GUID and LIDs, with gaps, in an order that is not that of the nodes.
inline void draw_lids(Net& net, Rng& rng, unsigned lmc_max) {
  std::vector<NetPort> ends = net.ends();
  for (std::size_t i = ends.size(); i > 1; --i) std::swap(ends[i - 1], ends[rng.below(i)]);
  unsigned next = 1;
  for (const NetPort& at : ends) {
    Net::Port& port = net.ports[at];
    port.guid = 0x2C90000000000000 + (std::uint64_t{at.first} << 8) + at.second;
    port.lmc = static_cast<std::uint8_t>(rng.below(lmc_max + 1));
    next += static_cast<unsigned>(rng.below(3));
    const unsigned size = 1U << port.lmc;
    next = (next + size - 1) / size * size;
    port.lid = static_cast<std::uint16_t>(next);
    next += size;
    for (unsigned i = 0; i < size; ++i) net.owners[port.lid + i] = at;
  }
}

/// Shortest routes; among equal ones a random port for each LID.
inline void draw_routes(Net& net, Rng& rng) {
  for (const NetPort& end : net.ends()) {
    const Net::Port target = net.ports[end];
    std::map<std::uint32_t, unsigned> distance{{end.first, 0}};
    std::vector<std::uint32_t> queue{end.first};
    for (std::size_t i = 0; i < queue.size(); ++i) {
      const std::uint32_t at = queue[i];
      if (!net.nodes[at].is_switch && at != end.first) continue;
      for (unsigned n = 1; n <= net.nodes[at].ports; ++n) {
        if (at == end.first && !net.nodes[at].is_switch && n != end.second) continue;
        const auto port = net.ports.find({at, n});
        if (port == net.ports.end() || !port->second.peer) continue;
        if (distance.try_emplace(port->second.peer->first, distance[at] + 1).second)
          queue.push_back(port->second.peer->first);
      }
    }
    for (const auto& [node, hops] : distance) {
      if (!net.nodes[node].is_switch) continue;
      std::vector<unsigned> best;
      if (hops == 0) best.push_back(0);
      for (unsigned n = 1; n <= net.nodes[node].ports; ++n) {
        const auto port = net.ports.find({node, n});
        if (port == net.ports.end() || !port->second.peer) continue;
        const NetPort peer = *port->second.peer;
        const auto there = distance.find(peer.first);
        const bool arrives = there != distance.end() && there->second + 1 == hops;
        if (arrives && (peer.first != end.first || net.nodes[peer.first].is_switch || peer.second == end.second))
          best.push_back(n);
      }
      for (unsigned lid = target.lid; !best.empty() && lid < target.lid + (1U << target.lmc); ++lid) {
        net.nodes[node].lft[lid] = best[rng.below(best.size())];
        net.nodes[node].top = std::max(net.nodes[node].top, lid);
      }
    }
  }
}

inline void draw_links(Net& net, Rng& rng) {
  for (auto& [at, port] : net.ports) {
    port.mtu = static_cast<std::uint8_t>(1 + rng.below(5));
    port.rate = static_cast<std::uint8_t>(2 + rng.below(23));
  }
}

inline void draw_p_keys(Net& net, Rng& rng) {
  const std::uint16_t bases[] = {0x7FFF, 0x0001, 0x0100, 0x1234, 0x0002, 0x3412};
  for (const std::uint16_t base : bases)
    if (rng.below(2) == 0) net.partitions[base] = static_cast<std::uint8_t>(rng.below(16));
  for (auto& [at, port] : net.ports) {
    port.p_keys.clear();
    for (const std::uint16_t base : bases)
      for (unsigned member : {0x8000U, 0U})
        if (rng.below(3) == 0) port.p_keys.push_back(static_cast<std::uint16_t>(base | member));
    if (rng.below(4) == 0) port.p_keys.insert(port.p_keys.begin(), {0, 0x8000});  // empty entries
  }
}

inline void draw_sls(Net& net, Rng& rng) {
  for (Net::Node& node : net.nodes)
    if (node.is_switch && rng.below(2) == 0)
      for (const auto& [lid, port] : node.lft)
        if (rng.below(4) != 0) node.sls[lid] = static_cast<unsigned>(rng.below(16));
}

/// Wrong entries: holes, ports without a link, other ports, loops, LIDs beyond LinearFDBTop.
inline void spoil_routes(Net& net, Rng& rng) {
  for (Net::Node& node : net.nodes) {
    for (auto& [lid, port] : node.lft)
      if (rng.below(12) == 0) port = static_cast<unsigned>(rng.below(3) == 0 ? 255 : rng.below(node.ports + 3));
    if (rng.below(4) == 0) node.top -= static_cast<unsigned>(rng.below(node.top / 2 + 1));
  }
}

// The database of a model.

inline RecordId insert_record(DatabaseWriter& writer, PathTable table, const Bytes& record,
                              const Bytes& variable = {}) {
  const auto id = writer.insert(static_cast<std::size_t>(table), record, variable);
  EXPECT_TRUE(id) << id.error().message();
  return id ? *id : 0;
}

template <class Block>
void insert_blocks(DatabaseWriter& writer, RecordId node, const std::map<unsigned, unsigned>& by_lid) {
  std::map<unsigned, Block> blocks;
  for (const auto& [lid, value] : by_lid) {
    const auto [at, is_new] = blocks.try_emplace(lid / lid_block, Block{.node = node});
    if (is_new) at->second.octets.fill(0xFF);
    at->second.block = static_cast<std::uint16_t>(lid / lid_block);
    at->second.octets[lid % lid_block] = static_cast<std::uint8_t>(value);
  }
  for (const auto& [number, block] : blocks) insert_record(writer, Block::table, block.emit());
}

inline SnapshotPtr database_of(const Net& net) {
  DatabaseWriter writer = *DatabaseWriter::create(path_schema(), 7);
  insert_record(writer, PathTable::subnet, net.subnet.emit());
  insert_record(writer, PathTable::node, PathNode{.guid = 1}.emit());  // so that ids are not the indices
  std::vector<RecordId> ids;
  for (std::uint32_t i = 0; i < net.nodes.size(); ++i) {
    PathNode node{.guid = 100 + i, .type = net.nodes[i].is_switch ? PathNode::switch_ : PathNode::adapter};
    node.ports = static_cast<std::uint8_t>(net.nodes[i].ports);
    node.lft_top = static_cast<std::uint16_t>(net.nodes[i].top);
    ids.push_back(insert_record(writer, PathTable::node, node.emit()));
    insert_blocks<PathLft>(writer, ids[i], net.nodes[i].lft);
    insert_blocks<PathSl>(writer, ids[i], net.nodes[i].sls);
  }
  for (const auto& [at, port] : net.ports) {
    PathPort record{.node = ids[at.first], .guid = port.guid, .lid = port.lid};
    record.number = static_cast<std::uint8_t>(at.second);
    record.lmc = port.lmc;
    record.mtu = port.mtu;
    record.rate = port.rate;
    insert_record(writer, PathTable::port, record.emit(), emit_p_keys(port.p_keys));
    if (!port.peer || at > *port.peer) continue;
    PathLink link{.node = {ids[at.first], ids[port.peer->first]}};
    link.port = {static_cast<std::uint8_t>(at.second), static_cast<std::uint8_t>(port.peer->second)};
    insert_record(writer, PathTable::link, link.emit());
  }
  for (const auto& [p_key, sl] : net.partitions)
    insert_record(writer, PathTable::partition, PathPartition{p_key, sl}.emit());
  return writer.commit();
}

// The second opinion.

inline double gbits(std::uint8_t rate) {
#define PARLEY_X(name, value, text) \
  if (rate == (value)) return std::strtod(text, nullptr);
  PARLEY_IB_RATES(PARLEY_X)
#undef PARLEY_X
  return 0;
}

struct Trip {
  PathFault fault = PathFault::none;
  std::vector<NetPort> passed;  // ports that the packet goes through, both ends of each link
};

inline Trip travel(const Net& net, NetPort from, unsigned lid) {
  Trip trip{PathFault::none, {from}};
  const std::optional<NetPort> to = net.owner(lid);
  if (!to) return {PathFault::unknown_lid, {}};
  if (from == *to) return trip;
  NetPort at = from;
  if (!net.nodes[from.first].is_switch) {
    if (!net.ports.at(from).peer) return {PathFault::no_link, {}};
    at = *net.ports.at(from).peer;
    trip.passed.push_back(at);
  }
  for (int switches = 0; net.nodes[at.first].is_switch; ++switches) {
    if (switches == 64) return {PathFault::loop, {}};
    const Net::Node& node = net.nodes[at.first];
    const auto entry = node.lft.find(lid);
    if (entry == node.lft.end() || lid > node.top || entry->second > node.ports) return {PathFault::no_route, {}};
    const NetPort out{at.first, entry->second};
    if (out.second == 0) {
      trip.passed.push_back(out);
      return out == *to ? trip : Trip{PathFault::wrong_end, {}};
    }
    const auto port = net.ports.find(out);
    if (port == net.ports.end() || !port->second.peer) return {PathFault::no_link, {}};
    at = *port->second.peer;
    trip.passed.push_back(out);
    trip.passed.push_back(at);
  }
  return at == *to ? trip : Trip{PathFault::wrong_end, {}};
}

/// 0: the ports may not talk.
inline std::uint16_t choose_p_key(const std::vector<std::uint16_t>& a, const std::vector<std::uint16_t>& b) {
  std::map<unsigned, std::uint16_t> usable;  // by opensm's order
  for (const std::uint16_t x : a)
    for (const std::uint16_t y : b) {
      const unsigned base = x & 0x7FFFU;
      if (base == 0 || base != (y & 0x7FFFU) || (x < 0x8000 && y < 0x8000)) continue;
      std::uint16_t& chosen = usable[(base & 0xFF) << 8 | base >> 8];
      chosen = std::max(chosen, x);
    }
  return usable.empty() ? std::uint16_t{0} : usable.begin()->second;
}

inline HostPath second_opinion(const Net& net, NetPort from, unsigned lid) {
  const Trip trip = travel(net, from, lid);
  if (trip.fault != PathFault::none) return {.fault = trip.fault};
  const NetPort to = *net.owner(lid);
  const Net::Port &source = net.ports.at(from), &destination = net.ports.at(to);
  HostPath out{.p_key = choose_p_key(source.p_keys, destination.p_keys)};
  if (out.p_key == 0) return {.fault = PathFault::no_p_key};
  out.fault = PathFault::none;
  out.mtu = source.mtu;
  out.rate = source.rate;
  for (const NetPort& at : trip.passed) {
    out.mtu = std::min(out.mtu, net.ports.at(at).mtu);
    if (gbits(net.ports.at(at).rate) < gbits(out.rate)) out.rate = net.ports.at(at).rate;
  }
  const auto partition = net.partitions.find(out.p_key & 0x7FFF);
  out.sl = partition == net.partitions.end() ? net.subnet.sl : partition->second;
  // A packet that leaves its host passes the leaf switch next, or the host at the other end of the cable.
  const std::size_t leaf_at = net.nodes[from.first].is_switch ? 0 : 1;
  if (from != to && trip.passed.size() > leaf_at) {
    const Net::Node& leaf = net.nodes[trip.passed[leaf_at].first];
    if (const auto sl = leaf.sls.find(lid); sl != leaf.sls.end()) out.sl = static_cast<std::uint8_t>(sl->second);
  }
  out.packet_life_time = from == to ? std::uint8_t{0} : net.subnet.packet_life_time;
  out.reversible = source.lid != 0 && travel(net, to, source.lid).fault == PathFault::none;
  return out;
}

}  // namespace parley::ssa
