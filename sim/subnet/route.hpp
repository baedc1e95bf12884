// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// How MADs go through a simulated subnet: by directed route, by LID, or both (IBA §14.2.2, §18.2.4).
#pragma once
#include "sim/subnet/state.hpp"

namespace parley::sim::subnet {

/// The ports by which packets leave nodes, in order: what comes back by a directed route goes through the same.
struct Trail {
  std::array<std::uint32_t, 64> out{};
  std::size_t hops = 0;
};

/// From `port` to whom the LID is: the port by which the packet comes to it, or nowhere. `data`: it is none of subnet management.
/// What keeps it from there is counted where it happens.
std::uint32_t walk_by_lid(State& state, std::uint32_t port, std::uint16_t lid, bool data);

/// By `path[1]` to `path[hops]` from the node of `port`, whose entry in each node goes to `back` (IBA §14.2.2.2). The port by which it
/// comes in at the end, or nowhere.
std::uint32_t walk_directed(State& state, std::uint32_t port, ConstBytes path, unsigned hops, MutBytes back,
                            Trail& trail);
/// A response on its way back from the node of `port` (IBA §14.2.2.4).
std::uint32_t walk_back(State& state, std::uint32_t port, ConstBytes back, unsigned hops);
/// The same where the request has just come through `trail`.
void count_back(State& state, const Trail& trail);

/// Whether the LID is that of an end port.
bool has_lid(const PortInfo& info, std::uint16_t lid);

}  // namespace parley::sim::subnet
