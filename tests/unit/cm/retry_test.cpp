// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Set-ups that are tried again: at once at the backup addresses, then all addresses again after a wait. First the
// decision alone (cm/retries.hpp), then whole connections.
#include "cm/retries.hpp"
#include "parley/wire/mpa.h"
#include "tests/unit/cm/test_pair.hpp"
#include "wire/mpa.hpp"

namespace parley::retry_test {
namespace {

using namespace testing_net;
using testing_net::Host;

Address at(std::uint8_t host) { return Address::v4(192, 0, 2, host, 7471); }

cm::Failure failure(Errc code, const cm::Step& step = mpa::step::tcp_connect) {
  return {.step = step, .code = make_error_code(code)};
}

TEST(CmRetries, WithoutAPlanTheFirstFailureIsFinal) {
  cm::Retries retries(1);
  retries.plan(1, at(2), {});
  EXPECT_FALSE(retries.has_plan(1));
  EXPECT_FALSE(retries.next(1, failure(Errc::refused), Instant{}));
}

TEST(CmRetries, BackupsComeInTurnAndAtOnceThenAllAgainAfterAWait) {
  cm::Retries retries(1);
  retries.plan(7, at(2), {.retry = {.rounds = 2, .first = 100ms}, .backups = {at(3), at(4)}});
  ASSERT_TRUE(retries.has_plan(7));
  std::vector<Address> peers;
  std::vector<bool> waits;
  while (const auto again = retries.next(7, failure(Errc::refused), Instant{})) {
    peers.push_back(again->peer);
    waits.push_back(again->wait > Duration{});
  }
  EXPECT_EQ(peers, (std::vector{at(3), at(4), at(2), at(3), at(4)}));
  EXPECT_EQ(waits, (std::vector{false, false, true, false, false}));
  retries.forget(7);
  EXPECT_EQ(retries.size(), 0U);
}

TEST(CmRetries, WaitsDoubleUpToTheCapAndAreSpreadOverTheirUpperHalf) {
  const Duration expected[] = {100ms, 200ms, 400ms, 800ms, 1s, 1s};
  std::array<std::set<Duration>, std::size(expected)> seen;
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    cm::Retries retries(seed);
    retries.plan(1, at(2), {.retry = {.rounds = 7, .first = 100ms, .cap = 1s}});
    ASSERT_TRUE(retries.has_plan(1));
    for (std::size_t i = 0; i < std::size(expected); ++i) {
      const auto again = retries.next(1, failure(Errc::timed_out), Instant{});
      ASSERT_TRUE(again);
      EXPECT_GE(again->wait, expected[i] / 2);
      EXPECT_LE(again->wait, expected[i]);
      seen[i].insert(again->wait);
    }
    EXPECT_FALSE(retries.next(1, failure(Errc::timed_out), Instant{}));
  }
  for (const auto& waits : seen) EXPECT_GT(waits.size(), 190U) << "peers would come back together";
}

TEST(CmRetries, TheLongestWaitThereIsDoesNotOverflow) {
  cm::Retries retries(1);
  retries.plan(1, at(2), {.retry = {.rounds = 5, .first = Duration::max(), .cap = Duration::max()}});
  ASSERT_TRUE(retries.has_plan(1));
  for (int i = 0; i < 4; ++i) {
    const auto again = retries.next(1, failure(Errc::refused), Instant{});
    ASSERT_TRUE(again);
    EXPECT_GE(again->wait, Duration::max() / 2);
  }
}

TEST(CmRetries, OnlyWhatMayPassIsTriedAgain) {
  for (const Errc code : {Errc::refused, Errc::unreachable, Errc::timed_out, Errc::peer_closed, Errc::peer_reset,
                          Errc::address_in_use, Errc::no_space})
    EXPECT_TRUE(cm::may_pass(failure(code, mpa::step::wait_reply))) << make_error_code(code).message();
  for (const Errc code : {Errc::bad_address, Errc::not_permitted, Errc::bad_key, Errc::bad_private_data,
                          Errc::no_matching_rtr, Errc::insufficient_ird, Errc::terminated, Errc::rejected,
                          Errc::invalid_argument, Errc::unsupported, Errc::cancelled})
    EXPECT_FALSE(cm::may_pass(failure(code, mpa::step::wait_reply))) << make_error_code(code).message();
  EXPECT_FALSE(cm::may_pass(failure(Errc::peer_reset, mpa::step::send_rtr))) << "the peer may have acted on it";
}

TEST(CmRetries, WhatKeptOneAddressFromOpeningSaysNothingOfTheNext) {
  for (const Errc code : {Errc::unsupported, Errc::not_permitted, Errc::bad_address}) {
    cm::Retries retries(1);
    retries.plan(1, at(2), {.retry = {.rounds = 3}, .backups = {at(3)}});
    ASSERT_TRUE(retries.has_plan(1));
    const auto again = retries.next(1, failure(code), Instant{});
    ASSERT_TRUE(again);
    EXPECT_EQ(again->peer, at(3));
    EXPECT_FALSE(retries.next(1, failure(code), Instant{})) << "and a second round would meet the same";
  }
}

TEST(CmRetries, NothingIsTriedThatCouldOnlyBeginWhenTheTimeForAllOfItIsOver) {
  const Instant start(1s);
  const auto attempts_within = [&](Duration timeout) {
    cm::Retries retries(1);
    retries.plan(1, at(2),
                 {.timeout = timeout, .retry = {.rounds = 10, .first = 100ms, .cap = 100ms}, .backups = {at(3)}});
    retries.begin(1, start);
    Instant now = start;
    while (const auto again = retries.next(1, failure(Errc::timed_out), now)) now += again->wait + 10ms;
    EXPECT_TRUE(timeout == Duration{} || timeout > 1s || now < start + timeout + 10ms) << "the last began in time";
    return retries.attempts(1);
  };
  EXPECT_EQ(attempts_within(0ns), 20U) << "no limit";
  EXPECT_EQ(attempts_within(Duration::max()), 20U);
  EXPECT_EQ(attempts_within(1ns), 1U + 1U) << "the backup follows at once, in the same instant";
  EXPECT_EQ(attempts_within(10ms), 2U);
  EXPECT_EQ(attempts_within(40ms), 2U) << "the second round would begin after 60 ms or more";
}

TEST(CmRetries, TheEarliestEndIsToldFirstAndEachOnce) {
  cm::Retries retries(1);
  for (const auto& [id, timeout] : {std::pair{1U, 3s}, std::pair{2U, 1s}, std::pair{3U, 2s}, std::pair{4U, 0s}}) {
    retries.plan(id, at(2), {.timeout = timeout, .retry = {.rounds = 2}});
    retries.begin(id, Instant{});
  }
  EXPECT_EQ(retries.timeout(3), 2s);
  EXPECT_EQ(retries.next_deadline(), Instant(1s));
  EXPECT_EQ(retries.pop_late(Instant(1s) - 1ns), std::nullopt);
  EXPECT_EQ(retries.pop_late(Instant(1s)), 2U);
  EXPECT_EQ(retries.pop_late(Instant(1s)), std::nullopt);
  retries.forget(3);
  EXPECT_EQ(retries.next_deadline(), Instant(3s)) << "a set-up that is over has no deadline";
  EXPECT_EQ(retries.pop_late(never - 1ns), 1U);
  EXPECT_EQ(retries.next_deadline(), never);
}

TEST(CmRetry, OptionsAreTakenUpToTheirBounds) {
  Net net;
  Host& a = net.add_host(1);
  const std::initializer_list<cm::ConnectOptions> all = {{.retry = {.rounds = 1}},
                                                         {.retry = {.rounds = 100, .first = 0ns, .cap = 0ns}},
                                                         {.backups = std::vector(16, at(3))},
                                                         {.backups = {Address::v4(192, 0, 2, 4, 1)}}};
  for (const cm::ConnectOptions& options : all) {
    const auto id = a.cm.connect(at(2), options);
    EXPECT_TRUE(id) << id.error().sentence();
  }
}

TEST(CmResolve, TheWayIsToldBeforeTheConnectionIsMade) {
  Net net;
  Host& a = net.add_host(1);
  Host& b = net.add_host(2);
  ASSERT_TRUE(b.cm.listen(Address::any(Address::Family::v4, 7471)));
  auto id = a.cm.resolve(at(2));
  ASSERT_TRUE(id);
  net.run_for(1s);
  const auto* way = a.last<cm::Resolved>();
  ASSERT_TRUE(way);
  EXPECT_EQ(way->id, *id);
  EXPECT_EQ(way->device, &a.cm.device());
  EXPECT_EQ(id->device(), &a.cm.device());
  EXPECT_EQ(id->peer_address().value(), at(2));
  EXPECT_EQ(way->reason, "there is one device, whose packets the system routes");

  EXPECT_EQ(id->connect({.ird = 60000}).error(), Errc::invalid_argument) << "and the way is still there";
  ASSERT_TRUE(id->connect({.ird = 3}));
  EXPECT_EQ(id->connect().error().sentence(),
            "only an id that was resolved, and not connected since, can be connected");
  net.run_for(1s);
  auto* request = b.last<cm::ConnectRequest>();
  ASSERT_TRUE(request);
  ASSERT_TRUE(request->id.accept());
  net.run_for(1s);
  const auto* up = a.last<cm::Established>();
  ASSERT_TRUE(up);
  EXPECT_EQ(up->id, *id);
  EXPECT_EQ(up->ird, 3);
  EXPECT_EQ(id->connect().error(), Errc::wrong_state);
}

TEST(CmResolve, AnIdThatOnlyWasResolvedIsForgottenAtOnce) {
  Net net;
  Host& a = net.add_host(1, {}, {.endpoints_max = 1});
  auto id = a.cm.resolve(at(2));
  ASSERT_TRUE(id);
  EXPECT_EQ(a.cm.resolve(at(2)).error(), Errc::no_space);
  id->destroy();
  EXPECT_FALSE(a.cm.poll_event()) << "no event of it after that";
  EXPECT_TRUE(a.cm.resolve(at(2)));
}

TEST(CmResolve, BadArgumentsAreNamed) {
  Net net;
  Host& a = net.add_host(1);
  const auto refusal = [&](const Address& peer, const cm::ResolveOptions& options) {
    const auto id = a.cm.resolve(peer, options);
    return id ? std::string("accepted") : id.error().sentence();
  };
  EXPECT_EQ(refusal(Address::v4(192, 0, 2, 2, 0), {}), "the peer's port is 0; must be 1 to 65535");
  EXPECT_EQ(refusal(at(2), {.timeout = -1ns}), "ResolveOptions::timeout is -1 ns; must be at least 0");
  EXPECT_EQ(refusal(at(2), {.local = Address::any(Address::Family::v6, 0)}),
            "ResolveOptions::local is of IP version 6, and the peer of version 4");
  EXPECT_EQ(cm::Id().connect().error(), Errc::wrong_state);
}

TEST(CmRetry, BadOptionsAreNamed) {
  Net net;
  Host& a = net.add_host(1);
  const auto refusal = [&](const cm::ConnectOptions& options) {
    const auto id = a.cm.connect(at(2), options);
    return id ? std::string("accepted") : id.error().sentence();
  };
  EXPECT_EQ(refusal({.retry = {.rounds = 0}}), "ConnectOptions::retry.rounds is 0; must be 1 to 100");
  EXPECT_EQ(refusal({.retry = {.rounds = 101}}), "ConnectOptions::retry.rounds is 101; must be 1 to 100");
  EXPECT_EQ(refusal({.retry = {.first = -1ns}}), "ConnectOptions::retry.first is -1 ns; must be at least 0");
  EXPECT_EQ(refusal({.retry = {.first = 2ns, .cap = 1ns}}),
            "ConnectOptions::retry.cap is 1 ns; must be at least retry.first, 2 ns");
  EXPECT_EQ(refusal({.timeout = -1ns}), "ConnectOptions::timeout is -1 ns; must be at least 0");
  EXPECT_EQ(refusal({.backups = std::vector(17, at(3))}), "ConnectOptions::backups has 17 addresses; at most 16");
  EXPECT_EQ(refusal({.backups = {at(3), Address::v4(192, 0, 2, 4, 0)}}),
            "ConnectOptions::backups[1] has port 0; it is 1 to 65535");
  EXPECT_EQ(refusal({.local = at(1), .backups = {Address::any(Address::Family::v6, 7471)}}),
            "ConnectOptions::backups[0] is of another IP version than ConnectOptions::local");
  EXPECT_EQ(a.provider->endpoint_count(), 0U);
}

TEST(CmRetry, FailsOverToABackupUnderTheSameId) {
  Pair p;
  const Address to = p.listen();
  p.accept_all();
  auto id =
      p.a.cm.connect(at(77), {.transport = mpa::Options{.rtr = mpa::Rtr::read}, .qp = p.va.qp(), .backups = {to}});
  ASSERT_TRUE(id);
  p.ca = *id;
  QueuePair* const qp = p.ca.qp();
  ASSERT_TRUE(p.net.run_until([&] { return p.established(); }));
  ASSERT_EQ(p.a.all<cm::Retrying>().size(), 1U);
  const cm::Retrying& told = *p.a.last<cm::Retrying>();
  expect_text(told.why, mpa::step::tcp_connect, Errc::refused, "192.0.2.77:7471");
  EXPECT_EQ(told.failed, at(77));
  EXPECT_EQ(told.peer, to);
  EXPECT_EQ(told.wait, Duration{});
  EXPECT_EQ(p.a.last<cm::Established>()->id, p.ca);
  EXPECT_EQ(p.ca.qp(), qp) << "what was posted on it stays posted";
  EXPECT_EQ(*p.ca.peer_address(), to);
  p.exchange();
}

TEST(CmRetry, ComesBackAfterTheWaitWhenTheListenerIsThere) {
  Pair p;
  auto id = p.a.cm.connect(at(2), {.qp = p.va.qp(), .retry = {.rounds = 3, .first = 1s}});
  ASSERT_TRUE(id);
  p.ca = *id;
  p.net.settle();
  ASSERT_EQ(p.a.all<cm::Retrying>().size(), 1U);
  EXPECT_EQ(p.a.all<cm::ConnectFailed>().size(), 0U);
  const Duration wait = p.a.last<cm::Retrying>()->wait;
  const Instant failed = p.net.now;
  (void)p.listen();
  p.accept_all();
  ASSERT_TRUE(p.net.run_until([&] { return p.a.last<cm::Established>() != nullptr; }));
  EXPECT_GE(p.net.now - failed, wait - 1ms);
  EXPECT_LT(p.net.now - failed, wait + 100ms);
}

TEST(CmRetry, TheLastFailureIsReportedAndNothingIsLeft) {
  Net net;
  Host& a = net.add_host(1);
  auto id = a.cm.connect(at(77), {.retry = {.rounds = 3, .first = 10ms}, .backups = {at(78)}});
  ASSERT_TRUE(id);
  ASSERT_TRUE(net.run_until([&] { return a.last<cm::ConnectFailed>() != nullptr; }));
  EXPECT_EQ(a.all<cm::Retrying>().size(), 5U);
  expect_text(a.last<cm::ConnectFailed>()->why, mpa::step::tcp_connect, Errc::refused, "192.0.2.78:7471");
  id->destroy();
  EXPECT_EQ(a.provider->endpoint_count(), 0U);
}

TEST(CmRetry, DestroyDuringTheWaitEndsIt) {
  Net net;
  Host& a = net.add_host(1);
  auto id = a.cm.connect(at(77), {.retry = {.rounds = 9, .first = 1s}});
  ASSERT_TRUE(id);
  net.settle();
  ASSERT_EQ(a.all<cm::Retrying>().size(), 1U);
  id->destroy();
  EXPECT_EQ(a.provider->endpoint_count(), 0U);
  EXPECT_EQ(a.provider->next_deadline(), never);
}

// RFC 6581 §10: the fall-back to revision 1 is for one peer; the next address is asked with what the user wanted.
TEST(CmRetry, ABackupIsAskedWithTheOptionsOfTheUser) {
  Net net;
  Host& a = net.add_host(1);
  const Address first = net.add_raw(9), second = net.add_raw(10);
  ASSERT_TRUE(a.cm.connect(first, {.backups = {second}}));
  for (const int revision : {2, 1, 2}) {
    const std::size_t connection = net.raw_accepted.size();
    ASSERT_TRUE(net.run_until([&] {
      return net.raw_accepted.size() > connection && net.raw_accepted[connection]->in.size() >= PARLEY_MPA_HEADER_LEN;
    }));
    EXPECT_EQ(net.raw_accepted[connection]->in[PARLEY_MPA_REV_OFF], revision);
    net.raw_accepted[connection]->rst();
  }
  EXPECT_EQ(net.raw_accepted.size(), 3U);
}

// OFA 2007-10 Rtr §2: what was learnt of a peer that echoes S holds wherever the user asks for it.
TEST(CmRetry, ABackupThatEchoesSIsRemembered) {
  Net net;
  Host& a = net.add_host(1);
  const Address echoing = net.add_raw(9);
  const auto requested = [&](std::size_t connection) {
    EXPECT_TRUE(net.run_until([&] {
      return net.raw_accepted.size() > connection && net.raw_accepted[connection]->in.size() >= PARLEY_MPA_HEADER_LEN;
    }));
    return net.raw_accepted.at(connection);
  };
  const mpa::Options framed{.revision = 1, .rtr = mpa::Rtr::frame};
  ASSERT_TRUE(a.cm.connect(echoing, {.transport = framed}));
  End* raw = requested(0);
  EXPECT_EQ(raw->in[PARLEY_MPA_FLAGS_OFF], PARLEY_MPA_FLAG_C | PARLEY_MPA_FLAG_S);
  raw->send(
      *wire::MpaFrame{.key = wire::MpaKey::rep, .flags = PARLEY_MPA_FLAG_C | PARLEY_MPA_FLAG_S, .revision = 1}.emit());
  ASSERT_TRUE(net.run_until([&] { return raw->in.size() == 2 * PARLEY_MPA_HEADER_LEN; }));
  raw->rst();
  EXPECT_EQ(requested(1)->in[PARLEY_MPA_FLAGS_OFF], PARLEY_MPA_FLAG_C);
  ASSERT_TRUE(a.cm.connect(at(77), {.transport = framed, .backups = {echoing}}));
  EXPECT_EQ(requested(2)->in[PARLEY_MPA_FLAGS_OFF], PARLEY_MPA_FLAG_C);
  for (const cm::Retrying* told : a.all<cm::Retrying>()) {
    const Address tried = told->failed.octets == echoing.octets ? echoing : at(77);
    EXPECT_EQ(told->failed, tried);
    EXPECT_EQ(told->peer, echoing) << told->why.to_string();
  }
}

TEST(CmRetry, ThePortOfTheStreamBeforeIsGone) {
  Net net;
  Host& a = net.add_host(1);
  const Address mute = net.add_raw(9);
  auto id = a.cm.connect(mute, {.local = Address::v4(192, 0, 2, 1, 0), .retry = {.rounds = 2, .first = 1s}});
  ASSERT_TRUE(id);
  ASSERT_TRUE(net.run_until([&] { return !net.raw_accepted.empty(); }));
  net.settle();
  EXPECT_NE(id->local_address()->port, 0);
  for (std::size_t i = 0; i < 2; ++i) {  // revision 2, then 1
    net.raw_accepted.at(i)->rst();
    net.settle();
  }
  ASSERT_GT(a.last<cm::Retrying>()->wait, Duration{});
  EXPECT_EQ(id->local_address().error(), Errc::wrong_state);
}

TEST(CmRetry, WhatIsOverHasNoTimeLimitAnyMore) {
  Pair p;
  const Address to = p.listen();
  p.b.on_request = [](cm::ConnectRequest& request) { ASSERT_TRUE(request.id.reject()); };
  auto id = p.a.cm.connect(to, {.timeout = 60s});
  ASSERT_TRUE(id);
  p.ca = *id;
  ASSERT_TRUE(p.net.run_until([&] { return p.a.last<cm::Rejected>() != nullptr; }));
  p.net.settle();
  EXPECT_EQ(p.a.provider->next_deadline(), never);
}

TEST(CmRetry, APeerThatEchoesSIsNotTriedAgainWhenTheTimeIsOver) {
  Net net;
  Host& a = net.add_host(1);
  const Address echoing = net.add_raw(9);
  auto id = a.cm.connect(echoing, {.transport = mpa::Options{.revision = 1, .rtr = mpa::Rtr::frame}, .timeout = 30ms});
  ASSERT_TRUE(id);
  ASSERT_TRUE(net.run_until(
      [&] { return !net.raw_accepted.empty() && net.raw_accepted[0]->in.size() == PARLEY_MPA_HEADER_LEN; }));
  End* raw = net.raw_accepted[0];
  net.run_for(25ms);
  raw->send(
      *wire::MpaFrame{.key = wire::MpaKey::rep, .flags = PARLEY_MPA_FLAG_C | PARLEY_MPA_FLAG_S, .revision = 1}.emit());
  ASSERT_TRUE(net.run_until([&] { return raw->in.size() == 2 * PARLEY_MPA_HEADER_LEN; }));
  net.run_for(10ms);
  raw->rst();
  ASSERT_TRUE(net.run_until([&] { return a.last<cm::ConnectFailed>() != nullptr; }));
  EXPECT_EQ(net.raw_accepted.size(), 1U) << "no other connection is opened";
  EXPECT_EQ(a.last<cm::ConnectFailed>()->why.received, "not established within 30 ms in all");
}

TEST(CmRetry, ARejectionIsFinal) {
  Pair p;
  const Address to = p.listen();
  p.b.on_request = [](cm::ConnectRequest& request) { ASSERT_TRUE(request.id.reject()); };
  auto id = p.a.cm.connect(to, {.retry = {.rounds = 3}, .backups = {at(77)}});
  ASSERT_TRUE(id);
  p.ca = *id;
  ASSERT_TRUE(p.net.run_until([&] { return p.a.last<cm::Rejected>() != nullptr; }));
  EXPECT_EQ(p.a.last<cm::Retrying>(), nullptr);
}

TEST(CmRetry, ABrokenRuleIsFinal) {
  Net net;
  Host& a = net.add_host(1);
  const Address peer = net.add_raw(9);
  ASSERT_TRUE(a.cm.connect(peer, {.retry = {.rounds = 3}}));
  ASSERT_TRUE(net.run_until([&] { return !net.raw_accepted.empty(); }));
  net.raw_accepted[0]->send(Bytes(20, 0x58));
  ASSERT_TRUE(net.run_until([&] { return a.last<cm::ConnectFailed>() != nullptr; }));
  expect_text(a.last<cm::ConnectFailed>()->why, mpa::step::wait_reply, Errc::bad_key, "192.0.2.9:7471");
  EXPECT_EQ(a.last<cm::Retrying>(), nullptr);
}

TEST(CmRetry, AnotherTransportsOptionsAreRefused) {
  Pair p;
  const Address to = p.listen();
  const auto connected = p.a.cm.connect(to, {.transport = ib::Options{}});
  ASSERT_FALSE(connected);
  EXPECT_EQ(connected.error(), Errc::unsupported);
  EXPECT_NE(connected.error().sentence().find("this provider speaks MPA"), std::string::npos);
  EXPECT_EQ(p.b.cm.listen(at(2), {.transport = ib::Options{}}).error(), Errc::unsupported);
  p.b.on_request = [](cm::ConnectRequest& request) {
    EXPECT_EQ(request.id.accept({.transport = ib::Options{}}).error(), Errc::unsupported);
    EXPECT_TRUE(request.id.accept());
  };
  p.connect(to, {});
  EXPECT_TRUE(p.net.run_until([&] { return p.a.last<cm::Established>() != nullptr; }));
}

}  // namespace
}  // namespace parley::retry_test
