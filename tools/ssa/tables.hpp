// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The tables of a subnet, read by management datagrams, with progress and until Ctrl-C.
#pragma once
#include "drivers/ssa/collect.hpp"
#include "ssa/paths.hpp"
#include "tools/mad/subnet.hpp"

namespace parley::tools {

struct ReadTables {
  ssa_driver::SubnetTables tables;
  std::shared_ptr<const ssa::PathMap> map;
};

/// Reads what the discovery did not find, and computes the map. `route_sls`: also the SLs of the routing engine. Errors: environment
/// (records that contradict each other), failed (no answer, interrupted).
Or<ReadTables> read_tables(MadSession& session, const mad::Topology& topology, bool route_sls, Output& out);

}  // namespace parley::tools
