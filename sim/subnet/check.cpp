// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "sim/subnet/check.hpp"

#include <map>
#include <utility>

#include <fmt/format.h>

namespace parley::sim::subnet {

namespace {

constexpr std::uint16_t unknown = 0xFFFE, no_way = 0xFFFF, on_the_way = 0xFFFD;

void note(RouteReport& report, std::string wrong) {
  if (report.wrong.size() < RouteReport::wrong_max) report.wrong.push_back(std::move(wrong));
}

/// All paths to one LID; each switch is visited once.
class PathWalk {
 public:
  PathWalk(const State& state, RouteReport& report)
      : state_(state), report_(report), links_(state.nodes().size(), unknown) {}

  void aim(std::uint32_t target) {
    target_ = target;
    lid_ = state_.port(target).info.get(PortInfo::lid);
    std::fill(links_.begin(), links_.end(), unknown);
  }
  /// Links from a switch to the target; no_way if there is no path.
  std::uint16_t from(std::uint32_t node) {
    path_.clear();
    std::uint16_t links = no_way;
    for (;;) {
      if (links_[node] != unknown) {
        links = links_[node];
        if (links == on_the_way) {
          add_fault(fmt::format("loops at {}", name_of(node)));
          links = no_way;
        }
        break;
      }
      links_[node] = on_the_way;
      path_.push_back(node);
      std::uint32_t next = nowhere;
      if (const std::uint16_t end = step(node, next); next == nowhere) {
        links = end;
        links_[node] = end;
        path_.pop_back();
        break;
      }
      node = next;
    }
    for (; !path_.empty(); path_.pop_back()) {
      if (links != no_way) ++links;
      links_[path_.back()] = links;
    }
    return links;
  }

 private:
  const std::string& name_of(std::uint32_t node) const { return state_.nodes()[node].plan->name; }
  void add_fault(const std::string& what) {
    note(report_, fmt::format("the route to {} (LID {}) {}", name_of(state_.port(target_).node), lid_, what));
  }
  /// `next`: the next switch. If there is none, the path ends here: returns the remaining links, or no_way.
  std::uint16_t step(std::uint32_t index, std::uint32_t& next) {
    const Node& node = state_.nodes()[index];
    if (state_.port(target_).node == index) return 0;
    const unsigned number = node.out_port(lid_);
    const std::uint32_t port = number == 0 ? nowhere : state_.port_of(index, number);
    if (port == nowhere) {
      add_fault(fmt::format("ends at {}, whose forwarding table has port {} for it", name_of(index), number));
      return no_way;
    }
    if (!state_.carries(port, true)) {
      add_fault(fmt::format("ends at {}, whose port {} is not active", name_of(index), number));
      return no_way;
    }
    const std::uint32_t peer = state_.port(port).peer;
    if (peer == target_) return 1;
    if (!state_.node_of(state_.port(peer)).is_switch()) {
      add_fault(fmt::format("ends at {}, which is another node", name_of(state_.port(peer).node)));
      return no_way;
    }
    next = state_.port(peer).node;
    return 0;
  }

  const State& state_;
  RouteReport& report_;
  std::vector<std::uint16_t> links_;
  std::vector<std::uint32_t> path_;
  std::uint32_t target_ = nowhere;
  std::uint16_t lid_ = 0;
};

/// The switch at which the link of a host carries data; nowhere if there is none.
std::uint32_t leaf_of(const State& state, std::uint32_t host) {
  if (!state.carries(host, true)) return nowhere;
  const Port& peer = state.port(state.port(host).peer);
  return state.node_of(peer).is_switch() ? peer.node : nowhere;
}

/// Whether a host is at the other end of the target's cable and reaches it.
bool has_neighbour(const State& state, std::uint32_t target) {
  const std::uint32_t peer = state.port(target).peer;
  return peer != nowhere && !state.node_of(state.port(peer)).is_switch() && state.carries(peer, true);
}

}  // namespace

RouteReport check_routes(const State& state) {
  RouteReport report;
  std::vector<std::uint32_t> hosts, targets;
  for (std::uint32_t i = 0; i < state.ports(); ++i) {
    const Port& port = state.port(i);
    if (port.number == 0) targets.push_back(i);
    if (port.number == 0 || port.peer == nowhere || state.node_of(port).is_switch()) continue;
    hosts.push_back(i);
    targets.push_back(i);
  }
  std::map<std::uint32_t, std::uint64_t> leaves;  // switches, with the number of hosts that reach them
  for (const std::uint32_t host : hosts)
    if (const std::uint32_t leaf = leaf_of(state, host); leaf != nowhere) ++leaves[leaf];
  if (hosts.empty()) note(report, "no host has a link: there is no route to check");
  PathWalk ways(state, report);
  for (const std::uint32_t target : targets) {
    const bool to_host = state.port(target).number != 0;
    const std::uint64_t sources = hosts.size() - (to_host ? 1 : 0);
    (to_host ? report.pairs : report.switches) += sources;
    if (state.port(target).info.get(PortInfo::lid) == 0) {
      note(report, fmt::format("{} has no LID", state.node_of(state.port(target)).plan->name));
      continue;
    }
    ways.aim(target);
    const std::uint32_t own_leaf = to_host ? leaf_of(state, target) : nowhere;
    for (const auto& [leaf, count] : leaves) {
      const std::uint64_t from_there = count - (leaf == own_leaf ? 1 : 0);
      const std::uint16_t links = from_there == 0 ? no_way : ways.from(leaf);
      if (links == no_way) continue;
      (to_host ? report.reached : report.switches_reached) += from_there;
      if (to_host) report.hops_max = std::max(report.hops_max, links + 1U);
    }
    if (to_host && has_neighbour(state, target)) {
      ++report.reached;
      report.hops_max = std::max(report.hops_max, 1U);
    }
  }
  return report;
}

}  // namespace parley::sim::subnet
