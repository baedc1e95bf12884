// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Shared receive queues and XRC; congestion notifications; notices and events; SQD; what may be destroyed when.
#include <fmt/format.h>

#include "roce_link.hpp"

namespace parley::nic::roce::test::roce_shared_test {
namespace {

using Kind = QueuePairEvent::Kind;

TEST(NicRoceSrq, TakesReceivesAndTellsOfItsLimit) {
  World w;
  w.b.srq = w.b.device->create_srq(w.b.pd, 16).value();
  w.connect();
  Buffer from(*w.a.device, w.a.pd, 1024), to(*w.b.device, w.b.pd, 1024);
  from.fill(1);
  for (std::uint64_t id = 1; id <= 3; ++id) {
    const Sge sge = to.sge(id * 100, 100);
    ASSERT_TRUE(w.b.srq->post_recv({.wr_id = id, .sges = {&sge, 1}}));
  }
  EXPECT_FALSE(w.b.recv(1, {to.all()}));
  ASSERT_TRUE(w.b.srq->modify({.srq_limit = 2}));
  EXPECT_FALSE(w.b.device->poll_async_event());
  ASSERT_TRUE(w.a.send(1, {from.sge(0, 100)}));
  ASSERT_TRUE(w.a.send(2, {from.sge(100, 100)}));
  ASSERT_TRUE(w.a.send(3, {from.sge(200, 101)}));  // too long
  w.run();
  EXPECT_EQ(statuses(w.b.recvs()), "1 success, 2 success, 3 local length error");
  EXPECT_TRUE(std::equal(from.memory.begin(), from.memory.begin() + 200, to.memory.begin() + 100));
  const auto event = w.b.device->poll_async_event();
  ASSERT_TRUE(event);
  EXPECT_EQ(std::get<SrqLimitReached>(*event).srq, w.b.srq.get());
  EXPECT_EQ(w.b.notices(), (std::vector{Kind::qp_last_wqe_reached, Kind::qp_fatal}));
  EXPECT_EQ(statuses(w.a.sends()), "1 success, 2 success, 3 remote invalid request error");
}

TEST(NicRoceSrq, EmptyMeansRnrAndDatagramsAreDropped) {
  World w;
  w.b.srq = w.b.device->create_srq(w.b.pd, 16).value();
  w.connect({.rnr_retry = 2});
  Buffer from(*w.a.device, w.a.pd, 64);
  ASSERT_TRUE(w.a.send(1, {from.sge(0, 8)}));
  w.run();
  EXPECT_EQ(statuses(w.a.sends()), "1 receiver-not-ready retries exceeded");
  EXPECT_EQ(w.b.device->counters().rnr_sent, 3U);
}

/// a has an XRC_INI, b an XRC_TGT and two XRC shared receive queues, with a region each in their own domains of protection.
struct Xrc : World {
  std::unique_ptr<XrcDomain> domain = b.device->open_xrcd().value();
  PdHandle pd2 = b.device->alloc_pd().value();
  std::unique_ptr<CompletionQueue> cq1 = b.device->create_cq(64).value(), cq2 = b.device->create_cq(64).value();
  std::unique_ptr<SharedReceiveQueue> srq1 =
      b.device->create_srq({.pd = b.pd, .capacity = 16, .xrcd = domain.get(), .cq = cq1.get()}).value();
  std::unique_ptr<SharedReceiveQueue> srq2 =
      b.device->create_srq({.pd = pd2, .capacity = 16, .xrcd = domain.get(), .cq = cq2.get()}).value();
  Buffer from{*a.device, a.pd, 8192};
  Buffer to1{*b.device, b.pd, 8192}, to2{*b.device, pd2, 8192};

  Xrc() {
    from.fill(1);
    a.qp = a.device->create_roce_qp(a.init(QpType::xrc_ini)).value();
    b.qp = b.device->create_roce_qp({.type = QpType::xrc_tgt, .xrcd = domain.get()}).value();
    const Terms ini{.type = QpType::xrc_ini}, tgt{.type = QpType::xrc_tgt};
    up(a, b, ini, 100, 200);
    up(b, a, tgt, 200, 100);
  }
  Result<void> post(SendWr::Opcode opcode, const SharedReceiveQueue& srq, const Buffer& peer,
                    std::size_t length = 600) {
    const Sge sge = from.sge(0, length);
    return a.qp->post_send({.wr_id = 5,
                            .opcode = opcode,
                            .sges = {&sge, 1},
                            .remote_addr = peer.region.addr,
                            .rkey = peer.region.rkey,
                            .compare_add = opcode == SendWr::Opcode::atomic_fetch_and_add ? 3ULL : 0ULL,
                            .remote_srq_num = *srq.srq_num()});
  }
};

TEST(NicRoceXrc, ReceivesOfTheQueueThatIsNamed) {
  Xrc w;
  EXPECT_EQ(*w.srq1->srq_num(), 0x20001U);
  EXPECT_EQ(*w.srq2->srq_num(), 0x20002U);
  const Sge one = w.to1.all(), two = w.to2.all();
  ASSERT_TRUE(w.srq1->post_recv({.wr_id = 1, .sges = {&one, 1}}));
  ASSERT_TRUE(w.srq2->post_recv({.wr_id = 2, .sges = {&two, 1}}));
  ASSERT_TRUE(w.post(SendWr::Opcode::send, *w.srq2, w.to2));
  std::vector<std::string> octets;
  w.filter = [&](std::size_t, Frame& frame) {
    octets.push_back(fmt::format("{:02x} {:06x}", frame.opcode(), frame.parsed().xrceth.srqn));
    return true;
  };
  w.run();
  EXPECT_EQ(octets, (std::vector<std::string>{"a0 020002", "a1 020002", "a2 020002", "b1 000000"}));
  EXPECT_EQ(statuses(w.a.sends()), "5 success");
  EXPECT_EQ(statuses(Side::poll(*w.cq1)), "-");
  const auto done = Side::poll(*w.cq2);
  ASSERT_EQ(statuses(done), "2 success");
  EXPECT_EQ(done[0].qp_num, w.b.qp->qp_num());
  EXPECT_EQ(done[0].byte_len, 600U);
  EXPECT_TRUE(std::equal(w.from.memory.begin(), w.from.memory.begin() + 600, w.to2.memory.begin()));
  EXPECT_EQ(w.b.notices(), (std::vector<Kind>{}));
}

// R_Keys count in the protection domain of the shared receive queue that the request names.
TEST(NicRoceXrc, KeysOfTheQueuesDomain) {
  Xrc w;
  ASSERT_TRUE(w.post(SendWr::Opcode::rdma_write, *w.srq2, w.to2));
  ASSERT_TRUE(w.post(SendWr::Opcode::atomic_fetch_and_add, *w.srq2, w.to2, 8));
  ASSERT_TRUE(w.post(SendWr::Opcode::rdma_read, *w.srq1, w.to1, 1000));
  w.run();
  EXPECT_EQ(statuses(w.a.sends()), "5 success, 5 success, 5 success");
  ASSERT_TRUE(w.post(SendWr::Opcode::rdma_write, *w.srq1, w.to2));
  w.run();
  EXPECT_EQ(statuses(w.a.sends()), "5 remote access error");
  EXPECT_EQ(w.b.qp->state(), QpState::err);
  EXPECT_EQ(w.b.notices(), (std::vector{Kind::qp_last_wqe_reached, Kind::qp_fatal}));
}

TEST(NicRoceXrc, NumbersThatNameNothing) {
  Xrc w;
  const auto other_domain = w.b.device->open_xrcd().value();
  const auto foreign =
      w.b.device->create_srq({.pd = w.b.pd, .capacity = 16, .xrcd = other_domain.get(), .cq = w.cq1.get()}).value();
  ASSERT_TRUE(w.post(SendWr::Opcode::send, *foreign, w.to1, 8));
  w.run(100us);
  EXPECT_EQ(w.b.device->counters().dropped_srqn, 1U);
  w.srq1.reset();
  wire::ib::Packet packet;
  packet.bth.opcode = wire::ib::opcode_of(wire::ib::Service::xrc, Operation::send_only);
  packet.bth.dest_qpn = w.b.qp->qp_num();
  packet.bth.psn = 100;
  packet.xrceth.srqn = 0x20001;
  w.inject(true, packet);
  EXPECT_EQ(w.b.device->counters().dropped_srqn, 2U);
  EXPECT_EQ(w.b.qp->state(), QpState::rts);
}

// A message whose packets name different queues.
TEST(NicRoceXrc, OneMessageOneQueue) {
  Xrc w;
  const Sge one = w.to1.all();
  ASSERT_TRUE(w.srq1->post_recv({.wr_id = 1, .sges = {&one, 1}}));
  const Bytes filling(256);
  wire::ib::Packet packet;
  packet.bth.opcode = wire::ib::opcode_of(wire::ib::Service::xrc, Operation::send_first);
  packet.bth.dest_qpn = w.b.qp->qp_num();
  packet.bth.psn = 100;
  packet.xrceth.srqn = *w.srq1->srq_num();
  packet.payload = filling;
  w.inject(true, packet);
  packet.bth.opcode = wire::ib::opcode_of(wire::ib::Service::xrc, Operation::send_last);
  packet.bth.psn = 101;
  packet.xrceth.srqn = *w.srq2->srq_num();
  w.inject(true, packet);
  EXPECT_EQ(w.b.qp->state(), QpState::err);
  EXPECT_EQ(statuses(Side::poll(*w.cq1)), "1 remote invalid request error");
}

// Found by fuzz_roce: with nothing before it there is no queue to compare with.
TEST(NicRoceXrc, TheRestOfNoMessage) {
  for (const auto operation : {Operation::send_last, Operation::write_middle}) {
    Xrc w;
    wire::ib::Packet packet;
    packet.bth.opcode = wire::ib::opcode_of(wire::ib::Service::xrc, operation);
    packet.bth.dest_qpn = w.b.qp->qp_num();
    packet.bth.psn = 100;
    packet.xrceth.srqn = *w.srq1->srq_num();
    w.inject(true, packet);
    EXPECT_EQ(w.b.qp->state(), QpState::err);
    EXPECT_EQ(w.b.device->counters().naks_sent, 1U);
  }
}

TEST(NicRoceXrc, UnderLoss) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    Xrc w;
    w.rng = Rng(seed);
    w.faults = {.drop = {4, 100}, .repeat = {4, 100}, .delay = {4, 100}};
    const Sge one = w.to1.all(), two = w.to2.all();
    for (std::uint64_t id = 0; id < 14; ++id) {
      const bool first = id % 2 == 0;
      ASSERT_TRUE((first ? w.srq1 : w.srq2)->post_recv({.wr_id = id, .sges = {first ? &one : &two, 1}}));
      ASSERT_TRUE(w.post(SendWr::Opcode::send, first ? *w.srq1 : *w.srq2, w.to1, id * 100));
      ASSERT_TRUE(w.post(SendWr::Opcode::rdma_write, first ? *w.srq1 : *w.srq2, first ? w.to1 : w.to2, 700));
    }
    w.run(100s);
    EXPECT_EQ(w.a.sends().size(), 28U) << seed;
    const auto x = Side::poll(*w.cq1), y = Side::poll(*w.cq2);
    ASSERT_EQ(x.size() + y.size(), 14U) << seed;
    for (std::size_t i = 0; i < 7; ++i) {
      EXPECT_EQ(x.at(i).byte_len, 200 * i);
      EXPECT_EQ(y.at(i).byte_len, 200 * i + 100);
    }
    EXPECT_EQ(w.a.qp->state(), QpState::rts);
  }
}

TEST(NicRoceXrc, Refusals) {
  Xrc w;
  const auto sentence = [](const auto& result) { return result ? "ok" : result.error().sentence(); };
  EXPECT_EQ(sentence(w.b.device->create_srq({.pd = w.b.pd, .xrcd = w.domain.get()})),
            "SrqInit::cq is not a completion queue of this device; an XRC shared receive queue needs one");
  EXPECT_EQ(sentence(w.b.device->create_qp({.type = QpType::xrc_tgt})),
            "QpInit::xrcd is not an XRC domain of this device; an XRC_TGT queue pair needs one");
  QpInit init = w.b.init(QpType::rc);
  init.srq = w.srq1.get();
  EXPECT_EQ(sentence(w.b.device->create_qp(init)),
            "QpInit::srq is an XRC one, which packets name; no queue pair has it");
  EXPECT_EQ(sentence(w.b.qp->post_send({})), "an XRC_TGT queue pair has no send queue (IBA §A14)");
  EXPECT_EQ(sentence(w.a.qp->post_recv({})),
            "XRC queue pairs have no receive queue; post to an XRC shared receive queue (IBA §A14)");
  EXPECT_EQ(w.b.srq, nullptr);
}

// ibv_open_qp: the queue pair outlives whoever made it, and what befalls it is told to each of its handles, once.
TEST(NicRoceXrc, HandlesShareOneTarget) {
  Xrc w;
  auto second = w.b.device->open_qp(*w.domain, w.b.qp->qp_num()).value();
  auto third = w.b.device->open_qp(*w.domain, w.b.qp->qp_num()).value();
  EXPECT_EQ(second->qp_num(), w.b.qp->qp_num());
  const std::uint32_t number = w.b.qp->qp_num();
  w.b.qp.reset();
  EXPECT_EQ(second->state(), QpState::rts);
  const Sge one = w.to1.all();
  ASSERT_TRUE(w.srq1->post_recv({.wr_id = 1, .sges = {&one, 1}}));
  ASSERT_TRUE(w.post(SendWr::Opcode::send, *w.srq1, w.to1));
  w.run();
  EXPECT_EQ(statuses(Side::poll(*w.cq1)), "1 success");
  ASSERT_TRUE(w.post(SendWr::Opcode::rdma_write, *w.srq1, w.to2));  // a key of the other domain of protection
  w.run();
  std::map<const QueuePair*, std::vector<Kind>> told;
  while (const auto event = w.b.device->poll_async_event()) {
    const auto& e = std::get<QueuePairEvent>(*event);
    told[e.qp].push_back(e.kind);
  }
  const std::vector each{Kind::qp_last_wqe_reached, Kind::qp_fatal};
  EXPECT_EQ(told, (std::map<const QueuePair*, std::vector<Kind>>{{second.get(), each}, {third.get(), each}}));
  ASSERT_TRUE(second->modify({.state = QpState::reset}));
  EXPECT_EQ(third->state(), QpState::reset);
  second.reset();
  EXPECT_NE(w.b.device->find_qp(number), nullptr);
  third.reset();
  EXPECT_EQ(w.b.device->find_qp(number), nullptr);
  EXPECT_FALSE(w.b.device->open_qp(*w.domain, number));
}

TEST(NicRoceXrc, HandlesAreOfTheDomainAlone) {
  Xrc w;
  const auto other = w.b.device->open_xrcd().value();
  const auto foreign = w.a.device->open_xrcd().value();
  const std::uint32_t number = w.b.qp->qp_num();
  EXPECT_EQ(w.b.device->open_qp(*other, number).error().sentence(), "there is no XRC_TGT queue pair 17 in this domain");
  EXPECT_EQ(w.b.device->open_qp(*foreign, number).error().sentence(), "the domain is none of this device");
  w.b.make(QpType::rc);
  EXPECT_EQ(w.b.device->open_qp(*w.domain, w.b.qp->qp_num()).error(), Errc::invalid_argument);
  EXPECT_EQ(w.b.device->open_xrcd({.fd = 3}).error().sentence(),
            "XrcdInit::fd is 3; a software NIC is one process's, so no file shares its domains");
}

TEST(NicRoceCongestion, AMarkIsToldToTheSenderAndNotTooOften) {
  World w;
  w.connect();
  Buffer from(*w.a.device, w.a.pd, 8192), to(*w.b.device, w.b.pd, 8192);
  w.faults.mark = {1, 1};
  std::vector<std::pair<Instant, Frame>> cnps;
  w.filter = [&](std::size_t, Frame& frame) {
    if (frame.opcode() == PARLEY_IB_OPCODE_CNP) cnps.push_back({w.now, frame});
    return true;
  };
  const Sge sge = from.all();
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(w.a.qp->post_send({.opcode = SendWr::Opcode::rdma_write,
                                   .sges = {&sge, 1},
                                   .signaled = false,
                                   .remote_addr = to.region.addr,
                                   .rkey = to.region.rkey}));
    w.run(100us);
    w.now += 100us;
  }
  ASSERT_GE(cnps.size(), 3U);
  std::size_t from_b = 0;
  Instant last{};
  for (const auto& [at, frame] : cnps) {
    if (frame.to_b) continue;
    if (++from_b > 1) {
      EXPECT_GE(at - last, 50us);
    }
    last = at;
    const auto packet = frame.parsed();
    EXPECT_EQ(packet.bth.dest_qpn, w.a.qp->qp_num());
    EXPECT_TRUE(packet.bth.becn);
    EXPECT_EQ(packet.bth.psn, 0U);
    EXPECT_EQ(packet.payload.size(), 16U);
    EXPECT_EQ(frame.octets.size(), 32U);
    EXPECT_EQ(frame.to.destination, gid_v4(1));
  }
  EXPECT_GE(from_b, 3U);
  EXPECT_EQ(w.b.device->counters().cnp_sent, from_b);
  EXPECT_EQ(w.a.device->counters().cnp_received, from_b);
  EXPECT_EQ(w.a.qp->counters().cnp_received, from_b);
  EXPECT_GT(w.b.device->counters().cnp_held, 0U);
}

TEST(NicRoceCongestion, NoneIfNotWanted) {
  DeviceOptions options = Side::options(2);
  options.cnp_interval = {};
  World w(Side::options(1), options);
  w.connect();
  w.faults.mark = {1, 1};
  Buffer from(*w.a.device, w.a.pd, 64), to(*w.b.device, w.b.pd, 64);
  ASSERT_TRUE(w.b.recv(1, {to.all()}));
  ASSERT_TRUE(w.a.send(1, {from.all()}));
  w.run();
  EXPECT_EQ(w.b.device->counters().cnp_sent, 0U);
}

TEST(NicRoceNotices, TheFirstPacketInRtrSaysThatThePeerIsThere) {
  World w;
  w.a.make(QpType::rc);
  w.b.make(QpType::rc);
  const Terms setup;
  World::up(w.a, w.b, setup, 100, 200);
  ASSERT_TRUE(w.b.qp->modify(init_attr(setup)));
  ASSERT_TRUE(w.b.qp->modify(rtr_attr(setup, w.a.qp->qp_num(), gid_v4(1), 100)));
  Buffer from(*w.a.device, w.a.pd, 64), to(*w.b.device, w.b.pd, 64);
  ASSERT_TRUE(w.b.recv(1, {to.all()}));
  ASSERT_TRUE(w.b.recv(2, {to.all()}));
  w.b.qp->owner = 42;
  ASSERT_TRUE(w.a.send(1, {from.all()}));
  ASSERT_TRUE(w.a.send(2, {from.all()}));
  w.run();
  EXPECT_EQ(statuses(w.a.sends()), "1 success, 2 success");
  const auto notice = w.b.device->poll_notice();
  ASSERT_TRUE(notice);
  EXPECT_EQ(std::get<Kind>(notice->what), Kind::comm_est);
  EXPECT_EQ(notice->qp->owner, 42U);
  EXPECT_FALSE(w.b.device->poll_notice());
  EXPECT_FALSE(w.b.device->has_events());  // whoever manages the connection says so
  EXPECT_FALSE(w.b.device->poll_async_event());
}

TEST(NicRoceNotices, WithoutAManagerTheUserIsTold) {
  World w;
  w.connect();
  ASSERT_TRUE(w.b.qp->modify({.state = QpState::reset}));
  const Terms setup;
  ASSERT_TRUE(w.b.qp->modify(init_attr(setup)));
  ASSERT_TRUE(w.b.qp->modify(rtr_attr(setup, w.a.qp->qp_num(), gid_v4(1), 100)));
  Buffer from(*w.a.device, w.a.pd, 64), to(*w.b.device, w.b.pd, 64);
  ASSERT_TRUE(w.b.recv(1, {to.all()}));
  ASSERT_TRUE(w.a.send(1, {from.all()}));
  w.run();
  EXPECT_EQ(w.b.notices(), (std::vector{Kind::comm_est}));
  EXPECT_TRUE(w.b.device->has_events());
  const auto event = w.b.device->poll_async_event();
  ASSERT_TRUE(event);
  EXPECT_EQ(std::get<QueuePairEvent>(*event).qp, w.b.qp.get());
  EXPECT_FALSE(w.b.device->has_events());
}

TEST(NicRoceNotices, GoWithTheirQueuePair) {
  World w;
  w.connect();
  ASSERT_TRUE(w.b.qp->modify({.state = QpState::reset}));
  const Terms setup;
  ASSERT_TRUE(w.b.qp->modify(init_attr(setup)));
  ASSERT_TRUE(w.b.qp->modify(rtr_attr(setup, w.a.qp->qp_num(), gid_v4(1), 100)));
  Buffer from(*w.a.device, w.a.pd, 64), to(*w.b.device, w.b.pd, 64);
  ASSERT_TRUE(w.b.recv(1, {to.all()}));
  ASSERT_TRUE(w.a.send(1, {from.all()}));
  w.run();
  const std::uint32_t number = w.b.qp->qp_num();
  EXPECT_EQ(w.b.device->find_qp(number), w.b.qp.get());
  ASSERT_TRUE(w.b.device->has_news());  // comm_est, for the manager and for the user
  EXPECT_TRUE(!w.b.device->has_transmit() && w.b.device->next_deadline() > w.now);
  EXPECT_FALSE(w.b.device->is_quiet(w.now));
  ASSERT_TRUE(w.b.device->has_events());
  w.b.qp.reset();
  EXPECT_EQ(w.b.device->find_qp(number), nullptr);
  EXPECT_FALSE(w.b.device->has_news());
  EXPECT_TRUE(w.b.device->is_quiet(w.now));
  EXPECT_FALSE(w.b.device->has_events());
}

TEST(NicRoceNotices, GoWithTheirHandleAlone) {
  Xrc w;
  auto second = w.b.device->open_qp(*w.domain, w.b.qp->qp_num()).value();
  const Sge one = w.to1.all();
  ASSERT_TRUE(w.srq1->post_recv({.wr_id = 1, .sges = {&one, 1}}));
  ASSERT_TRUE(w.post(SendWr::Opcode::rdma_write, *w.srq1, w.to2));  // a key of the other domain of protection
  w.run();
  second.reset();
  EXPECT_EQ(w.b.notices(), (std::vector{Kind::qp_last_wqe_reached, Kind::qp_fatal}));
  std::vector<const QueuePair*> named;
  while (w.b.device->has_events()) named.push_back(std::get<QueuePairEvent>(w.b.device->poll_async_event().value()).qp);
  EXPECT_EQ(named, (std::vector<const QueuePair*>{w.b.qp.get(), w.b.qp.get()}));
}

// SQD: what was begun is finished, nothing else begun; then it is told.
TEST(NicRoceSqd, FinishesWhatWasBegun) {
  World w;
  w.connect();
  Buffer from(*w.a.device, w.a.pd, 8192), to(*w.b.device, w.b.pd, 8192);
  const Sge sge = from.all();
  for (std::uint64_t id = 1; id <= 2; ++id)
    ASSERT_TRUE(w.a.qp->post_send({.wr_id = id,
                                   .opcode = SendWr::Opcode::rdma_write,
                                   .sges = {&sge, 1},
                                   .remote_addr = to.region.addr,
                                   .rkey = to.region.rkey}));
  std::array<std::uint8_t, packet_max> buffer;
  PacketTo packet;
  ASSERT_TRUE(w.a.device->poll_transmit(w.now, packet, buffer));  // lost: it comes again, in SQD too
  ASSERT_TRUE(w.a.qp->modify({.state = QpState::sqd, .en_sqd_async_notify = true}));
  EXPECT_TRUE(w.a.qp->query().sq_draining);
  ASSERT_TRUE(w.a.send(3, {from.sge(0, 8)}));
  ASSERT_TRUE(w.b.recv(3, {to.all()}));
  EXPECT_EQ(w.a.notices(), (std::vector<Kind>{}));
  w.run();
  EXPECT_EQ(statuses(w.a.sends()), "1 success");
  EXPECT_EQ(w.a.notices(), (std::vector{Kind::sq_drained}));
  EXPECT_FALSE(w.a.qp->query().sq_draining);
  ASSERT_TRUE(w.a.qp->modify({.state = QpState::rts}));
  w.run();
  EXPECT_EQ(statuses(w.a.sends()), "2 success, 3 success");
}

// A Read that waits in SQD would wait for ever if none were allowed any more.
TEST(NicRoceSqd, AReadThatWaitsNeedsADepth) {
  World w;
  w.connect();
  Buffer from(*w.a.device, w.a.pd, 64), to(*w.b.device, w.b.pd, 64);
  const Sge sge = from.all();
  ASSERT_TRUE(w.a.qp->modify({.state = QpState::sqd}));
  ASSERT_TRUE(w.a.qp->post_send({.wr_id = 1,
                                 .opcode = SendWr::Opcode::rdma_read,
                                 .sges = {&sge, 1},
                                 .remote_addr = to.region.addr,
                                 .rkey = to.region.rkey}));
  const auto refused = w.a.qp->modify({.max_rd_atomic = 0});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error(), Errc::wrong_state);
  EXPECT_EQ(refused.error().sentence(),
            "QpAttr::max_rd_atomic is 0; a Read or Atomic that is posted and not sent needs 1");
  ASSERT_TRUE(w.a.qp->modify({.max_rd_atomic = 1}));
  ASSERT_TRUE(w.a.qp->modify({.state = QpState::rts}));
  w.run();
  EXPECT_EQ(statuses(w.a.sends()), "1 success");
  ASSERT_TRUE(w.a.qp->modify({.state = QpState::sqd}));
  EXPECT_TRUE(w.a.qp->modify({.max_rd_atomic = 0}));
}

// A fence holds a request until the Reads before it are answered.
TEST(NicRoceFence, WaitsForReads) {
  for (const bool fence : {false, true}) {
    World w;
    w.connect();
    Buffer from(*w.a.device, w.a.pd, 64), to(*w.b.device, w.b.pd, 64);
    const Sge sge = from.sge(0, 8);
    ASSERT_TRUE(w.b.recv(1, {to.all()}));
    ASSERT_TRUE(w.a.qp->post_send({.opcode = SendWr::Opcode::rdma_read,
                                   .sges = {&sge, 1},
                                   .remote_addr = to.region.addr,
                                   .rkey = to.region.rkey}));
    ASSERT_TRUE(w.a.qp->post_send({.sges = {&sge, 1}, .fence = fence}));
    std::string order;
    w.filter = [&](std::size_t, Frame& frame) {
      order += wire::ib::opcode_text(frame.opcode()) + ", ";
      return true;
    };
    w.run();
    EXPECT_EQ(order, fence ? "RC RDMA READ Request, RC RDMA READ Response Only, RC SEND Only, RC Acknowledge, "
                           : "RC RDMA READ Request, RC SEND Only, RC RDMA READ Response Only, RC Acknowledge, ");
  }
}

// Objects in the wrong order: what a queue pair needs lives as long as it does.
TEST(NicRoceLife, ObjectsInAnyOrder) {
  World w;
  w.b.srq = w.b.device->create_srq(w.b.pd, 16).value();
  w.connect();
  Buffer from(*w.a.device, w.a.pd, 8192), to(*w.b.device, w.b.pd, 8192);
  const Sge sge = to.all();
  ASSERT_TRUE(w.b.srq->post_recv({.sges = {&sge, 1}}));
  ASSERT_TRUE(w.a.send(1, {from.sge(0, 1000)}));
  w.filter = [&](std::size_t n, Frame&) { return n < 2; };
  w.run(100us);  // half a message
  EXPECT_EQ(w.a.device->dereg_mr(from.region.lkey).error(), Errc::wrong_state);
  w.b.recv_cq.reset();
  w.b.srq.reset();
  w.b.qp.reset();
  EXPECT_TRUE(w.b.device->dereg_mr(to.region.lkey));
  EXPECT_TRUE(w.b.device->dealloc_pd(w.b.pd));
  auto qp = std::move(w.a.qp);
  w.a.device.reset();
  EXPECT_EQ(qp->state(), QpState::rts);
  qp.reset();
}

}  // namespace
}  // namespace parley::nic::roce::test::roce_shared_test
