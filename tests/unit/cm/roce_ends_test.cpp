// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// How a connection over RoCE ends for the other side: what a DREQ says, silence, ICMP. docs/cm.md, How connections end.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/text.hpp"
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
  explicit Ends(bool decides = true, const cm::RoceProviderOptions& of_server = {}, const cm::Liveness& liveness = {})
      : server(net.add_host(1, of_server, {.liveness = liveness})),
        client(net.add_host(2, {}, {.liveness = liveness})),
        a(server.cm.device()),
        b(client.cm.device()) {
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
  e.net.run_for(11'900ms);
  EXPECT_EQ(std::count(e.net.sent.begin(), e.net.sent.end(), "DREQ"), 0) << "none before the verdict";
  for (Host* host : {&e.client, &e.server}) {
    const auto& end = e.end_at(*host);
    EXPECT_FALSE(end.graceful);
    EXPECT_EQ(end.why.code, Errc::timed_out);
    EXPECT_LE(e.net.now - begin, 12s);
  }
  EXPECT_GE(e.net.now - begin, 11'900ms);
}

constexpr cm::Liveness times[] = {{5s, 12s}, {1s, 3s}, {100ms, 300ms}, {11s, 12s}, {1s, 60s}, {5s, 7s}};

/// A peer repeats its REQ behind its own ACK timeout (268 ms) and the least MRA, and has a little more: that is no death.
Duration in_set_up(const cm::Liveness& liveness) {
  const Duration reminded = std::min(liveness.keepalive, liveness.dead_after / 2);
  return std::max<Duration>(liveness.dead_after, reminded + 269ms + 17ms + liveness.dead_after / 8);
}

/// Cuts the network: how long until this host reports the end.
template <class Event>
Duration verdict(Ends& e, Host& host) {
  e.cut();
  const Instant begin = e.net.now;
  EXPECT_TRUE(e.net.run_until([&] { return host.last<Event>() != nullptr; }, 120s));
  EXPECT_TRUE(host.last<Event>() == nullptr || host.last<Event>()->why.code == Errc::timed_out);
  return e.net.now - begin;
}

TEST(RoceEnds, AnIdleHostThatVanishesIsToldWithinDeadAfterInBothRoles) {
  for (const cm::Liveness& liveness : times)
    for (const Duration later : {Duration{}, liveness.keepalive / 2, liveness.keepalive, 3 * liveness.keepalive})
      for (const bool of_client : {true, false}) {
        Ends e(true, {}, liveness);
        e.net.run_for(later);
        EXPECT_LE(verdict<cm::Disconnected>(e, of_client ? e.client : e.server), liveness.dead_after + e.net.delay)
            << duration_text(liveness.dead_after) << ' ' << duration_text(later);
      }
}

TEST(RoceEnds, AHostThatVanishesInTheSetUpIsToldWithinDeadAfterInBothRoles) {
  for (const cm::Liveness& liveness : times)
    for (const Duration later : {Duration{}, 1 * Duration(1s), Duration(4s), Duration(4500ms), Duration(9s)})
      for (const bool of_client : {true, false}) {
        Ends e(false, {}, liveness);
        e.net.run_for(later);
        ASSERT_FALSE(e.client.last<cm::ConnectFailed>() || e.server.last<cm::ConnectFailed>()) << "both live";
        EXPECT_LE(verdict<cm::ConnectFailed>(e, of_client ? e.client : e.server), in_set_up(liveness) + e.net.delay)
            << duration_text(liveness.dead_after) << ' ' << duration_text(later);
      }
}

TEST(RoceEnds, AClientThatVanishesBeforeTheReplyIsToldWithinDeadAfter) {
  for (const cm::Liveness& liveness : times)
    for (const int eighths : {0, 4, 7}) {
      Ends e(false, {}, liveness);
      e.cut();
      const Instant begin = e.net.now;
      e.net.run_for(liveness.dead_after * eighths / 8);
      e.accept();
      EXPECT_TRUE(e.net.run_until([&] { return e.server.last<cm::ConnectFailed>() != nullptr; }, 120s));
      EXPECT_EQ(e.server.last<cm::ConnectFailed>()->why.stage(), cm::Stage::ready);
      EXPECT_LE(e.net.now - begin, in_set_up(liveness)) << duration_text(liveness.dead_after) << ' ' << eighths;
    }
}

TEST(RoceEnds, AProcessThatIsKilledIsToldWithinASecondOfTheNextKeepalive) {
  for (const cm::Liveness& liveness : {cm::Liveness{5s, 12s}, cm::Liveness{1s, 3s}, cm::Liveness{1s, 60s}})
    for (const bool established : {true, false})
      for (const bool of_client : {true, false}) {
        Ends e(established, {}, liveness);
        e.net.run_for(1500ms);
        Host& victim = of_client ? e.server : e.client;
        Host& other = of_client ? e.client : e.server;
        const Instant begin = e.net.now;
        victim.bound = 0;  // its host answers by ICMP
        const auto ended = [&] { return other.last<cm::Disconnected>() || other.last<cm::ConnectFailed>(); };
        EXPECT_TRUE(e.net.run_until(ended, 120s));
        EXPECT_LE(e.net.now - begin, liveness.keepalive + 1s)
            << established << of_client << duration_text(liveness.dead_after);
      }
}

TEST(RoceEnds, APeerThatIsBackWithinDeadAfterGoesOn) {
  Ends e;
  const Instant heal = e.net.now + 11'400ms;  // it is asked each half a second
  e.net.fate = [&](const std::string&, std::size_t) { return e.net.now < heal ? Net::Fate{0} : Net::Fate{}; };
  e.net.run_for(60s);
  EXPECT_FALSE(e.client.last<cm::Disconnected>());
  EXPECT_FALSE(e.server.last<cm::Disconnected>());
}

TEST(RoceEnds, ConnectionsToOneSilentHostAskItTogether) {
  Ends e;
  std::vector<cm::Id> more;
  for (int i = 0; i < 200; ++i) more.push_back(*e.client.cm.connect(Address::v4(192, 0, 2, 1, port), {}));
  ASSERT_TRUE(e.net.run_until([&] { return e.client.all<cm::Established>().size() == 201; }));
  e.cut();
  e.net.sent.clear();
  ASSERT_TRUE(e.net.run_until([&] { return e.client.all<cm::Disconnected>().size() == 201; }));
  const auto asked = std::count(e.net.sent.begin(), e.net.sent.end(), "SIDR_REQ");
  EXPECT_GE(asked, 8) << "four and more of each side";
  EXPECT_LE(asked, 24);
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
  EXPECT_GE(e.net.now - begin, 11'990ms);
  EXPECT_LE(e.net.now - begin, 12'100ms);
}

TEST(RoceEnds, APeerThatAnswersNoDisconnectIsDead) {
  Ends e;
  const Instant begin = e.net.now;
  const auto& end = end_behind_silence(e, 14'500ms);
  EXPECT_EQ(end.why.code, Errc::timed_out);
  EXPECT_THAT(end.why.received, HasSubstr("no answer of 192.0.2.1:7174 for 12"));
  EXPECT_LE(e.net.now - begin, 12s);
}

TEST(RoceEnds, ADisconnectOfASilentConnectionIsNoMistake) {
  Ends e;
  e.cut();
  e.net.run_for(11s);
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
  EXPECT_LE(e.net.now - begin, 12s);
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
  EXPECT_LE(e.net.now - begin, 12s);
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
