// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Addresses of a host as the GIDs of its port: a link-local one has a place for each link, and packets go out by the place that they are
// sent from.
#include "nic/roce/addresses.hpp"

#include "roce_link.hpp"
#include "tests/unit/printing.hpp"

namespace parley::nic::roce::test::roce_addresses_test {
namespace {

Address at(std::string_view text, std::uint32_t scope = 0) {
  Address out = *Address::parse(text);
  out.scope_id = scope;
  return out;
}

struct Port {
  std::unique_ptr<RoceDevice> device = make_device({}).value();
  Addresses addresses{*device};

  /// A management datagram comes.
  void hear(const Address& local, const Address& peer) {
    Bytes mad(PARLEY_IB_MAD_LEN);
    wire::ib::Packet packet;
    packet.bth.opcode = wire::ib::opcode_of(wire::ib::Service::ud, Operation::send_only);
    packet.bth.dest_qpn = PARLEY_IB_GSI_QPN;
    packet.deth = {.q_key = PARLEY_IB_GSI_Q_KEY, .source_qpn = PARLEY_IB_GSI_QPN};
    packet.payload = mad;
    Bytes octets(packet.size());
    packet.emit(octets);
    addresses.handle_packet({}, {.local = local, .peer = peer}, octets);
  }
  /// The next datagram that came is answered; how the answer goes.
  PacketPath answer() {
    MadIn in;
    EXPECT_TRUE(device->poll_mad(in));
    EXPECT_TRUE(device->send_mad({.source = in.destination, .destination = in.source, .sgid_index = in.sgid_index}));
    return next();
  }
  PacketPath next() {
    std::array<std::uint8_t, packet_max> room;
    PacketPath out;
    EXPECT_NE(addresses.poll_packet({}, out, room), 0U);
    return out;
  }
};

TEST(NicRoceAddresses, ALinkLocalAddressHasAPlaceForEachLink) {
  Port p;
  EXPECT_EQ(p.addresses.add(at("fe80::a", 2)), 0);
  EXPECT_EQ(p.addresses.add(at("fe80::a", 3)), 1);
  EXPECT_EQ(p.addresses.add(at("fe80::a", 2)), 0);
  EXPECT_EQ(p.addresses.add(at("2001:db8::a")), 2);
  EXPECT_EQ(p.addresses.add(at("169.254.0.1"), at("169.254.0.2")), 3) << "IPv4 has no scopes";
  EXPECT_EQ(p.device->gid(1), gid_of(at("fe80::a")));
  EXPECT_EQ(p.addresses.find(at("fe80::a", 3), at("fe80::1", 3))->index, 1);
  EXPECT_EQ(p.addresses.find(at("fe80::a", 4), at("fe80::1", 4)), nullptr);
  EXPECT_EQ(p.addresses.find(at("2001:db8::a"), at("2001:db8::b"))->index, 2);
  EXPECT_EQ(p.addresses.at(1)->address, at("fe80::a", 3));
  EXPECT_EQ(p.addresses.at(4), nullptr);
}

TEST(NicRoceAddresses, ThePeersScopeCountsWhereThisSidesAddressHasNone) {
  Port p;
  EXPECT_EQ(p.addresses.add(at("2001:db8::a"), at("fe80::1", 2)), 0);
  EXPECT_EQ(p.addresses.add(at("2001:db8::a"), at("fe80::1", 3)), 1);
  EXPECT_EQ(p.addresses.add(at("2001:db8::a"), at("2001:db8::1")), 2);
  const auto [own, peer] = p.addresses.ends_at(1, gid_of(at("fe80::1")));
  EXPECT_EQ(own, at("2001:db8::a"));
  EXPECT_EQ(peer, at("fe80::1", 3));
  EXPECT_EQ(p.addresses.ends_at(2, gid_of(at("2001:db8::1"))).second, at("2001:db8::1"));
}

TEST(NicRoceAddresses, AnAnswerGoesBackByTheLinkThatItsRequestCameBy) {
  for (const char* own : {"fe80::a", "2001:db8::a"}) {
    const bool scoped = is_scoped(at(own));
    Port p;
    for (const std::uint32_t link : {3U, 2U}) p.hear(at(own, scoped ? link : 0), at("fe80::1", link));
    for (const std::uint32_t link : {3U, 2U}) {
      const PacketPath back = p.answer();
      EXPECT_EQ(back.local, at(own, scoped ? link : 0));
      EXPECT_EQ(back.peer, at("fe80::1", link));
    }
  }
}

TEST(NicRoceAddresses, AManagementDatagramLeavesFromTheFirstPlaceOfItsGidIfNoneIsNamed) {
  Port p;
  ASSERT_TRUE(p.addresses.add(at("fe80::b", 9)));
  ASSERT_TRUE(p.addresses.add(at("fe80::a", 3)));
  ASSERT_TRUE(p.addresses.add(at("fe80::a", 2)));
  MadOut out{.source = gid_of(at("fe80::a")), .destination = gid_of(at("fe80::1"))};
  ASSERT_TRUE(p.device->send_mad(out));
  EXPECT_EQ(p.next().peer, at("fe80::1", 3));
  out.sgid_index = 0;
  EXPECT_EQ(p.device->send_mad(out).error(), Errc::invalid_argument) << "another GID is there";
  out.sgid_index = 200;
  EXPECT_EQ(p.device->send_mad(out).error(), Errc::invalid_argument);
}

}  // namespace
}  // namespace parley::nic::roce::test::roce_addresses_test
