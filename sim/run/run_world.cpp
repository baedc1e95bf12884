// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "sim/run/run_world.hpp"

#include <fmt/format.h>

#include <map>

namespace parley::sim {
namespace {

template <class T>
Checked<T> found(const std::map<std::string, T>& names, const std::string& name, std::string_view what) {
  const auto at = names.find(name);
  if (at == names.end()) return tl::unexpected(fmt::format("there is no {} '{}'", what, name));
  return at->second;
}

using TraceOf = std::function<trace::Sink*(const std::string& host)>;

Checked<std::map<std::string, NodeId>> add_nodes(const Scenario& scenario, World& world, const TraceOf& trace) {
  std::map<std::string, NodeId> nodes;
  for (const ScenarioHost& node : scenario.hosts) {
    if (node.is_switch) {
      const auto id = world.add_switch(node.name, node.switching);
      if (!id) return tl::unexpected(id.error());
      nodes[node.name] = *id;
      continue;
    }
    HostOptions options = node.options;
    if (trace) options.rnic.trace = options.hca.trace = trace(node.name);
    const auto host = world.add_host(node.name, options);
    if (!host) return tl::unexpected(host.error());
    nodes[node.name] = (*host)->id();
  }
  return nodes;
}

Checked<void> add_fault(const ScenarioFault& fault, std::uint32_t number, const std::map<std::string, NodeId>& nodes,
                        const std::map<std::string, LinkId>& links, World& world) {
  FaultRule rule = fault.rule;
  rule.number = number;  // its number in the file
  if (!fault.host.empty()) {
    const auto host = found(nodes, fault.host, "host");
    if (!host) return tl::unexpected(host.error());
    rule.host = *host;
  }
  if (fault.link.empty()) return world.add_fault(rule);
  const auto link = found(links, fault.link, "link");
  if (!link) return tl::unexpected(link.error());
  return world.add_fault(*link, fault.way, rule);
}

}  // namespace

Checked<void> build_world(const Scenario& scenario, World& world, const TraceOf& trace) {
  const auto nodes = add_nodes(scenario, world, trace);
  if (!nodes) return tl::unexpected(nodes.error());
  std::map<std::string, LinkId> links;
  for (const ScenarioLink& link : scenario.links) {
    const auto a = found(*nodes, link.ends[0], "node"), b = found(*nodes, link.ends[1], "node");
    if (!a) return tl::unexpected(a.error());
    if (!b) return tl::unexpected(b.error());
    const auto id = world.add_link({*a, link.nics[0]}, {*b, link.nics[1]}, link.options);
    if (!id) return tl::unexpected(id.error());
    links[link.name.empty() ? link.ends[0] + "-" + link.ends[1] : link.name] = *id;
  }
  if (auto set = world.set_neighbours(scenario.neighbours); !set) return set;
  std::uint32_t number = 0;
  for (const ScenarioFault& fault : scenario.faults)
    if (auto added = add_fault(fault, ++number, *nodes, links, world); !added) return added;
  return {};
}

}  // namespace parley::sim
