// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// End-to-end flow control (IBA §9.7.7.2) and management packets that are none, in captures. Each rule broken, in many
// conversations: tests/adversary/roce.py.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "capture/report/json.hpp"
#include "tests/unit/capture/roce_kit.hpp"

namespace parley::capture::roce_credits_test {
namespace {

using test::keys_of;
using test::Operation;
using test::RoceTalk;
using testing::HasSubstr;
using wire::ib::CmReject;
using wire::ib::CmSubject;
using namespace std::chrono_literals;

constexpr std::uint32_t psn = 0xFFFFFE;

struct Terms {
  bool initiator = true, responder = true, shared = false;
};

RoceTalk begun(Terms terms = {}) {
  RoceTalk t;
  wire::ib::CmReq req = t.req();
  wire::ib::CmRep rep = t.rep();
  req.flow_control = terms.initiator;
  rep.flow_control = terms.responder;
  rep.srq = terms.shared;
  t.cm(0, req);
  t.cm(1, rep);
  t.cm(0, RoceTalk::rtu());
  t.data(0, Operation::send_only, psn);
  return t;  // 4 frames
}

/// With an ACK that says, long after all that, that its sender has executed so much and has no receive for more than it said.
std::string with_ack(RoceTalk t, std::uint32_t at, std::uint32_t msn, std::uint8_t syndrome, Duration later = 20ms) {
  t.ack(1, at, msn, syndrome, later);
  return keys_of(test::analyse(t.frames));
}

// Code 2 stands for two credits, and one message more may ask for others.
TEST(CaptureRoceCredits, OneMessageMoreThanTheCreditsMayGo) {
  RoceTalk t = begun();
  t.ack(1, psn, 1, 2);
  for (std::uint32_t i = 1; i <= 3; ++i) t.data(0, Operation::send_only, psn + i);
  EXPECT_EQ(with_ack(t, psn, 1, 2), "");
  t.data(0, Operation::write_only, psn + 4);  // takes no receive
  EXPECT_EQ(with_ack(t, psn, 1, 2), "");
  t.data(0, Operation::send_only, psn + 5);
  EXPECT_EQ(with_ack(t, psn, 1, 2), "warning ib.credit-limit frame 10 initiator");
  t.ack(1, psn + 1, 2, 1, 20ms);
  t.data(0, Operation::send_only, psn + 6);  // that it goes on so is no news
  t.ack(1, psn + 1, 2, 1, 20ms);
  EXPECT_EQ(keys_of(test::analyse(t.frames)), "warning ib.credit-limit frame 10 initiator");
  EXPECT_THAT(
      to_json("a", test::analyse(t.frames)),
      HasSubstr("SEND Only with PSN 0x000003, number 5 of what takes a receive; it has credits up "
                "to number 3 (frame 5), its peer has receives up to number 3 still in frame 11, and one more may "
                "ask for others"));
}

// Code 4 stands for 4 credits and for 5, code 5 for 6.
TEST(CaptureRoceCredits, ACodeStandsForAllUpToTheNext) {
  RoceTalk t = begun();
  t.ack(1, psn, 1, 4);
  for (std::uint32_t i = 1; i <= 6; ++i) t.data(0, Operation::send_only, psn + i);
  EXPECT_EQ(with_ack(t, psn, 1, 4), "");
  EXPECT_EQ(with_ack(t, psn, 1, 3), "warning ib.credit-limit frame 11 initiator");
}

TEST(CaptureRoceCredits, MessagesWithoutAReceiveCountForNone) {
  RoceTalk t = begun();
  for (std::uint32_t i = 1; i <= 8; ++i) t.data(0, Operation::write_only, psn + i);
  t.ack(1, psn + 8, 9, 0);
  t.data(0, Operation::send_only, psn + 9);
  EXPECT_EQ(with_ack(t, psn + 8, 9, 0), "");
  t.data(0, Operation::send_only, psn + 10);
  EXPECT_EQ(with_ack(t, psn + 8, 9, 0), "warning ib.credit-limit frame 15 initiator");
}

TEST(CaptureRoceCredits, ASendCountsFromItsFirstPacketAndAWriteFromItsLast) {
  RoceTalk t = begun();
  t.ack(1, psn, 1, 0);
  t.data(0, Operation::send_only, psn + 1);
  RoceTalk send = t;
  send.data(0, Operation::send_first, psn + 2, 256);
  EXPECT_EQ(with_ack(send, psn, 1, 0), "warning ib.credit-limit frame 7 initiator");
  t.data(0, Operation::write_first, psn + 2, 256);
  EXPECT_EQ(with_ack(t, psn, 1, 0), "");
}

TEST(CaptureRoceCredits, NobodyIsHeldToCreditsThatWereNotAgreedOrGivenUp) {
  const auto sends = [](RoceTalk t) {
    for (std::uint32_t i = 1; i <= 5; ++i) t.data(0, Operation::send_only, psn + i);
    return with_ack(t, psn, 1, 0);
  };
  EXPECT_EQ(sends(begun()), "");  // no credits were given
  RoceTalk deaf = begun({.initiator = false});
  deaf.ack(1, psn, 1, 0);
  EXPECT_EQ(sends(deaf), "");
  RoceTalk open = begun();
  open.ack(1, psn, 1, 0);
  EXPECT_EQ(sends(open), "warning ib.credit-limit frame 7 initiator");
  open.ack(1, psn, 1);
  EXPECT_EQ(sends(open), "");
}

// The ACK may be captured behind what it allows.
TEST(CaptureRoceCredits, NothingIsClaimedOfCreditsThatComeAtTheSameMoment) {
  RoceTalk t = begun();
  t.ack(1, psn, 1, 0);
  t.data(0, Operation::send_only, psn + 1);
  t.data(0, Operation::send_only, psn + 2);
  EXPECT_EQ(with_ack(t, psn, 1, 0), "warning ib.credit-limit frame 7 initiator");
  RoceTalk same = t;
  same.ack(1, psn, 1, 1, 19999us);
  EXPECT_EQ(keys_of(test::analyse(same.frames)), "");
  EXPECT_EQ(with_ack(t, psn, 1, 0, 19999us), "");  // nor of an ACK that may be of before
}

// What gave them leaves no gap where it is missing. Receives do not go away, so an ACK behind it would count them.
TEST(CaptureRoceCredits, CreditsOfAnAckThatTheCaptureLacksAccuseNobody) {
  RoceTalk t = begun();
  t.ack(1, psn, 1, 0);
  for (std::uint32_t i = 1; i <= 4; ++i) t.data(0, Operation::send_only, psn + i);
  EXPECT_EQ(keys_of(test::analyse(t.frames)), "");
  EXPECT_EQ(with_ack(t, psn + 4, 5, 0), "");  // all have had one
  EXPECT_EQ(with_ack(t, psn, 1, 3), "");
  RoceTalk given_up = t;
  given_up.ack(1, psn, 1, PARLEY_IB_CREDITS_NONE);
  EXPECT_EQ(with_ack(given_up, psn, 1, 0), "");
  EXPECT_EQ(with_ack(t, psn + 9, 1, 0), "");  // of what, the capture does not say
  EXPECT_EQ(with_ack(t, psn + 1, 2, 0), "");  // number 2 had one, so that number 3 was the one that may go
  EXPECT_EQ(with_ack(t, psn, 1, 0), "warning ib.credit-limit frame 7 initiator");
  t.data(0, Operation::send_only, psn + 9);  // what the capture lacks behind it changes no number
  EXPECT_EQ(with_ack(t, psn, 1, 0), "warning ib.credit-limit frame 7 initiator");
}

// A Send takes its receive with its first packet and counts with its last.
TEST(CaptureRoceCredits, AnAckWithinAMessageProvesNothing) {
  RoceTalk t = begun();
  t.ack(1, psn, 1, 0);
  t.data(0, Operation::send_first, psn + 1, 256);
  t.data(0, Operation::send_last, psn + 2);
  t.data(0, Operation::send_only, psn + 3);
  EXPECT_EQ(with_ack(t, psn + 1, 1, 0), "");
  EXPECT_EQ(with_ack(t, psn, 1, 0), "");
}

// An answer may be kept, and sent once more as it was.
TEST(CaptureRoceCredits, ARepeatedAnswerProvesNothing) {
  RoceTalk t = begun();
  t.data(0, Operation::fetch_add, psn + 1, 0);
  wire::ib::Packet answer = t.packet(1, Operation::atomic_acknowledge, psn + 1);
  answer.aeth = {0, 2};
  t.put(1, answer);
  t.data(0, Operation::send_only, psn + 2);
  t.data(0, Operation::send_only, psn + 3);
  RoceTalk again = t;
  again.put(1, answer, 20ms);
  EXPECT_EQ(keys_of(test::analyse(again.frames)), "");
  EXPECT_EQ(with_ack(t, psn + 1, 2, 0), "warning ib.credit-limit frame 8 initiator");
}

TEST(CaptureRoceCredits, SharedReceivesHaveNone) {
  RoceTalk t = begun({.shared = true});
  t.ack(1, psn, 1, 0);
  EXPECT_EQ(keys_of(test::analyse(t.frames)), "warning ib.credits frame 5 responder");
  EXPECT_THAT(to_json("a", test::analyse(t.frames)), HasSubstr("its receives are those of a shared queue"));
  RoceTalk none = begun({.responder = false, .shared = true});
  none.ack(1, psn, 1, 0);
  EXPECT_THAT(to_json("a", test::analyse(none.frames)), HasSubstr("it had said that it has no flow control"));
}

// A MAD is a UD Send Only: whatever stands behind another opcode is not a message of the CM.
TEST(CaptureRoceGsi, WhatHasAnUnassignedOpcodeIsNoMessage) {
  Bytes mad(PARLEY_IB_MAD_LEN);
  RoceTalk t;
  wire::ib::CmMessage{.transaction_id = 9, .body = t.req()}.emit(mad);
  wire::ib::Packet p;
  p.bth.opcode = 0x7F;
  p.bth.dest_qpn = PARLEY_IB_GSI_QPN;
  p.payload = mad;
  t.put(0, p);
  t.put(0, p);
  const FileReport r = test::analyse(t.frames);
  EXPECT_EQ(keys_of(r), "error ib.opcode frame 1 initiator; error ib.opcode frame 2 initiator");
  ASSERT_EQ(r.connections.size(), 1u);
  EXPECT_EQ(r.connections[0].ib->req_frame, 0u);
  EXPECT_EQ(r.connections[0].outcome, Outcome::not_captured);

  RoceTalk immediate;
  p.bth.opcode = wire::ib::opcode_of(wire::ib::Service::ud, Operation::send_only_imm);
  immediate.put(0, p);
  EXPECT_TRUE(test::analyse(immediate.frames).connections.empty());
}

// Without the REQ the sides are taken on trust.
TEST(CaptureRoceCm, NobodyIsBlamedForARoleWithoutTheReq) {
  for (const bool first : {true, false}) {
    RoceTalk t;
    if (first) t.cm(0, t.req());
    t.cm(1, wire::ib::CmDreq{.local_comm_id = 0xBBBB, .remote_comm_id = 0xAAAA, .remote_qpn = 0x11}, 2ms);
    t.cm(1, t.rep(), 2ms);
    t.cm(1, wire::ib::CmRtu{.local_comm_id = 0xBBBB, .remote_comm_id = 0xAAAA}, 2ms);
    t.cm(1, RoceTalk::rej(1, CmSubject::rep, CmReject::consumer), 2ms);
    t.cm(1, wire::ib::CmMra{.local_comm_id = 0xBBBB, .remote_comm_id = 0xAAAA, .about = CmSubject::rep}, 2ms);
    EXPECT_EQ(keys_of(test::analyse(t.frames)), first ? "error cm.role frame 4 responder; error cm.rej-about frame 5 "
                                                        "responder; error cm.mra-about frame 6 responder"
                                                      : "");
  }
}

// An RTU behind which a restarted responder answers anew may be about its answer of before, which the capture lacks.
TEST(CaptureRoceCm, TheRtuOfALostRepIsNotEarlyForTheNextOne) {
  RoceTalk t;
  t.cm(1, wire::ib::CmDrep{.local_comm_id = 1, .remote_comm_id = 2},
       2ms);  // of another connection: the REP's PSN is next
  t.cm(0, t.req(), 2ms);
  t.cm(0, RoceTalk::rtu(), 2ms);
  wire::ib::CmRep again = t.rep();
  RoceTalk same = t;
  same.cm(1, again, 20ms);
  EXPECT_EQ(keys_of(test::analyse(same.frames)), "error cm.rtu-before-rep frame 3 initiator");
  again.local_comm_id = 0xCCCC;
  t.cm(1, again, 20ms);
  EXPECT_EQ(keys_of(test::analyse(t.frames)), "");
}

// A connection that is over, and a REQ that comes again: the DREQ of the next one may be captured before its REP.
TEST(CaptureRoceCm, ADreqBehindTheEndMayBeOfTheNextConnection) {
  RoceTalk t;
  t.set_up().close();
  wire::ib::CmDreq next{.local_comm_id = 0xCCCC, .remote_comm_id = 0xAAAA, .remote_qpn = 0x11};
  wire::ib::CmRep rep = t.rep();
  rep.local_comm_id = 0xCCCC;
  rep.starting_psn = 77;
  RoceTalk soon = t;
  soon.cm(1, next, 3ms);
  EXPECT_EQ(keys_of(test::analyse(soon.frames)), "error cm.comm-id frame 6 responder");
  RoceTalk late = t;  // the REQ is not in the capture
  late.cm(1, next, 5s);
  late.cm(1, rep);
  EXPECT_EQ(keys_of(test::analyse(late.frames)), "");
  RoceTalk asked = t;
  asked.cm(0, asked.req(), 5s);
  asked.cm(1, next);
  asked.cm(1, rep);
  EXPECT_EQ(keys_of(test::analyse(asked.frames)), "");
  asked.frames.erase(asked.frames.begin() + 4);  // the DREP
  EXPECT_EQ(keys_of(test::analyse(asked.frames)), "");
  RoceTalk left = t;  // the initiator ends it, of which the capture has nothing else
  left.cm(0, wire::ib::CmDreq{.local_comm_id = 0xAAAA, .remote_comm_id = 0xCCCC, .remote_qpn = 0x33}, 5s);
  EXPECT_EQ(keys_of(test::analyse(left.frames)), "");
}

}  // namespace
}  // namespace parley::capture::roce_credits_test
