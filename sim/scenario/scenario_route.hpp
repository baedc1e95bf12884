// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Which NIC of a host reaches which NIC of another: two hosts talk over links joined only by switches.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string_view>
#include <vector>

#include "sim/scenario/scenario.hpp"

namespace parley::sim {

struct Route {
  std::uint16_t from_port = 0, to_port = 0;
  std::vector<std::uint16_t> backup_ports{};  ///< ports of the responder
};

/// For each link, the first link of its segment: links joined by switches are one segment. A name that no host has
/// joins nothing.
using Segments = std::vector<std::size_t>;
Segments link_segments(const Scenario& scenario);

/// The hosts of a scenario by name, with their links: for many routes, without a search through all links for each.
class RouteFinder {
 public:
  /// Both must outlive it.
  RouteFinder(const Scenario& scenario, const Segments& segments);
  /// The first pair of NICs, in the order of the initiator's links, that are in one segment. Errors: there is none, or a
  /// backup cannot be reached.
  Checked<Route> find(const ScenarioConnect& connect) const;

  /// A host that is not in the scenario is null and has no links.
  struct LinkedHost {
    const ScenarioHost* host = nullptr;
    std::vector<std::size_t> links{};  ///< in file order
  };
  /// Switches are not found.
  const LinkedHost* host(std::string_view name) const;

 private:
  const Scenario& scenario_;
  const Segments& segments_;
  std::map<std::string_view, LinkedHost> hosts_;
};

/// The number of the host's NIC with RoCE; none if it has several, or none.
std::optional<std::uint16_t> only_roce_nic(const Scenario& scenario, const ScenarioHost& host);

/// RouteFinder::find() for one connection.
Checked<Route> find_route(const Scenario& scenario, const Segments& segments, const ScenarioConnect& connect);

}  // namespace parley::sim
