// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Neighbours::known: no host announces itself or asks for the address of another, and no switch floods. An address that
// no host has is asked for as before.
#include <gmock/gmock.h>

#include "host_kit.hpp"
#include "sim/host/directory.hpp"

namespace parley::sim::known_neighbours_test {
namespace {

using namespace testing_hosts;

/// Counts frames at all link ends.
struct Counts : Tap {
  void on_frame(const TapFrame& frame) override {
    const auto packet = wire::parse_packet(1, frame.octets, static_cast<std::uint32_t>(frame.octets.size()));
    if (!frame.outbound) return;
    ++frames;
    if (packet.kind != wire::PacketKind::tcp) ++questions;
  }
  void on_note(Instant, NodeId, NoteKind, std::string_view) override {}
  std::size_t frames = 0, questions = 0;
};

/// Two switches in a row, with two hosts each.
struct Row {
  explicit Row(Neighbours neighbours) : world(6) {
    const NodeId left = *world.add_switch("left"), right = *world.add_switch("right");
    EXPECT_TRUE(world.add_link(left, right));
    for (std::size_t i = 0; i < stations.size(); ++i) {
      Host& host = **world.add_host("h" + std::to_string(i));
      host.set_machine(&stations[i]);
      stations[i].listen(Address::any(Address::Family::v4, 7471));
      stations[i].listen(Address::any(Address::Family::v6, 7471));
      EXPECT_TRUE(world.add_link(host.id(), i < 2 ? left : right));
    }
    EXPECT_TRUE(world.set_neighbours(neighbours));
    world.set_tap(&tap);
  }
  void open(std::size_t from, const Address& to) {
    stations[from].open(to);
    world.host(from).set_timer(world.now(), 0);
  }
  Counts tap;
  std::array<PlainTcp, 4> stations;
  World world;
};

TEST(SimKnownNeighbours, HostsConnectOverSwitchesAndNothingIsAskedAnnouncedOrFlooded) {
  for (const Address::Family family : {Address::Family::v4, Address::Family::v6}) {
    Row row(Neighbours::known);
    row.open(0, with_port(row.world.host(3).address(family), 7471));
    ASSERT_TRUE(
        row.world.run_until([&] { return row.stations[0].connected == 1 && row.stations[3].accepted == 1; }, 1s));
    EXPECT_EQ(row.tap.questions, 0U);
    EXPECT_EQ(row.tap.frames, 9U) << "SYN, SYN-ACK and ACK over three links each";
  }
}

TEST(SimKnownNeighbours, LinkLocalAddressesAreKnownToo) {
  Row row(Neighbours::known);
  Address to = row.world.host(1).link_local();
  to.scope_id = 1;
  row.open(0, with_port(to, 7471));
  ASSERT_TRUE(row.world.run_until([&] { return row.stations[0].connected == 1; }, 1s));
  EXPECT_EQ(row.tap.questions, 0U);
}

TEST(SimKnownNeighbours, ARestartAnnouncesNothing) {
  Row row(Neighbours::known);
  row.world.run_for(1s);
  row.world.host(3).restart();
  row.world.run_for(1s);
  EXPECT_EQ(row.tap.frames, 0U);
}

TEST(SimKnownNeighbours, AnAddressThatNoHostHasIsAskedForAndNotFound) {
  Row row(Neighbours::known);
  Address to = with_port(row.world.host(3).address(), 7471);
  to.octets[2] = 9;
  row.open(0, to);
  ASSERT_TRUE(row.world.run_until([&] { return !row.stations[0].failures.empty(); }, 10s));
  EXPECT_EQ(row.stations[0].failures[0], std::make_error_code(std::errc::host_unreachable));
  EXPECT_GT(row.tap.questions, 0U);
}

TEST(SimKnownNeighbours, AWorldThatRunsIsNotChanged) {
  Row row(Neighbours::discovered);
  row.world.run_for(1ms);
  const auto set = row.world.set_neighbours(Neighbours::known);
  ASSERT_FALSE(set);
  EXPECT_EQ(set.error(), "neighbours: the world runs already");
}

// Both families are kept in 16 octets, IPv4 in the first four.
TEST(SimKnownNeighbours, AnIpv6AddressWithTheOctetsOfAnIpv4AddressIsAnother) {
  NeighbourDirectory directory;
  Address v4 = Address::any(Address::Family::v4, 0);
  v4.octets[0] = 10;
  Address v6 = v4;
  v6.family = Address::Family::v6;
  const wire::Mac one{2, 0, 0, 0, 0, 1}, two{2, 0, 0, 0, 0, 2};
  directory.add(v4, one);
  EXPECT_EQ(directory.find(v6), std::nullopt);
  directory.add(v6, two);
  EXPECT_EQ(directory.find(v4), one);
  EXPECT_EQ(directory.find(v6), two);
}

// The same connection, discovered: what the tests above would see if it were not known.
TEST(SimKnownNeighbours, DiscoveryIsTheDefaultOfAWorld) {
  Row row(Neighbours::discovered);
  row.open(0, with_port(row.world.host(3).address(), 7471));
  ASSERT_TRUE(row.world.run_until([&] { return row.stations[0].connected == 1; }, 1s));
  EXPECT_GT(row.tap.questions, 20U);
}

}  // namespace
}  // namespace parley::sim::known_neighbours_test
