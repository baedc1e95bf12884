// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Hosts in worlds: several ports, many hosts, many connections; and the table of connections by itself.
#include <set>

#include "host_kit.hpp"
#include "sim/host/stack.hpp"

namespace parley::sim::testing_hosts {
namespace {

/// A host of a world with a plain TCP program that listens on 7471.
struct Station {
  Host* host = nullptr;
  PlainTcp program;
  void open(World& world, const Address& to) {
    program.open(to);
    host->set_timer(world.now(), 0);
  }
};
void place(World& world, Station& station, std::string_view name, const HostOptions& options = {}) {
  station.host = world.add_host(name, options).value();
  station.host->set_machine(&station.program);
  station.program.listen(Address::any(Address::Family::v4, 7471));
  station.program.listen(Address::any(Address::Family::v6, 7471));
}

TEST(SimHostWorld, AHostWithTwoPortsReachesEachNeighbourByItsOwnNetwork) {
  World world(3);
  Station a, b, c;
  place(world, a, "a"), place(world, b, "b"), place(world, c, "c");
  ASSERT_TRUE(world.add_link(a.host->id(), b.host->id()));
  ASSERT_TRUE(world.add_link(b.host->id(), c.host->id()));
  // b's second port lies in the same network as c's only one.
  const Address c4 = c.host->address(), c6 = c.host->address(Address::Family::v6);
  EXPECT_EQ(b.host->address(Address::Family::v4, 1).octets[1], c4.octets[1]);
  EXPECT_NE(b.host->address(Address::Family::v4, 0).octets[1], c4.octets[1]);
  Address near_c = c.host->link_local(0);
  near_c.scope_id = 2;  // as b sees it
  for (const Address& to : {a.host->address(), c4, c6, near_c}) b.open(world, with_port(to, 7471));
  ASSERT_TRUE(world.run_until([&] { return b.program.connected == 4 && c.program.accepted == 3; }, 5s));
  EXPECT_EQ(a.program.accepted, 1);
  EXPECT_EQ(c.program.accepted, 3);
  for (const PlainTcp::Stream& s : b.program.streams)
    EXPECT_EQ(s.info.local.scope_id, s.info.peer.is_link_local() ? 2U : 0U);
  a.open(world, with_port(c4, 7471));
  ASSERT_TRUE(world.run_until([&] { return !a.program.failures.empty(); }, 5s));
  EXPECT_EQ(a.program.failures[0], std::make_error_code(std::errc::network_unreachable)) << "b does not route";
}

TEST(SimHostWorld, AThousandHostsOfOneNetworkReachEachOther) {
  World world(4);
  const NodeId hub = *world.add_switch("hub");
  std::vector<std::unique_ptr<Station>> stations;
  HostOptions options;
  options.ipv6 = false;
  for (int i = 0; i < 1000; ++i) {
    stations.push_back(std::make_unique<Station>());
    place(world, *stations.back(), "h" + std::to_string(i), options);
    ASSERT_TRUE(world.add_link(stations.back()->host->id(), hub, {.queue_octets = 16 << 20}));
  }
  for (std::size_t i = 0; i < 1000; i += 100)
    stations[i]->open(world, with_port(stations[(i + 501) % 1000]->host->address(), 7471));
  ASSERT_TRUE(world.run_until(
      [&] {
        for (std::size_t i = 0; i < 1000; i += 100)
          if (stations[i]->program.connected != 1) return false;
        return true;
      },
      5s));
  EXPECT_LT(world.now(), Instant(1s)) << "without a retransmission";
}

TEST(SimHostWorld, WhatIsOnTheWireIsTheSameForTheSameSeed) {
  struct Hash : Tap {
    void on_frame(const TapFrame& frame) override {
      for (const std::uint8_t octet : frame.octets) hash = (hash ^ octet) * 1099511628211ULL;
      hash = (hash ^ static_cast<std::uint64_t>(frame.at.time_since_epoch().count())) * 1099511628211ULL;
    }
    void on_note(Instant, NodeId, NoteKind, std::string_view) override {}
    std::uint64_t hash = 14695981039346656037ULL;
  };
  const auto run = [](std::uint64_t seed) {
    World world(seed);
    Hash tap;
    world.set_tap(&tap);
    Station a, b;
    place(world, a, "a"), place(world, b, "b");
    const LinkId link = *world.add_link(a.host->id(), b.host->id());
    EXPECT_TRUE(world.add_fault(link, LinkDirection::both, {.chance = {1, 20}}));
    a.open(world, with_port(b.host->address(), 7471));
    EXPECT_TRUE(world.run_until([&] { return a.program.connected == 1; }, 100s));
    a.program.say(a.program.streams[0].id, pattern(200'000));
    a.host->set_timer(world.now(), 0);
    world.run_for(200s);
    EXPECT_EQ(b.program.streams.at(0).in.size(), 200'000U);
    return tap.hash;
  };
  EXPECT_EQ(run(8), run(8));
  EXPECT_NE(run(8), run(9));
}

TEST(SimHostWorld, AnAppMayAskForItsOwnCrashWhichComesAfterIt) {
  World world(5);
  TestApp app;
  Host& host = **world.add_host("a");
  host.set_app(&app);
  app.timer = [](Host& its, std::uint64_t cookie) { cookie == 1 ? its.crash() : its.restart(); };
  host.set_timer(Instant(1s), 1);
  world.run_for(2s);
  EXPECT_FALSE(host.up());
  EXPECT_EQ(app.crashes, 1);
  host.restart();
  host.set_timer(Instant(3s), 2);
  world.run_for(2s);
  EXPECT_TRUE(host.up());
  EXPECT_EQ(host.incarnation(), 3U);
  EXPECT_EQ(app.starts, 3);
}

// ---- the table -----------------------------------------------------------------------------------------------------

ConnectionKey key_to(std::uint8_t host, std::uint16_t peer_port) {
  ConnectionKey key;
  key.peer = {10, 0, 0, host};
  key.peer_port = peer_port;
  return key;
}

TEST(SimStack, EveryDestinationHasAllEphemeralPortsAndEachOnce) {
  Rng rng(1);
  Stack stack(rng);
  std::set<std::uint16_t> first;
  for (int i = 0; i < 28'232; ++i) {
    ConnectionKey key = key_to(2, 7471);
    key.local_port = stack.pick_port(key);
    ASSERT_GE(key.local_port, 32768);
    ASSERT_LE(key.local_port, 60999);
    ASSERT_TRUE(first.insert(key.local_port).second);
    ASSERT_NE(stack.add(key), SlotIndex::none);
  }
  EXPECT_EQ(stack.pick_port(key_to(2, 7471)), 0) << "all are taken";
  EXPECT_NE(stack.pick_port(key_to(2, 7472)), 0) << "another port of the peer";
  EXPECT_NE(stack.pick_port(key_to(3, 7471)), 0) << "another peer";
  ConnectionKey freed = key_to(2, 7471);
  freed.local_port = 40000;
  stack.remove(stack.find(freed));
  EXPECT_EQ(stack.pick_port(key_to(2, 7471)), 40000);
}

TEST(SimStack, APortOnWhichWeListenIsNotPicked) {
  Rng rng(1);
  Rng equal = rng;
  Stack stack(rng), same(equal);
  const std::uint16_t would_be = same.pick_port(key_to(2, 7471));
  Address local = Address::any(Address::Family::v4, would_be);
  ASSERT_FALSE(stack.listen(1, local, 5));
  EXPECT_NE(stack.pick_port(key_to(2, 7471)), would_be);
}

TEST(SimStack, ListenersAreFoundByTheirAddressOrAny) {
  Rng rng(1);
  Stack stack(rng);
  Address any = Address::any(Address::Family::v4, 80), one = Address::v4(10, 0, 0, 1, 81),
          six = Address::any(Address::Family::v6, 80);
  EXPECT_FALSE(stack.listen(1, any, 5));
  EXPECT_FALSE(stack.listen(3, one, 5));
  EXPECT_FALSE(stack.listen(5, six, 5)) << "the families do not clash";
  Address again = Address::v4(10, 0, 0, 1, 80);
  EXPECT_EQ(stack.listen(7, again, 5), std::errc::address_in_use);
  EXPECT_EQ(stack.find_listener(Address::v4(10, 0, 0, 9, 80))->id, 1U);
  EXPECT_EQ(stack.find_listener(Address::v4(10, 0, 0, 1, 81))->id, 3U);
  EXPECT_EQ(stack.find_listener(Address::v4(10, 0, 0, 2, 81)), nullptr);
  EXPECT_TRUE(stack.unlisten(1));
  EXPECT_FALSE(stack.unlisten(1));
  EXPECT_EQ(stack.find_listener(Address::v4(10, 0, 0, 9, 80)), nullptr);
}

TEST(SimStack, SlotsAreUsedAgainAndOldNamesAreFoundOut) {
  Rng rng(1);
  Stack stack(rng);
  const std::uint32_t slot = stack.add(key_to(2, 1));
  const ConnectionRef old = stack.ref(slot);
  stack.name(slot, 77);
  EXPECT_EQ(stack.find_stream(77), slot);
  stack.remove(slot);
  EXPECT_EQ(stack.get(old), nullptr);
  EXPECT_EQ(stack.find_stream(77), SlotIndex::none);
  EXPECT_EQ(stack.find(key_to(2, 1)), SlotIndex::none);
  EXPECT_EQ(stack.add(key_to(2, 2)), slot);
  EXPECT_EQ(stack.get(old), nullptr);
}

}  // namespace
}  // namespace parley::sim::testing_hosts
