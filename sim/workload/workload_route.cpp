// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "sim/workload/workload_route.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace parley::sim {
namespace {

bool is_switch(const Scenario& scenario, const std::string& name) {
  return std::any_of(scenario.hosts.begin(), scenario.hosts.end(),
                     [&](const ScenarioHost& h) { return h.name == name && h.is_switch; });
}

/// A number per link; links joined by a switch have the same.
std::vector<std::size_t> segments(const Scenario& scenario) {
  std::vector<std::size_t> of(scenario.links.size());
  for (std::size_t i = 0; i < of.size(); ++i) of[i] = i;
  for (const ScenarioHost& node : scenario.hosts) {
    if (!node.is_switch) continue;
    std::size_t joined = of.size();
    for (std::size_t i = 0; i < of.size(); ++i) {
      const ScenarioLink& link = scenario.links[i];
      if (link.ends[0] != node.name && link.ends[1] != node.name) continue;
      const std::size_t old = of[i];
      if (joined == of.size()) joined = old;
      std::replace(of.begin(), of.end(), old, joined);
    }
  }
  return of;
}

std::vector<std::size_t> links_of(const Scenario& scenario, const std::string& host) {
  std::vector<std::size_t> out;
  for (std::size_t i = 0; i < scenario.links.size(); ++i)
    if (scenario.links[i].ends[0] == host || scenario.links[i].ends[1] == host) out.push_back(i);
  return out;
}

}  // namespace

Checked<Route> find_route(const Scenario& scenario, const std::string& from, const std::string& to) {
  const auto segment = segments(scenario);
  const auto here = links_of(scenario, from), there = links_of(scenario, to);
  for (std::size_t i = 0; i < here.size(); ++i)
    for (std::size_t j = 0; j < there.size(); ++j)
      if (segment[here[i]] == segment[there[j]] && from != to && !is_switch(scenario, from) && !is_switch(scenario, to))
        return Route{static_cast<std::uint16_t>(i), static_cast<std::uint16_t>(j)};
  return tl::unexpected(fmt::format("no links and switches join '{}' and '{}'", from, to));
}

}  // namespace parley::sim
