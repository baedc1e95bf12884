// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// A negotiation over a connection of the connection manager: what the sides say first goes in the private data of the
// Request and the Reply, the rest in messages over the connection.
#include "parley/neg_qp.hpp"
#include "parley/neg_session.hpp"
#include "tests/unit/cm/test_pair.hpp"

namespace parley::neg {
namespace {

Config numbers(std::uint32_t qpn) { return {{"qpn", std::to_string(qpn)}, {"gid", "192.0.2.1"}}; }

struct Negotiated {
  Negotiated() { EXPECT_TRUE(framework.add(make_builtin_plugin())); }
  void initiate() {
    initiator.emplace(*Session::initiate({.plugin = "parley", .variant = "manual"},
                                         *framework.make("parley", "manual", Role::initiator, numbers(0x11)), {}, {}));
  }
  void respond() {
    responder.emplace(*Session::respond(
        [this](const Request& request) {
          return framework.make(request.plugin, offers, Role::responder, numbers(0x22));
        },
        {}, {}));
  }
  Framework framework;
  std::string offers = "manual";
  std::optional<Session> initiator, responder;
};

/// What one session has to say goes to the other as a message over the connection.
void say(testing_net::Pair& p, Session& from, Session& to, bool by_initiator) {
  const Bytes octets = from.poll_transmit();
  if (octets.empty()) return;
  Verbs &mine = by_initiator ? p.va : p.vb, &theirs = by_initiator ? p.vb : p.va;
  cm::Id &id = by_initiator ? p.ca : p.cb, &other = by_initiator ? p.cb : p.ca;
  std::copy(octets.begin(), octets.end(), mine.memory.begin() + 32768);
  const std::size_t before = theirs.count(WcOpcode::recv);
  ASSERT_TRUE(theirs.recv(*other.qp(), 0, 4096));
  ASSERT_TRUE(mine.send(*id.qp(), 32768, octets.size()));
  ASSERT_TRUE(p.net.run_until([&] { return theirs.count(WcOpcode::recv) > before; }));
  to.handle_bytes({}, ConstBytes(theirs.memory).first(octets.size()));
}

TEST(NegPrivateData, TheFirstMessagesFitIntoRequestAndReply) {
  Negotiated n;
  n.initiate();
  const Bytes first = n.initiator->poll_transmit();
  EXPECT_LE(first.size(), 508U) << "MPA, revision 2";
  testing_net::Pair p;
  const Address to = p.listen();
  p.b.on_request = [&](cm::ConnectRequest& request) {
    p.cb = request.id;
    n.respond();
    n.responder->handle_bytes({}, messages_in(request.private_data));
    const Bytes answer = n.responder->poll_transmit();
    ASSERT_TRUE(p.cb.accept({.private_data = answer, .qp = p.vb.qp()}));
  };
  p.connect(to, {}, first);
  ASSERT_TRUE(p.net.run_until([&] { return p.a.last<cm::Established>() != nullptr; }));
  n.initiator->handle_bytes({}, messages_in(p.a.last<cm::Established>()->private_data));
  EXPECT_EQ(n.initiator->stage(), Stage::ready) << "info is over";
  EXPECT_EQ(n.responder->stage(), Stage::ready);
  for (int turn = 0; turn < 4; ++turn) {
    say(p, *n.initiator, *n.responder, true);
    say(p, *n.responder, *n.initiator, false);
  }
  ASSERT_TRUE(n.initiator->completed() && n.responder->completed());
  EXPECT_EQ(n.initiator->agreed()->at(0).peer.qpn, 0x22U);
  EXPECT_EQ(n.responder->agreed()->at(0).peer.qpn, 0x11U);
}

TEST(NegPrivateData, ARejectionSaysWhy) {
  Negotiated n;
  n.offers = "no-such-variant";
  n.initiate();
  testing_net::Pair p;
  const Address to = p.listen();
  p.b.on_request = [&](cm::ConnectRequest& request) {
    n.respond();
    n.responder->handle_bytes({}, messages_in(request.private_data));
    ASSERT_NE(n.responder->failure(), nullptr);
    ASSERT_TRUE(request.id.reject(n.responder->poll_transmit()));
  };
  p.connect(to, {}, n.initiator->poll_transmit());
  ASSERT_TRUE(p.net.run_until([&] { return p.a.last<cm::Rejected>() != nullptr; }));
  n.initiator->handle_bytes({}, messages_in(p.a.last<cm::Rejected>()->private_data));
  ASSERT_NE(n.initiator->failure(), nullptr);
  EXPECT_TRUE(n.initiator->failure()->by_peer);
  EXPECT_EQ(n.initiator->failure()->problem, Problem::variant_not_available);
}

TEST(NegPrivateData, OnlyZerosBehindTheMessagesArePadding) {
  Negotiated n;
  n.initiate();
  const Bytes messages = n.initiator->poll_transmit();
  const auto with = [&](Bytes behind) {
    Bytes all = messages;
    all.insert(all.end(), behind.begin(), behind.end());
    return messages_in(all).size();
  };
  EXPECT_EQ(with({}), messages.size());
  EXPECT_EQ(with(Bytes(300)), messages.size()) << "the InfiniBand CM fills private data up";
  EXPECT_EQ(with({0, 0, 1}), messages.size() + 3) << "for the session to judge";
  EXPECT_EQ(messages_in(ConstBytes(messages).first(messages.size() - 1)).size(), messages.size() - 1);
  EXPECT_EQ(messages_in(Bytes(56)).size(), 0U) << "no message at all";
  EXPECT_EQ(messages_in({}).size(), 0U);
}

}  // namespace
}  // namespace parley::neg
