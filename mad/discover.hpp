// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Discovers a subnet from one of its ports, breadth first by directed routes: every node, port and link. The Port's
// window limits the outstanding requests. Missing answers are marked in the topology, and the discovery continues.
#pragma once
#include <deque>

#include "mad/port.hpp"
#include "mad/topology.hpp"

namespace parley::mad {

struct DiscoverOptions {
  std::uint32_t nodes_max = 1 << 20;  ///< further nodes are left out
  std::uint8_t hops_max = PARLEY_MAD_PATH_MAX - 1;
  std::size_t jobs_max = 256;   ///< requests given to the Port at a time
  bool by_lid = false;          ///< switches that answer at their LID get their further requests there
  Path path = Path::to_self();  ///< retries, times and M_Key of all requests
};

/// The state of a discovery; the numbers may be read while it runs.
struct Discovery {
  Topology topology;
  std::size_t asked = 0;     ///< requests answered or given up
  std::size_t lost = 0;      ///< of these: given up
  std::size_t waiting = 0;   ///< not yet sent
  std::size_t doubtful = 0;  ///< links whose ends contradict each other: a duplicate GUID, or a change meanwhile
  bool full = false;         ///< there are more nodes than nodes_max: the rest was left out
  bool whole = false;        ///< the discovery is complete, and not full
};

/// Fills `out`, which must outlive the task. Ends early if the task's scope is stopped.
Task<void> discover(Port& port, DiscoverOptions options, Discovery& out);

}  // namespace parley::mad
