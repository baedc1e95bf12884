// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The checks of NIC names: at hosts with a list of NICs, links, connections and their backups.
#include <algorithm>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "sim/net/topology.hpp"
#include "sim/scenario/scenario_checker.hpp"
#include "sim/scenario/scenario_route.hpp"
#include "sim/scenario/scenario_value.hpp"

namespace parley::sim {
namespace {

bool has_nic(const ScenarioHost& host, std::string_view nic) {
  const auto& nics = host.options.nics;
  return std::any_of(nics.begin(), nics.end(), [nic](const NicOptions& n) { return n.name == nic; });
}

std::string unknown_nic(const ScenarioHost& host, std::string_view nic) {
  if (host.is_switch) return fmt::format("'{}' is a switch and has no NICs: write its name alone", host.name);
  if (host.options.nics.empty())
    return fmt::format("host '{}' has no NIC '{}': add [[host.nic]] with name = \"{}\" to it", host.name, nic, nic);
  std::vector<std::string_view> names;
  for (const NicOptions& n : host.options.nics) names.push_back(n.name);
  const std::string_view meant = nearest(nic, names);
  return fmt::format(
      "host '{}' has no NIC '{}'; {}", host.name, nic,
      meant.empty() ? fmt::format("there are {}", fmt::join(names, ", ")) : fmt::format("did you mean '{}'?", meant));
}

using TakenNics = std::set<std::pair<std::string, std::string>>;  // host and NIC

/// A link without a NIC name uses the first free one, as in World::add_link.
bool assign_free_nic(const ScenarioHost& host, TakenNics& taken) {
  const auto& nics = host.options.nics;
  return std::any_of(nics.begin(), nics.end(),
                     [&](const NicOptions& n) { return taken.emplace(host.name, n.name).second; });
}

}  // namespace

void Checker::check_nics(std::size_t i) {
  const ScenarioHost& host = s_.hosts[i];
  if (const auto fine = Topology::check_nics(host.name, host.options.nics); !fine)
    add(Section::host, i, "nic", "nic: " + fine.error());
}

/// A NIC has one link.
void Checker::check_link_nics() {
  if (unchecked_.nics) return;
  TakenNics taken;
  for (std::size_t i = 0; i < s_.links.size(); ++i) {
    for (std::size_t end = 0; end < 2; ++end) {
      const ScenarioLink& link = s_.links[i];
      const ScenarioHost* host = node(link.ends[end]);
      if (host == nullptr) continue;
      const std::string& nic = link.nics[end];
      if (!nic.empty() && !has_nic(*host, nic))
        add(Section::link, i, "ends", "ends: " + unknown_nic(*host, nic));
      else if (!nic.empty() && !taken.emplace(host->name, nic).second)
        add(Section::link, i, "ends", fmt::format("ends: '{}/{}' has a link already", host->name, nic));
      else if (nic.empty() && !host->options.nics.empty() && !assign_free_nic(*host, taken))
        add(Section::link, i, "ends",
            fmt::format("ends: each NIC of '{}' has a link already: add another [[host.nic]]", host->name));
    }
  }
}

/// Addresses consist of the network and the host, so a host with two NICs in one network would have the same address
/// twice.
void Checker::check_one_nic_in_a_network() {
  std::map<std::pair<std::string, std::size_t>, std::size_t> first;  // link of a host in a segment
  for (std::size_t i = 0; i < s_.links.size(); ++i) {
    if (s_.links[i].ends[0] == s_.links[i].ends[1]) continue;
    for (const std::string& end : s_.links[i].ends) {
      const ScenarioHost* host = node(end);
      if (host == nullptr || host->is_switch || first.emplace(std::pair(end, segments_[i]), i).second) continue;
      add(Section::link, i, "ends",
          fmt::format("ends: '{}' is in this network already: two of its NICs would have one address", end));
    }
  }
}

/// The hosts reach each other: do the named NICs too?
void Checker::check_partner_nics(std::size_t i) {
  const ScenarioConnect& connect = s_.connects[i];
  const auto add_problem = [&](std::string_view key, std::string text) {
    add(Section::connect, i, key, std::move(text));
  };
  const ScenarioHost &from = *node(connect.from), &to = *node(connect.to);
  const std::size_t before = problems_.size();
  if (unchecked_.nics) return;
  if (!connect.from_nic.empty() && !has_nic(from, connect.from_nic))
    add_problem("from", "from: " + unknown_nic(from, connect.from_nic));
  if (!connect.to_nic.empty() && !has_nic(to, connect.to_nic))
    add_problem("to", "to: " + unknown_nic(to, connect.to_nic));
  for (const std::string& nic : connect.backups)
    if (!has_nic(to, nic)) add_problem("backups", "backups: " + unknown_nic(to, nic));
  if (!connect.backups.empty() && connect.address == AddressKind::link_local)
    add_problem("backups", "backups: a link-local address is of one link: write address = \"v4\" or \"v6\"");
  if (problems_.size() != before || unchecked_.links || unchecked_.hosts) return;
  if (const auto route = routes_->find(connect); !route)
    add_problem(connect.backups.empty() ? "to" : "backups",
                fmt::format("{}: {}", connect.backups.empty() ? "to" : "backups", route.error()));
}

}  // namespace parley::sim
