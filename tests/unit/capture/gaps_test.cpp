// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Captures that lack octets, or show them late: nothing is held against anyone that a capture may only not show. Beside
// each stands the fault that is told where the capture has it all.
#include <gtest/gtest.h>

#include "capture/rules/rdmap/message_extent.hpp"
#include "tests/unit/capture/exchange.hpp"

namespace parley::capture::gaps_test {
namespace {

using test::errors;
using test::Exchange;
using test::fpdu;
using test::send_segment;
using test::startup;
using wire::MpaKey;
using wire::RdmapOpcode;

constexpr std::uint8_t M = PARLEY_MPA_FLAG_M, C = PARLEY_MPA_FLAG_C, R = PARLEY_MPA_FLAG_R, S = PARLEY_MPA_FLAG_S;

void expect_part(const std::string& all, std::string_view part) {
  EXPECT_NE(all.find(part), std::string::npos) << all << "lacks: " << part;
}
void drop(Exchange& x, std::size_t at) { x.frames.erase(x.frames.begin() + static_cast<std::ptrdiff_t>(at)); }
/// The frame at `at` is captured behind the `n` that follow it.
void delay(Exchange& x, std::size_t at, std::size_t n) {
  const auto from = x.frames.begin() + static_cast<std::ptrdiff_t>(at);
  std::rotate(from, from + 1, from + 1 + static_cast<std::ptrdiff_t>(n));
}
Bytes terminate(Bytes body) {
  wire::DdpHeader h;
  h.opcode = RdmapOpcode::terminate;
  h.qn = 2;
  h.msn = 1;
  return test::segment(h, body);
}
Bytes quoting(std::uint8_t octet0, std::uint8_t code, const Bytes& segment) {
  Bytes body{
      octet0, code, 0xC0, 0, static_cast<std::uint8_t>(segment.size() >> 8), static_cast<std::uint8_t>(segment.size())};
  body.insert(body.end(), segment.begin(), segment.begin() + 18);
  return terminate(body);
}
Exchange read_depth_one() {
  Exchange x;
  x.open()
      .send(0, startup(MpaKey::req, C | S, 2, {{.ird = 1, .ord = 1}}))
      .send(1, startup(MpaKey::rep, C | S, 2, {{.ird = 1, .ord = 1}}));
  return x;
}

TEST(CaptureGaps, ATerminateMayQuoteWhatIsLostOrStandsBehindIt) {  // RFC 5040 §4.8
  const auto made = [](bool quoted_was_sent) {
    Exchange x;
    x.set_up().send(0, fpdu(send_segment(1, 8))).send(1, fpdu(send_segment(1, 8)));
    if (quoted_was_sent) x.send(1, fpdu(send_segment(2, 60)));
    return x.send(0, fpdu(quoting(0x12, 5, send_segment(2, 60)))).close();
  };
  EXPECT_EQ(errors(made(true)), "");
  Exchange lost = made(true), late = made(true);
  drop(lost, 7);
  EXPECT_EQ(errors(lost), "");
  delay(late, 7, 1);
  EXPECT_EQ(errors(late), "");
  expect_part(errors(made(false)), "copied into its Terminate a DDP header that the other side never sent");
}

TEST(CaptureGaps, ReadsWhoseAnswerIsLostOrLateAreNotOutstanding) {  // RFC 5040 §5.2.1
  const auto made = [](unsigned reader, bool answered) {
    Exchange x = read_depth_one();
    x.send(0, fpdu(send_segment(1, 4)));
    x.send(reader, fpdu(test::read_request(1, {1, 0, 4, 2, 0})));
    if (answered) x.send(1 - reader, fpdu(test::tagged(RdmapOpcode::read_response, 1, 0, 4)));
    return x.send(reader, fpdu(test::read_request(2, {1, 0, 4, 2, 0}))).close();
  };
  for (const unsigned reader : {0u, 1u}) {
    EXPECT_EQ(errors(made(reader, true)), "");
    Exchange lost = made(reader, true), late = made(reader, true);
    drop(lost, 7);
    EXPECT_EQ(errors(lost), "");
    delay(late, 7, 1);
    EXPECT_EQ(errors(late), "");
    EXPECT_EQ(test::analyse(late.frames).connections.at(0).count(Severity::warning), 0u);
    expect_part(errors(made(reader, false)), "has 2 RDMA Reads outstanding, 1 were agreed");
  }
}

TEST(CaptureGaps, AnAnswerIsReadAfterWhatItAcknowledges) {  // RFC 5044 §7.1.2
  Exchange x;
  const Bytes request = startup(MpaKey::req, C, 1, {}, Bytes(40, 7));
  x.open().send(0, request, 30).send(1, startup(MpaKey::rep, C, 1));
  x.send(0, fpdu(send_segment(1, 8))).send(1, fpdu(send_segment(1, 8))).close();
  const std::string whole = test::words(test::analyse(x.frames));
  delay(x, 4, 1);  // the second half of the Request behind the Reply
  const FileReport r = test::analyse(x.frames);
  EXPECT_EQ(r.count(Severity::error), 0u) << test::words(r);
  ASSERT_TRUE(r.connections.at(0).request);
  EXPECT_EQ(r.connections[0].request->private_data.size(), 40u);
  EXPECT_EQ(r.connections[0].from_initiator.fpdus, 1u) << whole;
  EXPECT_EQ(r.connections[0].outcome, Outcome::established);
}

TEST(CaptureGaps, ASegmentInItsPlaceMayHoldWhatWaits) {  // RFC 9293 §3.4
  const Bytes reply = startup(MpaKey::rep, C, 1, {}, Bytes(20, 7));
  Exchange x;
  x.open().send(0, startup(MpaKey::req, C, 1)).send(1, reply, 30).send(0, fpdu(send_segment(1, 8)));
  x.seq(1) -= 20;
  x.send(1, ConstBytes(reply).subspan(20, 10));  // again, with an acknowledgment of the FPDU
  x.seq(1) += 10;
  x.send(1, fpdu(send_segment(1, 8))).close();
  drop(x, 6);      // the FPDU
  delay(x, 4, 2);  // the first part of the Reply behind the other two
  const FileReport r = test::analyse(x.frames);
  EXPECT_EQ(r.count(Severity::error), 0u) << test::words(r);
  ASSERT_TRUE(r.connections.at(0).reply);
  EXPECT_EQ(r.connections[0].from_responder.fpdus, 1u) << test::words(r);
  EXPECT_EQ(r.connections[0].from_responder.missing_octets, 0u);
}

TEST(CaptureGaps, OctetsThatTheSnapLengthCutAreNotZero) {  // RFC 6581 §6
  const wire::MpaEnhanced d{.a = true, .d = true, .ird = 4, .ord = 4};
  for (std::uint32_t keep = 0; keep <= 24; ++keep) {
    Exchange x;
    x.open().send(0, startup(MpaKey::req, C | S, 2, d)).send(1, startup(MpaKey::rep, C | S, 2, d));
    x.send(0, fpdu(test::read_request(1, {1, 0, 0, 1, 0}))).close();
    for (auto& f : x.frames) {
      f.original_length = static_cast<std::uint32_t>(f.octets.size());
      f.octets.resize(std::min<std::size_t>(f.octets.size(), 54 + keep));
    }
    const FileReport r = test::analyse(x.frames);
    EXPECT_EQ(r.count(Severity::error) + r.count(Severity::warning), 0u) << keep << "\n" << test::words(r);
    if (keep >= 20 && keep < 24) {
      EXPECT_FALSE(r.connections.at(0).request->enhanced) << keep;
      EXPECT_EQ(r.connections[0].request->private_data.size(), 0u) << keep;
    }
  }
}

TEST(CaptureGaps, MarkersAreNotJudgedBehindAnRtrFrameThatIsLost) {  // OFA 2007-10 Rtr §2, RFC 5044 §4.3
  for (const bool crc : {false, true}) {
    const std::uint8_t c = crc ? C : 0;
    Exchange x;
    x.open().send(0, startup(MpaKey::req, c | S, 1)).send(1, startup(MpaKey::rep, c | S | M, 1));
    x.send(0, startup(MpaKey::rtr, c, 1));
    std::uint64_t at = 0;
    for (std::uint32_t msn = 1; msn < 30; ++msn) {
      const Bytes f = fpdu(send_segment(msn, 60), at, true, crc);
      at += f.size();
      x.send(0, f);
    }
    x.close();
    EXPECT_EQ(errors(x), "");
    drop(x, 5);
    EXPECT_EQ(errors(x), "");
  }
}

TEST(CaptureGaps, WithoutCrcNothingProvesAnFpduBehindALoss) {  // RFC 5044 §6
  Exchange x;
  x.open().send(0, startup(MpaKey::req, 0, 1)).send(1, startup(MpaKey::rep, 0, 1));
  // Payload that reads as FPDUs whose MSN is wrong stands where a segment begins.
  Bytes payload(20);
  while (payload.size() < 400) {
    const Bytes inner = fpdu(send_segment(9, 20), 0, false, false);
    payload.insert(payload.end(), inner.begin(), inner.end());
  }
  const auto send = [&](std::uint32_t msn) {
    wire::DdpHeader h;
    h.msn = msn;
    return fpdu(test::segment(h, payload), 0, false, false);
  };
  x.send(0, send(1), 40).send(0, send(2), 40).acknowledge(1).close();
  EXPECT_EQ(errors(x), "");
  drop(x, 5);
  const FileReport r = test::analyse(x.frames);
  EXPECT_EQ(r.count(Severity::error), 0u) << test::words(r);
}

TEST(CaptureGaps, ACaptureMayBeginWithARequestThatIsSentAgain) {  // RFC 5044 §7.1.2 rule 3
  Exchange x;
  x.set_up().send(0, fpdu(send_segment(1, 8))).send(1, fpdu(send_segment(1, 8))).close();
  const test::Frame request = x.frames[3];
  x.frames.erase(x.frames.begin(), x.frames.begin() + 5);
  x.frames.insert(x.frames.begin(), request);
  const FileReport r = test::analyse(x.frames);
  EXPECT_EQ(r.count(Severity::error), 0u) << test::words(r);
  ASSERT_EQ(r.connections.size(), 1u);
  EXPECT_NE(r.connections[0].outcome, Outcome::failed);
}

TEST(CaptureGaps, SegmentsOfAMessageInAnyOrderAreAWarning) {  // RFC 5041 §5.3
  const auto said = [](std::initializer_list<Bytes> segments) {
    Exchange x;
    x.set_up();
    for (const Bytes& s : segments) x.send(0, fpdu(s));
    return test::analyse(x.send(1, fpdu(send_segment(1, 4))).close().frames);
  };
  const auto send = [](std::uint32_t mo, bool last) { return send_segment(1, 100, mo, last); };
  const auto write = [](std::uint64_t to, bool last) {
    return test::tagged(RdmapOpcode::rdma_write, 5, to, 100, last);
  };
  for (const auto& r :
       {said({send(100, false), send(0, false), send(200, true)}),
        said({send(200, true), send(0, false), send(100, false)}),
        said({write(0, false), write(200, true), write(100, false)}),
        said({write(100, false), write(0, false), write(200, true)}),
        said({write(200, true), write(0, false), write(100, false), test::tagged(RdmapOpcode::rdma_write, 6, 0, 9)})}) {
    EXPECT_EQ(r.count(Severity::error), 0u) << test::words(r);
    EXPECT_EQ(r.count(Severity::warning), 1u) << test::words(r);
    EXPECT_TRUE(test::has(r, Severity::warning, "[RFC 5041 §5.3]")) << test::words(r);
  }
  for (const auto& r : {said({send(0, false), send(200, true)}), said({send(0, false), send(50, true)}),
                        said({write(0, false), write(200, true)}), said({write(0, false), write(50, true)})}) {
    EXPECT_EQ(r.count(Severity::error), 1u) << test::words(r);
    EXPECT_TRUE(test::has(r, Severity::error, "[RFC 5041 §5.2]")) << test::words(r);
  }
}

TEST(CaptureGaps, SegmentsOfAReadResponseInAnyOrderAreAWarning) {  // RFC 5041 §5.3
  const auto said = [](std::initializer_list<Bytes> segments) {
    Exchange x;
    x.set_up().send(0, fpdu(test::read_request(1, {7, 0, 300, 8, 0})));
    for (const Bytes& s : segments) x.send(1, fpdu(s));
    return test::analyse(x.close().frames);
  };
  const auto part = [](std::uint64_t to, bool last) {
    return test::tagged(RdmapOpcode::read_response, 7, to, 100, last);
  };
  const FileReport good = said({part(200, true), part(0, false), part(100, false)});
  EXPECT_EQ(good.count(Severity::error), 0u) << test::words(good);
  EXPECT_EQ(good.count(Severity::warning), 1u) << test::words(good);
  const FileReport bad = said({part(0, false), part(200, true)});
  EXPECT_EQ(bad.count(Severity::error), 1u) << test::words(bad);
  EXPECT_TRUE(test::has(bad, Severity::error, "left out octets of its answer")) << test::words(bad);
}

TEST(CaptureGaps, ARequestThatTheCaptureLacksFailsNoSetUp) {  // RFC 5044 §4.3
  Exchange x;
  x.open().send(0, startup(MpaKey::req, C, 1)).send(1, startup(MpaKey::rep, C | M, 1));
  x.send(0, fpdu(send_segment(1, 8), 0, true)).send(1, fpdu(send_segment(1, 8))).close();
  drop(x, 3);
  const FileReport r = test::analyse(x.frames);
  EXPECT_EQ(r.count(Severity::error) + r.count(Severity::warning), 0u) << test::words(r);
  EXPECT_NE(r.connections.at(0).outcome, Outcome::failed);
}

TEST(CaptureGaps, OneDirectionAloneIsAConnectionToo) {  // RFC 5044 §7.1.2
  for (const bool of_responder : {false, true}) {
    Exchange x;
    x.set_up().send(0, fpdu(send_segment(1, 8))).send(1, fpdu(send_segment(1, 8))).close();
    const std::uint8_t last = of_responder ? 2 : 1;  // of the source's address, 12 octets into the IP header
    std::erase_if(x.frames, [&](const test::Frame& f) { return f.octets[14 + 15] != last; });
    const FileReport r = test::analyse(x.frames);
    ASSERT_EQ(r.connections.size(), 1u);
    EXPECT_EQ(r.count(Severity::error), 0u) << test::words(r);
  }
}

TEST(CaptureGaps, TheUlpMayBeginAgainAfterARejection) {  // RFC 5044 §7.1.2 rule 2
  Exchange x;
  x.open().send(0, startup(MpaKey::req, C, 1)).send(1, startup(MpaKey::rep, C | R, 1));
  x.send(0, startup(MpaKey::req, C, 1)).send(1, startup(MpaKey::rep, C, 1)).close();
  const FileReport r = test::analyse(x.frames);
  EXPECT_EQ(r.count(Severity::error), 0u) << test::words(r);
  EXPECT_TRUE(test::has(r, Severity::note, "another Request on this TCP connection, after the reject of frame 5"))
      << test::words(r);
}

}  // namespace
}  // namespace parley::capture::gaps_test
