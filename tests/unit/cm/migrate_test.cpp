// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Requests that one Manager announces and another accepts.
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "parley/trace.hpp"
#include "tests/unit/cm/test_pair.hpp"

namespace parley::testing_net {
namespace {

/// b listens and hands on; w works.
struct Moving : Pair {
  explicit Moving(const cm::ManagerOptions& worker = {}, const cm::IwarpProviderOptions& of_pair = {},
                  const cm::IwarpProviderOptions& of_worker = {})
      : Pair({}, of_pair), w(net.add_host(3, of_worker, worker)), vw(w.cm.device()) {}
  ~Moving() {
    for (Host* host : {&b, &w})
      for (auto* e : host->all<cm::ConnectRequest>()) e->id.destroy();
  }

  /// a connects, and b has the request.
  cm::ConnectRequest ask(ConstBytes private_data = {}, const mpa::Options& mpa = {.rtr = mpa::Rtr::read}) {
    if (!listener) to = listen(listening);
    connect(to, mpa, private_data);
    const std::size_t before = b.all<cm::ConnectRequest>().size();
    EXPECT_TRUE(net.run_until([&] { return b.all<cm::ConnectRequest>().size() > before; }));
    return *b.last<cm::ConnectRequest>();
  }
  cm::DetachedRequest detach(cm::ConnectRequest request) {
    auto out = b.cm.detach(std::move(request));
    EXPECT_TRUE(out) << out.error().message();
    return std::move(*out);
  }
  /// w takes it, with a queue pair and receives on vw.
  void take(cm::DetachedRequest migrant) {
    auto id = w.cm.adopt(std::move(migrant));
    ASSERT_TRUE(id) << id.error().message();
    cb = *id;
    auto qp = cb.create_qp(vw.qp());
    ASSERT_TRUE(qp) << qp.error().message();
    for (int i = 0; i < 4; ++i) ASSERT_TRUE(vw.recv(**qp, 4096 * static_cast<std::size_t>(i), 4096));
    ASSERT_TRUE(cb.accept());
  }
  template <class E>
  bool has(Host& host) {
    return host.last<E>() != nullptr;
  }

  Host& w;
  Verbs vw;
  Address to;
  cm::ListenOptions listening{};
};

struct Steps final : trace::Sink {
  void record(const trace::Record& record) override {
    if (record.local.port != 7471) return;  // the initiator's
    const std::string line = trace::to_text(record.event);
    if (line.starts_with("cm.state") || line.starts_with("mpa.frame")) text += line.substr(0, line.find(" rev")) + "\n";
  }
  std::string text;
};

bool says(const Error& error, std::string_view words) { return error.message().find(words) != std::string::npos; }

TEST(CmMigrate, AnotherManagerAcceptsAndMovesData) {
  Moving p;
  const Bytes hello = text("which worker is mine?");
  cm::ConnectRequest request = p.ask(hello);
  const cm::Id before = request.id;
  const Address peer = request.peer;
  cm::DetachedRequest migrant = p.detach(request);
  EXPECT_EQ(migrant.request().private_data, hello);
  EXPECT_EQ(migrant.request().peer, peer);
  EXPECT_FALSE(migrant.request().id);
  EXPECT_FALSE(migrant.request().listener);
  p.take(std::move(migrant));
  EXPECT_FALSE(before == p.cb) << "the id is of the other Manager";
  ASSERT_TRUE(p.net.run_until([&] { return p.has<cm::Established>(p.a) && p.has<cm::Established>(p.w); }));
  const auto* told = p.w.last<cm::ConnectRequest>();
  ASSERT_NE(told, nullptr);
  EXPECT_TRUE(told->id == p.cb);
  EXPECT_FALSE(told->listener);
  EXPECT_EQ(told->private_data, hello);
  EXPECT_EQ(told->peer, peer);
  ASSERT_NE(told->mpa(), nullptr);
  EXPECT_EQ(told->mpa()->revision, 2);
  EXPECT_EQ(p.w.last<cm::Established>()->mpa()->rtr, mpa::Rtr::read);
  EXPECT_EQ(*p.cb.peer_address(), peer);
  for (std::size_t i = 0; i < 3000; ++i) p.va.memory[32768 + i] = p.vw.memory[32768 + i] = static_cast<std::uint8_t>(i);
  ASSERT_TRUE(p.va.recv(*p.ca.qp(), 0, 3000));
  ASSERT_TRUE(p.va.send(*p.ca.qp(), 32768, 3000));
  ASSERT_TRUE(p.net.run_until([&] { return p.vw.saw(WcOpcode::recv); }));
  ASSERT_TRUE(p.vw.send(*p.cb.qp(), 32768, 3000));
  ASSERT_TRUE(p.net.run_until([&] { return p.va.saw(WcOpcode::recv); }));
  EXPECT_TRUE(std::equal(p.va.memory.begin(), p.va.memory.begin() + 3000, p.va.memory.begin() + 32768));
  EXPECT_TRUE(std::equal(p.vw.memory.begin(), p.vw.memory.begin() + 3000, p.vw.memory.begin() + 32768));
  ASSERT_TRUE(p.cb.disconnect());
  ASSERT_TRUE(p.net.run_until([&] { return p.has<cm::Disconnected>(p.a) && p.has<cm::Disconnected>(p.w); }));
  EXPECT_TRUE(p.a.last<cm::Disconnected>()->graceful);
  EXPECT_TRUE(p.w.last<cm::Disconnected>()->graceful);
}

TEST(CmMigrate, TheOldManagerHasNoIdAndNoEventOfItAnyMore) {
  Moving p;
  cm::ConnectRequest request = p.ask();
  cm::Id before = request.id;
  ASSERT_TRUE(p.b.cm.post_event(7, before));
  cm::DetachedRequest migrant = p.detach(request);
  EXPECT_EQ(p.b.provider->endpoint_count(), 1U) << "the listener";
  EXPECT_FALSE(before.peer_address());
  EXPECT_EQ(before.accept().error(), Errc::wrong_state);
  const std::size_t events = p.b.events.size();
  p.take(std::move(migrant));
  ASSERT_TRUE(p.net.run_until([&] { return p.has<cm::Established>(p.w); }));
  before.destroy();
  p.ca.destroy();
  ASSERT_TRUE(p.net.run_until([&] { return p.has<cm::Disconnected>(p.w); }));
  EXPECT_EQ(p.b.events.size(), events);
  EXPECT_FALSE(p.has<cm::UserEvent>(p.b));
  EXPECT_EQ(p.w.last<cm::Disconnected>()->why.code, make_error_code(Errc::peer_reset));
}

TEST(CmMigrate, ADestroyedMigrantResetsItsPeer) {
  Moving p;
  {
    const cm::DetachedRequest gone = p.detach(p.ask());
    p.net.settle();
    EXPECT_FALSE(p.has<cm::ConnectFailed>(p.a)) << "not before its end";
  }
  ASSERT_TRUE(p.net.run_until([&] { return p.has<cm::ConnectFailed>(p.a) || p.has<cm::Retrying>(p.a); }));
  const auto* retrying = p.a.last<cm::Retrying>();
  EXPECT_EQ(retrying != nullptr ? retrying->why.code : p.a.last<cm::ConnectFailed>()->why.code,
            make_error_code(Errc::peer_reset));
}

TEST(CmMigrate, OnlyARequestThatIsUndecidedAndBareMoves) {
  Moving p;
  cm::ConnectRequest request = p.ask();
  const auto refused = [&](std::string_view words) {
    const auto out = p.b.cm.detach(std::move(request));
    ASSERT_FALSE(out);
    EXPECT_EQ(out.error(), Errc::wrong_state) << out.error().message();
    EXPECT_TRUE(says(out.error(), words)) << out.error().message();
    EXPECT_TRUE(request.id) << "the request is as it was";
  };
  const auto foreign = p.w.cm.detach(std::move(request));
  ASSERT_FALSE(foreign);
  EXPECT_EQ(foreign.error(), Errc::invalid_argument);
  EXPECT_TRUE(says(foreign.error(), "another Manager's")) << foreign.error().message();
  ASSERT_TRUE(request.id.create_qp(p.vb.qp()));
  refused("has a queue pair");
  ASSERT_TRUE(request.id.accept());
  refused("was decided");
  ASSERT_TRUE(p.net.run_until([&] { return p.established(); }));
  refused("was decided");
  cm::Id id = request.id;
  id.destroy();
  refused("destroyed");
  EXPECT_EQ(p.b.cm.detach({}).error(), Errc::wrong_state);
}

TEST(CmMigrate, ARequestThatHasEndedDoesNotMove) {
  Moving p;
  cm::ConnectRequest request = p.ask();
  p.ca.destroy();
  ASSERT_TRUE(p.net.run_until([&] { return p.has<cm::ConnectFailed>(p.b); }));
  const auto out = p.b.cm.detach(std::move(request));
  ASSERT_FALSE(out);
  EXPECT_EQ(out.error(), Errc::wrong_state);
  EXPECT_TRUE(says(out.error(), "has ended")) << out.error().message();
}

TEST(CmMigrate, APeerThatGoesInBetweenFailsAtTheNewManager) {
  Moving p;
  cm::DetachedRequest migrant = p.detach(p.ask());
  p.ca.destroy();
  p.net.settle();
  auto id = p.w.cm.adopt(std::move(migrant));
  ASSERT_TRUE(id) << id.error().message();
  ASSERT_TRUE(p.net.run_until([&] { return p.has<cm::ConnectFailed>(p.w); }));
  const auto* failed = p.w.last<cm::ConnectFailed>();
  EXPECT_TRUE(failed->id == *id);
  EXPECT_TRUE(failed->responder);
  expect_text(failed->why, mpa::step::ulp_decision, Errc::peer_reset, "");
  EXPECT_EQ(id->accept().error(), Errc::wrong_state);
  EXPECT_FALSE(p.has<cm::ConnectFailed>(p.b));
}

TEST(CmMigrate, WhatComesInBetweenIsJudgedByTheNewManager) {
  Moving p;
  p.to = p.listen();
  End& raw = p.net.raw_connect(p.to);
  ASSERT_TRUE(p.net.run_until([&] { return raw.up; }));
  Bytes request = text("MPA ID Req Frame\x40\x01");  // RFC 5044 §7.1.1: CRC asked for, revision 1
  request.resize(20);
  raw.send(request);
  ASSERT_TRUE(p.net.run_until([&] { return p.has<cm::ConnectRequest>(p.b); }));
  cm::DetachedRequest migrant = p.detach(*p.b.last<cm::ConnectRequest>());
  raw.send(text("x"));  // before the Reply nothing may come
  p.net.settle();
  ASSERT_TRUE(p.w.cm.adopt(std::move(migrant)));
  ASSERT_TRUE(p.net.run_until([&] { return p.has<cm::ConnectFailed>(p.w); }));
  EXPECT_EQ(p.w.last<cm::ConnectFailed>()->why.code, make_error_code(Errc::extra_octets));
}

TEST(CmMigrate, TheClockOfTheSetUpGoesOn) {
  Moving p;
  cm::ConnectRequest request = p.ask();
  p.net.run_for(1s);
  cm::DetachedRequest migrant = p.detach(std::move(request));
  p.net.run_for(2s);
  auto id = p.w.cm.adopt(std::move(migrant));
  ASSERT_TRUE(id) << id.error().message();
  p.net.run_for(1s);
  ASSERT_TRUE(id->accept());
  ASSERT_TRUE(p.net.run_until([&] { return p.has<cm::Established>(p.w); }));
  EXPECT_GE(p.w.last<cm::Established>()->steps.decision, 4s) << "since its arrival, wherever it was";
  EXPECT_LE(p.w.last<cm::Established>()->steps.decision, 4100ms);
}

TEST(CmMigrate, TheListenersTimeLimitsHoldBehindAccept) {
  Moving p;
  p.listening.transport = mpa::Options{.timeouts = {.rtr = 2s}};
  p.to = p.listen(p.listening);
  End& raw = p.net.raw_connect(p.to);
  ASSERT_TRUE(p.net.run_until([&] { return raw.up; }));
  Bytes request = text("MPA ID Req Frame\x50\x02");  // RFC 6581 §6: revision 2 with IRD and ORD, and a Read as RTR
  request.insert(request.end(), {0, 4, 0x80, 8, 0x40, 8});
  raw.send(request);
  ASSERT_TRUE(p.net.run_until([&] { return p.has<cm::ConnectRequest>(p.b); }));
  auto id = p.w.cm.adopt(p.detach(*p.b.last<cm::ConnectRequest>()));
  ASSERT_TRUE(id);
  ASSERT_TRUE(id->accept());
  const Instant accepted = p.net.now;
  ASSERT_TRUE(p.net.run_until([&] { return p.has<cm::ConnectFailed>(p.w); }));
  EXPECT_EQ(p.w.last<cm::ConnectFailed>()->why.code, make_error_code(Errc::timed_out));
  EXPECT_EQ((p.net.now - accepted) / 100ms, 20) << "2 s";
}

TEST(CmMigrate, TheListenersPlaceIsFreeAndItsOptionsStay) {
  Moving p;
  p.listening.pending_max = 1;
  p.listening.ord = 3;
  cm::DetachedRequest first = p.detach(p.ask());
  cm::DetachedRequest second = p.detach(p.ask());
  EXPECT_FALSE(p.has<cm::TurnedAway>(p.b));
  p.listener.destroy();
  p.take(std::move(second));
  ASSERT_TRUE(p.net.run_until([&] { return p.has<cm::Established>(p.w); }));
  EXPECT_EQ(p.w.last<cm::Established>()->ord, 3);
}

TEST(CmMigrate, TheBoundsOfTheNewManagerHold) {
  Moving p({.endpoints_max = 3, .pending_max = 2});
  std::vector<cm::DetachedRequest> migrants;
  for (int i = 0; i < 4; ++i) migrants.push_back(p.detach(p.ask()));
  auto first = p.w.cm.adopt(std::move(migrants[0]));
  ASSERT_TRUE(first);
  ASSERT_TRUE(p.w.cm.adopt(std::move(migrants[1])));
  auto third = p.w.cm.adopt(std::move(migrants[2]));
  ASSERT_FALSE(third);
  EXPECT_EQ(third.error(), Errc::no_space);
  EXPECT_TRUE(says(third.error(), "2 adopted requests are pending")) << third.error().message();
  EXPECT_EQ(p.w.provider->endpoint_count(), 2U);
  ASSERT_TRUE(first->reject());
  p.net.settle();
  third = p.w.cm.adopt(std::move(migrants[2]));
  ASSERT_TRUE(third) << "it was still with the caller: " << third.error().message();
  const auto fourth = p.w.cm.adopt(std::move(migrants[3]));
  ASSERT_FALSE(fourth);
  EXPECT_TRUE(says(fourth.error(), "endpoints_max")) << fourth.error().message();
  EXPECT_TRUE(migrants[3]);
  ASSERT_TRUE(third->accept());
  ASSERT_TRUE(p.net.run_until([&] { return p.has<cm::Established>(p.w); }));
  const auto again = p.w.cm.adopt(std::move(migrants[2]));
  ASSERT_FALSE(again);
  EXPECT_TRUE(says(again.error(), "empty")) << again.error().message();
}

TEST(CmMigrate, EachTraceHasItsPart) {
  Steps before, after;
  Moving p({}, {.trace = &before}, {.trace = &after});
  cm::DetachedRequest migrant = p.detach(p.ask());
  EXPECT_EQ(before.text,
            "mpa.frame received Request\ncm.state from=startup to=deciding\ncm.state from=deciding to=moved\n");
  p.take(std::move(migrant));
  ASSERT_TRUE(p.net.run_until([&] { return p.has<cm::Established>(p.w); }));
  EXPECT_TRUE(before.text.ends_with("to=moved\n")) << before.text;
  EXPECT_EQ(after.text,
            "cm.state from=startup to=deciding\ncm.state from=deciding to=decided\ncm.state from=decided to=startup\n"
            "mpa.frame sent Reply\ncm.state from=startup to=open\n");
}

TEST(CmMigrate, ADriverWithoutMovableStreamsRefuses) {
  Moving p;
  cm::ConnectRequest request = p.ask();
  p.b.provider->set_mover(nullptr);
  const auto stays = p.b.cm.detach(std::move(request));
  ASSERT_FALSE(stays);
  EXPECT_EQ(stays.error(), Errc::unsupported);
  p.b.provider->set_mover(&p.b);
  cm::DetachedRequest migrant = p.detach(request);
  p.w.provider->set_mover(nullptr);
  const auto out = p.w.cm.adopt(std::move(migrant));
  ASSERT_FALSE(out);
  EXPECT_EQ(out.error(), Errc::unsupported);
  p.w.provider->set_mover(&p.w);
  p.take(std::move(migrant));
  EXPECT_TRUE(p.net.run_until([&] { return p.has<cm::Established>(p.w); }));
}

}  // namespace
}  // namespace parley::testing_net
