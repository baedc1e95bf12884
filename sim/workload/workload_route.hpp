// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Which port of a host reaches which port of another: two hosts talk over links joined only by switches.
#pragma once
#include "sim/scenario/scenario.hpp"

namespace parley::sim {

struct Route {
  std::uint16_t from_port = 0, to_port = 0;
};

/// The first pair of ports, in the order of the initiator's links, that are in one segment. Errors: there is none.
Checked<Route> find_route(const Scenario& scenario, const std::string& from, const std::string& to);

}  // namespace parley::sim
