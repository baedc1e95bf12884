// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Checks whether the forwarding tables of a simulated subnet lead from each host to each other host.
#pragma once
#include <string>

#include "sim/subnet/state.hpp"

namespace parley::sim::subnet {

struct RouteReport {
  std::uint64_t pairs = 0, reached = 0;
  std::uint64_t switches = 0, switches_reached = 0;  ///< paths from hosts to switches
  unsigned hops_max = 0;                             ///< links of the longest path between hosts
  std::vector<std::string> wrong;                    ///< the first ones, each a sentence
  static constexpr std::size_t wrong_max = 20;
  /// An empty report is not good.
  bool good() const {
    return pairs + switches > 0 && pairs == reached && switches == switches_reached && wrong.empty();
  }
};

/// From each host with a link to each other host, by its base LID, on the path of data packets.
RouteReport check_routes(const State& state);

}  // namespace parley::sim::subnet
