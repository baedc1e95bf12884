// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include <utility>

#include <fmt/format.h>

#include "sim/subnet/plan.hpp"

namespace parley::sim::subnet {

namespace {

/// Adds switches and hosts, and links their next free ports. GUIDs are assigned as for a file without any.
class PlanMaker {
 public:
  std::uint32_t add_switch(unsigned ports) {
    const unsigned number = switches_++;
    return add(NodeType::switch_, fmt::format("S{:04}", number), ports, 0x200000 + number);
  }
  std::uint32_t add_host() {
    const unsigned number = hosts_++;
    return add(NodeType::channel_adapter, fmt::format("H{:05}", number), 1, 0x100000 + 2ULL * number);
  }
  void add_hosts(std::uint32_t at, unsigned hosts) {
    for (unsigned i = 0; i < hosts; ++i) link(add_host(), at);
  }
  void link(std::uint32_t a, std::uint32_t b, unsigned times = 1) {
    for (unsigned i = 0; i < times; ++i) {
      PlanPort &at_a = take_port(a), &at_b = take_port(b);
      at_a.peer = b;
      at_a.peer_port = taken_[b];
      at_b.peer = a;
      at_b.peer_port = taken_[a];
    }
  }
  Plan take() { return std::move(plan_); }

 private:
  std::uint32_t add(NodeType type, std::string name, unsigned ports, std::uint64_t guid) {
    PlanNode node{.type = type, .name = name, .description = name, .guid = guid, .system_guid = guid};
    node.ports.resize(ports);
    plan_.nodes.push_back(std::move(node));
    taken_.push_back(0);
    return static_cast<std::uint32_t>(plan_.nodes.size() - 1);
  }
  /// All supported speeds are enabled, as a subnet manager configures it: a link that trained with less would be
  /// reported as slow.
  PlanPort& take_port(std::uint32_t node) {
    PARLEY_ASSERT(taken_[node] < plan_.nodes[node].ports.size());
    PlanPort& port = plan_.nodes[node].ports[taken_[node]++];
    port.speeds = 7;
    return port;
  }

  Plan plan_;
  std::vector<std::uint8_t> taken_;
  unsigned switches_ = 0, hosts_ = 0;
};

tl::unexpected<PlanError> cannot(std::string text) { return tl::unexpected(PlanError{0, std::move(text)}); }

std::vector<std::uint32_t> add_switches(PlanMaker& maker, unsigned count, unsigned ports) {
  std::vector<std::uint32_t> out;
  for (unsigned i = 0; i < count; ++i) out.push_back(maker.add_switch(ports));
  return out;
}

Plan two_levels(const FatTree& shape) {
  PlanMaker maker;
  const auto spines = add_switches(maker, shape.radix / 2 / shape.trunk, shape.radix);
  const auto leaves = add_switches(maker, shape.pods, shape.radix);
  for (const std::uint32_t leaf : leaves) {
    maker.add_hosts(leaf, shape.hosts);
    for (const std::uint32_t spine : spines) maker.link(leaf, spine, shape.trunk);
  }
  return maker.take();
}

Plan three_levels(const FatTree& shape) {
  PlanMaker maker;
  const unsigned half = shape.radix / 2, group = half / shape.trunk;
  const auto cores = add_switches(maker, half * group, shape.radix);
  for (unsigned pod = 0; pod < shape.pods; ++pod) {
    const auto middles = add_switches(maker, half, shape.radix);
    const auto leaves = add_switches(maker, half, shape.radix);
    for (const std::uint32_t leaf : leaves) {
      maker.add_hosts(leaf, shape.hosts);
      for (const std::uint32_t middle : middles) maker.link(leaf, middle);
    }
    for (unsigned position = 0; position < half; ++position)
      for (unsigned i = 0; i < group; ++i) maker.link(middles[position], cores[position * group + i], shape.trunk);
  }
  return maker.take();
}

}  // namespace

Planned<Plan> make_plan(const FatTree& shape) {
  const unsigned half = shape.radix / 2;
  if (shape.levels < 2 || shape.levels > 3) return cannot("a fat tree must have 2 or 3 levels");
  if (shape.radix < 2 || shape.radix > ports_max || shape.radix % 2 != 0)
    return cannot(fmt::format("the switches must have an even number of ports from 2 to {}", ports_max));
  if (shape.hosts < 1 || shape.hosts > half)
    return cannot(fmt::format("a leaf switch of {} ports can have 1 to {} hosts", shape.radix, half));
  if (shape.trunk < 1 || shape.trunk > half || half % shape.trunk != 0)
    return cannot(fmt::format("{} uplinks cannot be divided into trunks of {} links", half, shape.trunk));
  if (shape.pods < 1 || shape.pods > shape.radix / shape.trunk)
    return cannot(fmt::format("the number of pods must be 1 to {}", shape.radix / shape.trunk));
  const std::size_t leaves = std::size_t{shape.pods} * (shape.levels == 2 ? 1 : half);
  if (leaves * (shape.hosts + 2) + std::size_t{half} * half > nodes_max)
    return cannot(fmt::format("more than {} nodes", nodes_max));
  return shape.levels == 2 ? two_levels(shape) : three_levels(shape);
}

Planned<Plan> make_plan(const Torus& shape) {
  std::size_t switches = 1, ports = shape.hosts;
  if (shape.sizes.empty() || shape.sizes.size() > 4) return cannot("a torus must have 1 to 4 dimensions");
  if (shape.hosts > ports_max || shape.trunk < 1 || shape.trunk > ports_max)
    return cannot("more ports than a switch can have");
  for (const unsigned size : shape.sizes) {
    if (size < 1 || size > nodes_max) return cannot("a dimension must have at least 1 switch");
    switches *= size;
    ports += (size > 2 ? 2 : size - 1) * std::size_t{shape.trunk};
    if (switches > nodes_max) break;
  }
  if (switches * (1 + shape.hosts) > nodes_max) return cannot(fmt::format("more than {} nodes", nodes_max));
  if (ports < 1 || ports > ports_max) return cannot(fmt::format("the switches would have {} ports", ports));
  PlanMaker maker;
  const auto at = add_switches(maker, static_cast<unsigned>(switches), static_cast<unsigned>(ports));
  for (const std::uint32_t place : at) maker.add_hosts(place, shape.hosts);
  std::size_t stride = 1;
  for (const unsigned size : shape.sizes) {
    for (std::size_t i = 0; i < switches; ++i) {
      const std::size_t here = i / stride % size;
      if (size < 2 || (size == 2 && here == 1)) continue;
      maker.link(at[i], at[i - here * stride + (here + 1) % size * stride], shape.trunk);
    }
    stride *= size;
  }
  return maker.take();
}

Planned<Plan> make_plan(const Dragonfly& shape) {
  const std::size_t links = std::size_t{shape.routers} * shape.globals;
  const std::size_t ports = std::size_t{shape.hosts} + shape.globals + shape.routers - 1;
  if (shape.routers < 1 || ports < 1 || ports > ports_max)
    return cannot(fmt::format("the switches would have {} ports", ports));
  const std::size_t groups = shape.groups == 0 ? links + 1 : shape.groups;
  if (groups > links + 1)
    return cannot(fmt::format("{} links between groups allow at most {} groups", links, links + 1));
  if (groups * shape.routers * (1 + shape.hosts) > nodes_max)
    return cannot(fmt::format("more than {} nodes", nodes_max));
  PlanMaker maker;
  std::vector<std::vector<std::uint32_t>> at;
  for (std::size_t group = 0; group < groups; ++group) {
    at.push_back(add_switches(maker, shape.routers, static_cast<unsigned>(ports)));
    for (const std::uint32_t router : at.back()) maker.add_hosts(router, shape.hosts);
    for (std::size_t i = 0; i < shape.routers; ++i)
      for (std::size_t j = i + 1; j < shape.routers; ++j) maker.link(at.back()[i], at.back()[j]);
  }
  for (std::size_t a = 0; a < groups; ++a)
    for (std::size_t b = a + 1; b < groups; ++b) maker.link(at[a][(b - 1) / shape.globals], at[b][a / shape.globals]);
  return maker.take();
}

std::string write_plan(const Plan& plan) {
  std::string out;
  const PlanPort plain;
  for (const PlanNode& node : plan.nodes) {
    const bool is_switch = node.type == NodeType::switch_;
    const char* const word = is_switch ? "Switch" : node.type == NodeType::router ? "Rt" : "Ca";
    out += fmt::format("vendid={:#x}\ndevid={:#x}\nsysimgguid={:#x}\n{}guid={:#x}\n", node.vendor, node.device,
                       node.system_guid,
                       is_switch                       ? "switch"
                       : node.type == NodeType::router ? "rt"
                                                       : "ca",
                       node.guid);
    out += fmt::format("{}\t{} \"{}\"\t\t# \"{}\"", word, node.ports.size(), node.name, node.description);
    if (is_switch)
      out += fmt::format(" {} port 0 lid {} lmc {}", node.enhanced_port0 ? "enhanced" : "base", node.lid, node.lmc);
    out += '\n';
    for (std::size_t i = 0; i < node.ports.size(); ++i) {
      const PlanPort& port = node.ports[i];
      if (port.peer == nowhere) continue;
      out += fmt::format("[{}]", i + 1);
      if (port.guid != 0) out += fmt::format("({:x})", port.guid);
      out += fmt::format("\t\"{}\"[{}]", plan.nodes[port.peer].name, port.peer_port);
      if (port.widths != plain.widths) out += fmt::format(" w={}", port.widths);
      if (port.speeds != plain.speeds) out += fmt::format(" s={}", port.speeds);
      if (port.speeds_ext != plain.speeds_ext) out += fmt::format(" e={}", port.speeds_ext);
      if (port.lid != 0) out += fmt::format("\t# lid {} lmc {}", port.lid, port.lmc);
      out += '\n';
    }
    out += '\n';
  }
  return out;
}

}  // namespace parley::sim::subnet
