// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// ns-3 with the same work as the simulator, for comparison: two nodes with its internet stack on one point-to-point
// link, bulk TCP, UDP and short connections. Each call runs in a child process, and only Simulator::Run is timed.
#pragma once
#include <string>

#include "bench/sim_peer.hpp"

namespace parley::bench {

/// Empty if this build has ns-3; otherwise the reason.
std::string ns3_missing();

SimSample ns3_bulk(const BulkWork& work);
/// UDP datagrams, one way, as fast as the link allows.
SimSample ns3_datagrams(const BulkWork& work);
SimSample ns3_connections(const ConnectionWork& work);

}  // namespace parley::bench
