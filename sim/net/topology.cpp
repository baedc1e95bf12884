// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "sim/net/topology.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <bitset>

namespace parley::sim {
namespace {

bool is_name(std::string_view name) {
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' ||
           c == '-';
  };
  return !name.empty() && name.size() <= Topology::name_max && std::all_of(name.begin(), name.end(), allowed);
}

}  // namespace

Checked<void> Topology::check_nics(std::string_view host, const std::vector<NicOptions>& nics) {
  const auto wrong = [host](std::string_view nic, std::string_view what) {
    return tl::unexpected(fmt::format("NIC {}/{}: {}", host, nic.substr(0, name_max), what));
  };
  if (nics.size() > host_ports_max)
    return tl::unexpected(fmt::format("host {}: {} NICs, at most {}", host, nics.size(), host_ports_max));
  NicEngine engine = NicEngine::none;  // of the earlier NICs
  for (std::size_t i = 0; i < nics.size(); ++i) {
    const NicOptions& nic = nics[i];
    if (!is_name(nic.name)) return wrong(nic.name, "a name has 1 to 64 letters, digits, '.', '_' and '-'");
    for (std::size_t j = 0; j < i; ++j)
      if (nics[j].name == nic.name) return wrong(nic.name, "another NIC of the host has this name");
    if (nic.engine != NicEngine::none && engine != NicEngine::none && nic.engine != engine)
      return wrong(nic.name, fmt::format("its engine is {}, and another NIC of the host has {}: a host has one",
                                         to_string(nic.engine), to_string(engine)));
    if (nic.engine != NicEngine::none) engine = nic.engine;
    if (nic.mtu != 0 && (nic.mtu < 576 || nic.mtu > 9000))
      return wrong(nic.name, fmt::format("an MTU of {} is not in 576..9000", nic.mtu));
  }
  return {};
}

Checked<NodeId> Topology::add_node(std::string_view name, bool is_switch) {
  const std::string what = is_switch ? "switch" : "host";
  if (!is_name(name)) {
    return tl::unexpected(fmt::format("{} '{}': a name has 1 to {} letters, digits, '.', '_' and '-'", what,
                                      name.substr(0, name_max), name_max));
  }
  if (const auto taken = find(name)) {
    return tl::unexpected(
        fmt::format("{} '{}': a {} has this name already", what, name, nodes_[*taken].is_switch ? "switch" : "host"));
  }
  if (nodes_.size() == nodes_max) {
    return tl::unexpected(fmt::format("{} '{}': a world has at most {} nodes", what, name, nodes_max));
  }
  const auto id = static_cast<NodeId>(nodes_.size());
  nodes_.push_back({std::string(name), is_switch, {}});
  names_.emplace(name, id);
  return id;
}

std::optional<NodeId> Topology::find(std::string_view name) const {
  const auto found = names_.find(name);
  return found == names_.end() ? std::nullopt : std::optional(found->second);
}

LinkEndInfo Topology::end_info(LinkId link, std::uint8_t end) const {
  const Link& l = links_[link];
  const NodeId node = l.ends[end & 1];
  return {node, fmt::format("{}/p{}", nodes_[node].name, l.ports[end & 1] + 1)};
}

std::string Topology::check_options(const LinkOptions& options) const {
  if (options.rate_bps == 0) return "nothing crosses a link of rate 0; for a dead link drop all frames by a fault";
  if (options.rate_bps > rate_max) return fmt::format("a rate of {} b/s is above {}", options.rate_bps, rate_max);
  if (options.mtu < 576 || options.mtu > 9000) return fmt::format("an MTU of {} is not in 576..9000", options.mtu);
  if (options.delay < Duration{} || options.delay > delay_max) {
    return fmt::format("a delay of {} ns is not in 0..1 h", options.delay.count());
  }
  return {};
}

std::string Topology::check_ports(NodeId node) const {
  const Node& n = nodes_[node];
  const std::size_t limit = n.is_switch ? switch_ports_max : host_ports_max;
  if (n.ports.size() < limit) return {};
  return fmt::format("{} {} has {} ports, and no more fit", n.is_switch ? "switch" : "host", n.name, limit);
}

std::string Topology::check(NodeId a, NodeId b, const LinkOptions& options) const {
  for (const NodeId end : {a, b}) {
    if (end >= nodes_.size()) return fmt::format("a link to node {}: there is no such node", end);
  }
  const std::string link = "link " + link_name(a, b);
  if (a == b) return link + ": joins a node to itself";
  if (std::string wrong = check_options(options); !wrong.empty()) return link + ": " + wrong;
  for (const NodeId end : {a, b}) {
    if (std::string wrong = check_ports(end); !wrong.empty()) return link + ": " + wrong;
  }
  if (links_.size() == links_max) return fmt::format("{}: a world has at most {} links", link, links_max);
  // Hosts do not forward, so only switches can close a loop.
  if (nodes_[a].is_switch && nodes_[b].is_switch && segment_of(a) != none && segment_of(a) == segment_of(b)) {
    return link + " would close a loop: " + path(b, a);
  }
  return {};
}

/// The switches on the path, "a - b - c".
std::string Topology::path(NodeId from, NodeId to) const {
  std::vector<std::uint32_t> before(nodes_.size(), none);
  std::vector<NodeId> open{to};  // from the far end, so that tracing back yields the order
  before[to] = to;
  for (std::size_t i = 0; i < open.size() && before[from] == none; ++i) {
    for (const LinkId link : nodes_[open[i]].ports) {
      const Link& l = links_[link];
      const NodeId next = l.ends[0] == open[i] ? l.ends[1] : l.ends[0];
      if (!nodes_[next].is_switch || before[next] != none) continue;
      before[next] = open[i];
      open.push_back(next);
    }
  }
  std::string text = nodes_[from].name;
  for (NodeId at = from; at != to && before[at] != none; at = before[at]) text += " - " + nodes_[before[at]].name;
  return text;
}

std::uint32_t Topology::segment_of(NodeId node) const {
  const Node& n = nodes_[node];
  return n.is_switch && !n.ports.empty() ? links_[n.ports.front()].segment : none;
}

std::uint32_t Topology::join(std::uint32_t a, std::uint32_t b) {
  if (a == none || b == none) return std::min(a, b);
  const std::uint32_t stays = std::min(a, b), goes = std::max(a, b);
  for (const LinkId link : segments_[goes].links) {
    links_[link].segment = stays;
    segments_[stays].links.push_back(link);
  }
  segments_[goes].links.clear();
  return stays;
}

template <class Visit>
void Topology::each_host_port(std::uint32_t segment, Visit visit) const {
  for (const LinkId link : segments_[segment].links) {
    for (std::size_t end = 0; end < 2; ++end) {
      const NodeId node = links_[link].ends[end];
      if (!nodes_[node].is_switch) visit(node, links_[link].ports[end]);
    }
  }
}

/// A number that no host of the segment uses for another network: `wanted`, or the first free one.
std::optional<std::uint8_t> Topology::free_network(std::uint32_t segment, std::uint8_t wanted) const {
  std::bitset<256> taken;
  each_host_port(segment, [&](NodeId host, std::uint16_t) {
    if (nodes_[host].ports.size() < 2) return;
    for (const LinkId other : nodes_[host].ports) {
      if (links_[other].segment != segment) taken.set(segments_[links_[other].segment].network);
    }
  });
  for (std::size_t i = 0; i < taken.size(); ++i) {
    const auto number = static_cast<std::uint8_t>(wanted + i);
    if (!taken[number]) return number;
  }
  return std::nullopt;
}

/// Whether a host is also in another network with the same number.
bool Topology::clashes(NodeId node, std::uint32_t segment) const {
  if (nodes_[node].is_switch) return false;
  const std::vector<LinkId>& ports = nodes_[node].ports;
  return std::any_of(ports.begin(), ports.end(), [&](LinkId link) {
    const std::uint32_t other = links_[link].segment;
    return other != segment && segments_[other].network == segments_[segment].network;
  });
}

Checked<LinkId> Topology::add_link(NodeId a, NodeId b, const LinkOptions& options, std::vector<Placed>& placed,
                                   const Ports& wanted) {
  if (std::string wrong = check(a, b, options); !wrong.empty()) return tl::unexpected(std::move(wrong));
  const auto id = static_cast<LinkId>(links_.size());
  const bool both = segment_of(a) != none && segment_of(b) != none;
  std::uint32_t segment = join(segment_of(a), segment_of(b));
  const bool fresh = segment == none;
  if (fresh) {
    segment = static_cast<std::uint32_t>(segments_.size());
    segments_.push_back({{}, static_cast<std::uint8_t>(segments_.size())});
  }
  Link link{.ends = {a, b}, .options = options, .segment = segment};
  for (std::size_t end = 0; end < 2; ++end) {
    std::vector<LinkId>& ports = nodes_[link.ends[end]].ports;
    link.ports[end] = wanted[end].value_or(static_cast<std::uint16_t>(ports.size()));
    ports.push_back(id);
  }
  links_.push_back(link);
  segments_[segment].links.push_back(id);
  // With more than 256 networks, numbers repeat; the networks of one host still have different numbers.
  const std::uint8_t before = segments_[segment].network;
  const bool joined = both || clashes(a, segment) || clashes(b, segment);
  if (joined) segments_[segment].network = free_network(segment, before).value_or(before);
  const std::uint8_t network = segments_[segment].network;
  if (joined) {
    each_host_port(segment, [&](NodeId host, std::uint16_t port) { placed.push_back({host, port, network}); });
  } else {
    for (std::size_t end = 0; end < 2; ++end) {
      if (!nodes_[link.ends[end]].is_switch) placed.push_back({link.ends[end], link.ports[end], network});
    }
  }
  return id;
}

}  // namespace parley::sim
