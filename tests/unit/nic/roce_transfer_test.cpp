// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// RC: every operation, of every size around the path MTU, moves its data and completes on both sides.
#include "roce_link.hpp"

namespace parley::nic::roce::test::roce_transfer_test {
namespace {

struct Rc : World {
  Buffer from{*a.device, a.pd, 100'000};
  Buffer to{*b.device, b.pd, 100'000};

  explicit Rc(const Terms& setup = {}) {
    connect(setup);
    from.fill(1);
    to.fill(2);
  }
  /// A Write or Read of the buffers' beginnings.
  Result<void> post(SendWr::Opcode opcode, std::size_t length, std::uint32_t imm = 0) {
    const Sge sge = from.sge(0, length);
    return a.qp->post_send({.wr_id = 7,
                            .opcode = opcode,
                            .sges = {&sge, 1},
                            .remote_addr = to.region.addr,
                            .rkey = to.region.rkey,
                            .imm_data = imm});
  }
  bool same(std::size_t length) const {
    return std::equal(from.memory.begin(), from.memory.begin() + static_cast<std::ptrdiff_t>(length),
                      to.memory.begin());
  }
};

const std::size_t sizes[] = {0, 1, 3, 4, 255, 256, 257, 511, 512, 513, 1024, 5000, 65536, 100'000};

TEST(NicRoceTransfer, SendsOfEverySize) {
  for (const std::size_t size : sizes) {
    Rc w;
    const Bytes before = w.to.memory;
    ASSERT_TRUE(w.b.recv(3, {w.to.sge(0, 10), w.to.sge(10, w.to.memory.size() - 10)}));
    ASSERT_TRUE(w.a.send(4, {w.from.sge(0, size / 2), w.from.sge(size / 2, size - size / 2)}));
    w.run();
    const auto sent = w.a.sends(), received = w.b.recvs();
    ASSERT_EQ(statuses(sent), "4 success") << size;
    ASSERT_EQ(statuses(received), "3 success") << size;
    EXPECT_EQ(received[0].byte_len, size);
    EXPECT_EQ(received[0].qp_num, w.b.qp->qp_num());
    EXPECT_EQ(received[0].opcode, WcOpcode::recv);
    EXPECT_FALSE(received[0].with_imm || received[0].with_inv || received[0].solicited);
    EXPECT_TRUE(w.same(size)) << size;
    EXPECT_TRUE(std::equal(before.begin() + static_cast<std::ptrdiff_t>(size), before.end(),
                           w.to.memory.begin() + static_cast<std::ptrdiff_t>(size)));
    EXPECT_EQ(w.a.device->counters().retries, 0U);
  }
}

TEST(NicRoceTransfer, WritesAndReadsOfEverySize) {
  for (const auto opcode : {SendWr::Opcode::rdma_write, SendWr::Opcode::rdma_read})
    for (const std::size_t size : sizes) {
      Rc w;
      const bool read = opcode == SendWr::Opcode::rdma_read;
      const Bytes theirs = w.to.memory;
      ASSERT_TRUE(w.post(opcode, size));
      w.run();
      const auto sent = w.a.sends();
      ASSERT_EQ(statuses(sent), "7 success") << size;
      EXPECT_EQ(sent[0].opcode, read ? WcOpcode::rdma_read : WcOpcode::rdma_write);
      EXPECT_EQ(sent[0].byte_len, read ? size : 0U);
      EXPECT_TRUE(w.same(size)) << size;
      if (read) {
        EXPECT_EQ(w.to.memory, theirs);
      }
      EXPECT_EQ(statuses(w.b.recvs()), "-");
      EXPECT_EQ(w.a.device->counters().retries, 0U);
    }
}

TEST(NicRoceTransfer, ImmediatesOfEverySize) {
  for (const auto opcode : {SendWr::Opcode::send_with_imm, SendWr::Opcode::rdma_write_with_imm})
    for (const std::size_t size : sizes) {
      Rc w;
      ASSERT_TRUE(w.b.recv(3, {w.to.all()}));
      ASSERT_TRUE(w.post(opcode, size, 0x01020304));
      w.run();
      ASSERT_EQ(statuses(w.a.sends()), "7 success") << size;
      const auto received = w.b.recvs();
      ASSERT_EQ(statuses(received), "3 success") << size;
      EXPECT_EQ(received[0].opcode,
                opcode == SendWr::Opcode::send_with_imm ? WcOpcode::recv : WcOpcode::recv_rdma_with_imm);
      EXPECT_TRUE(received[0].with_imm);
      EXPECT_EQ(received[0].imm_data, 0x01020304U);
      EXPECT_EQ(received[0].byte_len, size);
      EXPECT_TRUE(w.same(size)) << size;
    }
}

TEST(NicRoceTransfer, SendWithInvalidateClosesTheRegion) {
  for (const std::size_t size : {std::size_t{8}, std::size_t{700}}) {
    Rc w;
    Buffer given(*w.b.device, w.b.pd, 64);
    ASSERT_TRUE(w.b.recv(3, {w.to.all()}));
    const Sge sge = w.from.sge(0, size);
    ASSERT_TRUE(w.a.qp->post_send({.wr_id = 4,
                                   .opcode = SendWr::Opcode::send_with_inv,
                                   .sges = {&sge, 1},
                                   .solicited = true,
                                   .invalidate_rkey = given.region.rkey}));
    w.run();
    const auto received = w.b.recvs();
    ASSERT_EQ(statuses(received), "3 success");
    EXPECT_TRUE(received[0].with_inv);
    EXPECT_TRUE(received[0].solicited);
    EXPECT_EQ(received[0].invalidated_rkey, given.region.rkey);
    EXPECT_TRUE(w.same(size));
    // A Write to it is refused now.
    const Sge eight = w.from.sge(0, 8);
    ASSERT_TRUE(w.a.qp->post_send({.wr_id = 5,
                                   .opcode = SendWr::Opcode::rdma_write,
                                   .sges = {&eight, 1},
                                   .remote_addr = given.region.addr,
                                   .rkey = given.region.rkey}));
    w.run();
    EXPECT_EQ(statuses(w.a.sends()), "4 success, 5 remote access error");
  }
}

TEST(NicRoceTransfer, AtomicsAddAndSwap) {
  Rc w;
  std::uint64_t value = 40;
  std::memcpy(w.to.memory.data(), &value, 8);
  const auto atomic = [&](SendWr::Opcode opcode, std::uint64_t compare_add, std::uint64_t swap) {
    const Sge sge = w.from.sge(16, 8);
    EXPECT_TRUE(w.a.qp->post_send({.wr_id = 7,
                                   .opcode = opcode,
                                   .sges = {&sge, 1},
                                   .remote_addr = w.to.region.addr,
                                   .rkey = w.to.region.rkey,
                                   .compare_add = compare_add,
                                   .swap = swap}));
    w.run();
    const auto done = w.a.sends();
    EXPECT_EQ(statuses(done), "7 success");
    EXPECT_EQ(done.at(0).byte_len, 8U);
    std::uint64_t original = 0;
    std::memcpy(&original, w.from.memory.data() + 16, 8);
    std::memcpy(&value, w.to.memory.data(), 8);
    return original;
  };
  EXPECT_EQ(atomic(SendWr::Opcode::atomic_fetch_and_add, 2, 0), 40U);
  EXPECT_EQ(value, 42U);
  EXPECT_EQ(atomic(SendWr::Opcode::atomic_cmp_and_swp, 41, 5), 42U);
  EXPECT_EQ(value, 42U);
  EXPECT_EQ(atomic(SendWr::Opcode::atomic_cmp_and_swp, 42, 0x1122334455667788), 42U);
  EXPECT_EQ(value, 0x1122334455667788U);
  EXPECT_EQ(atomic(SendWr::Opcode::atomic_fetch_and_add, ~0ULL, 0), 0x1122334455667788U);
  EXPECT_EQ(value, 0x1122334455667787U);
}

// Both ways at once, many at a time, across the wrap of the PSNs.
TEST(NicRoceTransfer, ManyAtOnceInOrder) {
  Rc w({.psn_a = 0xFFFFFA, .psn_b = 0xFFFFFE});
  for (std::uint64_t i = 0; i < 60; ++i) {
    ASSERT_TRUE(w.b.recv(i, {w.to.sge(i * 1000, 1000)}));
    ASSERT_TRUE(w.a.send(i, {w.from.sge(i * 1000, 1000)}));
    const Sge sge = w.to.sge(70'000 + i * 100, 100);
    ASSERT_TRUE(w.b.qp->post_send({.wr_id = i,
                                   .opcode = i % 2 == 0 ? SendWr::Opcode::rdma_read : SendWr::Opcode::rdma_write,
                                   .sges = {&sge, 1},
                                   .signaled = i % 3 != 0,
                                   .remote_addr = w.from.region.addr + 70'000 + i * 100,
                                   .rkey = w.from.region.rkey}));
  }
  w.run();
  const auto sent = w.a.sends(), received = w.b.recvs(), theirs = w.b.sends();
  ASSERT_EQ(sent.size(), 60U);
  ASSERT_EQ(received.size(), 60U);
  EXPECT_EQ(theirs.size(), 40U);
  for (std::uint64_t i = 0; i < 60; ++i) {
    EXPECT_EQ(sent[i].wr_id, i);
    EXPECT_EQ(received[i].wr_id, i);
    EXPECT_EQ(received[i].byte_len, 1000U);
  }
  EXPECT_TRUE(w.same(60'000));
  EXPECT_TRUE(std::equal(w.to.memory.begin() + 70'000, w.to.memory.begin() + 76'000, w.from.memory.begin() + 70'000));
  EXPECT_EQ(w.a.device->counters().retries + w.b.device->counters().retries, 0U);
}

}  // namespace
}  // namespace parley::nic::roce::test::roce_transfer_test
