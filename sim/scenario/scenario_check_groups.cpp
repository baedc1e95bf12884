// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The checks of multicast groups: their members and senders.
#include <algorithm>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "nic/roce/mtu.hpp"
#include "sim/scenario/scenario_checker.hpp"
#include "sim/scenario/scenario_value.hpp"

namespace parley::sim {
namespace {

constexpr std::size_t ends_max = 1024;  // members, and sends, of one scenario
constexpr std::size_t groups_max = 64;  // each host with RoCE has a queue pair for each
constexpr std::uint64_t deliveries_max = 1'000'000;

template <class End>
void find_groups(const std::vector<End>& ends, std::set<Address>& out) {
  for (const End& end : ends)
    if (end.group != Address{}) out.insert(end.group);
}

}  // namespace

void Checker::check_groups() {
  for (std::size_t i = 0; i < s_.members.size(); ++i) check_member(i);
  for (std::size_t i = 0; i < s_.sends.size(); ++i) check_send(i);
  check_group_bounds();
  if (s_.members.empty() && s_.sends.empty()) return;
  const auto taken = [this](Section section, const auto& ends) {
    for (std::size_t i = 0; i < ends.size(); ++i)
      if (ends[i].qp == QpKind::ud && ends[i].port == group_port)
        add(section, i, "port",
            fmt::format("port: {} is where hosts of a scenario with groups hold their address; choose another",
                        group_port));
  };
  taken(Section::listen, s_.listens);
  taken(Section::connect, s_.connects);
}

void Checker::check_group_bounds() {
  std::set<Address> groups;
  find_groups(s_.members, groups);
  find_groups(s_.sends, groups);
  const bool members = s_.members.size() > ends_max, sends = s_.sends.size() > ends_max;
  if (members || sends)
    return add(members ? Section::member : Section::send, ends_max, "",
               fmt::format("more than {} of [[{}]] in one scenario", ends_max, members ? "member" : "send"));
  if (groups.size() > groups_max)
    return add(s_.members.empty() ? Section::send : Section::member, 0, "group",
               fmt::format("group: {} groups in one scenario, at most {}", groups.size(), groups_max));
  std::uint64_t deliveries = 0;
  for (std::size_t i = 0; i < s_.sends.size(); ++i) {
    const auto receivers = std::count_if(s_.members.begin(), s_.members.end(), [&](const ScenarioMember& member) {
      return member.group == s_.sends[i].group;
    });
    deliveries += s_.sends[i].messages * std::max<std::uint64_t>(1, static_cast<std::uint64_t>(receivers));
    if (deliveries <= deliveries_max) continue;
    return add(
        Section::send, i, "messages",
        fmt::format("messages: more than {} in one scenario, counted at each member of their groups", deliveries_max));
  }
}

/// A host that joins a group or sends to it.
void Checker::check_group_end(Section section, std::size_t i, std::string_view key, const std::string& name,
                              const Address& group) {
  if (group == Address{}) add(section, i, "group", "group is missing: add group = \"239.1.2.3\", or another");
  const ScenarioHost* host = expect_host(section, i, key, name);
  if (host == nullptr) return;
  const auto add_problem = [&](std::string_view of, std::string text) { add(section, i, of, std::move(text)); };
  if (engine_of(*host) != NicEngine::roce && unchecked_.engines) return;
  if (engine_of(*host) != NicEngine::roce)
    return add_problem(key,
                       fmt::format("{}: '{}' has engine = \"{}\", and groups are of RoCE: write engine = \"roce\" in "
                                   "the [[host]]",
                                   key, name, to_string(engine_of(*host))));
  if (group.family == Address::Family::v6 && !host->options.ipv6)
    add_problem("group", fmt::format("group: '{}' has ipv6 = false", name));
  if (segments_of_.contains(name) && !unchecked_.links && !unchecked_.nics && !only_roce_nic(s_, *host))
    add_problem(
        key, fmt::format("{}: '{}' has several NICs with RoCE, and a group is of one network: give it one", key, name));
}

void Checker::check_member(std::size_t i) {
  const ScenarioMember& member = s_.members[i];
  check_group_end(Section::member, i, "host", member.host, member.group);
  if (member.at < Instant{} || member.at == never || member.at >= Instant(s_.bounds.time))
    add(Section::member, i, "at",
        fmt::format("at: write a time from 0s on, below [bounds] time, which is {}", time_text(s_.bounds.time)));
  else if (member.until <= member.at)
    add(Section::member, i, "until", "until: it must come after at, when the host joins");
  else if (member.until != never && member.until >= Instant(s_.bounds.time))
    add(Section::member, i, "until",
        fmt::format("until: the run is over by then: [bounds] time is {}", time_text(s_.bounds.time)));
}

void Checker::check_send(std::size_t i) {
  const ScenarioSend& send = s_.sends[i];
  const auto add_problem = [&](std::string_view key, std::string text) { add(Section::send, i, key, std::move(text)); };
  check_group_end(Section::send, i, "from", send.from, send.group);
  if (send.octets < ScenarioSend::octets_min)
    add_problem("octets", fmt::format("octets: write {} or more, so that datagrams differ", ScenarioSend::octets_min));
  const ScenarioHost* from = node(send.from);
  const bool roce = from != nullptr && !from->is_switch && engine_of(*from) == NicEngine::roce;
  // Every host that must receive it has a queue pair for packets of its own HCA's size.
  std::set<std::string> ends;
  if (roce) ends.insert(send.from);
  for (const ScenarioMember& member : s_.members) {
    const ScenarioHost* host = node(member.host);
    if (member.group == send.group && host != nullptr && !host->is_switch && engine_of(*host) == NicEngine::roce)
      ends.insert(member.host);
  }
  for (const std::string& name : ends) {
    const std::uint32_t most = nic::roce::octets_of(node(name)->options.hca.mtu);
    if (send.octets <= most) continue;
    add_problem("octets",
                fmt::format("octets: a datagram is one packet, and those of '{}' have at most {} octets: hca = "
                            "{{ mtu = ... }}",
                            name, most));
    break;
  }
  for (const std::string& name : ends)
    if (roce && name != send.from && !unchecked_.links && !unchecked_.hosts && !reaches(send.from, name))
      add_problem("group",
                  fmt::format("group: no path leads from '{}' to the member '{}'; hosts do not forward: join them "
                              "by a link or over switches",
                              send.from, name));
  if (send.interval < Duration{}) return add_problem("interval", "interval: a time is not negative");
  const __int128 last = static_cast<__int128>(send.at.time_since_epoch().count()) +
                        static_cast<__int128>(send.interval.count()) * (send.messages == 0 ? 0 : send.messages - 1);
  if (send.at < Instant{} || send.at == never)
    add_problem("at", "at: write a time from 0s on");
  else if (s_.bounds.time > Duration{} && last >= s_.bounds.time.count())
    add_problem(send.messages > 1 ? "interval" : "at",
                fmt::format("the last datagram would leave when the run is over: [bounds] time is {}",
                            time_text(s_.bounds.time)));
}

}  // namespace parley::sim
