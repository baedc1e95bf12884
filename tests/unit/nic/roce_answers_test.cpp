// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The responder's queue of answers: its depth that changes, Reads that are asked for again, regions that go meanwhile.
#include "roce_solo.hpp"

namespace parley::nic::roce::test::roce_answers_test {
namespace {

using wire::ib::Packet;
using Kind = QueuePairEvent::Kind;

struct Answers : Solo {
  using Solo::Solo;

  /// A Read of `length` octets of `region`, from `offset` on.
  Packet read(std::uint32_t psn, std::uint32_t length, std::size_t offset, const MemoryRegion& region) {
    Packet out = packet(Operation::read_request, psn);
    out.reth = {.va = region.addr + offset, .r_key = region.rkey, .dma_length = length};
    return out;
  }
  Packet read(std::uint32_t psn, std::uint32_t length, std::size_t offset = 0) {
    return read(psn, length, offset, memory.region);
  }
  std::string answers(const Packet& packet) {
    inject(true, packet);
    return sends();
  }
  void depth(std::uint16_t depth) {
    const auto changed = b.qp->modify({.max_dest_rd_atomic = depth});
    ASSERT_TRUE(changed) << changed.error().message();
  }
  const Counters& counters() const { return b.device->counters(); }
};

// max_dest_rd_atomic may be set in SQD, where requests of the peer are still answered.
TEST(NicRoceAnswers, DepthFromNoneInSqd) {
  Answers s({.psn_a = 100, .psn_b = 0x200, .depth = 0});
  ASSERT_TRUE(s.b.qp->modify({.state = QpState::sqd}));
  s.depth(4);
  EXPECT_EQ(s.answers(s.read(100, 4)), "data 100");
  EXPECT_EQ(s.answers(s.packet(Operation::fetch_add, 101)), "data 101");
  EXPECT_EQ(s.answers(s.packet(Operation::fetch_add, 101)), "data 101");  // it is remembered
  EXPECT_EQ(s.counters().dropped_duplicate, 0U);
  EXPECT_EQ(s.b.qp->state(), QpState::sqd);
}

TEST(NicRoceAnswers, DeeperInSqd) {
  Answers s({.psn_a = 100, .psn_b = 0x200, .depth = 1});
  EXPECT_EQ(s.answers(s.read(100, 4)), "data 100");
  ASSERT_TRUE(s.b.qp->modify({.state = QpState::sqd}));
  s.depth(16);
  for (std::uint32_t psn = 101; psn < 116; ++psn) s.inject(true, s.read(psn, 4));
  for (std::uint32_t psn = 100; psn < 116; ++psn) s.inject(true, s.read(psn, 4));  // all of them again
  EXPECT_EQ(s.sends().substr(0, 18), "data 100, data 101");
  EXPECT_EQ(s.counters().dropped_busy, 0U);
  EXPECT_EQ(s.counters().dropped_duplicate, 0U);
  for (std::uint32_t psn = 116; psn < 133; ++psn) s.inject(true, s.read(psn, 4));
  const std::string said = s.sends();
  EXPECT_EQ(said.substr(said.rfind(',')), ", NAK 132");  // the seventeenth
}

TEST(NicRoceAnswers, ShallowerInSqdForgetsTheOldestAndAnswersAll) {
  Answers s({.psn_a = 100, .psn_b = 0x200, .depth = 4});
  for (std::uint32_t psn = 100; psn < 104; ++psn) s.inject(true, s.read(psn, 4));
  ASSERT_TRUE(s.b.qp->modify({.state = QpState::sqd}));
  s.depth(1);
  EXPECT_EQ(s.sends(), "data 100, data 101, data 102, data 103");
  EXPECT_EQ(s.answers(s.read(102, 4)), "-");
  EXPECT_EQ(s.counters().dropped_duplicate, 1U);
  EXPECT_EQ(s.answers(s.read(103, 4)), "data 103");
  EXPECT_EQ(s.answers(s.read(104, 4)), "data 104");
  s.depth(0);
  EXPECT_EQ(s.answers(s.read(104, 4)), "-");
  EXPECT_EQ(s.answers(s.read(105, 4)), "NAK 105");
}

// A Read that was answered comes again, late, and its region is gone: nobody waits for this answer.
TEST(NicRoceAnswers, ARepeatedReadWhoseRegionIsGoneSaysNothing) {
  Answers s;
  Buffer own(*s.b.device, s.b.pd, 1024);
  ASSERT_TRUE(s.b.recv(1, {s.memory.all()}));
  EXPECT_EQ(s.answers(s.read(100, 1024, 0, own.region)), "data 100, data 101, data 102, data 103");
  s.inject(true, s.read(100, 1024, 0, own.region));
  EXPECT_EQ(s.sends(2), "data 100, data 101");
  s.inject(true, s.packet(Operation::send_only, 104, 4));
  ASSERT_TRUE(s.b.device->dereg_mr(own.region.lkey));
  EXPECT_EQ(s.octets(), s.ack(104, 0x1F, 2));
  EXPECT_EQ(statuses(s.b.recvs()), "1 success");
  EXPECT_EQ(s.b.qp->state(), QpState::rts);
  EXPECT_EQ(s.b.notices(), (std::vector<Kind>{}));
  EXPECT_EQ(s.counters().dropped_duplicate, 1U);
  EXPECT_EQ(s.counters().naks_sent, 0U);
  EXPECT_EQ(s.answers(s.read(105, 4)), "data 105");
}

// Answers still go out in ERR. One that fails there ends with its NAK, but the queue pair has failed already.
TEST(NicRoceAnswers, AFailureInErrIsToldOnce) {
  Answers s;
  Buffer own(*s.b.device, s.b.pd, 1024);
  s.inject(true, s.read(100, 1024, 0, own.region));
  s.inject(true, s.packet(Operation::send_middle, 104, 256));
  EXPECT_EQ(s.b.qp->state(), QpState::err);
  EXPECT_EQ(s.b.notices(), (std::vector{Kind::qp_fatal}));
  EXPECT_EQ(s.sends(1), "data 100");
  ASSERT_TRUE(s.b.device->dereg_mr(own.region.lkey));
  EXPECT_EQ(s.sends(), "NAK 101");
  EXPECT_EQ(s.b.notices(), (std::vector<Kind>{}));
}

// ERR asked for: what waited is gone, and the device does not say that something is to be sent.
TEST(NicRoceAnswers, NothingIsToBeSentAfterErr) {
  Answers s;
  s.inject(true, s.read(100, 4));
  EXPECT_TRUE(s.b.device->has_transmit());
  ASSERT_TRUE(s.b.qp->modify({.state = QpState::err}));
  EXPECT_FALSE(s.b.device->has_transmit());
  EXPECT_EQ(s.sends(), "-");
}

// The last packet of Read A is lost while B's answer is under way. The requester asks for both again, and both come in order.
TEST(NicRoceAnswers, TwoReadsAskedForAgainComeInOrder) {
  Answers s({.psn_a = 100, .psn_b = 0x200, .depth = 2});
  s.inject(true, s.read(100, 1024));
  s.inject(true, s.read(104, 1024));
  EXPECT_EQ(s.sends(5), "data 100, data 101, data 102, data 103, data 104");
  s.inject(true, s.read(103, 256, 768));
  s.inject(true, s.read(104, 1024));
  EXPECT_EQ(s.sends(), "data 103, data 104, data 105, data 106, data 107");
  // Neither waits any more: two others may.
  s.inject(true, s.read(108, 4));
  s.inject(true, s.read(109, 4));
  s.inject(true, s.read(110, 4));
  EXPECT_EQ(s.sends(), "data 108, data 109, NAK 110");
}

// Three of them, and the requester goes back twice.
TEST(NicRoceAnswers, ThreeReadsAskedForAgainTwiceComeInOrder) {
  Answers s;
  ASSERT_TRUE(s.b.recv(1, {s.memory.all()}));
  for (const std::uint32_t psn : {100U, 102U, 104U}) s.inject(true, s.read(psn, 512));
  EXPECT_EQ(s.sends(3), "data 100, data 101, data 102");
  for (int i = 0; i < 2; ++i)
    for (const std::uint32_t psn : {100U, 102U, 104U}) s.inject(true, s.read(psn, 512));
  EXPECT_EQ(s.sends(), "data 100, data 101, data 102, data 103, data 104, data 105");
}

// A Read that the network repeats while it is answered begins anew in its place, ahead of what was answered after it.
TEST(NicRoceAnswers, AReadUnderWayKeepsItsPlace) {
  Answers s;
  ASSERT_TRUE(s.b.recv(1, {s.memory.all()}));
  s.inject(true, s.read(100, 512));
  s.inject(true, s.packet(Operation::send_only, 102, 4));
  s.inject(true, s.read(103, 512));
  EXPECT_EQ(s.sends(1), "data 100");
  s.inject(true, s.read(100, 512));
  EXPECT_EQ(s.sends(), "data 100, data 101, ACK 102, data 103, data 104");
}

}  // namespace
}  // namespace parley::nic::roce::test::roce_answers_test
