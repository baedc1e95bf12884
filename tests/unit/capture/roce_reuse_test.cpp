// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// A queue pair that is used again after an end that the capture lacks, and alternate paths that change often. Neither
// is an error (IBA §9.6, IBA §12.8).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/capture/roce_kit.hpp"

namespace parley::capture::roce_reuse_test {
namespace {

using test::keys_of;
using test::Operation;
using test::RoceTalk;
using namespace std::chrono_literals;

constexpr std::uint32_t first_psn = 0xFFFFFE;

RoceTalk after_a_send() {
  RoceTalk t;
  t.set_up().data(0, Operation::send_only, first_psn);
  t.ack(1, first_psn, 1);
  return t;  // 5 frames
}

/// A datagram of another queue pair of the initiator's host to the responder's queue pair.
std::size_t datagram(RoceTalk& t, std::uint32_t psn, Duration later) {
  wire::ib::Packet p = t.packet(0, Operation::send_only, psn);
  p.bth.opcode = wire::ib::opcode_of(wire::ib::Service::ud, Operation::send_only);
  p.deth = {0x1234, 0x77, 0};
  return t.put(0, p, later);
}

/// The initiator's next Send, and its ACK.
void go_on(RoceTalk& t, Duration later) {
  t.data(0, Operation::send_only, first_psn + 1, 8, later);
  t.ack(1, first_psn + 1, 2);
}

TEST(CaptureRoceReuse, DatagramsToAReusedQueuePairAreNoError) {
  for (const std::uint32_t psn : {0x1234u, first_psn + 1}) {
    RoceTalk t = after_a_send();
    for (std::uint32_t i = 0; i < 20; ++i) datagram(t, psn + i, 300ms);
    const FileReport r = test::analyse(t.frames);
    EXPECT_EQ(keys_of(r), "");
    ASSERT_EQ(r.connections.size(), 2U);  // the datagrams do not keep the connection alive
    EXPECT_EQ(r.connections[1].ib->qp, IbQp::ud);
  }
}

TEST(CaptureRoceReuse, ADatagramIsAnErrorIfTheConnectionGoesOn) {
  RoceTalk t = after_a_send();
  datagram(t, 0x1234, 1ms);
  datagram(t, 0x1235, 1ms);
  RoceTalk soon = t;
  go_on(soon, 1ms);
  EXPECT_EQ(keys_of(test::analyse(soon.frames)), "");  // the ACK may be older than the datagrams
  go_on(t, 30ms);
  datagram(t, 0x1236, 1ms);
  t.data(0, Operation::send_only, first_psn + 2, 8, 30ms);
  t.ack(1, first_psn + 2, 3);
  EXPECT_EQ(keys_of(test::analyse(t.frames)), "error ib.service frame 6 initiator");  // once
}

TEST(CaptureRoceReuse, AnotherServiceWithAnotherPsnIsAnErrorIfTheConnectionGoesOn) {
  RoceTalk t = after_a_send();
  wire::ib::Packet p = t.packet(0, Operation::send_only, 0x400000);
  p.bth.opcode = wire::ib::opcode_of(wire::ib::Service::uc, Operation::send_only);
  t.put(0, p, 1ms);
  EXPECT_EQ(keys_of(test::analyse(t.frames)), "");
  go_on(t, 30ms);
  EXPECT_EQ(keys_of(test::analyse(t.frames)), "error ib.service frame 6 initiator");
}

/// Two alternate paths, of transactions 21 and 22.
TEST(CaptureRoceReuse, AnAprWhoseLapIsMissingOrCapturedLateIsNoFault) {
  RoceTalk lost = after_a_send();
  lost.cm(0, lost.lap(), 1ms, 21);
  lost.cm(1, RoceTalk::apr(), 1ms, 21);
  RoceTalk late = lost;
  lost.cm(1, RoceTalk::apr(), 1ms, 22);
  EXPECT_EQ(keys_of(test::analyse(lost.frames)), "");
  late.cm(1, RoceTalk::apr(), 1ms, 22);
  late.cm(0, late.lap(), 1ms, 22);
  EXPECT_EQ(keys_of(test::analyse(late.frames)), "");
}

TEST(CaptureRoceReuse, AnAprWithTheTransactionOfTheReqIsWrong) {
  RoceTalk t = after_a_send();
  for (int i = 0; i < 20; ++i) t.cm(0, t.lap(), 1ms, 21);  // one transaction, sent again
  t.cm(1, RoceTalk::apr(), 1ms, 9);
  EXPECT_EQ(keys_of(test::analyse(t.frames)), "warning cm.transaction frame 26 responder");
}

TEST(CaptureRoceReuse, ManyAlternatePathsAreNoRetransmissions) {
  RoceTalk t = after_a_send();
  for (std::uint64_t i = 0; i < 18; ++i) {
    t.cm(0, t.lap(), 1ms, 21 + i);
    t.cm(1, RoceTalk::apr(), 1ms, 21 + i);
  }
  FileReport r = test::analyse(t.frames);
  EXPECT_EQ(keys_of(r), "");
  ASSERT_EQ(r.connections.size(), 1U);
  EXPECT_EQ(r.connections[0].ib->retries, 0U);
}

TEST(CaptureRoceReuse, ALapThatIsSentAgainIsARetransmission) {
  RoceTalk t = after_a_send();
  for (int i = 0; i < 3; ++i) t.cm(0, t.lap(), 5s, 21);
  t.cm(1, RoceTalk::apr(), 1ms, 21);
  const FileReport r = test::analyse(t.frames);
  ASSERT_EQ(r.connections.size(), 1U);
  EXPECT_EQ(r.connections[0].ib->retries, 2U);
}

// IBA §12.9. The PSNs of the responder's GSI prove the order of an MRA and a REP, but a REP behind the end is not the first.
TEST(CaptureRoceReuse, ARepBehindTheEndProvesNoEarlyRtu) {
  for (const bool ended : {false, true}) {
    RoceTalk t;
    t.cm(0, t.req());
    t.cm(1, wire::ib::CmMra{.local_comm_id = 0xBBBB, .remote_comm_id = 0xAAAA, .service_timeout = 20});
    t.cm(0, RoceTalk::rtu());
    if (ended) t.cm(0, RoceTalk::dreq());
    t.cm(1, t.rep(), 50ms);
    const std::string keys = keys_of(test::analyse(t.frames));
    EXPECT_EQ(keys.find("cm.rtu-before-rep") == std::string::npos, ended) << keys;
  }
}

}  // namespace
}  // namespace parley::capture::roce_reuse_test
