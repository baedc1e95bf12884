// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The counters of every linked port of a subnet, read with the port's window.
#pragma once
#include <functional>
#include <vector>

#include "mad/topology.hpp"
#include "tools/mad/session.hpp"
#include "wire/mad/pm.hpp"

namespace parley::tools {

struct CounterPlace {
  std::uint32_t node = 0;
  std::uint8_t port = 0;
};
/// Linked ports of nodes that have a LID, which reading counters needs.
std::vector<CounterPlace> ports_with_counters(const mad::Topology& topology);

struct CounterTally {
  std::size_t read = 0, lost = 0;
  bool cut = false;  ///< interrupted
};
using TakeCounters = std::function<void(const CounterPlace&, const mad::Reply<wire::mad::PortCounters>&)>;
/// `take` is called for each reply.
mad::Task<void> each_counters(MadSession& session, const std::vector<CounterPlace>& places,
                              const mad::Topology& topology, CounterTally& tally, TakeCounters take);

using TakeExtended = std::function<void(const CounterPlace&, const mad::Reply<wire::mad::PortCountersExtended>&)>;
mad::Task<void> each_extended(MadSession& session, const std::vector<CounterPlace>& places,
                              const mad::Topology& topology, CounterTally& tally, TakeExtended take);

}  // namespace parley::tools
