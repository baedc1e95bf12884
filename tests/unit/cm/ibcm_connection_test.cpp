// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The life of connections between two Agents: set-up, every message lost or doubled, the end from both sides, timewait.
#include <set>

#include "tests/unit/cm/ibcm_kit.hpp"

namespace parley::cm::ibcm::connection_test {
namespace {
using namespace kit;

std::string joined(const std::vector<Flight>& log) {
  std::string out;
  for (const Flight& flight : log) out += (out.empty() ? "" : ", ") + flight.text();
  return out;
}

TEST(IbcmConnection, IsSetUpAndTakenDownBySixMessages) {
  Pair t;
  t.establish();
  EXPECT_EQ(t.at(t.active, t.a), State::established);
  EXPECT_EQ(t.at(t.passive, t.b), State::established);
  ASSERT_TRUE(t.active.agent.disconnect(t.net.now, t.a));
  t.net.run_for(1ms);
  EXPECT_EQ(joined(t.net.log), "1>2 REQ, 2>1 REP, 1>2 RTU, 1>2 DREQ, 2>1 DREP");
  EXPECT_TRUE(t.active.last<Disconnected>()->graceful);
  EXPECT_TRUE(t.passive.last<Disconnected>()->graceful);
  EXPECT_EQ(t.at(t.active, t.a), State::timewait);
  EXPECT_EQ(t.active.count<TimewaitExit>(t.a), 0U);
  t.net.run_for(3s);
  EXPECT_EQ(t.active.count<TimewaitExit>(t.a), 1U);
  EXPECT_EQ(t.passive.count<TimewaitExit>(t.b), 1U);
  t.expect_nothing_left();
}

TEST(IbcmConnection, EachSideLearnsWhatTheOtherSaid) {
  Pair t;
  t.active.gets_ready = t.passive.accepts = false;
  ConnectParameters p = request(1, 2, 0x345);
  p.alternate = p.path.primary;
  p.path_mtu = 5;
  p.retry_count = 6;
  p.rnr_retry_count = 2;
  p.ece_vendor = 0x123456;
  p.ece_options = 0x9ABCDEF0;
  p.flow_control = p.srq = true;
  const ConnectionId a = t.connect(p);
  t.net.run_for(1ms);
  const RequestReceived asked = *t.passive.last<RequestReceived>();
  EXPECT_EQ(asked.qp_type, QpType::rc);
  EXPECT_EQ(asked.request.local_qpn, 0x345U);
  EXPECT_EQ(asked.request.starting_psn, 0xABCDEFU);
  EXPECT_EQ(asked.request.local_ca_guid, guid(1));
  EXPECT_EQ(asked.request.responder_resources, 4);
  EXPECT_EQ(asked.request.initiator_depth, 5);
  EXPECT_EQ(asked.request.retry_count, 6);
  EXPECT_EQ(asked.request.rnr_retry_count, 2);
  EXPECT_EQ(asked.request.path_mtu, 5);
  EXPECT_EQ(asked.request.max_cm_retries, 15);
  EXPECT_EQ(asked.request.remote_cm_response_timeout, 20);
  EXPECT_TRUE(asked.request.has_alternate() && asked.request.flow_control && asked.request.srq);
  EXPECT_EQ(asked.request.ece_vendor, 0x123456U);
  EXPECT_EQ(asked.ece_options, 0x9ABCDEF0U);
  EXPECT_EQ(asked.from.source, gid(1));
  ASSERT_TRUE(t.passive.agent.accept(t.net.now, asked.id,
                                     {.qpn = 0x999,
                                      .starting_psn = 3,
                                      .responder_resources = 1,
                                      .initiator_depth = 2,
                                      .rnr_retry_count = 5,
                                      .target_ack_delay = 11,
                                      .failover = 2,
                                      .ece_vendor = 0x654321,
                                      .ece_options = 7}));
  t.net.run_for(1ms);
  const ReplyReceived reply = *t.active.last<ReplyReceived>();
  EXPECT_EQ(reply.id, a);
  EXPECT_EQ(reply.remote_qpn, 0x999U);
  EXPECT_EQ(reply.reply.starting_psn, 3U);
  EXPECT_EQ(reply.reply.responder_resources, 1);
  EXPECT_EQ(reply.reply.initiator_depth, 2);
  EXPECT_EQ(reply.reply.rnr_retry_count, 5);
  EXPECT_EQ(reply.reply.target_ack_delay, 11);
  EXPECT_EQ(reply.reply.failover_accepted, 2);
  EXPECT_EQ(reply.reply.ece_vendor, 0x654321U);
  EXPECT_EQ(reply.ece_options, 7U);
  const auto a_ids = *t.active.agent.ids(a), b_ids = *t.passive.agent.ids(asked.id);
  EXPECT_EQ(a_ids.local_comm_id, b_ids.remote_comm_id);
  EXPECT_EQ(b_ids.local_comm_id, a_ids.remote_comm_id);
  EXPECT_EQ(a_ids.remote_qpn, 0x999U);
  EXPECT_EQ(b_ids.remote_qpn, 0x345U);
  EXPECT_EQ(a_ids.remote_ca_guid, guid(2));
}

// IBA §A14.
TEST(IbcmConnection, XrcReplyCarriesTheTgtQueuePairAsEeContext) {
  Pair t;
  ConnectParameters p = request(1, 2, 0x55);
  p.qp_type = QpType::xrc;
  t.a = t.connect(p);
  t.net.run_for(1ms);
  EXPECT_EQ(t.passive.last<RequestReceived>()->qp_type, QpType::xrc);
  const CmReq req = std::get<CmReq>(t.net.log[0].message().body);
  EXPECT_TRUE(req.is_xrc());
  EXPECT_EQ(req.responder_resources, 0);
  EXPECT_EQ(req.retry_count, 0);
  EXPECT_EQ(req.initiator_depth, 5);
  const CmRep rep = std::get<CmRep>(t.net.log[1].message().body);
  EXPECT_EQ(rep.local_qpn, 0U);
  EXPECT_EQ(rep.local_eecn, 0x11U);
  EXPECT_TRUE(rep.srq);
  EXPECT_EQ(t.active.last<ReplyReceived>()->remote_qpn, 0x11U);
  ASSERT_TRUE(t.active.agent.disconnect(t.net.now, t.a));
  t.net.run_for(1ms);
  EXPECT_EQ(std::get<CmDreq>(t.net.log[3].message().body).remote_qpn, 0x11U);
  EXPECT_TRUE(t.active.last<Disconnected>()->graceful);
  t.expect_nothing_left();
}

TEST(IbcmConnection, DestroyedXrcTargetLeavesTheConnectionToItsSharedQueuePair) {
  Pair t;
  ConnectParameters p = request(1, 2, 0x55);
  p.qp_type = QpType::xrc;
  t.a = t.connect(p);
  t.net.run_for(1ms);
  t.passive.agent.destroy(t.net.now, t.passive.last<Ready>()->id);
  t.net.run_for(10s);
  EXPECT_EQ(t.net.sent(CmMessageType::dreq), 0U);
  EXPECT_EQ(t.at(t.active, t.a), State::established);
}

TEST(IbcmConnection, CommunicationIdsKeepTheirPrefix) {
  Pair t({.id_prefix = 0x21}, {.id_prefix = 0xFE});
  for (int i = 0; i < 3; ++i) t.establish();
  ASSERT_TRUE(t.active.agent.sidr_request(t.net.now, {.service_id = service, .path = Path::roce(gid(1), gid(2))}));
  t.net.run_for(1ms);
  std::set<std::uint32_t> ids;
  for (const Flight& flight : t.net.log) {
    const CmMessage message = flight.message();
    if (const auto* req = std::get_if<CmReq>(&message.body)) ids.insert(req->local_comm_id);
    if (const auto* sidr = std::get_if<CmSidrReq>(&message.body)) ids.insert(sidr->request_id);
    if (const auto* rep = std::get_if<CmRep>(&message.body)) {
      EXPECT_EQ(rep->local_comm_id >> 24, 0xFEU);
    }
  }
  EXPECT_EQ(ids.size(), 4U);
  for (const std::uint32_t id : ids) EXPECT_EQ(id >> 24, 0x21U);
}

/// A set-up and its end under a fate; both ends must agree and be done in time.
void expect_one_outcome(const std::function<Fate(const Flight&, std::size_t)>& fate, Timers timers,
                        const std::string& what) {
  SCOPED_TRACE(what);
  Pair t({.timers = timers}, {.timers = timers});
  t.net.fate = fate;
  t.a = t.connect();
  ASSERT_TRUE(t.net.run_until(
      [&] { return !t.passive.all<Ready>().empty() || !t.passive.all<DisconnectRequested>().empty(); }));
  ASSERT_EQ(t.active.count<ReplyReceived>(t.a), 1U);
  ASSERT_TRUE(t.active.agent.disconnect(t.net.now, t.a));
  ASSERT_TRUE(
      t.net.run_until([&] { return !t.active.all<Disconnected>().empty() && !t.passive.all<Disconnected>().empty(); }));
  t.net.run_out();
  ASSERT_EQ(t.passive.all<RequestReceived>().size(), 1U) << joined(t.net.log);
  ASSERT_EQ(t.passive.all<Disconnected>().size(), 1U) << joined(t.net.log);
  ASSERT_EQ(t.active.all<Disconnected>().size(), 1U) << joined(t.net.log);
  EXPECT_TRUE(t.active.last<Disconnected>()->graceful) << joined(t.net.log);
  EXPECT_TRUE(t.passive.last<Disconnected>()->graceful) << joined(t.net.log);
  EXPECT_EQ(t.active.all<TimewaitExit>().size(), 1U);
  EXPECT_EQ(t.passive.all<TimewaitExit>().size(), 1U);
  t.expect_nothing_left();
}

enum class Do { nothing, lose, twice, late };
Fate fate_of(Do what) {
  switch (what) {
    case Do::lose: return {.copies = 0};
    case Do::twice: return {.copies = 2};
    case Do::late: return {.copies = 1, .late = 1ms};
    default: return {};
  }
}

// Each of the first ten messages, and each pair of them.
TEST(IbcmConnection, OutlivesEveryPairOfFaults) {
  for (const Timers& timers : {Timers{}, back_off()})
    for (std::size_t i = 0; i < 10; ++i)
      for (std::size_t k = i; k < 10; ++k)
        for (Do x : {Do::lose, Do::twice, Do::late})
          for (Do y : {Do::lose, Do::twice, Do::late}) {
            if (i == k && x != y) continue;
            expect_one_outcome(
                [&](const Flight&, std::size_t n) {
                  return fate_of(n == i ? x : n == k ? y : Do::nothing);
                },
                timers, fmt::format("{} {} {} {}", i, static_cast<int>(x), k, static_cast<int>(y)));
            if (::testing::Test::HasFatalFailure()) return;
          }
}

TEST(IbcmConnection, OutlivesALossyReorderingNetwork) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    Rng rng(seed);
    expect_one_outcome(
        [&](const Flight&, std::size_t) {
          return Fate{.copies = rng.chance({30, 100})   ? 0
                                : rng.chance({20, 100}) ? 2
                                                        : 1,
                      .late = Duration(static_cast<std::int64_t>(rng.below(20'000'000)))};
        },
        back_off(), fmt::format("seed {}", seed));
    if (::testing::Test::HasFatalFailure()) return;
  }
}

// IBA §12.9: both DREQs are under way at once.
TEST(IbcmConnection, CrossingDisconnectsAnswerEachOther) {
  Pair t;
  t.establish();
  ASSERT_TRUE(t.active.agent.disconnect(t.net.now, t.a));
  ASSERT_TRUE(t.passive.agent.disconnect(t.net.now, t.b));
  t.net.run_for(1ms);
  EXPECT_EQ(t.net.sent(CmMessageType::dreq), 2U);
  EXPECT_EQ(t.net.sent(CmMessageType::drep), 2U);
  EXPECT_EQ(t.active.count<Disconnected>(t.a), 1U);
  EXPECT_EQ(t.passive.count<Disconnected>(t.b), 1U);
  EXPECT_TRUE(t.active.all<DisconnectRequested>().empty());
  t.expect_nothing_left();
}

TEST(IbcmConnection, VanishedPeerIsDisconnectedWhenNothingAnswersTheDreq) {
  Pair t({.timers = {.retries = 3}});
  t.establish();
  t.net.fate = [](const Flight&, std::size_t) { return Fate{.copies = 0}; };
  const Instant begun = t.net.now;
  ASSERT_TRUE(t.active.agent.disconnect(t.net.now, t.a));
  ASSERT_TRUE(t.net.run_until([&] { return !t.active.all<Disconnected>().empty(); }));
  EXPECT_EQ(t.net.now - begun, 4 * (Duration(4096) * (1 << 19) + Duration(4096) * (1 << 20)));
  EXPECT_EQ(t.active.last<Disconnected>()->why.to_string("192.0.2.2"),
            "wait for the DREP from 192.0.2.2: the deadline passed (no DREP to 4 DREQs in 25.76 s); check that the "
            "peer is up, "
            "and that nothing on the way drops its packets");
}

// IBA §12.9.
TEST(IbcmConnection, DataEstablishesBeforeTheRtu) {
  Pair t;
  t.net.fate = [](const Flight& f, std::size_t) {
    return Fate{.copies = f.message().type() == CmMessageType::rtu ? 0 : 1};
  };
  t.a = t.connect();
  t.net.run_for(1ms);
  const ConnectionId b = t.passive.last<RequestReceived>()->id;
  EXPECT_EQ(t.at(t.passive, b), State::rep_sent);
  ASSERT_TRUE(t.passive.agent.communication_established(t.net.now, b));
  t.net.settle();
  EXPECT_TRUE(t.passive.last<Ready>()->by_data);
  t.net.fate = nullptr;
  t.net.run_for(1min);
  EXPECT_EQ(t.passive.count<Ready>(b), 1U);
  EXPECT_EQ(t.net.sent(CmMessageType::rep), 1U) << "nothing is sent again";
}

// IBA §12.9: a late duplicate of the REQ is no new request while the connection is in timewait.
TEST(IbcmConnection, TimewaitKeepsDuplicatesOut) {
  Pair t;
  t.establish();
  ASSERT_TRUE(t.active.agent.disconnect(t.net.now, t.a));
  t.net.run_for(1ms);
  t.active.agent.destroy(t.net.now, t.a);
  t.passive.agent.destroy(t.net.now, t.b);
  const Flight req = t.net.log[0], dreq = t.net.log[3];
  for (int i = 0; i < 3; ++i) {
    t.net.run_for(600ms);
    t.passive.agent.handle_mad(t.net.now, req.way, req.octets);
    t.passive.agent.handle_mad(t.net.now, dreq.way, dreq.octets);
    t.net.settle();
  }
  EXPECT_EQ(t.passive.all<RequestReceived>().size(), 1U);
  ASSERT_EQ(t.net.sent(CmMessageType::rej), 3U);
  EXPECT_EQ(t.net.sent(CmMessageType::drep), 4U);
  for (const Flight& flight : t.net.log) {
    const CmMessage m = flight.message();
    if (const auto* rej = std::get_if<CmRej>(&m.body)) {
      EXPECT_EQ(rej->reason, CmReject::stale_connection);
    }
  }
  // The queue pair too, whatever the communication ID.
  (void)t.active.agent.connect(t.net.now, request(1, 2));
  t.net.run_for(1ms);
  ASSERT_EQ(t.active.all<Rejected>().size(), 1U);
  EXPECT_EQ(t.active.last<Rejected>()->reject.reason, CmReject::stale_connection);
  t.net.run_for(10s);
  (void)t.active.agent.connect(t.net.now, request(1, 2));
  t.net.run_for(1ms);
  EXPECT_EQ(t.passive.all<Ready>().size(), 2U) << "afterwards it is welcome";
}

TEST(IbcmConnection, ARepThatComesInTimewaitIsADuplicateAndRejected) {
  Pair t;
  t.establish();
  ASSERT_TRUE(t.active.agent.disconnect(t.net.now, t.a));
  t.net.run_for(1ms);
  ASSERT_EQ(t.at(t.active, t.a), State::timewait);
  const Flight rep = t.net.log[1];
  const auto before = t.active.agent.counters().duplicates;
  t.active.agent.handle_mad(t.net.now, rep.way, rep.octets);
  t.net.settle();
  EXPECT_EQ(t.active.agent.counters().duplicates, before + 1);
  EXPECT_EQ(t.net.sent(CmMessageType::rej), 1U);
}

/// The DREQ of the active side, whose answer is the passive user's and has not been given.
Flight unanswered_dreq(Pair& t) {
  t.passive.answers_dreq = false;
  t.establish();
  EXPECT_TRUE(t.active.agent.disconnect(t.net.now, t.a));
  t.net.run_for(1ms);
  return t.net.log[3];
}

TEST(IbcmConnection, RepeatedDrepIsTheSame) {
  Pair t;
  const Flight dreq = unanswered_dreq(t);
  ASSERT_TRUE(t.passive.agent.disconnect(t.net.now, t.b, Bytes{1, 2, 3}));
  t.net.settle();
  const Flight first = t.net.log.back();
  t.passive.agent.handle_mad(t.net.now, dreq.way, dreq.octets);
  t.net.settle();
  EXPECT_EQ(t.net.log.back().octets, first.octets);
  t.net.run_for(1ms);
  EXPECT_EQ(t.active.last<Disconnected>()->private_data[2], 3);
}

TEST(IbcmConnection, ARepThatComesBehindTheDreqIsADuplicateAndNotAnswered) {
  Pair t;
  (void)unanswered_dreq(t);
  ASSERT_EQ(t.at(t.active, t.a), State::dreq_sent);
  const Flight rep = t.net.log[1];
  const auto before = t.active.agent.counters().duplicates;
  const std::size_t sent = t.net.log.size();
  t.active.agent.handle_mad(t.net.now, rep.way, rep.octets);
  t.net.settle();
  EXPECT_EQ(t.active.agent.counters().duplicates, before + 1);
  EXPECT_EQ(t.net.log.size(), sent);
}

TEST(IbcmConnection, ADreqThatComesTwiceIsADuplicateWhileItsAnswerIsTheUsers) {
  Pair t;
  const Flight dreq = unanswered_dreq(t);
  const auto before = t.passive.agent.counters().duplicates;
  t.passive.agent.handle_mad(t.net.now, dreq.way, dreq.octets);
  t.net.settle();
  EXPECT_EQ(t.passive.agent.counters().duplicates, before + 1);
  EXPECT_EQ(t.passive.all<DisconnectRequested>().size(), 1U);
  EXPECT_EQ(t.net.sent(CmMessageType::drep), 0U);
  ASSERT_TRUE(t.passive.agent.disconnect(t.net.now, t.b));
  t.net.run_for(1ms);
  EXPECT_EQ(t.net.sent(CmMessageType::drep), 1U);
}

// The private data of every message, up to its last octet; one more is refused.
TEST(IbcmConnection, PrivateDataReachesItsLimits) {
  Pair t;
  t.active.gets_ready = t.passive.accepts = t.passive.answers_dreq = false;
  const auto octets = [](std::size_t n) { return Bytes(n, 0x5A); };
  ConnectParameters p = request(1, 2);
  Bytes much = octets(93);
  p.private_data = much;
  EXPECT_EQ(t.active.agent.connect(t.net.now, p).error(), Errc::bad_private_data);
  p.private_data = ConstBytes(much).first(92);
  t.a = t.connect(p);
  t.net.run_for(1ms);
  EXPECT_EQ(t.passive.last<RequestReceived>()->request.private_data[91], 0x5A);
  const ConnectionId b = t.passive.last<RequestReceived>()->id;
  EXPECT_EQ(t.passive.agent.send_mra(t.net.now, b, 20, octets(223)).error(), Errc::bad_private_data);
  ASSERT_TRUE(t.passive.agent.send_mra(t.net.now, b, 20, octets(222)));
  t.net.run_for(1ms);
  EXPECT_EQ(t.active.last<Waiting>()->private_data[221], 0x5A);
  much = octets(197);
  EXPECT_EQ(t.passive.agent.accept(t.net.now, b, {.qpn = 0x22, .private_data = much}).error(), Errc::bad_private_data);
  ASSERT_TRUE(t.passive.agent.accept(t.net.now, b, {.qpn = 0x22, .private_data = ConstBytes(much).first(196)}));
  t.net.run_for(1ms);
  EXPECT_EQ(t.active.last<ReplyReceived>()->reply.private_data[195], 0x5A);
  EXPECT_EQ(t.active.agent.ready(t.net.now, t.a, octets(225)).error(), Errc::bad_private_data);
  ASSERT_TRUE(t.active.agent.ready(t.net.now, t.a, octets(224)));
  t.net.run_for(1ms);
  EXPECT_EQ(t.passive.last<Ready>()->private_data[223], 0x5A);
  EXPECT_EQ(t.active.agent.disconnect(t.net.now, t.a, octets(221)).error(), Errc::bad_private_data);
  ASSERT_TRUE(t.active.agent.disconnect(t.net.now, t.a, octets(220)));
  t.net.run_for(1ms);
  EXPECT_EQ(t.passive.last<DisconnectRequested>()->private_data[219], 0x5A);
  EXPECT_EQ(t.passive.agent.disconnect(t.net.now, b, octets(225)).error(), Errc::bad_private_data);
  ASSERT_TRUE(t.passive.agent.disconnect(t.net.now, b, octets(224)));
  t.net.run_for(1ms);
  EXPECT_EQ(t.active.last<Disconnected>()->private_data[223], 0x5A);
}

TEST(IbcmConnection, EachNumberOfAReplyHasItsRange) {
  Pair t;
  t.passive.accepts = false;
  t.a = t.connect();
  t.net.run_for(1ms);
  const ConnectionId b = t.passive.last<RequestReceived>()->id;
  const auto accept = [&](const AcceptParameters& p) { return t.passive.agent.accept(t.net.now, b, p); };
  EXPECT_EQ(accept({.rnr_retry_count = 8}).error(), Errc::invalid_argument);
  EXPECT_EQ(accept({.target_ack_delay = 32}).error(), Errc::invalid_argument);
  EXPECT_EQ(accept({.failover = 4}).error(), Errc::invalid_argument);
  ASSERT_TRUE(accept({.qpn = 0x22, .rnr_retry_count = 7, .target_ack_delay = 31, .srq = true, .failover = 3}));
  t.net.run_for(1ms);
  ASSERT_EQ(t.net.log[1].message().type(), CmMessageType::rep);
  const CmMessage sent = t.net.log[1].message();
  const auto& rep = std::get<CmRep>(sent.body);
  EXPECT_EQ(rep.rnr_retry_count, 7);
  EXPECT_EQ(rep.target_ack_delay, 31);
  EXPECT_TRUE(rep.srq);
}

TEST(IbcmConnection, ARepThatComesTwiceIsADuplicateUntilTheUserIsReady) {
  Pair t;
  t.active.gets_ready = false;
  t.a = t.connect();
  t.net.run_for(1ms);
  ASSERT_EQ(t.at(t.active, t.a), State::rep_rcvd);
  const Flight rep = t.net.log[1];
  ASSERT_EQ(rep.message().type(), CmMessageType::rep);
  const auto before = t.active.agent.counters().duplicates;
  t.active.agent.handle_mad(t.net.now, rep.way, rep.octets);
  EXPECT_EQ(t.active.agent.counters().duplicates, before + 1);
  EXPECT_EQ(t.active.all<ReplyReceived>().size(), 1U);
}

TEST(IbcmConnection, ARepToAnInquiryIsUnexpected) {
  Pair t;
  t.a = *t.active.agent.sidr_request(t.net.now, {.service_id = service, .path = Path::roce(gid(1), gid(2))});
  ASSERT_EQ(t.at(t.active, t.a), State::sidr_req_sent);
  Flight flight;
  MadTo to;
  ASSERT_TRUE(t.active.agent.poll_transmit(to, flight.octets));
  const CmMessage asked = flight.message();
  const CmRep rep{.local_comm_id = 5, .remote_comm_id = std::get<CmSidrReq>(asked.body).request_id};
  CmMessage{.transaction_id = asked.transaction_id, .body = rep}.emit(flight.octets);
  t.active.agent.handle_mad(t.net.now, {.source = gid(2), .destination = gid(1)}, flight.octets);
  EXPECT_EQ(t.active.agent.counters().unexpected, 1U);
  EXPECT_EQ(t.at(t.active, t.a), State::sidr_req_sent);
}

TEST(IbcmConnection, ADestroyedConnectionTakesNoMraWhateverItSays) {
  Pair t;
  t.establish();
  t.active.agent.destroy(t.net.now, t.a);
  ASSERT_EQ(t.active.agent.connection_count(), 1U) << "its DREQ is on the way";
  EXPECT_EQ(t.active.agent.send_mra(t.net.now, t.a, 32).error(), Errc::wrong_state);
}

TEST(IbcmConnection, AnAgentConnectsToItself) {
  Net net;
  Node& node = net.add(1);
  ASSERT_TRUE(node.agent.listen(service, {}));
  const ConnectionId a = *node.agent.connect(net.now, request(1, 1));
  net.run_for(1ms);
  ASSERT_EQ(node.all<Ready>().size(), 1U);
  ASSERT_TRUE(node.agent.disconnect(net.now, a));
  net.run_for(1ms);
  EXPECT_EQ(node.all<Disconnected>().size(), 2U);
}

}  // namespace
}  // namespace parley::cm::ibcm::connection_test
