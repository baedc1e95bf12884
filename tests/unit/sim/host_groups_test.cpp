// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Multicast groups of simulated hosts behind switches, which flood what goes to groups.
#include "base/gid.hpp"
#include "host_kit.hpp"
#include "parley/roce.hpp"

namespace parley::sim::testing_hosts {
namespace {

constexpr std::uint32_t q_key = 0x11111111, group_qpn = 0xFFFFFF;

/// A host with a UD queue pair that listens on its own address.
struct GroupHost final : App {
  void on_start(Host& host) override { EXPECT_TRUE(host.cm().listen(with_port(host.address(family, 0), 7471))); }
  void on_crash(Host&) override { ah.reset(), qp.reset(), verbs.reset(); }
  void on_turn(Host& host) override {
    while (host.cm().poll_event()) {
    }
  }
  void on_timer(Host&, std::uint64_t) override {}
  void open() {
    verbs = std::make_unique<Verbs>(host->device());
    QpInit init = verbs->qp();
    init.type = QpType::ud;
    qp = std::move(*host->device().create_qp(init));
    EXPECT_TRUE(qp->modify({.state = QpState::init, .pkey_index = 0, .port_num = 1, .qkey = q_key}));
    EXPECT_TRUE(qp->modify({.state = QpState::rtr}));
    EXPECT_TRUE(qp->modify({.state = QpState::rts, .sq_psn = 0}));
    for (std::uint64_t i = 0; i < 8; ++i) EXPECT_TRUE(verbs->recv(*qp, i * 256, 256, i));
  }
  Result<void> join() { return roce::queue_pair(qp.get())->attach_multicast(gid_of(group)); }
  void leave() { EXPECT_TRUE(roce::queue_pair(qp.get())->detach_multicast(gid_of(group))); }
  void send() {
    if (!ah)
      ah = std::move(*host->device().create_ah(verbs->pd, {.grh = GlobalRoute{.dgid = gid_of(group), .hop_limit = 1}}));
    const Sge sge = verbs->at(4096, 64);
    EXPECT_TRUE(qp->post_send({.opcode = SendWr::Opcode::send,
                               .sges = {&sge, 1},
                               .ah = ah.get(),
                               .remote_qp_num = group_qpn,
                               .remote_qkey = q_key}));
    (void)host->device();  // it looks after what was posted
  }
  std::size_t received() { return verbs->count(WcOpcode::recv); }

  Host* host = nullptr;
  Address::Family family = Address::Family::v4;
  Address group{};
  std::unique_ptr<Verbs> verbs;
  std::unique_ptr<AddressHandle> ah;
  std::unique_ptr<QueuePair> qp;
};

/// Four hosts at two switches, two each.
struct Club {
  explicit Club(Address::Family family = Address::Family::v4) : world(7) {
    const NodeId switches[] = {*world.add_switch("s1"), *world.add_switch("s2")};
    HostOptions options;
    options.engine = NicEngine::roce;
    for (std::size_t i = 0; i < 4; ++i) {
      stations[i].host = *world.add_host(std::string(1, static_cast<char>('a' + i)), options);
      stations[i].family = family;
      stations[i].group =
          family == Address::Family::v4 ? Address::v4(239, 129, 2, 3, 0) : *Address::parse("ff0e::7174");
      stations[i].host->set_app(&stations[i]);
      links[i] = *world.add_link(stations[i].host->id(), switches[i / 2]);
    }
    EXPECT_TRUE(world.add_link(switches[0], switches[1]));
    world.run_for(1ms);
    for (GroupHost& s : stations) s.open();
  }
  std::array<std::size_t, 4> received() {
    world.run_for(1ms);
    return {stations[0].received(), stations[1].received(), stations[2].received(), stations[3].received()};
  }
  World world;
  std::array<GroupHost, 4> stations;
  std::array<LinkId, 4> links{};
};
using Counts = std::array<std::size_t, 4>;

class SimGroups : public testing::TestWithParam<Address::Family> {};
INSTANTIATE_TEST_SUITE_P(Ip, SimGroups, testing::Values(Address::Family::v4, Address::Family::v6),
                         [](const auto& test) { return test.param == Address::Family::v4 ? "V4" : "V6"; });

TEST_P(SimGroups, ADatagramReachesEachMemberOnceAndNobodyElse) {
  Club club(GetParam());
  auto& [a, b, c, d] = club.stations;
  for (GroupHost* member : {&b, &c}) ASSERT_TRUE(member->join());
  a.send();
  EXPECT_EQ(club.received(), (Counts{0, 1, 1, 0}));
  ASSERT_TRUE(a.join());
  a.send();
  EXPECT_EQ(club.received(), (Counts{1, 2, 2, 0})) << "the sender's host is a member now";
  b.leave();
  c.qp.reset();
  ASSERT_TRUE(d.join());
  a.send();
  EXPECT_EQ(club.received(), (Counts{2, 2, 2, 1}));
}

TEST_P(SimGroups, AFrameThatIsLostOnOneBranchIsMissingThereAlone) {
  Club club(GetParam());
  auto& [a, b, c, d] = club.stations;
  for (GroupHost* member : {&b, &c, &d}) ASSERT_TRUE(member->join());
  ASSERT_TRUE(club.world.add_fault(club.links[2], LinkDirection::backward, FaultRule{}));
  a.send();
  EXPECT_EQ(club.received(), (Counts{0, 1, 0, 1}));
}

TEST(SimGroupsOfHosts, WhatCannotBeJoinedIsRefused) {
  Club club;
  GroupHost& a = club.stations[0];
  a.group = *Address::parse("ff0e::7174");
  EXPECT_EQ(a.join().error().sentence(),
            "this host has no IPv6 address in use, on whose interface to join the group: listen or connect first");
  World world(7);
  GroupHost alone;
  alone.host = *world.add_host("a", {.engine = NicEngine::roce, .ipv6 = false});
  alone.open();
  alone.group = a.group;
  EXPECT_EQ(alone.join().error().sentence(), "this host has no IPv6 (HostOptions::ipv6)");
}

// A host that comes back from a crash is in no group.
TEST(SimGroupsOfHosts, ACrashLeavesGroups) {
  Club club;
  auto& [a, b, c, d] = club.stations;
  ASSERT_TRUE(b.join());
  b.host->crash();
  b.host->restart();
  club.world.run_for(1ms);
  b.open();
  a.send();
  EXPECT_EQ(club.received(), (Counts{0, 0, 0, 0}));
  ASSERT_TRUE(b.join());
  a.send();
  EXPECT_EQ(club.received(), (Counts{0, 1, 0, 0}));
}

TEST(SimGroupsOfHosts, AMemberMayOutliveItsWorld) {
  GroupHost member;
  member.group = Address::v4(239, 129, 2, 3, 0);
  {
    World world(7);
    member.host = *world.add_host("a", {.engine = NicEngine::roce});
    member.host->set_app(&member);
    Host& other = **world.add_host("b", {.engine = NicEngine::roce});
    ASSERT_TRUE(world.add_link(member.host->id(), other.id()));
    world.run_for(1ms);
    member.open();
    ASSERT_TRUE(member.join());
  }
  member.leave();
}

}  // namespace
}  // namespace parley::sim::testing_hosts
