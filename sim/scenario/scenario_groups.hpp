// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Hosts that a file writes once: [[host]] name = "h", count = 3 makes h1, h2 and h3. A table that names "h" is replaced by
// one table for each of them. docs/simulator-scenarios.md has the rules.
#pragma once
#include <cstddef>
#include <vector>

#include "sim/scenario/scenario_check.hpp"

namespace parley::sim {

/// The origin of the parts of an expanded scenario.
struct Expansion {
  SectionOrigins origins;
  std::vector<ScenarioProblem> problems;  ///< with indices from before
  bool changed = false;                   ///< there was a host with a count
};

/// Replaces the hosts with a count, and the tables that name them. At most a million tables of each kind.
Expansion expand_hosts(Scenario& scenario);

}  // namespace parley::sim
