// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The checks of listeners, connections and faults.
#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "mpa/negotiate.hpp"
#include "mpa/startup.hpp"
#include "sim/fault/fault.hpp"
#include "sim/fault/fault_text.hpp"
#include "sim/host/stack.hpp"
#include "sim/scenario/scenario_checker.hpp"
#include "sim/scenario/scenario_value.hpp"

namespace parley::sim {
namespace {

constexpr std::uint64_t connections_max = 1'000'000;
constexpr std::uint64_t octets_max = 16 << 20, transfer_max = 1 << 30;

std::string_view room_rule(std::size_t room) {
  return room == mpa::private_data_room(1) ? "RFC 5044 §7.1.1" : "RFC 6581 §6 takes 4 of 512";
}

}  // namespace

void Checker::check_quirk(Section section, std::size_t index, std::string_view key, const std::string& name) {
  if (mpa::find_quirk(name)) return;
  std::vector<std::string_view> names;
  for (const mpa::Quirk& quirk : mpa::all_quirks()) names.push_back(quirk.name);
  const std::string_view meant = nearest(name, names);
  add(section, index, key,
      meant.empty()
          ? fmt::format("{}: no quirk is called '{}'; known are {}", key, name.substr(0, 60), fmt::join(names, ", "))
          : fmt::format("{}: no quirk is called '{}'; did you mean '{}'?", key, name, meant));
}

void Checker::check_mpa(Section section, std::size_t index, mpa::Role role, const mpa::StartupOptions& o) {
  const std::size_t before = problems_.size();
  const auto add_problem = [&](std::string_view key, std::string_view text) {
    add(section, index, key, fmt::format("{}: {}", key, text));
  };
  check_quirk(section, index, "peer_quirk", o.peer_quirk);
  check_quirk(section, index, "play_quirk", o.play_quirk);
  const auto depth_fine = [](std::uint16_t n) { return n <= mpa::depth_max || n == mpa::depth_not_negotiated; };
  if (o.revision != 1 && o.revision != 2) add_problem("revision", "write 1 (RFC 5044) or 2 (RFC 6581)");
  if (!depth_fine(o.ird)) add_problem("ird", "write 0..16382 or \"none\" (RFC 6581 §9.1)");
  if (!depth_fine(o.ord)) add_problem("ord", "write 0..16382 or \"none\" (RFC 6581 §9.1)");
  if (o.timeouts.request <= Duration{}) add_problem("request_timeout", "write a time above 0s");
  if (o.timeouts.reply <= Duration{}) add_problem("reply_timeout", "write a time above 0s");
  if (o.timeouts.rtr <= Duration{}) add_problem("rtr_timeout", "write a time above 0s");
  if (o.timeouts.first_fpdu < Duration{}) add_problem("first_fpdu_timeout", "a time is not negative");
  if (role == mpa::Role::initiator) {
    if (o.revision == 2 && o.rtr == mpa::Rtr::frame)
      add_problem(
          "rtr",
          "the Rtr frame belongs to revision 1 (OFA 2007-10 Rtr §1): add revision = 1, or write send, write or read");
    if (o.rtr_fallback == mpa::Rtr::frame)
      add_problem("rtr_fallback",
                  "without S the peer does not know the Rtr frame (OFA 2007-10 Rtr §2): write send, write or read");
  } else {
    if (o.rtr_accept.empty()) add_problem("rtr_accept", "name at least one of send, write, read (RFC 6581 §9.2)");
    if (o.rtr_expected == mpa::Rtr::frame)
      add_problem("rtr_expected",
                  "the Rtr frame is always announced with S (OFA 2007-10 Rtr §2): write send, write or read");
    if (o.rtr_accept == mpa::RtrSet{.read = true} && o.ird == 0 && o.ird_max == 0)
      add_problem("rtr_accept", "a Read alone needs room for one: raise ird or ird_max (RFC 6581 §9.2)");
  }
  if (problems_.size() == before && !mpa::check_options(role, o))
    add(section, index, "", "these MPA options contradict each other or are out of range (docs/cm.md)");
}

void Checker::check_listens() {
  // A listener occupies every address of its family, including link-local ones.
  std::map<std::tuple<std::string, std::uint16_t, bool, bool>, std::size_t> ports;
  for (std::size_t i = 0; i < s_.listens.size(); ++i) {
    const ScenarioListen& listen = s_.listens[i];
    const auto add_problem = [&](std::string_view key, std::string text) {
      add(Section::listen, i, key, std::move(text));
    };
    const ScenarioHost* host = expect_host(Section::listen, i, "host", listen.host);
    if (host != nullptr && !host->options.ipv6 && listen.address != AddressKind::v4)
      add_problem("address", fmt::format("address: host '{}' has ipv6 = false", listen.host));
    if (listen.port == 0) add_problem("port", "port: write 1..65535");
    // The XRC service uses the port in both spaces.
    for (const bool datagrams : {false, true}) {
      if ((datagrams && listen.qp == QpKind::rc) || (!datagrams && listen.qp == QpKind::ud)) continue;
      const auto [first, fresh] =
          ports.try_emplace({listen.host, listen.port, listen.address == AddressKind::v4, datagrams}, i);
      if (fresh || listen.host.empty()) continue;
      const int line = s_.listens[first->second].line;
      add_problem(
          "port",
          fmt::format("port: {} of '{}' is taken by the listener {}; choose another", listen.port, listen.host,
                      line > 0 ? fmt::format("of line {}", line) : fmt::format("number {}", first->second + 1)));
      break;
    }
    if (listen.at < Instant{} || listen.at == never) add_problem("at", "at: write a time from 0s on");
    if (listen.accept_after < Duration{}) add_problem("accept_after", "accept_after: a time is not negative");
    if (listen.pending_max == 0) add_problem("pending_max", "pending_max: 0 lets no peer connect");
    if (check_roce_listen(i)) continue;
    check_iwarp_qp(Section::listen, i, listen.qp, host != nullptr);
    check_listen_mpa(i);
  }
}

void Checker::check_listen_mpa(std::size_t i) {
  const ScenarioListen& listen = s_.listens[i];
  check_mpa(Section::listen, i, mpa::Role::responder, listen.mpa);
  std::uint16_t room = mpa::private_data_room(1);
  if (const auto to = connects_to_.find({listen.host, listen.port});
      to != connects_to_.end() && listen.mpa.revision == 2)
    for (const std::size_t connect : to->second)
      room = std::min(room, mpa::private_data_room(s_.connects[connect].mpa.revision));
  if (listen.private_data.size() > room)
    add(Section::listen, i, "private_data",
        fmt::format("private_data: {} octets, at most {} fit into the Reply ({})", listen.private_data.size(), room,
                    room_rule(room)));
}

void Checker::check_connects() {
  std::uint64_t total = 0;
  bool reported = false;
  for (std::size_t i = 0; i < s_.connects.size(); ++i) {
    check_connect(i);
    total += s_.connects[i].count;
    if (total <= connections_max || reported) continue;
    reported = true;
    add(Section::connect, i, "count",
        fmt::format("count: {} connections up to here, at most {} in one scenario", total, connections_max));
  }
}

void Checker::check_connect(std::size_t i) {
  const ScenarioConnect& connect = s_.connects[i];
  const ScenarioHost* from = expect_host(Section::connect, i, "from", connect.from);
  const ScenarioHost* to = expect_host(Section::connect, i, "to", connect.to);
  if (from != nullptr && to != nullptr) check_partner(i);
  if (connect.port == 0) add(Section::connect, i, "port", "port: write 1..65535");
  check_amounts(i);
  if (check_roce_connect(i)) return;
  check_iwarp_qp(Section::connect, i, connect.qp, from != nullptr && to != nullptr);
  check_mpa(Section::connect, i, mpa::Role::initiator, connect.mpa);
  const std::uint16_t room = mpa::private_data_room(connect.mpa.revision);
  if (connect.private_data.size() > room)
    add(Section::connect, i, "private_data",
        fmt::format("private_data: {} octets, at most {} fit into a Request of revision {} ({})",
                    connect.private_data.size(), room, connect.mpa.revision, room_rule(room)));
  else if (mpa::check_options(mpa::Role::initiator, connect.mpa) &&
           connect.private_data.size() > mpa::Startup::request_room(connect.mpa))
    add(Section::connect, i, "private_data",
        fmt::format("private_data: {} octets are more than a peer with peer_quirk = \"{}\" takes",
                    connect.private_data.size(), connect.mpa.peer_quirk));
}

/// Both hosts exist: do they reach each other?
void Checker::check_partner(std::size_t i) {
  const ScenarioConnect& connect = s_.connects[i];
  const auto add_problem = [&](std::string_view key, std::string text) {
    add(Section::connect, i, key, std::move(text));
  };
  if (connect.from == connect.to && unchecked_.counts) return;
  if (connect.from == connect.to)
    return add_problem("to",
                       fmt::format("to: '{}' connects to itself; nothing of that would cross a link", connect.from));
  if (!unchecked_.links && !unchecked_.hosts && !reaches(connect.from, connect.to))
    add_problem("to", fmt::format("to: no path leads from '{}' to '{}'; hosts do not forward: join them by a link or "
                                  "over switches",
                                  connect.from, connect.to));
  else
    check_partner_nics(i);
  const bool v4_only = !node(connect.from)->options.ipv6 || !node(connect.to)->options.ipv6;
  if (connect.address != AddressKind::v4 && v4_only)
    add_problem("address", "address: one of the two hosts has ipv6 = false");
  else
    check_listener(i);
  // All of them start at the same time, and each needs a port; those without one fail.
  if (connect.count > Stack::ephemeral_ports && connect.interval == Duration{} && connect.retries == 0 &&
      (connect.expect == Expect::established || connect.expect == Expect::rejected))
    add_problem("count",
                fmt::format("count: {} connections at once from '{}' to one address and port, and a host has {} "
                            "local ports for those: spread them over more hosts or listeners, or over time with "
                            "interval",
                            connect.count, connect.from, Stack::ephemeral_ports));
}

/// Is there a listener to answer?
void Checker::check_listener(std::size_t i) {
  const ScenarioConnect& connect = s_.connects[i];
  const auto add_problem = [&](std::string_view key, std::string text) {
    add(Section::connect, i, key, std::move(text));
  };
  if (unchecked_.listens || connect.expect == Expect::failed || connect.expect == Expect::settled) return;
  const auto same = [&](const ScenarioListen& listen) {
    return listen.port == connect.port && (listen.address == AddressKind::v4) == (connect.address == AddressKind::v4) &&
           listen.qp == connect.qp;
  };
  const auto there = listens_of_.find(connect.to);
  const std::vector<std::size_t> listens = there == listens_of_.end() ? std::vector<std::size_t>() : there->second;
  if (std::any_of(listens.begin(), listens.end(), [&](std::size_t index) { return same(s_.listens[index]); })) return;
  for (const std::size_t index : listens) {
    const ScenarioListen& listen = s_.listens[index];
    if (listen.port == connect.port && listen.qp != connect.qp)
      return add_problem("qp", fmt::format("qp: '{}' listens on port {} with qp = \"{}\" only", connect.to, listen.port,
                                           to_string(listen.qp)));
    if (listen.port == connect.port)
      return add_problem("address", fmt::format("address: '{}' listens on port {} with address = \"{}\" only",
                                                connect.to, listen.port, to_string(listen.address)));
    return add_problem(
        "port", fmt::format("port: there is no listener on port {} of '{}'; did you mean {}? (or expect = \"failed\")",
                            connect.port, connect.to, listen.port));
  }
  add_problem("port",
              fmt::format("port: there is no listener on '{}': add a [[listen]], or expect = \"failed\"", connect.to));
}

void Checker::check_amounts(std::size_t i) {
  const ScenarioConnect& connect = s_.connects[i];
  const auto must = [&](bool fine, std::string_view key, std::string_view text) {
    if (!fine) add(Section::connect, i, key, fmt::format("{}: {}", key, text));
  };
  must(connect.count > 0, "count", "write a number above 0, or take the [[connect]] out");
  must(connect.octets <= octets_max, "octets", "at most 16MiB in one message");
  must(connect.octets > octets_max || std::uint64_t{connect.messages} * connect.octets <= transfer_max, "messages",
       "more than 1GiB over one connection");
  must(connect.at >= Instant{} && connect.at != never, "at", "write a time from 0s on");
  must(connect.interval >= Duration{}, "interval", "a time is not negative");
  must(connect.close_after >= Duration{}, "close_after", "a time is not negative");
  must(connect.established_within >= Duration{}, "established_within", "a time is not negative");
  must(connect.established_within == Duration{} || connect.expect == Expect::established, "established_within",
       "it says how an established connection must have come up: it needs expect = \"established\"");
  must(connect.retry_after >= Duration{}, "retry_after", "a time is not negative");
  must(connect.transport_timeout > Duration{}, "transport_timeout", "write a time above 0s");
  must(connect.timeout >= Duration{}, "timeout", "a time is not negative");
  if (connect.transfer == Transfer::read && connect.messages > 0)
    must(connect.mpa.ord != 0, "ord", "an RDMA Read needs an ORD of 1 or more");
  const __int128 last = static_cast<__int128>(connect.at.time_since_epoch().count()) +
                        static_cast<__int128>(connect.interval.count()) * (connect.count == 0 ? 0 : connect.count - 1);
  if (connect.at != never && s_.bounds.time > Duration{} && last >= s_.bounds.time.count())
    add(Section::connect, i, connect.count > 1 ? "interval" : "at",
        fmt::format("the last connection would start when the run is over: [bounds] time is {}",
                    time_text(s_.bounds.time)));
}

void Checker::check_faults() {
  std::map<std::string, std::size_t> rules;  // by link
  for (std::size_t i = 0; i < s_.faults.size(); ++i) {
    check_fault(i);
    const std::string& link = s_.faults[i].link;
    if (!link.empty() && ++rules[link] == FaultInjector::rules_max + 1)
      add(Section::fault, i, "link", fmt::format("link: more than {} faults of one link", FaultInjector::rules_max));
  }
}

void Checker::check_fault_place(std::size_t i) {
  const ScenarioFault& fault = s_.faults[i];
  const auto add_problem = [&](std::string_view key, std::string text) {
    add(Section::fault, i, key, std::move(text));
  };
  if (fault.link.empty()) {
    if (!is_host_action(fault.rule.action))
      add_problem("link", fmt::format("link is missing: {} happens to frames of a link", to_string(fault.rule.action)));
    else if (fault.rule.match != Match{} || fault.rule.mask || fault.rule.chance != Ratio{1, 1})
      add_problem(
          "match",
          "without a link no frame can match: add link = \"...\", or leave match, nth, times, chance and mask out");
    else if (!fault.toward.empty())
      add_problem("to", "to is an end of a link: add link = \"...\"");
    return;
  }
  const auto found = links_.find(fault.link);
  if (found == links_.end()) {
    if (unchecked_.links || unchecked_.hosts || repeats(Section::fault, i, "link")) return;
    std::vector<std::string_view> names;
    for (const auto& [name, index] : links_) names.push_back(name);
    const std::string_view meant = nearest(fault.link, names);
    return add_problem("link", fmt::format("link: no link is called '{}'; {}", fault.link.substr(0, 130),
                                           meant.empty() ? fmt::format("there are {}", fmt::join(names, ", "))
                                                         : fmt::format("did you mean '{}'?", meant)));
  }
  const ScenarioLink& link = s_.links[found->second];
  if (!fault.toward.empty() && fault.toward != link.ends[0] && fault.toward != link.ends[1])
    add_problem("to", fmt::format("to: '{}' is not an end of {}: write \"{}\" or \"{}\"", fault.toward, fault.link,
                                  link.ends[0], link.ends[1]));
}

void Checker::check_fault(std::size_t i) {
  const ScenarioFault& fault = s_.faults[i];
  check_fault_place(i);
  if (is_host_action(fault.rule.action))
    expect_host(Section::fault, i, "host", fault.host);
  else if (!fault.host.empty())
    add(Section::fault, i, "host",
        fmt::format("host: {} happens to frames, not to a host: leave it out", to_string(fault.rule.action)));
  const MessageKind message = fault.rule.match.message;
  if (s_.neighbours == Neighbours::known && (message.layer == Layer::arp || message.layer == Layer::nd))
    add(Section::fault, i, "match",
        fmt::format(
            "match: with neighbours = \"known\" no host sends {}: write neighbours = \"discovered\" at the top of "
            "the file, or another match",
            to_string(message)));
  const auto keys = fault_keys();
  for (const std::string& text : rule_problems(fault.rule)) {
    // The sentence begins with the key if one key is wrong.
    std::string key(text.substr(0, std::min(text.find_first_of(" ,"), text.size())));
    if (std::none_of(keys.begin(), keys.end(), [&](const Key<ScenarioFault>& k) { return k.key == key; }))
      key = "action";
    add(Section::fault, i, key, text);
  }
}

}  // namespace parley::sim
