// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Memory windows of a program for libibverbs: ibv_alloc_mw, ibv_bind_mw, IBV_WR_BIND_MW, IBV_WR_LOCAL_INV.
#include <cerrno>

#include "tests/unit/preload/ends.hpp"

namespace parley::preload_test::window_test {
namespace {

class Window : public Verbs {
 protected:
  void SetUp() override {
    Verbs::SetUp();
    region_ = reg(part_.data(), part_.size(), IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
    ASSERT_NE(region_, nullptr);
    set(0, "hello");
  }
  void TearDown() override {
    if (region_ != nullptr) {
      EXPECT_EQ(ibv_dereg_mr(region_), 0);
    }
    Verbs::TearDown();
  }
  ibv_mw_bind_info info(unsigned int access = IBV_ACCESS_REMOTE_WRITE) {
    return {.mr = region_,
            .addr = reinterpret_cast<std::uintptr_t>(part_.data()) + 10,
            .length = 20,
            .mw_access_flags = access};
  }
  int bind_1(ibv_qp* qp, ibv_mw* mw, const ibv_mw_bind_info& to, std::uint64_t id) {
    ibv_mw_bind bind{.wr_id = id, .send_flags = IBV_SEND_SIGNALED, .bind_info = to};
    return ibv_bind_mw(qp, mw, &bind);
  }
  int bind_2(ibv_qp* qp, ibv_mw* mw, std::uint32_t rkey, const ibv_mw_bind_info& to, std::uint64_t id = 1) {
    ibv_send_wr wr{};
    wr.wr_id = id;
    wr.opcode = IBV_WR_BIND_MW;
    wr.send_flags = IBV_SEND_SIGNALED | IBV_SEND_SOLICITED;
    wr.bind_mw = {.mw = mw, .rkey = rkey, .bind_info = to};
    return post(qp, wr);
  }
  int invalidate(ibv_qp* qp, ibv_wr_opcode opcode, std::uint32_t rkey) {
    ibv_send_wr wr{};
    wr.opcode = opcode;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.invalidate_rkey = rkey;
    return post(qp, wr);
  }
  /// A Write of 5 bytes to `at` in the region.
  ibv_wc_status write(ibv_qp* qp, std::uint32_t rkey, std::size_t at) {
    ibv_sge from = piece(0, 5);
    ibv_send_wr wr = request(IBV_WR_RDMA_WRITE, from, 1);
    wr.wr.rdma = {.remote_addr = reinterpret_cast<std::uintptr_t>(part_.data()) + at, .rkey = rkey};
    EXPECT_EQ(post(qp, wr), 0);
    return completions(1)[0].status;
  }
  void expect(ibv_wc_opcode opcode, ibv_wc_status status = IBV_WC_SUCCESS) {
    const ibv_wc wc = completions(1)[0];
    EXPECT_EQ(wc.status, status);
    EXPECT_EQ(wc.opcode, opcode);
  }

  std::vector<std::uint8_t> part_ = std::vector<std::uint8_t>(100);
  ibv_mr* region_ = nullptr;
};

TEST_F(Window, TheDeviceSaysWhatItHas) {
  ibv_device_attr attr{};
  ASSERT_EQ(ibv_query_device(context_, &attr), 0);
  EXPECT_GT(attr.max_mw, 1000);
  EXPECT_NE(attr.device_cap_flags & IBV_DEVICE_MEM_WINDOW, 0U);
  EXPECT_NE(attr.device_cap_flags & IBV_DEVICE_MEM_WINDOW_TYPE_2B, 0U);
  // Fast registration is a part of it, and no call of libibverbs.
  EXPECT_EQ(attr.device_cap_flags & (IBV_DEVICE_MEM_WINDOW_TYPE_2A | IBV_DEVICE_MEM_MGT_EXTENSIONS), 0U);
}

TEST_F(Window, OfType1IsBoundByItsOwnCallWhichAdvancesTheKey) {
  const auto [a, b] = pair(IBV_QPT_RC);
  ibv_mw* const mw = ibv_alloc_mw(pd_, IBV_MW_TYPE_1);
  ASSERT_NE(mw, nullptr);
  const std::uint32_t first = mw->rkey;
  ASSERT_EQ(bind_1(b, mw, info(), 7), 0);
  EXPECT_EQ(mw->rkey, ibv_inc_rkey(first));
  expect(IBV_WC_BIND_MW);
  EXPECT_EQ(write(a, mw->rkey, 25), IBV_WC_SUCCESS);
  EXPECT_EQ(std::string(part_.begin() + 25, part_.begin() + 30), "hello");
  testing::internal::CaptureStderr();
  EXPECT_EQ(ibv_dereg_mr(region_), EBUSY);
  EXPECT_EQ(
      testing::internal::GetCapturedStderr(),
      "parley run: ibv_dereg_mr: 1 memory windows are bound to the memory region; unbind or deallocate them first\n");
  EXPECT_EQ(ibv_rereg_mr(region_, IBV_REREG_MR_CHANGE_PD, pd_, nullptr, 0, 0), IBV_REREG_MR_ERR_INPUT);
  EXPECT_EQ(errno, EBUSY);
  EXPECT_EQ(ibv_dealloc_pd(pd_), EBUSY);
  const std::uint32_t used = mw->rkey;
  ibv_mw_bind_info nothing{};
  ASSERT_EQ(bind_1(b, mw, nothing, 8), 0);
  expect(IBV_WC_BIND_MW);
  EXPECT_EQ(write(a, used, 25), IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(ibv_dealloc_mw(mw), 0);
}

TEST_F(Window, OfType2IsBoundByARequestAndInvalidatedHereOrByThePeer) {
  const auto [a, b] = pair(IBV_QPT_RC);
  ibv_mw* const mw = ibv_alloc_mw(pd_, IBV_MW_TYPE_2);
  ASSERT_NE(mw, nullptr);
  std::uint32_t rkey = mw->rkey;
  for (const bool here : {true, false}) {
    rkey = ibv_inc_rkey(rkey);
    ASSERT_EQ(bind_2(b, mw, rkey, info()), 0);
    expect(IBV_WC_BIND_MW);
    EXPECT_EQ(write(a, rkey, 10), IBV_WC_SUCCESS);
    if (here) {
      ASSERT_EQ(invalidate(b, IBV_WR_LOCAL_INV, rkey), 0);
      expect(IBV_WC_LOCAL_INV);
    } else {
      ASSERT_EQ(receive(b, 5, 1000, 100), 0);
      ASSERT_EQ(invalidate(a, IBV_WR_SEND_WITH_INV, rkey), 0);
      for (const ibv_wc& wc : completions(2)) {
        EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
        if (wc.wr_id == 5) {
          EXPECT_TRUE((wc.wc_flags & IBV_WC_WITH_INV) != 0 && wc.invalidated_rkey == rkey);
        }
      }
    }
  }
  EXPECT_EQ(write(a, rkey, 10), IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(ibv_dealloc_mw(mw), 0);
}

TEST_F(Window, TheExtendedCallsPostTheSame) {
  ibv_qp_init_attr_ex init{};
  init.qp_type = IBV_QPT_RC;
  init.send_cq = init.recv_cq = cq_;
  init.cap = {.max_send_wr = 8, .max_recv_wr = 8, .max_send_sge = 2, .max_recv_sge = 2, .max_inline_data = 0};
  init.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
  init.pd = pd_;
  init.send_ops_flags = IBV_QP_EX_WITH_BIND_MW | IBV_QP_EX_WITH_LOCAL_INV;
  ibv_qp *const a = make(IBV_QPT_RC), *const b = ibv_create_qp_ex(context_, &init);
  ASSERT_NE(b, nullptr);
  qps_.push_back(b);
  to_rts(a, b->qp_num);
  to_rts(b, a->qp_num);
  ibv_mw* const mw = ibv_alloc_mw(pd_, IBV_MW_TYPE_2);
  ASSERT_NE(mw, nullptr);
  const std::uint32_t first = ibv_inc_rkey(mw->rkey), second = ibv_inc_rkey(first);
  ibv_qp_ex* const ex = ibv_qp_to_qp_ex(b);
  ibv_mw_bind_info to = info(IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_ZERO_BASED);
  ibv_wr_start(ex);
  ex->wr_flags = IBV_SEND_SIGNALED;
  ibv_wr_bind_mw(ex, mw, first, &to);
  ibv_wr_local_inv(ex, first);
  ibv_wr_bind_mw(ex, mw, second, &to);
  to = {};  // it was copied
  ASSERT_EQ(ibv_wr_complete(ex), 0);
  expect(IBV_WC_BIND_MW);
  expect(IBV_WC_LOCAL_INV);
  expect(IBV_WC_BIND_MW);
  const auto begin = reinterpret_cast<std::uintptr_t>(part_.data());
  EXPECT_EQ(write(a, second, std::size_t{15} - begin), IBV_WC_SUCCESS);  // the window's own addresses begin with 0
  EXPECT_EQ(std::string(part_.begin() + 25, part_.begin() + 30), "hello");
  EXPECT_EQ(ibv_dealloc_mw(mw), 0);
}

TEST_F(Window, WhatDoesNotFitIsRefusedOrFails) {
  EXPECT_EQ(ibv_alloc_mw(pd_, static_cast<ibv_mw_type>(3)), nullptr);
  EXPECT_EQ(errno, EINVAL);
  const auto [a, b] = pair(IBV_QPT_RC);
  (void)a;
  ibv_mw* const mw = ibv_alloc_mw(pd_, IBV_MW_TYPE_2);
  ASSERT_NE(mw, nullptr);
  ibv_mw_bind_info to = info(IBV_ACCESS_ON_DEMAND);
  EXPECT_EQ(bind_2(b, mw, mw->rkey, to), EOPNOTSUPP);
  to = info();
  to.mr = nullptr;
  EXPECT_EQ(bind_2(b, mw, mw->rkey, to), EINVAL);
  EXPECT_EQ(bind_2(b, nullptr, mw->rkey, info()), EINVAL);
  EXPECT_EQ(invalidate(b, IBV_WR_LOCAL_INV, 0), EINVAL);
  to = info();
  to.mr = mr_;  // without IBV_ACCESS_MW_BIND
  ASSERT_EQ(bind_2(b, mw, mw->rkey, to), 0);
  expect(IBV_WC_BIND_MW, IBV_WC_MW_BIND_ERR);
  ASSERT_EQ(bind_2(b, mw, mw->rkey, info()), 0);
  expect(IBV_WC_BIND_MW, IBV_WC_WR_FLUSH_ERR);
  EXPECT_EQ(ibv_dealloc_mw(mw), 0);
}

}  // namespace
}  // namespace parley::preload_test::window_test
