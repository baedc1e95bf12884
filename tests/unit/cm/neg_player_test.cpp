// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The tests of programs that follow the exchange of queue pairs: what is sent, what is noticed, and what is told.
#include "tests/unit/cm/neg_built.hpp"

#include <bit>

#include "base/bytes_io.hpp"

namespace parley::neg {
namespace {

using namespace kit;

/// Two sides whose queue pairs carry data, with the same configuration.
struct TwoPlayers : Built {
  explicit TwoPlayers() { fabric.plays = true; }
  void play(const std::string& variant, const Config& client_config, const Config& server_config) {
    ASSERT_TRUE(run(variant, client_config, server_config)) << refused;
  }
  void play(const std::string& variant, const Config& config) { play(variant, config, config); }
  const Played& mine_played() const { return *mine.agreed.at(0).played; }
  const Played& theirs_played() const { return *theirs.agreed.at(0).played; }
};

TEST(NegPlayer, PingPongsBothWaysWithEveryTransport) {
  for (const std::string transport : {"rc", "uc", "ud"}) {
    SCOPED_TRACE(transport);
    TwoPlayers b;
    b.play("pingpong", {{"transport", transport}, {"iterations", "20"}, {"size", "900"}, {"check", "true"}});
    ASSERT_EQ(b.end(), "completed");
    ASSERT_FALSE(b.theirs.failure);
    for (const Played& played : {b.mine_played(), b.theirs_played()}) {
      EXPECT_EQ(played.messages, 40U);
      EXPECT_EQ(played.octets, 40U * 900);
      EXPECT_TRUE(played.checked);
    }
    EXPECT_EQ(b.fabric.requests, 40U);
    EXPECT_GE(b.mine.took, 100ms) << "the peer's last packets are still answered";
  }
}

TEST(NegPlayer, WithoutNumbersItPlaysWhatTheProgramPlays) {
  TwoPlayers b;
  b.play("pingpong", {});
  ASSERT_EQ(b.end(), "completed");
  EXPECT_EQ(b.mine_played().messages, 2000U);
  EXPECT_EQ(b.mine_played().octets, 2000U * 4096);
  EXPECT_FALSE(b.mine_played().checked);
}

// The program sends 256 addresses whatever its -q is: those beyond it are zeros.
TEST(NegPlayer, OfASharedReceiveQueueThereAre256AddressesAndTheFirstCount) {
  TwoPlayers b;
  b.play("pingpong", {{"srq", "true"}, {"qps", "16"}, {"iterations", "100"}});
  ASSERT_EQ(b.end(), "completed");
  ASSERT_FALSE(b.theirs.failure);
  EXPECT_EQ(b.net.carried, 2U * 256 * 52 + 5);
  EXPECT_EQ(b.mine.agreed.size(), 16U);
  EXPECT_GE(b.mine_played().messages, 200U);
}

TEST(NegPlayer, EachOfPerftestsTestsIsPlayed) {
  struct Row {
    std::string test;
    std::uint64_t mine, theirs;  // messages
  };
  for (const Row& row : {Row{"send_bw", 30, 30}, Row{"write_bw", 30, 0}, Row{"read_bw", 30, 0}, Row{"read_lat", 30, 0},
                         Row{"send_lat", 60, 60}}) {
    SCOPED_TRACE(row.test);
    TwoPlayers b;
    b.play("perftest", {{"test", row.test}, {"iterations", "30"}, {"size", "5000"}});
    ASSERT_EQ(b.end(), "completed");
    ASSERT_FALSE(b.theirs.failure);
    EXPECT_EQ(b.mine_played().messages, row.mine);
    EXPECT_EQ(b.theirs_played().messages, row.theirs);
    EXPECT_EQ(b.mine_played().test, row.test);
  }
}

TEST(NegPlayer, ThePeerIsToldWhatWasMeasured) {
  TwoPlayers b;
  Bytes sent;
  b.net.spy = [&](const Address& from, const Address&, ConstBytes octets) {
    if (from.octets[3] == 1) sent.insert(sent.end(), octets.begin(), octets.end());
  };
  b.play("perftest", {{"test", "write_bw"}, {"iterations", "30"}, {"size", "5000"}});
  ASSERT_EQ(b.end(), "completed");
  const std::size_t report = 16 + 4 + 4 + 2 + 3 * 108 + 108;
  ASSERT_EQ(sent.size(), report + 40 + 108);
  Reader r(ConstBytes(sent).subspan(report));
  EXPECT_EQ(r.be64(), 5000U);
  EXPECT_EQ(r.be64(), 30U);
}

TEST(NegPlayer, WhatCannotBePlayedOrShallNotIsNegotiatedAllTheSame) {
  for (const Config& config : {Config{{"test", "write_lat"}}, Config{{"play", "false"}}}) {
    TwoPlayers b;
    b.play("perftest", config);
    ASSERT_EQ(b.end(), "completed");
    EXPECT_FALSE(b.mine.agreed.at(0).played);
    EXPECT_EQ(b.fabric.requests, 0U);
  }
  Built without;
  ASSERT_TRUE(without.run("pingpong"));
  EXPECT_EQ(without.end(), "completed");
  EXPECT_FALSE(without.mine.agreed.at(0).played);
}

TEST(NegPlayer, OctetsThatChangedOnTheWayAreFound) {
  TwoPlayers b;
  b.fabric.garbles = true;
  b.play("pingpong", {{"iterations", "5"}, {"size", "3"}, {"check", "true"}});
  EXPECT_EQ(b.mine.failure, std::nullopt) << "what was garbled twice is as it was";
  TwoPlayers once;
  once.fabric.garbles = true;
  once.play("pingpong", {{"iterations", "5"}, {"size", "1"}, {"check", "true"}});
  ASSERT_TRUE(once.theirs.failure);
  EXPECT_EQ(once.theirs.failure->problem, Problem::invalid_peer_data);
  EXPECT_EQ(once.theirs.failure->text, "pingpong: octet 0 of message 1 is 0x01; 0x00 is expected");
}

TEST(NegPlayer, TheClientFindsWhatChangedOnEitherWay) {
  for (const std::size_t message : {std::size_t{3}, std::size_t{4}}) {  // there, and back
    TwoPlayers b;
    b.fabric.alters = message;
    b.play("pingpong", {{"iterations", "5"}, {"size", "3"}, {"check", "true"}});
    ASSERT_TRUE(b.mine.failure);
    EXPECT_EQ(b.mine.failure->problem, Problem::invalid_peer_data);
    EXPECT_EQ(b.mine.failure->text, "pingpong: octet 2 of message 2 is 0x3e; 0x3f is expected");
  }
}

// What is left in the memory of the message before would pass for the rest of a short one.
TEST(NegPlayer, AMessageOfAnotherLengthIsNotThePeersPartInTheTest) {
  struct Row {
    std::string variant, transport, test;
    std::size_t message;
    bool mine;  // the client notices
  };
  for (const Row& row :
       {Row{"pingpong", "rc", "", 4, true}, Row{"pingpong", "rc", "", 3, false}, Row{"pingpong", "ud", "", 4, true},
        Row{"perftest", "rc", "send_bw", 2, false}, Row{"perftest", "rc", "send_lat", 2, true}}) {
    SCOPED_TRACE(row.variant + row.transport + row.test);
    TwoPlayers b;
    b.fabric.cuts = row.message;
    Config config{{"transport", row.transport}, {"iterations", "5"}, {"size", "700"}};
    if (!row.test.empty()) config["test"] = row.test;
    b.play(row.variant, config);
    const auto& failure = row.mine ? b.mine.failure : b.theirs.failure;
    ASSERT_TRUE(failure);
    EXPECT_EQ(failure->problem, Problem::invalid_peer_data);
    EXPECT_NE(failure->text.find(" has 699 octets; 700 are expected"), std::string::npos) << failure->text;
  }
}

TEST(NegPlayer, OfDatagramsTheProgramsHaveSizesOfTheirOwn) {
  TwoPlayers perftest;
  perftest.play("perftest", {{"test", "send_bw"}, {"transport", "ud"}, {"iterations", "10"}});
  ASSERT_EQ(perftest.end(), "completed");
  EXPECT_EQ(perftest.mine_played().octets, 10U * 1024) << "the smaller path MTU of both";
  TwoPlayers latency;
  latency.play("perftest", {{"test", "send_lat"}, {"transport", "ud"}, {"iterations", "10"}});
  ASSERT_EQ(latency.end(), "completed");
  EXPECT_EQ(latency.mine_played().octets, 20U * 2);
  TwoPlayers pingpong;
  EXPECT_FALSE(pingpong.run("pingpong", {{"transport", "ud"}}, {{"transport", "ud"}}));
  EXPECT_NE(pingpong.refused.find("'size': 2048; a datagram has at most the path MTU's 1024"), std::string::npos)
      << pingpong.refused;
}

TEST(NegPlayer, WhatNoProgramDoesIsRefused) {
  const auto refused = [](const std::string& variant, const Config& config) {
    TwoPlayers b;
    return b.run(variant, config, config) ? "not refused: " + b.end() : b.refused;
  };
  const std::string wrong = "the configuration is wrong: ";
  EXPECT_EQ(refused("perftest", {{"test", "write_bw"}, {"transport", "ud"}}),
            wrong + "'test': write_bw; ud has no RDMA Writes; set transport=rc or uc");
  EXPECT_EQ(refused("perftest", {{"test", "write_lat"}, {"transport", "ud"}, {"play", "false"}}),
            wrong + "'test': write_lat; ud has no RDMA Writes; set transport=rc or uc");
  for (const std::string transport : {"uc", "ud"})
    EXPECT_EQ(refused("perftest", {{"test", "read_bw"}, {"transport", transport}}),
              wrong + "'test': read_bw; " + transport + " has no RDMA Reads; set transport=rc");
  EXPECT_EQ(refused("perftest", {{"test", "send_bw"}, {"qps", "2"}}),
            wrong +
                "'qps': 2; the tests of perftest are played over one queue pair; set qps=1, or play=false for the "
                "exchange alone");
  EXPECT_EQ(refused("pingpong", {{"transport", "ud"}, {"size", "64"}, {"qkey", "7"}}),
            wrong + "'qkey': 0x7; the programs have 0x11111111 and do not say it; leave it out");
  EXPECT_EQ(refused("perftest", {{"test", "write_bw"}, {"transport", "uc"}, {"iterations", "5"}}),
            "not refused: completed");
}

TEST(NegPlayer, ThePeerMayDoWhatTheTestNeedsAndNoMore) {
  struct Row {
    std::string test, client, server;
  };
  for (const Row& row : {Row{"send_bw", "none", "none"}, Row{"write_bw", "none", "write"},
                         Row{"read_bw", "none", "read"}, Row{"read_lat", "none", "read"}}) {
    SCOPED_TRACE(row.test);
    TwoPlayers b;
    b.play("perftest", {{"test", row.test}, {"iterations", "5"}, {"size", "64"}});
    ASSERT_EQ(b.fabric.configs.size(), 3U);  // the listener's, the client's, the server's
    EXPECT_EQ(b.fabric.configs[1].at("access"), row.client);
    EXPECT_EQ(b.fabric.configs[2].at("access"), row.server);
  }
  TwoPlayers exchange;
  exchange.play("perftest", {{"play", "false"}});
  EXPECT_FALSE(exchange.fabric.configs[1].contains("access")) << "it is for whoever asks for memory";
}

// The client writes for longer than any answer may take; the server hears nothing of it.
TEST(NegPlayer, WhoOnlyLendsItsMemoryWaitsAsLongAsTheSessionMayTake) {
  for (const std::string test : {"write_bw", "read_lat"}) {
    TwoPlayers b;
    b.fabric.slow = 2050;  // about a second for each completion
    b.play("perftest", {{"test", test}, {"iterations", "20"}, {"size", "64"}});
    ASSERT_EQ(b.end(), "completed");
    ASSERT_FALSE(b.theirs.failure) << b.theirs.failure->to_string();
    EXPECT_GT(b.mine_played().took, 15s);
  }
  TwoPlayers b;
  b.fabric.slow = 2050;
  b.play("perftest", {{"test", "write_bw"}, {"iterations", "100"}, {"size", "64"}});
  ASSERT_TRUE(b.theirs.failure);
  EXPECT_EQ(b.theirs.failure->problem, Problem::session_timeout);
  EXPECT_EQ(b.theirs.failure->text, "no answer after 60 s");
}

TEST(NegPlayer, AMessageThatIsLostEndsAPingPongWithWords) {
  TwoPlayers b;
  b.fabric.lose = 7;
  b.play("pingpong", {{"transport", "uc"}, {"iterations", "20"}});
  for (const auto& failure : {b.mine.failure, b.theirs.failure}) {
    ASSERT_TRUE(failure);
    EXPECT_EQ(failure->problem, Problem::vendor_library_error);
    EXPECT_EQ(failure->stage, Stage::ready);
    EXPECT_NE(failure->advice.find("uc repeats nothing that is lost"), std::string::npos);
  }
  EXPECT_EQ(b.mine.failure->text, "pingpong: nothing has come for 5 s; 4 of 20 sent, 3 received");
}

TEST(NegPlayer, AsLongAsSomethingComesItIsWaitedFor) {
  TwoPlayers b;
  b.fabric.slow = 2050;  // looks, of half a millisecond but for the first: a second for each completion
  b.play("pingpong", {{"iterations", "5"}, {"size", "64"}});
  ASSERT_EQ(b.end(), "completed");
  ASSERT_FALSE(b.theirs.failure);
  EXPECT_GT(b.mine_played().took, 5s);
  EXPECT_EQ(b.mine_played().messages, 10U);
}

TEST(NegPlayer, WhatIsLostOfAStreamOfDatagramsIsCounted) {
  TwoPlayers b;
  b.fabric.lose = 7;
  b.play("perftest", {{"test", "send_bw"}, {"transport", "ud"}, {"iterations", "30"}, {"size", "512"}});
  ASSERT_EQ(b.end(), "completed");
  ASSERT_FALSE(b.theirs.failure);
  EXPECT_EQ(b.theirs_played().messages, 29U);
  EXPECT_EQ(b.theirs_played().lost, 1U);
  EXPECT_EQ(b.mine_played().lost, 0U);
}

TEST(NegPlayer, ARequestThatFailsIsToldWithItsStatus) {
  TwoPlayers b;
  b.fabric.breaks = 3;
  b.play("perftest", {{"test", "write_bw"}, {"iterations", "30"}, {"size", "512"}});
  ASSERT_TRUE(b.mine.failure);
  EXPECT_EQ(b.mine.failure->text, "write_bw: a write failed: transport retries exceeded; 2 of 30 sent, 0 received");
  ASSERT_TRUE(b.theirs.failure) << "the server hears that its client went away";
  EXPECT_EQ(b.theirs.failure->problem, Problem::connection_lost);
}

TEST(NegPlayer, ADatagramIsNotLongerThanThePath) {
  TwoPlayers b;
  EXPECT_FALSE(b.run("pingpong", {{"transport", "ud"}, {"size", "4096"}}, {{"transport", "ud"}, {"size", "4096"}}));
  EXPECT_EQ(b.refused,
            "the configuration is wrong: 'size': 4096; a datagram has at most the path MTU's 1024 octets; choose a "
            "smaller size on both sides, or a larger mtu");
}

TEST(NegPlayer, TypedInValuesAreNotPlayedWith) {
  TwoPlayers b;
  const Config values{{"driver", "manual"}, {"qpn", "7"}, {"gid", "::1"}, {"length", "64"}};
  b.play("pingpong", values);
  ASSERT_EQ(b.end(), "completed");
  EXPECT_EQ(b.mine.agreed.at(0).local.length, 64U);
  EXPECT_FALSE(b.mine.agreed.at(0).played);
}

}  // namespace
}  // namespace parley::neg
