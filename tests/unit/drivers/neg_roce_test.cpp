// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Negotiated queue pairs of Parley's own RoCE engine over real sockets on loopback, as a program has them that links libparley.
#include "parley/neg_roce.hpp"

#include <gtest/gtest.h>
#include <poll.h>

#include <utility>

#include "drivers/clock.hpp"
#include "parley/neg_tcp.hpp"
#include "tests/unit/hang_limit.hpp"

namespace parley::neg {
namespace roce_engine_test {
namespace {

using namespace std::chrono_literals;

/// One side: an engine, and negotiations whose queue pairs it makes.
struct Side {
  Side() : engine(std::move(*RoceEngine::open())) {
    EXPECT_TRUE(framework.add(make_builtin_plugin(engine->drivers())));
    peers = std::move(*TcpPeers::open(framework));
  }
  bool turn() {
    const bool any = engine->run_once({}) || peers->run_once({});
    while (auto event = peers->poll_event()) {
      if (const auto* listening = std::get_if<Listening>(&*event)) address = listening->local;
      if (auto* over = std::get_if<Ended>(&*event)) ended = std::move(*over);
    }
    return any;
  }
  std::unique_ptr<RoceEngine> engine;
  Framework framework;
  std::unique_ptr<TcpPeers> peers;
  Address address{};
  std::optional<Ended> ended;
};

struct Both {
  Side client, server;
  /// Sleeps in poll() for the four descriptors and the earliest deadline, and nothing else; false after hang_limit.
  template <class Done>
  bool drive(Done done) {
    const Instant end = clock_now() + hang_limit;
    while (!done()) {
      if (clock_now() > end) return false;
      std::vector<pollfd> waits;
      Instant next = clock_now() + 5s;
      for (const Side* side : {&client, &server}) {
        waits.push_back({side->engine->fd(), POLLIN, 0});
        waits.push_back({side->peers->fd(), POLLIN, 0});
        next = std::min({next, side->engine->next_deadline(), side->peers->next_deadline()});
      }
      const auto wait = std::chrono::ceil<std::chrono::milliseconds>(std::max(next - clock_now(), Duration{}));
      ::poll(waits.data(), waits.size(), static_cast<int>(wait.count()));
      for (Side* side : {&client, &server}) side->turn();
    }
    return true;
  }
  void negotiate(const std::string& variant, const Config& config = {}) {
    ASSERT_TRUE(server.peers->listen(Address::v4(127, 0, 0, 1, 0), {{"parley", variant, config}}));
    ASSERT_TRUE(drive([&] { return server.address.port != 0; }));
    ASSERT_TRUE(client.peers->dial({.request = {"parley", variant}, .config = config, .server = server.address}));
    ASSERT_TRUE(drive([&] { return client.ended && server.ended; }));
    for (const Side* side : {&client, &server}) ASSERT_FALSE(side->ended->failure) << side->ended->failure->to_string();
  }
};

TEST(NegRoceEngine, AProgramDrivesItBesideItsNegotiations) {
  for (const char* variant : {"verbs-rc", "verbs-uc", "verbs-ud"}) {
    SCOPED_TRACE(variant);
    Both b;
    std::uint64_t seen = 0;
    b.client.engine->set_tap([&](const PacketTapRecord&) { ++seen; });
    b.negotiate(variant);
    const QpPair &mine = b.client.ended->agreed.at(0), &theirs = b.server.ended->agreed.at(0);
    EXPECT_TRUE(mine.tested && theirs.tested);
    EXPECT_EQ(mine.peer.gid, theirs.local.gid);
    EXPECT_EQ(mine.local.gid[12], 127);
    EXPECT_GE(b.client.engine->counters().received, 1U);
    EXPECT_EQ(seen, b.client.engine->counters().sent + b.client.engine->counters().received);
    b.client.engine->set_tap({});
  }
}

TEST(NegRoceEngine, AServerWhoseMemoryIsReadDoesNothingButTurn) {
  Both b;
  b.negotiate("perftest", {{"test", "read_bw"}, {"size", "100000"}, {"iterations", "40"}});
  EXPECT_EQ(b.client.ended->agreed.at(0).played->octets, 4'000'000U);
  EXPECT_EQ(b.server.ended->agreed.at(0).played->messages, 0U);
}

// What an engine made may be let go after it.
TEST(NegRoceEngine, QueuePairsMayOutliveIt) {
  Both b;
  b.negotiate("verbs-rc");
  b.client.engine.reset();
  b.server.engine.reset();
  EXPECT_EQ(b.client.ended->variant->agreed().size(), 1U);
  b.client.ended.reset();
  b.server.ended.reset();
}

TEST(NegRoceEngine, TheFirstPsnIsDrawn) {
  Both one, two;
  one.negotiate("verbs-rc");
  two.negotiate("verbs-rc");
  const QpAttributes &a = one.client.ended->agreed.at(0).local, &b = two.client.ended->agreed.at(0).local;
  EXPECT_FALSE(a.psn == b.psn && a.qpn == b.qpn);
}

}  // namespace
}  // namespace roce_engine_test
}  // namespace parley::neg
