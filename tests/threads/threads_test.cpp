// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// What several threads may do at once, each in a way that ThreadSanitizer sees: hosts that others wake, hosts in threads of
// their own, and contexts of the C library. Nothing sleeps.
#include <fcntl.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "parley/parley.h"
#include "parley/tcp_host.hpp"
#include "parley/xrc.h"
#include "tests/unit/drivers/broker_thread.hpp"
#include "tests/unit/hang_limit.hpp"

namespace parley {
namespace {

using namespace std::chrono_literals;

/// Runs `work(number)` in that many threads, which begin together.
template <class Work>
void in_threads(int count, Work work) {
  std::atomic<int> ready{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i)
    threads.emplace_back([&, i] {
      for (++ready; ready < count;) std::this_thread::yield();
      work(i);
    });
  for (std::thread& thread : threads) thread.join();
}

TEST(Threads, AnyOfThemWakesAHostThatWaits) {
  const auto host = TcpHost::open();
  ASSERT_TRUE(host);
  std::atomic<int> woken{0}, stopped{0};
  in_threads(4, [&](int number) {
    if (number == 0) {
      // The others may be over before it has begun.
      do woken += (*host)->run_once(hang_limit) ? 1 : 0;
      while (stopped < 3);
      return;
    }
    for (int i = 0; i < 200; ++i) (*host)->wake();
    ++stopped;
    (*host)->wake();
  });
  EXPECT_GT(woken, 0);
}

/// A server and a client, each a context; the client's message is answered.
class Exchange {
 public:
  Exchange() {
    for (End* end : {&server_, &client_}) {
      EXPECT_EQ(parley_open(&end->ctx, nullptr), 0) << parley_last_error();
      EXPECT_EQ(parley_reg_mr(end->ctx, end->memory, sizeof end->memory, PARLEY_ACCESS_LOCAL_WRITE, &end->region), 0);
    }
  }
  ~Exchange() {
    parley_close(client_.ctx);
    parley_close(server_.ctx);
  }
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;
  parley_ctx* server() const { return server_.ctx; }

  bool run() {
    parley_id listener = 0;
    if (parley_listen(server_.ctx, "127.0.0.1:0", nullptr, &listener) != 0) return false;
    for (int turns = 0; turns < 100'000 && !(client_.ended && server_.ended); ++turns) {
      turn(server_);
      turn(client_);
    }
    return client_.ended && server_.ended && server_.received == 1;
  }

 private:
  struct End {
    parley_ctx* ctx = nullptr;
    char memory[64] = {};
    parley_mr region = PARLEY_MR_INIT;
    parley_id id = 0;
    int received = 0;
    bool ended = false;
  };
  void turn(End& end) {
    parley_wait(end.ctx, 1);
    std::array<parley_wc, 4> done;
    const int n = parley_poll_cq(end.ctx, 0, done.data(), static_cast<int>(done.size()), sizeof done[0]);
    for (int i = 0; i < n; ++i) end.received += done[static_cast<std::size_t>(i)].opcode == PARLEY_WC_RECV ? 1 : 0;
    parley_event event = PARLEY_EVENT_INIT;
    while (parley_next_event(end.ctx, &event) == 1) handle(end, event);
  }
  void handle(End& end, const parley_event& event) {
    const parley_sge octets{end.region.addr, 16, end.region.lkey};
    switch (event.type) {
      case PARLEY_EVENT_LISTENING: parley_connect(client_.ctx, event.local, nullptr, &client_.id); break;
      case PARLEY_EVENT_CONNECT_REQUEST: {
        end.id = event.id;
        const parley_recv_wr receive{sizeof receive, 1, 1, &octets};
        EXPECT_EQ(parley_create_qp(end.ctx, end.id, nullptr), 0) << parley_last_error();
        EXPECT_EQ(parley_post_recv(end.ctx, end.id, &receive), 0) << parley_last_error();
        EXPECT_EQ(parley_accept(end.ctx, end.id, nullptr), 0) << parley_last_error();
        break;
      }
      case PARLEY_EVENT_ESTABLISHED:
        if (&end == &client_) {
          parley_send_wr send = PARLEY_SEND_WR_INIT;
          send.opcode = PARLEY_SEND;
          send.sges = &octets;
          send.num_sge = 1;
          EXPECT_EQ(parley_post_send(end.ctx, end.id, &send), 0) << parley_last_error();
          EXPECT_EQ(parley_disconnect(end.ctx, end.id), 0) << parley_last_error();
        }
        break;
      case PARLEY_EVENT_DISCONNECTED: end.ended = true; break;
      case PARLEY_EVENT_CONNECT_FAILED: ADD_FAILURE() << event.reason; break;
      default: break;
    }
  }
  End server_, client_;
};

TEST(Threads, ContextsOfTheCLibraryNeedNoLockBetweenThem) {
  in_threads(4, [&](int number) {
    for (int i = 0; i < 3; ++i) {
      Exchange exchange;
      // Each thread has its own error.
      const std::string wrong = "host" + std::to_string(number);
      parley_id id = 0;
      EXPECT_EQ(parley_connect(exchange.server(), wrong.c_str(), nullptr, &id), -PARLEY_E_BAD_ADDRESS);
      EXPECT_TRUE(exchange.run()) << parley_last_error();
      EXPECT_EQ(parley_connect(exchange.server(), wrong.c_str(), nullptr, &id), -PARLEY_E_BAD_ADDRESS);
      EXPECT_NE(std::string(parley_last_error()).find('"' + wrong + '"'), std::string::npos) << parley_last_error();
    }
  });
}

TEST(Threads, AContextIsWokenByOthers) {
  parley_ctx* ctx = nullptr;
  ASSERT_EQ(parley_open(&ctx, nullptr), 0);
  std::atomic<int> stopped{0};
  in_threads(4, [&](int number) {
    if (number == 0) {
      while (stopped < 3) EXPECT_GE(parley_wait(ctx, 10'000), 0);
      return;
    }
    for (int i = 0; i < 200; ++i) EXPECT_EQ(parley_wake(ctx), 0);
    ++stopped;
    EXPECT_EQ(parley_wake(ctx), 0);
  });
  EXPECT_EQ(parley_close(ctx), 0);
}

TEST(Threads, AnXrcDomainIsForAllOfThemUntilOneClosesIt) {
  const xrc::BrokerThread broker;
  parley_xrc_opts opts = PARLEY_XRC_OPTS_INIT;
  const std::string socket = broker.socket();
  opts.broker = socket.c_str();
  opts.flags = PARLEY_XRC_NO_START;
  parley_xrcd* domain = nullptr;
  ASSERT_EQ(parley_xrc_open(&domain, -1, O_CREAT, &opts), 0) << parley_last_error();
  ASSERT_GE(parley_xrc_fd(domain), 0);
  std::atomic<int> done{0};
  in_threads(4, [&](int) {
    parley_xrc_event event = PARLEY_XRC_EVENT_INIT;
    for (int i = 0; i < 20; ++i) {
      parley_xrc_tgt tgt = PARLEY_XRC_TGT_INIT;
      EXPECT_EQ(parley_xrc_create(domain, nullptr, &tgt), 0) << parley_last_error();
      EXPECT_EQ(parley_xrc_poll_event(domain, &event), 0) << parley_last_error();
      EXPECT_EQ(parley_xrc_unregister(domain, tgt.qpn, tgt.generation), 0) << parley_last_error();
    }
    // Three poll while the last one closes it.
    if (++done == 4) {
      EXPECT_EQ(parley_xrc_close(domain, 1), 0) << parley_last_error();
      return;
    }
    int rc = 0;
    while ((rc = parley_xrc_poll_event(domain, &event)) == 0) {
    }
    EXPECT_EQ(rc, -PARLEY_E_BAD_HANDLE);
  });
  EXPECT_EQ(parley_xrc_close(domain, 1), -PARLEY_E_BAD_HANDLE);
}

}  // namespace
}  // namespace parley
