// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "sim/scenario/scenario_groups.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "sim/net/topology.hpp"
#include "sim/scenario/scenario_schema.hpp"

namespace parley::sim {
namespace {

constexpr std::size_t tables_max = 1'000'000;  // of one kind, after the expansion

/// Replaces the elements of one section.
template <class T>
class SectionList {
 public:
  SectionList(Section section, std::vector<T>& list, Expansion& out)
      : section_(section), list_(list), origins_(out.origins[static_cast<std::size_t>(section)]), out_(out) {}

  /// Calls `expand(element, add)` for each element, where `add(element)` adds one to the new list.
  template <class Expand>
  void replace(Expand expand) {
    std::vector<T> fresh;
    bool full = false;
    for (std::size_t i = 0; i < list_.size() && !full; ++i)
      expand(list_[i], i, [&](T element) {
        full = fresh.size() == tables_max;
        if (full) return;
        fresh.push_back(std::move(element));
        origins_.push_back(i);
      });
    if (full)
      problem(origins_.back(), "",
              fmt::format("more than {} tables of this kind, each host of a count included", tables_max));
    list_ = std::move(fresh);
  }
  void problem(std::size_t index, std::string_view key, std::string text) {
    out_.problems.push_back({section_, index, std::string(key), std::move(text)});
  }

 private:
  Section section_;
  std::vector<T>& list_;
  std::vector<std::size_t>& origins_;
  Expansion& out_;
};

class Expander {
 public:
  explicit Expander(Scenario& scenario) : s_(scenario) {}

  Expansion run() {
    for (const ScenarioHost& host : s_.hosts) out_.changed = out_.changed || host.count > 1;
    if (!out_.changed || !fits()) return std::move(out_);
    check_host_names();
    check_link_names();
    expand_hosts_themselves();
    expand_links();
    expand_faults();
    expand_connects();
    each(Section::listen, s_.listens, &ScenarioListen::host);
    each(Section::member, s_.members, &ScenarioMember::host);
    each(Section::send, s_.sends, &ScenarioSend::from);
    each(Section::exit, s_.exits, &ScenarioExit::host);
    return std::move(out_);
  }

 private:
  /// The number of hosts that share the name; 0: it is the name of one host, or of none.
  std::uint32_t count(const std::string& name) const {
    const auto found = counts_.find(name);
    return found == counts_.end() ? 0 : found->second;
  }
  /// The name of host `i`, from 0; `name` itself if it has no count.
  std::string member(const std::string& name, std::size_t i) const {
    const std::uint32_t n = count(name);
    return n == 0 ? name : fmt::format("{}{}", name, i % n + 1);
  }

  /// Nothing is expanded if it does not fit.
  bool fits() {
    std::size_t total = 0;
    for (std::size_t i = 0; i < s_.hosts.size(); ++i) {
      total += s_.hosts[i].count;
      if (total <= Topology::nodes_max) continue;
      out_.changed = false;
      out_.problems.push_back({Section::host, i, "count",
                               fmt::format("count: {} hosts and switches up to here, at most {} in one scenario", total,
                                           Topology::nodes_max)});
      return false;
    }
    return true;
  }

  /// Names that several hosts share and another host has too. Afterwards h1, h2, ... and h would be different names.
  void check_host_names() {
    std::map<std::string_view, bool> names;  // whether it has a count
    for (std::size_t i = 0; i < s_.hosts.size(); ++i) {
      const ScenarioHost& host = s_.hosts[i];
      const auto [first, fresh] = names.try_emplace(host.name, host.count > 1);
      if (!fresh && !host.name.empty() && (first->second || host.count > 1))
        out_.problems.push_back({Section::host, i, "name", host_name_taken(host.name)});
      first->second = first->second || host.count > 1;
    }
  }

  void check_link_names() {
    std::set<std::string_view> groups;
    for (const ScenarioHost& host : s_.hosts)
      if (host.count > 1) groups.insert(host.name);
    std::map<std::string, bool> names;
    for (std::size_t i = 0; i < s_.links.size(); ++i) {
      const ScenarioLink& link = s_.links[i];
      if (link.ends[0].empty() || link.ends[1].empty()) continue;
      const bool group = groups.contains(link.ends[0]) || groups.contains(link.ends[1]);
      const std::string name = link.name.empty() ? default_link_name(link) : link.name;
      const auto [first, fresh] = names.try_emplace(name, group);
      if (!fresh && (first->second || group))
        out_.problems.push_back({Section::link, i, "name", link_name_taken(name)});
      first->second = first->second || group;
    }
  }

  void expand_hosts_themselves() {
    SectionList<ScenarioHost> hosts(Section::host, s_.hosts, out_);
    hosts.replace([&](ScenarioHost& host, std::size_t, const auto& add) {
      const std::uint32_t n = host.count;
      if (n == 1) return add(std::move(host));
      counts_[host.name] = n;
      for (std::uint32_t i = 0; i < n; ++i) {
        ScenarioHost one = host;
        one.count = 1;
        one.name = member(host.name, i);
        add(std::move(one));
      }
    });
  }

  void expand_links() {
    SectionList<ScenarioLink> links(Section::link, s_.links, out_);
    links.replace([&](ScenarioLink& link, std::size_t index, const auto& add) {
      const std::uint32_t a = count(link.ends[0]), b = count(link.ends[1]);
      const std::uint32_t n = std::max(a, b);
      if (a != 0 && b != 0 && (a != b || link.ends[0] == link.ends[1])) {
        links.problem(index, "ends",
                      fmt::format("ends: hosts of two counts are joined in pairs, so these must be two names with one "
                                  "count: '{}' has {}, '{}' has {}",
                                  link.ends[0], a, link.ends[1], b));
      }
      const std::string name = link.name.empty() ? default_link_name(link) : link.name;
      if (n == 0) return add(std::move(link));
      std::vector<std::string>& names = link_groups_[name];
      for (std::uint32_t i = 0; i < n; ++i) {
        ScenarioLink one = link;
        for (std::string& end : one.ends) end = member(end, i);
        one.name = link.name.empty() ? default_link_name(one) : fmt::format("{}{}", link.name, i + 1);
        names.push_back(one.name);
        add(std::move(one));
      }
    });
  }

  void expand_faults() {
    SectionList<ScenarioFault> faults(Section::fault, s_.faults, out_);
    faults.replace([&](ScenarioFault& fault, std::size_t, const auto& add) {
      const auto links = link_groups_.find(fault.link);
      const std::size_t n = links != link_groups_.end() ? links->second.size() : count(fault.host);
      if (n == 0) return add(std::move(fault));
      for (std::size_t i = 0; i < n; ++i) {
        ScenarioFault one = fault;
        if (links != link_groups_.end()) one.link = links->second[i];
        one.host = member(fault.host, i);
        one.toward = member(fault.toward, i);
        add(std::move(one));
      }
    });
  }

  /// Hosts of two names are connected in pairs, and those of the lower count are used again. Hosts of one name are
  /// connected to the next, the last to the first.
  void expand_connects() {
    SectionList<ScenarioConnect> connects(Section::connect, s_.connects, out_);
    connects.replace([&](ScenarioConnect& connect, std::size_t, const auto& add) {
      const std::uint32_t n = std::max(count(connect.from), count(connect.to));
      if (n == 0) return add(std::move(connect));
      const std::uint32_t step = connect.from == connect.to ? 1 : 0;
      for (std::uint32_t i = 0; i < n; ++i) {
        ScenarioConnect one = connect;
        one.from = member(connect.from, i);
        one.to = member(connect.to, std::size_t{i} + step);
        if (one.from != one.to) add(std::move(one));
      }
    });
  }

  template <class T>
  void each(Section section, std::vector<T>& list, std::string T::*host) {
    SectionList<T> part(section, list, out_);
    part.replace([&](T& element, std::size_t, const auto& add) {
      const std::uint32_t n = count(element.*host);
      if (n == 0) return add(std::move(element));
      for (std::uint32_t i = 0; i < n; ++i) {
        T one = element;
        one.*host = member(element.*host, i);
        add(std::move(one));
      }
    });
  }

  Scenario& s_;
  Expansion out_;
  std::map<std::string, std::uint32_t> counts_;                  // hosts by name in the file
  std::map<std::string, std::vector<std::string>> link_groups_;  // by name in the file
};

}  // namespace

Expansion expand_hosts(Scenario& scenario) { return Expander(scenario).run(); }

}  // namespace parley::sim
