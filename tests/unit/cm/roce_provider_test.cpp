// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The RoCE provider between two hosts in virtual time: what a user of cm::Manager sees.
#include <gtest/gtest.h>

#include "base/text.hpp"
#include "tests/unit/cm/packet_net.hpp"
#include "tests/unit/printing.hpp"
#include "wire/ib/quirks.hpp"

namespace parley::roce_provider_test {
namespace {

using packet_net::Host;
using packet_net::Net;
using namespace std::chrono_literals;

constexpr std::uint16_t port = 7174;

Bytes bytes(std::string_view text) { return {text.begin(), text.end()}; }
std::string text_of(const Bytes& data) { return {data.begin(), std::find(data.begin(), data.end(), std::uint8_t{0})}; }

/// A server that accepts, a client, and the memory of both.
struct Pair {
  explicit Pair(cm::RoceProviderOptions options = {})
      : server(net.add_host(1, options)),
        client(net.add_host(2, options)),
        a(server.cm.device()),
        b(client.cm.device()) {
    server.on_request = [this](cm::ConnectRequest& request) { accept(request); };
    listener = *server.cm.listen(Address::v4(192, 0, 2, 1, port));
    EXPECT_TRUE(net.run_until([this] { return server.last<cm::Listening>() != nullptr; }));
  }
  void accept(cm::ConnectRequest& request) {
    accepted = request.id;
    EXPECT_TRUE(accepted.create_qp(a.qp()));
    EXPECT_TRUE(a.recv(*accepted.qp(), 0, 4096, 1));
    cm::AcceptOptions options;
    const Bytes answer = bytes("pong");
    options.private_data = answer;
    EXPECT_TRUE(accepted.accept(options));
  }
  cm::ConnectOptions options() {
    cm::ConnectOptions out;
    out.private_data = hello;
    out.qp = b.qp();
    return out;
  }
  void connect() { connected = *client.cm.connect(Address::v4(192, 0, 2, 1, port), options()); }
  bool up() { return client.last<cm::Established>() != nullptr && server.last<cm::Established>() != nullptr; }

  Net net;
  Host& server;
  Host& client;
  Verbs a, b;
  cm::Id listener, connected, accepted;
  Bytes hello = bytes("ping");
};

TEST(RoceProvider, ConnectsWithPrivateDataAndDepthsAndMovesData) {
  Pair p;
  p.connect();
  ASSERT_TRUE(p.net.run_until([&] { return p.up(); }));
  const auto& request = *p.server.last<cm::ConnectRequest>();
  EXPECT_EQ(request.private_data.size(), 56u);
  EXPECT_EQ(text_of(request.private_data), "ping");
  EXPECT_EQ(request.peer.octets, p.client.ip.octets);
  EXPECT_EQ(request.ird, 32u);
  const auto& established = *p.client.last<cm::Established>();
  EXPECT_EQ(established.private_data.size(), 196u);
  EXPECT_EQ(text_of(established.private_data), "pong");
  EXPECT_EQ(established.ird, 32u);
  EXPECT_EQ(established.ord, 32u);
  const auto& ib = std::get<ib::Parameters>(established.parameters);
  EXPECT_EQ(ib.qp_num, p.connected.qp()->qp_num());
  EXPECT_EQ(ib.remote_qp_num, p.accepted.qp()->qp_num());
  EXPECT_EQ(ib.path_mtu, Mtu::octets_1024);
  EXPECT_EQ(p.connected.qp()->state(), QpState::rts);

  std::fill_n(p.b.memory.begin(), 3000, std::uint8_t{0x5A});
  ASSERT_TRUE(p.b.send(*p.connected.qp(), 0, 3000, 7));
  ASSERT_TRUE(p.net.run_until([&] { return p.b.saw(WcOpcode::send) && p.a.saw(WcOpcode::recv); }));
  EXPECT_EQ(p.a.done.front().byte_len, 3000u);
  EXPECT_TRUE(std::equal(p.a.memory.begin(), p.a.memory.begin() + 3000, p.b.memory.begin()));
}

TEST(RoceProvider, TheDepthsOfBothSidesAreReconciled) {
  Pair p;
  p.server.on_request = [&](cm::ConnectRequest& request) {
    EXPECT_EQ(request.ird, 5u);  // for the peer's ORD
    EXPECT_EQ(request.ord, 9u);
    cm::AcceptOptions accept;
    accept.ird = std::uint16_t{3};
    accept.ord = std::uint16_t{200};
    EXPECT_TRUE(request.id.accept(accept));
  };
  cm::ConnectOptions options = p.options();
  options.ird = 9;
  options.ord = 5;
  ASSERT_TRUE(p.client.cm.connect(Address::v4(192, 0, 2, 1, port), options));
  ASSERT_TRUE(p.net.run_until([&] { return p.up(); }));
  EXPECT_EQ(p.server.last<cm::Established>()->ird, 3u);
  EXPECT_EQ(p.server.last<cm::Established>()->ord, 9u);
  EXPECT_EQ(p.client.last<cm::Established>()->ird, 9u);
  EXPECT_EQ(p.client.last<cm::Established>()->ord, 3u);
}

TEST(RoceProvider, DisconnectsGracefullyAndTellsOfTheEndOfTimeWait) {
  Pair p;
  p.connect();
  ASSERT_TRUE(p.net.run_until([&] { return p.up(); }));
  ASSERT_TRUE(p.b.send(*p.connected.qp(), 0, 100));
  ASSERT_TRUE(p.connected.disconnect());  // behind the request
  ASSERT_TRUE(p.net.run_until(
      [&] { return p.client.last<cm::Disconnected>() != nullptr && p.server.last<cm::Disconnected>() != nullptr; }));
  EXPECT_TRUE(p.client.last<cm::Disconnected>()->graceful) << p.client.last<cm::Disconnected>()->why.to_string();
  EXPECT_TRUE(p.server.last<cm::Disconnected>()->graceful) << p.server.last<cm::Disconnected>()->why.to_string();
  EXPECT_TRUE(p.b.saw(WcOpcode::send));
  EXPECT_TRUE(p.a.saw(WcOpcode::recv));
  EXPECT_TRUE(p.net.run_until([&] { return p.client.last<cm::TimewaitExit>() != nullptr; }));
}

TEST(RoceProvider, RejectsWithTheUsersPrivateData) {
  Pair p;
  p.server.on_request = [](cm::ConnectRequest& request) {
    const Bytes no = bytes("no");
    EXPECT_TRUE(request.id.reject(no));
  };
  p.connect();
  ASSERT_TRUE(p.net.run_until([&] { return p.client.last<cm::Rejected>() != nullptr; }));
  const auto& rejected = *p.client.last<cm::Rejected>();
  EXPECT_EQ(rejected.private_data.size(), 148u);
  EXPECT_EQ(text_of(rejected.private_data), "no");
  EXPECT_EQ(rejected.why.code, Errc::rejected);
  EXPECT_FALSE(p.server.last<cm::ConnectFailed>());
}

TEST(RoceProvider, SaysThatNobodyListens) {
  Pair p;
  ASSERT_TRUE(p.client.cm.connect(Address::v4(192, 0, 2, 1, 1), p.options()));
  ASSERT_TRUE(p.net.run_until([&] { return p.client.last<cm::ConnectFailed>() != nullptr; }));
  EXPECT_EQ(p.client.last<cm::ConnectFailed>()->why.code, Errc::refused);
  EXPECT_EQ(p.client.last<cm::ConnectFailed>()->why.stage(), cm::Stage::reply);
}

TEST(RoceProvider, SaysThatTheHostHasNoRoce) {
  Pair p;
  p.listener.destroy();
  p.net.run_for(1ms);
  p.connect();
  ASSERT_TRUE(p.net.run_until([&] { return p.client.last<cm::ConnectFailed>() != nullptr; }, 1s));
  const auto& failed = *p.client.last<cm::ConnectFailed>();
  EXPECT_EQ(failed.why.code, Errc::refused);
  EXPECT_EQ(failed.why.received, "ICMP: nothing receives UDP port 4791 there");
}

TEST(RoceProvider, GivesUpAfterTheReplyTimeout) {
  Pair p;
  p.net.fate = [](const std::string& name, std::size_t) { return Net::Fate{name == "REP" ? 0 : 1}; };
  cm::ConnectOptions options = p.options();
  options.transport = ib::Options{.reply_timeout = 3s};
  const Instant begin = p.net.now;
  ASSERT_TRUE(p.client.cm.connect(Address::v4(192, 0, 2, 1, port), options));
  ASSERT_TRUE(p.net.run_until([&] { return p.client.last<cm::ConnectFailed>() != nullptr; }));
  EXPECT_EQ(p.client.last<cm::ConnectFailed>()->why.code, Errc::timed_out);
  EXPECT_GE(p.net.now - begin, 3s);
  EXPECT_LE(p.net.now - begin, 4s);
}

/// A server and a client whose HCAs have different path MTUs.
struct TwoMtus {
  TwoMtus(Mtu of_server, Mtu of_client)
      : server(net.add_host(1, {.mtu = of_server})), client(net.add_host(2, {.mtu = of_client})) {
    server.on_request = [this](cm::ConnectRequest& request) {
      accepted = request.id;
      (void)accepted.create_qp(a.qp());
      (void)a.recv(*accepted.qp(), 0, 8192);
      (void)accepted.accept({});
    };
    listener = *server.cm.listen(Address::v4(192, 0, 2, 1, port));
    EXPECT_TRUE(net.run_until([this] { return server.last<cm::Listening>() != nullptr; }));
    cm::ConnectOptions options;
    options.qp = b.qp();
    connected = *client.cm.connect(Address::v4(192, 0, 2, 1, port), options);
  }
  Net net;
  Host& server;
  Host& client;
  Verbs a{server.cm.device()}, b{client.cm.device()};
  cm::Id listener, connected, accepted;
};

// IBA §12.6.7.2 reason 26: the REJ names the largest MTU that the server can use.
TEST(RoceProvider, TriesAgainWithThePathMtuThatTheRejectionNames) {
  TwoMtus p(Mtu::octets_512, Mtu::octets_4096);
  ASSERT_TRUE(p.net.run_until([&] { return p.server.last<cm::Established>() && p.client.last<cm::Established>(); }));
  for (const auto* up : {p.client.last<cm::Established>(), p.server.last<cm::Established>()})
    EXPECT_EQ(std::get<ib::Parameters>(up->parameters).path_mtu, Mtu::octets_512);
  EXPECT_EQ(p.client.all<cm::Retrying>().size(), 0u);
  EXPECT_EQ(std::count(p.net.sent.begin(), p.net.sent.end(), "REQ"), 2);
  EXPECT_EQ(std::count(p.net.sent.begin(), p.net.sent.end(), "REJ"), 1);
  ASSERT_TRUE(p.b.send(*p.connected.qp(), 0, 8000));
  ASSERT_TRUE(p.net.run_until([&] { return p.a.saw(WcOpcode::recv); }));
  EXPECT_EQ(std::count(p.net.sent.begin(), p.net.sent.end(), "RC SEND Middle"), 14);
}

TEST(RoceProvider, ASmallerPathMtuOfTheClientIsTaken) {
  TwoMtus p(Mtu::octets_4096, Mtu::octets_512);
  ASSERT_TRUE(p.net.run_until([&] { return p.server.last<cm::Established>() && p.client.last<cm::Established>(); }));
  EXPECT_EQ(std::count(p.net.sent.begin(), p.net.sent.end(), "REJ"), 0);
}

// A REJ that names no smaller MTU is the end, and so is a second one, whatever it names.
TEST(RoceProvider, AsksOnceForAPathMtuThatARejectionNames) {
  struct Named {
    std::vector<int> codes;  // in the first REJ, in the second; those behind them are as the server has them: 1
    std::ptrdiff_t requests;
  };
  for (const Named& named : {Named{{0}, 1}, Named{{3}, 1}, Named{{6}, 1}, Named{{2, 2}, 2}, Named{{2}, 2}}) {
    SCOPED_TRACE(testing::PrintToString(named.codes));
    TwoMtus p(Mtu::octets_256, Mtu::octets_1024);
    std::size_t rejected = 0;
    p.net.change = [&](MutBytes packet) {
      Bytes whole(packet.begin(), packet.end());
      whole.resize(packet.size() + PARLEY_IB_ICRC_LEN);
      auto message = wire::ib::CmMessage::parse(wire::ib::Packet::parse(whole)->payload);
      if (!message || message->type() != wire::ib::CmMessageType::rej || rejected >= named.codes.size()) return;
      std::get<wire::ib::CmRej>(message->body).info[0] = static_cast<std::uint8_t>(named.codes[rejected++] << 4);
      message->emit(packet.last(PARLEY_IB_MAD_LEN));
    };
    ASSERT_TRUE(p.net.run_until([&] { return p.client.last<cm::ConnectFailed>() != nullptr; }, 1s));
    EXPECT_EQ(std::count(p.net.sent.begin(), p.net.sent.end(), "REQ"), named.requests);
    EXPECT_EQ(std::count(p.net.sent.begin(), p.net.sent.end(), "REJ"), named.requests);
  }
}

// What "rxe" plays between two Parleys: they get along, with its timers and its RNR NAKs.
TEST(RoceProvider, PlaysAQuirkOfTheTable) {
  for (const wire::ib::Quirk& quirk : wire::ib::all_quirks()) {
    SCOPED_TRACE(quirk.name);
    cm::RoceProviderOptions plays;
    plays.play_quirk = quirk.name;
    EXPECT_TRUE(cm::check_options(plays));
    Pair p(plays);
    p.connect();
    ASSERT_TRUE(p.net.run_until([&] { return p.up(); }));
    EXPECT_EQ(std::get<ib::Parameters>(p.client.last<cm::Established>()->parameters).timeout, 19);
    ASSERT_TRUE(p.connected.disconnect());
    ASSERT_TRUE(p.net.run_until([&] { return p.client.last<cm::Disconnected>() != nullptr; }));
    // No REP within Linux's 6.1 s: the first REQ is not repeated before that.
    Pair slow(plays);
    slow.net.fate = [](const std::string& name, std::size_t nth) {
      return Net::Fate{name == "REQ" && nth == 0 ? 0 : 1};
    };
    const Instant begin = slow.net.now;
    slow.connect();
    ASSERT_TRUE(slow.net.run_until([&] { return slow.up(); }));
    EXPECT_GE(slow.net.now - begin, 6144ms);
    EXPECT_LT(slow.net.now - begin, 6200ms);
  }
  cm::RoceProviderOptions nobody;
  nobody.play_quirk = "nobody";
  EXPECT_FALSE(cm::check_options(nobody));
}

// Each message of set-up and tear-down lost once: it only takes longer.
TEST(RoceProvider, SurvivesTheLossOfAnyMessageOfTheConnectionManager) {
  for (const std::string lost : {"REQ", "REP", "RTU", "DREQ", "DREP"}) {
    SCOPED_TRACE(lost);
    Pair p;
    p.net.fate = [&](const std::string& name, std::size_t nth) { return Net::Fate{name == lost && nth == 0 ? 0 : 1}; };
    p.connect();
    ASSERT_TRUE(p.net.run_until([&] { return p.up(); }));
    ASSERT_TRUE(p.connected.disconnect());
    ASSERT_TRUE(p.net.run_until(
        [&] { return p.client.last<cm::Disconnected>() != nullptr && p.server.last<cm::Disconnected>() != nullptr; }));
    EXPECT_TRUE(p.client.last<cm::Disconnected>()->graceful) << p.client.last<cm::Disconnected>()->why.to_string();
    EXPECT_TRUE(p.server.last<cm::Disconnected>()->graceful);
    EXPECT_EQ(p.server.all<cm::ConnectRequest>().size(), 1u);
  }
}

TEST(RoceProvider, AnAnswerLostBehindAnMraIsRepeatedWithinSeconds) {
  Pair p;
  p.server.on_request = nullptr;
  p.net.fate = [](const std::string& name, std::size_t nth) { return Net::Fate{name == "REJ" && nth == 0 ? 0 : 1}; };
  p.connect();
  p.net.run_for(200ms);
  EXPECT_EQ(std::count(p.net.sent.begin(), p.net.sent.end(), "MRA"), 1)
      << "the program thinks, and the peer is told so";
  ASSERT_TRUE(p.server.last<cm::ConnectRequest>()->id.reject());
  EXPECT_TRUE(p.net.run_until([&] { return p.client.last<cm::Rejected>() != nullptr; }, 10s));
  EXPECT_EQ(p.server.all<cm::ConnectRequest>().size(), 1U) << "the repeated REQ is not a new one";
}

TEST(RoceProvider, ADoubledMessageChangesNothing) {
  Pair p;
  p.net.fate = [](const std::string&, std::size_t) { return Net::Fate{2}; };
  p.connect();
  ASSERT_TRUE(p.net.run_until([&] { return p.up(); }));
  ASSERT_TRUE(p.b.send(*p.connected.qp(), 0, 2500));
  ASSERT_TRUE(p.net.run_until([&] { return p.a.saw(WcOpcode::recv); }));
  ASSERT_TRUE(p.connected.disconnect());
  ASSERT_TRUE(p.net.run_until([&] { return p.client.last<cm::Disconnected>() && p.server.last<cm::Disconnected>(); }));
  EXPECT_EQ(p.server.all<cm::ConnectRequest>().size(), 1u);
  EXPECT_EQ(p.server.all<cm::Established>().size(), 1u);
  EXPECT_EQ(p.a.done.size(), 1u);
}

// IBA §12.9.7.2: the first packet of the peer stands for an RTU that was lost.
TEST(RoceProvider, DataStandsForALostRtu) {
  Pair p;
  p.net.fate = [](const std::string& name, std::size_t) { return Net::Fate{name == "RTU" ? 0 : 1}; };
  p.connect();
  ASSERT_TRUE(p.net.run_until([&] { return p.client.last<cm::Established>() != nullptr; }));
  ASSERT_TRUE(p.b.send(*p.connected.qp(), 0, 10));
  ASSERT_TRUE(p.net.run_until([&] { return p.server.last<cm::Established>() != nullptr; }, 10ms));
  EXPECT_TRUE(p.a.saw(WcOpcode::recv));
  EXPECT_FALSE(p.server.provider->has_events());  // nothing else waits to be polled, so a driver may sleep
}

// The queue pair of a connection that a REJ ends takes nothing more.
TEST(RoceProvider, WhatWasAcceptedAndDestroyedEndsAtTheInitiatorWithItsQueuePair) {
  Pair p;
  p.net.fate = [](const std::string& name, std::size_t) { return Net::Fate{name == "RTU" ? 0 : 1}; };
  p.connect();
  ASSERT_TRUE(p.b.recv(*p.connected.qp(), 0, 64));
  ASSERT_TRUE(p.net.run_until([&] { return p.client.last<cm::Established>() != nullptr; }));
  p.accepted.destroy();
  ASSERT_TRUE(p.net.run_until([&] { return p.client.last<cm::Disconnected>() != nullptr; }));
  EXPECT_EQ(p.connected.qp()->state(), QpState::err);
  EXPECT_TRUE(p.b.saw(WcOpcode::recv, WcStatus::wr_flush_err));
}

TEST(RoceProvider, AHostThatEndsTellsItsPeers) {
  Pair p;
  p.connect();
  ASSERT_TRUE(p.net.run_until([&] { return p.up(); }));
  p.client.provider->reset_all(p.net.now);
  EXPECT_TRUE(p.net.run_until([&] { return p.server.last<cm::Disconnected>() != nullptr; }, 1s));
}

TEST(RoceProvider, FailsOverToABackup) {
  Pair p;
  cm::ConnectOptions options = p.options();
  options.backups = {Address::v4(192, 0, 2, 1, port)};
  ASSERT_TRUE(p.client.cm.connect(Address::v4(192, 0, 2, 1, 1), options));
  ASSERT_TRUE(p.net.run_until([&] { return p.up(); }));
  ASSERT_EQ(p.client.all<cm::Retrying>().size(), 1u);
  EXPECT_EQ(p.client.last<cm::Retrying>()->why.code, Errc::refused);
}

TEST(RoceProvider, TriesAgainAfterAWaitAndKeepsTheQueuePair) {
  Pair p;
  p.listener.destroy();
  p.net.run_for(1ms);
  cm::ConnectOptions options = p.options();
  options.retry = {.rounds = 3, .first = 100ms};
  const auto id = p.client.cm.connect(Address::v4(192, 0, 2, 1, port), options);
  ASSERT_TRUE(id);
  ASSERT_TRUE(p.b.recv(*id->qp(), 0, 64, 5));
  ASSERT_TRUE(p.net.run_until([&] { return p.client.last<cm::Retrying>() != nullptr; }));
  p.listener = *p.server.cm.listen(Address::v4(192, 0, 2, 1, port));
  ASSERT_TRUE(p.net.run_until([&] { return p.up(); }));
  ASSERT_TRUE(p.a.send(*p.accepted.qp(), 0, 20));
  ASSERT_TRUE(p.net.run_until([&] { return p.b.saw(WcOpcode::recv); }));
  EXPECT_EQ(p.b.done.front().wr_id, 5u);
}

TEST(RoceProvider, TheTimeForAllOfItIsBounded) {
  Pair p;
  p.net.fate = [](const std::string&, std::size_t) { return Net::Fate{0}; };
  cm::ConnectOptions options = p.options();
  options.timeout = 500ms;
  options.retry = {.rounds = 5};
  const Instant begin = p.net.now;
  ASSERT_TRUE(p.client.cm.connect(Address::v4(192, 0, 2, 1, port), options));
  ASSERT_TRUE(p.net.run_until([&] { return p.client.last<cm::ConnectFailed>() != nullptr; }));
  EXPECT_EQ(duration_text(p.net.now - begin), "500.0 ms");
}

TEST(RoceProvider, AnAddressThatCannotBeBoundIsSaidInWords) {
  Pair p;
  p.client.bind_error = Error(Errc::address_in_use, "another process has it");
  p.connect();
  ASSERT_TRUE(p.net.run_until([&] { return p.client.last<cm::ConnectFailed>() != nullptr; }));
  const cm::Failure& why = p.client.last<cm::ConnectFailed>()->why;
  EXPECT_EQ(why.code, Errc::address_in_use);
  EXPECT_EQ(why.received, "192.0.2.2:0: another process has it");
}

TEST(RoceProvider, AListenerWhoseAddressIsTakenFails) {
  Net net;
  Host& host = net.add_host(1);
  host.bind_error = Error(Errc::address_in_use, "another process has it");
  ASSERT_TRUE(host.cm.listen(Address::v4(192, 0, 2, 1, port)));
  ASSERT_TRUE(net.run_until([&] { return host.last<cm::ConnectFailed>() != nullptr; }));
  EXPECT_TRUE(host.last<cm::ConnectFailed>()->responder);
}

TEST(RoceProvider, TwoListenersOfOnePortAndAddressAreOneTooMany) {
  Pair p;
  ASSERT_TRUE(p.server.cm.listen(Address::v4(192, 0, 2, 1, port)));
  ASSERT_TRUE(p.net.run_until([&] { return p.server.last<cm::ConnectFailed>() != nullptr; }));
  EXPECT_EQ(p.server.last<cm::ConnectFailed>()->why.code, Errc::address_in_use);
  p.connect();
  EXPECT_TRUE(p.net.run_until([&] { return p.up(); }));
}

TEST(RoceProvider, APortOfItsOwnIsFoundForPortZero) {
  Net net;
  Host& host = net.add_host(1);
  ASSERT_TRUE(host.cm.listen(Address::v4(192, 0, 2, 1, 0)));
  ASSERT_TRUE(host.cm.listen(Address::v4(192, 0, 2, 1, 0)));
  ASSERT_TRUE(net.run_until([&] { return host.all<cm::Listening>().size() == 2; }));
  const auto all = host.all<cm::Listening>();
  EXPECT_NE(all[0]->local.port, 0u);
  EXPECT_NE(all[0]->local.port, all[1]->local.port);
}

TEST(RoceProvider, DestroyingALiveConnectionEndsItAtThePeer) {
  Pair p;
  p.connect();
  ASSERT_TRUE(p.net.run_until([&] { return p.up(); }));
  p.connected.destroy();
  ASSERT_TRUE(p.net.run_until([&] { return p.server.last<cm::Disconnected>() != nullptr; }));
  EXPECT_FALSE(p.client.last<cm::Disconnected>());
}

TEST(RoceProvider, APeerThatVanishesIsNoticedByARequest) {
  Pair p;
  p.connect();
  ASSERT_TRUE(p.net.run_until([&] { return p.up(); }));
  p.net.fate = [](const std::string&, std::size_t) { return Net::Fate{0}; };
  ASSERT_TRUE(p.b.send(*p.connected.qp(), 0, 10));
  ASSERT_TRUE(p.net.run_until([&] { return p.client.last<cm::Disconnected>() != nullptr; }));
  EXPECT_FALSE(p.client.last<cm::Disconnected>()->graceful);
  EXPECT_TRUE(p.b.saw(WcOpcode::send, WcStatus::retry_exc_err));
}

TEST(RoceProvider, ADisconnectThatNobodyAnswersEnds) {
  Pair p({.linger = 2s});
  p.connect();
  ASSERT_TRUE(p.net.run_until([&] { return p.up(); }));
  p.net.fate = [](const std::string&, std::size_t) { return Net::Fate{0}; };
  const Instant begin = p.net.now;
  ASSERT_TRUE(p.connected.disconnect());
  ASSERT_TRUE(p.net.run_until([&] { return p.client.last<cm::Disconnected>() != nullptr; }));
  EXPECT_FALSE(p.client.last<cm::Disconnected>()->graceful);
  EXPECT_LE(p.net.now - begin, 5s);
}

// The time for an answer begins with the DREQ, which waited for a request that was lost at first.
TEST(RoceProvider, AnAnswerToALateDisconnectIsStillInTime) {
  Pair p({.linger = 1s});
  p.connect();
  ASSERT_TRUE(p.net.run_until([&] { return p.up(); }));
  const Instant begin = p.net.now;
  p.net.fate = [&](const std::string& name, std::size_t) {
    if (name == "DREQ") return Net::Fate{1, 500ms};
    return Net::Fate{name.starts_with("RC SEND") && p.net.now - begin < 700ms ? 0 : 1};
  };
  ASSERT_TRUE(p.b.send(*p.connected.qp(), 0, 10));
  ASSERT_TRUE(p.connected.disconnect());
  ASSERT_TRUE(p.net.run_until([&] { return p.client.last<cm::Disconnected>() != nullptr; }));
  EXPECT_TRUE(p.client.last<cm::Disconnected>()->graceful) << p.client.last<cm::Disconnected>()->why.to_string();
  EXPECT_GT(p.net.now - begin, 1200ms);
}

TEST(RoceProvider, BothSidesMayDisconnectAtOnce) {
  Pair p;
  p.connect();
  ASSERT_TRUE(p.net.run_until([&] { return p.up(); }));
  ASSERT_TRUE(p.connected.disconnect());
  ASSERT_TRUE(p.accepted.disconnect());
  ASSERT_TRUE(p.net.run_until([&] { return p.client.last<cm::Disconnected>() && p.server.last<cm::Disconnected>(); }));
  EXPECT_TRUE(p.client.last<cm::Disconnected>()->graceful);
  EXPECT_TRUE(p.server.last<cm::Disconnected>()->graceful);
}

TEST(RoceProvider, WhatIsNotItsOwnIsRefusedAtTheCall) {
  Pair p;
  cm::ConnectOptions options = p.options();
  options.transport = mpa::Options{};
  const auto mpa = p.client.cm.connect(Address::v4(192, 0, 2, 1, port), options);
  ASSERT_FALSE(mpa);
  EXPECT_EQ(mpa.error(), Errc::unsupported);
  options = p.options();
  const Bytes long_data(57);
  options.private_data = long_data;
  const auto data = p.client.cm.connect(Address::v4(192, 0, 2, 1, port), options);
  ASSERT_FALSE(data);
  EXPECT_EQ(data.error(), Errc::bad_private_data);
  options = p.options();
  options.transport = ib::Options{.retry_count = 8};
  EXPECT_EQ(p.client.cm.connect(Address::v4(192, 0, 2, 1, port), options).error(), Errc::invalid_argument);
}

// They would wait for an answer from a GID that no host has.
TEST(RoceProvider, AddressesThatAreNoHostsAreRefusedAtTheCall) {
  Pair p;
  const Address mapped = *Address::parse("[::ffff:192.0.2.1]:7174"), group = *Address::parse("[ff02::1]:7174");
  for (const Address& peer : {Address::any(Address::Family::v4, port), Address::any(Address::Family::v6, port),
                              Address::v4(239, 1, 2, 3, port), group, mapped}) {
    const auto id = p.client.cm.connect(peer, p.options());
    ASSERT_FALSE(id) << peer.to_string();
    EXPECT_EQ(id.error(), Errc::bad_address) << peer.to_string();
  }
  for (const Address& local : {Address::v4(224, 0, 0, 1, port), group, mapped})
    EXPECT_EQ(p.server.cm.listen(local).error(), Errc::bad_address) << local.to_string();
}

TEST(RoceProvider, AFloodIsTurnedAwayAndHonestPeersAreServed) {
  Pair p;
  p.server.on_request = {};  // nobody decides
  cm::ListenOptions few;
  few.pending_max = 8;
  p.listener.destroy();
  p.listener = *p.server.cm.listen(Address::v4(192, 0, 2, 1, port), few);
  Host& flooder = p.net.add_host(3);
  for (int i = 0; i < 50; ++i) ASSERT_TRUE(flooder.cm.connect(Address::v4(192, 0, 2, 1, port)));
  p.net.run_for(20ms);
  ASSERT_NE(p.server.last<cm::TurnedAway>(), nullptr);
  EXPECT_LE(p.server.all<cm::ConnectRequest>().size(), 9u);
  p.server.on_request = [&](cm::ConnectRequest& request) {
    if (request.peer.octets == p.client.ip.octets) p.accept(request);
  };
  p.connect();
  EXPECT_TRUE(p.net.run_until([&] { return p.client.last<cm::Established>() != nullptr; }, 2s));
}

TEST(RoceProvider, AnAddressIsKeptOnceForAllThatHaveLeftIt) {
  Pair p({.linger = 5s});
  p.server.on_request = [](cm::ConnectRequest& request) { EXPECT_TRUE(request.id.accept()); };
  const auto connect_and_leave = [&] {
    cm::Id id = *p.client.cm.connect(Address::v4(192, 0, 2, 1, port));
    ASSERT_TRUE(p.net.run_until([&] { return p.up(); }));
    id.destroy();
    p.client.events.clear();
    p.server.events.clear();
    p.net.run_for(1s);
    EXPECT_EQ(p.client.bound, 1U);
  };
  connect_and_leave();
  connect_and_leave();
  p.net.run_for(3500ms);  // 5.5 s after the first has left
  EXPECT_EQ(p.client.bound, 1U);
  p.net.run_for(1s);
  EXPECT_EQ(p.client.bound, 0U);
}

TEST(RoceProvider, TheQueuesThatNobodyAskedForAreEmptyForTheNext) {
  Pair p;
  p.server.on_request = [](cm::ConnectRequest& request) { EXPECT_TRUE(request.id.accept()); };
  for (int round = 0; round < 4; ++round) {
    cm::Id id = *p.client.cm.connect(Address::v4(192, 0, 2, 1, port));
    ASSERT_TRUE(p.net.run_until([&] { return p.up(); }));
    for (std::uint64_t i = 0; i < 2; ++i) EXPECT_TRUE(id.qp()->post_recv({.wr_id = i})) << "round " << round;
    ASSERT_TRUE(id.disconnect());
    ASSERT_TRUE(p.net.run_until([&] { return p.client.last<cm::Disconnected>() != nullptr; }));
    id.destroy();
    p.client.events.clear();
    p.server.events.clear();
  }
}

TEST(RoceProvider, NothingIsLeftOfAThousandConnections) {
  Pair p;
  p.server.on_request = [](cm::ConnectRequest& request) { EXPECT_TRUE(request.id.accept()); };
  for (int round = 0; round < 20; ++round) {
    std::vector<cm::Id> ids;
    for (int i = 0; i < 50; ++i) ids.push_back(*p.client.cm.connect(Address::v4(192, 0, 2, 1, port)));
    ASSERT_TRUE(p.net.run_until([&] { return p.client.all<cm::Established>().size() == ids.size(); }));
    ASSERT_TRUE(p.net.run_until([&] { return p.server.all<cm::Established>().size() == ids.size(); }));
    for (const cm::Id& id : ids) ASSERT_TRUE(cm::Id(id).disconnect());
    ASSERT_TRUE(p.net.run_until([&] { return p.server.all<cm::Disconnected>().size() == ids.size(); }));
    for (cm::Id& id : ids) id.destroy();
    for (const auto* e : p.server.all<cm::Disconnected>()) cm::Id(e->id).destroy();
    p.server.events.clear();
    p.client.events.clear();
  }
  p.net.run_for(60s);
  EXPECT_EQ(p.client.provider->endpoint_count(), 0u);
  EXPECT_EQ(p.server.provider->endpoint_count(), 1u);  // the listener
  EXPECT_EQ(p.client.bound, 0u);
  EXPECT_EQ(p.server.bound, 1u);
}

}  // namespace
}  // namespace parley::roce_provider_test
