// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// How a connection over RoCE ends for the other side: what a DREQ says, silence, ICMP. docs/cm.md, How connections end.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cm/ibcm/end_note.hpp"
#include "tests/unit/cm/packet_net.hpp"
#include "tests/unit/printing.hpp"

namespace parley::roce_ends_test {
namespace {

using cm::ibcm::EndNote;
using packet_net::Host;
using packet_net::Net;
using testing::HasSubstr;
using namespace std::chrono_literals;

constexpr std::uint16_t port = 7174;

/// A server that accepts, or thinks, and a client.
struct Ends {
  explicit Ends(bool decides = true, const cm::RoceProviderOptions& of_server = {})
      : server(net.add_host(1, of_server)), client(net.add_host(2, {})), a(server.cm.device()), b(client.cm.device()) {
    server.on_request = [this, decides](cm::ConnectRequest& request) {
      accepted = request.id;
      if (decides) accept();
    };
    EXPECT_TRUE(server.cm.listen(Address::v4(192, 0, 2, 1, port)));
    EXPECT_TRUE(net.run_until([this] { return server.last<cm::Listening>() != nullptr; }));
    cm::ConnectOptions options;
    options.qp = b.qp();
    connected = *client.cm.connect(Address::v4(192, 0, 2, 1, port), options);
    if (decides)
      EXPECT_TRUE(net.run_until([this] { return server.last<cm::Established>() && client.last<cm::Established>(); }));
    else
      EXPECT_TRUE(net.run_until([this] { return server.last<cm::ConnectRequest>() != nullptr; }));
  }
  void accept() {
    EXPECT_TRUE(accepted.create_qp(a.qp()));
    EXPECT_TRUE(accepted.accept());
  }
  const cm::Disconnected& end_at(Host& host, Duration limit = 60s) {
    EXPECT_TRUE(net.run_until([&] { return host.last<cm::Disconnected>() != nullptr; }, limit));
    static const cm::Disconnected none{};
    return host.last<cm::Disconnected>() != nullptr ? *host.last<cm::Disconnected>() : none;
  }
  void cut() {
    net.fate = [](const std::string&, std::size_t) { return Net::Fate{0}; };
  }

  Net net;
  Host& server;
  Host& client;
  Verbs a, b;
  cm::Id connected, accepted;
};

TEST(RoceEnds, ADreqSaysHowItEnds) {
  for (const EndNote::How how :
       {EndNote::How::delivered, EndNote::How::incomplete, EndNote::How::abandoned, EndNote::How::failed}) {
    std::array<std::uint8_t, 220> data{};
    cm::ibcm::put_end_note(data, cm::ibcm::end_note(how, 300));
    const auto note = cm::ibcm::end_note_of(data);
    ASSERT_TRUE(note);
    EXPECT_EQ(note->how, how);
    EXPECT_EQ(note->left, 255);
    data[212] ^= 1;
    EXPECT_FALSE(cm::ibcm::end_note_of(data)) << "another magic";
    data[212] ^= 1;
    data[216] = 2;
    EXPECT_FALSE(cm::ibcm::end_note_of(data)) << "another version";
    data[216] = 1;
    data[217] = 1;
    EXPECT_FALSE(cm::ibcm::end_note_of(data)) << "another kind";
  }
  std::array<std::uint8_t, 220> data{};
  EXPECT_FALSE(cm::ibcm::end_note_of(data));
  cm::ibcm::put_end_note(data, {.how = static_cast<EndNote::How>(9)});
  EXPECT_EQ(cm::ibcm::end_note_of(data)->how, EndNote::How::abandoned) << "of a later version";
}

TEST(RoceEnds, ADisconnectBehindAllIsGracefulOnBothSides) {
  Ends e;
  ASSERT_TRUE(e.connected.disconnect());
  EXPECT_TRUE(e.end_at(e.server).graceful);
  EXPECT_TRUE(e.end_at(e.client).graceful);
}

TEST(RoceEnds, DestroyIsNoGracefulEndForThePeer) {
  Ends e;
  e.connected.destroy();
  const auto& end = e.end_at(e.server);
  EXPECT_FALSE(end.graceful);
  EXPECT_EQ(end.why.code, Errc::peer_reset);
}

TEST(RoceEnds, ADisconnectWithRequestsLeftIsNoGracefulEndForThePeer) {
  Ends e;
  ASSERT_TRUE(e.b.send(*e.connected.qp(), 0, 100));  // the server has no receive for it: RNR without end
  ASSERT_TRUE(e.connected.disconnect());
  const auto& end = e.end_at(e.server);
  EXPECT_FALSE(end.graceful);
  EXPECT_EQ(end.why.code, Errc::peer_closed);
  EXPECT_THAT(end.why.received, HasSubstr("1 request "));
  EXPECT_FALSE(e.end_at(e.client).graceful);
}

TEST(RoceEnds, AQueuePairThatFailsSaysWhy) {
  Ends e;
  e.cut();
  ASSERT_TRUE(e.b.send(*e.connected.qp(), 0, 100));
  const auto& end = e.end_at(e.client);
  EXPECT_EQ(end.why.code, Errc::timed_out);
  EXPECT_THAT(end.why.received, HasSubstr("no ACK of 192.0.2.1:7174 in 7 retries over 2.15 s"));
}

TEST(RoceEnds, ASilentPeerIsToldOnBothSidesWithinTheDefaults) {
  Ends e;
  e.cut();
  const Instant begin = e.net.now;
  for (Host* host : {&e.client, &e.server}) {
    const auto& end = e.end_at(*host);
    EXPECT_FALSE(end.graceful);
    EXPECT_EQ(end.why.code, Errc::timed_out);
    EXPECT_LE(e.net.now - begin, 14'100ms);
  }
  EXPECT_GE(e.net.now - begin, 13'900ms) << "12 s, and 2 s for an answer to the DREQ";
}

/// 12 s of nothing but what `passes` lets through, and then no losses: how the client's connection ends.
const cm::Disconnected& end_behind_silence(Ends& e, Duration until) {
  const Instant heal = e.net.now + until;
  e.net.fate = [&net = e.net, heal](const std::string&, std::size_t) {
    return net.now < heal ? Net::Fate{0} : Net::Fate{};
  };
  return e.end_at(e.client);
}

// As Linux's: the queue pair answers nothing from the disconnect on, and each DREQ until then was lost.
TEST(RoceEnds, APeerWhoseDisconnectWasLostIsNotTakenForDead) {
  cm::RoceProviderOptions impatient;
  impatient.reply_timeout = 3s;
  Ends e(true, impatient);
  e.cut();
  e.accepted.destroy();
  const Instant begin = e.net.now;
  const auto& end = end_behind_silence(e, 11s);
  EXPECT_FALSE(end.graceful);
  EXPECT_EQ(end.why.code, Errc::peer_closed);
  EXPECT_THAT(end.why.received, HasSubstr("whether all was delivered is not known"));
  EXPECT_GE(e.net.now - begin, 12s);
  EXPECT_LE(e.net.now - begin, 15s);
}

TEST(RoceEnds, APeerThatAnswersNoDisconnectIsDead) {
  Ends e;
  const Instant begin = e.net.now;
  const auto& end = end_behind_silence(e, 14'500ms);
  EXPECT_EQ(end.why.code, Errc::timed_out);
  EXPECT_THAT(end.why.received, HasSubstr("no answer of 192.0.2.1:7174 for 12"));
  EXPECT_LE(e.net.now - begin, 15s);
}

TEST(RoceEnds, ADisconnectOfASilentConnectionIsNoMistake) {
  Ends e;
  e.cut();
  e.net.run_for(13s);
  ASSERT_FALSE(e.client.last<cm::Disconnected>());
  EXPECT_TRUE(e.connected.disconnect());
  EXPECT_EQ(e.end_at(e.client).why.code, Errc::timed_out);
}

TEST(RoceEnds, AConnectionThatIsIdleForAnHourStands) {
  Ends e;
  e.net.run_for(1h);
  EXPECT_FALSE(e.client.last<cm::Disconnected>());
  EXPECT_FALSE(e.server.last<cm::Disconnected>());
}

TEST(RoceEnds, APeerThatAnswersButTakesNothingIsNotDead) {
  Ends e;
  ASSERT_TRUE(e.b.send(*e.connected.qp(), 0, 100));  // the server has no receive for it: RNR NAKs without end
  e.net.run_for(120s);
  EXPECT_FALSE(e.client.last<cm::Disconnected>());
  EXPECT_FALSE(e.server.last<cm::Disconnected>());
}

TEST(RoceEnds, AClientThatVanishesWhileTheServerDecidesIsTold) {
  Ends e(false);
  e.cut();
  const Instant begin = e.net.now;
  ASSERT_TRUE(e.net.run_until([&] { return e.server.last<cm::ConnectFailed>() != nullptr; }));
  const auto& failed = *e.server.last<cm::ConnectFailed>();
  EXPECT_EQ(failed.why.stage(), cm::Stage::decision);
  EXPECT_EQ(failed.why.code, Errc::timed_out);
  EXPECT_LE(e.net.now - begin, 15s);
}

TEST(RoceEnds, AClientThatWaitsForASlowDecisionIsNotTakenForDead) {
  Ends e(false);
  e.net.run_for(50s);  // Max CM Retries allow 15 requests, each behind an MRA of 4.3 s
  EXPECT_FALSE(e.server.last<cm::ConnectFailed>());
  EXPECT_FALSE(e.client.last<cm::ConnectFailed>());
  e.accept();
  EXPECT_TRUE(e.net.run_until([&] { return e.server.last<cm::Established>() && e.client.last<cm::Established>(); }));
}

TEST(RoceEnds, AClientThatGivesUpIsToldAtTheStageOfTheDecision) {
  Ends e(false);
  e.connected.destroy();
  ASSERT_TRUE(e.net.run_until([&] { return e.server.last<cm::ConnectFailed>() != nullptr; }));
  EXPECT_EQ(e.server.last<cm::ConnectFailed>()->why.stage(), cm::Stage::decision);
}

TEST(RoceEnds, AServerThatVanishesWhileTheClientWaitsIsTold) {
  Ends e(false);
  e.cut();
  const Instant begin = e.net.now;
  ASSERT_TRUE(e.net.run_until([&] { return e.client.last<cm::ConnectFailed>() != nullptr; }));
  EXPECT_EQ(e.client.last<cm::ConnectFailed>()->why.code, Errc::timed_out);
  EXPECT_LE(e.net.now - begin, 15s);
}

struct Case {
  std::optional<Duration> keepalive, dead_after;
  std::optional<cm::Liveness> merged;  // none: refused
};

TEST(Liveness, WhatIsGivenGoesBeforeTheDefaults) {
  const cm::Liveness defaults;
  const Case cases[] = {
      {{}, {}, defaults},
      {1s, {}, cm::Liveness{1s, 12s}},
      {20s, {}, cm::Liveness{20s, 40s}},
      {{}, 2s, cm::Liveness{1s, 2s}},
      {{}, 100s, cm::Liveness{5s, 100s}},
      {Duration{}, {}, cm::Liveness{Duration{}, 12s}},
      {{}, Duration{}, cm::Liveness{5s, Duration{}}},
      {1s, 2s, cm::Liveness{1s, 2s}},
      {2s, 2s, {}},
      {3s, 2s, {}},
      {-1s, {}, {}},
      {{}, -1s, {}},
      {1us, {}, {}},
      {25h, {}, {}},
  };
  for (const Case& c : cases) {
    const auto merged = cm::merge_liveness(c.keepalive, c.dead_after, defaults);
    ASSERT_EQ(merged.has_value(), c.merged.has_value()) << &c - cases;
    if (merged)
      EXPECT_EQ(*merged, *c.merged) << &c - cases;
    else
      EXPECT_EQ(merged.error(), Errc::invalid_argument);
  }
}

}  // namespace
}  // namespace parley::roce_ends_test
