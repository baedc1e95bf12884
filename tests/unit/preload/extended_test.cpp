// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Extended completion queues, and what of queues, regions and domains programs may choose.
#include <ctime>

#include "tests/unit/preload/ends.hpp"

namespace parley::preload_test {
namespace {

class Extended : public Verbs {
 protected:
  static constexpr std::uint64_t fields = std::uint64_t{IBV_WC_STANDARD_FLAGS} | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP |
                                          IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK;

  ibv_cq_ex* make_cq(std::uint64_t wc_flags, std::uint32_t vector = 0) {
    ibv_cq_init_attr_ex init{};
    init.cqe = 16;
    init.cq_context = this;
    init.channel = channel_;
    init.comp_vector = vector;
    init.wc_flags = wc_flags;
    return ibv_create_cq_ex(context_, &init);
  }
  static std::uint64_t clock_ns(clockid_t clock) {
    timespec now{};
    ::clock_gettime(clock, &now);
    return static_cast<std::uint64_t>(now.tv_sec) * 1000000000U + static_cast<std::uint64_t>(now.tv_nsec);
  }
  /// ibv_start_poll() until there is one.
  static int start(ibv_cq_ex* cq) {
    ibv_poll_cq_attr attr{};
    const auto end = std::chrono::steady_clock::now() + hang_limit;
    int number = ENOENT;
    while (number == ENOENT && std::chrono::steady_clock::now() < end) number = ibv_start_poll(cq, &attr);
    return number;
  }
};

TEST_F(Extended, ACompletionIsReadFieldByField) {
  ibv_cq_ex* const cq = make_cq(fields);
  ASSERT_NE(cq, nullptr);
  ibv_qp_init_attr init = init_of(IBV_QPT_RC);
  init.recv_cq = ibv_cq_ex_to_cq(cq);
  ibv_qp *const b = make(init), *const a = make(IBV_QPT_RC);
  to_rts(a, b->qp_num);
  to_rts(b, a->qp_num);
  ASSERT_EQ(ibv_req_notify_cq(ibv_cq_ex_to_cq(cq), 0), 0);
  ASSERT_EQ(receive(b, 7, 1000, 100), 0);
  ASSERT_EQ(receive(b, 8, 1100, 100), 0);
  const std::uint64_t before = clock_ns(CLOCK_MONOTONIC), before_wall = clock_ns(CLOCK_REALTIME);
  ibv_sge sge = piece(0, 5);
  ibv_send_wr wr = request(IBV_WR_SEND_WITH_IMM, sge);
  wr.imm_data = 0x01020304;
  ASSERT_EQ(post(a, wr), 0);
  ASSERT_EQ(post(a, request(IBV_WR_SEND, sge)), 0);
  (void)completions(2);  // of the sends: both have arrived
  const std::uint64_t after = clock_ns(CLOCK_MONOTONIC);
  ibv_cq* which = nullptr;
  void* user = nullptr;
  ASSERT_EQ(ibv_get_cq_event(channel_, &which, &user), 0);
  EXPECT_EQ(which, ibv_cq_ex_to_cq(cq));
  EXPECT_EQ(user, this);
  ibv_ack_cq_events(which, 1);
  ASSERT_EQ(start(cq), 0);
  EXPECT_EQ(cq->status, IBV_WC_SUCCESS);
  EXPECT_EQ(cq->wr_id, 7U);
  EXPECT_EQ(ibv_wc_read_opcode(cq), IBV_WC_RECV);
  EXPECT_EQ(ibv_wc_read_byte_len(cq), 5U);
  EXPECT_EQ(ibv_wc_read_qp_num(cq), b->qp_num);
  EXPECT_EQ(ibv_wc_read_wc_flags(cq), static_cast<unsigned>(IBV_WC_WITH_IMM));
  EXPECT_EQ(ibv_wc_read_imm_data(cq), 0x01020304U);
  EXPECT_EQ(ibv_wc_read_vendor_err(cq), 0U);
  // When it arrived, not when the program looks.
  EXPECT_GE(ibv_wc_read_completion_ts(cq), before);
  EXPECT_LE(ibv_wc_read_completion_ts(cq), after);
  EXPECT_GE(ibv_wc_read_completion_wallclock_ns(cq), before_wall - 1000000);
  EXPECT_LE(ibv_wc_read_completion_wallclock_ns(cq), clock_ns(CLOCK_REALTIME));
  ASSERT_EQ(ibv_next_poll(cq), 0);
  EXPECT_EQ(cq->wr_id, 8U);
  EXPECT_EQ(ibv_wc_read_wc_flags(cq), 0U);
  EXPECT_EQ(ibv_next_poll(cq), ENOENT);
  ibv_end_poll(cq);
  ibv_poll_cq_attr attr{};
  EXPECT_EQ(ibv_start_poll(cq, &attr), ENOENT);  // and no ibv_end_poll()
  for (ibv_qp* qp : qps_) EXPECT_EQ(ibv_destroy_qp(qp), 0);
  qps_.clear();
  EXPECT_EQ(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
}

TEST_F(Extended, TheDeviceSaysItsClock) {
  ibv_device_attr_ex device{};
  ASSERT_EQ(ibv_query_device_ex(context_, nullptr, &device), 0);
  EXPECT_EQ(device.hca_core_clock, 1000000U);  // kHz
  EXPECT_EQ(device.completion_timestamp_mask, ~std::uint64_t{0});
  ibv_values_ex values{};
  values.comp_mask = IBV_VALUES_MASK_RAW_CLOCK;
  const std::uint64_t before = clock_ns(CLOCK_MONOTONIC);
  ASSERT_EQ(ibv_query_rt_values_ex(context_, &values), 0);
  const auto now = static_cast<std::uint64_t>(values.raw_clock.tv_sec) * 1000000000U +
                   static_cast<std::uint64_t>(values.raw_clock.tv_nsec);
  EXPECT_GE(now, before);
  EXPECT_LE(now, clock_ns(CLOCK_MONOTONIC));
}

TEST_F(Extended, FieldsAndVectorsThatThereAreNotAreRefused) {
  EXPECT_EQ(make_cq(IBV_WC_EX_WITH_FLOW_TAG), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
  const int vectors = context_->num_comp_vectors;
  ASSERT_GT(vectors, 1);
  ibv_cq_ex* const last = make_cq(0, static_cast<std::uint32_t>(vectors) - 1);
  ASSERT_NE(last, nullptr);
  EXPECT_EQ(ibv_destroy_cq(ibv_cq_ex_to_cq(last)), 0);
  EXPECT_EQ(make_cq(0, static_cast<std::uint32_t>(vectors)), nullptr);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(ibv_create_cq(context_, 1, nullptr, nullptr, -1), nullptr);
  EXPECT_EQ(errno, EINVAL);
}

TEST_F(Verbs, ACompletionQueueIsResizedToWhatItHolds) {
  ibv_device_attr device{};
  ASSERT_EQ(ibv_query_device(context_, &device), 0);
  EXPECT_EQ(ibv_resize_cq(cq_, device.max_cqe), 0);
  EXPECT_EQ(cq_->cqe, device.max_cqe);
  EXPECT_EQ(ibv_resize_cq(cq_, device.max_cqe + 1), EINVAL);
  EXPECT_EQ(ibv_resize_cq(cq_, 0), EINVAL);
  ibv_qp* const qp = make(IBV_QPT_RC);
  to_rts(qp, 0x123456);
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_ERR;
  ASSERT_EQ(ibv_modify_qp(qp, &attr, IBV_QP_STATE), 0);
  for (std::uint64_t i = 0; i < 3; ++i) ASSERT_EQ(receive(qp, i, 0, 4), 0);  // flushed at once
  EXPECT_EQ(ibv_resize_cq(cq_, 2), EINVAL);
  EXPECT_EQ(cq_->cqe, device.max_cqe);
  EXPECT_EQ(ibv_resize_cq(cq_, 3), 0);
  EXPECT_EQ(cq_->cqe, 3);
  EXPECT_EQ(completions(3).size(), 3U);
}

TEST_F(Verbs, ARegionsAddressesBeginWhereTheProgramSays) {
  const auto [a, b] = pair(IBV_QPT_RC);
  constexpr std::uint64_t iova = 0x7000;
  ibv_mr* const mr =
      ibv_reg_mr_iova(pd_, memory_.data() + 4096, 4096, iova, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
  ASSERT_NE(mr, nullptr);
  set(0, "to the peer's");
  ibv_sge from = piece(0, 13);
  ibv_send_wr write = request(IBV_WR_RDMA_WRITE, from, 1);
  write.wr.rdma = {.remote_addr = iova + 100, .rkey = mr->rkey};
  ASSERT_EQ(post(a, write), 0);
  EXPECT_EQ(completions(1)[0].status, IBV_WC_SUCCESS);
  EXPECT_EQ(text(4096 + 100, 13), "to the peer's");
  ibv_sge own{.addr = iova + 100, .length = 2, .lkey = mr->lkey};  // the same for this side's key
  write.sg_list = &own;
  write.wr.rdma = {.remote_addr = iova + 200, .rkey = mr->rkey};
  ASSERT_EQ(post(a, write), 0);
  EXPECT_EQ(completions(1)[0].status, IBV_WC_SUCCESS);
  EXPECT_EQ(text(4096 + 200, 2), "to");
  own.addr = reinterpret_cast<std::uintptr_t>(memory_.data()) + 4096;
  EXPECT_EQ(post(a, write), EINVAL);
  EXPECT_EQ(ibv_dereg_mr(mr), 0);
  EXPECT_EQ(ibv_reg_mr_iova(pd_, memory_.data(), 4096, ~std::uint64_t{0} - 100, int{IBV_ACCESS_LOCAL_WRITE}), nullptr);
  EXPECT_EQ(errno, EINVAL);
}

TEST_F(Verbs, AParentDomainStandsForItsProtectionDomain) {
  ibv_td_init_attr of_thread{};
  ibv_td* const td = ibv_alloc_td(context_, &of_thread);
  ASSERT_NE(td, nullptr);
  ibv_parent_domain_init_attr init{};
  init.pd = pd_;
  init.td = td;
  ibv_pd* const parent = ibv_alloc_parent_domain(context_, &init);
  ASSERT_NE(parent, nullptr);
  EXPECT_EQ(ibv_dealloc_pd(pd_), EBUSY);
  EXPECT_EQ(ibv_dealloc_td(td), EBUSY);
  ibv_qp_init_attr of_qp = init_of(IBV_QPT_RC);
  ibv_qp *const a = ibv_create_qp(parent, &of_qp), *const b = make(IBV_QPT_RC);
  ASSERT_NE(a, nullptr);
  EXPECT_EQ(a->pd, parent);
  to_rts(a, b->qp_num);
  to_rts(b, a->qp_num);
  ASSERT_EQ(receive(b, 7, 1000, 100), 0);
  ibv_sge sge = piece(0, 4);  // of the domain itself
  ASSERT_EQ(post(a, request(IBV_WR_SEND, sge)), 0);
  for (const ibv_wc& wc : completions(2)) EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
  EXPECT_EQ(ibv_destroy_qp(a), 0);
  EXPECT_EQ(ibv_dealloc_pd(parent), 0);
  EXPECT_EQ(ibv_dealloc_td(td), 0);
}

}  // namespace
}  // namespace parley::preload_test
