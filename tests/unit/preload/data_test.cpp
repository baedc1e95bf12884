// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// What a program for libibverbs moves: every operation, by either way to post, and by queue pairs of each type.
#include <arpa/inet.h>

#include <thread>

#include "tests/unit/hang_limit.hpp"
#include "tests/unit/preload/ends.hpp"

namespace parley::preload_test {
namespace {

TEST_F(Verbs, SendsAMessageWithImmediateData) {
  const auto [a, b] = pair(IBV_QPT_RC);
  set(0, "hello");
  ASSERT_EQ(receive(b, 7, 1000, 100), 0);
  ibv_sge sge = piece(0, 5);
  ibv_send_wr wr = request(IBV_WR_SEND_WITH_IMM, sge);
  wr.imm_data = htonl(0x01020304);
  ASSERT_EQ(post(a, wr), 0);
  bool sent = false, received = false;
  for (const ibv_wc& wc : completions(2)) {
    EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
    if (wc.opcode == IBV_WC_SEND) sent = wc.wr_id == 1 && wc.qp_num == a->qp_num;
    if (wc.opcode != IBV_WC_RECV) continue;
    received = wc.wr_id == 7 && wc.byte_len == 5 && wc.qp_num == b->qp_num;
    EXPECT_EQ(wc.wc_flags, static_cast<unsigned>(IBV_WC_WITH_IMM));
    EXPECT_EQ(ntohl(wc.imm_data), 0x01020304U);
  }
  EXPECT_TRUE(sent && received);
  EXPECT_EQ(text(1000, 5), "hello");
}

TEST_F(Verbs, WritesReadsAndAddsInThePeersMemory) {
  const auto [a, b] = pair(IBV_QPT_RC);
  set(0, "to be written");
  ibv_sge from = piece(0, 13), back = piece(2000, 13), old = piece(3000, 8);
  ibv_send_wr write = request(IBV_WR_RDMA_WRITE, from, 1), read = request(IBV_WR_RDMA_READ, back, 2);
  ibv_send_wr add = request(IBV_WR_ATOMIC_FETCH_AND_ADD, old, 3), swap = request(IBV_WR_ATOMIC_CMP_AND_SWP, old, 4);
  const auto there = [&](std::size_t at) { return reinterpret_cast<std::uintptr_t>(memory_.data() + at); };
  write.wr.rdma = read.wr.rdma = {.remote_addr = there(1000), .rkey = mr_->rkey};
  add.wr.atomic = {.remote_addr = there(4000), .compare_add = 5, .swap = 0, .rkey = mr_->rkey};
  swap.wr.atomic = {.remote_addr = there(4000), .compare_add = 5, .swap = 9, .rkey = mr_->rkey};
  for (const ibv_send_wr& wr : {write, read, add, swap}) ASSERT_EQ(post(a, wr), 0);
  const std::vector<ibv_wc> done = completions(4);
  const ibv_wc_opcode opcodes[] = {IBV_WC_RDMA_WRITE, IBV_WC_RDMA_READ, IBV_WC_FETCH_ADD, IBV_WC_COMP_SWAP};
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(done[i].status, IBV_WC_SUCCESS) << i;
    EXPECT_EQ(done[i].opcode, opcodes[i]);
  }
  EXPECT_EQ(text(2000, 13), "to be written");
  std::uint64_t value = 0, before = 0;
  std::memcpy(&value, memory_.data() + 4000, 8);
  std::memcpy(&before, memory_.data() + 3000, 8);
  EXPECT_EQ(value, 9U);
  EXPECT_EQ(before, 5U);  // what the swap found
}

TEST_F(Verbs, TheThreadServesAPeerWhileTheProgramWaitsForMemory) {
  const auto [a, b] = pair(IBV_QPT_RC);
  ibv_sge sge = piece(0, 1);
  memory_[0] = 42;
  ibv_send_wr wr = request(IBV_WR_RDMA_WRITE, sge);
  wr.wr.rdma = {.remote_addr = reinterpret_cast<std::uintptr_t>(memory_.data() + 100), .rkey = mr_->rkey};
  ASSERT_EQ(post(a, wr), 0);
  const volatile std::uint8_t& last = memory_[100];
  const auto end = std::chrono::steady_clock::now() + hang_limit;
  while (last != 42 && std::chrono::steady_clock::now() < end) {
  }
  EXPECT_EQ(last, 42);
  EXPECT_EQ(completions(1)[0].status, IBV_WC_SUCCESS);
}

TEST_F(Verbs, InlineOctetsMayChangeOnceTheyArePosted) {
  const auto [a, b] = pair(IBV_QPT_RC);
  // Twice as many as the queue has room for: each slot of the ring is used again.
  for (int i = 0; i < 16; ++i) {
    char local[64];
    std::snprintf(local, sizeof local, "message %02d", i);
    ASSERT_EQ(receive(b, 100, 1000 + 100 * static_cast<std::size_t>(i), 100), 0);
    ibv_sge sge{.addr = reinterpret_cast<std::uintptr_t>(local), .length = 10, .lkey = 0};  // no region
    ibv_send_wr wr = request(IBV_WR_SEND, sge);
    wr.send_flags |= IBV_SEND_INLINE;
    ASSERT_EQ(post(a, wr), 0);
    std::memset(local, 'x', sizeof local);
    for (const ibv_wc& wc : completions(2)) EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
    EXPECT_EQ(text(1000 + 100 * static_cast<std::size_t>(i), 10), fmt::format("message {:02}", i));
  }
  ibv_sge sge = piece(0, 65);
  ibv_send_wr wr = request(IBV_WR_SEND, sge);
  wr.send_flags |= IBV_SEND_INLINE;
  EXPECT_EQ(post(a, wr), EINVAL);  // more than max_inline_data
}

TEST_F(Verbs, AFullSendQueueNamesTheRequestThatHasNoRoom) {
  ibv_qp* const qp = make(IBV_QPT_RC);
  to_rts(qp, 0x123456);  // nobody: nothing is acknowledged
  std::vector<ibv_send_wr> all(10);
  ibv_sge sge = piece(0, 4);
  for (std::size_t i = 0; i < all.size(); ++i) {
    all[i] = request(IBV_WR_SEND, sge, i);
    if (i % 2 == 0) all[i].send_flags |= IBV_SEND_INLINE;
    all[i].next = i + 1 < all.size() ? &all[i + 1] : nullptr;
  }
  ibv_send_wr* bad = nullptr;
  EXPECT_EQ(ibv_post_send(qp, &all[0], &bad), ENOMEM);
  EXPECT_EQ(bad, &all[8]);
}

TEST_F(Verbs, TheExtendedQueuePairPostsWhatWasBuilt) {
  ibv_qp_init_attr_ex init{};
  const ibv_qp_init_attr plain = init_of(IBV_QPT_RC);
  init.qp_type = plain.qp_type;
  init.send_cq = init.recv_cq = cq_;
  init.cap = plain.cap;
  init.pd = pd_;
  init.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
  init.send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_RDMA_WRITE;
  ibv_qp* const a = ibv_create_qp_ex(context_, &init);
  ASSERT_NE(a, nullptr);
  qps_.push_back(a);
  ibv_qp* const b = make(IBV_QPT_RC);
  EXPECT_EQ(ibv_qp_to_qp_ex(b), nullptr);
  to_rts(a, b->qp_num);
  to_rts(b, a->qp_num);
  ASSERT_EQ(receive(b, 10, 1000, 100), 0);
  ASSERT_EQ(receive(b, 11, 1100, 100), 0);
  set(0, "from a region");
  char carried[] = "carried";
  ibv_qp_ex* const qp = ibv_qp_to_qp_ex(a);
  ibv_wr_start(qp);
  qp->wr_id = 1;
  qp->wr_flags = IBV_SEND_SIGNALED;
  ibv_wr_rdma_write(qp, mr_->rkey, reinterpret_cast<std::uintptr_t>(memory_.data() + 2000));
  ibv_wr_set_sge(qp, mr_->lkey, reinterpret_cast<std::uintptr_t>(memory_.data()), 13);
  qp->wr_id = 2;
  ibv_wr_send(qp);
  ibv_wr_set_inline_data(qp, carried, 7);
  std::memset(carried, 'x', 7);
  qp->wr_id = 3;
  ibv_wr_send_imm(qp, htonl(77));
  ibv_sge two[] = {piece(0, 4), piece(5, 8)};
  ibv_wr_set_sge_list(qp, 2, two);
  ASSERT_EQ(ibv_wr_complete(qp), 0);
  std::vector<std::uint64_t> sent;
  for (const ibv_wc& wc : completions(5)) {
    EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
    if (wc.wr_id < 10) sent.push_back(wc.wr_id);
  }
  EXPECT_EQ(sent, (std::vector<std::uint64_t>{1, 2, 3}));
  EXPECT_EQ(text(2000, 13), "from a region");
  EXPECT_EQ(text(1000, 7), "carried");
  EXPECT_EQ(text(1100, 12), "froma region");
  ibv_wr_start(qp);
  ibv_wr_send(qp);
  ibv_wr_abort(qp);
  EXPECT_EQ(ibv_wr_complete(qp), 0);  // nothing is left of it
}

TEST_F(Verbs, ADatagramIsAnsweredByItsHeader) {
  const auto [a, b] = pair(IBV_QPT_UD);
  ASSERT_EQ(receive(b, 7, 1000, 140), 0);
  ibv_ah_attr to = path();
  ibv_ah* const ah = ibv_create_ah(pd_, &to);
  ASSERT_NE(ah, nullptr);
  set(0, "question");
  ibv_sge sge = piece(0, 8);
  ibv_send_wr wr = request(IBV_WR_SEND, sge);
  wr.wr.ud = {.ah = ah, .remote_qpn = b->qp_num, .remote_qkey = 0x11111111};
  ASSERT_EQ(post(a, wr), 0);
  ibv_wc came{};
  for (const ibv_wc& wc : completions(2))
    if (wc.opcode == IBV_WC_RECV) came = wc;
  EXPECT_EQ(came.status, IBV_WC_SUCCESS);
  EXPECT_EQ(came.byte_len, 48U);
  EXPECT_EQ(came.src_qp, a->qp_num);
  EXPECT_NE(came.wc_flags & IBV_WC_GRH, 0U);
  EXPECT_EQ(came.sl, 2);  // the network header is IPv4's, as mlx5 says it
  EXPECT_EQ(text(1040, 8), "question");
  ibv_grh grh{};
  std::memcpy(&grh, memory_.data() + 1000, sizeof grh);
  ibv_ah* const back = ibv_create_ah_from_wc(pd_, &came, &grh, 1);
  ASSERT_NE(back, nullptr);
  ASSERT_EQ(receive(a, 8, 2000, 140), 0);
  wr.wr.ud = {.ah = back, .remote_qpn = came.src_qp, .remote_qkey = 0x11111111};
  ASSERT_EQ(post(b, wr), 0);
  for (const ibv_wc& wc : completions(2)) EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
  EXPECT_EQ(text(2040, 8), "question");
  EXPECT_EQ(ibv_destroy_ah(ah), 0);
  EXPECT_EQ(ibv_destroy_ah(back), 0);
}

TEST_F(Verbs, ReceivesDatagramsOfAGroup) {
  const auto [a, b] = pair(IBV_QPT_UD);
  ibv_gid group{};
  const std::uint8_t octets[16] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, 239, 7, 1, 1};
  std::memcpy(group.raw, octets, 16);
  ASSERT_EQ(ibv_attach_mcast(b, &group, 0), 0) << std::strerror(errno);
  ASSERT_EQ(receive(b, 7, 1000, 140), 0);
  ibv_ah_attr to = path();
  to.grh.dgid = group;
  ibv_ah* const ah = ibv_create_ah(pd_, &to);
  ASSERT_NE(ah, nullptr);
  ibv_sge sge = piece(0, 8);
  ibv_send_wr wr = request(IBV_WR_SEND, sge);
  wr.wr.ud = {.ah = ah, .remote_qpn = 0xFFFFFF, .remote_qkey = 0x11111111};
  ASSERT_EQ(post(a, wr), 0);
  for (const ibv_wc& wc : completions(2)) EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
  EXPECT_EQ(ibv_detach_mcast(b, &group, 0), 0);
  EXPECT_EQ(ibv_detach_mcast(b, &group, 0), EINVAL);
  EXPECT_EQ(ibv_destroy_ah(ah), 0);
}

TEST_F(Verbs, APeerThatIsNotThereFailsTheRequestAndTellsIt) {
  ibv_qp* const qp = make(IBV_QPT_RC);
  to_rts(qp, 0x123456);
  ibv_sge sge = piece(0, 4);
  ASSERT_EQ(post(qp, request(IBV_WR_SEND, sge)), 0);
  const ibv_wc done = completions(1)[0];
  EXPECT_EQ(done.status, IBV_WC_RETRY_EXC_ERR);
  ibv_qp_attr attr{};
  ibv_qp_init_attr init{};
  ASSERT_EQ(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init), 0);
  EXPECT_EQ(attr.qp_state, IBV_QPS_ERR);
  EXPECT_EQ(init.cap.max_send_wr, 8U);
  EXPECT_EQ(init.qp_type, IBV_QPT_RC);
  ibv_async_event event{};
  ASSERT_EQ(ibv_get_async_event(context_, &event), 0);
  EXPECT_EQ(event.event_type, IBV_EVENT_QP_FATAL);
  EXPECT_EQ(event.element.qp, qp);
  ibv_ack_async_event(&event);
}

// A program makes a completion queue as large as it lets completions wait there, however many requests it posts without.
TEST_F(Verbs, RequestsWithoutACompletionNeedNoRoomForOne) {
  constexpr std::uint32_t many = 1024;
  ibv_cq* const small = ibv_create_cq(context_, 4, nullptr, nullptr, 0);
  ASSERT_NE(small, nullptr);
  ibv_qp_init_attr init = init_of(IBV_QPT_RC);
  init.send_cq = small;
  init.cap.max_send_wr = many;
  ibv_qp *const a = make(init), *const b = make(IBV_QPT_RC);
  to_rts(a, b->qp_num);
  to_rts(b, a->qp_num);
  ibv_sge sge = piece(0, 8);
  ibv_send_wr wr = request(IBV_WR_RDMA_WRITE, sge);
  wr.wr.rdma = {.remote_addr = reinterpret_cast<std::uintptr_t>(memory_.data()) + 1000, .rkey = mr_->rkey};
  wr.send_flags = 0;
  std::vector<ibv_send_wr> all(many, wr);
  for (std::size_t i = 0; i + 1 < many; ++i) all[i].next = &all[i + 1];
  all.back().send_flags = IBV_SEND_SIGNALED;
  ibv_send_wr* bad = nullptr;
  EXPECT_EQ(ibv_post_send(a, all.data(), &bad), 0);
  ibv_wc wc{};
  const auto end = std::chrono::steady_clock::now() + hang_limit;
  while (ibv_poll_cq(small, 1, &wc) == 0 && std::chrono::steady_clock::now() < end) {
  }
  EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
  EXPECT_EQ(wc.wr_id, 1U);
  for (ibv_qp* qp : qps_) EXPECT_EQ(ibv_destroy_qp(qp), 0);
  qps_.clear();
  EXPECT_EQ(ibv_destroy_cq(small), 0);
}

// Programs deregister memory, and free it, before they destroy the queues that have it.
TEST_F(Verbs, MemoryThatIsDeregisteredIsLeftAlone) {
  std::vector<std::uint8_t> other(4096);
  for (const bool shared : {false, true}) {
    ibv_srq_init_attr of_srq{};
    of_srq.attr = {.max_wr = 8, .max_sge = 1, .srq_limit = 0};
    ibv_srq* const srq = ibv_create_srq(pd_, &of_srq);
    ASSERT_NE(srq, nullptr);
    ibv_qp_init_attr init = init_of(IBV_QPT_RC);
    if (shared) init.srq = srq;
    ibv_qp *const b = make(init), *const a = make(IBV_QPT_RC);
    to_rts(a, b->qp_num);
    to_rts(b, a->qp_num);
    ibv_mr* const mr = reg(other.data(), other.size(), IBV_ACCESS_LOCAL_WRITE);
    ASSERT_NE(mr, nullptr);
    ibv_sge into{.addr = reinterpret_cast<std::uintptr_t>(other.data()), .length = 4096, .lkey = mr->lkey};
    ibv_recv_wr wr{.wr_id = 7, .next = nullptr, .sg_list = &into, .num_sge = 1}, *bad = nullptr;
    ASSERT_EQ(shared ? ibv_post_srq_recv(srq, &wr, &bad) : ibv_post_recv(b, &wr, &bad), 0);
    EXPECT_EQ(ibv_dereg_mr(mr), 0);
    set(0, "lost");
    ibv_sge sge = piece(0, 4);
    ASSERT_EQ(post(a, request(IBV_WR_SEND, sge)), 0);
    for (const ibv_wc& wc : completions(2)) EXPECT_NE(wc.status, IBV_WC_SUCCESS);
    EXPECT_EQ(other, std::vector<std::uint8_t>(4096));
    for (ibv_qp* qp : qps_) EXPECT_EQ(ibv_destroy_qp(qp), 0);
    qps_.clear();
    EXPECT_EQ(ibv_destroy_srq(srq), 0);
  }
}

TEST_F(Verbs, ARequestWhoseMemoryIsDeregisteredFails) {
  std::vector<std::uint8_t> other(4096);
  const auto [a, b] = pair(IBV_QPT_RC);  // b has no receive, so the request waits
  ibv_mr* const mr = reg(other.data(), other.size(), 0);
  ASSERT_NE(mr, nullptr);
  ibv_sge from{.addr = reinterpret_cast<std::uintptr_t>(other.data()), .length = 100, .lkey = mr->lkey};
  ASSERT_EQ(post(a, request(IBV_WR_SEND, from)), 0);
  EXPECT_EQ(ibv_dereg_mr(mr), 0);
  EXPECT_EQ(completions(1)[0].status, IBV_WC_WR_FLUSH_ERR);
  EXPECT_EQ(ibv_dereg_mr(mr_), 0);  // that of nobody
  mr_ = nullptr;
}

// ibv_wr_post(3): between ibv_wr_start() and its end no other thread builds requests of the queue pair.
TEST_F(Verbs, OneThreadAtATimeBuildsRequests) {
  ibv_qp_init_attr_ex init{};
  init.qp_type = IBV_QPT_RC;
  init.send_cq = init.recv_cq = cq_;
  init.cap = {.max_send_wr = 8, .max_recv_wr = 8, .max_send_sge = 2, .max_recv_sge = 2, .max_inline_data = 0};
  init.pd = pd_;
  init.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
  init.send_ops_flags = IBV_QP_EX_WITH_SEND;
  ibv_qp* const a = ibv_create_qp_ex(context_, &init);
  ASSERT_NE(a, nullptr);
  qps_.push_back(a);
  ibv_qp* const b = make(IBV_QPT_RC);
  to_rts(a, b->qp_num);
  to_rts(b, a->qp_num);
  ASSERT_EQ(receive(b, 1, 1000, 100), 0);
  ASSERT_EQ(receive(b, 2, 1000, 100), 0);
  ibv_qp_ex* const qp = ibv_qp_to_qp_ex(a);
  const auto send = [&](std::uint64_t id) {
    qp->wr_id = id;
    qp->wr_flags = IBV_SEND_SIGNALED;
    ibv_wr_send(qp);
    ibv_wr_set_sge(qp, mr_->lkey, reinterpret_cast<std::uintptr_t>(memory_.data()), 4);
  };
  ibv_wr_start(qp);
  send(10);
  std::thread other([&] {
    ibv_wr_start(qp);
    send(11);
    EXPECT_EQ(ibv_wr_complete(qp), 0);
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_EQ(ibv_wr_complete(qp), 0);
  other.join();
  std::vector<std::uint64_t> ids;
  for (const ibv_wc& wc : completions(4))
    if (wc.opcode == IBV_WC_SEND) ids.push_back(wc.wr_id);
  EXPECT_EQ(ids, (std::vector<std::uint64_t>{10, 11}));
  ibv_wr_start(qp);
  send(12);
  ibv_wr_abort(qp);
  ibv_wr_start(qp);
  EXPECT_EQ(ibv_wr_complete(qp), 0);  // of nothing
}

}  // namespace
}  // namespace parley::preload_test
