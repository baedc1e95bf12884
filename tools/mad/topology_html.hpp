// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// A subnet as one self-contained page: a drawing of its switches, every port in tables, a search, findings in red.
#pragma once
#include <functional>
#include <vector>

#include "draw/provenance.hpp"
#include "mad/topology_check.hpp"
#include "tools/mad/subnet.hpp"

namespace parley::tools {

/// Switches beyond this number are not drawn, but are in the tables.
inline constexpr std::size_t drawn_switches_max = 400;

void topology_page(const DiscoveredSubnet& subnet, const std::vector<mad::TopologyFinding>& findings,
                   const draw::Provenance& report, const std::function<void(std::string_view)>& take);

}  // namespace parley::tools
