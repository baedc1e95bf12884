// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Rejections of the InfiniBand CM: each reason, by the user and by the Agent itself; stale connections and peers that began anew.
#include "base/bytes_io.hpp"
#include "tests/unit/cm/ibcm_kit.hpp"

namespace parley::cm::ibcm::reject_test {
namespace {
using namespace kit;

CmRej sent_rej(const Net& net) {
  for (auto at = net.log.rbegin(); at != net.log.rend(); ++at) {
    const CmMessage m = at->message();
    if (const auto* rej = std::get_if<CmRej>(&m.body)) return *rej;
  }
  ADD_FAILURE() << "no REJ";
  return {};
}

std::vector<CmReject> reasons() {
  return {
#define PARLEY_X(name, code, text) CmReject::name,
      PARLEY_IBCM_REJECTS(PARLEY_X)
#undef PARLEY_X
  };
}

TEST(IbcmReject, EachReasonOfTheResponderReachesTheRequester) {
  for (const CmReject reason : reasons()) {
    SCOPED_TRACE(to_string(reason));
    Pair t;
    t.passive.accepts = false;
    t.a = t.connect();
    t.net.run_for(1ms);
    const ConnectionId b = t.passive.last<RequestReceived>()->id;
    const Bytes info(72, 0x11), data(148, 0x22);
    ASSERT_TRUE(t.passive.agent.reject(t.net.now, b, {.reason = reason, .info = info, .private_data = data}));
    t.net.run_for(1ms);
    ASSERT_EQ(t.active.count<Rejected>(t.a), 1U);
    const Rejected got = *t.active.last<Rejected>();
    EXPECT_EQ(got.reject.reason, reason);
    EXPECT_EQ(got.reject.about, CmSubject::req);
    EXPECT_EQ(got.reject.info_length, 72);
    EXPECT_EQ(got.reject.info[71], 0x11);
    EXPECT_EQ(got.reject.private_data[147], 0x22);
    EXPECT_NE(got.why.to_string("192.0.2.2").find(to_string(reason)), std::string::npos) << got.why.to_string();
    EXPECT_EQ(got.timewait, reason == CmReject::stale_connection);
    const auto code = static_cast<std::size_t>(reason);
    EXPECT_EQ(t.passive.agent.counters().rejects[code].sent, 1U);
    EXPECT_EQ(t.passive.agent.counters().rejects[code].received, 0U);
    EXPECT_EQ(t.active.agent.counters().rejects[code].received, 1U);
    t.expect_nothing_left();
  }
}

TEST(IbcmReject, EachReasonOfTheRequesterReachesTheResponder) {
  for (const CmReject reason : reasons()) {
    SCOPED_TRACE(to_string(reason));
    Pair t;
    t.active.gets_ready = false;
    t.a = t.connect();
    t.net.run_for(1ms);
    ASSERT_TRUE(t.active.agent.reject(t.net.now, t.a, {.reason = reason}));
    t.net.run_for(1ms);
    ASSERT_EQ(t.passive.all<Rejected>().size(), 1U);
    EXPECT_EQ(t.passive.last<Rejected>()->reject.reason, reason);
    EXPECT_EQ(t.passive.last<Rejected>()->reject.about, CmSubject::rep);
    t.expect_nothing_left();
  }
}

TEST(IbcmReject, ReasonsThatNobodyHasAssignedAreCountedTogether) {
  for (const unsigned code : {0U, 36U, 500U, 65535U}) {
    Pair t;
    t.passive.accepts = false;
    t.a = t.connect();
    t.net.run_for(1ms);
    const ConnectionId b = t.passive.last<RequestReceived>()->id;
    ASSERT_TRUE(t.passive.agent.reject(t.net.now, b, {.reason = static_cast<CmReject>(code)}));
    t.net.run_for(1ms);
    EXPECT_EQ(t.passive.agent.counters().rejects[0].sent, 1U);
    EXPECT_EQ(t.active.agent.counters().rejects[0].received, 1U);
  }
}

TEST(IbcmReject, FailuresAreSentences) {
  Pair t;
  t.passive.agent.unlisten(service);
  (void)t.connect();
  t.net.run_for(1ms);
  EXPECT_EQ(t.active.last<Rejected>()->why.to_string("192.0.2.2"),
            "wait for the REP from 192.0.2.2: there is no listener at that address (REJ of REQ: reason 8, invalid "
            "service ID: there is no listener there); start the peer's listener, or check the service ID (the port)");
  EXPECT_EQ(sent_rej(t.net).local_comm_id, 0U);
}

struct Refused {
  const char* name;
  CmReject reason;
  std::uint8_t info_length;
  std::function<void(CmReq&)> spoil;
};

// IBA §12.6.7.2: what the Agent answers of itself.
TEST(IbcmReject, RequestsThatNoUserCanTakeAreRefused) {
  const std::vector<Refused> cases{
      {"no listener", CmReject::invalid_service_id, 0, [](CmReq& m) { m.service_id = 1; }},
      {"RD", CmReject::invalid_transport_service, 0, [](CmReq& m) { m.service = CmService::rd; }},
      {"extended type 2", CmReject::invalid_transport_service, 0,
       [](CmReq& m) { m.service = CmService::extended, m.extended_service = 2; }},
      {"MTU code 0", CmReject::invalid_path_mtu, 1, [](CmReq& m) { m.path_mtu = 0; }},
      {"MTU code 6", CmReject::invalid_path_mtu, 1, [](CmReq& m) { m.path_mtu = 6; }},
      {"queue pair 0", CmReject::unsupported_request, 0, [](CmReq& m) { m.local_qpn = 0; }},
      {"queue pair 1", CmReject::unsupported_request, 0, [](CmReq& m) { m.local_qpn = 1; }},
      {"a group as queue pair", CmReject::unsupported_request, 0, [](CmReq& m) { m.local_qpn = 0xFFFFFF; }},
      {"another P_Key", CmReject::unsupported_request, 0, [](CmReq& m) { m.p_key = 0x9234; }},
      {"no P_Key", CmReject::unsupported_request, 0, [](CmReq& m) { m.p_key = 0x8000; }},
      {"a GID of others", CmReject::primary_gid, 16, [](CmReq& m) { m.primary.remote_gid = gid(9); }},
  };
  for (const Refused& c : cases) {
    SCOPED_TRACE(c.name);
    Pair t;
    t.net.fate = [](const Flight&, std::size_t) { return Fate{.copies = 0}; };
    t.a = t.connect();
    Flight flight = t.net.log[0];
    CmMessage m = flight.message();
    c.spoil(std::get<CmReq>(m.body));
    m.emit(flight.octets);
    t.passive.agent.handle_mad(t.net.now, flight.way, flight.octets);
    t.net.settle();
    EXPECT_TRUE(t.passive.events.empty());
    EXPECT_EQ(t.passive.agent.connection_count(), 0U);
    const CmRej rej = sent_rej(t.net);
    EXPECT_EQ(rej.reason, c.reason);
    EXPECT_EQ(rej.info_length, c.info_length);
    EXPECT_EQ(rej.remote_comm_id, t.active.agent.ids(t.a)->local_comm_id);
    if (c.reason == CmReject::primary_gid) {
      EXPECT_TRUE(std::equal(rej.info.begin(), rej.info.begin() + 16, gid(2).begin()));
    }
  }
}

TEST(IbcmReject, ALimitedMemberOfThePartitionMayConnect) {
  Pair t;
  t.net.fate = [](const Flight&, std::size_t) { return Fate{.copies = 0}; };
  t.a = t.connect();
  Flight flight = t.net.log[0];
  CmMessage m = flight.message();
  std::get<CmReq>(m.body).p_key = 0x7FFF;  // IBA §10.9.1.2: one of the two has to be a full member
  m.emit(flight.octets);
  t.passive.agent.handle_mad(t.net.now, flight.way, flight.octets);
  t.net.settle();
  EXPECT_EQ(t.passive.all<RequestReceived>().size(), 1U);
}

TEST(IbcmReject, ARepWithAQueuePairThatNoConnectionCanHaveIsRejected) {
  for (const std::uint32_t qpn : {0U, 1U, 0xFFFFFFU}) {
    SCOPED_TRACE(qpn);
    Pair t;
    t.passive.next_qpn = qpn;
    t.a = t.connect();
    t.net.run_for(1ms);
    EXPECT_EQ(t.active.count<ReplyReceived>(t.a), 0U);
    ASSERT_EQ(t.active.count<Failed>(t.a), 1U);
    EXPECT_EQ(t.active.last<Failed>()->why.received,
              fmt::format("a REP with queue pair number {:#08x}, which no connection can have", qpn));
    EXPECT_EQ(sent_rej(t.net).reason, CmReject::unsupported_request);
    EXPECT_EQ(sent_rej(t.net).about, CmSubject::rep);
    ASSERT_EQ(t.passive.all<Rejected>().size(), 1U) << "and its sender gives up";
    t.expect_nothing_left();
  }
}

TEST(IbcmReject, AnotherClassVersionIsRefusedWithOurs) {
  Pair t;
  t.a = t.connect();
  Flight flight = t.net.log[0];
  flight.octets[2] = 3;
  t.passive.agent.handle_mad(t.net.now, flight.way, flight.octets);
  t.net.settle();
  EXPECT_EQ(sent_rej(t.net).reason, CmReject::unsupported_class_version);
  EXPECT_EQ(sent_rej(t.net).info[0], 2);
  EXPECT_EQ(sent_rej(t.net).remote_comm_id, t.active.agent.ids(t.a)->local_comm_id);
  flight.octets[17] = 0x17;  // SIDR_REQ
  t.passive.agent.handle_mad(t.net.now, flight.way, flight.octets);
  t.net.settle();
  EXPECT_EQ(std::get<CmSidrRep>(t.net.log.back().message().body).status, SidrStatus::unsupported_version);
  flight.octets[17] = 0x15;  // nothing else is answered
  const std::size_t before = t.net.log.size();
  t.passive.agent.handle_mad(t.net.now, flight.way, flight.octets);
  t.net.settle();
  EXPECT_EQ(t.net.log.size(), before);
}

// The REJ was lost: the repeated REQ gets it again, with its private data; the user is not asked twice.
TEST(IbcmReject, LostRejectionIsRepeated) {
  Pair t({.timers = back_off()});
  t.passive.accepts = false;
  t.passive.on_event = [&](Instant now, const Event& event) {
    const auto* asked = std::get_if<RequestReceived>(&event);
    if (asked != nullptr) (void)t.passive.agent.reject(now, asked->id, {.private_data = Bytes{42}});
  };
  t.net.fate = [](const Flight&, std::size_t n) { return Fate{.copies = n == 1 ? 0 : 1}; };
  t.a = t.connect();
  t.net.run_for(1s);
  EXPECT_EQ(t.passive.all<RequestReceived>().size(), 1U);
  ASSERT_EQ(t.active.all<Rejected>().size(), 1U);
  EXPECT_EQ(t.active.last<Rejected>()->reject.private_data[0], 42);
  t.expect_nothing_left();
}

// IBA §12.6.7.2 reason 4: found by the GUID in the additional information, for the responder's ID is not known.
TEST(IbcmReject, RequestThatIsTakenBackIsFoundByItsGuid) {
  for (const bool accepts : {false, true}) {
    Pair t;
    t.passive.accepts = accepts;
    t.net.fate = [](const Flight& f, std::size_t) { return Fate{.copies = f.from == 2 ? 0 : 1}; };
    t.a = t.connect();
    t.net.run_for(1ms);
    t.active.agent.destroy(t.net.now, t.a);
    t.net.run_for(1ms);
    const CmRej rej = sent_rej(t.net);
    EXPECT_EQ(rej.reason, CmReject::timeout);
    EXPECT_EQ(rej.info_length, 8);
    EXPECT_EQ(Reader(rej.info).be64(), guid(1));
    ASSERT_EQ(t.passive.all<Rejected>().size(), 1U);
    EXPECT_EQ(t.passive.agent.accept(t.net.now, t.passive.last<Rejected>()->id, {.qpn = 1}).error(), Errc::wrong_state);
    // A late duplicate of what was taken back is no new request.
    t.passive.agent.handle_mad(t.net.now, t.net.log[0].way, t.net.log[0].octets);
    t.net.settle();
    EXPECT_EQ(t.passive.all<RequestReceived>().size(), 1U);
    EXPECT_EQ(sent_rej(t.net).reason, CmReject::stale_connection);
    t.expect_nothing_left();
  }
}

// IBA §12.6.7.2 reason 6.
TEST(IbcmReject, ReplyToNobodyIsRejectedAtOnce) {
  Pair t;
  t.net.fate = [](const Flight& f, std::size_t) {
    return Fate{.copies = f.message().type() == CmMessageType::rej ? 0 : 1, .late = f.from == 2 ? 1ms : 0ms};
  };
  t.a = t.connect();
  t.net.run_for(100us);
  t.active.agent.destroy(t.net.now, t.a);
  t.net.settle();
  t.net.fate = nullptr;
  t.net.run_for(5ms);
  ASSERT_EQ(t.passive.all<Rejected>().size(), 1U);
  EXPECT_EQ(t.passive.last<Rejected>()->reject.reason, CmReject::invalid_comm_id);
  t.expect_nothing_left();
}

// IBA §12.9: the peer has a queue pair again that this side still has a connection with.
TEST(IbcmReject, StaleConnectionIsRejectedAndTheOldOneEnded) {
  Pair t;
  t.establish();
  // The peer loses power, and comes back with other communication IDs and the same queue pairs.
  t.active.agent = *Agent::create(Node::fixed(1, {.seed = 99}));
  const ConnectionId again = t.connect();
  t.net.run_for(1ms);
  ASSERT_EQ(t.active.count<Rejected>(again), 1U);
  EXPECT_EQ(t.active.last<Rejected>()->reject.reason, CmReject::stale_connection);
  ASSERT_EQ(t.passive.all<Disconnected>().size(), 1U) << "the new peer answers the DREQ of what it does not know";
  EXPECT_FALSE(t.passive.last<Disconnected>()->graceful);
  EXPECT_EQ(
      t.passive.last<Disconnected>()->why.to_string("192.0.2.1"),
      "transfer data with 192.0.2.1: the peer reset the connection (a request of the same peer with the same queue "
      "pair or ID); "
      "the peer was started again, or lost track of the connection; set it up again");
  t.net.run_for(5s);
  EXPECT_EQ(t.active.count<TimewaitExit>(again), 1U);
  (void)t.connect();
  t.net.run_for(1ms);
  EXPECT_EQ(t.passive.all<Ready>().size(), 2U);
}

// The peer comes back with the very communication ID of before: its request is not taken for a duplicate.
TEST(IbcmReject, RebootedPeerWithTheSameIdIsNoDuplicate) {
  Pair t;
  t.establish();
  ConnectParameters p = request(1, 2, 0x200);
  p.starting_psn = 1;
  t.active.agent = *Agent::create(Node::fixed(1, {}));
  const ConnectionId again = t.connect(p);
  t.net.run_for(1ms);
  ASSERT_EQ(t.active.count<Rejected>(again), 1U);
  EXPECT_EQ(t.active.last<Rejected>()->reject.reason, CmReject::stale_connection);
  ASSERT_EQ(t.passive.all<Disconnected>().size(), 1U);
}

TEST(IbcmReject, ReplyWithAQueuePairThatIsInUseIsRejected) {
  Pair t;
  t.establish();
  t.passive.next_qpn = 0x11;  // as the first time
  const ConnectionId second = t.connect(request(1, 2, 0x101));
  t.net.run_for(1ms);
  EXPECT_EQ(t.active.count<Failed>(second), 1U);
  EXPECT_EQ(sent_rej(t.net).reason, CmReject::stale_connection);
  EXPECT_EQ(sent_rej(t.net).about, CmSubject::rep);
  ASSERT_EQ(t.passive.all<Rejected>().size(), 1U);
  EXPECT_TRUE(t.passive.last<Rejected>()->timewait);
  ASSERT_EQ(t.active.count<Disconnected>(t.a), 1U) << "the old one is gone at the peer";
}

TEST(IbcmReject, ARejOfAReplyWithAnotherIdThanThePeersIsUnknown) {
  Pair t;
  t.active.gets_ready = false;
  t.a = t.connect();
  t.net.run_for(1ms);
  ASSERT_TRUE(t.active.agent.reject(t.net.now, t.a, {}));
  t.net.fate = [](const Flight&, std::size_t) { return Fate{.copies = 0}; };
  t.net.settle();
  Flight rej = t.net.log.back();
  CmMessage m = rej.message();
  ++std::get<CmRej>(m.body).local_comm_id;
  m.emit(rej.octets);
  t.passive.agent.handle_mad(t.net.now, rej.way, rej.octets);
  t.net.settle();
  EXPECT_EQ(t.passive.agent.counters().unknown, 1U);
  EXPECT_TRUE(t.passive.all<Rejected>().empty());
}

TEST(IbcmReject, ARejOfAReplyBeforeThereIsOneIsUnknown) {
  Pair t;
  t.net.fate = [](const Flight&, std::size_t) { return Fate{.copies = 0}; };
  t.a = t.connect();
  Flight rej = t.net.log[0];
  std::swap(rej.way.source, rej.way.destination);
  for (const CmSubject about : {CmSubject::rep, CmSubject::req}) {
    EXPECT_TRUE(t.active.all<Rejected>().empty());
    const std::uint32_t id = t.active.agent.ids(t.a)->local_comm_id;
    CmMessage{.body = CmRej{.remote_comm_id = id, .about = about, .reason = CmReject::no_resources}}.emit(rej.octets);
    t.active.agent.handle_mad(t.net.now, rej.way, rej.octets);
    t.net.settle();
  }
  EXPECT_EQ(t.active.agent.counters().unknown, 1U);
  EXPECT_EQ(t.active.all<Rejected>().size(), 1U);
}

TEST(IbcmReject, AReplyBehindARejIsADuplicateAndRejected) {
  Pair t;
  t.passive.accepts = false;
  t.a = t.connect();
  t.net.run_for(1ms);
  ASSERT_TRUE(t.passive.agent.reject(t.net.now, t.passive.last<RequestReceived>()->id, {}));
  t.net.run_for(1ms);
  ASSERT_EQ(t.active.count<Rejected>(t.a), 1U);
  Flight rep = t.net.log.back();
  const CmRej rej = sent_rej(t.net);
  CmMessage{.body = CmRep{.local_comm_id = rej.local_comm_id, .remote_comm_id = rej.remote_comm_id}}.emit(rep.octets);
  const auto before = t.active.agent.counters().duplicates;
  t.active.agent.handle_mad(t.net.now, rep.way, rep.octets);
  t.net.settle();
  EXPECT_EQ(t.active.agent.counters().duplicates, before + 1);
  EXPECT_EQ(sent_rej(t.net).reason, CmReject::invalid_comm_id);
}

// A set-up that the peer does not hear of any more.
TEST(IbcmReject, PeerThatRebootsBeforeItsRtuIsGivenUp) {
  Pair t({}, {.timers = back_off()});
  t.active.gets_ready = false;
  t.a = t.connect();
  t.net.run_for(1ms);
  t.active.agent = *Agent::create(Node::fixed(1, {.seed = 99}));
  t.net.run_for(100ms);
  ASSERT_EQ(t.passive.all<Rejected>().size(), 1U) << "by the REP sent again";
  EXPECT_EQ(t.passive.last<Rejected>()->reject.reason, CmReject::invalid_comm_id);
}

TEST(IbcmReject, MessagesFromAnotherGidAreNoneOfTheConnection) {
  Pair t;
  t.establish();
  ASSERT_TRUE(t.active.agent.disconnect(t.net.now, t.a));
  Flight dreq;
  t.net.fate = [&](const Flight& f, std::size_t) { return dreq = f, Fate{.copies = 0}; };
  t.net.settle();
  dreq.way.source = gid(77);
  t.passive.agent.handle_mad(t.net.now, dreq.way, dreq.octets);
  t.net.settle();
  EXPECT_EQ(t.passive.agent.state(t.b), State::established);
  EXPECT_EQ(t.passive.agent.counters().foreign, 1U);
}

}  // namespace
}  // namespace parley::cm::ibcm::reject_test
