// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// RoCE connections in captures: what is told of them, and what is never claimed. Each rule broken, in many conversations:
// tests/adversary/roce.py; what Linux says: RoceGolden.
#include <map>

#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "capture/report/csv.hpp"
#include "capture/report/json.hpp"
#include "capture/report/text.hpp"
#include "tests/unit/capture/roce_kit.hpp"

namespace parley::capture {
namespace {

using test::keys_of;
using test::Operation;
using test::RoceTalk;
using testing::HasSubstr;
using wire::ib::CmReject;
using wire::ib::CmSubject;
using namespace std::chrono_literals;

ConnectionReport only_roce(const FileReport& r) {
  EXPECT_EQ(r.connections.size(), 1u);
  const ConnectionReport c = r.connections.empty() ? ConnectionReport{} : r.connections.front();
  EXPECT_TRUE(c.ib != nullptr);
  return c;
}

RoceTalk whole_talk(bool v2 = true) {
  RoceTalk t(v2);
  t.set_up();
  t.data(0, Operation::send_only, 0xFFFFFE);
  t.ack(1, 0xFFFFFE, 1);
  t.data(0, Operation::write_only, 0xFFFFFF, 256);
  t.data(0, Operation::send_first, 0, 256);
  t.data(0, Operation::send_last, 1, 4);
  t.ack(1, 1, 3);
  t.data(1, Operation::send_only, 500);
  t.ack(0, 500, 1);
  return t.close();
}

TEST(CaptureRoce, TellsWhatWasSetUpAndSent) {
  const FileReport r = test::analyse(whole_talk().frames);
  const ConnectionReport c = only_roce(r);
  EXPECT_EQ(keys_of(r), "");
  EXPECT_EQ(c.outcome, Outcome::established);
  EXPECT_EQ(c.judgement.standing, Standing::passed);
  EXPECT_EQ(c.end_text(Side::initiator), "192.0.2.1:0x000011");
  EXPECT_EQ(c.end_text(Side::responder), "192.0.2.2:0x000022");
  EXPECT_EQ(c.ib->service(), "tcp:7174");
  EXPECT_EQ(c.ib->source_port, 40000);
  EXPECT_EQ(c.ib->path_mtu, 256);
  EXPECT_EQ(c.ird, 3);  // 4 of the initiator, of which the responder uses 3
  EXPECT_EQ(c.ord, 2);
  EXPECT_EQ(c.from_initiator.messages, 3u);
  EXPECT_EQ(c.from_responder.messages, 1u);
  EXPECT_EQ(c.end, "DREQ by the initiator (frame 12), DREP by the responder (frame 13)");
  EXPECT_THAT(to_text("a", r), HasSubstr("192.0.2.1:0x000011 -> 192.0.2.2:0x000022  RoCEv2 RC, established, passed"));
  EXPECT_THAT(to_text("a", r), HasSubstr("13 packets, 0 TCP connections, 0 of them MPA, 1 RoCE connection: 1 passed"));
  const std::string json = to_json("a", r);
  EXPECT_THAT(json, HasSubstr(R"("transport":"roce","protocol":"ibcm","initiator":"192.0.2.1:0x000011")"));
  EXPECT_THAT(json, HasSubstr(R"("service":"tcp:7174","qp":"rc","ird":3,"ord":2)"));
  EXPECT_THAT(to_csv("a", r), HasSubstr(",passed,,true,ibcm,tcp:7174,rc,0,\n"));
}

TEST(CaptureRoce, ReadsVersionOne) {
  const FileReport r = test::analyse(whole_talk(false).frames);
  EXPECT_EQ(keys_of(r), "");
  EXPECT_FALSE(only_roce(r).ib->v2);
  EXPECT_EQ(r.other.rocev1, 13u);
}

TEST(CaptureRoce, ReservedBitsOfAMessageAreNamedByTheirOctet) {
  RoceTalk t;
  t.set_up();
  Bytes mad(PARLEY_IB_MAD_LEN);
  wire::ib::CmMessage{.transaction_id = 9, .body = RoceTalk::dreq()}.emit(mad);
  mad[35] = 1;  // behind the queue pair number
  wire::ib::Packet p;
  p.bth.opcode = wire::ib::opcode_of(wire::ib::Service::ud, Operation::send_only);
  p.bth.dest_qpn = PARLEY_IB_GSI_QPN;
  p.bth.psn = 300;
  p.deth = {PARLEY_IB_GSI_Q_KEY, PARLEY_IB_GSI_QPN, 0};
  p.payload = mad;
  t.put(0, p);
  t.cm(1, RoceTalk::drep());
  const FileReport r = test::analyse(t.frames);
  EXPECT_EQ(keys_of(r), "warning cm.reserved frame 4 initiator");
  EXPECT_THAT(to_text("a", r), HasSubstr("reserved bits set in octet 35 of its MAD (0x01)"));
}

TEST(CaptureRoce, AddressesInTheCmaHeaderAreThoseOfThePacket) {  // IBA Annex A11
  for (unsigned wrong = 0; wrong < 2; ++wrong) {
    RoceTalk t;
    wire::ib::CmReq req = t.req();
    wire::ib::CmaHeader{RoceTalk::address(wrong == 0 ? 8 : 0, 40000), RoceTalk::address(wrong == 1 ? 8 : 1, 0)}.emit(
        req.private_data);
    t.cm(0, req);
    const FileReport r = test::analyse(t.frames);
    EXPECT_EQ(keys_of(r), "warning cm.cma-address frame 1 initiator");
    EXPECT_THAT(to_json("a", r),
                HasSubstr(wrong == 0 ? "::ffff:192.0.2.9 as its source address, and comes from ::ffff:192.0.2.1"
                                     : "::ffff:192.0.2.9 as its destination address, and goes to ::ffff:192.0.2.2"));
  }
}

TEST(CaptureRoce, NothingStandsInsideAMessageOfSeveralPackets) {  // IBA §9.7.4
  RoceTalk t;
  t.set_up();
  t.data(0, Operation::send_first, 0xFFFFFE, 256);
  t.data(0, Operation::send_only, 0xFFFFFF);
  EXPECT_THAT(keys_of(test::analyse(t.frames)), HasSubstr("error ib.sequence frame 5 initiator"));
}

TEST(CaptureRoce, SaysInWordsWhyThereIsNoConnection) {
  RoceTalk t;
  t.cm(0, t.req());
  t.cm(1, RoceTalk::rej(1, CmSubject::req, CmReject::invalid_service_id));
  const FileReport refused = test::analyse(t.frames);
  EXPECT_EQ(only_roce(refused).outcome, Outcome::rejected);
  EXPECT_EQ(only_roce(refused).judgement.standing, Standing::passed);
  EXPECT_THAT(to_json("a", refused),
              HasSubstr(R"("reason":"invalid service ID: there is no listener there","retries":0)"));

  RoceTalk late;
  late.cm(0, late.req());
  late.cm(0, RoceTalk::rej(0, CmSubject::other, CmReject::timeout));
  const ConnectionReport gave_up = only_roce(test::analyse(late.frames));
  EXPECT_EQ(gave_up.outcome, Outcome::failed);
  EXPECT_EQ(gave_up.judgement.why, "the set-up failed: timeout: the sender gave up waiting");

  RoceTalk alone;
  for (int i = 0; i < 4; ++i) alone.cm(0, alone.req(), 5s);
  const ConnectionReport unheard = only_roce(test::analyse(alone.frames));
  EXPECT_EQ(unheard.judgement.why, "the set-up failed: no answer to 4 REQs");
  EXPECT_EQ(unheard.ib->retries, 3u);
  // One less, and it may still come.
  alone.frames.pop_back();
  EXPECT_EQ(only_roce(test::analyse(alone.frames)).outcome, Outcome::incomplete);
}

TEST(CaptureRoce, NakThatEndsTheConnectionFailsIt) {
  RoceTalk t;
  t.set_up();
  t.data(0, Operation::write_only, 0xFFFFFE);
  t.ack(1, 0xFFFFFE, 0, 0x62);
  const ConnectionReport c = only_roce(test::analyse(t.frames));
  EXPECT_EQ(c.judgement.why, "ended by a NAK of the responder (remote access error, frame 5)");
}

TEST(CaptureRoce, WhatNobodySetUpIsListedByItsQueuePairs) {
  RoceTalk t;
  t.data(0, Operation::send_only, 1000);
  t.ack(1, 1000, 17);
  t.data(1, Operation::send_only, 7);
  const ConnectionReport c = only_roce(test::analyse(t.frames));
  EXPECT_EQ(c.outcome, Outcome::not_captured);
  EXPECT_EQ(c.judgement.standing, Standing::partial);
  EXPECT_EQ(c.end_text(Side::responder), "192.0.2.2:0x000022");
  EXPECT_EQ(c.from_responder.messages, 1u);
  EXPECT_THAT(to_json("a", test::analyse(t.frames)), HasSubstr(R"("service":null,"qp":"rc","ird":null,"ord":null)"));
  EXPECT_THAT(to_csv("a", test::analyse(t.frames)), HasSubstr(",false,,,1,3,"));
  // Another use of the same queue pairs, far away and near.
  t.data(0, Operation::send_only, 2'000'000);
  EXPECT_EQ(test::analyse(t.frames).connections.size(), 2u);
  RoceTalk near;
  near.data(0, Operation::send_only, 1000);
  near.data(0, Operation::write_only, 1000);
  EXPECT_EQ(keys_of(test::analyse(near.frames)), "");
}

// Numbers of queue pairs are given again.
TEST(CaptureRoce, WhatUsesTheQueuePairsLaterIsAnotherConnection) {
  for (const bool ended : {true, false}) {
    RoceTalk t;
    t.set_up();
    t.data(0, Operation::send_only, 0xFFFFFE);
    if (ended) t.close();
    t.data(0, Operation::send_only, 0x700000, 8, 2s);  // before the starting PSN
    t.service = wire::ib::Service::uc;
    t.data(0, Operation::send_only, 5, 8, 2s);
    const FileReport r = test::analyse(t.frames);
    EXPECT_EQ(keys_of(r), "");
    EXPECT_EQ(r.connections.size(), 3u);
  }
}

TEST(CaptureRoce, LosesNothingOverTheEndOfThePsns) {
  RoceTalk t;
  t.set_up();
  for (std::uint32_t i = 0; i < 8; ++i) t.data(0, Operation::send_only, 0xFFFFFE + i);
  t.ack(1, 5, 8);
  EXPECT_EQ(keys_of(test::analyse(t.frames)), "");
  EXPECT_EQ(only_roce(test::analyse(t.frames)).ib->ends[0].missing_packets, 0u);
  t.frames.erase(t.frames.begin() + 5);
  const ConnectionReport c = only_roce(test::analyse(t.frames));
  EXPECT_EQ(c.ib->ends[0].missing_packets, 1u);
  EXPECT_EQ(c.judgement.why, "1 packet is not in the capture");
}

// Without the set-up the path MTU is not known, and so not how many PSNs a Read takes.
TEST(CaptureRoce, ResponsesOfALongReadAreNotMissingWhereTheSetUpIs) {
  for (const bool goes_on : {true, false}) {
    RoceTalk t;
    wire::ib::Packet read = t.packet(0, Operation::read_request, 1000);
    read.reth = {0x1000, 0x77, 10 * 256};
    t.put(0, read);
    t.data(1, Operation::read_response_first, 1000, 256);
    for (std::uint32_t i = 1; i < 9; ++i) t.data(1, Operation::read_response_middle, 1000 + i, 256);
    t.data(1, Operation::read_response_last, 1009, 256);
    if (goes_on) {
      t.data(0, Operation::send_only, 1010);
      t.ack(1, 1010, 2);
    }
    EXPECT_EQ(only_roce(test::analyse(t.frames)).ib->ends[0].missing_packets, 0u);
    // What is really missing still is.
    t.ack(1, goes_on ? 1012 : 1011, 4);
    EXPECT_EQ(only_roce(test::analyse(t.frames)).ib->ends[0].missing_packets, 2u);
  }
}

/// The words of the findings, by their keys.
std::map<std::string, std::string> words_of(const FileReport& r) {
  std::map<std::string, std::string> out;
  for (const auto& c : r.connections)
    for (const auto& f : c.findings) out.emplace(f.key(), f.text);
  return out;
}

TEST(CaptureRoce, NamesTheFieldsOfARequestThatIsRepeatedAsAnother) {
  RoceTalk t;
  t.cm(0, t.req());
  wire::ib::CmReq changed = t.req();
  changed.local_qpn = 0x99;
  changed.responder_resources = 7;
  t.cm(0, changed, 10s);
  const auto words = words_of(test::analyse(t.frames));
  ASSERT_TRUE(words.contains("cm.req-changed")) << fmt::format("{}", words);
  EXPECT_THAT(words.at("cm.req-changed"),
              testing::EndsWith("with the same communication ID: QPN, responder resources"));
}

TEST(CaptureRoce, SaysWhichResponseOfAReadIsOfTheWrongKind) {
  RoceTalk t;
  t.set_up();
  wire::ib::Packet read = t.packet(0, Operation::read_request, 0xFFFFFE);
  read.reth = {0x1000, 0x77, 3 * 256};
  t.put(0, read);
  t.data(1, Operation::read_response_first, 0xFFFFFE, 256);
  t.data(1, Operation::read_response_last, 0xFFFFFF, 256);
  const auto words = words_of(test::analyse(t.frames));
  ASSERT_TRUE(words.contains("ib.read-response")) << fmt::format("{}", words);
  EXPECT_THAT(words.at("ib.read-response"), HasSubstr("is packet 2 of the 3 that answer the Read of frame 4"));
}

// They go opposite ways, on paths that may differ.
TEST(CaptureRoce, OrderWithinTwentyMillisecondsProvesNothing) {
  for (const Duration later : {Duration(19ms), Duration(20ms)}) {
    RoceTalk t;
    t.set_up();
    t.data(0, Operation::send_only, 0xFFFFFE);
    t.ack(1, 0xFFFFFF, 1);
    t.data(0, Operation::send_only, 0xFFFFFF, 8, later);
    EXPECT_EQ(keys_of(test::analyse(t.frames)), later < 20ms ? "" : "error ib.ack-unsent frame 5 responder");
  }
}

TEST(CaptureRoce, RtuIsEarlyOnlyWhereTheRespondersPsnsProveIt) {
  for (const bool proven : {false, true}) {
    RoceTalk t;
    t.set_up();  // some other connection before
    t.frames.clear();
    if (proven) t.cm(1, RoceTalk::drep());
    t.cm(0, t.req(), 5ms);
    t.cm(0, RoceTalk::rtu(), 5ms);
    t.cm(1, t.rep(), 20ms);
    const std::string said = keys_of(test::analyse(t.frames));
    EXPECT_EQ(said.find("cm.rtu-before-rep frame 3") != std::string::npos, proven) << said;
  }
}

// It answers the repeated REQ as if it were the first, with another ID, queue pair and PSN.
TEST(CaptureRoce, AResponderThatWasStartedAgainIsNotTakenForABrokenOne) {
  for (const bool had_answered : {false, true})
    for (const bool asked_again : {true, false}) {
      RoceTalk t;
      t.cm(0, t.req());
      if (had_answered)
        t.cm(1, t.rep());
      else
        t.cm(1, wire::ib::CmMra{
                    .local_comm_id = 0xBBBB, .remote_comm_id = 0xAAAA, .about = CmSubject::req, .service_timeout = 24});
      if (asked_again) t.cm(0, t.req(), 80s);
      wire::ib::CmRep rep = t.rep();
      rep.local_comm_id = 0xCCCC;
      t.cm(1, rep);
      wire::ib::CmRtu rtu = RoceTalk::rtu();
      rtu.remote_comm_id = 0xCCCC;
      t.cm(0, rtu);
      t.data(0, Operation::send_only, 0xFFFFFE);
      t.ack(1, 0xFFFFFE, 1);
      const FileReport r = test::analyse(t.frames);
      EXPECT_EQ(keys_of(r).substr(0, 15), asked_again ? "warning cm.rest" : "error cm.comm-i") << keys_of(r);
      if (!asked_again) continue;
      EXPECT_EQ(keys_of(r), "warning cm.restarted frame 4 responder");
      EXPECT_EQ(only_roce(r).outcome, Outcome::established);
    }
}

// What a full listener says has no ID of its own yet, and may come behind what it says later.
TEST(CaptureRoce, AnAnswerForWantOfRoomNamesNoId) {
  const auto keys_behind = [](std::uint32_t id) {
    RoceTalk t;
    t.cm(0, t.req());
    t.cm(1,
         wire::ib::CmMra{.local_comm_id = 0, .remote_comm_id = 0xAAAA, .about = CmSubject::req, .service_timeout = 17});
    t.cm(0, t.req(), 80s);
    t.cm(1, t.rep());
    t.cm(0, RoceTalk::rtu());
    t.cm(1, wire::ib::CmMra{
                .local_comm_id = id, .remote_comm_id = 0xAAAA, .about = CmSubject::req, .service_timeout = 17});
    t.data(0, Operation::send_only, 0xFFFFFE);
    t.ack(1, 0xFFFFFE, 1);
    return keys_of(test::analyse(t.close().frames));
  };
  EXPECT_EQ(keys_behind(0), "");
  EXPECT_EQ(keys_behind(0xCCCC), "warning cm.restarted frame 6 responder");
}

// The REP of another answer to the repeated REQ is missing, and its REJ is not. A REQ that came once has one answer.
TEST(CaptureRoce, ARejectionMayBeOfAnAnswerThatIsMissing) {
  for (const bool repeated : {true, false}) {
    RoceTalk t;
    t.cm(0, t.req());
    if (repeated) t.cm(0, t.req(), 80s);
    t.cm(1, t.rep());
    t.cm(0, RoceTalk::rtu());
    t.cm(1, wire::ib::CmRej{.local_comm_id = 0xCCCC,
                            .remote_comm_id = 0xAAAA,
                            .about = CmSubject::other,
                            .reason = wire::ib::CmReject::no_resources});
    const std::string keys = keys_of(test::analyse(t.frames));
    EXPECT_EQ(keys.find("cm.comm-id") == std::string::npos, repeated) << keys;
  }
}

// The capture begins in the second life of the responder, whose peer ends the connection of the first meanwhile.
TEST(CaptureRoce, ANextLifeAnswersTheDreqOfTheOneBefore) {
  RoceTalk t;
  t.cm(0, t.req());
  t.cm(0, RoceTalk::rtu());
  t.cm(0, RoceTalk::dreq());
  t.cm(1, RoceTalk::drep());
  wire::ib::CmRep rep = t.rep();
  rep.local_comm_id = 0xCCCC;
  rep.local_qpn = 0x23;
  t.cm(1, rep);
  const std::string keys = keys_of(test::analyse(t.frames));
  EXPECT_EQ(keys.find("error"), std::string::npos) << keys;
}

// Two answers to a repeated REQ were held up together, and the first one counts: its starting PSN does.
TEST(CaptureRoce, TheStartingPsnIsThatOfTheAnswerThatWasTaken) {
  RoceTalk t;
  t.cm(0, t.req());
  t.cm(0, t.req(), 80s);
  t.cm(1, t.rep());
  wire::ib::CmRep rep = t.rep();
  rep.local_comm_id = 0xCCCC;
  rep.local_qpn = 0x23;
  rep.starting_psn = 0x100000;
  t.cm(1, rep);
  t.cm(1, t.rep());  // late, of before
  t.cm(0, RoceTalk::rtu());
  t.data(0, Operation::send_only, 0xFFFFFE);
  t.ack(1, 0xFFFFFE, 1);
  EXPECT_EQ(keys_of(test::analyse(t.frames)), "warning cm.restarted frame 4 responder");
}

/// The notes that name a departure: "frame N side: quirk".
std::string departures_of(const FileReport& r) {
  std::string out;
  for (const auto& c : r.connections)
    for (const auto& f : c.findings)
      if (const auto at = f.text.find("(quirk "); at != std::string::npos && f.severity == Severity::note)
        out += fmt::format("frame {} {}: {}", f.frame, f.side ? to_string(*f.side) : "", f.text.substr(at));
  return out;
}

// What a known peer is known for is told as its quirk, and is no finding.
TEST(CaptureRoce, DeparturesOfAKnownPeerAreNotesThatNameThem) {
  RoceTalk late;
  late.set_up().close();
  late.cm(0, late.req(), 5s);
  wire::ib::CmRep other = late.rep();
  other.local_comm_id = 0xCCCC;
  late.cm(1, other);
  EXPECT_EQ(keys_of(test::analyse(late.frames)), "");
  EXPECT_EQ(departures_of(test::analyse(late.frames)), "frame 7 responder: (quirk forgets-in-timewait)");

  RoceTalk mtu;
  wire::ib::CmReq req = mtu.req();
  req.path_mtu = 0;
  mtu.cm(0, req);
  mtu.cm(1, mtu.rep());
  EXPECT_EQ(keys_of(test::analyse(mtu.frames)), "error cm.path-mtu frame 1 initiator");
  EXPECT_EQ(departures_of(test::analyse(mtu.frames)), "frame 2 responder: (quirk takes-path-mtu)");

  RoceTalk type;
  req = type.req();
  req.service = wire::ib::CmService::rd;
  type.cm(0, req);
  type.cm(1, RoceTalk::rej(1, CmSubject::req, wire::ib::CmReject::consumer));
  EXPECT_EQ(departures_of(test::analyse(type.frames)), "frame 2 responder: (quirk rejects-service-type)");

  RoceTalk shorter;
  shorter.set_up();
  shorter.data(0, Operation::send_first, 0xFFFFFE, 100);
  shorter.ack(1, 0xFFFFFE, 0);
  EXPECT_EQ(keys_of(test::analyse(shorter.frames)), "error ib.length frame 4 initiator");
  EXPECT_EQ(departures_of(test::analyse(shorter.frames)), "frame 5 responder: (quirk takes-short-first)");

  RoceTalk again;
  again.set_up();
  wire::ib::Packet read = again.packet(0, Operation::read_request, 0xFFFFFE);
  read.reth = {0x1000, 0x77, 0};
  again.put(0, read);
  again.data(1, Operation::read_response_only, 0xFFFFFE, 0);
  again.put(0, read);
  again.ack(1, 0xFFFFFE, 1, 0x62);
  EXPECT_EQ(departures_of(test::analyse(again.frames)), "frame 7 responder: (quirk looks-read-up-again)");
}

// Its REQ that comes late is rejected: that is no rejection of the connection.
TEST(CaptureRoce, WhatWasEstablishedIsNotRejectedByTheRejectionOfItsLateReq) {
  RoceTalk t;
  t.set_up().close();
  t.cm(0, t.req(), 5s);
  t.cm(1, RoceTalk::rej(1, CmSubject::req, wire::ib::CmReject::consumer));
  const FileReport r = test::analyse(t.frames);
  EXPECT_EQ(only_roce(r).outcome, Outcome::established);
  EXPECT_EQ(keys_of(r), "");
}

// Whoever does the same in order is not told to have a quirk.
TEST(CaptureRoce, WhatIsInOrderNamesNoQuirk) {
  RoceTalk t;
  t.set_up();
  t.data(0, Operation::send_first, 0xFFFFFE, 256);
  t.ack(1, 0xFFFFFE, 0);
  wire::ib::Packet read = t.packet(0, Operation::read_request, 0x0);
  read.reth = {0x1000, 0x77, 8};
  t.put(0, read);
  t.ack(1, 0, 1, 0x62);
  EXPECT_EQ(departures_of(test::analyse(t.frames)), "");
  RoceTalk rejected;
  rejected.cm(0, rejected.req());
  rejected.cm(1, RoceTalk::rej(1, CmSubject::req, wire::ib::CmReject::consumer));
  EXPECT_EQ(departures_of(test::analyse(rejected.frames)), "");
}

// A rejection that was not remembered is made anew for each repetition, and those before were held up.
TEST(CaptureRoce, SeveralRejectionsOfARepeatedRequestMayComeTogether) {
  for (const int requests : {3, 1}) {
    RoceTalk t;
    for (int i = 0; i < requests; ++i) t.cm(0, t.req(), i == 0 ? 1ms : 5s);
    for (const std::uint32_t id : {0xBBBBU, 0xCCCCU, 0xDDDDU})
      t.cm(1, wire::ib::CmRej{.local_comm_id = id,
                              .remote_comm_id = 0xAAAA,
                              .about = CmSubject::req,
                              .reason = wire::ib::CmReject::invalid_path_mtu});
    const std::string said = keys_of(test::analyse(t.frames));
    EXPECT_EQ(said.substr(0, 15), requests == 3 ? "warning cm.rest" : "error cm.comm-i") << said;
    EXPECT_EQ(said.find("error") == std::string::npos, requests == 3) << said;
  }
}

TEST(CaptureRoce, CutPacketsAreJudgedAsFarAsTheyGo) {
  RoceTalk t;
  t.set_up();
  t.data(0, Operation::send_first, 0xFFFFFE, 256);
  t.data(0, Operation::send_last, 0xFFFFFF, 100);
  t.ack(1, 0xFFFFFF, 1);
  for (std::size_t i = 3; i < t.frames.size(); ++i) {
    t.frames[i].original_length = static_cast<std::uint32_t>(t.frames[i].octets.size());
    t.frames[i].octets.resize(std::min<std::size_t>(t.frames[i].octets.size(), 60));
  }
  const FileReport r = test::analyse(t.frames);
  EXPECT_EQ(keys_of(r), "");
  EXPECT_EQ(only_roce(r).from_initiator.messages, 1u);
  EXPECT_EQ(only_roce(r).from_initiator.octets, 356u);
}

TEST(CaptureRoce, TellsFrameAndOctetOfWhatCannotBeRead) {
  RoceTalk t;
  t.data(0, Operation::send_only, 1, 0);
  t.frames[0].octets.resize(14 + 28 + 10);
  t.frames[0].octets[17] = 28 + 10;  // lengths of IP and UDP
  t.frames[0].octets[14 + 20 + 5] = 8 + 10;
  const FileReport r = test::analyse(t.frames);
  EXPECT_TRUE(r.connections.empty());
  ASSERT_FALSE(r.notes.empty());
  EXPECT_THAT(r.notes[0], HasSubstr("frame 1, octet 42: 10 octets have no room for a BTH and an ICRC"));
}

TEST(CaptureRoce, DamagedPacketCountsForNothingElse) {
  RoceTalk t;
  t.set_up();
  wire::ib::Packet p = t.packet(0, Operation::send_last, 0xFFFFFE);  // would begin with a Last
  p.icrc = 1;
  t.put(0, p);
  EXPECT_EQ(keys_of(test::analyse(t.frames)), "error ib.icrc frame 4 initiator");
}

TEST(CaptureRoce, TheIcrcIsWrittenAsItsOctetsStandOnTheWire) {
  RoceTalk t;
  t.set_up();
  t.data(0, Operation::send_only, 0xFFFFFE);
  Bytes& octets = t.frames.back().octets;
  const std::string due = fmt::format("{:02x}", fmt::join(Bytes(octets.end() - 4, octets.end()), ""));
  octets.back() ^= 0x55;
  const ConnectionReport c = only_roce(test::analyse(t.frames));
  EXPECT_THAT(c.findings.back().text, testing::EndsWith("its octets give " + due));
}

TEST(CaptureRoce, OpcodesOfRdAndOfManufacturersAreAssigned) {
  constexpr std::size_t bth = 14 + 20 + 8;
  for (const int opcode : {0x44, 0xE3, 0x15}) {
    RoceTalk t;
    t.set_up();
    t.data(0, Operation::send_only, 0xFFFFFE);
    Bytes& octets = t.frames.back().octets;
    octets[bth] = static_cast<std::uint8_t>(opcode);
    const ConstBytes network = ConstBytes(octets).subspan(14);
    const auto parsed = wire::ib::RoceHeader::parse(wire::ethertype_ipv4, network);
    const std::uint32_t icrc = *wire::ib::icrc(parsed->network, parsed->packet.first(parsed->packet.size() - 4));
    for (std::size_t i = 0; i < 4; ++i) octets[octets.size() - 4 + i] = static_cast<std::uint8_t>(icrc >> (8 * i));
    EXPECT_EQ(keys_of(test::analyse(t.frames)), opcode == 0x15 ? "error ib.opcode frame 4 initiator" : "") << opcode;
  }
}

TEST(CaptureRoce, ACopyIsNoRetry) {
  RoceTalk t;
  t.set_up();
  t.frames.insert(t.frames.begin() + 1, t.frames[0]);
  const FileReport r = test::analyse(t.frames);
  EXPECT_EQ(keys_of(r), "");
  EXPECT_EQ(only_roce(r).ib->retries, 0u);
}

TEST(CaptureRoce, EndedOnesAreHandedOut) {
  const RoceTalk t = whole_talk();
  Analyzer a;
  std::uint64_t frame = 0;
  for (const test::Frame& f : t.frames)
    a.push({.frame = ++frame,
            .at = f.at,
            .link_type = 1,
            .original_length = static_cast<std::uint32_t>(f.octets.size()),
            .octets = f.octets});
  EXPECT_TRUE(a.take_ended(Instant{} + t.now + 1s).empty());
  EXPECT_EQ(a.take_ended(Instant{} + t.now + 9s).size(), 1u);
  EXPECT_EQ(a.finish().all_connections(), 1u);
}

TEST(CaptureRoce, FollowsABoundedNumberOfConnections) {
  RoceTalk t;
  t.data(0, Operation::send_only, 5);
  const test::Frame one = t.frames[0];
  Analyzer a;
  constexpr std::uint32_t many = 16'500;
  for (std::uint32_t i = 0; i < many; ++i) {
    Bytes octets = one.octets;
    octets[14 + 28 + 6] = static_cast<std::uint8_t>(1 + (i >> 8));  // the QPN, with which the ICRC is wrong
    octets[14 + 28 + 7] = static_cast<std::uint8_t>(i);
    a.push({.frame = i + 1,
            .at = one.at,
            .link_type = 1,
            .original_length = static_cast<std::uint32_t>(octets.size()),
            .octets = octets});
  }
  const FileReport r = a.finish();
  EXPECT_EQ(r.all_connections(), 16'384u);
  EXPECT_EQ(r.not_followed, many - 16'384u);
}

TEST(CaptureRoce, DrawsALineForEachPacket) {
  const FileReport r = test::analyse(whole_talk().frames, 1, true);
  const ConnectionReport c = only_roce(r);
  ASSERT_EQ(c.events.size(), 13u);
  EXPECT_EQ(c.events[0].text, "REQ QPN 0x000011 PSN 0x0001f4 IRD 4 ORD 2");
  EXPECT_EQ(c.events[3].text, "RC SEND Only PSN 0xfffffe 8 octets");
  EXPECT_EQ(c.events[4].text, "RC Acknowledge PSN 0xfffffe ACK MSN 1");
}

}  // namespace
}  // namespace parley::capture
