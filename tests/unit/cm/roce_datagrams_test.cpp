// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// UD through cm::Manager on the RoCE provider: a service of the port space UDP is asked for its queue pair (SIDR, IBA §12.11),
// and datagrams go there.
#include <gtest/gtest.h>

#include "parley/roce.hpp"
#include "tests/unit/cm/packet_net.hpp"
#include "tests/unit/printing.hpp"

namespace parley::roce_datagrams_test {
namespace {

using packet_net::Host;
using packet_net::Net;
using namespace std::chrono_literals;

constexpr std::uint16_t port = 7174;
constexpr std::size_t grh = 40;
const Address server_at = Address::v4(192, 0, 2, 1, port);
const ib::Options datagrams{.qp_type = QpType::ud};
constexpr auto raw_packet = static_cast<QpType>(8);  // verbs has it, and no CM

Bytes bytes(std::string_view text) { return {text.begin(), text.end()}; }
std::string text_of(const Bytes& data) { return {data.begin(), std::find(data.begin(), data.end(), std::uint8_t{0})}; }

/// A server that serves a port, and a client.
struct Pair {
  explicit Pair(cm::ListenOptions listen = {}) : server(net.add_host(1)), client(net.add_host(2)) {
    server.on_request = [this](cm::ConnectRequest& request) { accept(request); };
    listen.transport = datagrams;
    listener = *server.cm.listen(server_at, listen);
    EXPECT_TRUE(net.run_until([this] { return server.last<cm::Listening>() != nullptr; }));
  }
  QpInit ud(const Verbs& side) const {
    QpInit init = side.qp();
    init.type = QpType::ud;
    return init;
  }
  void accept(cm::ConnectRequest& request) {
    accepted = request.id;
    ASSERT_TRUE(accepted.create_qp(ud(a)));
    EXPECT_TRUE(a.recv(*accepted.qp(), 0, 4096, 1));
    cm::AcceptOptions options;
    const Bytes answer = bytes("pong");
    options.private_data = answer;
    EXPECT_TRUE(accepted.accept(options));
  }
  cm::ConnectOptions options() const {
    cm::ConnectOptions out;
    out.transport = datagrams;
    out.private_data = hello;
    out.qp = ud(b);
    return out;
  }
  void ask() { asked = *client.cm.connect(server_at, options()); }
  bool up() { return client.last<cm::Established>() != nullptr; }
  template <class E>
  bool client_gets(Duration within = 60s) {
    return net.run_until([this] { return client.last<E>() != nullptr; }, within);
  }

  Net net;
  Host& server;
  Host& client;
  Verbs a{server.cm.device()}, b{client.cm.device()};
  cm::Id listener, asked, accepted;
  Bytes hello = bytes("ping");
};

Result<void> post(Verbs& from, QueuePair& qp, const AddressHandle& ah, std::uint32_t qpn, std::uint32_t qkey,
                  std::size_t length) {
  const Sge sge = from.at(grh, length);
  return qp.post_send({.opcode = SendWr::Opcode::send_with_imm,
                       .sges = {&sge, 1},
                       .imm_data = qp.qp_num(),
                       .ah = &ah,
                       .remote_qp_num = qpn,
                       .remote_qkey = qkey});
}

TEST(RoceDatagrams, AServiceIsResolvedAndDatagramsGoBothWays) {
  Pair p;
  p.ask();
  ASSERT_TRUE(p.client_gets<cm::Established>());
  const auto& request = *p.server.last<cm::ConnectRequest>();
  EXPECT_EQ(request.private_data.size(), 180u);
  EXPECT_EQ(text_of(request.private_data), "ping");
  EXPECT_EQ(request.peer.octets, p.client.ip.octets);
  EXPECT_EQ(std::get<ib::Parameters>(request.offered).qp_type, QpType::ud);
  const auto& up = *p.client.last<cm::Established>();
  EXPECT_EQ(up.private_data.size(), 136u);
  EXPECT_EQ(text_of(up.private_data), "pong");
  EXPECT_EQ(up.ird, 0u);
  const auto& way = std::get<ib::Parameters>(up.parameters);
  EXPECT_EQ(way.qp_type, QpType::ud);
  EXPECT_EQ(way.qp_num, p.asked.qp()->qp_num());
  EXPECT_EQ(way.remote_qp_num, p.accepted.qp()->qp_num());
  EXPECT_EQ(way.remote_qkey, 0x01234567u);
  ASSERT_TRUE(way.ah);
  EXPECT_EQ(p.asked.qp()->state(), QpState::rts);

  const auto there = p.client.cm.device().create_ah(p.b.pd, *way.ah);
  ASSERT_TRUE(there);
  std::fill_n(p.b.memory.begin() + grh, 100, std::uint8_t{0x5A});
  ASSERT_TRUE(p.b.recv(*p.asked.qp(), 1000, 1000));
  ASSERT_TRUE(post(p.b, *p.asked.qp(), **there, way.remote_qp_num, way.remote_qkey, 100));
  ASSERT_TRUE(p.net.run_until([&] { return p.a.saw(WcOpcode::recv) && p.b.saw(WcOpcode::send); }));
  const WorkCompletion& got = p.a.done.front();
  EXPECT_EQ(got.byte_len, 100u + grh);
  EXPECT_EQ(got.src_qp, p.asked.qp()->qp_num());
  EXPECT_EQ(got.imm_data, p.asked.qp()->qp_num());
  EXPECT_TRUE(std::equal(p.a.memory.begin() + grh, p.a.memory.begin() + grh + 100, p.b.memory.begin() + grh));

  // The responder knows the way back, and the number by the datagram.
  ASSERT_NE(p.server.last<cm::Established>(), nullptr);
  const auto& own = std::get<ib::Parameters>(p.server.last<cm::Established>()->parameters);
  ASSERT_TRUE(own.ah);
  const auto back = p.server.cm.device().create_ah(p.a.pd, *own.ah);
  ASSERT_TRUE(back);
  ASSERT_TRUE(post(p.a, *p.accepted.qp(), **back, got.src_qp, 0x01234567, 100));
  EXPECT_TRUE(p.net.run_until([&] { return p.b.saw(WcOpcode::recv); }));
}

TEST(RoceDatagrams, TheQKeyOfTheListenersQueuePairIsTold) {
  Pair p;
  p.server.on_request = [&](cm::ConnectRequest& request) {
    QueuePair& qp = **request.id.create_qp(p.ud(p.a));
    EXPECT_TRUE(qp.modify({.qkey = 0x7654321U}));
    EXPECT_TRUE(request.id.accept());
  };
  p.ask();
  ASSERT_TRUE(p.client_gets<cm::Established>());
  EXPECT_EQ(std::get<ib::Parameters>(p.client.last<cm::Established>()->parameters).remote_qkey, 0x7654321U);
}

TEST(RoceDatagrams, EitherMessageMayBeLostOrComeTwice) {
  for (const std::string lost : {"SIDR_REQ", "SIDR_REP", "neither"}) {
    SCOPED_TRACE(lost);
    Pair p;
    p.net.fate = [&](const std::string& name, std::size_t nth) { return Net::Fate{name == lost && nth < 2 ? 0 : 2}; };
    p.ask();
    ASSERT_TRUE(p.client_gets<cm::Established>(2s));
    p.net.run_for(2s);
    EXPECT_EQ(p.server.all<cm::ConnectRequest>().size(), 1u);
    EXPECT_EQ(p.client.all<cm::Established>().size(), 1u);
    EXPECT_EQ(p.server.all<cm::Established>().size(), 1u);
  }
}

TEST(RoceDatagrams, TheProgramsNoComesWithItsPrivateData) {
  Pair p;
  p.server.on_request = [](cm::ConnectRequest& request) {
    const Bytes no = bytes("no");
    EXPECT_TRUE(request.id.reject(no));
  };
  p.ask();
  ASSERT_TRUE(p.client_gets<cm::Rejected>());
  const auto& rejected = *p.client.last<cm::Rejected>();
  EXPECT_EQ(rejected.private_data.size(), 136u);
  EXPECT_EQ(text_of(rejected.private_data), "no");
  EXPECT_EQ(rejected.why.code, Errc::rejected);
  EXPECT_EQ(rejected.why.received, "a SIDR_REP: rejected by the service (2)");
}

TEST(RoceDatagrams, AnUndecidedRequestThatIsDestroyedIsRejected) {
  Pair p;
  p.server.on_request = [](cm::ConnectRequest& request) { cm::Id(request.id).destroy(); };
  p.ask();
  EXPECT_TRUE(p.client_gets<cm::Rejected>(1s));
}

// TCP's and UDP's are two spaces of ports (IBA Annex A11).
TEST(RoceDatagrams, APortOfConnectionsServesNoDatagramsAndTheOtherWayRound) {
  Pair p;
  cm::ConnectOptions connection;
  ASSERT_TRUE(p.client.cm.connect(server_at, connection));
  ASSERT_TRUE(p.client_gets<cm::ConnectFailed>());
  EXPECT_EQ(p.client.last<cm::ConnectFailed>()->why.code, Errc::refused);

  const Address other = Address::v4(192, 0, 2, 1, 7175);
  ASSERT_TRUE(p.server.cm.listen(other));
  ASSERT_TRUE(p.net.run_until([&] { return p.server.all<cm::Listening>().size() == 2; }));
  p.client.events.clear();
  ASSERT_TRUE(p.client.cm.connect(other, p.options()));
  ASSERT_TRUE(p.client_gets<cm::ConnectFailed>());
  EXPECT_EQ(p.client.last<cm::ConnectFailed>()->why.code, Errc::refused);
  EXPECT_EQ(p.client.last<cm::ConnectFailed>()->why.received, "a SIDR_REP: service ID not supported (1)");

  // One port may serve both.
  ASSERT_TRUE(p.server.cm.listen(server_at));
  ASSERT_TRUE(p.net.run_until([&] { return p.server.all<cm::Listening>().size() == 3; }));
  p.server.on_request = [](cm::ConnectRequest& request) { EXPECT_TRUE(request.id.accept()); };
  ASSERT_TRUE(p.client.cm.connect(server_at, connection));
  ASSERT_TRUE(p.client.cm.connect(server_at, p.options()));
  EXPECT_TRUE(p.net.run_until([&] { return p.client.all<cm::Established>().size() == 2; }));
  p.listener.destroy();
  p.net.run_for(1ms);
  ASSERT_TRUE(p.client.cm.connect(server_at, connection));
  EXPECT_TRUE(p.net.run_until([&] { return p.client.all<cm::Established>().size() == 3; }));
}

TEST(RoceDatagrams, NobodyAnswers) {
  Pair p;
  p.net.fate = [](const std::string&, std::size_t) { return Net::Fate{0}; };
  cm::ConnectOptions options = p.options();
  options.transport = ib::Options{.reply_timeout = 3s, .qp_type = QpType::ud};
  const Instant begin = p.net.now;
  ASSERT_TRUE(p.client.cm.connect(server_at, options));
  ASSERT_TRUE(p.client_gets<cm::ConnectFailed>());
  EXPECT_EQ(p.client.last<cm::ConnectFailed>()->why.code, Errc::timed_out);
  EXPECT_NE(p.client.last<cm::ConnectFailed>()->why.received.find("no SIDR_REP"), std::string::npos)
      << p.client.last<cm::ConnectFailed>()->why.received;
  EXPECT_GE(p.net.now - begin, 3s);
  EXPECT_LE(p.net.now - begin, 4s);
}

TEST(RoceDatagrams, AFullListenerSaysSoAndIsAskedAgain) {
  Pair p({.pending_max = 1});
  std::vector<cm::Id> waiting;
  p.server.on_request = [&](cm::ConnectRequest& request) { waiting.push_back(request.id); };
  Host& others = p.net.add_host(3);
  for (int i = 0; i < 8; ++i) ASSERT_TRUE(others.cm.connect(server_at, {.transport = datagrams}));
  p.net.run_for(10ms);
  ASSERT_NE(p.server.last<cm::TurnedAway>(), nullptr);
  ASSERT_NE(others.last<cm::ConnectFailed>(), nullptr);
  EXPECT_EQ(others.last<cm::ConnectFailed>()->why.received, "a SIDR_REP: no queue pair available (3)");
  for (cm::Id id : waiting) id.destroy();
  p.server.on_request = [&](cm::ConnectRequest& request) { p.accept(request); };
  p.ask();
  EXPECT_TRUE(p.client_gets<cm::Established>());
}

TEST(RoceDatagrams, ARetryComesToAServiceThatIsLate) {
  Pair p;
  p.listener.destroy();
  p.net.run_for(1ms);
  cm::ConnectOptions options = p.options();
  options.retry = {.rounds = 5, .first = 100ms};
  ASSERT_TRUE(p.client.cm.connect(server_at, options));
  ASSERT_TRUE(p.client_gets<cm::Retrying>());
  ASSERT_TRUE(p.server.cm.listen(server_at, {.transport = datagrams}));
  EXPECT_TRUE(p.client_gets<cm::Established>());
}

TEST(RoceDatagrams, DisconnectEndsThisSideAlone) {
  Pair p;
  p.ask();
  ASSERT_TRUE(p.client_gets<cm::Established>());
  const std::size_t sent = p.net.sent.size();
  ASSERT_TRUE(p.asked.disconnect());
  ASSERT_TRUE(p.client_gets<cm::Disconnected>());
  EXPECT_TRUE(p.client.last<cm::Disconnected>()->graceful);
  EXPECT_EQ(p.asked.qp()->state(), QpState::err);
  p.net.run_for(60s);
  EXPECT_EQ(p.net.sent.size(), sent);
  EXPECT_EQ(p.client.last<cm::TimewaitExit>(), nullptr);
  EXPECT_EQ(p.server.last<cm::Disconnected>(), nullptr);
  EXPECT_EQ(p.accepted.qp()->state(), QpState::rts);
}

TEST(RoceDatagrams, WhatDoesNotFitIsRefusedAtTheCall) {
  Pair p;
  const auto refused = [&](cm::ConnectOptions options) { return p.client.cm.connect(server_at, options).error(); };
  cm::ConnectOptions options = p.options();
  options.qp = p.b.qp();  // RC
  EXPECT_EQ(refused(options), Errc::invalid_argument);
  options = p.options();
  options.transport = {};
  EXPECT_EQ(refused(options), Errc::invalid_argument);
  options.transport = ib::Options{.qp_type = raw_packet};
  EXPECT_EQ(refused(options), Errc::unsupported);
  options = p.options();
  const Bytes much(181);
  options.private_data = much;
  EXPECT_EQ(refused(options), Errc::bad_private_data);
  const auto not_served = [&p](QpType type) {
    return p.server.cm.listen(server_at, {.transport = ib::Options{.qp_type = type}}).error();
  };
  EXPECT_EQ(not_served(raw_packet), Errc::unsupported);
  EXPECT_EQ(not_served(QpType::xrc_ini), Errc::invalid_argument) << "who listens has XRC_TGT";
  options = p.options();
  options.transport = ib::Options{.qp_type = QpType::xrc_tgt};
  EXPECT_EQ(refused(options), Errc::invalid_argument) << "who connects has XRC_INI";
  p.server.on_request = [&](cm::ConnectRequest& request) {
    EXPECT_EQ(request.id.create_qp(p.a.qp()).error(), Errc::invalid_argument);
    EXPECT_EQ(request.id.accept({.transport = ib::Options{}}).error(), Errc::invalid_argument);
    EXPECT_EQ(request.id.accept({.private_data = Bytes(137)}).error(), Errc::bad_private_data);
    EXPECT_TRUE(request.id.accept({.transport = datagrams}));
  };
  p.ask();
  EXPECT_TRUE(p.client_gets<cm::Established>());
}

TEST(RoceDatagrams, NothingIsLeftOfThem) {
  Pair p;
  p.server.on_request = [](cm::ConnectRequest& request) { EXPECT_TRUE(request.id.accept()); };
  std::vector<cm::Id> ids;
  for (int i = 0; i < 50; ++i) ids.push_back(*p.client.cm.connect(server_at, {.transport = datagrams}));
  ASSERT_TRUE(p.net.run_until([&] { return p.client.all<cm::Established>().size() == ids.size(); }));
  for (cm::Id& id : ids) id.destroy();
  for (const auto* up : p.server.all<cm::Established>()) cm::Id(up->id).destroy();
  p.net.run_for(60s);
  EXPECT_EQ(p.client.provider->endpoint_count(), 0u);
  EXPECT_EQ(p.server.provider->endpoint_count(), 1u);  // the listener
  EXPECT_EQ(p.client.bound, 0u);
  EXPECT_EQ(p.server.bound, 1u);
}

// A host whose driver joins no groups says so.
TEST(RoceDatagrams, AGroupThatNobodyJoinsIsRefused) {
  Pair p;
  const auto qp = std::move(*p.client.cm.device().create_qp(p.ud(p.b)));
  const auto attached = roce::queue_pair(qp.get())->attach_multicast({0xFF, 0x0E});
  ASSERT_FALSE(attached);
  EXPECT_EQ(attached.error(), Errc::unsupported);
  EXPECT_EQ(attached.error().sentence(), "this host joins no multicast groups, so that nothing would arrive");
}

}  // namespace
}  // namespace parley::roce_datagrams_test
