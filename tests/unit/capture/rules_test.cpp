// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The rows of the conformance table that a capture can show: each fault is found and its culprit named, and beside each
// stands the right behaviour that must not be accused. What answers a fault is judged as well, as a warning.
#include <gtest/gtest.h>

#include "tests/unit/capture/exchange.hpp"

namespace parley::capture::rules_test {
namespace {

using test::Exchange;
using test::fpdu;
using test::send_segment;
using test::startup;
using wire::MpaKey;
using wire::RdmapOpcode;

constexpr std::uint8_t M = PARLEY_MPA_FLAG_M, C = PARLEY_MPA_FLAG_C, R = PARLEY_MPA_FLAG_R, S = PARLEY_MPA_FLAG_S;

/// Everything above a note, one finding per line: "error: text [rule]".
std::string accused(const Exchange& x) {
  std::string out;
  for (const auto& c : test::analyse(x.frames).connections)
    for (const auto& f : c.findings)
      if (f.severity != Severity::note)
        out += std::string(to_string(f.severity)) + ": " + f.text + " [" + f.rule + "]\n";
  return out;
}
std::string noted(const Exchange& x) {
  std::string out;
  for (const auto& c : test::analyse(x.frames).connections)
    for (const auto& f : c.findings)
      if (f.severity == Severity::note) out += f.text + "\n";
  return out;
}
void expect_part(const std::string& all, std::string_view part) {
  EXPECT_NE(all.find(part), std::string::npos) << all << "lacks: " << part;
}
void expect_none(const std::string& all, std::string_view part) {
  EXPECT_EQ(all.find(part), std::string::npos) << all << "has: " << part;
}

Exchange asked(ConstBytes request) {
  Exchange x;
  x.open().send(0, request);
  return x;
}
Exchange answered(ConstBytes request, ConstBytes reply) { return asked(request).send(1, reply); }
Exchange enhanced(wire::MpaEnhanced q, wire::MpaEnhanced r) {
  return answered(startup(MpaKey::req, C | S, 2, q), startup(MpaKey::rep, C | S, 2, r));
}
/// Sends of both sides behind a plain set-up, each acknowledged by the next.
Exchange talk(std::initializer_list<std::pair<unsigned, Bytes>> ulpdus) {
  Exchange x;
  x.set_up();
  for (const auto& [from, ulpdu] : ulpdus) x.send(from, fpdu(ulpdu));
  return x;
}
/// A startup frame of which the length says anything.
Bytes odd_frame(std::string_view key, std::uint8_t flags, std::uint8_t revision, std::uint16_t pd_length,
                std::size_t octets) {
  Bytes out(key.begin(), key.end());
  out.push_back(flags);
  out.push_back(revision);
  out.push_back(static_cast<std::uint8_t>(pd_length >> 8));
  out.push_back(static_cast<std::uint8_t>(pd_length));
  out.resize(out.size() + octets);
  return out;
}
Bytes terminate(std::uint8_t octet0, std::uint8_t code, std::uint8_t bits = 0, ConstBytes headers = {}) {
  wire::DdpHeader h;
  h.opcode = RdmapOpcode::terminate;
  h.qn = 2;
  h.msn = 1;
  Bytes body{octet0, code, bits, 0};
  body.insert(body.end(), headers.begin(), headers.end());
  return test::segment(h, body);
}
/// What a Terminate copies of a segment: its length and its DDP header.
Bytes copied(const Bytes& segment, std::size_t extra = 0) {
  const std::size_t header = (segment[0] & PARLEY_DDP_T) != 0 ? 14 : 18;
  Bytes out{static_cast<std::uint8_t>(segment.size() >> 8), static_cast<std::uint8_t>(segment.size())};
  out.insert(out.end(), segment.begin(), segment.begin() + static_cast<std::ptrdiff_t>(header + extra));
  return out;
}
constexpr std::uint8_t MD = PARLEY_RDMAP_TERM_M | PARLEY_RDMAP_TERM_D, MDR = MD | PARLEY_RDMAP_TERM_R;

Bytes with_octet(Bytes in, std::size_t at, std::uint8_t value) {
  in[at] = value;
  return in;
}
Bytes bad_crc(Bytes f) {
  f.back() ^= 1;
  return f;
}

// Startup frames -----------------------------------------------------------------------------------------------------

TEST(CaptureRules, ReservedBitsAndREchoed) {  // RFC 5044 §7.1.1; rows 2, 3, 4
  expect_part(accused(answered(startup(MpaKey::req, C | 0x0F, 1), startup(MpaKey::rep, C | 0x0F, 1))),
              "the responder set reserved bits 0x0f in its Reply, echoing those of the Request");
  expect_none(accused(answered(startup(MpaKey::req, C | 0x0F, 1), startup(MpaKey::rep, C, 1))), "the responder");
  expect_part(accused(answered(startup(MpaKey::req, C | R, 1), startup(MpaKey::rep, C | R, 1)).close()),
              "warning: the Reply's R=1 may only be an echo of the Request's");
  expect_part(accused(answered(startup(MpaKey::req, C | S, 1), startup(MpaKey::rep, C | S, 1)).close()),
              "nothing shows whether it knows the Rtr frame");
}

TEST(CaptureRules, MarkersRefused) {  // RFC 5044 §4.3; row 5
  expect_part(accused(answered(startup(MpaKey::req, C | M, 1), startup(MpaKey::rep, C | R, 1)).close()),
              "the responder rejected a Request that requires markers");
  EXPECT_EQ(accused(answered(startup(MpaKey::req, C, 1), startup(MpaKey::rep, C | R, 1)).close()), "");
}

TEST(CaptureRules, MarkersAndCrcGoByDirection) {  // RFC 5044 §4.2, §4.4; rows 6, 7, 8
  for (const auto& [q, r] : {std::pair<std::uint8_t, std::uint8_t>{C | M, C}, {C, C | M}, {C, 0}, {C | M, C | M}}) {
    Exchange x = answered(startup(MpaKey::req, q, 1), startup(MpaKey::rep, r, 1));
    x.send(0, fpdu(send_segment(1, 700), 0, (r & M) != 0)).send(1, fpdu(send_segment(1, 700), 0, (q & M) != 0));
    EXPECT_EQ(accused(x.close()), "") << int{q} << " " << int{r};
  }
  Exchange off = answered(startup(MpaKey::req, 0, 1), startup(MpaKey::rep, 0, 1));
  Bytes filled = fpdu(send_segment(1, 8), 0, false, false);
  std::fill(filled.end() - 4, filled.end(), std::uint8_t{0xFF});
  off.send(0, filled).send(1, fpdu(send_segment(1, 8), 0, false, false)).close();
  EXPECT_EQ(test::analyse(off.frames).count(Severity::error), 0U) << accused(off);
  expect_part(accused(off), "warning: the initiator did not ask for CRC (C=0), which must be the default");
  Exchange forgot = answered(startup(MpaKey::req, 0, 1), startup(MpaKey::rep, C, 1));
  forgot.send(0, fpdu(send_segment(1, 8), 0, false, false));
  expect_part(accused(forgot), "error: the initiator sent an FPDU with CRC 00000000");
}

TEST(CaptureRules, MarkersThatNobodyAskedForAndMarkersThatAreNotThere) {  // RFC 5044 §4.3; rows 5, 6, 25
  for (const unsigned from : {0U, 1U})
    for (const bool required : {false, true})
      for (const bool crc : {false, true}) {
        const std::uint8_t base = crc ? C : 0, with = static_cast<std::uint8_t>(base | (required ? M : 0));
        Exchange x = answered(startup(MpaKey::req, from == 1 ? with : base, 1),
                              startup(MpaKey::rep, from == 0 ? with : base, 1));
        if (from == 1) x.send(0, fpdu(send_segment(1, 4), 0, false, crc));
        Exchange right = x;
        std::uint64_t at = 0, other = 0;
        for (std::uint32_t msn = 1; msn <= 3; ++msn) {
          const Bytes wrong = fpdu(send_segment(msn, 600), at, !required, crc);
          const Bytes good = fpdu(send_segment(msn, 600), other, required, crc);
          at += wrong.size(), other += good.size();
          x.send(from, wrong, 300), right.send(from, good, 300);
        }
        const std::string who = from == 0 ? "the initiator " : "the responder ";
        expect_part(accused(x),
                    "error: " + who + (required ? "sends FPDUs without the markers" : "inserts markers, which the"));
        const FileReport r = test::analyse(x.frames);
        EXPECT_EQ(r.count(Severity::error), 1U) << accused(x);
        EXPECT_EQ(from == 0 ? r.connections[0].from_initiator.messages : r.connections[0].from_responder.messages, 3U);
        EXPECT_EQ(test::analyse(right.frames).count(Severity::error), 0U) << accused(right);
      }
}

TEST(CaptureRules, BitsOfMarkersThatAreZero) {  // RFC 5044 §4.3; row 29
  const auto sent = [&](std::size_t at, std::uint8_t bits) {
    Bytes f = fpdu(send_segment(1, 600), 0, true);
    f[at] |= bits;
    const std::uint32_t crc = mpa::crc32c(ConstBytes(f).first(f.size() - 4));
    for (std::size_t i = 0; i < 4; ++i) f[f.size() - 4 + i] = static_cast<std::uint8_t>(crc >> (8 * i));
    return answered(startup(MpaKey::req, C, 1), startup(MpaKey::rep, C | M, 1)).send(0, f);
  };
  for (const auto& [at, bits] : {std::pair<std::size_t, std::uint8_t>{512 + 3, 0x03}, {512, 0x80}}) {
    expect_part(accused(sent(at, bits).send(1, fpdu(send_segment(1, 4))).close()),
                "warning: the initiator set bits of a marker that are 0");
    expect_none(accused(sent(at, bits).send(1, fpdu(send_segment(1, 4))).close()), "the responder");
    expect_part(accused(sent(at, bits).send(1, fpdu(terminate(0x20, 3))).close()),
                "warning: the responder complains of MPA: marker and ULPDU_Length do not agree (2/0/03), and nothing");
  }
}

TEST(CaptureRules, ImproperRequestsAreNotAnswered) {  // RFC 5044 §7.1.2 rule 2; rows 10, 12, 15, 44
  const Bytes good = startup(MpaKey::rep, C, 1), no = startup(MpaKey::rep, C | R, 1);
  const std::pair<Bytes, std::string_view> improper[] = {
      {odd_frame("MPA ID Foo Frame", C, 1, 0, 0), "has another key"},
      {odd_frame(PARLEY_MPA_KEY_REQ, C, 1, 513, 513), "announces 513 octets of private data"},
      {odd_frame(PARLEY_MPA_KEY_REQ, C | S, 2, 3, 3), "has no room for the enhanced data"}};
  for (const auto& [request, why] : improper) {
    expect_part(accused(answered(request, good)), "error: the responder accepted a Request that " + std::string(why));
    expect_part(accused(answered(request, no)), "warning: the responder rejected a Request that " + std::string(why));
    expect_none(accused(asked(request).fin(1).fin(0)), "the responder");
    expect_none(accused(asked(request).rst(1)), "the responder");
  }
  expect_part(accused(asked(odd_frame(PARLEY_MPA_KEY_REQ, C, 3, 0, 0)).fin(1)),
              "error: the initiator sent revision 3, which no RFC defines");
  expect_part(accused(answered(odd_frame(PARLEY_MPA_KEY_REQ, C, 3, 0, 0), odd_frame(PARLEY_MPA_KEY_REP, C, 3, 0, 0))),
              "error: the responder sent revision 3, which no RFC defines");
  EXPECT_EQ(accused(answered(startup(MpaKey::req, C, 1, {}, Bytes(512)), good).close()), "");  // row 14
  expect_part(accused(asked(startup(MpaKey::req, C, 1, {}, Bytes(512))).rst(1)),
              "warning: the responder closed without a Reply to a valid Request with 512 octets");
}

TEST(CaptureRules, RevisionZero) {  // RFC 5044 Appendix C; row 13
  const auto zero = [](std::string_view key, std::uint8_t flags) { return odd_frame(key, flags, 0, 0, 0); };
  EXPECT_EQ(accused(answered(zero(PARLEY_MPA_KEY_REQ, C | M), zero(PARLEY_MPA_KEY_REP, C | M))), "");
  EXPECT_EQ(accused(answered(zero(PARLEY_MPA_KEY_REQ, C | M), startup(MpaKey::rep, C, 1)).fin(1).fin(0)), "");
  expect_part(accused(answered(zero(PARLEY_MPA_KEY_REQ, C), zero(PARLEY_MPA_KEY_REP, 0))),
              "the initiator speaks revision 0 without M:");
  expect_part(accused(answered(zero(PARLEY_MPA_KEY_REQ, C), zero(PARLEY_MPA_KEY_REP, 0))),
              "the responder speaks revision 0 without M and C:");
}

TEST(CaptureRules, RequestsThatAreNotWhole) {  // RFC 5044 §7.1.2 rules 9, 10; rows 16, 17, 18, 20
  const Bytes part = odd_frame(PARLEY_MPA_KEY_REQ, C, 1, 16, 8);
  expect_part(accused(answered(part, startup(MpaKey::rep, C, 1))),
              "error: the responder answered a Request when only 28 of 36 octets had arrived");
  EXPECT_EQ(accused(asked(part).wait(std::chrono::seconds(5)).fin(1).fin(0)), "");
  Exchange lost = answered(part, startup(MpaKey::rep, C, 1));
  lost.frames.erase(lost.frames.begin());  // without the SYN nobody knows what came before
  expect_none(accused(lost), "28 of 36 octets");

  Bytes extra = startup(MpaKey::req, C, 1);
  extra.resize(extra.size() + 4);
  expect_part(accused(answered(extra, startup(MpaKey::rep, C, 1))),
              "warning: the responder accepted although 4 octets had followed the Request");
  expect_none(accused(asked(extra).fin(1).fin(0)), "the responder");

  Exchange drops;
  drops.open().send(0, startup(MpaKey::req, C, 1), 1);
  Exchange refused = drops;
  EXPECT_EQ(accused(drops.send(1, startup(MpaKey::rep, C, 1)).close()), "");
  expect_part(accused(refused.rst(1)), "to a valid Request that came in several segments, as it may");

  const Exchange unanswered = asked(startup(MpaKey::req, C, 1)).wait(std::chrono::seconds(10)).fin(0).fin(1);
  EXPECT_EQ(accused(unanswered), "");
  expect_part(noted(unanswered), "no Reply came; the initiator closed 10.00 s after its Request");
}

TEST(CaptureRules, AnInvalidReplyAgreesOnNoRtrFrame) {  // OFA 2007-10 Rtr §2, RFC 5044 §7.1.1
  const Bytes request = startup(MpaKey::req, C | S, 1);
  const auto closed = [&](std::uint16_t size) {
    return accused(answered(request, odd_frame(PARLEY_MPA_KEY_REP, C | S, 1, size, size)).fin(0).fin(1));
  };
  expect_part(closed(512), "warning: the responder answered S with S under revision 1");
  expect_none(closed(513), "answered S with S");
}

// What the Request still lacked is read as such, not as the head of an FPDU, which it may look like.
TEST(CaptureRules, TheRestOfARequestThatWasAnsweredTooSoonIsNoFpdu) {  // RFC 5044 §7.1.2 rule 9
  const Bytes request = startup(MpaKey::req, C, 1, {}, Bytes{0, 0x80, 0, 0x80});
  Exchange x = answered(ConstBytes(request).first(21), startup(MpaKey::rep, C, 1));
  x.send(0, ConstBytes(request).subspan(21));
  x.send(0, fpdu(test::read_request(1, {0x11, 0x1000, 8, 0x22, 0x2000})));
  x.send(1, fpdu(test::tagged(RdmapOpcode::read_response, 0x11, 0x1000, 8))).close();
  EXPECT_EQ(accused(x),
            "error: the responder answered a Request when only 21 of 24 octets had arrived [RFC 5044 §7.1.2]\n");
  EXPECT_EQ(test::analyse(x.frames).connections.at(0).from_initiator.fpdus, 1u);
}

TEST(CaptureRules, NobodyGoesOnAfterAnInvalidReply) {  // RFC 5044 §7.1.2 rules 3, 5, 8; rows 10, 11, 45
  const Bytes request = startup(MpaKey::req, C, 1), more = fpdu(send_segment(1, 4));
  const Bytes invalid[] = {request, odd_frame("MPA ID Foo Frame", C, 1, 0, 0),
                           odd_frame(PARLEY_MPA_KEY_REP, C, 1, 600, 600)};
  for (const Bytes& reply : invalid) {
    expect_part(accused(answered(request, reply).send(0, more)), "error: the initiator went on with FPDUs after");
    expect_none(accused(answered(request, reply).fin(0).fin(1)), "the initiator went on");
    expect_none(accused(answered(request, reply).fin(0).fin(1)), "the initiator closed");
  }
  expect_part(accused(answered(request, request)), "both sides are initiators");
  const Bytes none = odd_frame(PARLEY_MPA_KEY_REP, C | S, 2, 0, 0), q = startup(MpaKey::req, C | S, 2, {{.ird = 1}});
  expect_part(accused(answered(q, none).fin(0)), "the responder set S, but PD_Length 0 has no room");
  expect_none(accused(answered(q, none).fin(0)), "the initiator went on");
  expect_part(accused(answered(request, odd_frame("MPA ID Foo Frame", C, 1, 0, 0)).send(0, fpdu(terminate(0x20, 4)))),
              "error: the initiator sent a Terminate after an invalid Reply");
}

TEST(CaptureRules, AFpduBehindTheReplyBreaksTheFence) {  // RFC 5044 §7.1.2 rule 4; rows 22, 23
  Bytes glued = startup(MpaKey::rep, C, 1);
  const Bytes f = fpdu(send_segment(1, 4));
  glued.insert(glued.end(), f.begin(), f.end());
  expect_part(accused(answered(startup(MpaKey::req, C, 1), glued)),
              "error: the responder sent an FPDU in the segment of its Reply, before it had received one (rule 4)");
  EXPECT_EQ(accused(talk({{0, send_segment(1, 4)}, {1, send_segment(1, 4)}}).close()), "");
}

// Revision 2 ---------------------------------------------------------------------------------------------------------

TEST(CaptureRules, DepthsAndKindsOfEnhancedFrames) {  // RFC 6581 §9; rows 32 to 37
  EXPECT_EQ(accused(enhanced({.ird = 8, .ord = 8}, {.ird = 8, .ord = 8})), "");
  EXPECT_EQ(accused(enhanced({.ird = 8, .ord = 2}, {.ird = 9, .ord = 8})), "");  // IRD may be raised
  EXPECT_EQ(accused(enhanced({.ird = 0x3FFF, .ord = 0x3FFF}, {.ird = 0x3FFF, .ord = 0x3FFF})), "");
  expect_part(accused(enhanced({.ird = 8, .ord = 8}, {.ird = 8, .ord = 9})), "warning: the responder's ORD 9 is more");
  expect_part(accused(enhanced({.ird = 8, .ord = 8}, {.a = true, .c = true, .ird = 8, .ord = 8})),
              "error: the responder answered A=0 with A=1");
  expect_part(accused(enhanced({.c = true, .ird = 8, .ord = 8}, {.c = true, .ird = 8, .ord = 8})),
              "error: the responder set B, C or D although A is 0");
  expect_part(accused(enhanced({.a = true, .b = true, .ird = 8, .ord = 8}, {.a = true, .ird = 8, .ord = 8})),
              "error: the responder set A but none of B, C and D");
  expect_part(accused(enhanced({.a = true, .d = true}, {.a = true, .d = true})), "did not raise its IRD from 0 to 1");
  EXPECT_EQ(accused(enhanced({.a = true, .d = true}, {.a = true, .d = true, .ird = 1})), "");
  expect_part(accused(enhanced({.ird = 8, .ord = 0x3FFF}, {.ird = 128, .ord = 8})), "the responder answered IRD 128");
}

TEST(CaptureRules, WhyAnInitiatorTerminatesTheSetUp) {  // RFC 6581 §9; rows 36 to 40
  const wire::MpaEnhanced cd{.a = true, .c = true, .d = true, .ird = 4, .ord = 4},
      b{.a = true, .b = true, .ird = 4, .ord = 4}, d{.a = true, .d = true, .ird = 4, .ord = 4},
      none{.ird = 4, .ord = 4}, deep{.ird = 4, .ord = 200};
  const auto with = [](Exchange x, std::uint8_t code) { return x.send(0, fpdu(terminate(0x20, code))).close(); };
  expect_none(accused(with(enhanced(cd, b), 7)), "the initiator found");
  expect_none(accused(with(enhanced(cd, b), 7)), "the initiator closed");
  expect_part(accused(with(enhanced(d, cd), 7)),
              "error: the initiator found no matching RTR although Request and Reply "
              "have Read in common");
  expect_none(accused(with(enhanced(none, deep), 6)), "the initiator terminates");
  expect_part(accused(with(enhanced(none, none), 6)),
              "warning: the initiator terminates for lack of IRD, yet the Reply");
  expect_part(accused(enhanced(cd, b).close()),
              "warning: the initiator closed without the Terminate (layer 2, code 7)");
  expect_part(accused(enhanced(cd, none).send(0, fpdu(send_segment(1, 4)))),
              "warning: the initiator, which asked for A=1, went on although the Reply has A=0");
  expect_none(accused(with(enhanced(cd, none), 7)), "the initiator, which");
  expect_part(accused(with(enhanced(none, none), 4)), "calls the Reply invalid, and nothing in the capture shows why");
}

TEST(CaptureRules, TheFirstFpduIsTheRtr) {  // RFC 6581 §9.2; rows 39, 41, 42, 43
  const wire::MpaEnhanced cd{.a = true, .c = true, .d = true, .ird = 4, .ord = 4};
  const Bytes write = fpdu(test::tagged(RdmapOpcode::rdma_write, 0, 0, 0));
  EXPECT_EQ(accused(enhanced(cd, cd).send(0, write).close()), "");
  Exchange read = enhanced(cd, cd);
  read.send(0, fpdu(test::read_request(1, {0xABCD, 7, 0, 0, 0})));
  Exchange wrong = read;
  EXPECT_EQ(accused(read.send(1, fpdu(test::tagged(RdmapOpcode::read_response, 0xABCD, 7, 0))).close()), "");
  expect_part(accused(wrong.send(1, fpdu(test::tagged(RdmapOpcode::read_response, 0, 0, 0)))),
              "error: the responder answered the Read Request");
  expect_part(accused(enhanced(cd, cd).send(0, fpdu(send_segment(1, 4)))), "not an RTR of an agreed kind");
  const Exchange silent = enhanced(cd, cd).close();
  EXPECT_EQ(accused(silent), "");
  expect_part(noted(silent), "the connection ended before the initiator sent the agreed RTR");
}

TEST(CaptureRules, RevisionsBetweenOldAndNew) {  // RFC 6581 §10; rows 46, 47, 48
  const Bytes v2 = startup(MpaKey::req, C | S, 2, {{.ird = 1, .ord = 1}});
  expect_part(accused(answered(v2, startup(MpaKey::rep, C, 1)).close()), "answered revision 2 with revision 1");
  for (const bool reset : {false, true}) {
    Exchange x = asked(v2);
    EXPECT_EQ(accused(reset ? x.rst(1) : x.fin(1).fin(0)), "");
    expect_part(noted(x), "instead of answering; it may not know revision 2");
  }
  EXPECT_EQ(accused(answered(startup(MpaKey::req, C, 2), startup(MpaKey::rep, C, 2)).close()), "");
  expect_part(accused(answered(startup(MpaKey::req, C, 2), startup(MpaKey::rep, C | S, 2, {{.ird = 1}}))),
              "error: the responder sent enhanced data to an initiator that sent none");
}

TEST(CaptureRules, TheRtrFrameMeetsAnEcho) {  // OFA 2007-10 Rtr §2; rows 65, 66
  const auto offered = [] {
    return answered(startup(MpaKey::req, C | S, 1), startup(MpaKey::rep, C | S, 1)).send(0, startup(MpaKey::rtr, C, 1));
  };
  expect_part(accused(offered().send(1, fpdu(terminate(0x20, 5))).fin(1)), "took the agreed Rtr frame for an FPDU");
  expect_part(accused(offered().rst(1)), "warning: the responder reset the connection on the agreed Rtr frame");
  expect_none(accused(offered().send(1, fpdu(send_segment(1, 4))).rst(1)), "reset the connection on");
}

// FPDUs --------------------------------------------------------------------------------------------------------------

TEST(CaptureRules, BadCrcDeservesATerminate) {  // RFC 5044 §8, RFC 5040 §7.2; rows 28, 30
  const auto broken = [] {
    Exchange x;
    x.set_up().send(0, bad_crc(fpdu(send_segment(1, 8))));
    return x;
  };
  const std::string own = "error: the initiator sent an FPDU with CRC";
  for (const Exchange& x : {broken().send(1, fpdu(terminate(0x20, 2))).close(),
                            broken().rst(0),      // it cannot be told any more
                            broken().close()}) {  // judged below
    expect_part(accused(x), own);
  }
  expect_none(accused(broken().send(1, fpdu(terminate(0x20, 2))).close()), "the responder");
  expect_none(accused(broken().rst(0)), "the responder");
  expect_part(accused(broken().send(1, fpdu(send_segment(1, 8))).close()),
              "warning: the responder received the fault of frame 6 and went on without a Terminate; MPA: CRC error "
              "(2/0/02) is expected");
  expect_part(accused(broken().fin(1).fin(0)), "the fault of frame 6 and closed without a Terminate");
  expect_part(accused(broken().acknowledge(1).rst(1)), "the fault of frame 6 and reset the connection without a");
  expect_part(accused(broken().send(1, fpdu(terminate(0x20, 3))).close()),
              "the responder answered the fault of frame 6 with a Terminate that says MPA: marker");
  Exchange unheard = broken();
  unheard.seq(1) += 0;
  unheard.rst(0);
  expect_none(accused(unheard), "the responder");
}

TEST(CaptureRules, AnAnswerThatTheCaptureLacksIsNotMissed) {  // rows 28, 30
  Exchange x;
  x.set_up().send(0, bad_crc(fpdu(send_segment(1, 8))));
  const auto at = static_cast<std::ptrdiff_t>(x.frames.size());
  x.send(1, fpdu(terminate(0x20, 2))).acknowledge(0).close();
  x.frames.erase(x.frames.begin() + at);
  expect_none(accused(x), "the responder");
}

TEST(CaptureRules, WhatCrossedTheFaultIsNoAnswerToIt) {  // rows 28, 30
  const Bytes bad = bad_crc(fpdu(send_segment(1, 8)));
  const auto crossed = [](Exchange x) {  // the last two were on their way at the same time
    std::swap(x.frames[x.frames.size() - 1].octets, x.frames[x.frames.size() - 2].octets);
    return x;
  };
  Exchange x;
  x.set_up();
  Exchange said = x, closed = x, complained = x;
  expect_none(accused(crossed(said.send(1, fpdu(terminate(0x10, 0))).send(0, bad))), "answered the fault");
  expect_none(accused(crossed(closed.fin(1).send(0, bad))), "closed without a Terminate");
  complained.send(0, bad).send(1, fpdu(terminate(0x20, 2)));
  expect_none(accused(crossed(complained)), "gives cause");  // the capture shows the cause after its effect
}

TEST(CaptureRules, WhoWasWrongedFirstAnswersFirst) {  // rows 28, 30
  Exchange x = talk({{0, send_segment(1, 8)}, {1, send_segment(5, 8)}, {0, send_segment(9, 8)}});
  x.fin(1).fin(0);
  expect_none(accused(x), "the responder received the fault");
  expect_part(accused(x), "the initiator received the fault of frame 7 and went on without a Terminate");
}

TEST(CaptureRules, AWrongFpduPtrDeservesATerminateToo) {  // RFC 5044 §4.3, §8; row 28
  Bytes f = fpdu(send_segment(1, 600), 0, true);
  f[512 + 3] ^= 0x10;
  const std::uint32_t crc = mpa::crc32c(ConstBytes(f).first(f.size() - 4));
  for (std::size_t i = 0; i < 4; ++i) f[f.size() - 4 + i] = static_cast<std::uint8_t>(crc >> (8 * i));
  const auto sent = [&] { return answered(startup(MpaKey::req, C, 1), startup(MpaKey::rep, C | M, 1)).send(0, f); };
  expect_none(accused(sent().send(1, fpdu(terminate(0x20, 3))).close()), "the responder");
  expect_part(accused(sent().fin(1).fin(0)), "marker and ULPDU_Length do not agree (2/0/03) is expected");
}

TEST(CaptureRules, PadThatIsNotZeroIsAccepted) {  // RFC 5044 §4.1; row 31
  Bytes f = fpdu(send_segment(1, 7));             // 2 + 25 octets: one of pad
  f[f.size() - 5] = 0xFF;
  const std::uint32_t crc = mpa::crc32c(ConstBytes(f).first(f.size() - 4));
  for (std::size_t i = 0; i < 4; ++i) f[f.size() - 4 + i] = static_cast<std::uint8_t>(crc >> (8 * i));
  Exchange x;
  x.set_up().send(0, f);
  Exchange refused = x;
  expect_part(accused(x.send(1, fpdu(send_segment(1, 4))).close()), "the initiator sent pad octets that are not 0");
  expect_none(accused(x), "the responder");
  expect_part(accused(refused.send(1, fpdu(terminate(0x20, 2))).close()),
              "warning: the responder complains of MPA: CRC error (2/0/02), and nothing that the initiator sent gives");
}

TEST(CaptureRules, ACrcThatNobodyAskedForIsNotChecked) {  // RFC 5044 §4.4; row 8
  Exchange x = answered(startup(MpaKey::req, 0, 1), startup(MpaKey::rep, 0, 1));
  x.send(0, fpdu(send_segment(1, 8), 0, false, false)).send(1, fpdu(terminate(0x20, 2), 0, false, false)).close();
  expect_part(accused(x), "error: the responder complains of a CRC although neither side asked for CRCs");
}

TEST(CaptureRules, FpdusLongerThanASegmentAreNoted) {  // RFC 5044 §4.5; row 67
  expect_part(noted(talk({{0, send_segment(1, 3000)}}).close()), "longer than a TCP segment of this connection");
  expect_none(noted(talk({{0, send_segment(1, 1430)}}).close()), "longer than a TCP segment");  // 1460 on the wire
}

// DDP and RDMAP ------------------------------------------------------------------------------------------------------

struct Deserving {
  Bytes ulpdu;
  std::uint8_t octet0, code;
  std::string_view culprit;
  Bytes next = {};  // without it nothing is proven: segments may come in any order (RFC 5041 §5.3)
};

TEST(CaptureRules, FaultsOfSegmentsAndTheTerminatesTheyDeserve) {  // RFC 5041 §7.1, RFC 5040 §7.2; rows 49 to 56, 69
  wire::DdpHeader queue, msn, mo;
  queue.qn = 5, queue.msn = 1;
  msn.msn = 2;
  mo.msn = 1, mo.mo = 4;
  const Bytes good = send_segment(1, 4);
  const Bytes write = test::tagged(RdmapOpcode::rdma_write, 1, 0, 8);
  wire::DdpHeader atomic;
  atomic.opcode = RdmapOpcode::atomic_request;
  atomic.qn = 1, atomic.msn = 1;
  Bytes body(PARLEY_RDMAP_ATOMIC_REQUEST_LEN);
  wire::AtomicRequest q;
  q.to = 4;
  q.emit(body);
  const Deserving all[] = {
      {with_octet(good, 0, 0x40), 0x12, 0x06, "sent DDP version 0"},
      {with_octet(write, 0, 0xC0), 0x11, 0x04, "sent DDP version 0"},
      {with_octet(good, 1, 0x03), 0x02, 0x05, "sent RDMAP version 0"},
      {with_octet(good, 1, 0x4F), 0x02, 0x06, "sent RDMAP opcode 0xF"},
      {test::segment(queue, Bytes(4)), 0x12, 0x01, "on queue 5"},
      {test::segment(msn, Bytes(4)), 0x12, 0x03, "with MSN 2, 1 was expected"},
      {test::segment(mo, Bytes(4)), 0x12, 0x04, "at MO 4", send_segment(2, 4)},
      {test::tagged(RdmapOpcode::rdma_write, 1, ~0ULL - 3, 8), 0x11, 0x03, "wraps"},
      {test::segment(atomic, body), 0x02, 0x07, "not a multiple of 8"},
  };
  for (const Deserving& d : all) {
    SCOPED_TRACE(d.culprit);
    const auto said = [&] {
      Exchange x = talk({{0, d.ulpdu}});
      return d.next.empty() ? x : x.send(0, fpdu(d.next));
    };
    const auto answered = [&](ConstBytes terminate) { return accused(said().send(1, fpdu(terminate)).close()); };
    const std::string right = answered(terminate(d.octet0, d.code, MD, copied(d.ulpdu)));
    expect_part(right, d.culprit);
    expect_none(right, "the responder");
    const std::string bare = answered(terminate(d.octet0, d.code));
    if (d.code != 0x07) expect_part(bare, "warning: the responder left the DDP header of the faulty segment out");
    expect_part(accused(said().fin(1).fin(0)), "closed without a Terminate");
    expect_part(answered(terminate(0x01, 0x02, MD, copied(d.ulpdu))),
                d.next.empty() ? "answered the fault of frame 6 with a Terminate that says remote protection"
                               : "answered the fault of frame 7 with a Terminate that says remote protection");
  }
}

TEST(CaptureRules, TheTBitBelongsToTheOpcode) {  // RFC 5040 §4.2; row 55
  const Bytes tagged_send = test::tagged(RdmapOpcode::send, 1, 0, 8);
  expect_part(accused(talk({{0, tagged_send}, {1, send_segment(1, 4)}}).close()),
              "sent a Send in a tagged DDP segment");
  expect_part(
      accused(talk({{0, tagged_send}, {1, send_segment(1, 4)}}).close()),
      "warning: the responder received the fault of frame 6 and went on without a Terminate; a Terminate is expected");
  for (const auto& [octet0, code] : {std::pair<std::uint8_t, std::uint8_t>{0x02, 0x06}, {0x10, 0x00}})
    expect_none(accused(talk({{0, tagged_send}, {1, terminate(octet0, code, MD, copied(tagged_send))}}).close()),
                "the responder");
}

TEST(CaptureRules, MessagesWithoutOctetsHaveNoStagToRefuse) {  // RFC 5041 §5.1, RFC 5040 §5.2; rows 57, 58
  const Bytes empty = test::tagged(RdmapOpcode::rdma_write, 0, 0, 0),
              full = test::tagged(RdmapOpcode::rdma_write, 0, 0, 8);
  expect_part(accused(talk({{0, empty}, {1, terminate(0x11, 0, MD, copied(empty))}}).close()),
              "error: the responder refused STag or TO of a message without octets");
  EXPECT_EQ(accused(talk({{0, full}, {1, terminate(0x11, 0, MD, copied(full))}}).close()), "");
  const Bytes nothing = test::read_request(1, {1, 0, 0, 0, 0}), some = test::read_request(1, {1, 0, 16, 0, 0});
  expect_part(accused(talk({{0, nothing}, {1, terminate(0x01, 0, MDR, copied(nothing, 28))}}).close()),
              "error: the responder refused the source of a Read of no octets");
  EXPECT_EQ(accused(talk({{0, some}, {1, terminate(0x01, 0, MDR, copied(some, 28))}}).close()), "");
}

TEST(CaptureRules, ARefusedReadIsCopiedWhole) {  // RFC 5040 §4.8; row 59
  const Bytes ask = test::read_request(1, {1, 0, 16, 9, 0});
  expect_part(accused(talk({{0, ask}, {1, terminate(0x01, 0, MD, copied(ask))}}).close()),
              "warning: the responder left the Read Request that it refuses out of its Terminate (R)");
  Bytes other = ask;
  other[13] = 0x10;  // MSN 16: the size of the Read
  expect_part(accused(talk({{0, ask}, {1, terminate(0x01, 0, MDR, copied(other, 28))}}).close()),
              "error: the responder copied into its Terminate a DDP header that the other side never sent");
}

TEST(CaptureRules, MpaErrorsComeWithoutHeaders) {  // RFC 5040 §4.8
  const Bytes send = send_segment(1, 8);
  Exchange x;
  x.set_up().send(0, bad_crc(fpdu(send))).send(1, fpdu(terminate(0x20, 2, MD, copied(send)))).close();
  expect_part(accused(x), "warning: the responder sent headers with the Terminate of an MPA error");
}

TEST(CaptureRules, TerminatesWithoutCause) {  // RFC 5040 §5.4
  for (const auto& [octet0, code] : {std::pair<std::uint8_t, std::uint8_t>{0x02, 0x06}, {0x12, 0x03}, {0x20, 0x03}}) {
    const Bytes send = send_segment(1, 8);
    const bool mpa = octet0 == 0x20;
    const Bytes t = mpa ? terminate(octet0, code) : terminate(octet0, code, MD, copied(send));
    expect_part(accused(talk({{0, send}, {1, t}}).close()), "and nothing that the initiator sent gives cause");
  }
  // What only the peer knows is never doubted: STags, buffers, resources.
  for (const auto& [octet0, code] : {std::pair<std::uint8_t, std::uint8_t>{0x12, 0x02}, {0x12, 0x05}, {0x02, 0x07}}) {
    const Bytes send = send_segment(1, 8);
    EXPECT_EQ(accused(talk({{0, send}, {1, terminate(octet0, code, MD, copied(send))}}).close()), "");
  }
}

TEST(CaptureRules, NumbersGoOnAcrossTheirEnd) {  // RFC 5041 §4.3; row 62
  Exchange x;
  x.set_up().send(0, fpdu(send_segment(1, 100)));
  const auto lost = static_cast<std::ptrdiff_t>(x.frames.size());
  x.send(0, fpdu(send_segment(2, 100)));
  x.send(0, fpdu(send_segment(0xFFFFFFFF, 100))).send(0, fpdu(send_segment(0, 100))).acknowledge(1);
  for (int i = 0; i < 20; ++i) x.acknowledge(1);
  x.frames.erase(x.frames.begin() + lost);  // what came in between is not in the capture
  EXPECT_EQ(accused(x), "");
}

TEST(CaptureRules, ATerminateIsTheLastAndIsLeftTimeToArrive) {  // RFC 5040 §5.4, §6.2.1; row 63
  const auto said = [] {
    Exchange x;
    x.set_up().send(0, bad_crc(fpdu(send_segment(1, 8)))).send(1, fpdu(terminate(0x20, 2)));
    return x;
  };
  expect_part(accused(said().rst(1)),
              "warning: the responder reset the connection before its Terminate was acknowledged");
  expect_none(accused(said().acknowledge(0).rst(1)), "reset the connection before");
  expect_none(accused(said().rst(0)), "reset the connection before");
  expect_part(accused(said().send(1, fpdu(send_segment(1, 4)))), "after its Terminate");
}

TEST(CaptureRules, HalfOfAConnectionMayEndFirst) {  // RFC 5044 §7.2; row 64
  Exchange x = talk({{0, send_segment(1, 4)}});
  x.fin(0).send(1, fpdu(send_segment(1, 4))).send(1, fpdu(send_segment(2, 4))).fin(1).acknowledge(0);
  EXPECT_EQ(accused(x), "");
}

TEST(CaptureRules, MoreReadsThanAgreedMayBeEndedWithAnyCode) {  // RFC 5040 §5.2.1; row 60
  Exchange x = enhanced({.ird = 1, .ord = 1}, {.ird = 1, .ord = 1});
  x.send(0, fpdu(test::read_request(1, {1, 0, 4, 2, 0}))).send(0, fpdu(test::read_request(2, {1, 0, 4, 2, 0})));
  const Bytes second = test::read_request(2, {1, 0, 4, 2, 0});
  x.send(1, fpdu(terminate(0x02, 0x07, MD, copied(second)))).close();
  expect_part(accused(x), "the initiator has 2 RDMA Reads outstanding, 1 were agreed");
  expect_none(accused(x), "the responder");
}

TEST(CaptureRules, ImmediateDataHasEightOctets) {  // RFC 7306 §6.3; row 68
  wire::DdpHeader h;
  h.opcode = RdmapOpcode::immediate;
  h.msn = 1;
  const Bytes seven = test::segment(h, Bytes(7));
  expect_none(accused(talk({{0, seven}, {1, terminate(0x02, 0x06, MD, copied(seven))}}).close()), "the responder");
  expect_part(accused(talk({{0, seven}, {1, send_segment(1, 4)}}).close()), "went on without a Terminate");
  const Bytes eight = test::segment(h, Bytes(8));  // who does not know RFC 7306 may refuse it
  EXPECT_EQ(accused(talk({{0, eight}, {1, terminate(0x02, 0x06, MD, copied(eight))}}).close()), "");
}

TEST(CaptureRules, MoreRequestsThanCanBeMatchedAreNamed) {
  Exchange x;
  x.set_up();
  Bytes many;
  for (std::uint32_t msn = 1; msn <= 16386; ++msn) {
    const Bytes f = fpdu(test::read_request(msn, {1, 0, 4, 2, 0}));
    many.insert(many.end(), f.begin(), f.end());
  }
  x.send(0, many, 60000);
  EXPECT_EQ(accused(x), "");
  expect_part(noted(x), "the initiator has more than 16384 requests outstanding");
}

TEST(CaptureRules, OctetsThatWaitTooLongForTheReplyAreNamed) {
  Exchange x = asked(startup(MpaKey::req, C, 1));
  for (std::uint32_t msn = 1; msn <= 300; ++msn) x.send(0, fpdu(send_segment(msn, 1400)));
  x.send(1, startup(MpaKey::rep, C, 1));
  expect_part(noted(x), "waited for a Reply longer than they could be kept (256 KiB)");
}

}  // namespace
}  // namespace parley::capture::rules_test
