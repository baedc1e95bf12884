// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "sim/subnet/route.hpp"

namespace parley::sim::subnet {

namespace {

/// Over the cable of `port`; nowhere if the cable does not carry it.
std::uint32_t cross(State& state, std::uint32_t port, bool data) {
  if (!state.carries(port, data)) {
    add_one(state.errors(port).xmit_discards);
    return nowhere;
  }
  state.count_hop(port);
  return state.port(port).peer;
}

}  // namespace

bool has_lid(const PortInfo& info, std::uint16_t lid) {
  const unsigned base = info.get(PortInfo::lid);
  return base != 0 && lid >= base && lid < base + (1U << info.get(PortInfo::lmc));
}

std::uint32_t walk_by_lid(State& state, std::uint32_t port, std::uint16_t lid, bool data) {
  if (lid == 0) return nowhere;
  if (lid == PARLEY_MAD_PERMISSIVE_LID || has_lid(state.port(state.end_port(port)).info, lid)) return port;
  // A channel adapter has one exit; a switch routes its own packets like those of others.
  std::uint32_t at = port;
  if (!state.node_of(state.port(port)).is_switch()) {
    at = cross(state, port, data);
    if (at == nowhere) return nowhere;
  }
  for (std::size_t hops = 0; hops < state.nodes().size(); ++hops) {  // more hops would be a loop
    const std::uint32_t index = state.port(at).node;
    const Node& node = state.nodes()[index];
    const std::uint32_t end = node.is_switch() ? node.first_port : at;
    if (has_lid(state.port(end).info, lid)) return at;
    if (!node.is_switch()) {
      add_one(state.errors(at).rcv_errors);
      return nowhere;
    }
    const unsigned number = node.out_port(lid);
    const std::uint32_t out = number == 0 ? nowhere : state.port_of(index, number);
    if (out == nowhere) {
      add_one(state.errors(at).relay_errors);
      return nowhere;
    }
    at = cross(state, out, data);
    if (at == nowhere) return nowhere;
  }
  return nowhere;
}

std::uint32_t walk_directed(State& state, std::uint32_t port, ConstBytes path, unsigned hops, MutBytes back,
                            EgressPorts& trail) {
  for (unsigned hop = 1; hop <= hops; ++hop) {
    const std::uint32_t node = state.port(port).node;
    back[hop - 1] = state.port(port).number;
    if (hop > 1 && !state.nodes()[node].is_switch()) return nowhere;  // IBA §14.2.2.2: only a switch forwards it
    const std::uint32_t out = path[hop] == 0 ? nowhere : state.port_of(node, path[hop]);
    if (out == nowhere) return nowhere;
    port = cross(state, out, false);
    if (port == nowhere) return nowhere;
    trail.out[trail.hops++] = out;
  }
  back[hops] = state.port(port).number;
  return port;
}

std::uint32_t walk_back(State& state, std::uint32_t port, ConstBytes back, unsigned hops) {
  for (unsigned hop = hops; hop >= 1; --hop) {
    const std::uint32_t node = state.port(port).node;
    if (hop < hops && !state.nodes()[node].is_switch()) return nowhere;
    const std::uint32_t out = back[hop] == 0 ? nowhere : state.port_of(node, back[hop]);
    if (out == nowhere) return nowhere;
    port = cross(state, out, false);
    if (port == nowhere) return nowhere;
  }
  return port;
}

void count_back(State& state, const EgressPorts& trail) {
  for (std::size_t i = trail.hops; i-- > 0;) state.count_hop(state.port(trail.out[i]).peer);
}

}  // namespace parley::sim::subnet
