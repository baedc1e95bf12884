// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// What a live peer sent, in words: how a report names each frame, FPDU and end of a stream.
#include "tester/frame_reader.hpp"

#include <gtest/gtest.h>

#include "tester/frames.hpp"
#include "tests/unit/tester/kit.hpp"

namespace parley::tester {
namespace {

using namespace std::chrono_literals;
using wire::RdmapOpcode;

enum class Wanted { startup, fpdu, anything };

/// What is read of a stream on which these octets come, and then, perhaps, its end. After five seconds without: silence.
Received read_of(Wanted wanted, ConstBytes octets, std::optional<StreamEnd> end = {}, bool crc = true) {
  Driven d;
  Received out;
  d.start(connect_then(d.peer, [&](TcpStream& tcp) -> Task<void> {
    FrameReader reader(d.peer, tcp);
    if (wanted == Wanted::fpdu) reader.fpdus(crc, false);
    if (wanted == Wanted::startup)
      out = co_await reader.startup(5s);
    else if (wanted == Wanted::fpdu)
      out = co_await reader.fpdu(5s);
    else
      out = co_await reader.anything(5s);
  }));
  d.connected(1);
  for (const std::uint8_t octet : octets) {  // however TCP cut it up
    d.now += 1ms;
    d.bytes(1, ConstBytes(&octet, 1));
  }
  if (end) d.end(1, *end);
  d.after(5s);
  EXPECT_TRUE(d.peer.done());
  return out;
}

std::string fpdu_words(ConstBytes ulpdu) { return read_of(Wanted::fpdu, FpduWriter(true, false).write(ulpdu)).text(); }

TEST(FrameReaderWords, NameEachStartupFrame) {
  const auto words = [](const StartupOctets& frame) { return read_of(Wanted::startup, startup(frame)).text(); };
  EXPECT_EQ(words({.key = PARLEY_MPA_KEY_REQ, .flags = 0x40}), "MPA Request rev=1 flags=40 pd=0");
  EXPECT_EQ(words({.key = PARLEY_MPA_KEY_REP, .flags = 0xA0, .private_data = {1, 2, 3}}),
            "MPA Reply rev=1 flags=a0 pd=3");
  EXPECT_EQ(words({.key = PARLEY_MPA_KEY_REP, .flags = 0x50, .revision = 2, .enhanced = enhanced(0x8005, 0x4007)}),
            "MPA Reply rev=2 flags=50 A D ird=5 ord=7 pd=4");
  EXPECT_EQ(words({.flags = 0x50, .revision = 2, .enhanced = enhanced(0x4010, 0x8003), .private_data = {9}}),
            "MPA Request rev=2 flags=50 B C ird=10 ord=3 pd=5");
  constexpr std::array<std::pair<std::uint32_t, std::string_view>, 4> bits{
      {{enhanced(0x8000, 0), "A"}, {enhanced(0x4000, 0), "B"}, {enhanced(0, 0x8000), "C"}, {enhanced(0, 0x4000), "D"}}};
  for (const auto& [bit, name] : bits)
    EXPECT_EQ(words({.flags = 0x50, .revision = 2, .enhanced = bit}),
              "MPA Request rev=2 flags=50 " + std::string(name) + " ird=0 ord=0 pd=4");
  EXPECT_EQ(words({.flags = 0x50, .revision = 1, .enhanced = enhanced(0x8005, 0x4007)}),
            "MPA Request rev=1 flags=50 pd=4")
      << "no enhanced data before revision 2";
  EXPECT_EQ(words({.flags = 0x40, .revision = 2, .private_data = {0, 1, 0, 1}}), "MPA Request rev=2 flags=40 pd=4");
}

TEST(FrameReaderWords, EnhancedDataIsNotPrivateData) {  // RFC 6581 §6
  const Received received = read_of(Wanted::startup, startup({.flags = PARLEY_MPA_FLAG_S,
                                                              .revision = 2,
                                                              .enhanced = enhanced(0x8005, 0x4007),
                                                              .private_data = {1, 2, 3}}));
  EXPECT_EQ(received.private_data, (Bytes{1, 2, 3}));
  EXPECT_EQ(received.pd_length, 7);
  EXPECT_EQ(received.octets.size(), PARLEY_MPA_HEADER_LEN + 7U);
}

TEST(FrameReaderWords, OctetsThatAreNoStartupFrameAreShown) {
  EXPECT_EQ(read_of(Wanted::startup, Bytes(24, 0x47)).text().substr(0, 49),
            "octets that are not a frame: no startup frame [47");
  EXPECT_EQ(read_of(Wanted::startup, Bytes{'M', 'P', 'A'}).text(), "silence [4d 50 41]");
  EXPECT_EQ(read_of(Wanted::startup, Bytes{'M', 'P', 'A'}, StreamEnd::fin).text(), "FIN [4d 50 41]");
}

TEST(FrameReaderWords, NameEachDdpSegment) {
  EXPECT_EQ(fpdu_words(segment(send_header(7), Bytes(4, 1))), "Send qn=0 msn=7 mo=0 of 4 octets");
  EXPECT_EQ(fpdu_words(segment(write_header(0x1234, 0x10), Bytes(9, 1))), "RDMA Write stag=0x1234 to=0x10 of 9 octets");
  EXPECT_EQ(fpdu_words(segment(read_response_header(0xFF, 0))), "RDMA Read Response stag=0xff to=0x0 of 0 octets");
  EXPECT_EQ(fpdu_words(read_request(3, {.size = 5})), "RDMA Read Request qn=1 msn=3 mo=0 of 28 octets");
}

TEST(FrameReaderWords, AnFpduTooShortForItsHeaderIsShownAsOctets) {
  EXPECT_EQ(fpdu_words(Bytes{0x41, 0x43, 0, 0, 0, 1}),
            "an FPDU of 6 octets, too short for a DDP header: 41 43 00 00 00 01");
  EXPECT_EQ(fpdu_words(Bytes(17, 0)).substr(0, 18), "an FPDU of 17 octe");
  EXPECT_EQ(read_of(Wanted::fpdu, FpduWriter(true, false).write(Bytes(6, 0))).payload().size(), 0U);
}

std::string terminate_words(const wire::Terminate& terminate) {
  Bytes body(terminate.size());
  terminate.emit(body);
  return fpdu_words(segment({.opcode = RdmapOpcode::terminate, .qn = PARLEY_DDP_QN_TERMINATE, .msn = 1}, body));
}

TEST(FrameReaderWords, ATerminateIsNamedWithItsCodeAndBits) {  // RFC 5040 §4.8
  EXPECT_EQ(terminate_words({.layer = 2, .code = 2}), "Terminate 20 02 (MPA: CRC error)");
  EXPECT_EQ(terminate_words({.layer = 5, .etype = 6, .code = 7}), "Terminate 56 07 (no such code)");
  const Bytes header(PARLEY_DDP_UNTAGGED_LEN, 0), request(PARLEY_RDMAP_READ_REQUEST_LEN, 0);
  EXPECT_EQ(terminate_words({.layer = 0,
                             .etype = 1,
                             .code = 1,
                             .m = true,
                             .d = true,
                             .r = true,
                             .ddp_segment_length = 46,
                             .ddp_header = header,
                             .read_request = request}),
            "Terminate 01 01 (remote protection: base or bounds violation; MDR)");
  EXPECT_EQ(terminate_words({.layer = 1,
                             .etype = 2,
                             .code = 3,
                             .d = true,
                             .nibbles_swapped = true,
                             .ddp_segment_length = 18,
                             .ddp_header = header}),
            "Terminate 12 03 (untagged: invalid MSN, out of range; D; nibbles exchanged, as siw sends it)");
}

TEST(FrameReaderWords, ATaggedTerminateIsNoTerminate) {  // RFC 5040 §4.8: on queue 2
  const Bytes ulpdu = segment({.tagged = true, .opcode = RdmapOpcode::terminate, .stag = 1}, Bytes{0x20, 2, 0, 0});
  EXPECT_FALSE(read_of(Wanted::fpdu, FpduWriter(true, false).write(ulpdu)).terminate());
  EXPECT_EQ(fpdu_words(ulpdu), "Terminate stag=0x1 to=0x0 of 4 octets");
  EXPECT_EQ(fpdu_words(segment({.opcode = RdmapOpcode::terminate, .qn = 2, .msn = 1}, Bytes{0x20, 2, 0})),
            "Terminate qn=2 msn=1 mo=0 of 3 octets")
      << "too short for its control field";
}

TEST(FrameReaderWords, AnFpduThatCannotBeReadIsNamedWithItsPlace) {
  FpduWriter writer(true, false);
  Bytes octets = writer.write(segment(send_header(1)));
  Driven d;
  std::vector<Received> received;
  d.start(connect_then(d.peer, [&](TcpStream& tcp) -> Task<void> {
    FrameReader reader(d.peer, tcp);
    for (int i = 0; i < 2; ++i) {
      Received next = co_await reader.fpdu(5s);  // with CRC, without markers unless said otherwise
      received.push_back(std::move(next));
    }
  }));
  d.connected(1);
  const Bytes bad = writer.write(segment(send_header(2)), {.bad_crc = true});
  octets.insert(octets.end(), bad.begin(), bad.end());
  d.now += 1s;
  d.bytes(1, octets);
  ASSERT_EQ(received.size(), 2U);
  EXPECT_EQ(received[0].text(), "Send qn=0 msn=1 mo=0 of 0 octets");
  EXPECT_EQ(received[1].text(), "octets that are not a frame: crc_error at octet 44 of its FPDUs") << "that of the CRC";
  EXPECT_EQ(received[0].at, d.now);
  EXPECT_EQ(received[1].at, d.now);
}

TEST(FrameReaderWords, WithoutCrcTheFieldIsZeroAndNotChecked) {  // RFC 5044 §4.4
  const Bytes ulpdu = segment(send_header(1), Bytes(4, 9));
  Bytes octets = FpduWriter(false, false).write(ulpdu);
  EXPECT_EQ(Bytes(octets.end() - 4, octets.end()), Bytes(4, 0));
  EXPECT_EQ(read_of(Wanted::fpdu, octets, {}, false).text(), "Send qn=0 msn=1 mo=0 of 4 octets");
  EXPECT_EQ(read_of(Wanted::fpdu, octets, {}, true).kind, Received::Kind::bad);
}

TEST(FrameReaderWords, NameEachEndOfAStream) {
  struct Case {
    std::optional<StreamEnd> end;
    std::string_view words;
    bool closed;
  };
  for (const Case& c : {Case{StreamEnd::fin, "FIN", true}, Case{StreamEnd::rst, "RST", true},
                        Case{StreamEnd::timeout, "TCP gave up", false}, Case{{}, "silence", false}})
    for (const Wanted wanted : {Wanted::startup, Wanted::fpdu, Wanted::anything}) {
      const Received received = read_of(wanted, {}, c.end);
      EXPECT_EQ(received.text(), c.words);
      EXPECT_EQ(received.closed(), c.closed);
      EXPECT_EQ(received.at, Instant(c.end ? 1s : 6s)) << "an end at its own time, silence when the patience is over";
    }
}

TEST(FrameReaderWords, AnythingTakesTheOctetsThatCome) {
  Driven d;
  std::vector<std::string> words;
  d.start(connect_then(d.peer, [&](TcpStream& tcp) -> Task<void> {
    FrameReader reader(d.peer, tcp);
    for (int i = 0; i < 2; ++i) {
      const Received next = co_await reader.anything(5s);
      words.push_back(next.text());
    }
  }));
  d.connected(1);
  d.bytes(1, Bytes{0xAB, 0xCD});
  d.end(1, StreamEnd::fin);
  EXPECT_EQ(words, (std::vector<std::string>{"octets that are not a frame [ab cd]", "FIN"}));
}

TEST(FrameReaderWords, EachUnitHasTheTimeOfItsLastOctet) {
  const Bytes request = startup({}), ulpdu = segment(send_header(1)), sent = FpduWriter(true, false).write(ulpdu);
  EXPECT_EQ(read_of(Wanted::startup, request).at, Instant(1s + 1ms * request.size()));
  EXPECT_EQ(read_of(Wanted::startup, Bytes(20, 1)).at, Instant(1s + 20ms)) << "the first that can be judged";
  EXPECT_EQ(read_of(Wanted::fpdu, sent).at, Instant(1s + 1ms * sent.size()));
  EXPECT_EQ(read_of(Wanted::anything, Bytes(1, 1)).at, Instant(1s + 1ms));
}

TEST(FrameReaderWords, WhatCameBeforeItWasReadHasItsOwnTime) {
  for (const bool octets : {false, true}) {
    Driven d;
    std::optional<Received> received;
    d.start(connect_then(d.peer, [&](TcpStream& tcp) -> Task<void> {
      co_await d.peer.sleep(10s);
      received = co_await FrameReader(d.peer, tcp).anything(5s);
    }));
    d.connected(1);
    if (octets) d.bytes(1, Bytes(1, 1));
    if (!octets) d.end(1, StreamEnd::fin);
    d.after(9999ms);
    EXPECT_FALSE(received);
    d.after(1ms);
    ASSERT_TRUE(received);
    EXPECT_EQ(received->at, Instant(1s));
  }
}

TEST(FrameReaderWords, ManyOctetsAreShownUpTo64) {
  const std::string words = read_of(Wanted::anything, Bytes(1, 0)).text();
  EXPECT_EQ(words, "octets that are not a frame [00]");
  const Received part = read_of(Wanted::startup, startup({.private_data = Bytes(100, 0xAA), .pd_length = 101}));
  ASSERT_EQ(part.kind, Received::Kind::silence);
  const std::string shown = part.text();
  EXPECT_EQ(std::count(shown.begin(), shown.end(), 'a'), 2 * (64 - PARLEY_MPA_HEADER_LEN)) << shown;
}

}  // namespace
}  // namespace parley::tester
