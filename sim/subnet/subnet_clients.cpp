// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include <charconv>

#include <fmt/format.h>

#include "base/escape.hpp"
#include "sim/subnet/subnet.hpp"

namespace parley::sim::subnet {

namespace {

namespace capability = wire::mad::port_capability;

/// The default port of a client at the node: 0 for a switch, else the first one with a link.
std::uint32_t usual_port(const State& state, std::uint32_t node) {
  const Node& at = state.nodes()[node];
  if (at.is_switch()) return at.first_port;
  for (std::uint32_t port = at.first_port; port < at.ports_end(); ++port)
    if (state.port(port).peer != nowhere) return port;
  return at.first_port;
}

Said<std::uint32_t> place_of(const State& state, std::string_view name) {
  if (name.empty()) {
    for (std::uint32_t i = 0; i < state.nodes().size(); ++i)
      if (!state.nodes()[i].is_switch()) return usual_port(state, i);
    return usual_port(state, 0);
  }
  if (const auto node = state.find_node(name)) return usual_port(state, *node);
  const std::size_t slash = name.rfind('/');
  std::uint32_t number = 0;
  if (slash != name.npos &&
      std::from_chars(name.data() + slash + 1, name.data() + name.size(), number).ec == std::errc())
    if (const auto node = state.find_node(name.substr(0, slash)))
      if (const std::uint32_t port = state.port_of(*node, number); port != nowhere) return port;
  return tl::unexpected(fmt::format("there is no node '{}'", printable(name, false)));
}

}  // namespace

Said<ClientId> Subnet::attach(Instant now, const ClientOptions& options) {
  const auto place = place_of(state_, options.node);
  if (!place) return tl::unexpected(place.error());
  const std::uint32_t end = state_.end_port(*place);
  if (options.is_sm)
    for (const Client& client : clients_)
      if (client.attached && client.is_sm && state_.end_port(client.port) == end)
        return tl::unexpected<std::string>("that port already has a subnet manager");
  std::size_t id = 0;
  while (id < clients_.size() && clients_[id].attached) ++id;
  if (id >= clients_max) return tl::unexpected(fmt::format("all {} places for clients are taken", clients_max));
  if (id == clients_.size()) clients_.emplace_back();
  clients_[id] = {
      .attached = true, .own_timers = options.own_timers, .port = *place, .qp = options.qp, .number = ++clients_seen_};
  if (options.is_sm) set_is_sm(now, static_cast<ClientId>(id), true);
  return static_cast<ClientId>(id);
}

void Subnet::detach(Instant now, ClientId client) {
  if (!is_attached(client)) return;
  set_is_sm(now, client, false);
  clients_[client].attached = false;
  std::erase_if(delayed_, [client](const auto& entry) { return entry.second.to == client; });
  std::erase_if(open_, [client](const auto& entry) { return entry.second.from == client; });
  close(now, client);
}

/// Requests that it can no longer answer go back to requesters that would wait for ever.
void Subnet::close(Instant now, ClientId receiver) {
  const auto first = open_.lower_bound({receiver, 0});
  auto last = first;
  for (; last != open_.end() && last->first.first == receiver; ++last) {
    Packet& asked = last->second.asked;
    asked.status = status_undeliverable;
    ++statistics_.undeliverable;
    deliver(now, last->second.from, asked, {});
  }
  open_.erase(first, last);
}

void Subnet::set_is_sm(Instant now, ClientId client, bool is_sm) {
  if (!is_attached(client) || clients_[client].is_sm == is_sm) return;
  clients_[client].is_sm = is_sm;
  show_is_sm(now, state_.end_port(clients_[client].port));
}

void Subnet::set_receives(ClientId client, std::uint8_t mgmt_class) {
  if (is_attached(client)) clients_[client].receives.set(mgmt_class);
}

void Subnet::set_own_timers(ClientId client, bool own) {
  if (is_attached(client)) clients_[client].own_timers = own;
}

void Subnet::show_is_sm(Instant now, std::uint32_t port) {
  const bool is_sm = std::any_of(clients_.begin(), clients_.end(), [&](const Client& client) {
    return client.attached && client.is_sm && state_.end_port(client.port) == port;
  });
  PortInfo& info = state_.port(port).info;
  const std::uint32_t before = info.get(PortInfo::capability_mask);
  const std::uint32_t after = is_sm ? before | capability::is_sm : before & ~capability::is_sm;
  if (before == after) return;
  info.set(PortInfo::capability_mask, after);
  send_trap_144(now, port);
}

}  // namespace parley::sim::subnet
