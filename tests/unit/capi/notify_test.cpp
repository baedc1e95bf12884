// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// C programs that sleep until a queue has something, and that post several requests in one call.
#include <gtest/gtest.h>
#include <poll.h>

#include <array>
#include <string>
#include <vector>

#include "parley/parley.h"
#include "tests/unit/hang_limit.hpp"

namespace parley::notify_test {
namespace {

/// One end of a connection over the simulated network, with a region.
struct End {
  parley_ctx* ctx = nullptr;
  parley_id id = 0;
  bool up = false;
  std::array<char, 4096> memory{};
  parley_mr mr = PARLEY_MR_INIT;
  std::vector<parley_srq> low;  // of PARLEY_EVENT_SRQ_LIMIT_REACHED

  parley_sge piece(std::size_t at, std::uint32_t length) const { return {mr.addr + at, length, mr.lkey}; }
  std::vector<std::uint64_t> poll(parley_cq cq) const {
    std::array<parley_wc, 16> done;
    const int n = parley_poll_cq(ctx, cq, done.data(), 16, sizeof done[0]);
    std::vector<std::uint64_t> wr_ids;
    for (int i = 0; i < n; ++i) wr_ids.push_back(done[static_cast<std::size_t>(i)].wr_id);
    return wr_ids;
  }
  std::vector<parley_cq> told() const {
    std::vector<parley_cq> queues;
    parley_cq cq = 0;
    while (parley_next_cq_event(ctx, &cq) == 1) queues.push_back(cq);
    return queues;
  }
};

using Queues = std::vector<parley_cq>;
using Ids = std::vector<std::uint64_t>;

class CNotify : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(parley_world_open(&world_, nullptr), 0);
    for (End* end : {&a_, &b_}) {
      parley_opts o = PARLEY_OPTS_INIT;
      o.provider = "sim";
      o.world = world_;
      ASSERT_EQ(parley_open(&end->ctx, &o), 0) << parley_last_error();
      ASSERT_EQ(parley_reg_mr(end->ctx, end->memory.data(), end->memory.size(), PARLEY_ACCESS_LOCAL_WRITE, &end->mr),
                0);
    }
  }
  void TearDown() override {
    for (const End* end : {&a_, &b_}) EXPECT_EQ(parley_close(end->ctx), 0);
    EXPECT_EQ(parley_world_close(world_), 0);
  }

  /// Until nothing has happened for a while.
  void run() {
    for (int turn = 0; turn < 64; ++turn)
      for (End* end : {&a_, &b_}) {
        ASSERT_GE(parley_progress(end->ctx), 0) << parley_last_error();
        parley_event event = PARLEY_EVENT_INIT;
        while (parley_next_event(end->ctx, &event) == 1) take(*end, event);
      }
  }
  void take(End& end, const parley_event& event) {
    if (event.type == PARLEY_EVENT_ESTABLISHED) end.up = true;
    if (event.type == PARLEY_EVENT_SRQ_LIMIT_REACHED) {
      end.low.push_back(event.srq);
      EXPECT_EQ(event.id, 0U);
      EXPECT_STREQ(event.reason, "");
    }
    if (event.type != PARLEY_EVENT_CONNECT_REQUEST) return;
    end.id = event.id;
    parley_accept_opts o = PARLEY_ACCEPT_OPTS_INIT;
    o.qp = &b_qp_;
    EXPECT_EQ(parley_accept(end.ctx, event.id, &o), 0) << parley_last_error();
  }
  void connect() {
    parley_id listener = 0;
    ASSERT_EQ(parley_listen(b_.ctx, "0.0.0.0:7471", nullptr, &listener), 0);
    char at[PARLEY_ADDRSTRLEN];
    ASSERT_EQ(parley_host_address(b_.ctx, 4, at), 0);
    std::string to = at;
    to = to.substr(0, to.find(':')) + ":7471";
    ASSERT_EQ(parley_connect(a_.ctx, to.c_str(), nullptr, &a_.id), 0) << parley_last_error();
    run();
    ASSERT_TRUE(a_.up && b_.up);
  }
  int send(std::uint64_t wr_id, std::uint32_t flags = 0) {
    const parley_sge piece = a_.piece(0, 8);
    parley_send_wr wr = PARLEY_SEND_WR_INIT;
    wr.opcode = PARLEY_SEND;
    wr.wr_id = wr_id;
    wr.flags = flags;
    wr.sges = &piece;
    wr.num_sge = 1;
    return parley_post_send(a_.ctx, a_.id, &wr);
  }
  /// `n` receives for wr_id 0 and up, of which number `wrong` has a wrong lkey.
  std::vector<parley_recv_wr> receives(int n, std::vector<parley_sge>& pieces, int wrong = -1) {
    pieces.assign(static_cast<std::size_t>(n), b_.piece(0, 64));
    std::vector<parley_recv_wr> wrs;
    for (int i = 0; i < n; ++i) {
      if (i == wrong) pieces[static_cast<std::size_t>(i)].lkey ^= 1;
      parley_recv_wr wr = PARLEY_RECV_WR_INIT;
      wr.wr_id = static_cast<std::uint64_t>(i);
      wr.sges = &pieces[static_cast<std::size_t>(i)];
      wr.num_sge = 1;
      wrs.push_back(wr);
    }
    return wrs;
  }

  parley_world* world_ = nullptr;
  parley_qp_init b_qp_ = PARLEY_QP_INIT;
  End a_, b_;
};

TEST_F(CNotify, ReportsTheQueueThatWasArmedOnce) {
  parley_cq other = 0;
  ASSERT_EQ(parley_create_cq(b_.ctx, 16, &b_qp_.recv_cq), 0);
  ASSERT_EQ(parley_create_cq(b_.ctx, 16, &other), 0);
  connect();
  std::vector<parley_sge> pieces;
  const auto wrs = receives(4, pieces);
  ASSERT_EQ(parley_post_recv_list(b_.ctx, b_.id, wrs.data(), 4, sizeof wrs[0], nullptr), 0) << parley_last_error();
  ASSERT_EQ(send(1), 0);
  run();
  EXPECT_EQ(b_.told(), Queues{}) << "nothing was armed";
  ASSERT_EQ(parley_req_notify_cq(b_.ctx, b_qp_.recv_cq, 0), 0) << parley_last_error();
  ASSERT_EQ(parley_req_notify_cq(b_.ctx, other, 0), 0);
  run();
  EXPECT_EQ(b_.told(), Queues{}) << "the completion was there before";
  ASSERT_EQ(send(2), 0);
  ASSERT_EQ(send(3), 0);
  run();
  EXPECT_EQ(b_.told(), Queues{b_qp_.recv_cq});
  EXPECT_EQ(b_.poll(b_qp_.recv_cq), (Ids{0, 1, 2}));
  ASSERT_EQ(send(4), 0);
  run();
  EXPECT_EQ(b_.told(), Queues{}) << "one request, one event";
}

TEST_F(CNotify, ReportsQueueZeroAndSolicitedReceives) {
  connect();
  std::vector<parley_sge> pieces;
  const auto wrs = receives(2, pieces);
  ASSERT_EQ(parley_post_recv_list(b_.ctx, b_.id, wrs.data(), 2, sizeof wrs[0], nullptr), 0);
  ASSERT_EQ(parley_req_notify_cq(b_.ctx, 0, 1), 0) << parley_last_error();
  ASSERT_EQ(send(1), 0);
  run();
  EXPECT_EQ(b_.told(), Queues{});
  ASSERT_EQ(send(2, PARLEY_SEND_SOLICITED), 0);
  run();
  EXPECT_EQ(b_.told(), Queues{0});
}

TEST_F(CNotify, ADestroyedQueueIsNotReported) {
  ASSERT_EQ(parley_create_cq(b_.ctx, 16, &b_qp_.recv_cq), 0);
  connect();
  std::vector<parley_sge> pieces;
  const auto wrs = receives(1, pieces);
  ASSERT_EQ(parley_post_recv_list(b_.ctx, b_.id, wrs.data(), 1, sizeof wrs[0], nullptr), 0);
  ASSERT_EQ(parley_req_notify_cq(b_.ctx, b_qp_.recv_cq, 0), 0);
  ASSERT_EQ(send(1), 0);
  run();
  ASSERT_EQ(parley_destroy(b_.ctx, b_.id), 0);
  ASSERT_EQ(parley_destroy_cq(b_.ctx, b_qp_.recv_cq), 0) << parley_last_error();
  EXPECT_EQ(b_.told(), Queues{});
  EXPECT_EQ(parley_req_notify_cq(b_.ctx, b_qp_.recv_cq, 0), -PARLEY_E_BAD_HANDLE);
  EXPECT_EQ(parley_req_notify_cq(a_.ctx, b_qp_.recv_cq, 0), -PARLEY_E_BAD_HANDLE);
  EXPECT_EQ(parley_next_cq_event(b_.ctx, nullptr), -PARLEY_E_INVALID_ARGUMENT);
  EXPECT_EQ(parley_next_cq_event(nullptr, nullptr), -PARLEY_E_BAD_HANDLE);
}

TEST_F(CNotify, ReportsAnSrqThatRunsLowOnce) {
  parley_srq full = 0;
  ASSERT_EQ(parley_create_srq(b_.ctx, 4, &full), 0);
  ASSERT_EQ(parley_create_srq(b_.ctx, 4, &b_qp_.srq), 0);
  connect();
  std::vector<parley_sge> pieces;
  const auto wrs = receives(4, pieces);
  for (const parley_srq srq : {full, b_qp_.srq})
    ASSERT_EQ(parley_post_srq_recv_list(b_.ctx, srq, wrs.data(), 4, sizeof wrs[0], nullptr), 0);
  for (const parley_srq srq : {full, b_qp_.srq}) ASSERT_EQ(parley_modify_srq(b_.ctx, srq, 3), 0) << parley_last_error();
  ASSERT_EQ(send(1), 0);
  run();
  EXPECT_EQ(b_.low, Queues{}) << "three are posted";
  ASSERT_EQ(send(2), 0);
  ASSERT_EQ(send(3), 0);
  run();
  EXPECT_EQ(b_.low, Queues{b_qp_.srq});
  ASSERT_EQ(parley_modify_srq(b_.ctx, b_qp_.srq, 4), 0);
  run();
  EXPECT_EQ(b_.low, (Queues{b_qp_.srq, b_qp_.srq})) << "it is below the limit already";
  EXPECT_EQ(parley_modify_srq(b_.ctx, full, 5), -PARLEY_E_INVALID_ARGUMENT);
  EXPECT_EQ(parley_modify_srq(a_.ctx, full, 1), -PARLEY_E_BAD_HANDLE);
  EXPECT_EQ(parley_modify_srq(b_.ctx, 0, 1), -PARLEY_E_BAD_HANDLE);
}

TEST_F(CNotify, AProgramOfAnOlderHeaderHasNoSrqInItsEvents) {
  parley_srq srq = 0;
  ASSERT_EQ(parley_create_srq(b_.ctx, 4, &srq), 0);
  ASSERT_EQ(parley_modify_srq(b_.ctx, srq, 1), 0);
  parley_event event = PARLEY_EVENT_INIT;
  event.size = 4;
  EXPECT_EQ(parley_next_event(b_.ctx, &event), -PARLEY_E_INVALID_ARGUMENT) << "and the event stays";
  event.size = offsetof(parley_event, srq);
  event.srq = 77;
  ASSERT_EQ(parley_next_event(b_.ctx, &event), 1);
  EXPECT_EQ(event.type, PARLEY_EVENT_SRQ_LIMIT_REACHED);
  EXPECT_EQ(event.srq, 77U);
  EXPECT_STREQ(parley_event_name(event.type), "srq_limit_reached");
}

TEST_F(CNotify, AListIsPostedUpToTheFirstThatIsRefused) {
  connect();
  std::vector<parley_sge> pieces;
  const auto wrs = receives(5, pieces, 3);
  int posted = -1;
  EXPECT_EQ(parley_post_recv_list(b_.ctx, b_.id, wrs.data(), 5, sizeof wrs[0], &posted), -PARLEY_E_PROTECTION);
  EXPECT_EQ(posted, 3);
  const parley_sge piece = a_.piece(0, 8);
  std::array<parley_send_wr, 3> sends;
  for (std::size_t i = 0; i < sends.size(); ++i) {
    sends[i] = PARLEY_SEND_WR_INIT;
    sends[i].opcode = PARLEY_SEND;
    sends[i].wr_id = 10 + i;
    sends[i].sges = &piece;
    sends[i].num_sge = 1;
  }
  EXPECT_EQ(parley_post_send_list(a_.ctx, a_.id, sends.data(), 3, sizeof sends[0], &posted), 0) << parley_last_error();
  EXPECT_EQ(posted, 3);
  run();
  EXPECT_EQ(a_.poll(0), (Ids{10, 11, 12}));
  EXPECT_EQ(b_.poll(0), (Ids{0, 1, 2}));
  sends[0].opcode = 77;
  EXPECT_EQ(parley_post_send_list(a_.ctx, a_.id, sends.data(), 3, sizeof sends[0], &posted),
            -PARLEY_E_INVALID_ARGUMENT);
  EXPECT_EQ(posted, 0);
}

TEST_F(CNotify, AListWithWrongArgumentsPostsNothing) {
  connect();
  const parley_send_wr wr = PARLEY_SEND_WR_INIT;
  int posted = 7;
  EXPECT_EQ(parley_post_send_list(a_.ctx, a_.id, nullptr, 1, sizeof wr, &posted), -PARLEY_E_INVALID_ARGUMENT);
  EXPECT_EQ(posted, 0);
  EXPECT_EQ(parley_post_send_list(a_.ctx, a_.id, &wr, -1, sizeof wr, &posted), -PARLEY_E_INVALID_ARGUMENT);
  EXPECT_EQ(parley_post_send_list(a_.ctx, a_.id, &wr, 1, 4, &posted), -PARLEY_E_INVALID_ARGUMENT);
  EXPECT_EQ(parley_post_send_list(a_.ctx, a_.id, nullptr, 0, sizeof wr, &posted), 0);
  posted = 7;
  EXPECT_EQ(parley_post_send_list(a_.ctx, 12345, &wr, 1, sizeof wr, &posted), -PARLEY_E_BAD_HANDLE);
  EXPECT_EQ(posted, 0);
  EXPECT_EQ(parley_post_srq_recv_list(a_.ctx, 0, nullptr, 0, sizeof(parley_recv_wr), &posted), -PARLEY_E_BAD_HANDLE);
}

TEST(CNotifySockets, TheDescriptorIsReadableUntilTheEventIsTaken) {
  parley_ctx* ctx = nullptr;
  ASSERT_EQ(parley_open(&ctx, nullptr), 0) << parley_last_error();
  pollfd wait{parley_fd(ctx), POLLIN, 0};
  parley_id listener = 0, id = 0, served = 0;
  ASSERT_EQ(parley_listen(ctx, "127.0.0.1:0", nullptr, &listener), 0);
  parley_event event = PARLEY_EVENT_INIT;
  for (int up = 0; up < 2;) {
    ASSERT_EQ(::poll(&wait, 1, hang_milliseconds), 1);
    ASSERT_GE(parley_progress(ctx), 0);
    while (parley_next_event(ctx, &event) == 1) {
      if (event.type == PARLEY_EVENT_LISTENING) {
        ASSERT_EQ(parley_connect(ctx, event.local, nullptr, &id), 0);
      } else if (event.type == PARLEY_EVENT_CONNECT_REQUEST) {
        ASSERT_EQ(parley_accept(ctx, served = event.id, nullptr), 0);
      } else if (event.type == PARLEY_EVENT_ESTABLISHED) {
        ++up;
      }
    }
  }
  const parley_recv_wr recv = PARLEY_RECV_WR_INIT;
  ASSERT_EQ(parley_post_recv(ctx, served, &recv), 0) << parley_last_error();
  ASSERT_EQ(parley_req_notify_cq(ctx, 0, 0), 0);
  parley_send_wr wr = PARLEY_SEND_WR_INIT;
  wr.opcode = PARLEY_SEND;
  ASSERT_EQ(parley_post_send(ctx, id, &wr), 0) << parley_last_error();
  parley_wc done;
  for (int n = 0; n == 0;) {
    ASSERT_EQ(::poll(&wait, 1, hang_milliseconds), 1);
    ASSERT_GE(parley_progress(ctx), 0);
    while (parley_next_event(ctx, &event) == 1) {
    }
    n = parley_poll_cq(ctx, 0, &done, 1, sizeof done);
  }
  for (int turn = 0; turn < 3; ++turn) {
    EXPECT_EQ(parley_next_event(ctx, &event), 0);
    EXPECT_EQ(::poll(&wait, 1, 0), 1) << "an event waits";
    EXPECT_EQ(parley_wait(ctx, -1), 1);
  }
  parley_cq cq = 1;
  EXPECT_EQ(parley_next_cq_event(ctx, &cq), 1);
  EXPECT_EQ(cq, 0U);
  EXPECT_EQ(parley_next_cq_event(ctx, &cq), 0);
  EXPECT_EQ(parley_progress(ctx), 0);
  EXPECT_EQ(parley_close(ctx), 0);
}

}  // namespace
}  // namespace parley::notify_test
