// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Requests of one flow that stand beside each other, whichever was captured first, and their retransmissions (IBA §9.7.3,
// IBA §9.7.4, IBA §9.7.5).
#include <gtest/gtest.h>

#include "tests/unit/capture/roce_kit.hpp"

namespace parley::capture::roce_requests_test {
namespace {

using test::keys_of;
using test::Operation;
using test::RoceTalk;

constexpr std::uint32_t first_psn = 0xFFFFFE;

/// A Read of so many octets, at a path MTU of 256.
void ask_read(RoceTalk& t, std::uint32_t at, std::uint32_t octets) {
  wire::ib::Packet p = t.packet(0, Operation::read_request, at);
  p.reth = {0x1000, 0x77, octets};
  t.put(0, p);
}

RoceTalk after_a_send() {
  RoceTalk t;
  t.set_up().data(0, Operation::send_only, first_psn);
  return t;  // 4 frames
}

TEST(CaptureRoceRequests, AReadMayBeAskedAgainForItsLastPacketAndNotForMore) {
  RoceTalk t = after_a_send();
  ask_read(t, first_psn + 1, 3 * 256);
  RoceTalk last = t;
  ask_read(last, first_psn + 3, 256);
  EXPECT_EQ(keys_of(test::analyse(last.frames)), "");
  ask_read(t, first_psn + 3, 2 * 256);
  EXPECT_EQ(keys_of(test::analyse(t.frames)), "error ib.read-psn frame 6 initiator");
}

TEST(CaptureRoceRequests, AFirstThatIsCapturedLateIsHeldToWhatFollows) {
  RoceTalk right = after_a_send();
  right.data(0, Operation::send_last, first_psn + 2);
  right.data(0, Operation::send_first, first_psn + 1, 256);
  EXPECT_EQ(keys_of(test::analyse(right.frames)), "");
  RoceTalk wrong = after_a_send();
  wrong.data(0, Operation::send_only, first_psn + 2);
  wrong.data(0, Operation::send_first, first_psn + 1, 256);
  EXPECT_EQ(keys_of(test::analyse(wrong.frames)), "error ib.sequence frame 5 initiator");
}

// IBA §9.6: the receiver drops a packet of another partition without an answer, until a sound copy arrives.
TEST(CaptureRoceRequests, ARequestThatMustBeDroppedIsNotAcknowledged) {
  RoceTalk t = after_a_send();
  wire::ib::Packet foreign = t.packet(0, Operation::send_only, first_psn + 1);
  const Bytes payload(8, 0x5A);
  foreign.payload = payload;
  foreign.bth.p_key = 0x1234;
  t.put(0, foreign);
  RoceTalk repeated = t;
  t.ack(1, first_psn + 1, 2);
  EXPECT_EQ(keys_of(test::analyse(t.frames)),
            "error ib.p-key frame 5 initiator; warning ib.ack-dropped frame 6 responder");
  repeated.data(0, Operation::send_only, first_psn + 1, 8, std::chrono::milliseconds(1));
  repeated.ack(1, first_psn + 1, 2);
  const FileReport r = test::analyse(repeated.frames);
  EXPECT_EQ(keys_of(r), "error ib.p-key frame 5 initiator");
}

// Several interfaces in one file: the later frame may have the earlier time.
TEST(CaptureRoceRequests, AConnectionBeginsAndEndsAtItsEarliestAndLatestTime) {
  RoceTalk t = after_a_send();
  t.data(0, Operation::send_only, first_psn + 1);
  const Instant begin = t.frames.front().at - std::chrono::milliseconds(1), end = t.frames.back().at;
  t.ack(1, first_psn + 1, 2);
  t.frames.back().at = begin;
  const FileReport r = test::analyse(t.frames);
  ASSERT_EQ(r.connections.size(), 1U);
  EXPECT_EQ(r.connections[0].first_at, begin);
  EXPECT_EQ(r.connections[0].last_at, end);
}

// One packet with a wrong length is told once; what all of them hold is not told beside it.
TEST(CaptureRoceRequests, AWriteWithAPacketThatIsTooShortIsNotBlamedForItsSumToo) {
  RoceTalk t = after_a_send();
  wire::ib::Packet first = t.packet(0, Operation::write_first, first_psn + 1);
  const Bytes full(256, 0x5A);
  first.payload = full;
  first.reth = {0x1000, 0x77, 2 * 256 + 8};
  t.put(0, first);
  t.data(0, Operation::write_middle, first_psn + 2, 252);
  t.data(0, Operation::write_last, first_psn + 3, 8);
  EXPECT_EQ(keys_of(test::analyse(t.frames)), "error ib.length frame 6 initiator");
}

/// A set-up with these RNR retry counts and local ACK timeout (10: 4.2 ms), and a first Send with its ACK: 5 frames.
RoceTalk with_retries(std::uint8_t rnr_retries, std::uint8_t ack_timeout = 10) {
  RoceTalk t;
  wire::ib::CmReq req = t.req();
  wire::ib::CmRep rep = t.rep();
  req.primary.local_ack_timeout = ack_timeout;
  req.retry_count = 7;
  req.rnr_retry_count = rep.rnr_retry_count = rnr_retries;
  t.cm(0, req);
  t.cm(1, rep);
  t.cm(0, RoceTalk::rtu());
  t.data(0, Operation::send_only, first_psn);
  t.ack(1, first_psn, 1);
  return t;
}

// IBA §9.7.5.2.8: the requester waits at least for the time of the RNR NAK's timer, here 491.52 ms.
TEST(CaptureRoceRequests, ARequesterWaitsForTheTimeOfTheRnrNak) {
  for (const bool soon : {true, false}) {
    RoceTalk t = with_retries(7, 19);
    t.data(0, Operation::send_only, first_psn + 1);
    t.ack(1, first_psn + 1, 1, PARLEY_IB_SYNDROME_RNR_NAK | 31);
    t.data(0, Operation::send_only, first_psn + 1, 8, std::chrono::milliseconds(soon ? 100 : 500));
    EXPECT_EQ(keys_of(test::analyse(t.frames)), soon ? "error ib.rnr-wait frame 8 initiator" : "");
  }
}

// IBA §12.6.5: an RNR retry count of 7 is unlimited.
TEST(CaptureRoceRequests, OnlyRnrRetryCountsBelowSevenAreLimits) {
  for (const std::uint8_t count : {std::uint8_t{6}, std::uint8_t{7}}) {
    RoceTalk t = with_retries(count);
    t.data(0, Operation::send_only, first_psn + 1);  // frame 6
    for (int i = 0; i <= count; ++i) {
      t.ack(1, first_psn + 1, 1, PARLEY_IB_SYNDROME_RNR_NAK | 1);
      t.data(0, Operation::send_only, first_psn + 1, 8, std::chrono::milliseconds(30));
    }
    EXPECT_EQ(keys_of(test::analyse(t.frames)), count == 6 ? "error ib.rnr-retries frame 20 initiator" : "");
  }
}

// IBA §9.7.5.2.1: after a NAK for a PSN sequence error the requester retransmits from the PSN of the NAK.
TEST(CaptureRoceRequests, ANakForALostRequestIsNotIgnored) {
  for (const bool again : {true, false}) {
    RoceTalk t = with_retries(7);
    t.data(0, Operation::send_only, first_psn + 1);
    t.data(0, Operation::send_only, first_psn + 2);
    t.ack(1, first_psn + 1, 1, PARLEY_IB_SYNDROME_NAK);  // frame 8
    if (again) t.data(0, Operation::send_only, first_psn + 1);
    for (std::uint32_t i = 3; i < 6; ++i)
      t.data(0, Operation::send_only, first_psn + i, 8, std::chrono::milliseconds(50));
    EXPECT_EQ(keys_of(test::analyse(t.frames)), again ? "" : "error ib.nak-ignored frame 9 initiator");
  }
}

// IBA §9.7.5: a Middle or Last response may belong to a Read that the capture lacks. After a Write it does not.
TEST(CaptureRoceRequests, AResponseToASendMayBelongToAReadThatTheCaptureLacks) {
  for (const bool lost : {true, false}) {
    RoceTalk t = after_a_send();
    if (!lost) t.data(0, Operation::write_only, first_psn + 1);
    t.data(0, Operation::send_only, first_psn + 2);
    wire::ib::Packet response = t.packet(1, Operation::read_response_last, first_psn + 2);
    const Bytes payload(8, 0x5A);
    response.payload = payload;
    response.aeth = {PARLEY_IB_CREDITS_NONE, 3};
    t.put(1, response);
    EXPECT_EQ(keys_of(test::analyse(t.frames)), lost ? "" : "error ib.response-kind frame 7 responder");
  }
}

TEST(CaptureRoceRequests, ARetransmissionIsCounted) {
  for (const bool set_up : {true, false}) {
    RoceTalk t;
    if (set_up) t.set_up();
    t.data(0, Operation::send_only, first_psn);
    t.data(0, Operation::send_only, first_psn, 8, std::chrono::seconds(5));
    const FileReport r = test::analyse(t.frames);
    ASSERT_EQ(r.connections.size(), 1U);
    EXPECT_EQ(r.connections[0].from_initiator.retransmissions, 1U);
    EXPECT_EQ(r.connections[0].from_initiator.messages, 1U);
  }
}

// With a set-up, another request with the same PSN is an error. Without one, the queue pair may be in use again.
TEST(CaptureRoceRequests, APsnIsReusedOnlyWithinOneUseOfTheQueuePair) {
  for (const bool set_up : {true, false}) {
    RoceTalk t;
    if (set_up) t.set_up();
    t.data(0, Operation::send_only, first_psn);
    t.data(0, Operation::write_only, first_psn);
    EXPECT_EQ(keys_of(test::analyse(t.frames)), set_up ? "error ib.psn-reused frame 5 initiator" : "");
  }
}

// Without the REQ, neither the initiator's QPN nor the path MTU is known.
TEST(CaptureRoceRequests, DataOfAConnectionWhoseReqIsNotCapturedBelongsToIt) {
  RoceTalk t;
  t.cm(1, t.rep());
  t.cm(0, RoceTalk::rtu());
  t.data(1, Operation::send_only, RoceTalk::psns[1]);
  t.data(0, Operation::send_only, first_psn);
  const FileReport r = test::analyse(t.frames);
  EXPECT_EQ(keys_of(r), "");
  ASSERT_EQ(r.connections.size(), 1U);
  EXPECT_EQ(r.connections[0].from_initiator.messages, 1U);
  EXPECT_EQ(r.connections[0].from_responder.messages, 1U);
}

// IBA §12.11.2: a SIDR_REP that rejects may have the service ID 0. Any other one is that of the SIDR_REQ.
TEST(CaptureRoceSidr, ARejectionMayLackTheServiceId) {
  for (const std::uint64_t service_id : {0, 8}) {
    RoceTalk t;
    t.cm(0, wire::ib::CmSidrReq{.request_id = 5, .service_id = 7});
    t.cm(1, wire::ib::CmSidrRep{
                .request_id = 5, .status = wire::ib::SidrStatus::unsupported_service_id, .service_id = service_id});
    EXPECT_EQ(keys_of(test::analyse(t.frames)), service_id == 0 ? "" : "error cm.sidr-service frame 2 responder");
  }
}

}  // namespace
}  // namespace parley::capture::roce_requests_test
