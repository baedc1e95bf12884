// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The numbers of libibverbs' enumerators (infiniband/verbs.h), which programs store and compare; and those that libibverbs
// lacks, away from its own.
#include <gtest/gtest.h>

#include "nic/common/qp_modify.hpp"
#include "parley/verbs.hpp"

namespace parley::nic {
namespace {

template <class E>
constexpr int number(E enumerator) {
  return static_cast<int>(enumerator);
}

// ibv_wr_opcode; the masked atomics have the numbers of ib_uverbs_wr_opcode (rdma/ib_user_verbs.h).
using Opcode = SendWr::Opcode;
static_assert(number(Opcode::rdma_write) == 0 && number(Opcode::rdma_write_with_imm) == 1);
static_assert(number(Opcode::send) == 2 && number(Opcode::send_with_imm) == 3 && number(Opcode::rdma_read) == 4);
static_assert(number(Opcode::atomic_cmp_and_swp) == 5 && number(Opcode::atomic_fetch_and_add) == 6);
static_assert(number(Opcode::local_inv) == 7 && number(Opcode::bind_mw) == 8 && number(Opcode::send_with_inv) == 9);
static_assert(number(Opcode::masked_atomic_cmp_and_swp) == 12 && number(Opcode::masked_atomic_fetch_and_add) == 13);

// ibv_wc_opcode: bit 7 says that it is a receive, of iWARP's own too.
static_assert(number(WcOpcode::send) == 0 && number(WcOpcode::rdma_write) == 1 && number(WcOpcode::rdma_read) == 2);
static_assert(number(WcOpcode::comp_swap) == 3 && number(WcOpcode::fetch_add) == 4);
static_assert(number(WcOpcode::bind_mw) == 5 && number(WcOpcode::local_inv) == 6);
static_assert(number(WcOpcode::recv) == 128 && number(WcOpcode::recv_rdma_with_imm) == 129);
static_assert(number(WcOpcode::iwarp_immediate) == 0x70 && number(WcOpcode::iwarp_recv_immediate) == 0xF0);

// ibv_wc_status, its first, its last and those that iWARP reports.
static_assert(number(WcStatus::success) == 0 && number(WcStatus::loc_qp_op_err) == 2);
static_assert(number(WcStatus::wr_flush_err) == 5 && number(WcStatus::bad_resp_err) == 7);
static_assert(number(WcStatus::rem_access_err) == 10 && number(WcStatus::rem_op_err) == 11);
static_assert(number(WcStatus::tm_rndv_incomplete) == 23);

// ibv_qp_type, ibv_qp_state, ibv_mtu, ibv_mig_state, ibv_access_flags.
static_assert(number(QpType::rc) == 2 && number(QpType::uc) == 3 && number(QpType::ud) == 4);
static_assert(number(QpType::xrc_ini) == 9 && number(QpType::xrc_tgt) == 10);
static_assert(number(QpState::reset) == 0 && number(QpState::init) == 1 && number(QpState::rtr) == 2);
static_assert(number(QpState::rts) == 3 && number(QpState::sqd) == 4 && number(QpState::sqe) == 5);
static_assert(number(QpState::err) == 6);
static_assert(number(Mtu::octets_256) == 1 && number(Mtu::octets_4096) == 5);
static_assert(number(MigState::migrated) == 0 && number(MigState::rearm) == 1 && number(MigState::armed) == 2);
static_assert(number(Access::local_write) == 1 && number(Access::remote_write) == 2);
static_assert(number(Access::remote_read) == 4 && number(Access::remote_atomic) == 8);
static_assert(number(Access::mw_bind) == 16);

// Numbers between those of types and states are none.
TEST(VerbsNumbers, WhatIsNoTypeOrStateIsRefused) {
  const QpStep none = step_of(static_cast<QpType>(5), QpState::reset, QpState::init);
  EXPECT_EQ(none.required | none.optional, 0U);
  const auto state = check_transition(QpState::init, static_cast<QpState>(7));
  ASSERT_FALSE(state);
  EXPECT_EQ(state.error(), Errc::invalid_argument);
  EXPECT_EQ(state.error().sentence(), "QpAttr::state: 7 is not a state");
}

}  // namespace
}  // namespace parley::nic
