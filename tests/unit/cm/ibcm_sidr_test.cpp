// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Service ID resolution and alternate paths: IBA §12.11 and §12.8.
#include "tests/unit/cm/ibcm_kit.hpp"

namespace parley::cm::ibcm::sidr_test {
namespace {
using namespace kit;

constexpr std::uint64_t udp_service = 0x0000000001111C06;

struct Sidr : Pair {
  explicit Sidr(AgentOptions of_active = {}) : Pair(of_active) {
    EXPECT_TRUE(passive.agent.listen(udp_service, {.connected = false}));
    passive.on_event = [this](Instant now, const Event& event) {
      const auto* asked = std::get_if<SidrRequested>(&event);
      if (asked != nullptr && answers)
        (void)passive.agent.sidr_reply(now, asked->id, {.qpn = 0x77, .q_key = 0x01234567, .private_data = data});
    };
  }
  ConnectionId ask(ConstBytes private_data = {}) {
    const auto id = active.agent.sidr_request(
        net.now, {.service_id = udp_service, .path = Path::roce(gid(1), gid(2)), .private_data = private_data});
    EXPECT_TRUE(id);
    a = id.value_or(0);
    return a;
  }
  bool answers = true;
  Bytes data = Bytes(136, 0x66);
};

TEST(IbcmSidr, TellsQueuePairAndKey) {
  Sidr t;
  const Bytes much(216, 0x44);
  t.ask(much);
  t.net.run_for(1ms);
  EXPECT_EQ(t.passive.last<SidrRequested>()->request.private_data[215], 0x44);
  EXPECT_EQ(t.passive.last<SidrRequested>()->from.source, gid(1));
  ASSERT_EQ(t.active.count<SidrReplied>(t.a), 1U);
  const SidrReplied got = *t.active.last<SidrReplied>();
  EXPECT_FALSE(got.why.code);
  EXPECT_EQ(got.reply.qpn, 0x77U);
  EXPECT_EQ(got.reply.q_key, 0x01234567U);
  EXPECT_EQ(got.reply.service_id, udp_service);
  EXPECT_EQ(got.reply.private_data[135], 0x66);
  t.expect_nothing_left();
}

TEST(IbcmSidr, AQueuePairThatNobodyCanReachIsNoAnswer) {
  for (const std::uint32_t qpn : {0U, 1U, 0xFFFFFFU}) {
    Sidr t;
    t.passive.on_event = [&](Instant now, const Event& event) {
      if (const auto* asked = std::get_if<SidrRequested>(&event))
        (void)t.passive.agent.sidr_reply(now, asked->id, {.qpn = qpn});
    };
    t.ask();
    t.net.run_for(1ms);
    EXPECT_EQ(t.active.count<SidrReplied>(t.a), 0U) << qpn;
    ASSERT_EQ(t.active.count<Failed>(t.a), 1U) << qpn;
    EXPECT_EQ(t.active.last<Failed>()->why.received,
              fmt::format("a SIDR_REP with queue pair number {:#08x}, which no connection can have", qpn));
    t.expect_nothing_left();
  }
}

TEST(IbcmSidr, ARequestForAnotherPartitionIsRefused) {
  Sidr t({.p_key = 0xFFFF});
  Path path = Path::roce(gid(1), gid(2));
  path.p_key = 0x9234;
  const auto id = t.active.agent.sidr_request(t.net.now, {.service_id = udp_service, .path = path});
  ASSERT_TRUE(id);
  t.net.run_for(1ms);
  EXPECT_TRUE(t.passive.all<SidrRequested>().empty());
  ASSERT_EQ(t.active.count<SidrReplied>(*id), 1U);
  EXPECT_EQ(t.active.last<SidrReplied>()->reply.status, SidrStatus::rejected);
}

TEST(IbcmSidr, LostAnswerIsRepeatedWithoutAskingTheUser) {
  Sidr t({.timers = back_off()});
  t.net.fate = [](const Flight&, std::size_t n) { return Fate{.copies = n == 1 || n == 3 ? 0 : 1}; };
  t.ask();
  t.net.run_for(1s);
  EXPECT_EQ(t.passive.all<SidrRequested>().size(), 1U);
  EXPECT_EQ(t.active.count<SidrReplied>(t.a), 1U);
  EXPECT_EQ(t.net.sent(CmMessageType::sidr_rep), 3U);
  t.expect_nothing_left();
}

TEST(IbcmSidr, RequestsOfASlowUserAreNotDoubled) {
  Sidr t({.timers = back_off()});
  t.answers = false;
  t.ask();
  t.net.run_for(1s);
  ASSERT_EQ(t.passive.all<SidrRequested>().size(), 1U);
  const ConnectionId b = t.passive.last<SidrRequested>()->id;
  EXPECT_EQ(t.passive.agent.state(b), State::sidr_req_rcvd);
  ASSERT_TRUE(t.passive.agent.sidr_reply(t.net.now, b, {.status = SidrStatus::no_qp}));
  t.net.run_for(1ms);
  EXPECT_EQ(t.active.last<SidrReplied>()->why.to_string("192.0.2.2"),
            "wait for the SIDR_REP from 192.0.2.2: the peer rejected the connection (SIDR_REP: no queue pair "
            "available); see what "
            "serves that service ID at the peer");
  EXPECT_EQ(t.passive.agent.sidr_reply(t.net.now, b, {}).error(), Errc::wrong_state);
}

TEST(IbcmSidr, EachStatusArrives) {
  for (unsigned status = 0; status < 6; ++status) {
    Sidr t;
    t.answers = false;
    t.ask();
    t.net.run_for(1ms);
    ASSERT_TRUE(t.passive.agent.sidr_reply(t.net.now, t.passive.last<SidrRequested>()->id,
                                           {.status = static_cast<SidrStatus>(status), .qpn = 0x77}));
    t.net.run_for(1ms);
    EXPECT_EQ(t.active.last<SidrReplied>()->reply.status, static_cast<SidrStatus>(status));
    EXPECT_EQ(static_cast<bool>(t.active.last<SidrReplied>()->why.code), status != 0);
  }
}

TEST(IbcmSidr, NobodyServesIt) {
  Sidr t;
  t.passive.agent.unlisten(udp_service);
  t.ask();
  t.net.run_for(1ms);
  EXPECT_EQ(t.active.last<SidrReplied>()->reply.status, SidrStatus::unsupported_service_id);
  EXPECT_EQ(t.active.last<SidrReplied>()->why.code, make_error_code(Errc::refused));
  EXPECT_EQ(t.passive.agent.connection_count(), 0U);
}

TEST(IbcmSidr, ListenersTakeWhatTheyWant) {
  Sidr t;
  (void)t.connect({.service_id = udp_service, .path = Path::roce(gid(1), gid(2)), .qpn = 0x99});
  t.net.run_for(1ms);
  EXPECT_EQ(t.active.last<Rejected>()->reject.reason, CmReject::invalid_service_id);
}

TEST(IbcmSidr, SilenceEndsAsTheSpecSays) {
  Sidr t;
  t.net.fate = [](const Flight&, std::size_t) { return Fate{.copies = 0}; };
  t.ask();
  ASSERT_TRUE(t.net.run_until([&] { return !t.active.all<Failed>().empty(); }));
  EXPECT_EQ(t.net.now - t0, 16 * Duration(4096) * (1 << 20));
  EXPECT_EQ(t.active.last<Failed>()->why.received, "no SIDR_REP to 16 SIDR_REQs in 68.71 s");
  t.expect_nothing_left();
}

TEST(IbcmSidr, DestroyedRequestIsRefused) {
  Sidr t;
  t.answers = false;
  t.ask();
  t.net.run_for(1ms);
  t.passive.agent.destroy(t.net.now, t.passive.last<SidrRequested>()->id);
  t.net.run_for(1ms);
  EXPECT_EQ(t.active.last<SidrReplied>()->reply.status, SidrStatus::rejected);
  t.expect_nothing_left();
}

TEST(IbcmSidr, PeerThatBeganAnewIsAskedAnew) {
  Sidr t;
  t.ask();
  t.net.run_for(1ms);
  Flight again = t.net.log[0];
  CmMessage m = again.message();
  m.transaction_id ^= 1;
  m.emit(again.octets);
  t.passive.agent.handle_mad(t.net.now, again.way, again.octets);
  t.net.settle();
  EXPECT_EQ(t.passive.all<SidrRequested>().size(), 2U);
}

CmPath other_path() {
  CmPath path = Path::roce(gid(1), gid(3)).primary;
  path.sl = 5;
  return path;
}

TEST(IbcmAlternate, PathIsAskedForAndLoaded) {
  Pair t;
  t.establish();
  EXPECT_EQ(t.passive.agent.load_alternate(t.net.now, t.b, other_path()).error(), Errc::wrong_state)
      << "the active side asks";
  ASSERT_TRUE(t.active.agent.load_alternate(t.net.now, t.a, other_path(), Bytes(168, 0x12)));
  EXPECT_EQ(t.active.agent.load_alternate(t.net.now, t.a, other_path()).error(), Errc::wrong_state) << "one at a time";
  t.net.run_for(1ms);
  const AlternateRequested asked = *t.passive.last<AlternateRequested>();
  EXPECT_EQ(asked.request.alternate, other_path());
  EXPECT_EQ(asked.request.private_data[167], 0x12);
  ASSERT_TRUE(t.passive.agent.answer_alternate(t.net.now, t.b, {.private_data = Bytes(148, 0x13)}));
  t.net.run_for(1ms);
  const AlternateAnswered got = *t.active.last<AlternateAnswered>();
  EXPECT_EQ(got.answer.status, ApStatus::accepted);
  EXPECT_EQ(got.answer.private_data[147], 0x13);
  EXPECT_EQ(t.active.agent.alternate_state(t.a), AlternateState::idle);
  ASSERT_TRUE(t.active.agent.load_alternate(t.net.now, t.a, other_path()));
  t.net.run_for(1ms);
  EXPECT_EQ(t.passive.all<AlternateRequested>().size(), 2U);
}

TEST(IbcmAlternate, ALapThatComesAgainBeforeItsAnswerIsADuplicate) {
  Pair t;
  t.establish();
  ASSERT_TRUE(t.active.agent.load_alternate(t.net.now, t.a, other_path()));
  t.net.run_for(1ms);
  const Flight lap = t.net.log.back();
  const auto before = t.passive.agent.counters().duplicates;
  t.passive.agent.handle_mad(t.net.now, lap.way, lap.octets);
  t.net.settle();
  EXPECT_EQ(t.passive.agent.counters().duplicates, before + 1);
  EXPECT_EQ(t.passive.all<AlternateRequested>().size(), 1U);
  EXPECT_EQ(t.net.sent(CmMessageType::apr), 0U);
}

TEST(IbcmAlternate, EachStatusArrives) {
  for (unsigned status = 0; status <= 13; ++status) {
    Pair t;
    t.establish();
    ASSERT_TRUE(t.active.agent.load_alternate(t.net.now, t.a, other_path()));
    t.net.run_for(1ms);
    ASSERT_TRUE(t.passive.agent.answer_alternate(t.net.now, t.b,
                                                 {.status = static_cast<ApStatus>(status), .info = Bytes(72, 1)}));
    t.net.run_for(1ms);
    EXPECT_EQ(t.active.last<AlternateAnswered>()->answer.status, static_cast<ApStatus>(status));
    EXPECT_EQ(t.active.last<AlternateAnswered>()->answer.info_length, 72);
  }
}

TEST(IbcmAlternate, LostMessagesAreRepaired) {
  Pair t({.timers = back_off()});
  t.establish();
  t.passive.on_event = [&](Instant now, const Event& event) {
    const auto* asked = std::get_if<AlternateRequested>(&event);
    if (asked != nullptr) (void)t.passive.agent.answer_alternate(now, asked->id, {});
  };
  std::size_t n = 0;
  t.net.fate = [&n](const Flight&, std::size_t) {
    return Fate{.copies = n++ < 2 ? 0 : 1};
  };  // the LAP, its second; not the APR
  ASSERT_TRUE(t.active.agent.load_alternate(t.net.now, t.a, other_path()));
  t.net.run_for(1s);
  EXPECT_EQ(t.passive.all<AlternateRequested>().size(), 1U);
  EXPECT_EQ(t.active.all<AlternateAnswered>().size(), 1U);
}

TEST(IbcmAlternate, MraIsHeededAndSilenceLeavesTheConnection) {
  Pair t({.timers = {.retries = 1}});
  t.establish();
  ASSERT_TRUE(t.active.agent.load_alternate(t.net.now, t.a, other_path()));
  t.net.run_for(1ms);
  ASSERT_TRUE(t.passive.agent.send_mra(t.net.now, t.b, 20));
  t.net.run_for(1ms);
  EXPECT_EQ(t.active.agent.alternate_state(t.a), AlternateState::mra_lap_rcvd);
  EXPECT_EQ(t.active.last<Waiting>()->about, CmSubject::other);
  t.net.fate = [](const Flight&, std::size_t) { return Fate{.copies = 0}; };
  ASSERT_TRUE(t.net.run_until([&] { return !t.active.all<AlternateAnswered>().empty(); }));
  EXPECT_EQ(t.active.last<AlternateAnswered>()->why.code, make_error_code(Errc::timed_out));
  EXPECT_EQ(t.active.agent.state(t.a), State::established);
}

// The first LAP was given up; what comes of it later is no answer to the second.
TEST(IbcmAlternate, LateAnswerIsNotTakenForTheNext) {
  Pair t({.timers = {.retries = 0}});
  t.establish();
  ASSERT_TRUE(t.active.agent.load_alternate(t.net.now, t.a, other_path()));
  t.net.run_for(1ms);
  ASSERT_TRUE(t.net.run_until([&] { return !t.active.all<AlternateAnswered>().empty(); }));
  ASSERT_TRUE(t.active.agent.load_alternate(t.net.now, t.a, other_path()));
  ASSERT_TRUE(t.passive.agent.answer_alternate(t.net.now, t.b, {.status = ApStatus::rejected}));
  t.net.run_for(1ms);
  EXPECT_EQ(t.active.all<AlternateAnswered>().size(), 1U);
  EXPECT_EQ(t.active.agent.alternate_state(t.a), AlternateState::lap_sent);
}

TEST(IbcmAlternate, WrongLapsAreAnsweredByStatus) {
  Pair t;
  t.establish();
  const auto ids = *t.passive.agent.ids(t.b);
  const auto status_of = [&](CmLap m) {
    std::array<std::uint8_t, PARLEY_IB_MAD_LEN> octets{};
    CmMessage{.transaction_id = 5, .body = m}.emit(octets);
    t.passive.agent.handle_mad(t.net.now, {.source = gid(1), .destination = gid(2)}, octets);
    t.net.settle();
    return std::get<CmApr>(t.net.log.back().message().body).status;
  };
  EXPECT_EQ(status_of({.local_comm_id = 1, .remote_comm_id = 2}), ApStatus::invalid_comm_id);
  EXPECT_EQ(status_of({.local_comm_id = ids.remote_comm_id, .remote_comm_id = ids.local_comm_id, .remote_qpn = 1}),
            ApStatus::invalid_qpn);
}

}  // namespace
}  // namespace parley::cm::ibcm::sidr_test
