// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Requests of one flow that stand beside each other, whichever was captured first (IBA §9.7.3, IBA §9.7.4).
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

}  // namespace
}  // namespace parley::capture::roce_requests_test
