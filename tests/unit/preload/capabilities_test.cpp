// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// What the device says that it can do, and what it refuses because it does not say so.
#include <fcntl.h>

#include <algorithm>

#include "tests/unit/preload/ends.hpp"

namespace parley::preload_test {
namespace {

constexpr std::uint32_t most = 32;  // SGEs

TEST_F(Verbs, ARequestHasAsManyPiecesAsTheDeviceSays) {
  ibv_device_attr device{};
  ASSERT_EQ(ibv_query_device(context_, &device), 0);
  ASSERT_EQ(device.max_sge, static_cast<int>(most));
  ASSERT_EQ(device.max_sge_rd, static_cast<int>(most));
  ibv_qp_init_attr init = init_of(IBV_QPT_RC);
  init.cap.max_send_sge = init.cap.max_recv_sge = most;
  ibv_qp *const a = make(init), *const b = make(init);
  to_rts(a, b->qp_num);
  to_rts(b, a->qp_num);
  std::vector<ibv_sge> from, into, back;
  for (std::uint32_t i = 0; i < most; ++i) {
    memory_[100 * i] = memory_[100 * i + 1] = static_cast<std::uint8_t>(i + 1);
    from.push_back(piece(100 * i, 2));
    into.push_back(piece(10000 + 10 * i, 2));
    back.push_back(piece(20000 + 10 * (most - i), 2));
  }
  ibv_recv_wr receive_it{.wr_id = 7, .next = nullptr, .sg_list = into.data(), .num_sge = most}, *bad = nullptr;
  ASSERT_EQ(ibv_post_recv(b, &receive_it, &bad), 0);
  ibv_send_wr send = request(IBV_WR_SEND, from[0], 1);
  send.sg_list = from.data();
  send.num_sge = most;
  ASSERT_EQ(post(a, send), 0);
  for (const ibv_wc& wc : completions(2)) EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
  ibv_send_wr read = request(IBV_WR_RDMA_READ, back[0], 2);
  read.sg_list = back.data();
  read.num_sge = most;
  read.wr.rdma = {.remote_addr = reinterpret_cast<std::uintptr_t>(memory_.data() + 10000), .rkey = mr_->rkey};
  ASSERT_EQ(post(a, read), 0);
  EXPECT_EQ(completions(1)[0].status, IBV_WC_SUCCESS);
  for (std::uint32_t i = 0; i < most; ++i) EXPECT_EQ(memory_[10000 + 10 * i + 1], i + 1);
  EXPECT_EQ(text(20000 + 10 * most, 2), text(10000, 2));
}

TEST_F(Verbs, MorePiecesThanTheDeviceHasAreRefusedWhenTheQueueIsMade) {
  for (const bool sends : {true, false}) {
    ibv_qp_init_attr init = init_of(IBV_QPT_RC);
    (sends ? init.cap.max_send_sge : init.cap.max_recv_sge) = most + 1;
    EXPECT_EQ(ibv_create_qp(pd_, &init), nullptr);
    EXPECT_EQ(errno, EINVAL);
  }
  ibv_srq_init_attr shared{};
  shared.attr = {.max_wr = 8, .max_sge = most + 1, .srq_limit = 0};
  EXPECT_EQ(ibv_create_srq(pd_, &shared), nullptr);
  EXPECT_EQ(errno, EINVAL);
}

TEST_F(Verbs, MorePiecesThanTheQueueWasMadeForAreRefusedWhenPosted) {
  const auto [a, b] = pair(IBV_QPT_RC);
  ibv_sge three[] = {piece(0, 1), piece(1, 1), piece(2, 1)};
  ibv_send_wr send = request(IBV_WR_SEND, three[0]);
  send.sg_list = three;
  send.num_sge = 3;
  EXPECT_EQ(post(a, send), EINVAL);  // of two
  ibv_recv_wr receive_it{.wr_id = 7, .next = nullptr, .sg_list = three, .num_sge = 3}, *bad = nullptr;
  EXPECT_EQ(ibv_post_recv(b, &receive_it, &bad), EINVAL);
  EXPECT_EQ(bad, &receive_it);
  ibv_srq_init_attr shared{};
  shared.attr = {.max_wr = 8, .max_sge = 2, .srq_limit = 0};
  ibv_srq* const srq = ibv_create_srq(pd_, &shared);
  ASSERT_NE(srq, nullptr);
  ibv_srq_attr now{};
  ASSERT_EQ(ibv_query_srq(srq, &now), 0);
  EXPECT_EQ(now.max_sge, 2U);
  EXPECT_EQ(ibv_post_srq_recv(srq, &receive_it, &bad), EINVAL);
  EXPECT_EQ(ibv_destroy_srq(srq), 0);
}

class Built : public Verbs {
 protected:
  void SetUp() override {
    Verbs::SetUp();
    ibv_qp_init_attr_ex init{};
    const ibv_qp_init_attr plain = init_of(IBV_QPT_RC);
    init.qp_type = plain.qp_type;
    init.send_cq = init.recv_cq = cq_;
    init.cap = plain.cap;
    init.pd = pd_;
    init.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    init.send_ops_flags = IBV_QP_EX_WITH_SEND;
    ibv_qp* const a = ibv_create_qp_ex(context_, &init);
    ASSERT_NE(a, nullptr);
    qps_.push_back(a);
    b_ = make(IBV_QPT_RC);
    to_rts(a, b_->qp_num);
    to_rts(b_, a->qp_num);
    qp_ = ibv_qp_to_qp_ex(a);
  }
  void send(std::uint64_t id, std::uint32_t lkey) {
    qp_->wr_id = id;
    qp_->wr_flags = IBV_SEND_SIGNALED;
    ibv_wr_send(qp_);
    ibv_wr_set_sge(qp_, lkey, reinterpret_cast<std::uintptr_t>(memory_.data()), 4);
  }
  void send_inline(std::uint64_t id, std::string octets) {
    qp_->wr_id = id;
    qp_->wr_flags = IBV_SEND_SIGNALED;
    ibv_wr_send(qp_);
    ibv_wr_set_inline_data(qp_, octets.data(), octets.size());
  }
  /// What is posted now arrives alone.
  void expect_only(std::string_view octets) {
    ASSERT_EQ(receive(b_, 10, 1000, 100), 0);
    ibv_wr_start(qp_);
    send_inline(9, std::string(octets));
    ASSERT_EQ(ibv_wr_complete(qp_), 0);
    std::vector<std::uint64_t> ids;
    for (const ibv_wc& wc : completions(2)) {
      EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
      ids.push_back(wc.wr_id);
    }
    std::sort(ids.begin(), ids.end());
    EXPECT_EQ(ids, (std::vector<std::uint64_t>{9, 10}));
    EXPECT_EQ(text(1000, octets.size()), octets);
  }

  ibv_qp_ex* qp_ = nullptr;
  ibv_qp* b_ = nullptr;
};

TEST_F(Built, RequestsAreAllPostedOrNone) {
  ibv_wr_start(qp_);
  send_inline(1, "one");
  send_inline(2, "two");
  send(3, mr_->lkey + 0x10000);  // of no region
  EXPECT_EQ(ibv_wr_complete(qp_), EINVAL);
  expect_only("after it");
  EXPECT_EQ(ibv_dereg_mr(mr_), 0);  // no request of before uses it
  mr_ = nullptr;
}

TEST_F(Built, OfMoreRequestsThanTheQueueHoldsNoneIsPosted) {
  ibv_wr_start(qp_);
  for (std::uint64_t i = 0; i < 9; ++i) {
    if (i % 2 == 0)
      send(100 + i, mr_->lkey);
    else
      send_inline(100 + i, "inline");
  }
  EXPECT_EQ(ibv_wr_complete(qp_), ENOMEM);  // of eight
  expect_only("then one");
}

TEST_F(Built, InErrorNoRequestIsFlushedIfOneIsRefused) {
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_ERR;
  ASSERT_EQ(ibv_modify_qp(&qp_->qp_base, &attr, IBV_QP_STATE), 0);
  ibv_wr_start(qp_);
  send(1, mr_->lkey);
  send(2, mr_->lkey + 0x10000);
  EXPECT_EQ(ibv_wr_complete(qp_), EINVAL);
  ibv_wr_start(qp_);
  send(3, mr_->lkey);
  ASSERT_EQ(ibv_wr_complete(qp_), 0);
  const ibv_wc only = completions(1)[0];
  EXPECT_EQ(only.wr_id, 3U);
  EXPECT_EQ(only.status, IBV_WC_WR_FLUSH_ERR);
}

// Linux takes these out of the mask before it asks a device.
TEST_F(Verbs, XrcIgnoresTheAttributesOfTheHalfThatItLacks) {
  ibv_xrcd_init_attr of_domain{};
  of_domain.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
  of_domain.fd = -1;
  of_domain.oflags = O_CREAT;
  ibv_xrcd* const domain = ibv_open_xrcd(context_, &of_domain);
  ASSERT_NE(domain, nullptr);
  ibv_qp_init_attr_ex of_target{};
  of_target.qp_type = IBV_QPT_XRC_RECV;
  of_target.comp_mask = IBV_QP_INIT_ATTR_XRCD;
  of_target.xrcd = domain;
  ibv_qp* const target = ibv_create_qp_ex(context_, &of_target);
  ASSERT_NE(target, nullptr);
  for (ibv_qp* qp : {make(IBV_QPT_XRC_SEND), target}) {
    to_init(qp);
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_RTR;
    attr.ah_attr = path();
    attr.path_mtu = IBV_MTU_1024;
    attr.dest_qp_num = 0x123456;
    EXPECT_EQ(ibv_modify_qp(qp, &attr,
                            IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                                IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER),
              0)
        << qp->qp_type;
    attr.qp_state = IBV_QPS_RTS;
    EXPECT_EQ(ibv_modify_qp(qp, &attr,
                            IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                                IBV_QP_MAX_QP_RD_ATOMIC),
              0)
        << qp->qp_type;
  }
  EXPECT_EQ(ibv_destroy_qp(target), 0);
  EXPECT_EQ(ibv_close_xrcd(domain), 0);
}

TEST_F(Verbs, ThereAreNoRawPackets) {
  ibv_qp_init_attr init = init_of(IBV_QPT_RAW_PACKET);
  EXPECT_EQ(ibv_create_qp(pd_, &init), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
}

}  // namespace
}  // namespace parley::preload_test
