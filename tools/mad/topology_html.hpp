// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// A subnet as one page that needs nothing else: a drawing of its switches, every port in tables, a search, what is wrong in red.
#pragma once
#include <functional>
#include <vector>

#include "draw/provenance.hpp"
#include "mad/topology_check.hpp"
#include "tools/mad/subnet.hpp"

namespace parley::tools {

/// More switches than these are not drawn; they are in the tables all the same.
inline constexpr std::size_t drawn_switches_max = 400;

void topology_page(const Subnet& subnet, const std::vector<mad::TopologyFinding>& findings,
                   const draw::Provenance& report, const std::function<void(std::string_view)>& take);

}  // namespace parley::tools
