// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Builds the world of a scenario: its hosts, switches, links and faults, in file order.
#pragma once
#include <functional>
#include <string>

#include "parley/trace.hpp"
#include "sim/scenario/scenario.hpp"

namespace parley::sim {

/// `trace`: as RunOptions::trace. Errors: those of the world; check_scenario should have found them before.
Checked<void> build_world(const Scenario& scenario, World& world,
                          const std::function<trace::Sink*(const std::string& host)>& trace = {});

}  // namespace parley::sim
