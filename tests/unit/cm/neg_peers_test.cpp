// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Negotiations over streams: retries, fail-over, time limits, and peers that vanish, stall, flood or speak otherwise.
#include "tests/unit/cm/neg_net.hpp"

namespace parley::neg {
namespace {

using namespace kit;

const Address server_at = Address::v4(192, 0, 2, 2, 4800), spare_at = Address::v4(192, 0, 2, 3, 4800);

/// A machine on the network, and what it told.
struct Party {
  explicit Party(Net& net, const Address& at, PeersOptions options = {},
                 std::function<void(ScriptedPlugin&)> change = {}) {
    auto made = std::make_unique<ScriptedPlugin>();
    if (change) change(*made);
    log = made->log;
    plugin = made.get();
    EXPECT_TRUE(framework.add(std::move(made)));
    peers.emplace(framework, options);
    net.add(*peers, at);
  }
  void collect() {
    while (auto event = peers->poll_event()) {
      if (auto* over = std::get_if<Peers::Ended>(&*event)) ended.push_back(std::move(*over));
      if (auto* again = std::get_if<Peers::Retrying>(&*event)) retrying.push_back(std::move(*again));
      if (auto* failed = std::get_if<Peers::ListenFailed>(&*event)) listen_failed.push_back(std::move(*failed));
    }
  }
  Framework framework;
  ScriptedPlugin* plugin = nullptr;
  std::shared_ptr<Scripted::Log> log;
  std::optional<Peers> peers;
  std::vector<Peers::Ended> ended;
  std::vector<Peers::Retrying> retrying;
  std::vector<Peers::ListenFailed> listen_failed;
};

struct World {
  explicit World(PeersOptions server_options = {}, std::function<void(ScriptedPlugin&)> server_plugin = {},
                 std::function<void(ScriptedPlugin&)> client_plugin = {})
      : client(net, Address::v4(192, 0, 2, 1, 0), {}, std::move(client_plugin)),
        server(net, Address::v4(192, 0, 2, 2, 0), server_options, std::move(server_plugin)) {}
  void listen() { ASSERT_TRUE(server.peers->listen(server_at)); }
  static Dial dial_of(std::string variant = "rc") {
    return {.request = {.plugin = "acme", .variant = std::move(variant), .label = "test"}, .server = server_at};
  }
  /// The one end of a dial.
  Peers::Ended& dial(Dial dial = dial_of()) {
    const auto id = client.peers->dial(net.now, std::move(dial));
    EXPECT_TRUE(id) << id.error().to_string();
    net.settle();
    client.collect();
    server.collect();
    EXPECT_EQ(client.ended.size(), 1U);
    EXPECT_EQ(client.peers->busy(), 0U);
    EXPECT_EQ(client.peers->streams(), 0U);
    EXPECT_EQ(client.peers->next_deadline(), never);
    if (client.ended.empty()) client.ended.emplace_back();
    return client.ended.back();
  }
  Net net;
  Party client, server;
};

std::string problem(const Peers::Ended& ended) {
  return ended.failure ? std::string(to_string(ended.failure->problem)) : "completed";
}

TEST(NegPeers, BothSidesTellThatItIsDone) {
  World w;
  w.listen();
  const Peers::Ended& ended = w.dial();
  EXPECT_EQ(problem(ended), "completed");
  EXPECT_EQ(ended.attempts, 1U);
  EXPECT_EQ(ended.history.size(), 8U);
  EXPECT_TRUE(ended.variant);
  ASSERT_EQ(w.server.ended.size(), 1U);
  EXPECT_EQ(problem(w.server.ended[0]), "completed");
  EXPECT_EQ(w.server.ended[0].request.label, "test");
  EXPECT_EQ(w.server.ended[0].dial, 0U);
  EXPECT_EQ(w.server.log->lines.back(), "done finished");
  EXPECT_EQ(w.server.peers->streams(), 0U);
  EXPECT_EQ(ended.took, 8ms);  // two for TCP, two for each of three stages
}

TEST(NegPeers, OctetByOctetIsTheSame) {
  World w;
  w.net.segment = 1;
  w.listen();
  EXPECT_EQ(problem(w.dial()), "completed");
  EXPECT_EQ(problem(w.server.ended.at(0)), "completed");
}

TEST(NegPeers, WhereNobodyListensTheServerIsUnreachable) {
  World w;
  const Peers::Ended& ended = w.dial();
  EXPECT_EQ(problem(ended), "server_unreachable");
  EXPECT_EQ(ended.failure->to_string(),
            "the server cannot be reached: 192.0.2.2:4800: there is no listener at that address; start the peer's "
            "listener, or "
            "check address and port");
}

TEST(NegPeers, WhereNobodyAnswersTheConnectionTimesOut) {
  World w;
  w.net.black_hole(server_at);
  auto dial = World::dial_of();
  dial.connect_timeout = 3s;
  const Peers::Ended& ended = w.dial(dial);
  EXPECT_EQ(problem(ended), "connection_timeout");
  EXPECT_EQ(ended.took, 3s);
}

TEST(NegPeers, RetriesWithABackOffThatDoublesAndIsSpread) {
  World w;
  auto dial = World::dial_of();
  dial.retry = {.rounds = 5, .first = 100ms, .cap = 300ms};
  const Peers::Ended& ended = w.dial(dial);
  EXPECT_EQ(problem(ended), "server_unreachable");
  EXPECT_EQ(ended.attempts, 5U);
  ASSERT_EQ(w.client.retrying.size(), 4U);
  const Duration most[] = {100ms, 200ms, 300ms, 300ms};
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_LE(w.client.retrying[i].wait, most[i]);
    EXPECT_GE(w.client.retrying[i].wait, most[i] / 2);
  }
  EXPECT_EQ(w.client.retrying[0].why.problem, Problem::server_unreachable);
}

TEST(NegPeers, TwoSeedsDoNotComeBackTogether) {
  const auto waits = [](std::uint64_t seed) {
    Net net;
    Party client(net, Address::v4(192, 0, 2, 1, 0), {.seed = seed});
    auto dial = World::dial_of();
    dial.retry.rounds = 4;
    EXPECT_TRUE(client.peers->dial(net.now, dial));
    net.settle();
    client.collect();
    std::vector<Duration> out;
    for (const auto& again : client.retrying) out.push_back(again.wait);
    return out;
  };
  EXPECT_EQ(waits(1), waits(1));
  EXPECT_NE(waits(1), waits(2));
}

TEST(NegPeers, FailsOverToABackupAtOnce) {
  World w;
  Party spare(w.net, Address::v4(192, 0, 2, 3, 0));
  ASSERT_TRUE(spare.peers->listen(spare_at));
  auto dial = World::dial_of();
  dial.backups = {spare_at};
  const Peers::Ended& ended = w.dial(dial);
  EXPECT_EQ(problem(ended), "completed");
  EXPECT_EQ(ended.peer, spare_at);
  EXPECT_EQ(ended.attempts, 2U);
  ASSERT_EQ(w.client.retrying.size(), 1U);
  EXPECT_EQ(w.client.retrying[0].wait, Duration{});
  EXPECT_EQ(w.client.retrying[0].failed, server_at);
}

TEST(NegPeers, AServerThatSaysNothingIsLeftForItsBackup) {
  World w;
  Plain silent;
  w.net.add(silent, Address::v4(192, 0, 2, 9, 0));
  silent.listen(Address::v4(192, 0, 2, 9, 4800));
  w.listen();
  auto dial = World::dial_of();
  dial.server = Address::v4(192, 0, 2, 9, 4800);
  dial.backups = {server_at};
  const Peers::Ended& ended = w.dial(dial);
  EXPECT_EQ(problem(ended), "completed");
  ASSERT_EQ(w.client.retrying.size(), 1U);
  EXPECT_EQ(
      w.client.retrying[0].why.to_string(),
      "info, round 1: the peer did not answer in time: no answer after 10 s; raise answer_timeout, or see whether the "
      "peer is alive");
}

TEST(NegPeers, AServerThatSpeaksHttpIsNamed) {
  World w;
  Plain web;
  w.net.add(web, Address::v4(192, 0, 2, 9, 0));
  web.listen(Address::v4(192, 0, 2, 9, 80));
  web.on_bytes = [&](StreamId stream, ConstBytes) { web.say(stream, octets("HTTP/1.1 400 Bad Request\r\n\r\n")); };
  auto dial = World::dial_of();
  dial.server = Address::v4(192, 0, 2, 9, 80);
  dial.retry.rounds = 5;
  const Peers::Ended& ended = w.dial(dial);
  EXPECT_EQ(problem(ended), "protocol_violation");
  EXPECT_EQ(ended.attempts, 1U) << "no later attempt would be better";
  EXPECT_NE(ended.failure->text.find("'HTTP/1.1 400 Ba"), std::string::npos) << ended.failure->text;
  EXPECT_NE(words(web.heard.begin()->second).find("another protocol"), std::string::npos) << "the server is told, too";
}

TEST(NegPeers, ARefusalOfTheServerIsFinalAndListsWhatThereIs) {
  World w;
  ASSERT_TRUE(w.server.peers->listen(server_at, {{.plugin = "acme", .variant = "ud"}}));
  auto dial = World::dial_of();
  dial.retry.rounds = 5;
  const Peers::Ended& ended = w.dial(dial);
  EXPECT_EQ(
      ended.failure->to_string(),
      "info, round 1: the peer says: the plug-in has no such variant: acme/rc is not offered here; there is acme/ud");
  EXPECT_EQ(ended.attempts, 1U);
  EXPECT_EQ(problem(w.server.ended.at(0)), "variant_not_available");
  EXPECT_FALSE(w.server.ended[0].failure->by_peer);
}

// The connection is cut after every number of octets that may pass: each side has one end, and nothing stays.
TEST(NegPeers, APeerLostAtAnyOctetEndsBothSidesOnce) {
  std::size_t whole = 0;
  {
    World w;
    w.listen();
    w.dial();
    whole = w.net.carried;
  }
  std::map<std::string, int> ends;
  for (std::size_t octets = 0; octets < whole; ++octets) {
    SCOPED_TRACE(octets);
    World w;
    w.listen();
    w.net.segment = 8;
    w.net.cut_after = octets;
    const Peers::Ended& ended = w.dial();
    ++ends[problem(ended)];
    ASSERT_EQ(w.server.ended.size(), 1U);
    ++ends[problem(w.server.ended[0])];
    EXPECT_EQ(w.server.peers->busy(), 0U);
    EXPECT_EQ(w.server.peers->streams(), 0U);
  }
  EXPECT_EQ(ends["connection_lost"] + ends["completed"], static_cast<int>(2 * whole));
  EXPECT_LT(ends["completed"], 40) << "only who has sent or had the last Turn may call it done";
}

TEST(NegPeers, LostInInfoItIsTriedAgainLaterItIsNot) {
  for (const std::string said : {"b info", "b ready"}) {
    SCOPED_TRACE(said);
    World w;
    w.listen();
    // The server's host vanishes with that message on its way, once.
    bool lost = false;
    w.net.spy = [&](const Address& from, const Address&, ConstBytes octets) {
      const bool now = !lost && from.port == server_at.port && words(octets).find(said) != std::string::npos;
      w.net.cut_after = now ? 0 : ~std::size_t{0};
      lost = lost || now;
    };
    auto dial = World::dial_of();
    dial.retry.rounds = 3;
    const Peers::Ended& ended = w.dial(dial);
    EXPECT_EQ(problem(ended), said == "b info" ? "completed" : "connection_lost");
    EXPECT_EQ(ended.attempts, said == "b info" ? 2U : 1U);
  }
}

TEST(NegPeers, ASilentClientIsLetGo) {
  World w({.session = {.answer_timeout = 2s}});
  w.listen();
  Plain silent;
  w.net.add(silent, Address::v4(192, 0, 2, 7, 0));
  silent.connect(server_at);
  ASSERT_TRUE(w.net.run_until([&] { return !silent.fins.empty(); }));
  EXPECT_EQ(w.net.now, Instant{} + 2s + 2ms) << "as soon as it has been told";
  w.net.settle();
  w.server.collect();
  EXPECT_EQ(problem(w.server.ended.at(0)), "connection_timeout");
  EXPECT_EQ(w.server.peers->streams(), 0U);
  EXPECT_FALSE(silent.heard.empty()) << "it is told why";
  EXPECT_EQ(silent.fins.size(), 1U);
}

TEST(NegPeers, HalfAMessageIsNamed) {
  World w({.session = {.answer_timeout = 2s}});
  w.listen();
  Plain client;
  w.net.add(client, Address::v4(192, 0, 2, 7, 0));
  client.on_up = [&](StreamId stream) { client.say(stream, octets("QPng\1\1")); };
  client.connect(server_at);
  w.net.settle();
  w.server.collect();
  EXPECT_EQ(w.server.ended.at(0).failure->text, "half a message after 2 s");
  client.on_up = [&](StreamId stream) {
    client.say(stream, octets("QPng"));
    client.end(stream, StreamCommand::Kind::close);
  };
  client.connect(server_at);
  w.net.settle();
  w.server.collect();
  EXPECT_EQ(w.server.ended.at(1).failure->to_string(),
            "the peer closed the connection: FIN after 4 octets of a message; look at the peer's log");
}

// 10,000 peers that connect and say nothing, or garbage, from one address; others are still served.
TEST(NegPeers, AFloodTakesNobodysPlace) {
  World w({.sessions_max = 16});
  w.listen();
  Plain flood;
  w.net.add(flood, Address::v4(192, 0, 2, 66, 0));
  int up = 0;
  flood.on_up = [&](StreamId stream) {
    if (++up % 2 == 0) flood.say(stream, octets(up % 4 == 0 ? "garbage" : "QPng\1"));
  };
  for (int i = 0; i < 10'000; ++i) flood.connect(server_at);
  ASSERT_TRUE(w.net.run_until([&] { return up >= 5000; }));
  EXPECT_LE(w.server.peers->busy(), 16U);
  EXPECT_EQ(problem(w.dial()), "completed");
  w.server.collect();
  std::map<std::string, int> ends;
  for (const auto& ended : w.server.ended) ++ends[problem(ended)];
  EXPECT_EQ(ends["completed"], 1);
  EXPECT_GT(ends["resource_exhaustion"], 5000);
  EXPECT_EQ(w.server.peers->streams(), 0U);
}

TEST(NegPeers, APluginsMisdeedsEndOneSessionAlone) {
  int session = 0;
  World w({}, [&](ScriptedPlugin& plugin) {
    plugin.plays = [&](Role) -> Scripted::Play {
      switch (session++) {
        case 1: return [](Stage, int, std::optional<ConstBytes>) -> Outcome<Turn> { throw std::runtime_error("segv"); };
        case 2: return [](Stage, int, std::optional<ConstBytes>) -> Outcome<Turn> { return Turn{Bytes(70'000), true}; };
        case 3:
          return [](Stage, int, std::optional<ConstBytes>) -> Outcome<Turn> { return Turn{octets("more"), false}; };
        case 4:
          return [](Stage, int, std::optional<ConstBytes>) -> Outcome<Turn> {
            return tl::unexpected(Failure{.problem = Problem::invalid_peer_data, .text = "12 octets, 32 are expected"});
          };
        default: return one_message("b");
      }
    };
  });
  w.listen();
  const char* expected[] = {"completed",       "unexpected_exception", "plugin_refused",
                            "too_many_rounds", "invalid_peer_data",    "completed"};
  for (const char* end : expected) {
    EXPECT_EQ(problem(w.dial()), end);
    EXPECT_EQ(problem(w.server.ended.back()), end);
    w.client.ended.clear();
  }
}

TEST(NegPeers, AServerWhosePluginNeverEndsIsStoppedByTheSessionsTime) {
  World w;
  w.listen();
  w.server.plugin->plays = [](Role) -> Scripted::Play {
    return [](Stage, int, std::optional<ConstBytes>) -> Outcome<Turn> { return Turn{octets("more"), false}; };
  };
  auto dial = World::dial_of();
  dial.session.session_timeout = 50ms;
  EXPECT_EQ(problem(w.dial(dial)), "session_timeout");
  EXPECT_TRUE(w.server.ended.at(0).failure->by_peer);
}

TEST(NegPeers, WhatCannotBeDialledIsSaidAtOnce) {
  World w;
  const auto text = [&](const std::function<void(Dial&)>& change) {
    auto dial = World::dial_of();
    change(dial);
    const auto id = w.client.peers->dial(w.net.now, dial);
    return id ? std::string("fine") : id.error().to_string();
  };
  EXPECT_EQ(text([](Dial& d) { d.request.plugin = "acne"; }),
            "there is no such plug-in: no plug-in 'acne'; there are acme/rc, acme/ud");
  EXPECT_EQ(text([](Dial& d) { d.request.variant = "uc"; }),
            "the plug-in has no such variant: plug-in 'acme' has no variant 'uc'; there are rc, ud");
  EXPECT_EQ(text([](Dial& d) { d.server.port = 0; }),
            "the configuration is wrong: 192.0.2.2:0 is not an address of a server");
  EXPECT_EQ(text([](Dial& d) { d.backups.assign(17, spare_at); }),
            "the configuration is wrong: an argument is out of its documented range: ConnectOptions::backups has 17 "
            "addresses; at most 16");
  EXPECT_EQ(text([](Dial& d) { d.session.rounds_max = 0; }),
            "the configuration is wrong: SessionOptions::rounds_max is 0; must be at least 1");
  EXPECT_EQ(text([](Dial& d) {
              d.config = {{"x", "1"}};
            }),
            "the configuration is wrong: acme/rc: 'x': there are no parameters");
  EXPECT_EQ(w.client.peers->busy(), 0U);
}

TEST(NegPeers, AListenerThatCannotBeIsSaid) {
  World w;
  EXPECT_EQ(w.server.peers->listen(server_at, {{.plugin = "acme", .variant = "uc"}}).error().problem,
            Problem::variant_not_available);
  w.listen();
  EXPECT_EQ(w.server.peers->listen(server_at).error().text, "this side listens already");
  Party other(w.net, Address::v4(192, 0, 2, 2, 0));
  w.net.settle();
  w.server.peers->stop_listening();
  EXPECT_EQ(problem(w.dial()), "server_unreachable");
}

TEST(NegPeers, ManyAtOnceEachHaveTheirOwnEnd) {
  World w;
  w.listen();
  for (int i = 0; i < 500; ++i) ASSERT_TRUE(w.client.peers->dial(w.net.now, World::dial_of(i % 2 == 0 ? "rc" : "ud")));
  w.net.settle();
  w.client.collect();
  w.server.collect();
  ASSERT_EQ(w.client.ended.size(), 500U);
  std::set<Peers::DialId> seen;
  for (const auto& ended : w.client.ended) {
    EXPECT_EQ(problem(ended), "completed");
    seen.insert(ended.dial);
  }
  EXPECT_EQ(seen.size(), 500U);
  EXPECT_EQ(w.server.ended.size(), 500U);
}

}  // namespace
}  // namespace parley::neg
