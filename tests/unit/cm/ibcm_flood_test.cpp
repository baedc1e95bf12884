// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// More requests than there is room for, from honest and from made-up peers: memory stays bounded, honest peers are served, and who
// finds no room is told when to come again.
#include "cm/ibcm/busy.hpp"
#include "tests/unit/cm/ibcm_kit.hpp"

namespace parley::cm::ibcm::flood_test {
namespace {
using namespace kit;

/// A REQ of a made-up peer, whose REP goes nowhere.
void spoof(Net& net, Node& at, std::uint8_t from, std::uint32_t number) {
  CmReq m{.local_comm_id = 0x10000 + number,
          .service_id = service,
          .local_ca_guid = 0xBAD0000000000000 + from,
          .local_qpn = 0x100 + number,
          .local_cm_response_timeout = 31,
          .path_mtu = 3,
          .max_cm_retries = 15};
  m.primary = Path::roce(gid(from), gid(at.number)).primary;
  std::array<std::uint8_t, PARLEY_IB_MAD_LEN> octets{};
  CmMessage{.transaction_id = number, .body = m}.emit(octets);
  at.agent.handle_mad(net.now, {.source = gid(from), .destination = gid(at.number)}, octets);
}

TEST(IbcmFlood, HonestPeersAreServedBesideHalfOpenOnes) {
  Pair t({}, {.timers = back_off(), .remembered_max = 100}, {.pending_max = 64});
  t.net.logs = false;
  for (std::uint32_t i = 0; i < 5000; ++i) {
    spoof(t.net, t.passive, static_cast<std::uint8_t>(100 + i % 20), i);
    t.net.settle();
    if (i % 100 == 0) {
      (void)t.connect(request(1, 2, 0x1000 + i));
      t.net.run_for(100us);
    }
  }
  t.net.run_for(1ms);
  EXPECT_EQ(t.active.all<ReplyReceived>().size(), 50U);
  EXPECT_EQ(t.passive.all<Ready>().size(), 50U);
  EXPECT_TRUE(t.active.all<Failed>().empty() && t.active.all<Rejected>().empty());
  // The user has not destroyed any id; without that nothing but these would be left.
  for (const Failed& failed : t.passive.all<Failed>()) t.passive.agent.destroy(t.net.now, failed.id);
  EXPECT_LE(t.passive.agent.connection_count(), 50U + 64U + 8U + 50U);
  EXPECT_LE(t.passive.agent.remembered_count(), 50U);
  ASSERT_FALSE(t.passive.all<TurnedAway>().empty());
  EXPECT_NE(t.passive.last<Failed>()->why.to_string().find("ListenOptions::pending_max"), std::string::npos);
}

// IBA §12.9: an MRA, for which nothing is kept here.
TEST(IbcmFlood, FullListenerAsksForTime) {
  Pair t({.timers = back_off()}, {}, {.pending_max = 2, .busy_timeout = 14});
  t.passive.accepts = false;
  for (std::uint32_t i = 0; i < 4; ++i) (void)t.connect(request(1, 2, 0x100 + i));
  t.net.run_for(1ms);
  EXPECT_EQ(t.passive.all<RequestReceived>().size(), 2U);
  EXPECT_EQ(t.net.sent(CmMessageType::mra), 2U);
  EXPECT_EQ(t.active.all<Waiting>().size(), 2U);
  ASSERT_EQ(t.passive.all<TurnedAway>().size(), 2U);
  EXPECT_EQ(t.passive.last<TurnedAway>()->busy, 1U);
  EXPECT_EQ(t.passive.last<TurnedAway>()->peer, gid(1));
  EXPECT_EQ(t.passive.agent.connection_count(), 2U);
  for (const RequestReceived& asked : t.passive.all<RequestReceived>()) {
    ASSERT_TRUE(t.passive.agent.accept(t.net.now, asked.id, {.qpn = t.passive.next_qpn++}));
  }
  t.passive.accepts = true;
  t.net.run_for(3s);
  EXPECT_EQ(t.passive.all<Ready>().size(), 4U);
  EXPECT_TRUE(t.active.all<Failed>().empty());
}

TEST(IbcmFlood, NewsOfManyIsOneEvent) {
  Pair t({}, {}, {.pending_max = 8});
  for (std::uint32_t i = 0; i < 1000; ++i) spoof(t.net, t.passive, 9, i);
  t.net.settle();
  ASSERT_EQ(t.passive.all<TurnedAway>().size(), 1U);
  EXPECT_EQ(t.passive.last<TurnedAway>()->service_id, service);
  EXPECT_EQ(t.passive.last<TurnedAway>()->busy, 992U);
  EXPECT_EQ(t.passive.last<TurnedAway>()->peer, gid(9));
}

TEST(IbcmFlood, FullListenerTellsPeersThatUnderstandWhenToComeAgain) {
  Pair t({}, {}, {.pending_max = 1, .when_full = OverloadAction::reject, .retry_after = 40ms});
  t.passive.accepts = false;
  const Bytes data(84, 0x33);
  for (std::uint32_t i = 0; i < 2; ++i) {
    ConnectParameters p = request(1, 2, 0x100 + i);
    p.private_data = data;
    p.offer_retry_after = true;
    t.a = t.connect(p);
  }
  t.net.run_for(1ms);
  ASSERT_EQ(t.passive.all<RequestReceived>().size(), 1U);
  const auto seen = t.passive.last<RequestReceived>()->request.private_data;
  EXPECT_EQ(seen[83], 0x33);
  EXPECT_EQ(seen[84], 0) << "the marker is not the user's";
  ASSERT_EQ(t.active.all<Waiting>().size(), 1U);
  EXPECT_TRUE(t.active.last<Waiting>()->busy);
  const Duration wait = t.active.last<Waiting>()->until - t0;
  EXPECT_GE(wait, 40ms);
  EXPECT_LE(wait, 60ms + 1ms);
  EXPECT_EQ(t.active.agent.state(t.a), State::mra_req_rcvd);
  ASSERT_TRUE(t.passive.agent.accept(t.net.now, t.passive.last<RequestReceived>()->id, {.qpn = 0x500}));
  t.passive.accepts = true;
  t.net.run_for(100ms);
  EXPECT_EQ(t.passive.all<Ready>().size(), 2U);
  EXPECT_TRUE(t.active.all<Rejected>().empty());
  const auto consumer = static_cast<std::size_t>(CmReject::consumer);
  EXPECT_EQ(t.passive.agent.counters().retry_after.sent, t.active.agent.counters().retry_after.received);
  EXPECT_GE(t.passive.agent.counters().retry_after.sent, 1U);
  EXPECT_EQ(t.passive.agent.counters().rejects[consumer].sent, 0U) << "no program has said no";
}

TEST(IbcmFlood, OthersGetAnMraEvenThere) {
  Pair t({}, {}, {.pending_max = 1, .when_full = OverloadAction::reject});
  t.passive.accepts = false;
  (void)t.connect(request(1, 2, 0x100));
  (void)t.connect(request(1, 2, 0x101));
  t.net.run_for(1ms);
  EXPECT_EQ(t.net.sent(CmMessageType::mra), 1U);
  EXPECT_EQ(t.net.sent(CmMessageType::rej), 0U);
}

TEST(IbcmFlood, AListenerThatDoesNotRejectSendsAnMraToThoseThatOfferedRetryAfterToo) {
  Pair t({}, {}, {.pending_max = 1});
  t.passive.accepts = false;
  for (std::uint32_t i = 0; i < 2; ++i) {
    ConnectParameters p = request(1, 2, 0x100 + i);
    p.offer_retry_after = true;
    (void)t.connect(p);
  }
  t.net.run_for(1ms);
  EXPECT_EQ(t.net.sent(CmMessageType::mra), 1U);
  EXPECT_EQ(t.net.sent(CmMessageType::rej), 0U);
}

TEST(IbcmFlood, WhatGivesWayToANewcomerIsInTimewait) {
  Pair t({}, {}, {.pending_max = 2});
  for (std::uint32_t i = 0; i < 2; ++i) spoof(t.net, t.passive, 9, i);
  t.net.settle();
  (void)t.connect();
  t.net.run_for(1ms);
  ASSERT_EQ(t.passive.all<Failed>().size(), 1U);
  EXPECT_TRUE(t.passive.last<Failed>()->timewait);
  EXPECT_EQ(t.passive.agent.state(t.passive.last<Failed>()->id), State::timewait);
  EXPECT_EQ(t.passive.all<Ready>().size(), 1U);
}

TEST(IbcmFlood, ListenerMayBeSilentAsLinux) {
  Pair t({}, {}, {.pending_max = 1, .when_full = OverloadAction::drop});
  t.passive.accepts = false;
  (void)t.connect(request(1, 2, 0x100));
  (void)t.connect(request(1, 2, 0x101));
  t.net.run_for(1ms);
  EXPECT_EQ(t.net.log.size(), 2U);
  EXPECT_EQ(t.passive.last<TurnedAway>()->dropped, 1U);
  EXPECT_EQ(t.passive.agent.counters().dropped_requests, 1U);
}

// IBA §12.6.5: a REQ goes once, and again as often as it announces.
TEST(IbcmFlood, ListenerThatIsFullForEverIsLeftInTheEnd) {
  Pair t({}, {}, {.pending_max = 1, .when_full = OverloadAction::reject, .retry_after = 1ms});
  t.passive.accepts = false;
  (void)t.connect();
  ConnectParameters p = request(1, 2, 0x101);
  p.offer_retry_after = true;
  t.a = t.connect(p);
  t.net.run_for(1s);
  EXPECT_EQ(t.active.all<Waiting>().size(), 15U);
  EXPECT_EQ(t.net.sent(CmMessageType::req), 1U + 16U);
  EXPECT_EQ(t.active.count<Rejected>(t.a), 1U);
}

// What waited at a listener that is gone takes no place at the next one, and gives none back.
TEST(IbcmFlood, NewListenerCountsItsOwn) {
  Pair t({}, {}, {.pending_max = 1});
  t.passive.accepts = false;
  (void)t.connect(request(1, 2, 0x100));
  t.net.run_for(1ms);
  t.passive.agent.unlisten(service);
  ASSERT_TRUE(t.passive.agent.listen(service, {.pending_max = 1}));
  (void)t.connect(request(1, 2, 0x101));
  t.net.run_for(1ms);
  ASSERT_EQ(t.passive.all<RequestReceived>().size(), 2U);
  ASSERT_TRUE(t.passive.agent.reject(t.net.now, t.passive.all<RequestReceived>()[0].id, {}));
  (void)t.connect(request(1, 2, 0x102));
  t.net.run_for(1ms);
  EXPECT_EQ(t.passive.all<RequestReceived>().size(), 2U) << "the second still waits";
}

// A stranger's REJ 28 with the same octets means no to whoever did not offer anything.
TEST(IbcmFlood, RetryAfterIsForThoseWhoOfferedIt) {
  Pair t;
  t.passive.accepts = false;
  Bytes data(148);
  busy::put_retry_after(data, 50ms);
  t.a = t.connect();
  t.net.run_for(1ms);
  ASSERT_TRUE(t.passive.agent.reject(t.net.now, t.passive.last<RequestReceived>()->id, {.private_data = data}));
  t.net.run_for(1ms);
  EXPECT_EQ(t.active.count<Rejected>(t.a), 1U);
}

TEST(IbcmFlood, MarkerIsVersionedAndNothingElse) {
  Bytes data(92, 0);
  EXPECT_FALSE(busy::has_offer(data));
  busy::put_offer(data);
  EXPECT_TRUE(busy::has_offer(data));
  EXPECT_FALSE(busy::retry_after_of(data));
  EXPECT_EQ(Bytes(data.end() - 8, data.end()), (Bytes{0x50, 0x59, 0xB5, 0x1E, 1, 1, 0, 0}));
  data[88] = 2;
  EXPECT_FALSE(busy::has_offer(data)) << "another version";
  busy::put_retry_after(data, 1234ms);
  EXPECT_EQ(Bytes(data.end() - 8, data.end()), (Bytes{0x50, 0x59, 0xB5, 0x1E, 1, 2, 0x04, 0xD2}));
  EXPECT_EQ(*busy::retry_after_of(data), 1234ms);
  busy::put_retry_after(data, 1h);
  EXPECT_EQ(*busy::retry_after_of(data), busy::retry_after_max);
  busy::put_retry_after(data, 0ms);
  EXPECT_EQ(*busy::retry_after_of(data), 1ms);
  busy::strip(data);
  EXPECT_EQ(data, Bytes(92, 0));
  EXPECT_FALSE(busy::retry_after_of(Bytes(7)));
}

TEST(IbcmFlood, MarkerNeedsItsRoom) {
  Pair t;
  ConnectParameters p = request(1, 2);
  const Bytes data(85);
  p.private_data = data;
  p.offer_retry_after = true;
  EXPECT_EQ(t.active.agent.connect(t.net.now, p).error(), Errc::bad_private_data);
}

TEST(IbcmFlood, WhatNobodyFetchesIsLostAndCounted) {
  Pair t({}, {.transmit_max = 10});
  for (std::uint32_t i = 0; i < 100; ++i) spoof(t.net, t.passive, 9, i);
  CmDreq dreq{.local_comm_id = 1, .remote_comm_id = 2};
  std::array<std::uint8_t, PARLEY_IB_MAD_LEN> octets{};
  CmMessage{.body = dreq}.emit(octets);
  for (int i = 0; i < 100; ++i)
    t.passive.agent.handle_mad(t.net.now, {.source = gid(9), .destination = gid(2)}, octets);
  EXPECT_EQ(t.passive.agent.counters().dropped_transmit, 90U);
  MadTo to;
  Bytes out(PARLEY_IB_MAD_LEN);
  int n = 0;
  while (t.passive.agent.poll_transmit(to, out)) ++n;
  EXPECT_EQ(n, 10);
}

// Connections that are remembered are bounded too; those that never were established push out their own kind only.
TEST(IbcmFlood, RememberedConnectionsAreBounded) {
  Pair t({}, {.remembered_max = 20});
  t.establish();
  ASSERT_TRUE(t.active.agent.disconnect(t.net.now, t.a));
  t.net.run_for(1ms);
  t.net.logs = false;
  t.passive.accepts = false;
  t.passive.on_event = [&](Instant now, const Event& event) {
    if (const auto* asked = std::get_if<RequestReceived>(&event)) t.passive.agent.destroy(now, asked->id);
  };
  for (std::uint32_t i = 0; i < 500; ++i) {
    spoof(t.net, t.passive, 9, i);
    t.net.settle();
  }
  EXPECT_EQ(t.passive.agent.state(t.b), State::timewait);
  EXPECT_EQ(t.passive.agent.remembered_count(), 11U);
  EXPECT_EQ(t.passive.agent.connection_count(), 11U);
  EXPECT_EQ(t.passive.agent.counters().forgotten, 490U);
}

TEST(IbcmFlood, TimewaitThatIsCutShortSaysSo) {
  Pair t({.remembered_max = 4});
  std::vector<ConnectionId> ids;
  for (std::uint32_t i = 0; i < 3; ++i) {
    ids.push_back(t.connect(request(1, 2, 0x100 + i)));
    t.net.run_for(1ms);
    ASSERT_TRUE(t.active.agent.disconnect(t.net.now, ids.back()));
    t.net.run_for(1ms);
  }
  ASSERT_EQ(t.active.all<TimewaitExit>().size(), 1U);
  EXPECT_EQ(t.active.last<TimewaitExit>()->id, ids[0]);
  EXPECT_TRUE(t.active.last<TimewaitExit>()->early);
}

TEST(IbcmFlood, IdsAndListenersAreBounded) {
  Pair t({.connections_max = 2, .listeners_max = 1});
  (void)t.connect(request(1, 2, 1));
  (void)t.connect(request(1, 2, 2));
  EXPECT_EQ(t.active.agent.connect(t.net.now, request(1, 2, 3)).error(), Errc::no_space);
  ASSERT_TRUE(t.active.agent.listen(1, {}));
  EXPECT_EQ(t.active.agent.listen(1, {}).error(), Errc::address_in_use);
  EXPECT_EQ(t.active.agent.listen(2, {}).error(), Errc::no_space);
  spoof(t.net, t.active, 9, 1);  // no listener
  EXPECT_EQ(t.active.agent.counters().refused, 1U);
}

// Ids that the user has taken back before it looked are passed over.
TEST(IbcmFlood, NothingIsSaidOfDestroyedIds) {
  Pair t;
  t.a = *t.active.agent.connect(t.net.now, request(1, 2));
  t.passive.agent.unlisten(service);
  MadTo to;
  Flight flight;
  ASSERT_TRUE(t.active.agent.poll_transmit(to, flight.octets));
  t.passive.agent.handle_mad(t.net.now, {.source = gid(1), .destination = gid(2)}, flight.octets);
  ASSERT_TRUE(t.passive.agent.poll_transmit(to, flight.octets));
  t.active.agent.handle_mad(t.net.now, {.source = gid(2), .destination = gid(1)}, flight.octets);
  EXPECT_TRUE(t.active.agent.has_event());
  t.active.agent.destroy(t.net.now, t.a);
  EXPECT_FALSE(t.active.agent.has_event());
  EXPECT_FALSE(t.active.agent.poll_event());
}

}  // namespace
}  // namespace parley::cm::ibcm::flood_test
