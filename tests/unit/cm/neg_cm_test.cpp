// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// perftest's exchange with -R over RoCE's connection manager, in virtual time: both sides are Parley's.
#include "parley/neg_cm.hpp"
#include <gtest/gtest.h>

#include "cm/neg/cm_messages.hpp"
#include "cm/neg/variants/perftest.hpp"
#include "tests/unit/cm/packet_net.hpp"

namespace parley::neg {
namespace cm_negotiation_test {
namespace {

using namespace std::chrono_literals;
using packet_net::Host;

/// One side's negotiation on a host of the network.
struct Side {
  explicit Side(Host& on) : host(on) {}
  std::string open(Instant now, const CmNegotiationOptions& options) {
    auto opened = CmNegotiation::open(host.cm, options, now);
    if (!opened) return opened.error().to_string();
    over = std::move(*opened);
    return "opened";
  }
  void turn(Instant now) {
    for (cm::Event& event : std::exchange(host.events, {})) over->handle(now, event);
    over->turn(now);
    while (auto event = over->poll_event()) {
      if (std::get_if<Listening>(&*event) != nullptr) listens = true;
      if (auto* e = std::get_if<Ended>(&*event)) ended.push_back(std::move(*e));
    }
  }
  Host& host;
  std::unique_ptr<CmNegotiation> over;
  bool listens = false;
  std::vector<Ended> ended;
};

struct Two {
  packet_net::Net net;
  Side client{net.add_host(1)}, server{net.add_host(2)};
  Address at = Address::v4(192, 0, 2, 2, 18515);

  void listen(const Config& config) {
    ASSERT_EQ(server.open(net.now, {.role = Role::responder, .address = at, .config = config}), "opened");
    ASSERT_TRUE(run_until([&] { return server.listens; }));
  }
  void dial(const Config& config) { ASSERT_EQ(client.open(net.now, {.address = at, .config = config}), "opened"); }
  template <class Condition>
  bool run_until(Condition condition, Duration limit = 40s) {
    const Instant end = net.now + limit;
    while (!condition()) {
      if (net.now > end) return false;
      net.run_for(200us);
      if (client.over) client.turn(net.now);
      if (server.over) server.turn(net.now);
      net.now += 50us;
    }
    return true;
  }
  void run(const Config& config) {
    listen(config);
    dial(config);
    ASSERT_TRUE(run_until([&] { return !client.over->busy() && !server.over->busy() && !server.ended.empty(); }));
    ASSERT_EQ(client.ended.size(), 1U);
    ASSERT_EQ(server.ended.size(), 1U);
  }
  static std::string end_of(const Ended& e) { return e.failure ? e.failure->to_string() : "completed"; }
};

TEST(NegCm, EachTestOfPerftestIsPlayed) {
  struct Row {
    std::string test;
    std::uint64_t mine, theirs;  // messages
  };
  for (const Row& row : {Row{"send_bw", 40, 40}, Row{"write_bw", 40, 0}, Row{"read_bw", 40, 0}, Row{"send_lat", 80, 80},
                         Row{"read_lat", 40, 0}}) {
    SCOPED_TRACE(row.test);
    Two t;
    t.run({{"test", row.test}, {"size", "5000"}, {"iterations", "40"}});
    ASSERT_EQ(Two::end_of(t.client.ended[0]), "completed");
    ASSERT_EQ(Two::end_of(t.server.ended[0]), "completed");
    const QpPair &mine = t.client.ended[0].agreed.at(0), &theirs = t.server.ended[0].agreed.at(0);
    EXPECT_EQ(mine.played->messages, row.mine);
    EXPECT_EQ(theirs.played->messages, row.theirs);
    EXPECT_EQ(mine.peer.qpn, theirs.local.qpn);
    EXPECT_EQ(t.client.ended[0].dial, 1U);
    EXPECT_EQ(t.server.ended[0].dial, 0U) << "the peer had begun it";
    EXPECT_EQ(mine.peer.gid, theirs.local.gid);
    EXPECT_TRUE(mine.where.starts_with("parley, 192.0.2.1:") && mine.where.ends_with(", connected by rdma_cm"))
        << mine.where;
    t.net.run_for(30s);
    EXPECT_EQ(t.client.host.bound, 0U) << "nothing stands any more";
  }
}

TEST(NegCm, AListenerServesOneAfterTheOther) {
  Two t;
  const Config config{{"test", "write_bw"}, {"size", "100"}, {"iterations", "5"}};
  t.listen(config);
  for (std::size_t n = 1; n <= 3; ++n) {
    t.client.over.reset();
    t.dial(config);
    ASSERT_TRUE(
        t.run_until([&] { return t.server.ended.size() == n && !t.server.over->busy() && !t.client.over->busy(); }));
    EXPECT_EQ(Two::end_of(t.server.ended.back()), "completed");
    EXPECT_EQ(Two::end_of(t.client.ended.back()), "completed");
  }
}

// Two seconds are for peers that do not hang up.
TEST(NegCm, WhoHasHungUpIsNotWaitedFor) {
  Two t;
  const Config config{{"test", "write_bw"}, {"size", "100"}, {"iterations", "5"}};
  t.listen(config);
  t.dial(config);
  ASSERT_TRUE(t.run_until([&] { return !t.client.ended.empty() && !t.server.ended.empty(); }));
  EXPECT_EQ(Two::end_of(t.client.ended[0]), "completed");
  EXPECT_TRUE(t.run_until([&] { return !t.server.over->busy() && !t.client.over->busy(); }, 500ms));
}

TEST(NegCm, ATalkHasADeadline) {
  Two t;
  const Config config{{"test", "write_bw"}, {"size", "100"}, {"iterations", "5"}};
  t.listen(config);
  t.dial(config);
  bool timed = false;
  ASSERT_TRUE(t.run_until([&] {
    const Instant due = t.client.over->next_deadline();
    timed = timed || (t.client.ended.empty() && due > t.net.now && due != never);
    return !t.client.ended.empty();
  }));
  EXPECT_TRUE(timed);
}

TEST(NegCm, LossesAreMadeGood) {
  Two t;
  t.net.fate = [](const std::string&, std::size_t nth) {
    return packet_net::Net::Fate{.copies = nth % 9 == 4 ? 0 : 1};
  };
  t.run({{"test", "send_bw"}, {"size", "3000"}, {"iterations", "30"}});
  EXPECT_EQ(Two::end_of(t.client.ended[0]), "completed");
  EXPECT_EQ(Two::end_of(t.server.ended[0]), "completed");
}

TEST(NegCm, NobodyThereAndAnotherTestAreTold) {
  Two t;
  t.listen({});
  t.at.port = 1;
  t.dial({});
  ASSERT_TRUE(t.run_until([&] { return !t.client.ended.empty(); }));
  ASSERT_TRUE(t.client.ended[0].failure);
  EXPECT_EQ(t.client.ended[0].failure->problem, Problem::server_unreachable);
  EXPECT_NE(t.client.ended[0].failure->text.find("there is no listener"), std::string::npos)
      << t.client.ended[0].failure->text;
  Two other;
  other.listen({{"test", "send_bw"}, {"iterations", "5"}, {"size", "100"}});
  other.dial({{"test", "send_bw"}, {"iterations", "5"}, {"size", "60"}});
  ASSERT_TRUE(other.run_until([&] { return !other.client.ended.empty() && !other.server.ended.empty(); }));
  ASSERT_TRUE(other.server.ended[0].failure);
  EXPECT_NE(other.server.ended[0].failure->text.find("100 are expected"), std::string::npos)
      << other.server.ended[0].failure->text;
}

// Wherever the client is when it goes, the server is told once, and serves the next.
TEST(NegCm, AClientThatGoesAtAnyTimeLeavesTheServerReady) {
  const Config config{{"test", "send_bw"}, {"size", "3000"}, {"iterations", "20"}};
  std::size_t failed = 0;
  for (int turns = 1; turns < 60; turns += 3) {
    SCOPED_TRACE(turns);
    Two t;
    t.listen(config);
    t.dial(config);
    int left = turns;
    ASSERT_TRUE(t.run_until([&] { return left-- == 0; }));
    t.client.over.reset();
    ASSERT_TRUE(t.run_until([&] { return !t.server.over->busy(); }, 120s));
    EXPECT_LE(t.server.ended.size(), 1U);
    if (!t.server.ended.empty()) failed += t.server.ended[0].failure ? 1 : 0;
    const std::size_t before = t.server.ended.size();
    t.client.ended.clear();
    t.dial(config);
    ASSERT_TRUE(t.run_until([&] { return t.server.ended.size() > before && !t.client.ended.empty(); }, 120s));
    EXPECT_EQ(Two::end_of(t.server.ended.back()), "completed");
    EXPECT_EQ(Two::end_of(t.client.ended.back()), "completed");
  }
  EXPECT_GT(failed, 5U);
}

TEST(NegCm, WhatCannotBeIsRefused) {
  Two t;
  const auto refusal = [&](const Config& config) {
    return t.client.open(t.net.now, {.address = t.at, .config = config});
  };
  EXPECT_EQ(refusal({{"transport", "ud"}, {"test", "send_bw"}}),
            "the configuration is wrong: over rdma_cm there is one queue pair, of RC; set transport=rc and qps=1");
  EXPECT_EQ(refusal({{"qps", "2"}, {"play", "false"}}),
            "the configuration is wrong: over rdma_cm there is one queue pair, of RC; set transport=rc and qps=1");
  EXPECT_NE(refusal({{"test", "nothing"}}).find("'test'"), std::string::npos);
  EXPECT_EQ(t.client.open(t.net.now, {.address = t.at, .connect_timeout = 0s}),
            "the configuration is wrong: CmNegotiationOptions::connect_timeout is more than 0");
}

// Octets as perftest 6.06 has them: lid, out_reads, qpn, psn, rkey, 4 unused, vaddr, gid, srqn, gid_index.
TEST(NegCm, KeysAreAStructureOf56Octets) {
  const QpAttributes a{
      .qpn = 0x11, .psn = 0x123456, .gid = {0xFE, 0x80}, .ird = 4, .ord = 4, .rkey = 0xABCD, .vaddr = 0x7F0011223344};
  const PerftestFormat format{.binary = true};
  const Bytes out = write_perftest_keys(a, format);
  const Bytes due{0,    0, 0, 0, 0, 0, 0, 4,    0, 0,    0,    0x11, 0,    0x12, 0x34, 0x56, 0, 0, 0xAB,
                  0xCD, 0, 0, 0, 0, 0, 0, 0x7F, 0, 0x11, 0x22, 0x33, 0x44, 0xFE, 0x80, 0,    0, 0, 0,
                  0,    0, 0, 0, 0, 0, 0, 0,    0, 0,    0,    0,    0,    0,    0,    0,    0, 0};
  EXPECT_EQ(out, due);
  EXPECT_EQ(*read_perftest_keys(out, format), a);
  for (std::size_t n = 0; n < out.size(); ++n) EXPECT_FALSE(read_perftest_keys(ConstBytes(out).first(n), format)) << n;
}

}  // namespace
}  // namespace cm_negotiation_test
}  // namespace parley::neg
