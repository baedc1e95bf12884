// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// A program for libibverbs, as the tests write it: a device, and two queue pairs of it that have each other as peers.
#pragma once
#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "tests/unit/hang_limit.hpp"

namespace parley::preload_test {

/// Of this process, so that nobody else has the port there.
inline std::string own_address() {
  const unsigned pid = static_cast<unsigned>(::getpid());
  return fmt::format("127.{}.{}.{}", 200 + (pid >> 16 & 7), pid >> 8 & 255, pid & 255);
}

class Verbs : public testing::Test {
 protected:
  static constexpr std::size_t room = 1 << 16;

  void SetUp() override {
    ::setenv("PARLEY_VERBS_ADDRESS", own_address().c_str(), 1);
    ibv_device** const list = ibv_get_device_list(nullptr);
    context_ = ibv_open_device(list[0]);
    ibv_free_device_list(list);
    ASSERT_NE(context_, nullptr) << std::strerror(errno);
    pd_ = ibv_alloc_pd(context_);
    channel_ = ibv_create_comp_channel(context_);
    cq_ = ibv_create_cq(context_, 64, this, channel_, 0);
    mr_ = reg(memory_.data(), memory_.size(),
              IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC);
    ASSERT_TRUE(pd_ != nullptr && channel_ != nullptr && cq_ != nullptr && mr_ != nullptr);
  }

  void TearDown() override {
    for (ibv_qp* qp : qps_) EXPECT_EQ(ibv_destroy_qp(qp), 0);
    if (mr_ != nullptr) {
      EXPECT_EQ(ibv_dereg_mr(mr_), 0);
    }
    if (cq_ != nullptr) {
      EXPECT_EQ(ibv_destroy_cq(cq_), 0);
    }
    if (channel_ != nullptr) {
      EXPECT_EQ(ibv_destroy_comp_channel(channel_), 0);
    }
    if (pd_ != nullptr) {
      EXPECT_EQ(ibv_dealloc_pd(pd_), 0);
    }
    if (context_ != nullptr) {
      EXPECT_EQ(ibv_close_device(context_), 0);
    }
  }

  /// The macro of the name mixes enumerations where `access` is a constant.
  ibv_mr* reg(void* addr, std::size_t length, unsigned int access) const {
    return ibv_reg_mr(pd_, addr, length, access);
  }

  ibv_qp_init_attr init_of(ibv_qp_type type) const {
    ibv_qp_init_attr init{};
    init.qp_type = type;
    init.send_cq = init.recv_cq = cq_;
    init.cap = {.max_send_wr = 8, .max_recv_wr = 8, .max_send_sge = 2, .max_recv_sge = 2, .max_inline_data = 64};
    return init;
  }

  ibv_qp* make(ibv_qp_init_attr init) {
    ibv_qp* const qp = ibv_create_qp(pd_, &init);
    EXPECT_NE(qp, nullptr) << std::strerror(errno);
    if (qp != nullptr) qps_.push_back(qp);
    return qp;
  }
  ibv_qp* make(ibv_qp_type type) { return make(init_of(type)); }

  ibv_ah_attr path() const {
    ibv_ah_attr out{};
    out.is_global = 1;
    out.port_num = 1;
    out.grh.hop_limit = 64;
    EXPECT_EQ(ibv_query_gid(context_, 1, 0, &out.grh.dgid), 0);
    return out;
  }

  static void to_init(ibv_qp* qp) {
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_INIT;
    attr.port_num = 1;
    attr.qkey = 0x11111111;
    attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
    const int last = qp->qp_type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS;
    ASSERT_EQ(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | last), 0);
    EXPECT_EQ(qp->state, IBV_QPS_INIT);
  }

  /// As each type needs it, and no attribute more.
  void to_rts(ibv_qp* qp, std::uint32_t peer) const {
    to_init(qp);
    const ibv_qp_type type = qp->qp_type;
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_RTR;
    attr.ah_attr = path();
    attr.path_mtu = IBV_MTU_1024;
    attr.dest_qp_num = peer;
    attr.max_dest_rd_atomic = 4;
    attr.min_rnr_timer = 1;
    int mask = IBV_QP_STATE;
    if (type != IBV_QPT_UD) mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
    if (type == IBV_QPT_RC || type == IBV_QPT_XRC_RECV) mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
    ASSERT_EQ(ibv_modify_qp(qp, &attr, mask), 0);
    attr.qp_state = IBV_QPS_RTS;
    attr.timeout = 10;
    attr.retry_cnt = 7;
    attr.rnr_retry = 7;
    attr.max_rd_atomic = 4;
    mask = IBV_QP_STATE | IBV_QP_SQ_PSN;
    if (type == IBV_QPT_RC || type == IBV_QPT_XRC_SEND)
      mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
    if (type == IBV_QPT_XRC_RECV) mask |= IBV_QP_TIMEOUT;
    ASSERT_EQ(ibv_modify_qp(qp, &attr, mask), 0);
    EXPECT_EQ(qp->state, IBV_QPS_RTS);
  }

  /// Two that have each other as peers; of UD, both are ready.
  std::pair<ibv_qp*, ibv_qp*> pair(ibv_qp_type type) {
    ibv_qp *const a = make(type), *const b = make(type);
    to_rts(a, b->qp_num);
    to_rts(b, a->qp_num);
    return {a, b};
  }

  ibv_sge piece(std::size_t at, std::uint32_t length) {
    return {.addr = reinterpret_cast<std::uintptr_t>(memory_.data() + at), .length = length, .lkey = mr_->lkey};
  }

  int receive(ibv_qp* qp, std::uint64_t id, std::size_t at, std::uint32_t length) {
    ibv_sge sge = piece(at, length);
    ibv_recv_wr wr{.wr_id = id, .next = nullptr, .sg_list = &sge, .num_sge = 1}, *bad = nullptr;
    return ibv_post_recv(qp, &wr, &bad);
  }

  ibv_send_wr request(ibv_wr_opcode opcode, ibv_sge& sge, std::uint64_t id = 1) {
    ibv_send_wr wr{};
    wr.wr_id = id;
    wr.opcode = opcode;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.send_flags = IBV_SEND_SIGNALED;
    return wr;
  }

  static int post(ibv_qp* qp, ibv_send_wr wr) {
    ibv_send_wr* bad = nullptr;
    return ibv_post_send(qp, &wr, &bad);
  }

  /// The next completions, in order; fewer if they do not come.
  std::vector<ibv_wc> completions(std::size_t count) {
    std::vector<ibv_wc> out;
    const auto end = std::chrono::steady_clock::now() + hang_limit;
    while (out.size() < count && std::chrono::steady_clock::now() < end) {
      ibv_wc wc{};
      if (ibv_poll_cq(cq_, 1, &wc) > 0) out.push_back(wc);
    }
    EXPECT_EQ(out.size(), count);
    out.resize(count);
    return out;
  }

  void set(std::size_t at, std::string_view text) { std::memcpy(memory_.data() + at, text.data(), text.size()); }
  std::string text(std::size_t at, std::size_t length) const {
    return {reinterpret_cast<const char*>(memory_.data()) + at, length};
  }

  std::vector<std::uint8_t> memory_ = std::vector<std::uint8_t>(room);
  ibv_context* context_ = nullptr;
  ibv_pd* pd_ = nullptr;
  ibv_comp_channel* channel_ = nullptr;
  ibv_cq* cq_ = nullptr;
  ibv_mr* mr_ = nullptr;
  std::vector<ibv_qp*> qps_;
};

}  // namespace parley::preload_test
