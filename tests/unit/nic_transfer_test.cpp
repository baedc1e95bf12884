// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Messages from one queue pair to another: they arrive once, in order, unchanged, however TCP cuts the stream.
#include "nic_test_pair.hpp"

namespace parley::nic::iwarp::test {
namespace {

TEST(NicTransfer, SendReachesThePostedReceive) {
  Pair p;
  Buffer from(*p.a.device, p.a.pd, 64), to(*p.b.device, p.b.pd, 100);
  from.fill(1);
  p.connect();
  ASSERT_TRUE(p.b.recv(7, {to.all()}).has_value());
  ASSERT_TRUE(p.a.send(3, {from.all()}).has_value());
  p.run();
  const auto sent = p.a.sends(), received = p.b.recvs();
  ASSERT_EQ(sent.size(), 1U);
  EXPECT_EQ(sent[0].wr_id, 3U);
  EXPECT_EQ(sent[0].status, WcStatus::success);
  ASSERT_EQ(received.size(), 1U);
  EXPECT_EQ(received[0].wr_id, 7U);
  EXPECT_EQ(received[0].opcode, WcOpcode::recv);
  EXPECT_EQ(received[0].byte_len, 64U);
  EXPECT_TRUE(std::equal(from.memory.begin(), from.memory.end(), to.memory.begin()));
}

TEST(NicTransfer, WriteThenReadBack) {
  Pair p;
  Buffer from(*p.a.device, p.a.pd, 100000), remote(*p.b.device, p.b.pd, 100000), back(*p.a.device, p.a.pd, 100000);
  from.fill(2);
  p.connect();
  const Sge source = from.all(), sink = back.all();
  ASSERT_TRUE(p.a.qp
                  ->post_send({.wr_id = 1,
                               .opcode = SendWr::Opcode::rdma_write,
                               .sges = {&source, 1},
                               .remote_stag = remote.region.stag,
                               .remote_to = remote.region.to})
                  .has_value());
  ASSERT_TRUE(p.a.qp
                  ->post_send({.wr_id = 2,
                               .opcode = SendWr::Opcode::rdma_read,
                               .sges = {&sink, 1},
                               .remote_stag = remote.region.stag,
                               .remote_to = remote.region.to})
                  .has_value());
  p.run();
  const auto done = p.a.sends();
  ASSERT_EQ(done.size(), 2U);
  EXPECT_EQ(done[0].status, WcStatus::success);
  EXPECT_EQ(done[1].status, WcStatus::success);
  EXPECT_EQ(done[1].byte_len, 100000U);
  EXPECT_EQ(remote.memory, from.memory);
  EXPECT_EQ(back.memory, from.memory);
}

}  // namespace
}  // namespace parley::nic::iwarp::test
