// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The checks of XRC: a node's listener, its initiators, and the processes that end.
#include <set>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "sim/scenario/scenario_checker.hpp"
#include "sim/scenario/scenario_value.hpp"

namespace parley::sim {

const ScenarioListen* Checker::xrc_listener(std::string_view host, std::uint16_t port) const {
  for (const ScenarioListen& listen : s_.listens)
    if (listen.host == host && listen.port == port && listen.qp == QpKind::xrc) return &listen;
  return nullptr;
}

void Checker::check_xrc_listen(std::size_t i) {
  const ScenarioListen& listen = s_.listens[i];
  const auto leave_out = [&](bool given, std::string_view key) {
    if (given)
      add(Section::listen, i, key,
          fmt::format(
              "{}: the service of an XRC node answers each at once, and has nothing to say besides: leave it out",
              key));
  };
  leave_out(listen.accept_after != Duration{}, "accept_after");
  leave_out(listen.reject_every != 0, "reject");
  leave_out(!listen.private_data.empty(), "private_data");
  if (listen.processes == 0 || listen.processes > 16) add(Section::listen, i, "processes", "processes: write 1..16");
}

void Checker::check_xrc_connect(std::size_t i) {
  const ScenarioConnect& connect = s_.connects[i];
  const auto add_problem = [&](std::string_view key, std::string text) {
    add(Section::connect, i, key, std::move(text));
  };
  if (connect.transfer != Transfer::send)
    add_problem("transfer", "transfer: to shared receive queues go Sends alone: write \"send\", or qp = \"rc\"");
  if (connect.octets < ScenarioConnect::xrc_octets_min || connect.octets > ScenarioConnect::xrc_octets_max)
    add_problem("octets", fmt::format("octets: over XRC write {}..{}", ScenarioConnect::xrc_octets_min,
                                      ScenarioConnect::xrc_octets_max));
  if (connect.closer != ClosingSide::initiator)
    add_problem("close", "close: not allowed with XRC: only the initiator disconnects. Remove it");
  if (connect.expect == Expect::rejected)
    add_problem("expect",
                "expect: the service of an XRC node never rejects: write \"failed\" where no process has the "
                "queue");
  const ScenarioListen* listen = xrc_listener(connect.to, connect.port);
  if (listen != nullptr && connect.srq > listen->processes)
    add_problem("srq",
                fmt::format("srq: '{}' has processes = {} at port {}", connect.to, listen->processes, connect.port));
}

void Checker::check_exits() {
  std::set<std::tuple<std::string, std::uint16_t, std::uint32_t>> gone;
  for (std::size_t i = 0; i < s_.exits.size(); ++i) {
    const ScenarioExit& exit = s_.exits[i];
    const auto add_problem = [&](std::string_view key, std::string text) {
      add(Section::exit, i, key, std::move(text));
    };
    if (exit.at < Instant{} || exit.at == never || exit.at >= Instant(s_.bounds.time))
      add_problem("at", fmt::format("at: write a time from 0s on, below [bounds] time, which is {}",
                                    time_text(s_.bounds.time)));
    const ScenarioHost* host = expect_host(Section::exit, i, "host", exit.host);
    if (host == nullptr || unchecked_.listens) continue;
    const ScenarioListen* listen = xrc_listener(exit.host, exit.port);
    if (listen == nullptr)
      add_problem("port",
                  fmt::format("port: there is no listener on port {} of '{}' with qp = \"xrc\"", exit.port, exit.host));
    else if (exit.process == 0 || exit.process > listen->processes)
      add_problem("process",
                  fmt::format("process: '{}' has processes = {} at port {}", exit.host, listen->processes, exit.port));
    else if (!gone.emplace(exit.host, exit.port, exit.process).second)
      add_problem("process", fmt::format("process: number {} ends in another [[exit]] already", exit.process));
  }
}

}  // namespace parley::sim
