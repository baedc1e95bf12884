// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// How connections, listeners and contexts end, on sockets and on simulated hosts: a peer is told "graceful" only of an end
// that was one, and nothing comes of what was destroyed.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <map>
#include <string>
#include <vector>

#include "parley/parley.h"
#include "tests/unit/hang_limit.hpp"

namespace parley {
namespace {

/// A program on either provider.
struct Side {
  parley_ctx* ctx = nullptr;
  parley_mr mr = PARLEY_MR_INIT;
  std::array<char, 4096> memory{};
  std::map<std::uint32_t, int> count;
  std::map<std::uint32_t, int> status;
  parley_event last = PARLEY_EVENT_INIT;
  std::string address;
  parley_id id = 0;
  std::vector<parley_wc> done;

  void open(const char* provider, parley_world* world) {
    parley_opts opts = PARLEY_OPTS_INIT;
    opts.provider = provider;
    opts.world = world;
    ASSERT_EQ(parley_open(&ctx, &opts), 0) << parley_last_error();
    ASSERT_EQ(parley_reg_mr(ctx, memory.data(), memory.size(), PARLEY_ACCESS_LOCAL_WRITE, &mr), 0);
  }
  void turn() {
    ASSERT_GE(parley_progress(ctx), 0);
    parley_wc wc;
    while (parley_poll_cq(ctx, 0, &wc, 1, sizeof wc) == 1) done.push_back(wc);
    parley_event event = PARLEY_EVENT_INIT;
    while (parley_next_event(ctx, &event) == 1) {
      ++count[event.type];
      status[event.type] = event.status;
      last = event;
      if (event.type == PARLEY_EVENT_LISTENING) address = event.local;
      if (event.type == PARLEY_EVENT_CONNECT_REQUEST) id = event.id;
    }
  }
  int send(std::uint32_t length) {
    const parley_sge sge{mr.addr, length, mr.lkey};
    parley_send_wr wr = PARLEY_SEND_WR_INIT;
    wr.opcode = PARLEY_SEND;
    wr.sges = &sge;
    wr.num_sge = 1;
    return parley_post_send(ctx, id, &wr);
  }
  int receive() {
    const parley_sge sge{mr.addr, static_cast<std::uint32_t>(memory.size()), mr.lkey};
    parley_recv_wr wr = PARLEY_RECV_WR_INIT;
    wr.sges = &sge;
    wr.num_sge = 1;
    return parley_post_recv(ctx, id, &wr);
  }
};

class CEnds : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (simulated()) {
      ASSERT_EQ(parley_world_open(&world, nullptr), 0);
    }
    server.open(GetParam(), world);
    client.open(GetParam(), world);
    std::string at = "127.0.0.1:0";
    if (simulated()) {
      char text[PARLEY_ADDRSTRLEN];
      ASSERT_EQ(parley_host_address(server.ctx, 4, text), 0);
      at = std::string(text).substr(0, std::string(text).find(':')) + ":7471";
    }
    ASSERT_EQ(parley_listen(server.ctx, at.c_str(), nullptr, &listener), 0) << parley_last_error();
    ASSERT_TRUE(drive([&] { return !server.address.empty(); }));
  }
  void TearDown() override {
    for (Side* side : {&server, &client}) EXPECT_EQ(side->ctx != nullptr ? parley_close(side->ctx) : 0, 0);
    EXPECT_EQ(world != nullptr ? parley_world_close(world) : 0, 0);
  }
  bool simulated() const { return std::string(GetParam()) == "sim"; }
  /// Until the condition holds; false after hang_limit.
  template <class Condition>
  bool drive(Condition condition) {
    const auto end = std::chrono::steady_clock::now() + hang_limit;
    while (!condition()) {
      if (std::chrono::steady_clock::now() > end) return false;
      for (Side* side : {&server, &client})
        if (side->ctx != nullptr) side->turn();
    }
    return true;
  }
  void connect() {
    ASSERT_EQ(parley_connect(client.ctx, server.address.c_str(), nullptr, &client.id), 0) << parley_last_error();
    ASSERT_TRUE(drive([&] { return server.id != 0; }));
  }
  void establish() {
    connect();
    ASSERT_EQ(parley_accept(server.ctx, server.id, nullptr), 0) << parley_last_error();
    ASSERT_TRUE(drive(
        [&] { return client.count[PARLEY_EVENT_ESTABLISHED] == 1 && server.count[PARLEY_EVENT_ESTABLISHED] == 1; }));
  }
  void server_is_told(int status) {
    ASSERT_TRUE(drive([&] { return server.count[PARLEY_EVENT_DISCONNECTED] == 1; }));
    EXPECT_EQ(server.status[PARLEY_EVENT_DISCONNECTED], status)
        << parley_strerror(server.status[PARLEY_EVENT_DISCONNECTED]);
  }

  parley_world* world = nullptr;
  Side server, client;
  parley_id listener = 0;
};

TEST_P(CEnds, AClosedContextIsNoGracefulEnd) {
  establish();
  ASSERT_EQ(client.send(64), 0);
  ASSERT_EQ(parley_close(client.ctx), 0);
  client.ctx = nullptr;
  server_is_told(-PARLEY_E_PEER_RESET);
}

TEST_P(CEnds, AClosedContextIsNoGracefulEndEvenIfNothingIsPosted) {
  establish();
  ASSERT_EQ(parley_close(client.ctx), 0);
  client.ctx = nullptr;
  server_is_told(-PARLEY_E_PEER_RESET);
}

TEST_P(CEnds, ADestroyedConnectionIsNoGracefulEnd) {
  establish();
  ASSERT_EQ(client.send(64), 0);
  ASSERT_EQ(parley_destroy(client.ctx, client.id), 0);
  server_is_told(-PARLEY_E_PEER_RESET);
  EXPECT_EQ(client.count[PARLEY_EVENT_DISCONNECTED], 0) << "no event of a destroyed id";
  EXPECT_EQ(parley_destroy(client.ctx, client.id), -PARLEY_E_BAD_HANDLE);
}

TEST_P(CEnds, ADisconnectThatIsNotWaitedForIsNone) {
  establish();
  ASSERT_EQ(client.send(64), 0);
  ASSERT_EQ(parley_disconnect(client.ctx, client.id), 0);
  ASSERT_EQ(parley_close(client.ctx), 0);
  client.ctx = nullptr;
  server_is_told(-PARLEY_E_PEER_RESET);
}

TEST_P(CEnds, ADisconnectDeliversWhatIsPosted) {
  establish();
  ASSERT_EQ(server.receive(), 0);
  ASSERT_EQ(client.send(64), 0);
  ASSERT_EQ(parley_disconnect(client.ctx, client.id), 0);
  ASSERT_TRUE(drive([&] { return client.count[PARLEY_EVENT_DISCONNECTED] == 1; }));
  EXPECT_EQ(client.status[PARLEY_EVENT_DISCONNECTED], 0);
  server_is_told(0);
  ASSERT_FALSE(server.done.empty());
  EXPECT_EQ(server.done[0].status, 0U);
  EXPECT_EQ(server.done[0].byte_len, 64U);
  EXPECT_EQ(parley_disconnect(client.ctx, client.id), -PARLEY_E_WRONG_STATE);
  EXPECT_EQ(client.send(1), -PARLEY_E_WRONG_STATE);
}

TEST_P(CEnds, ADestroyedListenersRequestsAreReset) {
  ASSERT_EQ(parley_connect(client.ctx, server.address.c_str(), nullptr, &client.id), 0);
  // The request comes in, and is not looked at before its listener is gone.
  const auto end = std::chrono::steady_clock::now() + hang_limit;
  for (int turn = 0; turn < 200 && std::chrono::steady_clock::now() < end; ++turn) {
    client.turn();
    ASSERT_GE(parley_progress(server.ctx), 0);
  }
  ASSERT_EQ(parley_destroy(server.ctx, listener), 0);
  ASSERT_TRUE(drive([&] { return client.count[PARLEY_EVENT_CONNECT_FAILED] == 1; }));
  EXPECT_EQ(server.count[PARLEY_EVENT_CONNECT_REQUEST], 0);
}

TEST_P(CEnds, AHandleOfAnotherContextOrOfNoneIsRefused) {
  establish();
  EXPECT_EQ(parley_disconnect(client.ctx, server.id == client.id ? ~0ULL : server.id), -PARLEY_E_BAD_HANDLE);
  for (const parley_id bad :
       std::array<parley_id, 4>{0, ~parley_id{0}, client.id + (1ULL << 32), client.id | 0xFFFFFFFF}) {
    if (bad == client.id) continue;
    EXPECT_EQ(parley_disconnect(client.ctx, bad), -PARLEY_E_BAD_HANDLE);
    EXPECT_EQ(parley_destroy(client.ctx, bad), -PARLEY_E_BAD_HANDLE);
  }
}

TEST_P(CEnds, AChildOfForkHasNoneOfItsParentsContexts) {
  establish();
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    bool refused = parley_close(client.ctx) == -PARLEY_E_BAD_HANDLE;
    refused = refused && parley_progress(server.ctx) == -PARLEY_E_BAD_HANDLE;
    refused = refused && parley_wake(server.ctx) == -PARLEY_E_BAD_HANDLE && parley_now_ns(server.ctx) == 0;
    refused = refused && (world == nullptr || parley_world_close(world) == -PARLEY_E_BAD_HANDLE);
    parley_ctx* own = nullptr;
    const bool opens = parley_open(&own, nullptr) == 0 && parley_close(own) == 0;
    ::_exit(refused && opens ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  ASSERT_EQ(parley_disconnect(client.ctx, client.id), 0);
  server_is_told(0);
}

/// Connects to "127.0.0.1:PORT" as anybody may, and says `words`.
void scan(const std::string& address, const std::string& words) {
  const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(static_cast<std::uint16_t>(std::stoi(address.substr(address.find(':') + 1))));
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(::connect(fd, reinterpret_cast<const sockaddr*>(&to), sizeof to), 0);
  ASSERT_EQ(::send(fd, words.data(), words.size(), MSG_NOSIGNAL), static_cast<ssize_t>(words.size()));
  ::close(fd);
}

class CScans : public CEnds {};

TEST_P(CScans, AreToldAndLeaveNothing) {
  int failed = 0;
  for (const std::string words : {"", "GET / HTTP/1.1\r\n\r\n", "MPA ID Req F"}) {
    scan(server.address, words);
    ++failed;
    ASSERT_TRUE(drive([&] { return server.count[PARLEY_EVENT_CONNECT_FAILED] == failed; })) << words;
    EXPECT_NE(server.last.id, listener) << words;
    EXPECT_EQ(server.last.user, nullptr) << words;
    parley_id_attr attr = PARLEY_ID_ATTR_INIT;
    EXPECT_EQ(parley_query_id(server.ctx, server.last.id, &attr), -PARLEY_E_BAD_HANDLE) << words;
    EXPECT_EQ(parley_destroy(server.ctx, server.last.id), -PARLEY_E_BAD_HANDLE) << words;
  }
  establish();
}

INSTANTIATE_TEST_SUITE_P(On, CScans, testing::Values("iwarp"),
                         [](const auto& test) { return std::string(test.param); });
INSTANTIATE_TEST_SUITE_P(On, CEnds, testing::Values("iwarp", "sim"),
                         [](const auto& test) { return std::string(test.param); });

/// Takes all descriptors that are left but `spare`; gives them back at its end.
class NoDescriptors {
 public:
  explicit NoDescriptors(int spare) {
    ::getrlimit(RLIMIT_NOFILE, &before_);
    const int next = ::dup(0);
    ::close(next);
    const rlimit tight{static_cast<rlim_t>(next + spare), before_.rlim_max};
    ::setrlimit(RLIMIT_NOFILE, &tight);
  }
  ~NoDescriptors() { ::setrlimit(RLIMIT_NOFILE, &before_); }
  NoDescriptors(const NoDescriptors&) = delete;
  NoDescriptors& operator=(const NoDescriptors&) = delete;

 private:
  rlimit before_{};
};

TEST(CDescriptors, RunOutInWords) {
  Side side;
  side.open("iwarp", nullptr);
  {
    const NoDescriptors none(0);
    parley_ctx* more = nullptr;
    EXPECT_EQ(parley_open(&more, nullptr), -PARLEY_E_NO_SPACE);
    EXPECT_NE(std::string(parley_last_error()).find("descriptor"), std::string::npos) << parley_last_error();
    EXPECT_EQ(more, nullptr);
    EXPECT_EQ(parley_fd(side.ctx), -PARLEY_E_NO_SPACE);
    EXPECT_NE(std::string(parley_last_error()).find("descriptor"), std::string::npos) << parley_last_error();
    ASSERT_EQ(parley_connect(side.ctx, "127.0.0.1:1", nullptr, &side.id), 0);
    side.turn();
    ASSERT_EQ(side.count[PARLEY_EVENT_CONNECT_FAILED], 1);
    EXPECT_EQ(side.last.status, -PARLEY_E_NO_SPACE);
  }
  EXPECT_GE(parley_fd(side.ctx), 0) << "there is room again";
  EXPECT_EQ(parley_close(side.ctx), 0);
}

TEST(CArguments, TimesOfSilentPeers) {
  Side side;
  side.open("iwarp", nullptr);
  struct Times {
    std::uint32_t keepalive_ms, dead_after_ms;
    const char* why;  // null: accepted
  };
  constexpr std::uint32_t day = 24 * 60 * 60 * 1000;
  for (const Times& t :
       {Times{0, 0, nullptr}, Times{13'000, 0, nullptr}, Times{0, 1, nullptr}, Times{1, 2, nullptr},
        Times{PARLEY_NEVER, 1, nullptr}, Times{day, PARLEY_NEVER, nullptr},
        Times{3000, 3000, "keepalive is 3000000000 ns and dead_after 3000000000 ns; keepalive must be less"},
        Times{day + 1, 0, "keepalive is 86400001000000 ns; must be 0 (never), or 1 ms to 24 h"},
        Times{0, day + 1, "dead_after is 86400001000000 ns; must be 0 (never), or 1 ms to 24 h"}}) {
    parley_connect_opts connect = PARLEY_CONNECT_OPTS_INIT;
    parley_listen_opts listen = PARLEY_LISTEN_OPTS_INIT;
    connect.keepalive_ms = listen.keepalive_ms = t.keepalive_ms;
    connect.dead_after_ms = listen.dead_after_ms = t.dead_after_ms;
    for (const bool listens : {false, true}) {
      const int rc = listens ? parley_listen(side.ctx, "127.0.0.1:0", &listen, &side.id)
                             : parley_connect(side.ctx, "127.0.0.1:1", &connect, &side.id);
      EXPECT_EQ(rc, t.why == nullptr ? 0 : -PARLEY_E_INVALID_ARGUMENT) << t.keepalive_ms << ' ' << t.dead_after_ms;
      if (t.why != nullptr) {
        EXPECT_NE(std::string(parley_last_error()).find(t.why), std::string::npos) << parley_last_error();
      }
    }
  }
  EXPECT_EQ(parley_close(side.ctx), 0);
}

TEST(CArguments, LengthsThatCannotBeAreRefused) {
  Side side;
  side.open("iwarp", nullptr);
  const auto refused = [](int rc, const char* why) {
    EXPECT_EQ(rc, -PARLEY_E_INVALID_ARGUMENT) << why;
    EXPECT_NE(std::string(parley_last_error()).find(why), std::string::npos) << parley_last_error();
  };
  parley_connect_opts opts = PARLEY_CONNECT_OPTS_INIT;
  opts.private_data = side.memory.data();
  for (const std::uint32_t length : {509U, 0x8000'0000U, 0xFFFF'FFFFU}) {
    opts.private_data_len = length;
    refused(parley_connect(side.ctx, "127.0.0.1:1", &opts, &side.id), "private_data has");
    EXPECT_EQ(side.id, 0U);
  }
  opts = PARLEY_CONNECT_OPTS_INIT;
  opts.backup_count = 0xFFFF'FFFF;
  refused(parley_connect(side.ctx, "127.0.0.1:1", &opts, &side.id), "backups is null");
  parley_mr mr = PARLEY_MR_INIT;
  refused(parley_reg_mr(side.ctx, side.memory.data(), SIZE_MAX, PARLEY_ACCESS_LOCAL_WRITE, &mr), "beyond the end");
  parley_cq cq = 0;
  refused(parley_create_cq(side.ctx, 0, &cq), "");
  refused(parley_create_cq(side.ctx, 0xFFFF'FFFF, &cq), "");
  parley_srq srq = 0;
  refused(parley_create_srq(side.ctx, 0xFFFF'FFFF, &srq), "");
  parley_qp_init qp = PARLEY_QP_INIT;
  qp.max_send_wr = 0xFFFF'FFFF;
  opts = PARLEY_CONNECT_OPTS_INIT;
  opts.qp = &qp;
  EXPECT_LT(parley_connect(side.ctx, "127.0.0.1:1", &opts, &side.id), 0);
  parley_listen_opts listen = PARLEY_LISTEN_OPTS_INIT;
  listen.backlog = 0xFFFF'FFFF;
  refused(parley_listen(side.ctx, "127.0.0.1:0", &listen, &side.id), "backlog is");
  // Four pieces of 4 GiB are more than a message may have.
  ASSERT_EQ(parley_connect(side.ctx, "127.0.0.1:1", nullptr, &side.id), 0);
  parley_sge sges[4];
  for (parley_sge& sge : sges) sge = {side.mr.addr, 0xFFFF'FFFF, side.mr.lkey};
  parley_recv_wr wr = PARLEY_RECV_WR_INIT;
  wr.sges = sges;
  wr.num_sge = 4;
  EXPECT_LT(parley_post_recv(side.ctx, side.id, &wr), 0);
  EXPECT_EQ(parley_close(side.ctx), 0);
}

}  // namespace
}  // namespace parley
