// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// What a peer's mistakes are answered with: the octets of every Terminate (RFC 5040 §4.8), and that it is the last
// word.
#include "test_pair.hpp"

namespace parley::nic::iwarp::test::terminate_test {
namespace {

const std::string no_octets;

/// A Send's header: DDP and RDMAP control octets, queue, MSN, MO.
std::string untagged(std::string_view control, std::uint32_t qn, std::uint32_t msn, std::uint32_t mo,
                     std::uint32_t word = 0) {
  return std::string(control) + Solo::hex32(word) + Solo::hex32(qn) + Solo::hex32(msn) + Solo::hex32(mo);
}
std::string tagged(std::string_view control, const std::string& stag, const std::string& to) {
  return std::string(control) + stag + to;
}
std::string zeros(std::size_t n) { return std::string(2 * n, '0'); }
std::string size16(std::size_t n) {
  return hex(std::array{static_cast<std::uint8_t>(n >> 8), static_cast<std::uint8_t>(n)});
}
/// Terminate header with M and D: layer, type and code, then the length of the segment and its header.
std::string with_ddp(std::string_view code, const std::string& header, std::size_t payload) {
  return std::string(code) + "c000" + size16(header.size() / 2 + payload) + header;
}

/// Feeds one segment and expects the Terminate, the state, and that nothing follows.
void expect_terminate(Solo& solo, const std::string& header, const std::string& payload, std::string_view code) {
  const std::string answer = solo.feed(header + payload);
  EXPECT_EQ(answer, Solo::terminate(with_ddp(code, header, payload.size() / 2)));
  EXPECT_EQ(solo.side.qp->rdmap_state(), RdmapState::terminate);
  ASSERT_TRUE(solo.side.qp->terminate().has_value());
  EXPECT_TRUE(solo.side.qp->terminate()->sent);
  EXPECT_FALSE(solo.side.qp->terminate()->text.empty());
  EXPECT_TRUE(solo.side.saw(QpEvent::Kind::terminate_queued));
  const cm::Failure& why = solo.side.events.back().failure;
  EXPECT_TRUE(why.rule.starts_with("RFC ")) << why.rule;
  EXPECT_FALSE(why.received.empty() || why.received.starts_with("RFC ")) << why.received;
  EXPECT_EQ(solo.feed(header + payload), no_octets);
}

TEST(Conformance, Row30_BadCrcTerminatesWith2002) {
  Solo solo;
  ASSERT_TRUE(solo.side.recv(1, {solo.buffer.all()}).has_value());
  Bytes fpdu = solo.fpdu(unhex(untagged("4143", 0, 1, 0) + "aabbccdd"));
  fpdu[20] ^= 1;
  solo.side.qp->handle_bytes(fpdu);
  EXPECT_EQ(hex(solo.side.transmit_all()),
            "001641470000000000000002000000010000000020020000"
            "7fe42585");
  EXPECT_EQ(solo.side.qp->rdmap_state(), RdmapState::terminate);
  const auto received = solo.side.recvs();
  ASSERT_EQ(received.size(), 1U);
  EXPECT_EQ(received[0].status, WcStatus::wr_flush_err);
  solo.side.drain_events();
  ASSERT_EQ(solo.side.events.size(), 1U);
  EXPECT_EQ(solo.side.events[0].kind, QpEvent::Kind::terminate_queued);
  EXPECT_EQ(solo.side.events[0].failure.code, make_error_code(Errc::crc_mismatch));
}

TEST(Conformance, Row28_WrongFpduptrTerminatesWith2003) {
  Solo solo([](AttachOptions& o) {
    o.parameters.rx_markers = true;
    o.parameters.crc = false;  // only the marker is wrong
  });
  ASSERT_TRUE(solo.side.recv(1, {solo.buffer.all()}).has_value());
  mpa::Framer framer({.crc = false, .markers = true, .emss = 1460});
  const Bytes ulpdu = unhex(untagged("4143", 0, 1, 0) + "aabbccdd");
  Bytes fpdu(framer.wire_size(ulpdu.size()));
  framer.frame(ulpdu, {}, fpdu);
  fpdu[3] += 4;
  solo.side.qp->handle_bytes(fpdu);
  const Bytes out = solo.side.transmit_all();
  ASSERT_EQ(out.size(), 28U);
  EXPECT_EQ(hex(ConstBytes(out).first(24)), "001641470000000000000002000000010000000020030000");
}

TEST(Conformance, Row49_DdpVersion0) {
  Solo untagged_solo, tagged_solo;
  expect_terminate(untagged_solo, untagged("4043", 0, 1, 0), "", "1206");
  expect_terminate(tagged_solo, tagged("c040", "00000100", zeros(8)), "", "1104");
}

TEST(Conformance, Row50_RdmapVersion0) {
  Solo solo;
  expect_terminate(solo, untagged("4103", 0, 1, 0), "", "0205");
}

TEST(Conformance, Row51_OpcodeF) {
  for (const char* control : {"414f", "414c", "414d", "414e"}) {
    Solo solo;
    expect_terminate(solo, untagged(control, 0, 1, 0), "", "0206");
  }
}

TEST(Conformance, Row52_WrongQueueMsnAndMo) {
  Solo queue, read_queue, msn, mo;
  expect_terminate(queue, untagged("4143", 5, 1, 0), "", "1201");
  expect_terminate(read_queue, untagged("4143", 1, 1, 0), "", "1201");
  expect_terminate(msn, untagged("4143", 0, 2, 0), "", "1203");
  ASSERT_TRUE(mo.side.recv(1, {mo.buffer.all()}).has_value());
  expect_terminate(mo, untagged("4143", 0, 1, 4), "", "1204");
}

TEST(Conformance, Row53_MessageTooLong) {
  Solo solo;
  ASSERT_TRUE(solo.side.recv(1, {solo.buffer.sge(0, 16)}).has_value());
  expect_terminate(solo, untagged("4143", 0, 1, 0), zeros(64), "1205");
  const auto received = solo.side.recvs();
  ASSERT_EQ(received.size(), 1U);
  EXPECT_EQ(received[0].status, WcStatus::wr_flush_err);
}

TEST(Conformance, Row53_MessageTooLongInALaterSegment) {
  Solo solo;
  ASSERT_TRUE(solo.side.recv(1, {solo.buffer.sge(0, 16)}).has_value());
  EXPECT_EQ(solo.feed(untagged("0143", 0, 1, 0) + zeros(16)), no_octets);
  expect_terminate(solo, untagged("4143", 0, 1, 16), "00", "1205");
}

TEST(Conformance, Row54_NoReceiveBuffer) {
  Solo solo;
  ASSERT_TRUE(solo.side.recv(1, {solo.buffer.all()}).has_value());
  EXPECT_EQ(solo.feed(untagged("4143", 0, 1, 0) + "01"), no_octets);
  expect_terminate(solo, untagged("4143", 0, 2, 0), "01", "1202");
  const auto received = solo.side.recvs();
  ASSERT_EQ(received.size(), 1U);  // the first one stays delivered
  EXPECT_EQ(received[0].status, WcStatus::success);
}

TEST(Conformance, Row55_TBitAgainstOpcode) {
  Solo send, write, response, request;
  expect_terminate(send, tagged("c143", "00000100", zeros(8)), "", "0206");
  expect_terminate(write, untagged("4140", 0, 1, 0), "", "0206");
  expect_terminate(response, untagged("4142", 0, 1, 0), "", "0206");
  expect_terminate(request, tagged("c141", "00000100", zeros(8)), "", "0206");
}

TEST(Conformance, Row56_WriteOutsideWhatIsAllowed) {
  Solo stag, stale, bounds, before, wrap;
  expect_terminate(stag, tagged("c140", "00000000", zeros(8)), "aabb", "1100");
  const std::uint32_t freed = stale.side.device->reg_mr(stale.side.pd, stale.buffer.memory, Access::remote_write)->rkey;
  ASSERT_TRUE(stale.side.device->dereg_mr(freed).has_value());
  const auto again = stale.side.device->reg_mr(stale.side.pd, stale.buffer.memory, Access::remote_write);
  EXPECT_EQ(again->lkey >> 8, freed >> 8);  // the slot is used again, the key tells
  expect_terminate(stale, tagged("c140", Solo::hex32(freed), stale.to()), "aabb", "1100");
  expect_terminate(bounds, tagged("c140", bounds.stag(), bounds.to(255)), "aabb", "1101");
  expect_terminate(before, tagged("c140", before.stag(), before.to(static_cast<std::uint64_t>(-1))), "aabb", "1101");
  expect_terminate(wrap, tagged("c140", wrap.stag(), "ffffffffffffffff"), "aabb", "1103");
}

TEST(NicTerminate, WriteToMemoryOfAnotherStreamOrWithoutTheRight) {
  Solo stream, right;
  const PdHandle other = stream.side.device->alloc_pd().value();
  Buffer foreign(*stream.side.device, other, 16);
  expect_terminate(stream, tagged("c140", Solo::hex32(foreign.region.lkey), stream.to()), "aabb", "1102");
  Buffer local(*right.side.device, right.side.pd, 16, Access::local_write | Access::remote_read);
  right.buffer.region = local.region;
  expect_terminate(right, tagged("c140", Solo::hex32(local.region.lkey), right.to()), "aabb", "0102");
}

TEST(Conformance, Row57_ZeroLengthWriteIsNotChecked) {
  Solo solo;
  EXPECT_EQ(solo.feed(tagged("c140", "00000000", zeros(8))), no_octets);
  EXPECT_EQ(solo.feed(tagged("c140", "ffffffff", "ffffffffffffffff")), no_octets);
  EXPECT_EQ(solo.side.qp->state(), QpState::rts);
}

std::string read_request(const std::string& sink, const std::string& sink_to, std::uint32_t size,
                         const std::string& source, const std::string& source_to) {
  return sink + sink_to + Solo::hex32(size) + source + source_to;
}

TEST(Conformance, Row58_ZeroLengthReadIsAnswered) {
  Solo solo;
  const std::string header = untagged("4141", 1, 1, 0);
  EXPECT_EQ(solo.feed(header + read_request("00000000", zeros(8), 0, "00000001", zeros(8))),
            "000ec142"
            "00000000"
            "0000000000000000"
            "6975d6ca");
  // The sink comes back as it was asked for.
  const std::string answer =
      solo.feed(untagged("4141", 1, 2, 0) + read_request("0000abcd", "0102030405060708", 0, "ffffffff", zeros(8)));
  EXPECT_EQ(answer.substr(0, 32), "000ec1420000abcd0102030405060708");
}

TEST(Conformance, Row59_ReadWithBadStag) {
  Solo solo;
  const std::string header = untagged("4141", 1, 1, 0);
  const std::string request = read_request("00000011", zeros(8), 16, "00000000", zeros(8));
  const std::string answer = solo.feed(header + request);
  EXPECT_EQ(answer, Solo::terminate("0100e000"
                                    "002e" +
                                    header + request));
  EXPECT_EQ(answer.substr(0, 4), "0046");
  EXPECT_EQ(solo.side.qp->rdmap_state(), RdmapState::terminate);
}

TEST(NicTerminate, ReadOutsideWhatIsAllowed) {
  const auto refused = [](Solo& solo, const std::string& source, const std::string& to, std::string_view code) {
    const std::string header = untagged("4141", 1, 1, 0), request = read_request("00000011", zeros(8), 16, source, to);
    EXPECT_EQ(solo.feed(header + request), Solo::terminate(std::string(code) + "e000002e" + header + request));
  };
  Solo bounds, wrap, stream, right;
  refused(bounds, bounds.stag(), bounds.to(241), "0101");
  refused(wrap, wrap.stag(), "fffffffffffffff8", "0104");
  Buffer foreign(*stream.side.device, stream.side.device->alloc_pd().value(), 16);
  refused(stream, Solo::hex32(foreign.region.lkey), stream.to(), "0103");
  Buffer closed(*right.side.device, right.side.pd, 16, Access::local_write | Access::remote_write);
  right.buffer.region = closed.region;
  refused(right, Solo::hex32(closed.region.lkey), right.to(), "0102");
}

TEST(Conformance, Row60_ReadsOverIrdTerminateWith1203) {
  Solo solo([](AttachOptions& o) { o.parameters.ird = 2; });
  Bytes in;
  std::string last;
  for (std::uint32_t msn = 1; msn <= 3; ++msn) {
    last = untagged("4141", 1, msn, 0);
    const Bytes fpdu = solo.fpdu(unhex(last + read_request("00000011", zeros(8), 4, solo.stag(), solo.to())));
    in.insert(in.end(), fpdu.begin(), fpdu.end());
  }
  solo.side.qp->handle_bytes(in);
  EXPECT_EQ(hex(solo.side.transmit_all()), Solo::terminate(with_ddp("1203", last, 28)));
}

TEST(NicTerminate, ReadsUpToIrdAreAnsweredInOrder) {
  Solo solo([](AttachOptions& o) { o.parameters.ird = 2; });
  solo.buffer.fill(1);
  for (std::uint32_t round = 0; round < 10; ++round) {
    Bytes in;
    for (std::uint32_t i = 1; i <= 2; ++i) {
      const Bytes fpdu = solo.fpdu(unhex(untagged("4141", 1, 2 * round + i, 0) +
                                         read_request(Solo::hex32(i), zeros(8), 4 * i, solo.stag(), solo.to())));
      in.insert(in.end(), fpdu.begin(), fpdu.end());
    }
    solo.side.qp->handle_bytes(in);
    const std::string out = hex(solo.side.transmit_all());
    EXPECT_EQ(out.substr(4, 12), "c14200000001");
    EXPECT_EQ(out.substr(48 + 4, 12), "c14200000002");
  }
  EXPECT_EQ(solo.side.qp->state(), QpState::rts);
}

TEST(Conformance, Row61_InvalidateOfForeignStag) {
  Solo unknown, foreign_pd, local_only;
  ASSERT_TRUE(unknown.side.recv(1, {unknown.buffer.all()}).has_value());
  expect_terminate(unknown, untagged("4144", 0, 1, 0, 0x12345601), "aa", "0109");
  ASSERT_TRUE(foreign_pd.side.recv(1, {foreign_pd.buffer.all()}).has_value());
  Buffer foreign(*foreign_pd.side.device, foreign_pd.side.device->alloc_pd().value(), 16);
  expect_terminate(foreign_pd, untagged("4146", 0, 1, 0, foreign.region.lkey), "aa", "0109");
  ASSERT_TRUE(local_only.side.recv(1, {local_only.buffer.all()}).has_value());
  Buffer kept(*local_only.side.device, local_only.side.pd, 16, Access::local_write);
  expect_terminate(local_only, untagged("4144", 0, 1, 0, kept.region.lkey), "aa", "0109");
}

// RFC 5041 §4.3: RsvdULP is the same in all segments of a message.
TEST(NicTerminate, AnInvalidateStagOrAnOpcodeThatChangesInsideAMessageTerminatesWith0206) {
  for (const bool opcode : {false, true}) {
    Solo solo;
    Buffer first(*solo.side.device, solo.side.pd, 16), second(*solo.side.device, solo.side.pd, 16);
    ASSERT_TRUE(solo.side.recv(1, {solo.buffer.all()}).has_value());
    EXPECT_EQ(solo.feed(untagged("0144", 0, 1, 0, first.region.lkey) + "aabbccdd"), no_octets);
    const std::uint32_t stag = opcode ? first.region.lkey : second.region.lkey;
    expect_terminate(solo, untagged(opcode ? "4146" : "4144", 0, 1, 4, stag), "aabb", "0206");
    EXPECT_EQ(solo.side.events.back().failure.rule, "RFC 5041 §4.3");
    const auto received = solo.side.recvs();
    ASSERT_EQ(received.size(), 1U);
    EXPECT_EQ(received[0].status, WcStatus::wr_flush_err);
    EXPECT_EQ(received[0].invalidated_rkey, 0U);
  }
}

TEST(Conformance, Row63_AfterATerminateNothingIsSentOrTaken) {
  Solo solo;
  Buffer from(*solo.side.device, solo.side.pd, 64);
  ASSERT_TRUE(solo.side.recv(1, {solo.buffer.all()}).has_value());
  ASSERT_TRUE(solo.side.send(2, {from.all()}).has_value());
  const std::string answer = solo.feed(untagged("4143", 0, 9, 0));
  EXPECT_EQ(answer, Solo::terminate(with_ddp("1203", untagged("4143", 0, 9, 0), 0)));  // the Send does not go out
  EXPECT_TRUE(solo.side.qp->drained());
  EXPECT_EQ(solo.side.sends().at(0).status, WcStatus::wr_flush_err);
  EXPECT_EQ(solo.side.recvs().at(0).status, WcStatus::wr_flush_err);
  EXPECT_EQ(solo.side.send(3, {from.all()}).error(), make_error_code(Errc::wrong_state));
  EXPECT_EQ(solo.side.recv(3, {from.all()}).error(), make_error_code(Errc::wrong_state));
  EXPECT_EQ(solo.feed(untagged("4143", 0, 1, 0)), no_octets);
}

TEST(NicTerminate, AnFpduThatTcpHasBegunIsFinishedBeforeTheTerminate) {
  Solo solo;
  Buffer from(*solo.side.device, solo.side.pd, 5000);
  from.fill(3);
  ASSERT_TRUE(solo.side.send(2, {from.all()}).has_value());
  Bytes out = solo.side.transmit(1000);
  const std::string header = untagged("4143", 0, 9, 0);
  solo.side.qp->handle_bytes(solo.fpdu(unhex(header)));
  EXPECT_EQ(solo.side.sends().at(0).status, WcStatus::wr_flush_err);
  std::fill(from.memory.begin(), from.memory.end(), std::uint8_t{0});  // the memory is the user's again
  const Bytes rest = solo.side.transmit_all();
  out.insert(out.end(), rest.begin(), rest.end());
  mpa::Deframer deframer({.crc = true, .markers = false, .emss = 1460});
  deframer.feed(out);
  mpa::FpduView view;
  Bytes last;
  while (deframer.next(view) == mpa::DeframeStatus::fpdu) last.assign(view.pieces[0].begin(), view.pieces[0].end());
  EXPECT_EQ(deframer.carried(), 0U);
  EXPECT_EQ(hex(last).substr(0, 4), "4147");
}

TEST(Conformance, Row68_ImmediateDataOf7Octets) {
  Solo shorter, longer;
  ASSERT_TRUE(shorter.side.recv(1, {}).has_value());
  expect_terminate(shorter, untagged("4148", 0, 1, 0), zeros(7), "0207");
  ASSERT_TRUE(longer.side.recv(1, {longer.buffer.all()}).has_value());
  expect_terminate(longer, untagged("4149", 0, 1, 0), zeros(9), "1205");
}

std::string atomic(std::uint32_t operation, const std::string& stag, const std::string& to) {
  return Solo::hex32(operation) + "00000005" + stag + to + "0000000000000001" + zeros(8) + zeros(8) + zeros(8);
}

TEST(NicTerminate, ImmediateDataWithAnotherMsnTerminatesWith1203) {  // RFC 5041 §4.3
  for (const std::uint32_t msn : {0U, 2U, 0xFFFFFFFFU})
    for (const char* const control : {"4148", "4149"}) {
      Solo solo;
      ASSERT_TRUE(solo.side.recv(1, {solo.buffer.all()}).has_value());
      expect_terminate(solo, untagged(control, 0, msn, 0), "0102030405060708", "1203");
    }
}

TEST(Conformance, Row69_MisalignedAtomic) {
  Solo solo;
  expect_terminate(solo, untagged("414a", 1, 1, 0), atomic(0, solo.stag(), solo.to(4)), "0207");
}

TEST(NicTerminate, AtomicsThatAreNotAllowed) {
  Solo operation, stag, bounds, right;
  expect_terminate(operation, untagged("414a", 1, 1, 0), atomic(1, operation.stag(), operation.to()), "0206");
  expect_terminate(stag, untagged("414a", 1, 1, 0), atomic(0, "00000000", stag.to()), "0100");
  expect_terminate(bounds, untagged("414a", 1, 1, 0), atomic(2, bounds.stag(), bounds.to(256)), "0101");
  Buffer closed(*right.side.device, right.side.pd, 16, Access::local_write | Access::remote_write);
  right.buffer.region = closed.region;
  expect_terminate(right, untagged("414a", 1, 1, 0), atomic(0, Solo::hex32(closed.region.lkey), right.to()), "0102");
}

TEST(NicTerminate, ResponsesThatNothingAskedFor) {
  Solo read, atomic_response;
  expect_terminate(read, tagged("c142", "00000100", zeros(8)), "", "0206");
  expect_terminate(atomic_response, untagged("414b", 3, 1, 0), zeros(12), "0206");
}

/// A Solo whose own Read of 16 octets is out.
struct Reader16 : Solo {
  Reader16() : Solo({}, mpa::Role::initiator) {
    const Sge sink = buffer.sge(0, 16);
    EXPECT_TRUE(
        side.qp
            ->post_send(
                {.wr_id = 1, .opcode = SendWr::Opcode::rdma_read, .sges = {&sink, 1}, .remote_addr = 0, .rkey = 0x4711})
            .has_value());
    EXPECT_EQ(hex(side.transmit_all()).size(), 2 * 52U);
  }
};

TEST(NicTerminate, ReadResponseIsHeldToWhatWasAsked) {
  Reader16 stag, to, too_long, too_short;
  expect_terminate(stag, tagged("c142", "00000199", stag.to()), zeros(16), "1100");
  expect_terminate(to, tagged("c142", to.stag(), to.to(1)), zeros(16), "1101");
  expect_terminate(too_long, tagged("c142", too_long.stag(), too_long.to()), zeros(17), "1101");
  expect_terminate(too_short, tagged("c142", too_short.stag(), too_short.to()), zeros(15), "0207");
  for (Reader16* solo : {&stag, &to, &too_long, &too_short})
    EXPECT_EQ(solo->side.sends().at(0).status, WcStatus::bad_resp_err);
}

TEST(NicTerminate, AReceivedTerminateFlushesAndNamesTheReadThatFailed) {
  Reader16 solo;
  ASSERT_TRUE(solo.side.recv(9, {solo.buffer.sge(100, 10)}).has_value());
  const std::string header = untagged("4141", 1, 1, 0);
  const std::string request = read_request(solo.stag(), solo.to(), 16, "00004711", zeros(8));
  EXPECT_EQ(solo.feed(untagged("4147", 2, 1, 0) + "0100e000002e" + header + request), no_octets);
  EXPECT_EQ(solo.side.qp->rdmap_state(), RdmapState::terminate);
  EXPECT_EQ(solo.side.sends().at(0).status, WcStatus::rem_access_err);
  EXPECT_EQ(solo.side.recvs().at(0).status, WcStatus::wr_flush_err);
  const TerminateInfo& info = *solo.side.qp->terminate();
  EXPECT_FALSE(info.sent);
  EXPECT_EQ(info.text, "remote protection: invalid STag");
  EXPECT_TRUE(solo.side.saw(QpEvent::Kind::terminate_received));
  EXPECT_FALSE(solo.side.qp->has_transmit());
}

// RFC 5040 §4.8: the header that the Terminate carries says which; the others were only flushed with it.
TEST(NicTerminate, AReceivedTerminateBlamesTheOneReadThatItQuotesAmongSeveral) {
  Solo solo({}, mpa::Role::initiator);
  for (std::uint64_t i = 1; i <= 4; ++i) {
    const Sge sink = solo.buffer.sge(16 * i, 16);
    const SendWr read{.wr_id = i, .opcode = SendWr::Opcode::rdma_read, .sges = {&sink, 1}, .rkey = 0x4711};
    ASSERT_TRUE(solo.side.qp->post_send(read).has_value());
  }
  (void)solo.side.transmit_all();
  const std::string request = read_request(solo.stag(), solo.to(48), 16, "00004711", zeros(8));
  EXPECT_EQ(solo.feed(untagged("4147", 2, 1, 0) + "0100e000002e" + untagged("4141", 1, 3, 0) + request), no_octets);
  const auto done = solo.side.sends();
  ASSERT_EQ(done.size(), 4U);
  for (const WorkCompletion& one : done)
    EXPECT_EQ(one.status, one.wr_id == 3 ? WcStatus::rem_access_err : WcStatus::wr_flush_err) << one.wr_id;
}

// Queues number their messages each for itself: MSN 1 of the Sends is not MSN 1 of the Reads.
TEST(NicTerminate, AReceivedTerminateThatQuotesASendBlamesNoRead) {
  Reader16 solo;
  EXPECT_EQ(solo.feed(untagged("4147", 2, 1, 0) + "0100c0000016" + untagged("4143", 0, 1, 0)), no_octets);
  EXPECT_EQ(solo.side.sends().at(0).status, WcStatus::wr_flush_err);
}

TEST(NicTerminate, AReceivedTerminateThatQuotesARequestThatWasNeverSentBlamesNobody) {
  Solo solo({}, mpa::Role::initiator);
  const SendWr read{.wr_id = 2, .opcode = SendWr::Opcode::rdma_read, .rkey = 0x4711};
  ASSERT_TRUE(solo.side.send(1, {solo.buffer.sge(0, 8)}).has_value());
  std::vector<ConstBytes> list(16);
  ASSERT_GT(solo.side.qp->gather(list), 0U);  // framed, and TCP takes none of it
  ASSERT_TRUE(solo.side.qp->post_send(read).has_value());
  const std::string request = read_request(solo.stag(), solo.to(), 0, "00004711", zeros(8));
  EXPECT_EQ(solo.feed(untagged("4147", 2, 1, 0) + "0100e000002e" + untagged("4141", 1, 0, 0) + request), no_octets);
  for (const WorkCompletion& one : solo.side.sends()) EXPECT_EQ(one.status, WcStatus::wr_flush_err) << one.wr_id;
}

// No Terminate is longer than its headers; what is behind them is nobody's.
TEST(NicTerminate, ATerminateWithMoreOctetsThanAnyHasIsReadAsFarAsItGoes) {
  Reader16 solo;
  const std::string request = read_request(solo.stag(), solo.to(), 16, "00004711", zeros(8));
  const std::string body = "0100e000002e" + untagged("4141", 1, 1, 0) + request + zeros(20000);
  EXPECT_EQ(solo.feed(untagged("4147", 2, 1, 0) + body), no_octets);
  EXPECT_EQ(solo.side.qp->terminate()->text, "remote protection: invalid STag");
  EXPECT_EQ(solo.side.sends().at(0).status, WcStatus::rem_access_err);
}

TEST(NicTerminate, ATerminateOfOnesOwnSaysHowFarThePeerWasRead) {
  Solo solo;
  EXPECT_EQ(solo.feed(tagged("c140", "00000001", zeros(8))), no_octets);  // an FPDU of 20 octets
  solo.side.qp->send_terminate(PARLEY_RDMAP_LAYER_RDMAP, 2, 0xFF);
  ASSERT_TRUE(solo.side.saw(QpEvent::Kind::terminate_queued));
  EXPECT_EQ(solo.side.events.back().failure.offset, 20U);
}

// Linux siw writes octet 0 with its nibbles exchanged and M, D, R in the low bits.
TEST(NicTerminate, ATerminateInSiwsOrderIsUnderstood) {
  Solo solo;
  solo.feed(untagged("4147", 2, 1, 0) +
            "21030300"
            "0000" +
            untagged("4143", 0, 2, 0));
  const TerminateInfo& info = *solo.side.qp->terminate();
  EXPECT_TRUE(info.nibbles_swapped);
  EXPECT_EQ(info.layer, 1);
  EXPECT_EQ(info.etype, 2);
  EXPECT_EQ(info.code, 3);
  EXPECT_NE(info.text.find("siw"), std::string::npos);
}

TEST(NicTerminate, AmbiguousTerminatesAreGivenBothReadings) {
  Solo as_sent, exchanged;
  as_sent.feed(untagged("4147", 2, 1, 0) + "20050000");
  EXPECT_FALSE(as_sent.side.qp->terminate()->nibbles_swapped);
  EXPECT_EQ(as_sent.side.qp->terminate()->layer, 2);
  EXPECT_NE(as_sent.side.qp->terminate()->text.find("RDMAP version"), std::string::npos);
  exchanged.feed(untagged("4147", 2, 1, 0) + "02070000");
  EXPECT_TRUE(exchanged.side.qp->terminate()->nibbles_swapped);
  EXPECT_EQ(exchanged.side.qp->terminate()->text.find("MPA: no matching RTR"), 0U);
  EXPECT_NE(exchanged.side.qp->terminate()->text.find("catastrophic"), std::string::npos);
}

TEST(NicTerminate, TheOtherLayersTerminatesHaveTheRfcsOctets) {
  const std::pair<std::uint8_t, const char*> rows[] = {
      {4, "68129454"}, {5, "1680d5f1"}, {6, "6540fb1b"}, {7, "1bd2babe"}};
  for (const auto& [code, crc] : rows) {
    Solo solo;
    solo.side.qp->send_terminate(2, 0, code);
    solo.side.qp->send_terminate(2, 0, 1);  // one per stream
    EXPECT_EQ(hex(solo.side.transmit_all()),
              "0016414700000000000000020000000100000000"
              "200" +
                  std::to_string(code) + "0000" + crc);
    EXPECT_TRUE(solo.side.qp->drained());
  }
}

TEST(NicTerminate, AUlpduShorterThanItsHeaderEndsTheStream) {
  Solo solo;
  EXPECT_EQ(solo.feed("414300000000"), Solo::terminate("10000000"));
}

TEST(NicTerminate, TheFenceHoldsATerminateThatNoFpduCausedAndLetsOutOneThatWasProvoked) {
  Solo silent([](AttachOptions& o) { o.fenced = true; });
  silent.side.qp->send_terminate(2, 0, 7);
  EXPECT_EQ(hex(silent.side.transmit_all()), no_octets);
  EXPECT_EQ(silent.side.qp->rdmap_state(), RdmapState::error);
  EXPECT_TRUE(silent.side.saw(QpEvent::Kind::failed));
  Solo provoked([](AttachOptions& o) { o.fenced = true; });
  expect_terminate(provoked, untagged("4143", 0, 7, 0), "", "1203");
}

}  // namespace
}  // namespace parley::nic::iwarp::test::terminate_test
