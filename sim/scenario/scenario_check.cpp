// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Checks of a scenario as a whole: names, topology, bounds. The workload and the faults are checked in
// scenario_check_work.cpp.
#include "sim/scenario/scenario_check.hpp"

#include <algorithm>
#include <deque>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "sim/scenario/scenario_checker.hpp"
#include "sim/scenario/scenario_value.hpp"

namespace parley::sim {
namespace {

constexpr std::size_t name_max = 64;

bool is_name(std::string_view name) {
  return !name.empty() && name.size() <= name_max && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' ||
           c == '-';
  });
}

}  // namespace

Checker::Checker(const Scenario& scenario, const UncheckedParts& unchecked, const SectionOrigins& origins)
    : s_(scenario), unchecked_(unchecked), origins_(origins) {
  for (std::size_t i = 0; i < s_.hosts.size(); ++i) nodes_.emplace(s_.hosts[i].name, i);
  for (std::size_t i = 0; i < s_.links.size(); ++i) links_.emplace(name_of(s_.links[i]), i);
  index();
}

void Checker::index() {
  for (std::size_t i = 0; i < s_.connects.size(); ++i)
    connects_to_[{s_.connects[i].to, s_.connects[i].port}].push_back(i);
  for (std::size_t i = 0; i < s_.listens.size(); ++i) listens_of_[s_.listens[i].host].push_back(i);
}

std::string host_name_taken(std::string_view name) {
  return fmt::format("name: '{}' is taken already; every host and switch needs its own", name);
}

std::string link_name_taken(std::string_view name) {
  return fmt::format("name: a link is called '{}' already; give this one another name", name);
}

std::string Checker::name_of(const ScenarioLink& link) {
  return link.name.empty() ? default_link_name(link) : link.name;
}

void Checker::add(Section section, std::size_t index, std::string_view key, std::string text) {
  if (problems_.size() == findings_max || repeats(section, index, key)) return;
  if (const auto& origins = origins_[static_cast<std::size_t>(section)]; index < origins.size())
    reported_.try_emplace({section, origins[index], std::string(key)}, index);
  problems_.push_back({section, index, std::string(key), std::move(text)});
}

bool Checker::repeats(Section section, std::size_t index, std::string_view key) const {
  const auto& origins = origins_[static_cast<std::size_t>(section)];
  if (index >= origins.size()) return false;
  const auto found = reported_.find({section, origins[index], std::string(key)});
  return found != reported_.end() && found->second != index;
}

const ScenarioHost* Checker::node(std::string_view name) const {
  const auto found = nodes_.find(std::string(name));
  return found == nodes_.end() ? nullptr : &s_.hosts[found->second];
}

std::string Checker::unknown(std::string_view what, std::string_view name, bool switches) const {
  std::vector<std::string_view> names;
  for (const ScenarioHost& host : s_.hosts)
    if (switches || !host.is_switch) names.push_back(host.name);
  const std::string_view meant = nearest(name, names);
  return fmt::format("{} '{}' is not there{}", what, name,
                     meant.empty() ? std::string() : fmt::format("; did you mean '{}'?", meant));
}

const ScenarioHost* Checker::expect_host(Section section, std::size_t index, std::string_view key,
                                         const std::string& name) {
  if (name.empty()) {
    add(section, index, key, fmt::format("{} is missing: add {} = \"<name of a host>\"", key, key));
    return nullptr;
  }
  const ScenarioHost* host = node(name);
  if (host == nullptr && !unchecked_.hosts && !repeats(section, index, key))
    add(section, index, key, fmt::format("{}: {}", key, unknown("host", name, false)));
  if (host == nullptr) return nullptr;
  if (!host->is_switch) return host;
  add(section, index, key, fmt::format("{}: '{}' is a switch, and a host is needed", key, name));
  return nullptr;
}

void Checker::check_bounds() {
  const ScenarioBounds& b = s_.bounds;
  const auto must = [&](bool fine, std::string_view key, std::string_view text) {
    if (!fine) add(Section::bounds, 0, key, fmt::format("{}: {}", key, text));
  };
  must(b.time > Duration{}, "time", "a run of no time ends before it began: write a time above 0s, as \"120s\"");
  must(b.converge > Duration{}, "converge", "write a time above 0s, as \"60s\"");
  must(b.events != 0, "events", "write a number above 0");
  must(b.send_queue > 0, "send_queue", "write a size above 0B");
  must(b.reassembly > 0, "reassembly", "write a size above 0B");
  must(b.frames != 0, "frames", "write a number above 0");
  const auto hosts = std::count_if(s_.hosts.begin(), s_.hosts.end(), [](const auto& host) { return !host.is_switch; });
  if (s_.neighbours == Neighbours::discovered && static_cast<std::size_t>(hosts) > discovered_hosts_max &&
      !(b.events && b.frames))
    add(Section::scenario, 0, "neighbours",
        fmt::format(
            "neighbours: the cost of discovery grows with the square of the hosts, and {} are more than {}: write "
            "neighbours = \"known\" at the top of the file, or events and frames in [bounds]",
            hosts, discovered_hosts_max));
  if (s_.connects.empty() && s_.sends.empty())
    add(Section::scenario, 0, "", "nothing happens here: add a [[connect]], or a [[send]] to a multicast group");
}

void Checker::check_hosts() {
  std::set<std::string> names;
  for (std::size_t i = 0; i < s_.hosts.size(); ++i) {
    const ScenarioHost& host = s_.hosts[i];
    const std::string_view kind = host.is_switch ? "switch" : "host";
    if (host.name.empty())
      add(Section::host, i, "name", fmt::format("this {} has no name: add name = \"...\"", kind));
    else if (!host.name.empty() && !is_name(host.name))
      add(Section::host, i, "name",
          fmt::format("name: '{}' is not a name: use up to {} letters, digits, '.', '_' and '-'",
                      host.name.substr(0, name_max), name_max));
    else if (!host.name.empty() && !names.insert(host.name).second)
      add(Section::host, i, "name", host_name_taken(host.name));
    if (!host.is_switch) check_host(i);
    if (!host.is_switch) check_nics(i);
    if (!host.is_switch && engine_of(host) == NicEngine::roce) check_hca(i);
  }
}

void Checker::check_host(std::size_t i) {
  const ScenarioHost& host = s_.hosts[i];
  const TcpOptions& tcp = host.options.tcp;
  const auto must = [&](bool fine, std::string_view key, std::string_view text) {
    if (!fine) add(Section::host, i, key, fmt::format("{}: {}", key, text));
  };
  constexpr std::uint32_t buffer_min = 2048, buffer_max = 1 << 30;
  const auto in_range = [](std::uint32_t n) { return n >= buffer_min && n <= buffer_max; };
  must(in_range(tcp.send_buffer), "tcp", "send_buffer is not in 2KiB..1GiB");
  must(in_range(tcp.receive_buffer), "tcp", "receive_buffer is not in 2KiB..1GiB");
  must(tcp.rto_min > Duration{} && tcp.rto_initial > Duration{}, "tcp", "rto_min and rto_initial must be above 0s");
  must(tcp.rto_max >= tcp.rto_min && tcp.rto_max >= tcp.rto_initial, "tcp",
       "rto_max is below rto_min or rto_initial: raise it");
  must(tcp.delayed_ack >= Duration{} && tcp.time_wait >= Duration{}, "tcp", "a time is negative");
  const cm::Liveness& liveness = host.options.manager.liveness;
  must(liveness.dead_after == Duration{} || liveness.keepalive < liveness.dead_after, "dead_after",
       "dead_after must be longer than keepalive");
  must(host.options.manager.endpoints_max > 0, "rnic", "endpoints_max must be above 0");
  const bool linked = !routes_->host(host.name)->links.empty();
  if (!linked && !host.name.empty() && !unchecked_.links && !unchecked_.hosts)
    add(Section::host, i, "name",
        fmt::format("host '{}' has no link: add a [[link]] with ends = [\"{}\", ...]", host.name, host.name));
}

void Checker::check_links() {
  std::set<std::string> names;
  for (std::size_t i = 0; i < s_.links.size(); ++i) {
    const ScenarioLink& link = s_.links[i];
    const auto add_problem = [&](std::string_view key, std::string text) {
      add(Section::link, i, key, std::move(text));
    };
    const bool has_ends = !link.ends[0].empty() && !link.ends[1].empty();
    if (!has_ends) add_problem("ends", "ends are missing: add ends = [\"a\", \"b\"]");
    for (const std::string& end : link.ends)
      if (has_ends && node(end) == nullptr && !unchecked_.hosts && !repeats(Section::link, i, "ends"))
        add_problem("ends", fmt::format("ends: {}", unknown("host or switch", end, true)));
    if (has_ends && link.ends[0] == link.ends[1])
      add_problem("ends", fmt::format("ends: '{}' is linked to itself; a link joins two", link.ends[0]));
    if (has_ends && !names.insert(name_of(link)).second) add_problem("name", link_name_taken(name_of(link)));
    if (!is_name(name_of(link)) && !link.name.empty())
      add_problem("name", fmt::format("name: '{}' is not a name: use letters, digits, '.', '_' and '-'",
                                      link.name.substr(0, name_max)));
    const LinkOptions& options = link.options;
    if (options.rate_bps == 0)
      add_problem("rate", "rate: nothing crosses a link of rate 0; for a dead link use a fault with action = \"drop\"");
    if (options.mtu < 576 || options.mtu > 9000)
      add_problem("mtu", fmt::format("mtu: {} is not in 576..9000", options.mtu));
    if (options.delay < Duration{}) add_problem("delay", "delay: a time is not negative");
    if (options.queue_octets < std::uint32_t{options.mtu} + 14)
      add_problem("queue", fmt::format("queue: {} octets do not hold one frame of the MTU ({} and 14 of Ethernet)",
                                       options.queue_octets, options.mtu));
  }
}

/// The switches from `from` to `to`, both included, over the links before link number `end`.
std::string Checker::path(std::size_t from, std::size_t to, std::size_t end) const {
  std::vector<std::vector<std::size_t>> neighbours(s_.hosts.size());
  for (std::size_t i = 0; i < end; ++i) {
    const auto a = nodes_.find(s_.links[i].ends[0]), b = nodes_.find(s_.links[i].ends[1]);
    if (a == nodes_.end() || b == nodes_.end()) continue;
    if (!s_.hosts[a->second].is_switch || !s_.hosts[b->second].is_switch) continue;
    neighbours[a->second].push_back(b->second);
    neighbours[b->second].push_back(a->second);
  }
  std::vector<std::size_t> came_from(s_.hosts.size(), none);
  std::deque<std::size_t> open{to};
  came_from[to] = to;
  while (!open.empty() && came_from[from] == none) {
    const std::size_t at = open.front();
    open.pop_front();
    for (const std::size_t next : neighbours[at]) {
      if (came_from[next] != none) continue;
      came_from[next] = at;
      open.push_back(next);
    }
  }
  std::string out = s_.hosts[from].name;
  if (came_from[from] == none) return out;
  for (std::size_t at = from; at != to; at = came_from[at]) out += fmt::format(" - {}", s_.hosts[came_from[at]].name);
  return out;
}

/// Hosts do not forward, so only switches can close a loop.
void Checker::check_loops() {
  constexpr int loops_max = 10;
  int loops = 0;
  std::vector<std::size_t> group(s_.hosts.size());  // union-find
  for (std::size_t i = 0; i < group.size(); ++i) group[i] = i;
  const auto root = [&](std::size_t at) {
    while (group[at] != at) at = group[at] = group[group[at]];
    return at;
  };
  for (std::size_t i = 0; i < s_.links.size() && loops < loops_max; ++i) {
    const auto a = nodes_.find(s_.links[i].ends[0]), b = nodes_.find(s_.links[i].ends[1]);
    if (a == nodes_.end() || b == nodes_.end() || a->second == b->second) continue;
    if (!s_.hosts[a->second].is_switch || !s_.hosts[b->second].is_switch) continue;
    const std::size_t x = root(a->second), y = root(b->second);
    if (x != y) {
      group[x] = y;
      continue;
    }
    ++loops;
    const std::string back = path(b->second, a->second, i);
    add(Section::link, i, "ends",
        fmt::format("ends: this link closes a loop of switches, {} - {}; a broadcast would go round for ever: take one "
                    "link out",
                    s_.hosts[a->second].name, back));
  }
}

bool Checker::reaches(const std::string& a, const std::string& b) const {
  const auto x = segments_of_.find(a), y = segments_of_.find(b);
  if (x == segments_of_.end() || y == segments_of_.end()) return false;
  return std::any_of(x->second.begin(), x->second.end(), [&](std::size_t i) { return y->second.count(i) != 0; });
}

std::vector<ScenarioProblem> Checker::run() {
  segments_ = link_segments(s_);
  routes_.emplace(s_, segments_);
  check_bounds();
  check_hosts();
  check_links();
  check_link_nics();
  for (std::size_t i = 0; i < s_.links.size(); ++i)
    for (const std::string& end : s_.links[i].ends) segments_of_[end].insert(segments_[i]);
  check_one_nic_in_a_network();
  check_loops();
  check_listens();
  check_connects();
  check_groups();
  check_exits();
  check_faults();
  return std::move(problems_);
}

std::vector<ScenarioProblem> find_faults(const Scenario& scenario, const UncheckedParts& unchecked,
                                         const SectionOrigins& origins) {
  return Checker(scenario, unchecked, origins).run();
}

std::vector<ScenarioError> check_scenario(const Scenario& scenario) {
  std::vector<ScenarioError> out;
  const auto line_of = [&](const ScenarioProblem& f) {
    const auto at = [&](const auto& list) { return f.index < list.size() ? list[f.index].line : 0; };
    switch (f.section) {
      case Section::host: return at(scenario.hosts);
      case Section::link: return at(scenario.links);
      case Section::listen: return at(scenario.listens);
      case Section::connect: return at(scenario.connects);
      case Section::member: return at(scenario.members);
      case Section::send: return at(scenario.sends);
      case Section::exit: return at(scenario.exits);
      case Section::fault: return at(scenario.faults);
      case Section::scenario:
      case Section::bounds: break;
    }
    return 0;
  };
  constexpr std::size_t errors_max = 50;
  for (ScenarioProblem& finding : find_faults(scenario, {})) {
    if (out.size() == errors_max) break;
    const int line = line_of(finding);
    out.push_back({scenario.file, line, 0, std::move(finding.key), std::move(finding.text)});
  }
  return out;
}

}  // namespace parley::sim
