// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Losses and late starts beside the set-up: what the capture lacks there may be what explains all that follows. Beside
// each stands the fault that is told where the capture has it all.
#include <gtest/gtest.h>

#include "tests/unit/capture/exchange.hpp"

namespace parley::capture::losses_test {
namespace {

using test::errors;
using test::Exchange;
using test::fpdu;
using test::send_segment;
using test::startup;
using wire::MpaKey;
using wire::RdmapOpcode;

constexpr std::uint8_t M = PARLEY_MPA_FLAG_M, C = PARLEY_MPA_FLAG_C, R = PARLEY_MPA_FLAG_R, S = PARLEY_MPA_FLAG_S;

void drop(Exchange& x, std::size_t at, std::size_t n = 1) {
  const auto from = x.frames.begin() + static_cast<std::ptrdiff_t>(at);
  x.frames.erase(from, from + static_cast<std::ptrdiff_t>(n));
}
/// The frame at `at` is captured behind the `n` that follow it.
void delay(Exchange& x, std::size_t at, std::size_t n) {
  const auto from = x.frames.begin() + static_cast<std::ptrdiff_t>(at);
  std::rotate(from, from + 1, from + 1 + static_cast<std::ptrdiff_t>(n));
}
void expect_part(const std::string& all, std::string_view part) {
  EXPECT_NE(all.find(part), std::string::npos) << all << "lacks: " << part;
}
Bytes repeated(std::string_view text, std::size_t n) {
  Bytes out;
  for (std::size_t i = 0; i < n; ++i) out.push_back(static_cast<std::uint8_t>(text[i % text.size()]));
  return out;
}
Bytes terminate(Bytes body) {
  wire::DdpHeader h;
  h.opcode = RdmapOpcode::terminate;
  h.qn = 2;
  h.msn = 1;
  return test::segment(h, body);
}
Bytes quoting(const Bytes& segment) {  // a Send that is too long
  Bytes body{0x12, 5, 0xC0, 0, 0, static_cast<std::uint8_t>(segment.size())};
  body.insert(body.end(), segment.begin(), segment.begin() + 18);
  return terminate(body);
}
const ConnectionReport one(const Exchange& x) {
  FileReport r = test::analyse(x.frames);
  EXPECT_EQ(r.connections.size(), 1u) << test::words(r);
  return r.connections.empty() ? ConnectionReport{} : std::move(r.connections[0]);
}

TEST(CaptureLosses, TheNumberOfAResetShowsTheReplyThatIsLost) {  // RFC 9293 §3.4
  Exchange x;
  x.set_up().rst(1);
  drop(x, 4);
  EXPECT_EQ(one(x).outcome, Outcome::incomplete);
  Exchange none;
  none.open().send(0, startup(MpaKey::req, C, 1)).rst(1);
  EXPECT_EQ(one(none).outcome, Outcome::failed);
}

TEST(CaptureLosses, ASynThatIsCapturedLateMovesNothing) {  // RFC 9293 §3.4
  for (const std::size_t late : {0u, 1u}) {
    Exchange x;
    x.set_up().send(0, fpdu(send_segment(1, 8))).send(1, fpdu(send_segment(1, 8)));
    const test::Frame reply = x.frames[4];
    delay(x, late, 6 - late);
    x.frames.push_back(reply);
    x.send(1, fpdu(send_segment(2, 8))).close();
    const ConnectionReport c = one(x);
    EXPECT_EQ(errors(x), "");
    EXPECT_EQ(c.from_responder.fpdus, 2u) << late;
    EXPECT_EQ(c.from_responder.missing_octets, 0u) << late;
    EXPECT_EQ(c.outcome, Outcome::established) << late;
  }
}

TEST(CaptureLosses, PartOfAReplyIsNoBadRequest) {  // RFC 5044 §7.1.2
  Exchange x;
  x.open().send(0, startup(MpaKey::req, C, 1)).send(1, startup(MpaKey::rep, C | R, 1, {}, Bytes(40, 3)), 30);
  drop(x, 5);  // the second half of the Reply, with which the capture ends
  drop(x, 3);  // the Request
  drop(x, 0);  // the initiator's SYN
  EXPECT_EQ(errors(x), "");
  EXPECT_FALSE(one(x).request);
}

TEST(CaptureLosses, PayloadThatReadsLikeAKeyIsNoStartupFrame) {  // RFC 5044 §7.1.1
  const Bytes words = repeated("MPA ID Req Frame", 400);
  for (const unsigned side : {0u, 1u}) {
    Exchange x;
    x.open().send(0, startup(MpaKey::req, C, 1, {}, side == 0 ? words : Bytes{}), 116);
    const std::size_t reply = x.frames.size();
    x.send(1, startup(MpaKey::rep, C, 1, {}, side == 1 ? words : Bytes{}), 116);
    x.send(0, fpdu(send_segment(1, 8))).send(1, fpdu(send_segment(1, 8))).close();
    EXPECT_EQ(errors(x), "");
    if (side == 1) {
      drop(x, reply);  // the key is lost, and the first 96 octets of words
      EXPECT_EQ(errors(x), "");
    } else {
      drop(x, 0, 4);  // the capture begins there
      EXPECT_EQ(errors(x), "");
    }
  }
}

TEST(CaptureLosses, AnRtrFrameIsNoRequest) {  // OFA 2007-10 Rtr §2
  Exchange x;
  x.open().send(0, startup(MpaKey::req, C | S, 1)).send(1, startup(MpaKey::rep, C | S, 1));
  x.send(0, startup(MpaKey::rtr, C, 1)).send(1, fpdu(send_segment(1, 8))).close();
  x.frames[4].original_length = static_cast<std::uint32_t>(x.frames[4].octets.size());
  x.frames[4].octets.resize(54 + 14);
  drop(x, 3);
  EXPECT_EQ(errors(x), "");
}

TEST(CaptureLosses, ARejectionThatIsLostExplainsASecondRequest) {  // RFC 5044 §7.1.2 rule 2
  const auto made = [](std::uint8_t revision, bool rejected, std::size_t cut) {
    const std::optional<wire::MpaEnhanced> depths =
        revision == 2 ? std::optional(wire::MpaEnhanced{.ird = 4, .ord = 4}) : std::nullopt;
    const std::uint8_t s = revision == 2 ? S : 0;
    Exchange x;
    x.open().send(0, startup(MpaKey::req, C | s, revision, depths));
    if (rejected) x.send(1, startup(MpaKey::rep, C | R | s, revision, depths, Bytes(30, 1)));
    const Bytes again = startup(MpaKey::req, C | s, revision, depths);
    if (!rejected) x.send(1, startup(MpaKey::rep, C | M | s, revision, depths));
    x.send(0, again, cut);
    if (rejected) x.send(1, startup(MpaKey::rep, C | M | s, revision, depths));
    std::uint64_t at = 0;
    for (std::uint32_t msn = 1; msn < 20; ++msn) {
      const Bytes f = fpdu(send_segment(msn, 60), at, true);
      at += f.size();
      x.send(0, f);
    }
    x.send(0, fpdu(test::read_request(1, {1, 0, 4, 2, 0}), at, true));
    return x.send(1, fpdu(test::tagged(RdmapOpcode::read_response, 1, 0, 4))).close();
  };
  for (const std::uint8_t revision : {std::uint8_t{1}, std::uint8_t{2}}) {
    Exchange lost = made(revision, true, 100);
    drop(lost, 4);
    EXPECT_EQ(errors(lost), "");
    EXPECT_EQ(one(lost).from_initiator.fpdus, 20u);
    Exchange both = made(revision, true, 100);  // neither Reply
    drop(both, 6);
    drop(both, 4);
    EXPECT_EQ(errors(both), "");
    EXPECT_EQ(one(both).from_initiator.fpdus, 20u);
    Exchange hole = made(revision, true, 10);  // and some of the second Request
    drop(hole, 6);
    drop(hole, 4);
    EXPECT_EQ(errors(hole), "");
    expect_part(errors(made(revision, false, 100)), "the initiator sent a second startup frame");
  }
}

TEST(CaptureLosses, AnRtrFrameOfWhichOctetsAreLostIsNoFpdu) {  // OFA 2007-10 Rtr §2
  Exchange x;
  x.open().send(0, startup(MpaKey::req, 0 | S, 1)).send(1, startup(MpaKey::rep, 0 | S, 1));
  x.send(0, startup(MpaKey::rtr, 0, 1), 5).send(0, fpdu(test::read_request(1, {1, 0, 4, 2, 0}), 0, false, false));
  x.send(1, fpdu(test::tagged(RdmapOpcode::read_response, 1, 0, 4), 0, false, false)).close();
  EXPECT_EQ(errors(x), "");
  drop(x, 6);
  EXPECT_EQ(errors(x), "");
}

TEST(CaptureLosses, ATerminateMayQuoteWhatWasNeverRead) {  // RFC 5040 §4.8
  const wire::MpaEnhanced depths{.ird = 4, .ord = 4};
  const auto made = [&](const Bytes& quoted) {
    Exchange x;
    x.open().send(0, startup(MpaKey::req, C | S, 2, depths)).send(1, startup(MpaKey::rep, C | M | S, 2, depths));
    x.send(0, fpdu(send_segment(1, 8), 0, true)).send(0, fpdu(send_segment(2, 60), 36, true));
    return x.send(1, fpdu(send_segment(1, 8))).send(1, fpdu(quoting(quoted))).close();
  };
  Exchange x = made(send_segment(2, 60));
  EXPECT_EQ(errors(x), "");
  drop(x, 4, 2);  // the Reply, and the octets that tell whether there are markers
  EXPECT_EQ(errors(x), "");
  expect_part(errors(made(send_segment(3, 60))),
              "copied into its Terminate a DDP header that the other side never sent");
}

TEST(CaptureLosses, ATerminateMayQuoteTheLostOneOfTwoWithOneHeader) {  // RFC 5040 §4.8
  const auto made = [](std::uint8_t length) {
    const Bytes quoted = test::tagged(RdmapOpcode::rdma_write, 5, 0, 0);
    Bytes body{0x11, 0, 0xC0, 0, 0, length};  // an invalid STag
    body.insert(body.end(), quoted.begin(), quoted.begin() + 14);
    Exchange x;
    x.set_up().send(0, fpdu(test::tagged(RdmapOpcode::rdma_write, 5, 0, 38))).send(0, fpdu(quoted));
    return x.send(1, fpdu(terminate(body))).close();
  };
  Exchange lost = made(14);
  drop(lost, 6);
  EXPECT_EQ(errors(lost), "");
  expect_part(errors(made(20)), "a length of 20 octets, it had 14");
}

TEST(CaptureLosses, AReadThatWasNeverReadMayBeAnswered) {  // RFC 5040 §5.2
  Exchange x;
  x.open().send(0, startup(MpaKey::req, C, 1)).send(1, startup(MpaKey::rep, C | M, 1));
  x.send(0, fpdu(test::read_request(1, {1, 0, 4, 2, 0}), 0, true), 30);
  x.send(1, fpdu(send_segment(1, 8))).send(1, fpdu(test::tagged(RdmapOpcode::read_response, 1, 0, 4))).close();
  EXPECT_EQ(errors(x), "");
  drop(x, 5);
  drop(x, 3);
  EXPECT_EQ(errors(x), "");
}

TEST(CaptureLosses, SegmentsOfAMessageThatWasUnderWayComeInAnyOrder) {  // RFC 5041 §5.3
  const auto made = [](bool last) {
    Exchange x;
    x.set_up();
    x.send(0, fpdu(send_segment(1, 8)));
    x.send(0, fpdu(send_segment(2, 100, 300, last)));
    x.send(0, fpdu(send_segment(2, 100, 100, false))).send(0, fpdu(send_segment(2, 100, 200, false)));
    x.send(0, fpdu(send_segment(2, 100, 0, false)));
    return x.send(0, fpdu(send_segment(3, 8))).close();
  };
  EXPECT_EQ(errors(made(true)), "");
  expect_part(errors(made(false)), "began message 3 on queue 0 before the last segment of message 2");
  Exchange begun_late = made(true), lost = made(true);
  drop(begun_late, 0, 6);
  EXPECT_EQ(errors(begun_late), "");
  drop(lost, 6);
  EXPECT_EQ(errors(lost), "");
}

TEST(CaptureLosses, SegmentsOfAWriteThatWasUnderWayMayBeLost) {  // RFC 5041 §5.3
  const auto write = [](std::uint64_t to, bool last) {
    return fpdu(test::tagged(RdmapOpcode::rdma_write, 5, to, 100, last));
  };
  const auto made = [&](bool whole) {
    Exchange x;
    x.set_up().send(0, fpdu(send_segment(1, 8)));
    if (whole) x.send(0, write(100, false));
    return x.send(0, write(0, false)).send(0, write(200, true)).send(0, fpdu(send_segment(2, 8))).close();
  };
  EXPECT_EQ(errors(made(true)), "");
  Exchange lost = made(true);
  drop(lost, 6);
  EXPECT_EQ(errors(lost), "");
  expect_part(errors(made(false)), "[RFC 5041 §5.2]");
}

TEST(CaptureLosses, WhoTookFpdusBehindAnRtrFrameUnderstoodIt) {  // RFC 5040 §4.8, RFC 6581 §8
  const auto made = [](bool spoke, std::uint8_t layer = 0x20, std::uint8_t code = 0x05) {
    Exchange x;
    x.open().send(0, startup(MpaKey::req, C | S, 1)).send(1, startup(MpaKey::rep, C | S, 1));
    x.send(0, startup(MpaKey::rtr, C, 1));
    if (spoke) x.send(0, fpdu(send_segment(1, 8)));
    return x.send(1, fpdu(terminate({layer, code, 0, 0}))).close();
  };
  EXPECT_EQ(errors(made(true)), "");
  EXPECT_EQ(errors(made(false, 0x00, 0x00)), "");  // a local catastrophic error is no answer to anything
  expect_part(errors(made(false)), "the responder took the agreed Rtr frame for an FPDU");
  Exchange lost = made(true);
  drop(lost, 6);
  EXPECT_EQ(errors(lost), "");
}

/// An FPDU at a multiple of 512, without the marker that is due before it; the others are there.
Bytes without_its_first_marker(const Bytes& ulpdu) {
  Bytes plain{static_cast<std::uint8_t>(ulpdu.size() >> 8), static_cast<std::uint8_t>(ulpdu.size())}, out;
  plain.insert(plain.end(), ulpdu.begin(), ulpdu.end());
  plain.resize((plain.size() + 3) / 4 * 4);
  for (std::size_t i = 0; i <= plain.size(); i += 4) {
    if (!out.empty() && out.size() % 512 == 0)
      out.insert(out.end(), {0, 0, static_cast<std::uint8_t>(out.size() >> 8), static_cast<std::uint8_t>(out.size())});
    for (std::size_t k = i; k < std::min(i + 4, plain.size()); ++k) out.push_back(plain[k]);
  }
  const std::uint32_t crc = mpa::crc32c(out);
  for (int shift = 0; shift < 32; shift += 8) out.push_back(static_cast<std::uint8_t>(crc >> shift));
  return out;
}

TEST(CaptureLosses, AMarkerThatIsLeftOutBeforeAnFpduIsNamed) {  // RFC 5044 §4.3
  for (const std::size_t size : {20u, 484u, 488u, 1000u, 1200u})
    for (const std::size_t mss : {37u, 1460u})
      for (const bool first : {false, true}) {
        Exchange x;
        x.open().send(0, startup(MpaKey::req, C, 1)).send(1, startup(MpaKey::rep, C | M, 1));
        const Bytes before = fpdu(send_segment(1, 484), 0, true);
        ASSERT_EQ(before.size(), 512u);
        if (!first) x.send(0, before);
        x.send(0, without_its_first_marker(send_segment(first ? 1 : 2, size)), mss).close();
        const std::string said = errors(x);
        // A first FPDU too short for another marker may as well be of a stream without any.
        expect_part(said, !first        ? "the initiator left out the marker at stream position 512"
                          : size < 1000 ? "the initiator sends FPDUs without the markers that the responder requires"
                                        : "the initiator left out the marker at stream position 0");
        EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1) << said;
      }
}

}  // namespace
}  // namespace parley::capture::losses_test
