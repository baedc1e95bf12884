// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Which NIC of a host reaches which NIC of another: two hosts talk over links joined only by switches.
#pragma once
#include <cstdint>
#include <vector>

#include "sim/scenario/scenario.hpp"

namespace parley::sim {

struct Route {
  std::uint16_t from_port = 0, to_port = 0;
  std::vector<std::uint16_t> backup_ports{};  ///< of the responder
};

/// The first pair of NICs, in the order of the initiator's links, that are in one segment. Errors: there is none, or a
/// backup cannot be reached.
Checked<Route> find_route(const Scenario& scenario, const ScenarioConnect& connect);

}  // namespace parley::sim
