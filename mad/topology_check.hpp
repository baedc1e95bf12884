// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Finds faults of a subnet in its topology and its counters.
#pragma once
#include <optional>

#include "mad/topology.hpp"
#include "wire/mad/pm.hpp"

namespace parley::mad {

#define PARLEY_TOPOLOGY_FAULTS(X) X(width) X(speed) X(state) X(no_lid) X(double_lid) X(lost) X(counter)

enum class TopologyFault : std::uint8_t {
#define PARLEY_X(name) name,
  PARLEY_TOPOLOGY_FAULTS(PARLEY_X)
#undef PARLEY_X
};
/// "width"
std::string_view name_of(TopologyFault fault);

struct TopologyFinding {
  std::uint32_t node = no_node;
  std::uint8_t port = 0;
  TopologyFault fault{};
  std::string text;  ///< "the link to ... is 1x, but both ends have 4x enabled"
};

/// In the order of nodes and ports. A fault of a link is reported at its first end. Duplicate LIDs follow at the end.
std::vector<TopologyFinding> check_links(const Topology& topology);

/// "symbol_error_counter 12 (threshold 10)"; nothing if all are within their limits. `factor` multiplies the limits.
std::string check_counters(const wire::mad::PortCounters& counters, std::uint32_t factor = 1);

}  // namespace parley::mad
