// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Simulated InfiniBand subnets for tests, and a client that asks one thing at a time.
#pragma once
#include <gtest/gtest.h>

#include "sim/subnet/subnet.hpp"

namespace parley::sim::subnet {

inline Plan fat_tree_16() { return *make_plan(FatTree{2, 8, 4, 4, 1}); }

/// A subnet and a client at H00000.
struct SubnetKit {
  explicit SubnetKit(Plan plan = fat_tree_16(), const SubnetOptions& options = {})
      : subnet(std::move(plan), options, Instant{}) {
    client = *subnet.attach(now, {.node = "H00000"});
  }

  std::vector<Delivery> drain() {
    std::vector<Delivery> out;
    for (Delivery delivery; subnet.poll_transmit(delivery);) out.push_back(delivery);
    return out;
  }
  Packet along(Bytes path, wire::mad::Datagram mad) {
    EXPECT_TRUE(wire::mad::set_route(mad, {.path = path}).has_value());
    return {.mad = mad};
  }
  /// What comes back at once; nothing, or more than one datagram, is a failure.
  Packet ask(const Packet& packet) {
    subnet.handle_send(now, client, packet);
    const auto got = drain();
    EXPECT_EQ(got.size(), 1U);
    return got.empty() ? Packet{} : got.front().packet;
  }
  template <wire::mad::Method M = wire::mad::Method::get, class A>
  Packet ask_directed(Bytes path, const A& body, std::uint32_t modifier = 0, std::uint64_t key = 0) {
    return ask(along(std::move(path), wire::mad::request<wire::mad::MgmtClass::subn_directed, M>(
                                          body, {.transaction_id = 7, .attribute_modifier = modifier, .key = key})));
  }
  void wait(Duration time) {
    now += time;
    subnet.handle_deadline(now);
  }
  std::uint32_t node(std::string_view name) { return *subnet.state().find_node(name); }
  std::uint32_t port(std::string_view name, std::uint32_t number) { return subnet.state().port_of(node(name), number); }

  Instant now{};
  Subnet subnet;
  ClientId client = 0;
};

inline std::uint64_t status_of(const Packet& packet) { return read_bits(packet.mad, 33, 15); }
template <class A>
A body_of(const Packet& packet) {
  return *A::parse(ConstBytes(packet.mad).subspan(64));
}

/// LIDs, tables and states as a subnet manager at H00000 would set them: each node has its number plus one as LID.
inline void bring_up(Subnet& subnet) {
  State& state = subnet.state();
  const std::size_t nodes = state.nodes().size();
  const auto sm_lid = static_cast<std::uint16_t>(*state.find_node("H00000") + 1);
  for (std::uint32_t i = 0; i < state.ports(); ++i) {
    Port& port = state.port(i);
    if (port.peer != nowhere) port.info.set(PortInfo::port_state, PortState::active);
    if (state.end_port(i) == i && (port.number == 0 || port.peer != nowhere))
      port.info.set(PortInfo::lid, static_cast<std::uint16_t>(port.node + 1)).set(PortInfo::master_sm_lid, sm_lid);
  }
  for (std::uint32_t target = 0; target < nodes; ++target) {
    std::vector<std::uint32_t> queue{target};
    std::vector<bool> seen(nodes);
    seen[target] = true;
    for (std::size_t next = 0; next < queue.size(); ++next) {
      const Node& at = state.nodes()[queue[next]];
      if (!at.is_switch() && queue[next] != target) continue;
      for (unsigned number = 1; number <= at.ports; ++number) {
        const std::uint32_t peer = state.port(state.port_of(queue[next], number)).peer;
        if (peer == nowhere || seen[state.port(peer).node]) continue;
        Node& before = state.nodes()[state.port(peer).node];
        seen[state.port(peer).node] = true;
        queue.push_back(state.port(peer).node);
        if (!before.is_switch()) continue;
        before.switch_info.set(SwitchInfo::linear_fdb_top, static_cast<std::uint16_t>(nodes + 1));
        before.linear_fdb.resize((nodes / 64 + 1) * 64, 0xFF);
        before.linear_fdb[target + 1] = state.port(peer).number;
      }
    }
  }
}

}  // namespace parley::sim::subnet
