// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "sim/scenario/scenario_route.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <utility>

namespace parley::sim {
namespace {

/// The links of each switch.
std::map<std::string, std::vector<std::size_t>, std::less<>> links_of_switches(const Scenario& scenario) {
  std::map<std::string, std::vector<std::size_t>, std::less<>> out;
  for (const ScenarioHost& node : scenario.hosts)
    if (node.is_switch) out.try_emplace(node.name);
  for (std::size_t i = 0; i < scenario.links.size(); ++i)
    for (const std::string& end : scenario.links[i].ends)
      if (const auto found = out.find(end); found != out.end()) found->second.push_back(i);
  return out;
}

/// A NIC of a host, with the world's numbering, and its segment.
struct NicInWorld {
  std::uint16_t nic = 0;
  std::size_t segment = 0;
};

/// In the order of links. As in World::add_link, a link takes the NIC that it names, or the first one without a link.
std::vector<NicInWorld> places_of(const Scenario& scenario, const RouteFinder::LinkedHost& linked,
                                  const Segments& segments) {
  const ScenarioHost& host = *linked.host;
  const std::vector<NicOptions>& nics = host.options.nics;
  std::vector<NicInWorld> out;
  std::vector<bool> taken(nics.size());
  for (const std::size_t i : linked.links) {
    const ScenarioLink& link = scenario.links[i];
    const std::size_t end = link.ends[0] == host.name ? 0 : 1;
    std::size_t nic = 0;
    while (nic < nics.size() && (link.nics[end].empty() ? taken[nic] : nics[nic].name != link.nics[end])) ++nic;
    if (nic < nics.size()) taken[nic] = true;
    out.push_back({static_cast<std::uint16_t>(nics.empty() ? out.size() : nic), segments[i]});
  }
  return out;
}

/// The NICs that connect one host to another.
class Routes {
 public:
  Routes(const Scenario& scenario, const Segments& segments, const RouteFinder::LinkedHost* from,
         const RouteFinder::LinkedHost* to)
      : from_(from == nullptr ? nullptr : from->host), to_(to == nullptr ? nullptr : to->host) {
    if (from_ == nullptr || to_ == nullptr || from_ == to_) return;
    here_ = places_of(scenario, *from, segments);
    there_ = places_of(scenario, *to, segments);
  }
  /// The first route, with these NICs if they are named.
  std::optional<Route> find(const std::string& from_nic, const std::string& to_nic) const {
    for (const auto& [a, b] : joined(from_nic, to_nic))
      if (!is_plain(*from_, a) && !is_plain(*to_, b)) return Route{.from_port = a, .to_port = b};
    return std::nullopt;
  }
  /// The reason why there is none.
  std::string why_none(const ScenarioConnect& connect, const std::string& from_nic, const std::string& to_nic) const {
    const auto pairs = joined(from_nic, to_nic);
    if (pairs.empty())
      return fmt::format("no links and switches join '{}' and '{}'", end_text(connect.from, from_nic),
                         end_text(connect.to, to_nic));
    const auto [a, b] = pairs.front();
    const bool here = is_plain(*from_, a);
    const ScenarioHost& host = here ? *from_ : *to_;
    return fmt::format("NIC '{}' has engine = \"none\", so no connection uses it",
                       end_text(host.name, host.options.nics[here ? a : b].name));
  }

 private:
  /// NICs of both hosts in one segment, with these names if they are given.
  std::vector<std::pair<std::uint16_t, std::uint16_t>> joined(const std::string& from_nic,
                                                              const std::string& to_nic) const {
    std::vector<std::pair<std::uint16_t, std::uint16_t>> out;
    for (const NicInWorld& a : here_)
      for (const NicInWorld& b : there_)
        if (a.segment == b.segment && is(*from_, a.nic, from_nic) && is(*to_, b.nic, to_nic))
          out.emplace_back(a.nic, b.nic);
    return out;
  }
  static bool is(const ScenarioHost& host, std::uint16_t nic, const std::string& name) {
    const std::vector<NicOptions>& nics = host.options.nics;
    return name.empty() || (nic < nics.size() && nics[nic].name == name);
  }
  /// Plain Ethernet: no RDMA engine behind it.
  static bool is_plain(const ScenarioHost& host, std::uint16_t nic) {
    const std::vector<NicOptions>& nics = host.options.nics;
    return nic < nics.size() && nics[nic].engine == NicEngine::none;
  }

  const ScenarioHost *from_, *to_;
  std::vector<NicInWorld> here_, there_;
};

}  // namespace

NicEngine engine_of(const ScenarioHost& host) {
  for (const NicOptions& nic : host.options.nics)
    if (nic.engine != NicEngine::none) return nic.engine;
  return host.options.nics.empty() ? host.options.engine : NicEngine::none;
}

bool has_roce(const Scenario& scenario, std::string_view name) {
  for (const ScenarioHost& host : scenario.hosts)
    if (host.name == name && !host.is_switch) return engine_of(host) == NicEngine::roce;
  return false;
}

std::optional<std::uint16_t> only_roce_nic(const Scenario& scenario, const ScenarioHost& host) {
  if (host.is_switch || engine_of(host) != NicEngine::roce) return std::nullopt;
  std::optional<std::uint16_t> found;
  const std::vector<NicOptions>& nics = host.options.nics;
  for (std::uint16_t nic = 0; nic < nics.size(); ++nic) {
    if (nics[nic].engine != NicEngine::roce) continue;
    if (found) return std::nullopt;
    found = nic;
  }
  if (!nics.empty()) return found;
  const auto links = std::count_if(scenario.links.begin(), scenario.links.end(), [&](const ScenarioLink& link) {
    return link.ends[0] == host.name || link.ends[1] == host.name;
  });
  return links == 1 ? std::optional<std::uint16_t>(0) : std::nullopt;
}

Segments link_segments(const Scenario& scenario) {
  constexpr std::size_t none = ~std::size_t{0};
  const auto links_of = links_of_switches(scenario);
  Segments out(scenario.links.size(), none);
  for (std::size_t first = 0; first < out.size(); ++first) {
    if (out[first] != none) continue;
    out[first] = first;
    for (std::deque<std::size_t> open{first}; !open.empty(); open.pop_front())
      for (const std::string& end : scenario.links[open.front()].ends) {
        const auto found = links_of.find(end);
        if (found == links_of.end()) continue;
        for (const std::size_t other : found->second) {
          if (out[other] != none) continue;
          out[other] = first;
          open.push_back(other);
        }
      }
  }
  return out;
}

RouteFinder::RouteFinder(const Scenario& scenario, const Segments& segments)
    : scenario_(scenario), segments_(segments) {
  for (const ScenarioHost& host : scenario.hosts)
    if (!host.is_switch) hosts_.try_emplace(host.name, LinkedHost{.host = &host});
  for (std::size_t i = 0; i < scenario.links.size(); ++i) {
    const auto& ends = scenario.links[i].ends;
    for (std::size_t end = 0; end < (ends[0] == ends[1] ? 1 : 2); ++end)
      if (const auto found = hosts_.find(ends[end]); found != hosts_.end()) found->second.links.push_back(i);
  }
}

const RouteFinder::LinkedHost* RouteFinder::host(std::string_view name) const {
  const auto found = hosts_.find(name);
  return found == hosts_.end() ? nullptr : &found->second;
}

Checked<Route> find_route(const Scenario& scenario, const Segments& segments, const ScenarioConnect& connect) {
  return RouteFinder(scenario, segments).find(connect);
}

Checked<Route> RouteFinder::find(const ScenarioConnect& connect) const {
  const Routes routes(scenario_, segments_, host(connect.from), host(connect.to));
  auto first = routes.find(connect.from_nic, connect.to_nic);
  if (!first) return tl::unexpected(routes.why_none(connect, connect.from_nic, connect.to_nic));
  for (const std::string& nic : connect.backups) {
    const auto backup = routes.find({}, nic);
    if (!backup) return tl::unexpected(routes.why_none(connect, {}, nic));
    first->backup_ports.push_back(backup->to_port);
  }
  return *first;
}

}  // namespace parley::sim
