// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// What is wrong, and what is said of it: one planted packet for each NAK, judged by the octets of the answer; RNR; retries
// that end; keys that are stale; packets that say nothing and change nothing.
#include "base/bytes_io.hpp"
#include "roce_solo.hpp"
#include "wire/ib/roce.hpp"

namespace parley::nic::roce::test::roce_errors_test {
namespace {

using wire::ib::Packet;
using wire::ib::Service;

TEST(NicRoceErrors, OneNakForAGapAndThenSilence) {
  Solo s;
  ASSERT_TRUE(s.b.recv(1, {s.memory.all()}));
  ASSERT_TRUE(s.b.recv(2, {s.memory.all()}));
  EXPECT_EQ(s.answer(s.packet(Operation::send_only, 101, 4)), s.ack(100, 0x60));
  EXPECT_EQ(s.answer(s.packet(Operation::send_only, 102, 4)), "");
  EXPECT_EQ(s.answer(s.packet(Operation::send_only, 100, 4)), s.ack(100, 0x1F, 1));
  EXPECT_EQ(s.answer(s.packet(Operation::send_only, 103, 4)), s.ack(101, 0x60, 1));  // another gap, another NAK
  EXPECT_EQ(s.answer(s.packet(Operation::send_only, 101, 4)), s.ack(101, 0x1F, 2));
  EXPECT_EQ(statuses(s.b.recvs()), "1 success, 2 success");
  EXPECT_EQ(s.b.qp->state(), QpState::rts);
  EXPECT_EQ(s.b.device->counters().naks_sent, 2U);
}

struct Wrong {
  const char* name;
  std::uint8_t syndrome;
  const char* receive;  // how the receive that was posted ends
  std::function<void(Solo&, std::vector<Packet>&)> packets;
};
const Wrong wrongs[] = {
    {"Middle without First", 0x61, "1 work request flushed",
     [](Solo& s, auto& p) { p = {s.packet(Operation::send_middle, 100, 256)}; }},
    {"Last without First", 0x61, "1 work request flushed",
     [](Solo& s, auto& p) { p = {s.packet(Operation::write_last, 100, 4)}; }},
    {"First within a message", 0x61, "1 remote invalid request error",
     [](Solo& s, auto& p) {
       p = {s.packet(Operation::send_first, 100, 256), s.packet(Operation::send_first, 101, 256)};
     }},
    {"Write within a Send", 0x61, "1 remote invalid request error",
     [](Solo& s, auto& p) {
       p = {s.packet(Operation::send_first, 100, 256), s.packet(Operation::write_middle, 101, 256)};
     }},
    {"Read within a Send", 0x61, "1 remote invalid request error",
     [](Solo& s, auto& p) {
       p = {s.packet(Operation::send_first, 100, 256), s.packet(Operation::read_request, 101)};
     }},
    {"First that is short", 0x61, "1 remote invalid request error",
     [](Solo& s, auto& p) { p = {s.packet(Operation::send_first, 100, 252)}; }},
    {"Only that is long", 0x61, "1 remote invalid request error",
     [](Solo& s, auto& p) { p = {s.packet(Operation::send_only, 100, 257)}; }},
    {"Last of nothing", 0x61, "1 remote invalid request error",
     [](Solo& s, auto& p) {
       p = {s.packet(Operation::send_first, 100, 256), s.packet(Operation::send_last, 101, 0)};
     }},
    {"Send longer than the receive", 0x61, "1 local length error",
     [](Solo& s, auto& p) {
       p = {s.packet(Operation::send_first, 100, 256), s.packet(Operation::send_last, 101, 256)};
     }},
    {"Write shorter than its RETH", 0x61, "1 work request flushed",
     [](Solo& s, auto& p) {
       p = {s.packet(Operation::write_only, 100, 8)};
       p[0].reth.dma_length = 9;
     }},
    {"Write First of all there is", 0x61, "1 work request flushed",
     [](Solo& s, auto& p) {
       p = {s.packet(Operation::write_first, 100, 256)};
       p[0].reth.dma_length = 256;
     }},
    {"Write longer than its RETH", 0x61, "1 work request flushed",
     [](Solo& s, auto& p) {
       p = {s.packet(Operation::write_first, 100, 256), s.packet(Operation::write_last, 101, 8)};
       p[0].reth.dma_length = 260;
     }},
    {"unaligned Atomic", 0x61, "1 work request flushed",
     [](Solo& s, auto& p) {
       p = {s.packet(Operation::fetch_add, 100)};
       p[0].atomic.va += 4;
     }},
    {"Read of more than 2^31", 0x61, "1 work request flushed",
     [](Solo& s, auto& p) {
       p = {s.packet(Operation::read_request, 100)};
       p[0].reth.dma_length = 0x80000001;
     }},
    {"Write of more than 2^31", 0x61, "1 work request flushed",
     [](Solo& s, auto& p) {
       p = {s.packet(Operation::write_first, 100, 256)};
       p[0].reth.dma_length = 0x80000001;
     }},
    {"Write with an unknown key", 0x62, "1 work request flushed",
     [](Solo& s, auto& p) {
       p = {s.packet(Operation::write_only, 100, 8)};
       p[0].reth.r_key ^= 1;
     }},
    {"Write out of bounds", 0x62, "1 work request flushed",
     [](Solo& s, auto& p) {
       p = {s.packet(Operation::write_only, 100, 8)};
       p[0].reth.va += 4089;
     }},
    {"Write whose rest is out of bounds", 0x62, "1 work request flushed",
     [](Solo& s, auto& p) {
       p = {s.packet(Operation::write_first, 100, 256)};
       p[0].reth.dma_length = 4097;
     }},
    {"Read before the region", 0x62, "1 work request flushed",
     [](Solo& s, auto& p) {
       p = {s.packet(Operation::read_request, 100)};
       p[0].reth.dma_length = 8;
       p[0].reth.va -= 1;
     }},
    {"Read that wraps", 0x62, "1 work request flushed",
     [](Solo& s, auto& p) {
       p = {s.packet(Operation::read_request, 100)};
       p[0].reth.dma_length = 8;
       p[0].reth.va = ~0ULL - 3;
     }},
    {"Atomic with an unknown key", 0x62, "1 work request flushed",
     [](Solo& s, auto& p) {
       p = {s.packet(Operation::cmp_swap, 100)};
       p[0].atomic.r_key += 0x100;
     }},
    {"Invalidate of an unknown key", 0x62, "1 remote access error",
     [](Solo& s, auto& p) {
       p = {s.packet(Operation::send_only_inv, 100, 4)};
       p[0].invalidate = 0x7777;
     }},
};

TEST(NicRoceErrors, EachNakTakesTheQueuePairToErr) {
  for (const Wrong& wrong : wrongs) {
    Solo s;
    ASSERT_TRUE(s.b.recv(1, {s.memory.sge(0, 300)}));
    std::vector<Packet> packets;
    wrong.packets(s, packets);
    for (Packet& packet : packets) packet.bth.ack_req = false;
    const auto psn = static_cast<std::uint32_t>(100 + packets.size() - 1);
    std::string said;
    for (const Packet& packet : packets) said = s.answer(packet);
    EXPECT_EQ(said, s.ack(psn, wrong.syndrome)) << wrong.name;
    EXPECT_EQ(s.b.qp->state(), QpState::err) << wrong.name;
    EXPECT_EQ(statuses(s.b.recvs()), wrong.receive) << wrong.name;
    EXPECT_EQ(s.b.notices(), (std::vector{QueuePairEvent::Kind::qp_fatal})) << wrong.name;
    // It is deaf now.
    EXPECT_EQ(s.answer(s.packet(Operation::send_only, psn, 4)), "") << wrong.name;
    EXPECT_EQ(s.b.device->counters().dropped_state, 1U) << wrong.name;
  }
}

TEST(NicRoceErrors, RightsOfTheQueuePairAndOfTheRegion) {
  struct Case {
    Access qp, region;
    std::uint8_t syndrome;
  };
  for (const Case& c : {Case{Access::none, all_rights, 0x61}, Case{all_rights, Access::local_write, 0x62}})
    for (const auto operation : {Operation::write_only, Operation::read_request, Operation::fetch_add}) {
      Solo s({.psn_a = 100, .psn_b = 0x200, .access = c.qp});
      Buffer own(*s.b.device, s.b.pd, 64, c.region);
      Packet packet = s.packet(operation, 100, operation == Operation::write_only ? 8 : 0);
      packet.reth = {.va = own.region.addr, .r_key = own.region.rkey, .dma_length = 8};
      packet.atomic.va = own.region.addr;
      packet.atomic.r_key = own.region.rkey;
      EXPECT_EQ(s.answer(packet), s.ack(100, c.syndrome)) << wire::ib::opcode_text(packet.bth.opcode);
      EXPECT_EQ(own.memory, Bytes(64));
    }
}

// Of another protection domain, and one that was there once.
TEST(NicRoceErrors, StaleAndForeignKeys) {
  Solo s;
  const PdHandle other = s.b.device->alloc_pd().value();
  Buffer foreign(*s.b.device, other, 64);
  Packet packet = s.packet(Operation::write_only, 100, 8);
  packet.reth.va = foreign.region.addr;
  packet.reth.r_key = foreign.region.rkey;
  EXPECT_EQ(s.answer(packet), s.ack(100, 0x62));
  Solo t;
  ASSERT_TRUE(t.b.device->dereg_mr(t.memory.region.lkey));
  EXPECT_EQ(t.answer(t.packet(Operation::write_only, 100, 8)), t.ack(100, 0x62));
}

// IBA: without octets neither the key nor the address is looked at.
TEST(NicRoceErrors, NothingNeedsNoKey) {
  Solo s;
  for (const auto operation : {Operation::write_only, Operation::read_request}) {
    Packet packet = s.packet(operation, operation == Operation::write_only ? 100 : 101);
    packet.reth = {.va = 1, .r_key = 2, .dma_length = 0};
    const std::string said = s.answer(packet);
    EXPECT_EQ(said.substr(0, 2), operation == Operation::write_only ? "11" : "10");
  }
  EXPECT_EQ(s.b.qp->state(), QpState::rts);
}

TEST(NicRoceErrors, MoreReadsThanAgreed) {
  Solo s({.psn_a = 100, .psn_b = 0x200, .depth = 2});
  const auto read = [&](std::uint32_t psn) {
    Packet packet = s.packet(Operation::read_request, psn);
    packet.reth.dma_length = 4;
    s.inject(true, packet);
  };
  read(100);
  read(101);
  read(102);
  const std::string said = s.octets();
  EXPECT_EQ(said.substr(said.rfind(' ') + 1), s.ack(102, 0x61, 2));
  EXPECT_EQ(s.b.qp->state(), QpState::err);
  Solo none({.psn_a = 100, .psn_b = 0x200, .depth = 0});
  EXPECT_EQ(none.answer(none.packet(Operation::fetch_add, 100)), none.ack(100, 0x61));
}

// A region that goes while its Read is being answered: what is left is refused.
TEST(NicRoceErrors, ARegionThatGoesEndsTheAnswer) {
  Solo s;
  Packet packet = s.packet(Operation::read_request, 100);
  packet.reth.dma_length = 1024;
  s.inject(true, packet);
  std::array<std::uint8_t, packet_max> buffer;
  PacketTo to;
  ASSERT_TRUE(s.b.device->poll_transmit(s.now, to, buffer));
  ASSERT_TRUE(s.b.device->poll_transmit(s.now, to, buffer));
  ASSERT_TRUE(s.b.device->dereg_mr(s.memory.region.lkey));
  EXPECT_EQ(s.octets(), s.ack(102, 0x62, 1));  // the Read counts since it was accepted
  EXPECT_EQ(s.b.qp->state(), QpState::err);
}

TEST(NicRoceErrors, WithoutAReceiveThePeerWaits) {
  Solo s;
  EXPECT_EQ(s.answer(s.packet(Operation::send_only, 100, 4)), s.ack(100, 0x21));
  EXPECT_EQ(s.answer(s.packet(Operation::send_only, 101, 4)), "");  // behind it: silence
  EXPECT_EQ(s.answer(s.packet(Operation::send_only, 100, 4)), s.ack(100, 0x21));
  ASSERT_TRUE(s.b.recv(1, {s.memory.all()}));
  EXPECT_EQ(s.answer(s.packet(Operation::send_only, 100, 4)), s.ack(100, 0x1F, 1));
  // A Write with Immediate of several packets waits at its last one.
  Packet first = s.packet(Operation::write_first, 101, 256), last = s.packet(Operation::write_last_imm, 102, 8);
  first.reth.dma_length = 264;
  first.bth.ack_req = false;
  EXPECT_EQ(s.answer(first), "");
  EXPECT_EQ(s.answer(last), s.ack(102, 0x21, 1));
  ASSERT_TRUE(s.b.recv(2, {}));
  EXPECT_EQ(s.answer(last), s.ack(102, 0x1F, 2));
  const auto done = s.b.recvs();
  EXPECT_EQ(statuses(done), "1 success, 2 success");
  EXPECT_EQ(done.at(1).byte_len, 264U);
  EXPECT_EQ(s.b.device->counters().rnr_sent, 3U);
}

TEST(NicRoceErrors, RnrWaitsAsLongAsThePeerSaysAndNotForEver) {
  World w;
  w.connect({.rnr_retry = 3, .rnr_timer = 14});  // 1.28 ms
  Buffer from(*w.a.device, w.a.pd, 64), to(*w.b.device, w.b.pd, 64);
  std::vector<Instant> tries;
  w.filter = [&](std::size_t, Frame& frame) {
    if (frame.to_b) tries.push_back(w.now);
    return true;
  };
  ASSERT_TRUE(w.a.send(1, {from.sge(0, 8)}));
  ASSERT_TRUE(w.a.send(2, {from.sge(8, 8)}));
  w.run(3ms);
  ASSERT_TRUE(w.b.recv(1, {to.all()}));
  ASSERT_TRUE(w.b.recv(2, {to.all()}));
  w.run();
  EXPECT_EQ(statuses(w.a.sends()), "1 success, 2 success");
  ASSERT_GE(tries.size(), 3U);
  EXPECT_GE(tries[2] - tries[0], 1280us);
  EXPECT_LE(tries[2] - tries[0], 1300us);
  ASSERT_TRUE(w.a.send(3, {from.sge(0, 8)}));
  ASSERT_TRUE(w.a.send(4, {from.sge(0, 8)}));
  w.run();
  EXPECT_EQ(statuses(w.a.sends()), "3 receiver-not-ready retries exceeded, 4 work request flushed");
  EXPECT_EQ(w.a.qp->state(), QpState::err);
  EXPECT_EQ(w.b.qp->state(), QpState::rts);  // it is not to blame
}

// A late ACK during the wait is progress, but the peer is still not ready: the ACK timer stays off until the wait is over.
TEST(NicRoceErrors, NoAckTimerDuringAnRnrWait) {
  Solo s({.psn_a = 100, .psn_b = 0x200, .timeout = 8, .retry = 0});  // about a millisecond
  for (std::uint64_t id = 0; id < 3; ++id) ASSERT_TRUE(s.b.send(id, {s.memory.sge(0, 8)}));
  (void)s.octets();
  Packet answer = s.packet(Operation::acknowledge, 0x201);
  answer.aeth.syndrome = 0x20 | 31;  // 491.52 ms
  EXPECT_EQ(s.answer(answer), "");
  answer.aeth.syndrome = 0x1F;
  EXPECT_EQ(s.answer(answer), "");
  s.now += 400ms;
  s.b.device->handle_deadline(s.now);
  EXPECT_EQ(s.octets(), "");
  EXPECT_EQ(statuses(s.b.sends()), "0 success, 1 success");
  EXPECT_EQ(s.b.device->counters().timeouts, 0U);
  s.now += 100ms;
  s.b.device->handle_deadline(s.now);
  EXPECT_EQ(s.octets().substr(0, 2), "04");
  EXPECT_EQ(s.b.qp->state(), QpState::rts);
  s.now += 2ms;
  s.b.device->handle_deadline(s.now);  // it runs again
  EXPECT_EQ(statuses(s.b.sends()), "2 transport retries exceeded");
}

TEST(NicRoceErrors, RnrRetrySevenNeverEnds) {
  World w;
  w.connect({.rnr_retry = 7, .rnr_timer = 10});
  Buffer from(*w.a.device, w.a.pd, 64), to(*w.b.device, w.b.pd, 64);
  ASSERT_TRUE(w.a.send(1, {from.sge(0, 8)}));
  w.run(50ms);
  EXPECT_GT(w.b.device->counters().rnr_sent, 100U);
  ASSERT_TRUE(w.b.recv(1, {to.all()}));
  w.run();
  EXPECT_EQ(statuses(w.a.sends()), "1 success");
}

// retry_cnt is what it says: 7 too.
TEST(NicRoceErrors, RetriesEnd) {
  for (const std::uint8_t retry : {std::uint8_t{0}, std::uint8_t{1}, std::uint8_t{3}, std::uint8_t{7}}) {
    World w;
    w.connect({.timeout = 4, .retry = retry});  // 65 us
    Buffer from(*w.a.device, w.a.pd, 64);
    std::size_t tries = 0;
    w.filter = [&](std::size_t, Frame&) { return ++tries, false; };
    ASSERT_TRUE(w.a.send(1, {from.sge(0, 8)}));
    ASSERT_TRUE(w.a.recv(9, {from.all()}));
    w.run();
    EXPECT_EQ(tries, std::size_t{1} + retry);
    EXPECT_EQ(statuses(w.a.sends()), "1 transport retries exceeded");
    EXPECT_EQ(statuses(w.a.recvs()), "9 work request flushed");
    EXPECT_EQ(w.a.notices(), (std::vector{QueuePairEvent::Kind::qp_fatal}));
    EXPECT_EQ(w.now - Instant{}, (retry + 1) * wire::ib::timeout_of(4));
  }
}

// Progress gives the retries back: ten losses in a row, each of another packet, with two retries.
TEST(NicRoceErrors, ProgressGivesRetriesBack) {
  World w;
  w.connect({.timeout = 4, .retry = 2});
  Buffer from(*w.a.device, w.a.pd, 4096), to(*w.b.device, w.b.pd, 4096);
  std::map<std::uint32_t, int> seen;
  w.filter = [&](std::size_t, Frame& frame) { return !frame.to_b || ++seen[frame.parsed().bth.psn] > 2; };
  const Sge sge = from.all();
  from.fill(1);
  ASSERT_TRUE(w.a.qp->post_send({.opcode = SendWr::Opcode::rdma_write,
                                 .sges = {&sge, 1},
                                 .remote_addr = to.region.addr,
                                 .rkey = to.region.rkey}));
  w.run();
  EXPECT_EQ(statuses(w.a.sends()), "0 success");
  EXPECT_EQ(from.memory, to.memory);
}

TEST(NicRoceErrors, TimeoutZeroWaitsForEver) {
  World w;
  w.connect({.timeout = 0});
  Buffer from(*w.a.device, w.a.pd, 64);
  w.filter = [&](std::size_t, Frame&) { return false; };
  ASSERT_TRUE(w.a.send(1, {from.sge(0, 8)}));
  w.run(1000s);
  EXPECT_EQ(w.a.qp->state(), QpState::rts);
  EXPECT_EQ(w.a.device->next_deadline(), never);
}

// The requester's side of a NAK: what was before it is done, the one that it names fails, the rest is flushed.
TEST(NicRoceErrors, NaksEndTheRequestTheyName) {
  struct Case {
    std::uint8_t syndrome;
    const char* status;
  };
  for (const Case& c : {Case{0x61, "remote invalid request error"}, Case{0x62, "remote access error"},
                        Case{0x63, "remote operation error"}}) {
    Solo s;
    for (std::uint64_t id = 1; id <= 3; ++id) ASSERT_TRUE(s.b.send(id, {s.memory.sge(0, 8)}));
    (void)s.octets();
    Packet nak = s.packet(Operation::acknowledge, 0x201);
    nak.bth.ack_req = false;
    nak.aeth.syndrome = c.syndrome;
    EXPECT_EQ(s.answer(nak), "");
    EXPECT_EQ(statuses(s.b.sends()), std::string("1 success, 2 ") + c.status + ", 3 work request flushed");
    EXPECT_EQ(s.b.qp->state(), QpState::err);
  }
}

// Answers that fit nothing change nothing.
TEST(NicRoceErrors, AnswersToNothing) {
  Solo s;
  const auto answer = [&](Operation operation, std::uint32_t psn, std::uint8_t syndrome = 0x1F,
                          std::size_t length = 0) {
    Packet packet = s.packet(operation, psn, length);
    packet.aeth.syndrome = syndrome;
    s.inject(true, packet);
  };
  answer(Operation::acknowledge, 0x200);
  answer(Operation::acknowledge, 0x1FF, 0x62);
  ASSERT_TRUE(s.b.send(1, {s.memory.sge(0, 600)}));
  (void)s.octets();
  answer(Operation::acknowledge, 0x203);                  // one that was not sent
  answer(Operation::read_response_only, 0x200, 0x1F, 4);  // no Read
  answer(Operation::atomic_acknowledge, 0x201);           // no Atomic
  answer(Operation::acknowledge, 0x202, 0x40);            // a reserved syndrome
  answer(Operation::acknowledge, 0x202, 0x64);            // of RD
  answer(Operation::acknowledge, 0x202, 0x7F);            // a reserved NAK
  EXPECT_EQ(statuses(s.b.sends()), "-");
  EXPECT_EQ(s.b.device->counters().dropped_response, 8U);
  answer(Operation::acknowledge, 0x201);
  EXPECT_EQ(statuses(s.b.sends()), "-");  // a part
  answer(Operation::acknowledge, 0x202);
  EXPECT_EQ(statuses(s.b.sends()), "1 success");
}

TEST(NicRoceErrors, ReadResponsesThatDoNotFit) {
  struct Case {
    Operation operation;
    std::size_t length;
  };
  for (const Case& c : {Case{Operation::read_response_middle, 256}, Case{Operation::read_response_first, 252},
                        Case{Operation::read_response_only, 256}, Case{Operation::read_response_last, 256}}) {
    Solo s;
    const Sge sge = s.memory.sge(0, 600);
    ASSERT_TRUE(s.b.qp->post_send({.wr_id = 1, .opcode = SendWr::Opcode::rdma_read, .sges = {&sge, 1}}));
    (void)s.octets();
    EXPECT_EQ(s.answer(s.packet(c.operation, 0x200, c.length)), "");
    EXPECT_EQ(statuses(s.b.sends()), "1 bad response") << c.length;
    EXPECT_EQ(s.b.qp->state(), QpState::err);
    EXPECT_EQ(s.memory.memory, Bytes(4096));
  }
}

// Everything that is checked before the queue pair: the packet is dropped, counted, and nothing else happens.
TEST(NicRoceErrors, DroppedBeforeTheQueuePair) {
  Solo s;
  ASSERT_TRUE(s.b.recv(1, {s.memory.all()}));
  const PacketFrom from{.source = s.a.device->gid(0), .destination = s.b.device->gid(0)};
  const auto feed = [&](const std::function<void(Packet&)>& change, PacketFrom where) {
    Packet packet = s.packet(Operation::send_only, 100, 4);
    if (change) change(packet);
    Bytes octets(packet.size());
    packet.emit(octets);
    s.b.device->handle_packet(s.now, where, octets);
    EXPECT_EQ(s.octets(), "");
  };
  const Counters& counters = s.b.device->counters();
  feed([](Packet& p) { p.bth.tver = 1; }, from);
  EXPECT_EQ(counters.dropped_version, 1U);
  feed([](Packet& p) { p.bth.dest_qpn = 0; }, from);
  feed([](Packet& p) { p.bth.dest_qpn = 12345; }, from);
  feed([](Packet& p) { p.bth.opcode |= static_cast<std::uint8_t>(Service::uc); }, from);
  EXPECT_EQ(counters.dropped_qpn, 3U);
  feed([](Packet& p) { p.bth.opcode = 0x15; }, from);
  feed([](Packet& p) { p.bth.opcode = 0xE4; }, from);
  EXPECT_EQ(counters.dropped_opcode, 2U);
  feed([](Packet& p) { p.bth.p_key = 0x8001; }, from);
  EXPECT_EQ(counters.dropped_p_key, 1U);
  PacketFrom other = from;
  other.source = gid_v4(77);
  feed({}, other);
  other = from;
  other.destination = gid_v4(77);
  feed({}, other);
  EXPECT_EQ(counters.dropped_address, 2U);
  s.b.device->handle_packet(s.now, from, Bytes(15));
  EXPECT_EQ(counters.dropped_malformed, 1U);
  EXPECT_EQ(statuses(s.b.recvs()), "-");
  feed(
      [](Packet& p) {
        p.bth.p_key = 0x7FFF;
        p.bth.ack_req = false;
      },
      from);  // a limited member is heard
  EXPECT_EQ(statuses(s.b.recvs()), "1 success");
}

// As Linux's drivers derive it: from the flow label, or, where that is 0, from both queue pairs' numbers.
TEST(NicRoceErrors, TheUdpSourcePortIsOfTheFlow) {
  Solo solo;
  ASSERT_TRUE(solo.b.qp->post_send({.opcode = SendWr::Opcode::send}));
  std::array<std::uint8_t, packet_max> buffer;
  PacketTo to;
  ASSERT_TRUE(solo.b.device->poll_transmit(solo.now, to, buffer));
  const std::uint32_t own = solo.b.qp->qp_num(), peer = solo.a.qp->qp_num();
  EXPECT_EQ(to.source_port, wire::ib::roce_source_port(to.flow_label, own, peer));
  EXPECT_GE(to.source_port, 0xC000);
}

}  // namespace
}  // namespace parley::nic::roce::test::roce_errors_test
