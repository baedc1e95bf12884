// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// ibv_rereg_mr: the keys stay, and what they give is changed.
#include <sys/mman.h>

#include <cerrno>

#include "tests/unit/preload/ends.hpp"

namespace parley::preload_test::rereg_test {
namespace {

class Rereg : public Verbs {
 protected:
  ibv_wc_status write_to(ibv_qp* a, const std::uint8_t* there) {
    ibv_sge from = piece(0, 5);
    ibv_send_wr write = request(IBV_WR_RDMA_WRITE, from, 1);
    write.wr.rdma = {.remote_addr = reinterpret_cast<std::uintptr_t>(there), .rkey = other_->rkey};
    EXPECT_EQ(post(a, write), 0);
    return completions(1)[0].status;
  }

  std::vector<std::uint8_t> first_ = std::vector<std::uint8_t>(100), second_ = std::vector<std::uint8_t>(200);
  ibv_mr* other_ = nullptr;
};

TEST_F(Rereg, TheKeysLeadToTheNewMemory) {
  const auto [a, b] = pair(IBV_QPT_RC);
  (void)b;
  other_ = reg(first_.data(), first_.size(), IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
  ASSERT_NE(other_, nullptr);
  const std::uint32_t lkey = other_->lkey, rkey = other_->rkey;
  set(0, "hello");
  EXPECT_EQ(write_to(a, first_.data()), IBV_WC_SUCCESS);
  ASSERT_EQ(ibv_rereg_mr(other_, IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, second_.data(), second_.size(), 0), 0);
  EXPECT_EQ(other_->addr, second_.data());
  EXPECT_EQ(other_->length, second_.size());
  EXPECT_TRUE(other_->lkey == lkey && other_->rkey == rkey);
  EXPECT_EQ(write_to(a, second_.data() + 195), IBV_WC_SUCCESS);
  EXPECT_EQ(std::string(second_.begin() + 195, second_.end()), "hello");
  EXPECT_EQ(write_to(a, first_.data()), IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(ibv_dereg_mr(other_), 0);
}

TEST_F(Rereg, AccessIsTakenAndTheProtectionDomainChanges) {
  const auto [a, b] = pair(IBV_QPT_RC);
  (void)b;
  other_ = reg(first_.data(), first_.size(), IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
  ibv_pd* const pd = ibv_alloc_pd(context_);
  ASSERT_EQ(ibv_rereg_mr(other_, IBV_REREG_MR_CHANGE_PD, pd, nullptr, 0, 0), 0);
  EXPECT_EQ(other_->pd, pd);
  EXPECT_EQ(ibv_dealloc_pd(pd), EBUSY);
  ASSERT_EQ(ibv_rereg_mr(other_, IBV_REREG_MR_CHANGE_PD, pd_, nullptr, 0, 0), 0);
  EXPECT_EQ(ibv_dealloc_pd(pd), 0);
  ASSERT_EQ(ibv_rereg_mr(other_, IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, IBV_ACCESS_REMOTE_READ), 0);
  EXPECT_EQ(write_to(a, first_.data()), IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(ibv_dereg_mr(other_), 0);
}

TEST_F(Rereg, TheProtectionDomainChangesWhateverBecameOfTheMemory) {
  const std::size_t size = 4096;
  void* const memory = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  other_ = reg(memory, size, IBV_ACCESS_LOCAL_WRITE);
  ASSERT_NE(other_, nullptr);
  ASSERT_EQ(::munmap(memory, size), 0);
  ibv_pd* const pd = ibv_alloc_pd(context_);
  EXPECT_EQ(ibv_rereg_mr(other_, IBV_REREG_MR_CHANGE_PD, pd, nullptr, 0, 0), 0);
  EXPECT_EQ(other_->pd, pd);
  EXPECT_EQ(ibv_dereg_mr(other_), 0);
  EXPECT_EQ(ibv_dealloc_pd(pd), 0);
}

TEST_F(Rereg, WhatDoesNotFitChangesNothing) {
  const auto refused = [&](int flags, ibv_pd* pd, void* addr, std::size_t length, int access, int why) {
    errno = 0;
    EXPECT_EQ(ibv_rereg_mr(mr_, flags, pd, addr, length, access), IBV_REREG_MR_ERR_INPUT);
    EXPECT_EQ(errno, why);
  };
  refused(0, nullptr, nullptr, 0, 0, EINVAL);
  refused(8, nullptr, nullptr, 0, 0, EINVAL);
  refused(IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, nullptr, 10, 0, EINVAL);
  refused(IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, first_.data(), 0, 0, EINVAL);
  refused(IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, first_.data(), 10, IBV_ACCESS_LOCAL_WRITE, EINVAL);
  refused(IBV_REREG_MR_CHANGE_PD, nullptr, nullptr, 0, 0, EINVAL);
  refused(IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, reinterpret_cast<void*>(1), 10, 0, EFAULT);
  refused(IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, IBV_ACCESS_REMOTE_WRITE, EINVAL);
  refused(IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, IBV_ACCESS_ON_DEMAND, EOPNOTSUPP);
  ibv_qp* const qp = make(IBV_QPT_RC);
  to_init(qp);
  ASSERT_EQ(receive(qp, 7, 1000, 100), 0);
  refused(IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, first_.data(), 10, 0, EBUSY);
  EXPECT_EQ(mr_->addr, memory_.data());
}

}  // namespace
}  // namespace parley::preload_test::rereg_test
