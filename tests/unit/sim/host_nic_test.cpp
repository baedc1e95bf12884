// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// A host is an IP stack with a list of NICs: what a user of one with several sees.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

#include "parley/sim.hpp"
#include "sim/record/record.hpp"
#include "wire/packet.hpp"

namespace parley::sim::test {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

/// Connects to `to`, and to `backups`, each time it is asked.
struct Initiator final : App {
  Address to;
  cm::ConnectOptions options;
  std::vector<Instant> when;
  std::vector<std::string> told;
  void on_start(Host& host) override {
    for (const Instant at : when) host.set_timer(at, 0);
  }
  void on_timer(Host& host, std::uint64_t) override {
    if (!host.cm().connect(to, options)) told.emplace_back("refused");
  }
  void on_turn(Host& host) override {
    while (auto event = host.cm().poll_event()) {
      if (const auto* up = std::get_if<cm::Established>(&*event))
        told.push_back("established " + up->id.local_address()->to_string().substr(0, 8) + " > " +
                       up->id.peer_address()->to_string());
      if (const auto* again = std::get_if<cm::Retrying>(&*event)) told.push_back("retrying " + again->peer.to_string());
      if (const auto* no = std::get_if<cm::ConnectFailed>(&*event)) told.push_back("failed " + no->why.code.message());
    }
  }
  void on_crash(Host&) override {}
};

struct Responder final : App {
  void on_start(Host& host) override { (void)host.cm().listen(Address::any(Address::Family::v4, 7471)); }
  void on_turn(Host& host) override {
    while (auto event = host.cm().poll_event())
      if (auto* request = std::get_if<cm::ConnectRequest>(&*event)) (void)request->id.accept();
  }
  void on_timer(Host&, std::uint64_t) override {}
  void on_crash(Host&) override {}
};

/// a and b, each with the NICs n1 and n2, over the switches s1 and s2.
struct TwoNetworks {
  Initiator initiator;
  Responder responder;
  World world{1};
  Host *a = nullptr, *b = nullptr;
  LinkId first_of_b = 0;

  explicit TwoNetworks(const NicOptions& second_of_b = {.name = "n2"}) {
    a = *world.add_host("a", {.nics = {{.name = "n1"}, {.name = "n2"}}});
    b = *world.add_host("b", {.nics = {{.name = "n1", .mtu = 1000}, second_of_b}});
    const NodeId s1 = *world.add_switch("s1"), s2 = *world.add_switch("s2");
    // Not in the order of the NICs: the name counts.
    EXPECT_TRUE(world.add_link({a->id(), "n2"}, s2));
    EXPECT_TRUE(world.add_link({a->id(), "n1"}, s1));
    first_of_b = *world.add_link({b->id(), "n1"}, s1);
    EXPECT_TRUE(world.add_link({b->id(), "n2"}, s2));
    a->set_app(&initiator);
    b->set_app(&responder);
    initiator.to = of_b(0);
  }
  Address of_b(std::uint16_t nic) const {
    Address out = b->address(Address::Family::v4, nic);
    out.port = 7471;
    return out;
  }
};

TEST(SimHostNic, ConnectsOverTheFirstAndFailsOverToTheOtherAddressOfThePeer) {
  TwoNetworks net;
  const std::string first = net.of_b(0).to_string(), second = net.of_b(1).to_string();
  ASSERT_NE(first.substr(0, 5), second.substr(0, 5)) << "two networks";
  net.initiator.options.backups = {net.of_b(1)};
  net.initiator.options.transport_timeout = 2s;
  net.initiator.when = {Instant(1ms), Instant(2s)};
  FaultRule down;  // the line of b's first NIC
  down.from = Instant(1s);
  ASSERT_TRUE(net.world.add_fault(net.first_of_b, LinkDirection::both, down));
  net.world.run_for(10s);
  const std::string a1 = net.a->address(Address::Family::v4, 0).to_string().substr(0, 8);
  const std::string a2 = net.a->address(Address::Family::v4, 1).to_string().substr(0, 8);
  EXPECT_THAT(net.initiator.told, ::testing::ElementsAre("established " + a1 + " > " + first, "retrying " + second,
                                                         "established " + a2 + " > " + second));
}

TEST(SimHostNic, PlainEthernetCarriesNoConnection) {
  TwoNetworks net({.name = "n2", .engine = NicEngine::none});
  net.initiator.to = net.of_b(1);
  net.initiator.when = {Instant(1ms)};
  net.world.run_for(10s);
  EXPECT_THAT(net.initiator.told, ::testing::ElementsAre(HasSubstr("there is no listener")));
}

TEST(SimHostNic, OneWithoutALinkIsNotInTheWay) {
  World world{1};
  Initiator initiator;
  Responder responder;
  Host* a = *world.add_host("a", {.nics = {{.name = "n1"}, {.name = "n2"}}});
  Host* b = *world.add_host("b", {});
  ASSERT_TRUE(world.add_link({a->id(), "n2"}, b->id()));
  a->set_app(&initiator);
  b->set_app(&responder);
  initiator.to = b->address();
  initiator.to.port = 7471;
  initiator.when = {Instant(1ms)};
  world.run_for(1s);
  EXPECT_THAT(initiator.told, ::testing::ElementsAre(HasSubstr("established")));
  const RecordTopology topology = topology_of(world);
  EXPECT_EQ(topology.nodes[a->id()].addresses.front(), a->address(Address::Family::v4, 1)) << "only NICs that can send";
}

struct Mss final : Tap {
  std::vector<std::uint16_t> offered;
  void on_frame(const TapFrame& frame) override {
    const auto view = wire::parse_packet(1, frame.octets, static_cast<std::uint32_t>(frame.octets.size()));
    if (frame.outbound && view.kind == wire::PacketKind::tcp && view.tcp.syn()) offered.push_back(view.tcp.mss);
  }
  void on_note(Instant, NodeId, NoteKind, std::string_view) override {}
};

TEST(SimHostNic, TheLowerMtuOfNicAndLinkHolds) {
  TwoNetworks net;
  Mss mss;
  net.world.set_tap(&mss);
  net.initiator.when = {Instant(1ms)};
  net.world.run_for(1s);
  // SYN and SYN-ACK, each sent by a host and by the switch: 1500 and 1000 less 40.
  EXPECT_THAT(mss.offered, ::testing::ElementsAre(1460, 1460, 960, 960));
}

TEST(SimHostNic, IsCalledByItsNameInCaptures) {
  const TwoNetworks net;
  EXPECT_EQ(net.world.link_end(0, 0).name, "a/n2");
  EXPECT_EQ(net.world.link_end(0, 1).name, "s2/p1");
  EXPECT_EQ(net.a->nic_count(), 2U);
  EXPECT_EQ(net.a->nic_name(1), "n2");
}

TEST(SimHostNic, WithoutAListEachLinkMakesOne) {
  World world(1);
  Host& a = **world.add_host("a");
  Host& b = **world.add_host("b");
  EXPECT_EQ(a.nic_count(), 0U);
  ASSERT_TRUE(world.add_link(a.id(), b.id()));
  ASSERT_TRUE(world.add_link(a.id(), b.id()));
  EXPECT_EQ(a.nic_count(), 2U);
  EXPECT_EQ(world.link_end(1, 0).name, "a/p2");
}

TEST(SimHostNic, WhatCannotBeIsRefusedWithASentence) {
  World world(1);
  const auto refusal = [&](const HostOptions& options) { return world.add_host("x", options).error(); };
  EXPECT_THAT(refusal({.nics = {{.name = "a/b"}}}), HasSubstr("NIC x/a/b: a name has 1 to 64"));
  EXPECT_THAT(refusal({.nics = {{.name = "n"}, {.name = "n"}}}), HasSubstr("another NIC of the host has this name"));
  EXPECT_THAT(refusal({.nics = {{.name = "n", .mtu = 100}}}), HasSubstr("an MTU of 100 is not in 576..9000"));
  EXPECT_THAT(refusal({.nics = std::vector<NicOptions>(201, NicOptions{.name = "n"})}), HasSubstr("at most 200"));
  Host& a = **world.add_host("a", {.nics = {{.name = "n1"}}});
  Host& b = **world.add_host("b");
  const NodeId s = *world.add_switch("s");
  EXPECT_THAT(world.add_link({a.id(), "n2"}, b.id()).error(), HasSubstr("host a has no NIC 'n2'"));
  EXPECT_THAT(world.add_link(b.id(), {s, "n1"}).error(), HasSubstr("switch s has no NIC 'n1'"));
  ASSERT_TRUE(world.add_link({a.id(), "n1"}, b.id()));
  EXPECT_THAT(world.add_link({a.id(), "n1"}, b.id()).error(), HasSubstr("NIC a/n1 has a link already"));
  EXPECT_THAT(world.add_link(a.id(), b.id()).error(), HasSubstr("each NIC of host a has a link"));
}

}  // namespace
}  // namespace parley::sim::test
