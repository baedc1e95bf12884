// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The paths of MADs through a simulated subnet: by directed route, by LID, or both (IBA §14.2.2, §18.2.4).
#pragma once
#include "sim/subnet/state.hpp"

namespace parley::sim::subnet {

/// The ports by which packets leave nodes, in order: the response to a directed route passes the same ports.
struct EgressPorts {
  std::array<std::uint32_t, 64> out{};
  std::size_t hops = 0;
};

/// From `port` to the owner of the LID: returns the port by which the packet arrives there, or nowhere. `data`: the
/// packet is not subnet management. A drop is counted where it happens.
std::uint32_t walk_by_lid(State& state, std::uint32_t port, std::uint16_t lid, bool data);

/// Follows `path[1]` to `path[hops]` from the node of `port`; the ingress port at each node is written to `back` (IBA
/// §14.2.2.2). Returns the port by which it finally arrives, or nowhere.
std::uint32_t walk_directed(State& state, std::uint32_t port, ConstBytes path, unsigned hops, MutBytes back,
                            EgressPorts& trail);
/// A response on its way back from the node of `port` (IBA §14.2.2.4).
std::uint32_t walk_back(State& state, std::uint32_t port, ConstBytes back, unsigned hops);
/// The same for a request that has just passed `trail`.
void count_back(State& state, const EgressPorts& trail);

/// Whether the end port has this LID.
bool has_lid(const PortInfo& info, std::uint16_t lid);

}  // namespace parley::sim::subnet
