// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// ns-3 doing the same work as the simulator, for comparison: two nodes with its internet stack on one point-to-point
// link, bulk TCP, UDP and short connections. Each call runs in a child process, and what is timed is Simulator::Run alone.
#pragma once
#include <string>

#include "bench/sim_peer.hpp"

namespace parley::bench {

/// Empty when this build has ns-3; else why not.
std::string ns3_missing();

SimSample ns3_bulk(const BulkWork& work);
/// Datagrams of UDP, one way, as fast as the link takes them.
SimSample ns3_datagrams(const BulkWork& work);
SimSample ns3_connections(const ConnectionWork& work);

}  // namespace parley::bench
