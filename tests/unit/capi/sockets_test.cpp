// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// C programs on sockets: one descriptor is enough to wait on.
#include <gtest/gtest.h>
#include <poll.h>

#include <chrono>
#include <map>
#include <string>
#include <thread>

#include "parley/parley.h"
#include "tests/unit/hang_limit.hpp"

namespace parley {
namespace {

using Steady = std::chrono::steady_clock;

/// A context that is driven by poll() on its descriptor alone, with no time limit but the test's own.
struct Program {
  Program() { EXPECT_EQ(parley_open(&ctx, nullptr), 0) << parley_last_error(); }
  ~Program() { EXPECT_EQ(parley_close(ctx), 0); }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  void take() {
    parley_event event = PARLEY_EVENT_INIT;
    while (parley_next_event(ctx, &event) == 1) {
      ++count[event.type];
      status = event.status;
      if (event.type == PARLEY_EVENT_LISTENING) address = event.local, listener = event.id;
      if (event.type == PARLEY_EVENT_CONNECT_REQUEST) requested = event.id;
    }
  }
  parley_ctx* ctx = nullptr;
  std::map<std::uint32_t, int> count;
  int status = 0;
  std::string address;
  parley_id requested = 0, listener = 0;
  int turns = 0;
};

/// Until the condition holds; false after hang_limit.
template <class Condition>
bool drive(std::initializer_list<Program*> programs, Condition condition) {
  const auto end = Steady::now() + hang_limit;
  while (!condition()) {
    std::vector<pollfd> waits;
    for (Program* p : programs) waits.push_back({parley_fd(p->ctx), POLLIN, 0});
    if (Steady::now() > end || ::poll(waits.data(), waits.size(), hang_milliseconds) <= 0) return false;
    std::size_t i = 0;
    for (Program* p : programs) {
      if (waits[i++].revents == 0) continue;  // a program that is not told may sleep
      ++p->turns;
      EXPECT_GE(parley_progress(p->ctx), 0);
      p->take();
    }
  }
  return true;
}

std::string listening(Program& server) {
  parley_id id = 0;
  EXPECT_EQ(parley_listen(server.ctx, "127.0.0.1:0", nullptr, &id), 0) << parley_last_error();
  EXPECT_TRUE(drive({&server}, [&] { return !server.address.empty(); }));
  return server.address;
}

TEST(CSockets, OneDescriptorTellsOfEverything) {
  Program server, client;
  const std::string address = listening(server);
  parley_id id = 0;
  ASSERT_EQ(parley_connect(client.ctx, address.c_str(), nullptr, &id), 0) << parley_last_error();
  ASSERT_TRUE(drive({&server, &client}, [&] { return server.requested != 0; }));
  ASSERT_EQ(parley_accept(server.ctx, server.requested, nullptr), 0) << parley_last_error();
  ASSERT_TRUE(drive({&server, &client}, [&] {
    return client.count[PARLEY_EVENT_ESTABLISHED] == 1 && server.count[PARLEY_EVENT_ESTABLISHED] == 1;
  }));
  ASSERT_EQ(parley_disconnect(client.ctx, id), 0);
  ASSERT_TRUE(drive({&server, &client}, [&] {
    return client.count[PARLEY_EVENT_DISCONNECTED] == 1 && server.count[PARLEY_EVENT_DISCONNECTED] == 1;
  }));
  EXPECT_EQ(client.status, 0);
  EXPECT_EQ(server.status, 0);
  EXPECT_LT(client.turns + server.turns, 100) << "the descriptors were readable without need";
}

TEST(CSockets, TheDescriptorKnowsTheTimers) {
  Program server, client;
  const std::string address = listening(server);
  // It listens no more: the client tries three times, with waits that only the descriptor tells of.
  Program gone;
  const std::string nobody = listening(gone);
  ASSERT_EQ(parley_destroy(gone.ctx, gone.listener), 0);
  ASSERT_TRUE(drive({&gone}, [&] { return gone.turns >= 2; }));
  parley_connect_opts opts = PARLEY_CONNECT_OPTS_INIT;
  opts.retry_rounds = 3;
  opts.retry_first_ms = 20;
  parley_id id = 0;
  ASSERT_EQ(parley_connect(client.ctx, nobody.c_str(), &opts, &id), 0);
  ASSERT_TRUE(drive({&client}, [&] { return client.count[PARLEY_EVENT_CONNECT_FAILED] == 1; }));
  EXPECT_EQ(client.count[PARLEY_EVENT_RETRYING], 2);
  EXPECT_EQ(client.status, -PARLEY_E_REFUSED);
  EXPECT_LT(client.turns, 50);
}

TEST(CSockets, AnEventThatIsLeftIsToldAgain) {
  Program server;
  parley_id id = 0;
  ASSERT_EQ(parley_listen(server.ctx, "127.0.0.1:0", nullptr, &id), 0);
  pollfd wait{parley_fd(server.ctx), POLLIN, 0};
  for (int turn = 0; turn < 3; ++turn) {
    ASSERT_EQ(::poll(&wait, 1, hang_milliseconds), 1) << turn;
    ASSERT_EQ(parley_progress(server.ctx), 1) << turn;
  }
  server.take();
  EXPECT_EQ(server.count[PARLEY_EVENT_LISTENING], 1);
  EXPECT_EQ(parley_progress(server.ctx), 0);
  EXPECT_EQ(::poll(&wait, 1, 0), 0) << "nothing is left";
}

TEST(CSockets, AnotherThreadWakesAWait) {
  Program program;
  std::thread waker([&] { EXPECT_EQ(parley_wake(program.ctx), 0); });
  EXPECT_EQ(parley_wait(program.ctx, hang_milliseconds), 1);
  waker.join();
  EXPECT_EQ(parley_wait(program.ctx, 1), 0);
}

TEST(CSockets, AContextClosesWithEverythingInIt) {
  Program server;
  const std::string address = listening(server);
  parley_ctx* client = nullptr;
  ASSERT_EQ(parley_open(&client, nullptr), 0);
  char memory[64] = {};
  parley_mr mr = PARLEY_MR_INIT;
  parley_cq cq = 0;
  parley_srq srq = 0;
  parley_id id = 0;
  ASSERT_EQ(parley_reg_mr(client, memory, sizeof memory, PARLEY_ACCESS_LOCAL_WRITE, &mr), 0);
  ASSERT_EQ(parley_create_cq(client, 8, &cq), 0);
  ASSERT_EQ(parley_create_srq(client, 8, &srq), 0);
  parley_qp_init qp = PARLEY_QP_INIT;
  qp.recv_cq = cq;
  qp.srq = srq;
  parley_connect_opts opts = PARLEY_CONNECT_OPTS_INIT;
  opts.qp = &qp;
  ASSERT_EQ(parley_connect(client, address.c_str(), &opts, &id), 0) << parley_last_error();
  const parley_sge sge{mr.addr, 8, mr.lkey};
  const parley_recv_wr wr{sizeof wr, 1, 1, &sge};
  ASSERT_EQ(parley_post_srq_recv(client, srq, &wr), 0) << parley_last_error();
  EXPECT_EQ(parley_wait(client, 1000), 1);
  EXPECT_EQ(parley_close(client), 0);
  ASSERT_TRUE(drive({&server}, [&] { return server.turns > 0; }));
}

TEST(CSockets, NamesBecomeAddresses) {
  char out[4][PARLEY_ADDRSTRLEN];
  ASSERT_EQ(parley_resolve("127.0.0.1", 7471, out, 4), 1) << parley_last_error();
  EXPECT_STREQ(out[0], "127.0.0.1:7471");
  EXPECT_EQ(parley_resolve("no such name.invalid", 1, out, 4), -PARLEY_E_BAD_ADDRESS);
  EXPECT_EQ(parley_resolve("::1", 1, out, 0), -PARLEY_E_INVALID_ARGUMENT);
  Program program;
  EXPECT_EQ(parley_host_address(program.ctx, 4, out[0]), -PARLEY_E_UNSUPPORTED);
  EXPECT_STREQ(parley_last_error(), "a machine has several addresses: name the one that is meant");
  EXPECT_EQ(parley_host_address(program.ctx, 5, out[0]), -PARLEY_E_INVALID_ARGUMENT);
}

}  // namespace
}  // namespace parley
