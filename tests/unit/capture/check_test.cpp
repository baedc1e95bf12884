// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// One broken rule per test: it is found, it is the culprit who is named, and nothing else is said.
#include <gtest/gtest.h>

#include "base/text.hpp"
#include "capture/report/text.hpp"
#include "capture/report/text_ladder.hpp"
#include "tests/unit/capture/exchange.hpp"

namespace parley::capture::check_test {
namespace {

using test::Exchange;
using test::fpdu;
using test::send_segment;
using wire::MpaKey;
using wire::RdmapOpcode;

constexpr std::uint8_t C = PARLEY_MPA_FLAG_C, S = PARLEY_MPA_FLAG_S;

/// The only error of the capture, with its rule.
std::string only_error(const Exchange& x) {
  const FileReport r = test::analyse(x.frames);
  if (r.count(Severity::error) != 1)
    return test::words(r) + "(errors: " + std::to_string(r.count(Severity::error)) + ")";
  for (const auto& f : r.connections[0].findings)
    if (f.severity == Severity::error) return f.text + " [" + f.rule + "]";
  return {};
}
Exchange with_ulpdus(std::initializer_list<std::pair<unsigned, Bytes>> ulpdus) {
  Exchange x;
  x.set_up();
  for (const auto& [from, ulpdu] : ulpdus) x.send(from, fpdu(ulpdu));
  return x.close();
}
Exchange enhanced(wire::MpaEnhanced q, wire::MpaEnhanced r) {
  Exchange x;
  x.open().send(0, test::startup(MpaKey::req, C | S, 2, q)).send(1, test::startup(MpaKey::rep, C | S, 2, r));
  return x;
}
ConnectionReport one(const Exchange& x) {
  FileReport r = test::analyse(x.frames);
  return r.connections.empty() ? ConnectionReport{} : r.connections[0];
}

TEST(CaptureCheck, ResponderThatSpeaksFirstBreaksTheFence) {  // RFC 5044 §7.1.2 rule 4
  EXPECT_NE(only_error(with_ulpdus({{1, send_segment(1, 8)}, {0, send_segment(1, 8)}})).find("rule 4"),
            std::string::npos);
  EXPECT_EQ(test::words(test::analyse(with_ulpdus({{0, send_segment(1, 8)}, {1, send_segment(1, 8)}}).frames)), "");
}

TEST(CaptureCheck, CrcErrorIsTheSendersAndNotThatOfACutPacket) {  // RFC 5044 §4.4
  Exchange x;
  x.set_up();
  Bytes bad = fpdu(send_segment(1, 8));
  bad.back() ^= 1;
  x.send(0, bad).close();
  EXPECT_NE(only_error(x).find("the initiator sent an FPDU with CRC"), std::string::npos);
  for (auto& f : x.frames) {
    f.original_length = static_cast<std::uint32_t>(f.octets.size());
    f.octets.resize(std::min<std::size_t>(f.octets.size(), 84));
  }
  EXPECT_EQ(test::analyse(x.frames).count(Severity::error), 0u);
}

TEST(CaptureCheck, WrongMarkerIsFoundThoughTheCrcIsRight) {  // RFC 5044 §4.3
  Exchange x;
  x.open().send(0, test::startup(MpaKey::req, C, 1)).send(1, test::startup(MpaKey::rep, C | PARLEY_MPA_FLAG_M, 1));
  Bytes f = fpdu(send_segment(1, 600), 0, true);
  f[512 + 3] ^= 0x10;
  const std::uint32_t crc = mpa::crc32c(ConstBytes(f).first(f.size() - 4));
  for (std::size_t i = 0; i < 4; ++i) f[f.size() - 4 + i] = static_cast<std::uint8_t>(crc >> (8 * i));
  x.send(0, f).close();
  EXPECT_NE(only_error(x).find("wrong markers"), std::string::npos);
}

TEST(CaptureCheck, FpdusAreFoundAgainAfterALoss) {  // RFC 5044 §6
  for (const bool markers : {false, true}) {
    Exchange x;
    x.open()
        .send(0, test::startup(MpaKey::req, C, 1))
        .send(1, test::startup(MpaKey::rep, markers ? C | PARLEY_MPA_FLAG_M : C, 1));
    std::uint64_t at = 0;
    for (std::uint32_t msn = 1; msn <= 60; ++msn) {
      const Bytes f = fpdu(send_segment(msn, 300), at, markers);
      at += f.size();
      x.send(0, f, 130);
      if (msn % 4 == 0) x.acknowledge(1);
    }
    x.close();
    x.frames.erase(x.frames.begin() + 40, x.frames.begin() + 43);
    const FileReport r = test::analyse(x.frames);
    EXPECT_EQ(r.count(Severity::error), 0u) << test::words(r);
    EXPECT_GE(r.connections[0].from_initiator.fpdus, 56u) << test::words(r);
    EXPECT_TRUE(test::has(r, Severity::note, "can be followed again")) << test::words(r);
  }
}

TEST(CaptureCheck, MessageNumbersAndOffsets) {  // RFC 5041 §4.3, §5.2
  EXPECT_EQ(only_error(with_ulpdus({{0, send_segment(2, 8)}})),
            "the initiator sent a Send with MSN 2, 1 was expected (queue 0) [RFC 5041 §4.3]");
  EXPECT_NE(only_error(with_ulpdus({{0, send_segment(1, 8, 0, false)}, {0, send_segment(1, 8, 12)}}))
                .find("MO 12, 8 was expected"),
            std::string::npos);
  EXPECT_NE(only_error(with_ulpdus({{0, send_segment(1, 8, 4)}})).find("a message begins at 0"), std::string::npos);
  // The last segment came early, and something stands behind it, before what it waits for.
  const auto behind = [](std::uint32_t mo) {
    return test::words(test::analyse(
        with_ulpdus(
            {{0, send_segment(1, 8, 0, false)}, {0, send_segment(1, 8, 16)}, {0, send_segment(1, 8, mo, false)}})
            .frames));
  };
  for (const std::uint32_t mo : {24u, 25u})
    EXPECT_NE(behind(mo).find("sent a Send segment with MO " + std::to_string(mo) +
                              " behind the last segment of the message (queue 0, MSN 1)"),
              std::string::npos)
        << behind(mo);
  EXPECT_EQ(behind(8).find("behind the last"), std::string::npos) << behind(8);
  EXPECT_NE(only_error(with_ulpdus({{0, send_segment(1, 8, 0, false)}, {0, send_segment(2, 8)}}))
                .find("before the last segment"),
            std::string::npos);
}

TEST(CaptureCheck, TaggedSegmentsContinueWhereTheyStopped) {  // RFC 5041 §5.2
  const auto write = [](std::uint64_t to, bool last) {
    return test::tagged(RdmapOpcode::rdma_write, 5, to, 100, last);
  };
  EXPECT_EQ(test::words(test::analyse(with_ulpdus({{0, write(0, false)}, {0, write(100, true)}}).frames)), "");
  EXPECT_NE(only_error(with_ulpdus({{0, write(0, false)}, {0, write(104, true)}})).find("TO 0x64 was expected"),
            std::string::npos);
  EXPECT_NE(only_error(with_ulpdus({{0, write(~0ULL - 10, true)}})).find("wraps"), std::string::npos);
}

TEST(CaptureCheck, ReadResponsesFitTheirRequests) {  // RFC 5040 §4.5, §5.2
  const Bytes go = send_segment(1, 4), ask = test::read_request(1, {7, 0x100, 20, 8, 0});
  const auto answer = [](std::uint32_t stag, std::uint64_t to, std::size_t n) {
    return test::tagged(RdmapOpcode::read_response, stag, to, n);
  };
  EXPECT_EQ(test::words(test::analyse(with_ulpdus({{0, ask}, {1, answer(7, 0x100, 20)}}).frames)), "");
  EXPECT_NE(only_error(with_ulpdus({{0, ask}, {1, answer(7, 0x104, 20)}})).find("its sink is STag 0x00000007 TO 0x100"),
            std::string::npos);
  EXPECT_NE(only_error(with_ulpdus({{0, ask}, {1, answer(7, 0x100, 24)}})).find("which asked for 20"),
            std::string::npos);
  EXPECT_NE(only_error(with_ulpdus({{0, ask}, {1, answer(7, 0x100, 12)}})).find("after 12 octets"), std::string::npos);
  EXPECT_NE(only_error(with_ulpdus({{0, go}, {1, answer(7, 0x100, 12)}})).find("no Read is outstanding"),
            std::string::npos);
}

TEST(CaptureCheck, MoreReadsThanAgreed) {  // RFC 5040 §5.2.1, RFC 6581 §9.1
  Exchange x = enhanced({.ird = 2, .ord = 2}, {.ird = 2, .ord = 2});
  for (std::uint32_t msn = 1; msn <= 3; ++msn) x.send(0, fpdu(test::read_request(msn, {1, 0, 4, 2, 0})));
  EXPECT_NE(only_error(x).find("the initiator has 3 RDMA Reads outstanding, 2 were agreed"), std::string::npos);
  Exchange free = enhanced({.ird = 2, .ord = 0x3FFF}, {.ird = 0x3FFF, .ord = 2});
  for (std::uint32_t msn = 1; msn <= 9; ++msn) free.send(0, fpdu(test::read_request(msn, {1, 0, 4, 2, 0})));
  EXPECT_EQ(test::analyse(free.frames).count(Severity::error), 0u);
}

TEST(CaptureCheck, RtrKindsAndWhoAgreedOnThem) {  // RFC 6581 §9.2
  const wire::MpaEnhanced cd{.a = true, .c = true, .d = true, .ird = 4, .ord = 4},
      c{.a = true, .c = true, .ird = 4, .ord = 4};
  const Bytes write = test::tagged(RdmapOpcode::rdma_write, 1, 0, 0), read = test::read_request(1, {1, 0, 0, 1, 0});
  Exchange good = enhanced(cd, c);
  good.send(0, fpdu(write)).close();
  EXPECT_EQ(one(good).rtr, mpa::Rtr::write);
  EXPECT_EQ(one(good).rtr_agreed, mpa::Rtr::write);
  EXPECT_EQ(one(good).outcome, Outcome::established);
  EXPECT_EQ(test::words(test::analyse(good.frames)), "");
  Exchange other_kind = enhanced(cd, c);
  other_kind.send(0, fpdu(read));
  EXPECT_NE(only_error(other_kind).find("not an RTR of an agreed kind [Write]"), std::string::npos);
  Exchange none = enhanced(cd, c);
  none.close();
  EXPECT_EQ(one(none).outcome, Outcome::incomplete);
}

TEST(CaptureCheck, SetUpRules) {  // RFC 6581 §6, §9, RFC 5044 §7.1.1
  EXPECT_NE(only_error(enhanced({.a = false, .c = true}, {})).find("B, C or D although A is 0"), std::string::npos);
  EXPECT_NE(only_error(enhanced({.a = true, .c = true}, {})).find("answered A=1 with A=0"), std::string::npos);
  EXPECT_NE(only_error(enhanced({.ird = 1, .ord = 0x3FFF}, {.ird = 8, .ord = 1})).find("answered IRD 8"),
            std::string::npos);
  Exchange reserved;
  reserved.open().send(0, test::startup(MpaKey::req, C | 0x04, 1)).send(1, test::startup(MpaKey::rep, C, 1));
  EXPECT_NE(only_error(reserved).find("the initiator set reserved bits 0x04"), std::string::npos);
  Exchange volunteer;
  volunteer.open().send(0, test::startup(MpaKey::req, C, 1)).send(1, test::startup(MpaKey::rep, C | S, 1));
  EXPECT_NE(only_error(volunteer).find("set S (reserved under revision 1) in its Reply, unasked"), std::string::npos);
  Exchange early;
  early.open().send(0, test::startup(MpaKey::req, C, 1)).send(0, fpdu(send_segment(1, 4)));
  EXPECT_NE(only_error(early).find("before the Reply came"), std::string::npos);
}

TEST(CaptureCheck, RtrFrameOf2007InBothSpellings) {  // OFA 2007-10 Rtr §2
  for (const MpaKey key : {MpaKey::rtr, MpaKey::rtr_hex}) {
    Exchange x;
    x.open().send(0, test::startup(MpaKey::req, C | S, 1)).send(1, test::startup(MpaKey::rep, C | S, 1));
    x.send(0, test::startup(key, C, 1)).send(1, fpdu(send_segment(1, 4))).send(0, fpdu(send_segment(1, 4))).close();
    EXPECT_EQ(one(x).rtr, mpa::Rtr::frame);
    EXPECT_EQ(one(x).outcome, Outcome::established);
    EXPECT_EQ(one(x).count(Severity::error) + one(x).count(Severity::warning), 0u)
        << test::words(test::analyse(x.frames));
  }
  Exchange unasked;
  unasked.set_up().send(0, test::startup(MpaKey::rtr, C, 1));
  EXPECT_NE(only_error(unasked).find("was not agreed"), std::string::npos);
}

TEST(CaptureCheck, ASynMayBeAnsweredAgainWithAnotherSequenceNumber) {  // RFC 9293 §3.10.7.2
  Exchange forgotten(false, 1000, 700000), x(false, 1000, 900000);
  forgotten.open();
  x.set_up().send(0, fpdu(send_segment(1, 4))).send(1, fpdu(send_segment(1, 4))).close();
  auto frames = x.frames;
  frames.insert(frames.begin(), forgotten.frames.begin(), forgotten.frames.begin() + 2);
  const FileReport report = test::analyse(frames);
  ASSERT_EQ(report.connections.size(), 1u);
  EXPECT_EQ(report.count(Severity::error), 0u) << test::words(report);
  EXPECT_EQ(report.connections[0].outcome, Outcome::established);
}

TEST(CaptureCheck, ACaptureThatBeginsWithTheRtrFrameAccusesNobody) {  // OFA 2007-10 Rtr §2
  Exchange x;
  x.open().send(0, test::startup(MpaKey::req, C | S, 1)).send(1, test::startup(MpaKey::rep, C | S, 1));
  const auto before = static_cast<std::ptrdiff_t>(x.frames.size());
  x.send(0, test::startup(MpaKey::rtr, C, 1)).send(0, fpdu(send_segment(1, 4))).rst(1);
  x.frames.erase(x.frames.begin(), x.frames.begin() + before);
  EXPECT_EQ(test::analyse(x.frames).connections.size(), 0u) << test::words(test::analyse(x.frames));
}

TEST(CaptureCheck, AnRtrFrameIsNoFaultOfAnyoneIfTheRequestIsNotInTheCapture) {  // OFA 2007-10 Rtr §2
  wire::DdpHeader h;
  h.opcode = RdmapOpcode::terminate;
  h.qn = 2;
  h.msn = 1;
  const Bytes took_it_for_an_fpdu = fpdu(test::segment(h, Bytes{0x02, 0x05, 0, 0}));
  for (const std::uint8_t s : {std::uint8_t{0}, S})
    for (const bool terminates : {false, true}) {
      Exchange x;
      x.open().send(0, test::startup(MpaKey::req, C | s, 1)).send(1, test::startup(MpaKey::rep, C | s, 1));
      x.send(0, test::startup(MpaKey::rtr, C, 1));
      if (terminates)
        x.send(1, took_it_for_an_fpdu).rst(1);
      else
        x.send(0, fpdu(send_segment(1, 4))).send(1, fpdu(send_segment(1, 4)));
      x.frames.erase(x.frames.begin(), x.frames.begin() + 4);
      const FileReport r = test::analyse(x.frames);
      EXPECT_EQ(r.count(Severity::error), 0u) << test::words(r);
      EXPECT_TRUE(test::has(r, Severity::note, "whether it was agreed is not known without the Request"));
    }
  // Nor is a responder to blame for not knowing a frame that was not agreed.
  Exchange unasked;
  unasked.set_up().send(0, test::startup(MpaKey::rtr, C, 1)).send(1, took_it_for_an_fpdu);
  const FileReport r = test::analyse(unasked.frames);
  EXPECT_EQ(r.count(Severity::error), 1u) << test::words(r);
  EXPECT_TRUE(test::has(r, Severity::error, "the initiator sent an Rtr frame that was not agreed"));
}

TEST(CaptureCheck, MarkersAreNotJudgedIfTheRequestFromWhichTheyCountIsMissing) {  // RFC 5044 §4.3
  // So many frames before the Request are missing as well; with all of them, the Reply tells where the Request ended.
  for (const std::size_t first : {0u, 1u, 2u, 3u}) {
    Exchange x;
    x.open().send(0, test::startup(MpaKey::req, C, 1)).send(1, test::startup(MpaKey::rep, C | PARLEY_MPA_FLAG_M, 1));
    std::uint64_t at = 0;
    for (std::uint32_t msn = 1; msn < 30; ++msn) {
      const Bytes f = fpdu(send_segment(msn, 100), at, true);
      at += f.size();
      x.send(0, f).send(1, fpdu(send_segment(msn, 10)));
    }
    x.frames.erase(x.frames.begin() + 3);
    x.frames.erase(x.frames.begin(), x.frames.begin() + static_cast<std::ptrdiff_t>(first));
    const FileReport r = test::analyse(x.frames);
    ASSERT_EQ(r.connections.size(), 1u);
    EXPECT_EQ(r.count(Severity::error) + r.count(Severity::warning), 0u) << test::words(r);
    EXPECT_EQ(r.connections[0].from_responder.fpdus, 29u);
    EXPECT_EQ(r.connections[0].from_initiator.fpdus, first < 3 ? 0u : 29u);
  }
}

TEST(CaptureCheck, AnRtrThatTheCaptureLacksIsNotHeldAgainstTheInitiator) {  // RFC 6581 §9.2, OFA 2007-10 Rtr §2
  for (const auto& [enhanced, length] : {std::pair{false, 4U}, {false, 0U}, {true, 4U}, {true, 0U}}) {
    const std::uint8_t revision = enhanced ? 2 : 1;
    std::optional<wire::MpaEnhanced> depths;
    if (enhanced) {
      depths.emplace();
      depths->a = depths->c = true;
    }
    Exchange x;
    x.open().send(0, test::startup(MpaKey::req, C | S, revision, depths));
    x.send(1, test::startup(MpaKey::rep, C | S, revision, depths));
    const std::size_t rtr = x.frames.size();
    x.send(0, enhanced ? fpdu(test::tagged(RdmapOpcode::rdma_write, 1, 0, 0)) : test::startup(MpaKey::rtr, C, 1));
    x.send(0, fpdu(send_segment(1, length), 20)).close();
    EXPECT_EQ(one(x).count(Severity::error), 0u) << test::words(test::analyse(x.frames));
    x.frames.erase(x.frames.begin() + static_cast<std::ptrdiff_t>(rtr));
    EXPECT_EQ(one(x).count(Severity::error), 0u) << test::words(test::analyse(x.frames));
    EXPECT_EQ(one(x).outcome, Outcome::established);
  }
}

Bytes terminate(std::initializer_list<std::uint8_t> body) {
  wire::DdpHeader h;
  h.opcode = RdmapOpcode::terminate;
  h.qn = 2;
  h.msn = 1;
  return test::segment(h, Bytes(body));
}

TEST(CaptureCheck, TerminateIsReadAsItWasMeant) {  // RFC 5040 §4.8
  Bytes opcode = send_segment(1, 4);
  opcode[1] = 0x4F;
  const FileReport swapped = test::analyse(with_ulpdus({{0, opcode}, {1, terminate({0x20, 0x06, 0, 0})}}).frames);
  EXPECT_TRUE(test::has(swapped, Severity::error, "the responder wrote the Terminate control word in the wrong order"));
  const FileReport right = test::analyse(with_ulpdus({{0, opcode}, {1, terminate({0x02, 0x06, 0, 0})}}).frames);
  EXPECT_FALSE(test::has(right, Severity::error, "wrong order"));
  EXPECT_TRUE(test::has(right, Severity::note, "unexpected opcode"));
  const FileReport type3 =
      test::analyse(with_ulpdus({{0, send_segment(1, 4)}, {1, terminate({0x23, 0x02, 0, 0})}}).frames);
  EXPECT_EQ(type3.count(Severity::error), 0u);
  EXPECT_TRUE(test::has(type3, Severity::warning, "error type 3"));
}

TEST(CaptureCheck, NothingFollowsATerminate) {  // RFC 5040 §5.4
  EXPECT_NE(
      only_error(with_ulpdus({{0, send_segment(1, 4)}, {0, terminate({0x20, 0x02, 0, 0})}, {0, send_segment(2, 4)}}))
          .find("after its Terminate"),
      std::string::npos);
}

TEST(CaptureCheck, ImmediateDataAndAtomics) {  // RFC 7306 §5.1, §6.3
  wire::DdpHeader imm;
  imm.opcode = RdmapOpcode::immediate;
  imm.msn = 1;
  EXPECT_EQ(test::words(test::analyse(with_ulpdus({{0, test::segment(imm, Bytes(8))}}).frames)), "");
  EXPECT_NE(only_error(with_ulpdus({{0, test::segment(imm, Bytes(7))}})).find("Immediate Data of 7 octets"),
            std::string::npos);
  wire::DdpHeader atomic;
  atomic.opcode = RdmapOpcode::atomic_request;
  atomic.qn = 1;
  atomic.msn = 1;
  Bytes body(PARLEY_RDMAP_ATOMIC_REQUEST_LEN);
  wire::AtomicRequest q;
  q.to = 4;
  q.emit(body);
  EXPECT_NE(only_error(with_ulpdus({{0, test::segment(atomic, body)}})).find("not a multiple of 8"), std::string::npos);
}

TEST(CaptureCheck, LostWakeUpIsSuspected) {
  Exchange x;
  x.set_up().send(0, fpdu(send_segment(1, 4))).acknowledge(1).wait(std::chrono::seconds(30)).close();
  EXPECT_TRUE(test::has(test::analyse(x.frames), Severity::note, "sent nothing for 30.0"));
}

TEST(CaptureCheck, OtherTcpConnectionsAreIgnoredAndPortsMayBeReused) {
  Exchange x = test::conversation();
  Exchange ssh(test::end_a(false), Address::v4(192, 0, 2, 9, 22), 5, 6);
  ssh.open().send(1, Bytes{'S', 'S', 'H', '-', '2'}).send(0, Bytes(2000, 'x')).close();
  Exchange again = test::conversation(false, false, 0x70000000);
  Exchange same_ports(Address::v4(192, 0, 2, 1, 7471), Address::v4(192, 0, 2, 2, 7471), 50, 60);
  same_ports.set_up().send(0, fpdu(send_segment(1, 4))).send(1, fpdu(send_segment(1, 4))).close();
  for (const auto* more : {&ssh, &again, &same_ports})
    x.frames.insert(x.frames.end(), more->frames.begin(), more->frames.end());
  const FileReport r = test::analyse(x.frames);
  EXPECT_EQ(r.tcp_connections, 4u);
  EXPECT_EQ(r.connections.size(), 3u);
  EXPECT_EQ(test::words(r), "");
}

TEST(CaptureCheck, MoreConnectionsThanCanBeFollowedAreNamedAndTheRestIsJudged) {
  Analyzer analyzer;
  std::uint64_t number = 0;
  const auto push = [&](const test::Frames& frames) {
    for (const auto& f : frames) {
      wire::CapturedPacket p;
      p.frame = ++number;
      p.link_type = 1;
      p.octets = f.octets;
      p.original_length = static_cast<std::uint32_t>(f.octets.size());
      analyzer.push(p);
    }
  };
  push(test::conversation().frames);
  for (std::uint32_t i = 0; i < 70000; ++i) {
    const auto peer =
        Address::v4(10, 0, static_cast<std::uint8_t>(i >> 16), 1, static_cast<std::uint16_t>(1 + i % 65535));
    Exchange x(peer, Address::v4(192, 0, 2, 9, 22), i, 1);
    x.add(0, wire::tcp_flag::syn, {});
    push(x.frames);
  }
  const FileReport r = analyzer.finish();
  ASSERT_EQ(r.connections.size(), 1u);
  EXPECT_EQ(r.connections[0].outcome, Outcome::established);
  ASSERT_EQ(r.notes.size(), 1u);
  EXPECT_NE(r.notes[0].find("beyond the 65536 that can be followed"), std::string::npos);
}

TEST(CaptureCheck, VlanTagsChangeNothing) {
  Exchange x;
  x.vlan({7, 9}).set_up().send(0, fpdu(send_segment(1, 4))).close();
  EXPECT_EQ(one(x).outcome, Outcome::established);
}

TEST(CaptureCheck, RetransmissionWithOtherOctetsIsToldAndTheFirstCopyWins) {
  Exchange x;
  x.set_up().send(0, fpdu(send_segment(1, 40)));
  test::Frame other = x.frames.back();
  other.octets[other.octets.size() - 20] ^= 0xFF;
  x.frames.push_back(other);
  x.close();
  const FileReport r = test::analyse(x.frames);
  EXPECT_EQ(r.count(Severity::error), 0u) << test::words(r);
  EXPECT_TRUE(test::has(r, Severity::warning, "other octets than the first copy"));
}

TEST(TextLadder, FitsItsWidthAndTellsEveryMessage) {
  const FileReport r = test::analyse(test::conversation(true).frames, 1, true);
  const std::string ladder = to_ladder(r.connections.at(0), {.width = 100});
  for (std::size_t at = 0; at < ladder.size();) {
    const std::size_t end = ladder.find('\n', at);
    EXPECT_LE(columns(std::string_view(ladder).substr(at, end - at)), 100u) << ladder.substr(at, end - at);
    at = end + 1;
  }
  EXPECT_NE(ladder.find("MPA Request rev=1 C"), std::string::npos);
  EXPECT_NE(ladder.find("RDMA Read Response stag=0x11"), std::string::npos);
}

}  // namespace
}  // namespace parley::capture::check_test
