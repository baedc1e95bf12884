// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// UD with address handles, Q_Keys and multicast groups; UC, which loses whole messages; QP1.
#include <utility>

#include "roce_link.hpp"

namespace parley::nic::roce::test::roce_datagram_test {
namespace {

struct Ud : World {
  Buffer from{*a.device, a.pd, 8192};
  Buffer to{*b.device, b.pd, 8192};
  std::unique_ptr<AddressHandle> ah = handle(gid_v4(2), 1);

  Ud() {
    connect({.type = QpType::ud});
    from.fill(1);
  }
  std::unique_ptr<AddressHandle> handle(const Gid& gid, std::uint8_t hops = 64) {
    return a.device->create_ah(a.pd, {.grh = GlobalRoute{.dgid = gid, .hop_limit = hops, .traffic_class = 0x20}})
        .value();
  }
  Result<void> post(std::size_t length, std::uint32_t q_key = 0x11111111, bool imm = false) {
    const Sge sge = from.sge(0, length);
    return a.qp->post_send({.wr_id = 5,
                            .opcode = imm ? SendWr::Opcode::send_with_imm : SendWr::Opcode::send,
                            .sges = {&sge, 1},
                            .imm_data = imm ? 0xAABBCCDDU : 0,
                            .ah = ah.get(),
                            .remote_qp_num = b.qp->qp_num(),
                            .remote_qkey = q_key});
  }
};

TEST(NicRoceDatagram, ArrivesBehindTheNetworkHeader) {
  for (const std::size_t size : std::vector<std::size_t>{0, 1, 255, 256, 4095, 4096}) {
    Ud w;
    ASSERT_TRUE(w.b.recv(3, {w.to.sge(0, 100), w.to.sge(100, 4036)}));
    ASSERT_TRUE(w.post(size, 0x11111111, size == 255));
    w.run();
    EXPECT_EQ(statuses(w.a.sends()), "5 success");
    const auto done = w.b.recvs();
    ASSERT_EQ(statuses(done), "3 success") << size;
    EXPECT_EQ(done[0].byte_len, size + 40);
    EXPECT_EQ(done[0].src_qp, w.a.qp->qp_num());
    EXPECT_TRUE(done[0].with_grh && done[0].over_ipv4);
    EXPECT_EQ(done[0].with_imm, size == 255);
    EXPECT_EQ(done[0].imm_data, size == 255 ? 0xAABBCCDDU : 0U);
    EXPECT_TRUE(std::equal(w.from.memory.begin(), w.from.memory.begin() + static_cast<std::ptrdiff_t>(size),
                           w.to.memory.begin() + 40));
    // 20 octets of nothing, then the IPv4 header.
    EXPECT_EQ(Bytes(w.to.memory.begin(), w.to.memory.begin() + 20), Bytes(20));
    EXPECT_EQ(w.to.memory[20], 0x45);
    EXPECT_EQ(w.to.memory[21], 0x20);
    EXPECT_EQ(w.to.memory[28], 1);
    EXPECT_EQ(w.to.memory[29], 17);
    EXPECT_EQ(Bytes(w.to.memory.begin() + 32, w.to.memory.begin() + 40), (Bytes{192, 0, 2, 1, 192, 0, 2, 2}));
  }
}

TEST(NicRoceDatagram, TheHeaderThatTheDriverSawIsGivenAsItIs) {
  Ud w;
  ASSERT_TRUE(w.b.recv(3, {w.to.sge(0, 100)}));
  wire::ib::Packet packet;
  packet.bth.opcode = wire::ib::opcode_of(wire::ib::Service::ud, Operation::send_only);
  packet.bth.dest_qpn = w.b.qp->qp_num();
  packet.deth.q_key = 0x11111111;
  Bytes octets(packet.size());
  packet.emit(octets);
  Bytes network(40);
  for (std::size_t i = 0; i < network.size(); ++i) network[i] = static_cast<std::uint8_t>(i + 1);
  w.b.device->handle_packet({}, {.source = gid_v4(9), .destination = gid_v4(2), .network = network}, octets);
  EXPECT_EQ(Bytes(w.to.memory.begin(), w.to.memory.begin() + 40), network);
  ASSERT_TRUE(w.b.recv(4, {w.to.sge(100, 100)}));
  w.b.device->handle_packet(
      {}, {.source = gid_v4(9), .destination = gid_v4(2), .network = ConstBytes(network).first(20)}, octets);
  EXPECT_EQ(Bytes(w.to.memory.begin() + 120, w.to.memory.begin() + 140), Bytes(network.begin(), network.begin() + 20));
  const auto done = w.b.recvs();
  ASSERT_EQ(statuses(done), "3 success, 4 success");
  EXPECT_FALSE(done[0].over_ipv4);
  EXPECT_TRUE(done[1].over_ipv4);
}

TEST(NicRoceDatagram, QKeysDecide) {
  Ud w;
  ASSERT_TRUE(w.b.recv(3, {w.to.sge(0, 100)}));
  ASSERT_TRUE(w.post(4, 0x11111112));
  w.run();
  EXPECT_EQ(statuses(w.a.sends()), "5 success");
  EXPECT_EQ(statuses(w.b.recvs()), "-");
  EXPECT_EQ(w.b.device->counters().dropped_q_key, 1U);
  // The high bit: the queue pair's own.
  ASSERT_TRUE(w.post(4, 0x80000001));
  w.run();
  EXPECT_EQ(statuses(w.b.recvs()), "3 success");
}

TEST(NicRoceDatagram, WhatCannotBeReceivedIsDropped) {
  Ud w;
  ASSERT_TRUE(w.post(4));
  w.run();
  ASSERT_TRUE(w.b.recv(3, {w.to.sge(0, 43)}));
  ASSERT_TRUE(w.post(4));
  w.run();
  EXPECT_EQ(w.b.device->counters().dropped_receive, 2U);
  EXPECT_EQ(statuses(w.b.recvs()), "-");
  ASSERT_TRUE(w.post(3));
  w.run();
  EXPECT_EQ(statuses(w.b.recvs()), "3 success");
  EXPECT_EQ(w.b.qp->state(), QpState::rts);
}

TEST(NicRoceDatagram, RefusedWhenPosted) {
  Ud w;
  const auto sentence = [](const Result<void>& result) { return result ? "ok" : result.error().sentence(); };
  EXPECT_EQ(sentence(w.post(4097)), "sges together have 4097 octets; a datagram has at most 4096, the port's MTU");
  EXPECT_EQ(sentence(w.a.qp->post_send({})), "SendWr::ah is not an address handle of this device");
  EXPECT_EQ(sentence(w.a.qp->post_send({.opcode = SendWr::Opcode::rdma_write, .ah = w.ah.get()})),
            "SendWr::opcode is an RDMA Write, which datagrams are not (IBA §9.2.1)");
  const auto other = w.b.device->create_ah(w.b.pd, {.grh = GlobalRoute{.dgid = gid_v4(1)}}).value();
  EXPECT_EQ(sentence(w.a.qp->post_send({.ah = other.get()})), "SendWr::ah is not an address handle of this device");
  EXPECT_EQ(statuses(w.a.sends()), "-");
}

// The address that a datagram would come from is gone: the send fails, the queue pair comes to SQE, and back.
TEST(NicRoceDatagram, AnAddressThatIsGoneLeadsToSqe) {
  Ud w;
  ASSERT_TRUE(w.a.recv(9, {w.from.all()}));
  ASSERT_TRUE(w.a.device->set_gid(0, Gid{}));
  ASSERT_TRUE(w.post(4));
  ASSERT_TRUE(w.post(4));
  w.run();
  EXPECT_EQ(statuses(w.a.sends()), "5 local queue pair operation error, 5 work request flushed");
  EXPECT_EQ(w.a.qp->state(), QpState::sqe);
  EXPECT_EQ(w.a.notices(), (std::vector{QueuePairEvent::Kind::qp_fatal}));
  ASSERT_TRUE(w.post(4));
  EXPECT_EQ(statuses(w.a.sends()), "5 work request flushed");
  EXPECT_EQ(statuses(w.a.recvs()), "-");
  ASSERT_TRUE(w.a.device->set_gid(0, gid_v4(1)));
  ASSERT_TRUE(w.a.qp->modify({.state = QpState::rts}));
  ASSERT_TRUE(w.b.recv(3, {w.to.sge(0, 100)}));
  ASSERT_TRUE(w.post(4));
  w.run();
  EXPECT_EQ(statuses(w.a.sends()), "5 success");
  EXPECT_EQ(statuses(w.b.recvs()), "3 success");
}

// Nothing that was fetched is under way after a flush, so that a fence waits for nothing.
TEST(NicRoceDatagram, AFenceBehindAFlushHoldsNothingUp) {
  Ud w;
  ASSERT_TRUE(w.a.device->set_gid(0, Gid{}));
  ASSERT_TRUE(w.post(4));
  w.run();
  ASSERT_EQ(w.a.qp->state(), QpState::sqe);
  ASSERT_TRUE(w.a.device->set_gid(0, gid_v4(1)));
  ASSERT_TRUE(w.a.qp->modify({.state = QpState::rts}));
  (void)w.a.sends();
  ASSERT_TRUE(w.b.recv(3, {w.to.sge(0, 100)}));
  const Sge sge = w.from.sge(0, 4);
  ASSERT_TRUE(w.a.qp->post_send({.wr_id = 6,
                                 .sges = {&sge, 1},
                                 .fence = true,
                                 .ah = w.ah.get(),
                                 .remote_qp_num = w.b.qp->qp_num(),
                                 .remote_qkey = 0x11111111}));
  w.run();
  EXPECT_EQ(statuses(w.a.sends()), "6 success");
  EXPECT_EQ(statuses(w.b.recvs()), "3 success");
}

TEST(NicRoceDatagram, AGroupReachesWhoIsAttached) {
  Ud w;
  const Gid group{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, 239, 1, 2, 3}, other{0xFF, 0x0E};
  auto second = w.b.device->create_roce_qp(w.b.init(QpType::ud)).value();
  const Terms setup{.type = QpType::ud};
  ASSERT_TRUE(second->modify(init_attr(setup)));
  ASSERT_TRUE(second->modify(rtr_attr(setup, 0, {}, 0)));
  ASSERT_TRUE(w.b.qp->attach_multicast(group));
  ASSERT_TRUE(w.b.qp->attach_multicast(group));  // once
  ASSERT_TRUE(second->attach_multicast(group));
  ASSERT_TRUE(second->attach_multicast(other));
  for (std::uint64_t id = 1; id < 4; ++id) {
    ASSERT_TRUE(w.b.recv(id, {w.to.sge(0, 100)}));
    const Sge sge = w.to.sge(100, 100);
    ASSERT_TRUE(second->post_recv({.wr_id = 10 + id, .sges = {&sge, 1}}));
  }
  const auto ah = w.handle(group);
  const Sge sge = w.from.sge(0, 4);
  const SendWr wr{.sges = {&sge, 1}, .ah = ah.get(), .remote_qp_num = 0xFFFFFF, .remote_qkey = 0x11111111};
  ASSERT_TRUE(w.a.qp->post_send(wr));
  w.run();
  EXPECT_EQ(statuses(w.b.recvs()), "1 success, 11 success");
  ASSERT_TRUE(w.b.qp->detach_multicast(group));
  EXPECT_FALSE(w.b.qp->detach_multicast(group));
  ASSERT_TRUE(w.a.qp->post_send(wr));
  w.run();
  EXPECT_EQ(statuses(w.b.recvs()), "12 success");
  second.reset();
  ASSERT_TRUE(w.a.qp->post_send(wr));
  w.run();
  EXPECT_EQ(statuses(w.b.recvs()), "-");
  EXPECT_EQ(w.b.device->counters().dropped_destination, 1U);
  EXPECT_EQ(w.b.qp->attach_multicast(gid_v4(1)).error(), Errc::invalid_argument);
}

/// What a device asks its driver, in order.
struct Joins final : PacketGroups {
  std::string said;
  bool refuses = false;
  Result<void> join(const Address& group) override {
    said += " +" + group.to_string();
    if (refuses) return fail(Errc::no_space, "full");
    return {};
  }
  void leave(const Address& group) noexcept override { said += " -" + group.to_string(); }
};

TEST(NicRoceDatagram, TheDriverJoinsAGroupForTheFirstAndLeavesAfterTheLast) {
  Ud w;
  const Gid group{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, 239, 1, 2, 3};
  auto second = w.b.device->create_roce_qp(w.b.init(QpType::ud)).value();
  w.b.device->set_groups(nullptr);
  EXPECT_EQ(w.b.qp->attach_multicast(group).error(), Errc::unsupported);
  EXPECT_FALSE(w.b.qp->detach_multicast(group)) << "it has not been attached";
  Joins joins;
  w.b.device->set_groups(&joins);
  joins.refuses = true;
  EXPECT_EQ(w.b.qp->attach_multicast(group).error().sentence(), "full");
  EXPECT_FALSE(w.b.qp->detach_multicast(group));
  const std::string name = address_of_gid(group).to_string();
  EXPECT_EQ(std::exchange(joins.said, {}), " +" + name);
  joins.refuses = false;
  ASSERT_TRUE(w.b.qp->attach_multicast(group));
  ASSERT_TRUE(w.b.qp->attach_multicast(group));
  ASSERT_TRUE(second->attach_multicast(group));
  ASSERT_TRUE(w.b.qp->detach_multicast(group));
  EXPECT_EQ(std::exchange(joins.said, {}), " +" + name);
  second.reset();
  EXPECT_EQ(joins.said, " -" + name);
}

// A datagram to a group that is marked: nobody answers from the group's address. One to this host alone is answered.
TEST(NicRoceDatagram, AMarkOnAGroupsDatagramIsNotTold) {
  Ud w;
  const Gid group{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, 239, 1, 2, 3};
  ASSERT_TRUE(w.b.qp->attach_multicast(group));
  w.faults.mark = {1, 1};
  std::vector<Gid> sources;
  w.filter = [&](std::size_t, Frame& frame) {
    if (frame.opcode() == PARLEY_IB_OPCODE_CNP) sources.push_back(frame.to.source);
    return true;
  };
  for (std::uint64_t id = 1; id < 3; ++id) ASSERT_TRUE(w.b.recv(id, {w.to.sge(0, 100)}));
  const auto ah = w.handle(group);
  const Sge sge = w.from.sge(0, 4);
  ASSERT_TRUE(
      w.a.qp->post_send({.sges = {&sge, 1}, .ah = ah.get(), .remote_qp_num = 0xFFFFFF, .remote_qkey = 0x11111111}));
  w.run();
  EXPECT_EQ(statuses(w.b.recvs()), "1 success");
  EXPECT_EQ(sources, (std::vector<Gid>{}));
  ASSERT_TRUE(w.post(4));
  w.run();
  EXPECT_EQ(statuses(w.b.recvs()), "2 success");
  EXPECT_EQ(sources, (std::vector{gid_v4(2)}));
}

struct Uc : World {
  Buffer from{*a.device, a.pd, 8192};
  Buffer to{*b.device, b.pd, 8192};
  Uc() {
    connect({.type = QpType::uc});
    from.fill(1);
  }
};

TEST(NicRoceUc, LosesWholeMessagesAndNoMore) {
  // 20 messages of 3 packets: each packet lost once.
  for (std::size_t lost = 0; lost < 60; ++lost) {
    Uc w;
    for (std::uint64_t id = 0; id < 20; ++id) {
      ASSERT_TRUE(w.b.recv(id, {w.to.sge(0, 700)}));
      const Sge sge = w.from.sge(id * 100, 600);
      ASSERT_TRUE(w.a.qp->post_send({.wr_id = id,
                                     .opcode = SendWr::Opcode::send_with_imm,
                                     .sges = {&sge, 1},
                                     .imm_data = static_cast<std::uint32_t>(id)}));
    }
    w.filter = [&](std::size_t n, Frame&) { return n != lost; };
    w.run();
    EXPECT_EQ(w.sent, 60U);  // and no answers
    EXPECT_EQ(w.a.sends().size(), 20U);
    const auto done = w.b.recvs();
    ASSERT_EQ(done.size(), 19U);
    for (std::size_t i = 0; i < done.size(); ++i) {
      EXPECT_EQ(done[i].wr_id, i);  // the receive of the lost message serves the next
      EXPECT_EQ(done[i].imm_data, i < lost / 3 ? i : i + 1);
      EXPECT_EQ(done[i].status, WcStatus::success);
      EXPECT_EQ(done[i].byte_len, 600U);
    }
  }
}

TEST(NicRoceUc, WritesAndTheirKeys) {
  Uc w;
  const auto write = [&](std::uint32_t rkey, std::size_t at, std::size_t length) {
    const Sge sge = w.from.sge(at, length);
    ASSERT_TRUE(w.a.qp->post_send(
        {.opcode = SendWr::Opcode::rdma_write, .sges = {&sge, 1}, .remote_addr = w.to.region.addr + at, .rkey = rkey}));
    w.run();
  };
  write(w.to.region.rkey ^ 1, 0, 1000);
  EXPECT_EQ(w.to.memory, Bytes(8192));
  EXPECT_EQ(w.b.device->counters().dropped_request, 1U);
  EXPECT_EQ(w.b.device->counters().dropped_sequence, 3U);
  write(w.to.region.rkey, 1000, 1000);
  EXPECT_TRUE(std::equal(w.from.memory.begin() + 1000, w.from.memory.begin() + 2000, w.to.memory.begin() + 1000));
  EXPECT_EQ(w.b.qp->state(), QpState::rts);
  EXPECT_EQ(w.a.sends().size(), 2U);
  const Sge sge = w.from.sge(0, 8);
  for (const auto opcode :
       {SendWr::Opcode::rdma_read, SendWr::Opcode::atomic_cmp_and_swp, SendWr::Opcode::send_with_inv})
    EXPECT_EQ(w.a.qp->post_send({.opcode = opcode, .sges = {&sge, 1}, .invalidate_rkey = 1}).error(),
              Errc::unsupported);
}

// A message that does not fit its receive is lost; the receive stays.
TEST(NicRoceUc, TooLongForItsReceive) {
  Uc w;
  ASSERT_TRUE(w.b.recv(1, {w.to.sge(0, 300)}));
  ASSERT_TRUE(w.a.send(1, {w.from.sge(0, 600)}));
  ASSERT_TRUE(w.a.send(2, {w.from.sge(0, 300)}));
  w.run();
  const auto done = w.b.recvs();
  ASSERT_EQ(statuses(done), "1 success");
  EXPECT_EQ(done[0].byte_len, 300U);
  EXPECT_EQ(w.b.device->counters().dropped_receive, 1U);
}

TEST(NicRoceGsi, DatagramsInAndOut) {
  World w;
  MadOut out{.source = gid_v4(1), .destination = gid_v4(2), .traffic_class = 8};
  for (std::size_t i = 0; i < out.octets.size(); ++i) out.octets[i] = static_cast<std::uint8_t>(i);
  ASSERT_TRUE(w.a.device->send_mad(out));
  w.run();
  MadIn in;
  ASSERT_TRUE(w.b.device->poll_mad(in));
  EXPECT_EQ(in.octets, out.octets);
  EXPECT_EQ(in.source, gid_v4(1));
  EXPECT_EQ(in.destination, gid_v4(2));
  EXPECT_EQ(in.source_qpn, 1U);
  EXPECT_EQ(in.traffic_class, 8);
  EXPECT_FALSE(w.b.device->poll_mad(in));
  out.source = gid_v4(3);
  EXPECT_EQ(w.a.device->send_mad(out).error(), Errc::invalid_argument);
}

TEST(NicRoceGsi, BoundedAndCheckedOnTheWayIn) {
  World w;
  wire::ib::Packet packet;
  packet.bth.opcode = wire::ib::opcode_of(wire::ib::Service::ud, Operation::send_only);
  packet.bth.dest_qpn = 1;
  packet.deth = {.q_key = PARLEY_IB_GSI_Q_KEY, .source_qpn = 1};
  const Bytes mad(256);
  packet.payload = mad;
  const auto feed = [&] { w.inject(true, packet); };
  for (int i = 0; i < 1030; ++i) feed();
  const Counters& counters = w.b.device->counters();
  EXPECT_EQ(counters.dropped_mad, 6U);
  MadIn in;
  int taken = 0;
  while (w.b.device->poll_mad(in)) ++taken;
  EXPECT_EQ(taken, 1024);
  packet.payload = ConstBytes(mad).first(252);
  feed();
  EXPECT_EQ(counters.dropped_mad, 7U);
  packet.payload = mad;
  packet.deth.q_key = 0x80010001;
  feed();
  EXPECT_EQ(counters.dropped_q_key, 1U);
  packet.deth.q_key = PARLEY_IB_GSI_Q_KEY;
  packet.bth.p_key = 0x1234;
  feed();
  EXPECT_EQ(counters.dropped_p_key, 1U);
  EXPECT_FALSE(w.b.device->poll_mad(in));
  for (int i = 0; i < 1024; ++i) ASSERT_TRUE(w.a.device->send_mad({.source = gid_v4(1), .destination = gid_v4(2)}));
  EXPECT_EQ(w.a.device->send_mad({.source = gid_v4(1), .destination = gid_v4(2)}).error(), Errc::no_space);
}

}  // namespace
}  // namespace parley::nic::roce::test::roce_datagram_test
