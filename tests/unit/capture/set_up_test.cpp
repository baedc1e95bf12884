// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Set-ups at their edges: which FPDU is an RTR, what octets are a startup frame, who is told to have given up and why.
#include <gtest/gtest.h>

#include "base/text.hpp"
#include "tests/unit/capture/exchange.hpp"

namespace parley::capture::set_up_test {
namespace {

using test::errors;
using test::Exchange;
using test::fpdu;
using test::send_segment;
using test::startup;
using wire::MpaKey;
using wire::RdmapOpcode;

constexpr std::uint8_t M = PARLEY_MPA_FLAG_M, C = PARLEY_MPA_FLAG_C, R = PARLEY_MPA_FLAG_R, S = PARLEY_MPA_FLAG_S;

Exchange answered(ConstBytes request, ConstBytes reply) {
  Exchange x;
  return x.open().send(0, request).send(1, reply);
}
Exchange enhanced(const wire::MpaEnhanced& q, const wire::MpaEnhanced& r) {
  return answered(startup(MpaKey::req, C | S, 2, q), startup(MpaKey::rep, C | S, 2, r));
}
Bytes terminate(std::uint8_t octet0, std::uint8_t code) {
  wire::DdpHeader h;
  h.opcode = RdmapOpcode::terminate;
  h.qn = 2;
  h.msn = 1;
  return test::segment(h, Bytes{octet0, code, 0, 0});
}
/// Every finding: its severity, frame, text.
std::string all_of(const Exchange& x) { return test::words(test::analyse(x.frames)); }
void expect_part(const std::string& all, std::string_view part) {
  EXPECT_NE(all.find(part), std::string::npos) << all << "lacks: " << part;
}
void expect_none(const std::string& all, std::string_view part) {
  EXPECT_EQ(all.find(part), std::string::npos) << all << "has: " << part;
}

TEST(CaptureSetUp, AnRtrIsAnEmptyMessageOfItsKindAndNothingElse) {  // RFC 6581 §9.2
  const wire::MpaEnhanced all{.a = true, .b = true, .c = true, .d = true, .ird = 4, .ord = 4};
  for (const RdmapOpcode opcode : {RdmapOpcode::send, RdmapOpcode::send_se, RdmapOpcode::rdma_write,
                                   RdmapOpcode::read_request, RdmapOpcode::read_response, RdmapOpcode::immediate})
    for (const bool tagged : {false, true})
      for (const bool last : {false, true})
        for (const std::size_t payload : {0u, 28u, 32u}) {  // 28 octets of 0: a Read of none
          wire::DdpHeader h;
          h.opcode = opcode;
          h.tagged = tagged;
          h.last = last;
          h.qn = tagged ? 0 : wire::rule_of(opcode).qn;
          h.msn = tagged ? 0 : 1;
          const bool rtr = last && ((opcode == RdmapOpcode::send && !tagged && payload == 0) ||
                                    (opcode == RdmapOpcode::rdma_write && tagged && payload == 0) ||
                                    (opcode == RdmapOpcode::read_request && !tagged && payload >= 28));
          const std::string text = all_of(enhanced(all, all).send(0, fpdu(test::segment(h, Bytes(payload)))));
          EXPECT_EQ(text.find("the initiator's first FPDU is a ULP message, not an RTR of an agreed kind") ==
                        std::string::npos,
                    rtr)
              << to_string(opcode) << (tagged ? " tagged" : "") << (last ? " last " : " ") << payload << "\n"
              << text;
        }
}

TEST(CaptureSetUp, OnlyTheWholeKeyHeadMakesAnMpaConnection) {
  const std::string_view head = "MPA ID ";
  for (const std::size_t mss : {1u, 3u, 1460u})
    for (std::size_t n = 0; n <= head.size(); ++n) {
      Bytes octets(head.begin(), head.begin() + static_cast<std::ptrdiff_t>(n));
      octets.insert(octets.end(), 40, 'x');
      Exchange x;
      x.open().send(0, octets, mss).close();
      EXPECT_EQ(test::analyse(x.frames).connections.size(), n == head.size() ? 1u : 0u) << n << " octets, " << mss;
      Exchange part;
      part.open().send(0, ConstBytes(octets).first(n), mss).close();
      EXPECT_EQ(test::analyse(part.frames).connections.size(), n == head.size() ? 1u : 0u) << "only " << n;
    }
}

/// A startup frame as anybody may write it.
Bytes frame(std::string_view key, std::uint8_t revision, std::uint16_t pd_length) {
  Bytes out(key.begin(), key.end());
  out.insert(out.end(), {C, revision, static_cast<std::uint8_t>(pd_length >> 8), static_cast<std::uint8_t>(pd_length)});
  out.resize(out.size() + pd_length);
  return out;
}

TEST(CaptureSetUp, WhereOctetsBeforeItAreMissingOnlyAProperFrameIsOne) {
  struct Case {
    Bytes octets;
    bool proper;
  };
  const Case cases[] = {{frame(PARLEY_MPA_KEY_REQ, 1, 0), true},    {frame(PARLEY_MPA_KEY_REQ, 2, 0), true},
                        {frame(PARLEY_MPA_KEY_REQ, 1, 512), true},  {frame(PARLEY_MPA_KEY_REQ, 3, 0), false},
                        {frame(PARLEY_MPA_KEY_REQ, 1, 513), false}, {frame("MPA ID Foo Frame", 1, 0), false},
                        {frame(PARLEY_MPA_KEY_REP, 1, 0), true},    {frame(PARLEY_MPA_KEY_REP, 255, 0), false}};
  for (const Case& c : cases)
    for (const bool syn : {false, true}) {  // the capture begins later, or lacks what stood before
      Exchange x;
      x.open().send(0, Bytes(20, 'x')).send(0, c.octets);
      for (int i = 0; i < 20; ++i) x.acknowledge(1);
      x.frames.erase(x.frames.begin() + 3);
      if (!syn) x.frames.erase(x.frames.begin(), x.frames.begin() + 3);
      const FileReport r = test::analyse(x.frames);
      EXPECT_EQ(r.connections.size(), c.proper ? 1u : 0u) << syn << test::words(r);
    }
}

TEST(CaptureSetUp, AStartupFrameStandsWhereItsLastOctetIs) {  // RFC 5044 §7.1.1
  for (const std::uint16_t size : std::initializer_list<std::uint16_t>{0, 1, 511, 512, 513}) {
    for (const bool reply : {false, true}) {
      const Bytes octets = frame(reply ? PARLEY_MPA_KEY_REP : PARLEY_MPA_KEY_REQ, 1, size);
      Exchange x;
      x.open();
      if (reply) x.send(0, startup(MpaKey::req, C, 1));
      const std::size_t before = x.frames.size();
      x.send(reply ? 1 : 0, octets, 15);
      const FileReport r = test::analyse(x.frames);
      ASSERT_EQ(r.connections.size(), 1u);
      const auto& seen = reply ? r.connections[0].reply : r.connections[0].request;
      ASSERT_TRUE(seen);
      // One that announces too much is one with its header, in the second segment.
      const std::size_t frames = size > 512 ? 2 : (octets.size() + 14) / 15;
      EXPECT_EQ(seen->frame, before + frames) << size << reply;
      EXPECT_EQ(seen->pd_length, size);
    }
  }
}

TEST(CaptureSetUp, AReplyAsTheFirstFrameGivesNoCauseToDoubtATerminate) {
  for (const std::uint8_t code : Bytes{4, 6, 7}) {
    Exchange whole =
        answered(startup(MpaKey::req, C, 1), startup(MpaKey::rep, C, 1)).send(0, fpdu(terminate(0x20, code)));
    Exchange late = whole;
    late.frames.erase(late.frames.begin(), late.frames.begin() + 4);
    const std::string of_whole = all_of(whole), of_late = all_of(late);
    if (code == 4) expect_part(of_whole, "the initiator calls the Reply invalid, and nothing in the capture shows why");
    expect_none(of_late, "calls the Reply invalid");
    expect_none(of_late, "terminates for lack of IRD");
    expect_part(of_late, "the Request is not in the capture");
  }
}

TEST(CaptureSetUp, LackOfIrdIsDoubtedWhereTheReplyAsksForNoMoreThanIsOffered) {  // RFC 6581 §9.1
  const auto text = [](std::uint16_t ird, std::uint16_t ord) {
    return all_of(enhanced({.ird = 5, .ord = 4}, {.ird = ird, .ord = ord}).send(0, fpdu(terminate(0x20, 6))));
  };
  expect_part(
      text(6, 2),
      "warning frame 6: the initiator terminates for lack of IRD, yet the Reply (IRD 6, ORD 2) asks for no more "
      "than its Request (IRD 5, ORD 4) offers [RFC 6581 §9.1]");
  expect_none(text(6, 7), "yet the Reply");  // more Reads than the initiator answers
  expect_part(text(0x3FFF, 2), "although the Reply asks not to negotiate (0x3fff)");
  expect_part(text(6, 0x3FFF), "although the Reply asks not to negotiate (0x3fff)");
  expect_none(text(3, 2), "yet the Reply");  // fewer than it wants to send
  expect_none(text(0x3FFF, 2), "yet the Reply");
}

TEST(CaptureSetUp, NoMatchingRtrIsDoubtedWhereThereIsOne) {  // RFC 6581 §9.2
  for (unsigned q = 0; q < 8; ++q)
    for (unsigned r = 0; r < 8; ++r) {
      const auto kinds = [](unsigned bits) {
        return wire::MpaEnhanced{
            .a = true, .b = (bits & 1) != 0, .c = (bits & 2) != 0, .d = (bits & 4) != 0, .ird = 4, .ord = 4};
      };
      const std::string text = all_of(enhanced(kinds(q), kinds(r)).send(0, fpdu(terminate(0x20, 7))));
      std::string common;
      if ((q & r & 1) != 0) common += " Send";
      if ((q & r & 2) != 0) common += " Write";
      if ((q & r & 4) != 0) common += " Read";
      const std::string doubt = "found no matching RTR although Request and Reply have";
      if (common.empty())
        expect_none(text, doubt);
      else
        expect_part(text, doubt + common + " in common [RFC 6581 §9.2]");
    }
}

TEST(CaptureSetUp, OctetsBehindTheRequestMayBeRejectedAndNotAccepted) {  // RFC 5044 §7.1.2 rule 3
  Bytes extra = startup(MpaKey::req, C, 1);
  extra.resize(extra.size() + 4);
  const std::string accepted = "the responder accepted although 4 octets had followed the Request by then";
  expect_part(all_of(answered(extra, startup(MpaKey::rep, C, 1)).close()), accepted);
  expect_none(all_of(answered(extra, startup(MpaKey::rep, C | R, 1)).close()), "the responder accepted");
  // What was not acknowledged by then had not come.
  Exchange x;
  x.open().send(0, startup(MpaKey::req, C, 1)).send(1, startup(MpaKey::rep, C, 1));
  expect_none(all_of(x.send(0, Bytes(4)).close()), "the responder accepted");
}

TEST(CaptureSetUp, AResetOnTheAgreedRtrFrameIsTheRespondersAndAFindingNamesItsSide) {  // OFA 2007-10 Rtr §2
  const FileReport r = test::analyse(answered(startup(MpaKey::req, C | S, 1), startup(MpaKey::rep, C | S, 1))
                                         .send(0, startup(MpaKey::rtr, C, 1))
                                         .rst(1)
                                         .frames);
  ASSERT_EQ(r.connections.size(), 1u);
  bool told = false;
  for (const Finding& f : r.connections[0].findings) {
    if (f.text.find("reset the connection on the agreed Rtr frame") == std::string::npos) continue;
    told = true;
    EXPECT_EQ(f.side, Side::responder);
    EXPECT_EQ(f.frame, 7u);
    EXPECT_EQ(f.severity, Severity::warning);
  }
  EXPECT_TRUE(told) << test::words(r);
}

TEST(CaptureSetUp, AStreamThatEndsInsideAnFpduIsNotedAtItsEnd) {  // RFC 5044 §7.2
  const Bytes f = fpdu(send_segment(1, 100));
  const auto part = [&](std::size_t n) {
    Exchange x;
    return x.set_up().send(0, ConstBytes(f).first(n)).acknowledge(1);
  };
  const std::string ends = "note frame 6: the stream of the initiator ends inside an FPDU (";
  for (const std::size_t n : {1u, 2u, 20u, 100u}) {
    expect_none(all_of(part(n)), "ends inside an FPDU");  // the rest may come behind the capture
    expect_part(all_of(part(n).fin(0)), ends + counted(n, "octet") + " of it came)");
    expect_part(all_of(part(n).rst(0)), ends + counted(n, "octet") + " of it came)");
    expect_none(all_of(part(n).fin(1)), "ends inside an FPDU");
  }
  expect_none(all_of(part(f.size()).fin(0)), "ends inside an FPDU");
}

TEST(CaptureSetUp, WhoeverWasResetOwesNoTerminate) {  // RFC 5040 §7.2
  Bytes bad = fpdu(send_segment(1, 8));
  bad.back() ^= 1;
  const auto broken = [&] {
    Exchange x;
    return x.set_up().send(0, bad).acknowledge(1);
  };
  const std::string blamed = "the responder received the fault of frame 6 and";
  expect_part(all_of(broken().fin(1).rst(0)), blamed + " closed without a Terminate");
  expect_none(all_of(broken().rst(0).fin(1)), blamed);
  expect_part(all_of(broken().rst(1)), blamed + " reset the connection without a Terminate");
  expect_none(all_of(broken().rst(0).rst(1)), blamed);
  expect_none(all_of(broken().send(0, fpdu(terminate(0x20, 2))).fin(1)), blamed);  // it ended the stream itself
}

TEST(CaptureSetUp, ARequestAnsweredInPartIsToldForASecondSetUpToo) {  // RFC 5044 §7.1.2 rule 9
  for (const std::size_t came : {1u, 4u, 6u, 7u, 12u, 19u}) {
    Exchange x = answered(startup(MpaKey::req, C, 1), startup(MpaKey::rep, C | R, 1));
    const Bytes request = startup(MpaKey::req, C, 1);
    x.send(0, ConstBytes(request).first(came)).send(1, startup(MpaKey::rep, C, 1));
    x.send(0, ConstBytes(request).subspan(came)).send(0, fpdu(send_segment(1, 8))).close();
    const FileReport r = test::analyse(x.frames);
    ASSERT_EQ(r.connections.size(), 2u) << came << test::words(r);
    EXPECT_EQ(r.connections[0].outcome, Outcome::rejected);
    EXPECT_EQ(r.connections[0].count(Severity::error), 0u);
    EXPECT_TRUE(test::has(r, Severity::error,
                          "the responder answered a Request when only " + std::to_string(came) + " of 20 octets"))
        << came << test::words(r);
  }
}

TEST(CaptureSetUp, ARejectedSetUpLastsUntilTheNextRequest) {
  for (const int acknowledgments : {0, 1, 3}) {
    Exchange x = answered(startup(MpaKey::req, C | M, 1), startup(MpaKey::rep, C | R, 1));
    for (int i = 0; i < acknowledgments; ++i) x.acknowledge(0);
    const Instant last = x.frames.back().at;
    x.wait(std::chrono::seconds(2)).send(0, startup(MpaKey::req, C, 1)).send(1, startup(MpaKey::rep, C, 1)).close();
    const FileReport r = test::analyse(x.frames);
    ASSERT_EQ(r.connections.size(), 2u);
    EXPECT_EQ(r.connections[0].last_frame, 5u + static_cast<unsigned>(acknowledgments));
    EXPECT_EQ(r.connections[0].last_at, last);
    EXPECT_EQ(r.connections[1].first_frame, r.connections[0].last_frame + 1);
    EXPECT_EQ(r.connections[1].first_at, last + std::chrono::milliseconds(2001));
  }
}

TEST(CaptureSetUp, ASegmentOnAnotherQueueEndsNoMessage) {  // RFC 5041 §5.3
  const auto talk = [](std::initializer_list<Bytes> ulpdus) {
    Exchange x;
    x.set_up();
    for (const Bytes& u : ulpdus) x.send(0, fpdu(u));
    return x.close();
  };
  const Bytes ask = test::read_request(1, {0x11, 0x1000, 8, 0x22, 0x2000});
  const Bytes begin = send_segment(1, 10, 0, false), end = send_segment(1, 10, 10);
  const std::string out_of_order = "sent the segments of a Send out of the order of their MO";
  EXPECT_EQ(errors(talk({begin, ask, end})), "");
  for (const Exchange& x : {talk({end, ask, begin}), talk({end, begin, ask})}) {
    EXPECT_EQ(errors(x), "");
    expect_part(all_of(x), out_of_order);
  }
  expect_part(all_of(talk({end, ask, begin})), "warning frame 8: the initiator " + out_of_order);
}

TEST(CaptureSetUp, OnlyARefusalOfAnStagOrOffsetIsOneOfAMessageWithoutOctets) {  // RFC 5041 §5.1, RFC 5040 §5.2
  const Bytes empty = test::tagged(RdmapOpcode::rdma_write, 0, 0, 0);
  for (std::uint8_t layer = 0; layer < 3; ++layer)
    for (std::uint8_t type = 0; type < 3; ++type)
      for (std::uint8_t code = 0; code < 10; ++code) {
        wire::DdpHeader h;
        h.opcode = RdmapOpcode::terminate;
        h.qn = 2;
        h.msn = 1;
        Bytes body{static_cast<std::uint8_t>(layer << 4 | type), code, 0xC0, 0, 0, 14};
        body.insert(body.end(), empty.begin(), empty.end());
        Exchange x;
        x.set_up().send(0, fpdu(empty)).send(1, fpdu(test::segment(h, body)));
        const bool refused =
            all_of(x.close()).find("refused STag or TO of a message without octets") != std::string::npos;
        EXPECT_EQ(refused, type == 1 && ((layer == 0 && code <= 4) || (layer == 1 && code <= 3)))
            << int{layer} << int{type} << int{code};
      }
}

TEST(CaptureSetUp, AConnectionThatEndsInsideWhatItsFinCoversLacksOctets) {  // RFC 9293 §3.4
  for (const bool acknowledged : {false, true}) {
    Exchange x;
    x.set_up().send(0, fpdu(send_segment(1, 40))).send(0, fpdu(send_segment(2, 40))).fin(0);
    x.frames.erase(x.frames.begin() + 6);
    if (acknowledged) x.acknowledge(1);
    const FileReport r = test::analyse(x.frames);
    ASSERT_EQ(r.connections.size(), 1u);
    EXPECT_EQ(r.connections[0].from_initiator.missing_octets, 64u);
    EXPECT_EQ(r.connections[0].from_initiator.fpdus, 1u);
  }
}

}  // namespace
}  // namespace parley::capture::set_up_test
