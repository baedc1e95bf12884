// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Faults that are told by what stands beside them: each is found, and named once.
#include <gtest/gtest.h>

#include "tests/unit/capture/exchange.hpp"

namespace parley::capture::misses_test {
namespace {

using test::errors;
using test::Exchange;
using test::fpdu;
using test::send_segment;
using test::startup;
using wire::MpaKey;
using wire::RdmapOpcode;

constexpr std::uint8_t M = PARLEY_MPA_FLAG_M, C = PARLEY_MPA_FLAG_C, S = PARLEY_MPA_FLAG_S;

/// The only one.
void expect_error(const Exchange& x, std::string_view part) {
  const std::string all = errors(x);
  EXPECT_NE(all.find(part), std::string::npos) << all << "lacks: " << part;
  EXPECT_EQ(std::count(all.begin(), all.end(), '\n'), 1) << all;
}
Exchange talk(std::initializer_list<std::pair<unsigned, Bytes>> ulpdus) {
  Exchange x;
  x.set_up();
  for (const auto& [from, ulpdu] : ulpdus) x.send(from, fpdu(ulpdu));
  return x.close();
}
Bytes untagged(RdmapOpcode opcode, std::uint32_t qn, std::uint32_t msn, ConstBytes body) {
  wire::DdpHeader h;
  h.opcode = opcode;
  h.qn = qn;
  h.msn = msn;
  return test::segment(h, body);
}
Bytes atomic_request(std::uint32_t msn, std::uint32_t id) {
  Bytes body(PARLEY_RDMAP_ATOMIC_REQUEST_LEN);
  wire::AtomicRequest{.request_id = id}.emit(body);
  return untagged(RdmapOpcode::atomic_request, 1, msn, body);
}
Bytes atomic_response(std::uint32_t msn, std::uint32_t id) {
  Bytes body(PARLEY_RDMAP_ATOMIC_RESPONSE_LEN);
  wire::AtomicResponse{.request_id = id}.emit(body);
  return untagged(RdmapOpcode::atomic_response, 3, msn, body);
}

TEST(CaptureMisses, AReadAlthoughThePeersIrdIsZero) {  // RFC 5040 §5.2.1, RFC 6581 §9.1
  const auto made = [](std::uint16_t ird) {
    Exchange x;
    x.open()
        .send(0, startup(MpaKey::req, C | S, 2, {{.ird = 1, .ord = 1}}))
        .send(1, startup(MpaKey::rep, C | S, 2, {{.ird = ird, .ord = 1}}));
    return x.send(0, fpdu(test::read_request(1, {1, 0, 4, 2, 0}))).close();
  };
  EXPECT_EQ(errors(made(1)), "");
  expect_error(made(0), "has 1 RDMA Reads outstanding, 0 were agreed");
}

TEST(CaptureMisses, AnInvalidateStagThatChangesInsideAMessage) {  // RFC 5041 §4.3
  const auto part = [](std::uint32_t stag, std::uint32_t mo, bool last) {
    wire::DdpHeader h;
    h.opcode = RdmapOpcode::send_inv;
    h.stag = stag;
    h.msn = 1;
    h.mo = mo;
    h.last = last;
    return test::segment(h, Bytes(40));
  };
  EXPECT_EQ(errors(talk({{0, part(5, 0, false)}, {0, part(5, 40, true)}})), "");
  expect_error(
      talk({{0, part(5, 0, false)}, {0, part(6, 40, true)}}),
      "changed the Invalidate STag inside a message from 0x00000005 to 0x00000006 (queue 0, MSN 1) [RFC 5041 §4.3]");
}

TEST(CaptureMisses, AnOpcodeThatChangesInsideAMessage) {  // RFC 5041 §4.3
  const auto part = [](RdmapOpcode opcode, std::uint32_t mo, bool last) {
    wire::DdpHeader h;
    h.opcode = opcode;
    h.msn = 1;
    h.mo = mo;
    h.last = last;
    return test::segment(h, Bytes(40));
  };
  const Bytes begin = part(RdmapOpcode::send, 0, false);
  EXPECT_EQ(errors(talk({{0, begin}, {0, part(RdmapOpcode::send, 40, true)}})), "");
  const Exchange changed = talk({{0, begin}, {0, part(RdmapOpcode::send_se, 40, true)}});
  expect_error(changed,
               "changed the opcode inside a message to Send with Solicited Event (queue 0, MSN 1) [RFC 5041 §4.3]");
}

TEST(CaptureMisses, AtomicsAndReadsAreAnsweredInOneOrder) {  // RFC 7306 §5.1
  const Bytes read = test::read_request(1, {7, 0, 8, 8, 0}), answer = test::tagged(RdmapOpcode::read_response, 7, 0, 8);
  const Bytes atomic = atomic_request(2, 9), result = atomic_response(1, 9);
  EXPECT_EQ(errors(talk({{0, read}, {0, atomic}, {1, answer}, {1, result}})), "");
  expect_error(talk({{0, read}, {0, atomic}, {1, result}, {1, answer}}),
               "answered Atomic request 0x9 before the Read Request of frame 6");
}

TEST(CaptureMisses, ReservedBitsBesideTheAOpCode) {  // RFC 7306 §5.2.1
  EXPECT_EQ(errors(talk({{0, atomic_request(1, 9)}})), "");
  for (unsigned bit = 4; bit < 32; ++bit) {
    Bytes odd = atomic_request(1, 9);
    odd[21 - bit / 8] |= static_cast<std::uint8_t>(1U << bit % 8);
    const std::uint32_t word = odd[21] | 1U << bit;
    expect_error(talk({{0, odd}}),
                 fmt::format("set reserved bits next to the AOpCode of an Atomic Request (0x{:08x})", word));
  }
  for (unsigned aop = 0; aop < 16; ++aop) {
    Bytes other = atomic_request(1, 9);
    other[21] = static_cast<std::uint8_t>(aop);
    const Exchange x = talk({{0, other}});
    if (aop == 0 || aop == 2)
      EXPECT_EQ(errors(x), "") << aop;
    else
      expect_error(x, fmt::format("sent an Atomic Request with AOpCode {}, not assigned", aop));
  }
}

TEST(CaptureMisses, AWriteThatIsLeftForAnotherIsNoPartOfTheOneBefore) {  // RFC 5041 §5.2
  const auto write = [](std::uint32_t stag, std::uint64_t to, bool last) {
    return test::tagged(RdmapOpcode::rdma_write, stag, to, 40, last);
  };
  const std::string at = "continued an RDMA Write at STag 0x00000006 TO 0x0, STag 0x00000005 TO ";
  expect_error(talk({{0, write(5, 0, true)}, {0, write(5, 1000, false)}, {0, write(6, 0, true)}}),
               at + "0x410 was expected");
  expect_error(talk({{0, write(5, 0, false)}, {0, write(6, 0, true)}}), at + "0x28 was expected");
}

TEST(CaptureMisses, TerminatesThatAreNotWhatTheirBitsSay) {  // RFC 5040 §4.8
  const Bytes send = send_segment(1, 8);
  const auto said = [&](std::uint8_t bits, std::size_t quoted, std::uint8_t reserved = 0) {
    Bytes body{0x12, 0x05, bits, reserved, 0, static_cast<std::uint8_t>(send.size())};
    body.insert(body.end(), send.begin(), send.begin() + 18);
    body.resize(quoted);
    return talk({{0, send}, {1, untagged(RdmapOpcode::terminate, 2, 1, body)}});
  };
  EXPECT_EQ(errors(said(0xC0, 24)), "");
  expect_error(said(0xC0, 20), "cut its Terminate: it has 20 octets, M, D and R ask for 24");
  expect_error(said(0xC0, 28), "sent 4 octets after the end of its Terminate");
  expect_error(said(0xC1, 24), "set reserved bits in its Terminate");
  expect_error(said(0xC0, 24, 1), "set reserved bits in its Terminate");
  expect_error(said(0x40, 24), "set D without M");
  expect_error(said(0x80, 6), "set M without D");
}

TEST(CaptureMisses, ASecondReply) {  // RFC 5044 §7.1.2
  Exchange x;
  x.set_up().send(0, fpdu(send_segment(1, 8))).send(1, startup(MpaKey::rep, C, 1)).send(1, fpdu(send_segment(1, 8)));
  expect_error(x.close(), "the responder sent a second Reply where an FPDU is expected");
}

TEST(CaptureMisses, AMarkerThatIsLeftOutIsNamed) {  // RFC 5044 §4.3
  for (const bool more : {false, true}) {
    Exchange x;
    x.open().send(0, startup(MpaKey::req, C, 1)).send(1, startup(MpaKey::rep, C | M, 1));
    Bytes f = fpdu(send_segment(1, 1000), 0, true);
    f.erase(f.begin() + 512, f.begin() + 516);
    const std::uint32_t crc = mpa::crc32c(ConstBytes(f).first(f.size() - 4));
    for (std::size_t i = 0; i < 4; ++i) f[f.size() - 4 + i] = static_cast<std::uint8_t>(crc >> (8 * i));
    x.send(0, f);
    if (more) x.send(0, fpdu(send_segment(2, 700), f.size(), true));
    expect_error(x.close(), "the initiator left out the marker at stream position 512");
  }
}

TEST(CaptureMisses, APdLengthOfWhichTheFinCutsOffTheRest) {  // RFC 5044 §7.1.1
  Bytes part = startup(MpaKey::req, C, 1, {}, Bytes(16));
  part.resize(28);
  Exchange first, second;
  expect_error(first.open().send(0, part).fin(0).fin(1),
               "announced 16 octets of private data and closed after 8 of them");
  EXPECT_EQ(errors(second.open().send(0, part).fin(1).fin(0)), "");  // perhaps it had no time for the rest
}

// What the capture cut off may have been the rest.
TEST(CaptureMisses, NoPdLengthIsHeldToAPacketThatTheSnapLengthCut) {
  Bytes part = startup(MpaKey::req, C, 1, {}, Bytes(16));
  part.resize(28);
  Exchange x;
  x.open().send(0, part);
  test::Frame& cut = x.frames.back();
  cut.original_length = static_cast<std::uint32_t>(cut.octets.size());
  cut.octets.resize(cut.octets.size() - 4);
  EXPECT_EQ(errors(x.fin(0).fin(1)), "");
}

// RFC 5044 §7.2: a FIN or RST in the middle of an FPDU is noted; a capture that ends there shows nothing.
TEST(CaptureMisses, AStreamThatEndsInsideAnFpduIsNoted) {
  const auto notes = [](Exchange& x) {
    const FileReport r = test::analyse(x.frames);
    return test::has(r, Severity::note,
                     "the stream of the initiator ends inside an FPDU (20 octets of it came) [RFC 5044");
  };
  Exchange finished, reset, going_on;
  for (Exchange* x : {&finished, &reset, &going_on})
    x->set_up().send(0, ConstBytes(fpdu(send_segment(1, 100))).first(20));
  EXPECT_TRUE(notes(finished.close()));
  EXPECT_TRUE(notes(reset.rst(0)));
  EXPECT_FALSE(notes(going_on));
}

}  // namespace
}  // namespace parley::capture::misses_test
