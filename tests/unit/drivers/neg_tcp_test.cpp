// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Negotiations over real sockets, as a program has them that links libparley.
#include "parley/neg_tcp.hpp"

#include <gtest/gtest.h>
#include <poll.h>

#include <chrono>
#include <utility>

#include "parley/neg_qp.hpp"
#include "tests/unit/hang_limit.hpp"

namespace parley::neg {
namespace {

using namespace std::chrono_literals;

const Config left{{"qpn", "0x11"}, {"gid", "192.0.2.1"}}, right{{"qpn", "0x22"}, {"gid", "192.0.2.2"}};

/// One side, with the variants that Parley brings along, and what it was told.
struct Side {
  explicit Side(const PeersOptions& options = {}) {
    EXPECT_TRUE(framework.add(make_builtin_plugin()));
    peers = std::move(*TcpPeers::open(framework, options));
  }
  void take() {
    while (auto event = peers->poll_event()) {
      if (const auto* listening = std::get_if<Listening>(&*event)) address = listening->local;
      if (std::get_if<ListenFailed>(&*event) != nullptr) ++listen_failed;
      if (auto* over = std::get_if<Ended>(&*event)) ended.push_back(std::move(*over));
    }
  }
  bool listen(std::vector<Offer> offers) {
    if (!peers->listen(Address::v4(127, 0, 0, 1, 0), std::move(offers))) return false;
    peers->run_once(hang_limit);
    take();
    return address.port != 0;
  }
  Dial dial_of(const Address& server, Config config = left) const {
    return {.request = {.plugin = "parley", .variant = "manual", .label = "test"},
            .config = std::move(config),
            .server = server};
  }
  Framework framework;
  std::unique_ptr<TcpPeers> peers;
  Address address{};
  int listen_failed = 0;
  std::vector<Ended> ended;
};

/// Waits in poll() for what each side asks for, and for nothing else; false after 20 s.
template <class Done>
bool drive(std::initializer_list<Side*> sides, Done done) {
  const auto end = std::chrono::steady_clock::now() + hang_limit;
  while (!done()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::vector<pollfd> waits;
    Duration wait = 5s;
    for (const Side* side : sides) {
      waits.push_back({side->peers->fd(), POLLIN, 0});
      const Instant deadline = side->peers->next_deadline();
      if (deadline != never) wait = std::min(wait, std::max(deadline - side->peers->now(), Duration{}));
    }
    ::poll(waits.data(), waits.size(), static_cast<int>(std::chrono::ceil<std::chrono::milliseconds>(wait).count()));
    for (Side* side : sides) {
      side->peers->run_once(Duration{});
      side->take();
    }
  }
  return true;
}

TEST(NegTcp, BothSidesAgreeOnQueuePairs) {
  Side server, client;
  ASSERT_TRUE(server.listen({{.plugin = "parley", .variant = "manual", .config = right}}));
  ASSERT_TRUE(client.peers->dial(client.dial_of(server.address)));
  EXPECT_EQ(client.peers->next_deadline(), Instant{}) << "what was asked for wants a turn";
  ASSERT_TRUE(drive({&server, &client}, [&] { return !server.ended.empty() && !client.ended.empty(); }));
  ASSERT_FALSE(client.ended[0].failure) << client.ended[0].failure->to_string();
  ASSERT_FALSE(server.ended[0].failure);
  ASSERT_EQ(client.ended[0].agreed.size(), 1U);
  EXPECT_EQ(client.ended[0].agreed[0].peer.qpn, 0x22U);
  EXPECT_EQ(server.ended.at(0).agreed.at(0).peer.qpn, 0x11U);
  EXPECT_EQ(server.ended[0].request.label, "test");
  ASSERT_TRUE(drive({&server, &client}, [&] { return client.peers->streams() + server.peers->streams() == 0; }));
  EXPECT_EQ(client.peers->next_deadline(), never);
}

TEST(NegTcp, NobodyThereIsTold) {
  Side gone, client;
  ASSERT_TRUE(gone.listen({}));
  gone.peers->stop_listening();
  EXPECT_EQ(gone.peers->next_deadline(), Instant{});
  gone.peers->run_once(Duration{});
  auto dial = client.dial_of(gone.address);
  dial.retry = {.rounds = 2, .first = 1ms};
  ASSERT_TRUE(client.peers->dial(std::move(dial)));
  ASSERT_TRUE(drive({&client}, [&] { return !client.ended.empty(); }));
  ASSERT_TRUE(client.ended[0].failure);
  EXPECT_EQ(client.ended[0].failure->problem, Problem::server_unreachable);
  EXPECT_EQ(client.ended[0].attempts, 2U);
}

TEST(NegTcp, AnAddressThatIsTakenIsTold) {
  Side first, second;
  ASSERT_TRUE(first.listen({}));
  ASSERT_TRUE(second.peers->listen(first.address));
  ASSERT_TRUE(drive({&second}, [&] { return second.listen_failed == 1; }));
}

TEST(NegTcp, AnEventThatIsLeftIsToldAgain) {
  Side server;
  ASSERT_TRUE(server.peers->listen(Address::v4(127, 0, 0, 1, 0)));
  EXPECT_TRUE(server.peers->run_once(hang_limit));
  EXPECT_EQ(server.peers->next_deadline(), Instant{});
  EXPECT_TRUE(server.peers->run_once(Duration{}));
  server.take();
  EXPECT_EQ(server.peers->next_deadline(), never);
  server.peers->wake();
  EXPECT_TRUE(server.peers->run_once(hang_limit));
}

TEST(NegTcp, WhoEndsInTheMiddleIsNotTakenForDone) {
  Side server;
  ASSERT_TRUE(server.listen({{.plugin = "parley", .variant = "manual", .config = right}}));
  {
    Side client;
    ASSERT_TRUE(client.peers->dial(client.dial_of(server.address)));
    // Until its Hello is on its way; it ends before it has taken the answer.
    client.peers->run_once(hang_limit);
    client.peers->run_once(Duration{});
    ASSERT_EQ(client.peers->busy(), 1U);
  }
  ASSERT_TRUE(drive({&server}, [&] { return !server.ended.empty(); }));
  ASSERT_TRUE(server.ended[0].failure);
  EXPECT_EQ(server.ended[0].failure->problem, Problem::connection_lost);
  EXPECT_NE(server.ended[0].failure->text.find("RST"), std::string::npos) << server.ended[0].failure->text;
}

}  // namespace
}  // namespace parley::neg
