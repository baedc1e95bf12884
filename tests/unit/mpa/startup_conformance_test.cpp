// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The conformance rows in which a startup machine is under test. The rows about FPDUs are with the framer and the queue
// pair; where a row has both halves, its startup half is here.
#include "tests/unit/mpa/startup_kit.hpp"

namespace parley::mpa {
namespace {
using namespace kit;

Bytes v2_req(std::string_view enhanced, int flags = 0x50) { return req(flags, 2, hex(enhanced)); }
Bytes v2_rep(std::string_view enhanced, int flags = 0x50) { return rep(flags, 2, hex(enhanced)); }

StartupOptions peer_to_peer(RtrSet offer, Rtr rtr) {
  StartupOptions o;
  o.rtr = rtr;
  o.rtr_offer = offer;
  return o;
}

TEST(Conformance, Row01_PlainRevision1) {  // RFC 5044 §7.1.1
  EXPECT_EQ(to_hex(answer(req(0x40, 1)).octets), to_hex(rep(0x40, 1)));
}

TEST(Conformance, Row02_ReservedBitsIgnoredAndNotEchoed) {  // RFC 5044 §7.1.1
  const Answer a = answer(req(0x0F, 1));
  EXPECT_EQ(a.frame().flags & PARLEY_MPA_RES_V1, 0);
  EXPECT_EQ(a.parameters.peer_flags, 0x0F);
}

TEST(Conformance, Row03_SOnRevision1IsAnsweredTruthfully) {  // OFA 2007-10 Rtr §2
  const Answer able = answer(req(0x50, 1));
  EXPECT_TRUE(able.frame().s());
  EXPECT_EQ(able.state, State::wait_rtr_frame);
  StartupOptions o;
  o.accept_rtr_frame = false;
  const Answer unable = answer(req(0x50, 1), o);
  EXPECT_FALSE(unable.frame().s());
  EXPECT_EQ(unable.state, State::wait_first_fpdu);
}

TEST(Conformance, Row04_RInRequestIgnored) {  // RFC 5044 §7.1.1
  const Answer a = answer(req(0x60, 1));
  EXPECT_FALSE(a.frame().r());
  EXPECT_EQ(a.state, State::wait_first_fpdu);
}

TEST(Conformance, Row05_MHonoured) {  // RFC 5044 §4.3
  const Answer a = answer(req(0xC0, 1));
  EXPECT_TRUE(a.parameters.tx_markers);
  EXPECT_FALSE(a.parameters.rx_markers);
  EXPECT_FALSE(a.frame().m());
}

TEST(Conformance, Row06_MarkersOnlyInTheAskedDirection) {  // RFC 5044 §4.3
  for (const bool i_wants : {false, true})
    for (const bool r_wants : {false, true}) {
      StartupOptions io = rev1(), ro;
      io.markers = i_wants;
      ro.markers = r_wants;
      Pair p(io, ro);
      EXPECT_EQ(p.i.parameters().rx_markers, i_wants);
      EXPECT_EQ(p.i.parameters().tx_markers, r_wants);
      EXPECT_EQ(p.r.parameters().rx_markers, r_wants);
      EXPECT_EQ(p.r.parameters().tx_markers, i_wants);
    }
}

TEST(Conformance, Row07_CrcIfEitherAsks) {  // RFC 5044 §7.1.1
  for (const int revision : {1, 2})
    for (const bool i_wants : {false, true})
      for (const bool r_wants : {false, true}) {
        StartupOptions io, ro;
        io.revision = static_cast<std::uint8_t>(revision);
        io.crc = i_wants;
        ro.crc = r_wants;
        Pair p(io, ro);
        EXPECT_EQ(p.i.parameters().crc, i_wants || r_wants);
        EXPECT_EQ(p.r.parameters().crc, i_wants || r_wants);
      }
}

TEST(Conformance, Row08_CrcOffByBoth) {  // RFC 5044 §4.4
  StartupOptions o = rev1();
  o.crc = false;
  EXPECT_FALSE(judge(o, rep(0x00, 1)).parameters.crc);
  EXPECT_FALSE(answer(req(0x00, 1), o).parameters.crc);
}

TEST(Conformance, Row09_CrcByDefault) {  // RFC 5044 §4.4
  Startup m = initiator();
  EXPECT_TRUE(wire::MpaFrameView::parse(m.poll_transmit())->c());
}

TEST(Conformance, Row10_BadKeyClosesAndNamesTheOctet) {  // RFC 5044 §7.1.2 rule 5
  const Bytes foo = raw_frame("MPA ID Foo Frame", 0x40, 1, 0);
  for (Startup m : {initiator(), responder()}) {
    (void)m.handle_bytes(t0, foo);
    const StartupEvent e = only_event(m);
    EXPECT_EQ(e.kind, Kind::failed);
    EXPECT_EQ(e.close, Close::graceful);
    EXPECT_EQ(e.failure.code, Errc::bad_key);
    EXPECT_EQ(e.failure.rule, "RFC 5044 §7.1.2 rule 5");
    EXPECT_EQ(e.failure.offset, 7u);
  }
}

TEST(Conformance, Row11_BothInitiators) {  // RFC 5044 §7.1.2 rule 8
  Startup m = initiator(rev1());
  (void)m.handle_bytes(t0, req(0x40, 1));
  const StartupEvent e = only_event(m);
  EXPECT_EQ(e.failure.code, Errc::bad_key);
  EXPECT_EQ(e.failure.offset, 9u);
  EXPECT_THAT(e.failure.advice, ::testing::HasSubstr("both sides act as initiator"));
}

TEST(Conformance, Row12_UnknownRevisionsClose) {  // RFC 5044 §7.1.1
  for (const int revision : {3, 127, 129, 255}) {
    Startup m = responder();
    (void)m.handle_bytes(t0, req(0, revision));
    const StartupEvent e = only_event(m);
    EXPECT_EQ(e.failure.code, Errc::bad_revision) << revision;
    EXPECT_EQ(e.close, Close::graceful);
    EXPECT_EQ(e.failure.offset, 17u);
    EXPECT_TRUE(m.poll_transmit().empty());
  }
}

TEST(Conformance, Row13_Revision0GetsOurRevisionThenClose) {  // RFC 5044 Appendix C, non-permissive
  Startup m = responder();
  (void)m.handle_bytes(t0, req(0xC0, 0));
  const Answer a = collect(m);
  EXPECT_EQ(to_hex(a.octets), to_hex(rep(0x20, 1)));
  ASSERT_EQ(a.events.size(), 1u);
  EXPECT_EQ(a.events[0].failure.code, Errc::bad_revision);
  EXPECT_EQ(a.events[0].close, Close::graceful);
}

TEST(Conformance, Row14_PrivateData512Accepted) {  // RFC 5044 §7.1.1
  const Bytes data(512, 0x5A);
  Startup m = responder();
  (void)m.handle_bytes(t0, req(0x40, 1, data));
  EXPECT_EQ(only_event(m).private_data, data);
  EXPECT_EQ(judge(rev1(), rep(0x40, 1, data)).events.at(0).private_data, data);
}

TEST(Conformance, Row15_PrivateData513Closes) {  // RFC 5044 §7.1.1
  for (const int revision : {1, 2}) {
    Startup m = responder();
    (void)m.handle_bytes(t0, raw_frame(PARLEY_MPA_KEY_REQ, 0x40, revision, 513));  // no need to wait for the data
    const StartupEvent e = only_event(m);
    EXPECT_EQ(e.failure.code, Errc::bad_private_data);
    EXPECT_EQ(e.failure.rule, "RFC 5044 §7.1.1");
    EXPECT_EQ(e.failure.offset, 18u);
  }
}

TEST(Conformance, Row16_FewerOctetsThanPdLengthTimesOut) {  // RFC 5044 §7.1.2 rule 10
  Startup m = responder();
  (void)m.handle_bytes(t0, raw_frame(PARLEY_MPA_KEY_REQ, 0x40, 1, 16, Bytes(8)));
  EXPECT_EQ(m.next_deadline(), t0 + 5s);
  m.handle_deadline(t0 + 5s);
  const StartupEvent e = only_event(m);
  EXPECT_EQ(e.failure.code, Errc::timed_out);
  EXPECT_EQ(e.failure.received, "only 28 octets of the Request within 5 s");
}

TEST(Conformance, Row17_OctetsBehindTheRequestFail) {  // RFC 5044 §7.1.2 rule 3
  Startup m = responder();
  (void)m.handle_bytes(t0, join(req(0x40, 1), Bytes(4)));
  const auto all = events(m);
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[1].kind, Kind::failed);
  EXPECT_EQ(all[1].failure.code, Errc::extra_octets);
  EXPECT_EQ(all[1].failure.offset, 20u);
  EXPECT_EQ(m.accept(t0, {}, {}).error(), Errc::wrong_state);
}

TEST(Conformance, Row18_RequestOctetByOctet) {  // RFC 5044 §7.1.2 rule 2
  Startup m = responder();
  for (const std::uint8_t octet : req(0x40, 1, text_bytes("data"))) EXPECT_EQ(m.handle_bytes(t0, {&octet, 1}), 1u);
  EXPECT_EQ(only_event(m).kind, Kind::request);
}

TEST(Conformance, Row19_NoRequestTimesOut) {  // RFC 5044 §7.1.2 rule 8
  Startup m = responder();
  m.handle_deadline(t0 + 5s);
  const StartupEvent e = only_event(m);
  EXPECT_EQ(
      e.failure.to_string("192.0.2.1:7471"),
      "wait for the MPA Request from 192.0.2.1:7471: the deadline passed (nothing for 5 s) [RFC 5044 §7.1.2 rule 8]; "
      "see whether the peer speaks MPA and speaks first, or raise timeouts.request");
}

TEST(Conformance, Row20_NoReplyTimesOut) {  // RFC 5044 §7.1.2 rule 10
  Startup m = initiator();
  EXPECT_EQ(m.next_deadline(), t0 + 30s);
  m.handle_deadline(t0 + 30s);
  const StartupEvent e = only_event(m);
  EXPECT_EQ(e.kind, Kind::failed);
  EXPECT_EQ(e.failure.code, Errc::timed_out);
}

TEST(Conformance, Row21_RejectWithPrivateData) {  // RFC 5044 §7.1.2 rules 2 and 3
  const Answer i = judge(rev1(), rep(0x20, 1, text_bytes("no")));
  ASSERT_EQ(i.events.size(), 1u);
  EXPECT_EQ(i.events[0].kind, Kind::rejected);
  EXPECT_EQ(i.events[0].private_data, text_bytes("no"));
  EXPECT_EQ(i.events[0].close, Close::graceful);
  Startup r = asked(req(0x40, 1));
  ASSERT_TRUE(r.reject(t0, text_bytes("no")));
  EXPECT_EQ(to_hex(r.poll_transmit()), to_hex(rep(0x60, 1, text_bytes("no"))));
  EXPECT_EQ(only_event(r).kind, Kind::rejected);
}

TEST(Conformance, Row22_ResponderIsFencedUntilTheFirstFpdu) {  // RFC 5044 §7.1.2 rule 4
  Startup m = asked(req(0x40, 1));
  ASSERT_TRUE(m.accept(t0, {}, {}));
  EXPECT_FALSE(m.poll_transmit().empty());
  EXPECT_EQ(only_event(m).kind, Kind::fpdu_mode);
  EXPECT_EQ(m.handle_bytes(t0, Bytes(24)), 0u);  // the deframer's
  EXPECT_EQ(m.state(), State::wait_first_fpdu);
  EXPECT_TRUE(events(m).empty());
  m.handle_first_fpdu(t0, Rtr::none);
  EXPECT_EQ(only_event(m).kind, Kind::established);
}

TEST(Conformance, Row23_FpduGluedToTheReplyFails) {  // RFC 5044 §7.1.2 rule 4
  const Bytes fpdu = hex("0012 4143 00000000 00000000 00000001 00000000 587BE8C4");
  const Answer a = judge(rev1(), join(rep(0x40, 1), fpdu));
  ASSERT_EQ(a.events.size(), 1u);
  EXPECT_EQ(a.events[0].kind, Kind::failed);
  EXPECT_EQ(a.events[0].failure.code, Errc::extra_octets);
  EXPECT_EQ(a.events[0].failure.rule, "RFC 5044 §7.1.2 rule 4");
  EXPECT_EQ(a.events[0].failure.offset, 20u);
}

TEST(Conformance, Row32_Revision2ClientServer) {  // RFC 6581 §9.1
  const Answer a = answer(v2_req("0008 0008"));
  EXPECT_EQ(a.frame().revision, 2);
  EXPECT_TRUE(a.frame().s());
  const auto e = a.enhanced();
  EXPECT_FALSE(e.a || e.b || e.c || e.d);
  EXPECT_EQ(e.ord, 8);
  EXPECT_EQ(e.ird, 32);
}

TEST(Conformance, Row33_KindsIgnoredWithoutA) {  // RFC 6581 §9.2
  const Answer a = answer(v2_req("4008 C008"));
  const auto e = a.enhanced();
  EXPECT_FALSE(e.a || e.b || e.c || e.d);
  EXPECT_EQ(a.parameters.rtr, Rtr::none);
  EXPECT_TRUE(a.parameters.offered.empty());
}

TEST(Conformance, Row34_SendOnlyOffered) {  // RFC 6581 §9.2
  const auto e = answer(v2_req("C008 0008")).enhanced();
  EXPECT_TRUE(e.a);
  EXPECT_TRUE(e.b);
  EXPECT_FALSE(e.c || e.d);
}

TEST(Conformance, Row35_ReadRtrWithOrd0RaisesIrd) {  // RFC 6581 §9.1
  StartupOptions o;
  o.ird = 0;
  const Answer a = answer(v2_req("8000 4000"), o);
  EXPECT_TRUE(a.enhanced().d);
  EXPECT_EQ(a.enhanced().ird, 1);
  EXPECT_TRUE(has_reason(a.parameters, "IRD raised from 0 to 1"));
}

TEST(Conformance, Row36_NotNegotiatedIsMirroredByTheResponder) {  // RFC 6581 §9.1
  const Answer a = answer(v2_req("3FFF 3FFF"));
  EXPECT_EQ(a.enhanced().ird, 0x3FFF);
  EXPECT_EQ(a.enhanced().ord, 0x3FFF);
  EXPECT_EQ(a.parameters.ird, 32);  // left alone
  EXPECT_EQ(a.parameters.ord, 32);
  EXPECT_FALSE(a.parameters.depths_negotiated);
}

TEST(Conformance, Row36_NotNegotiatedIsLeftAloneByTheInitiator) {  // RFC 6581 §9.1
  const Answer a = judge({}, v2_rep("3FFF 3FFF"));
  EXPECT_TRUE(has_reason(a.parameters, "those depths are left to the ULP"));
  EXPECT_FALSE(has_reason(judge({}, v2_rep("0020 0020")).parameters, "left to the ULP"));
  EXPECT_EQ(a.state, State::open);
  EXPECT_EQ(a.parameters.ird, 32);
  EXPECT_EQ(a.parameters.ord, 32);
  EXPECT_FALSE(a.parameters.depths_negotiated);
}

TEST(Conformance, Row37_ReplyOrdAboveIrdRaisesOrTerminates) {  // RFC 6581 §9.1
  StartupOptions room;
  room.ird_max = 200;
  const Answer raised = judge(room, v2_rep("0008 00C8"));
  EXPECT_EQ(raised.state, State::open);
  EXPECT_EQ(raised.parameters.ird, 200);
  const Answer refused = judge({}, v2_rep("0008 00C8"));
  ASSERT_EQ(refused.events.size(), 1u);
  EXPECT_EQ(refused.events[0].kind, Kind::terminate);
  EXPECT_EQ(refused.events[0].terminate_code, 6);
  EXPECT_EQ(refused.events[0].failure.code, Errc::insufficient_ird);
}

TEST(Conformance, Row38_NoCommonRtrTerminates) {  // RFC 6581 §9.2
  const Answer a = judge(peer_to_peer({.write = true, .read = true}, Rtr::write), v2_rep("C008 0008"));
  ASSERT_EQ(a.events.size(), 1u);
  EXPECT_EQ(a.events[0].kind, Kind::terminate);
  EXPECT_EQ(a.events[0].terminate_code, 7);
  EXPECT_EQ(a.events[0].close, Close::graceful);
  EXPECT_EQ(a.events[0].failure.received, "kinds offered Write, Read, answered Send");
}

TEST(Conformance, Row39_ReadIsUsedWhenTheReplyAddsWrite) {  // RFC 6581 §9.2
  const Answer a = judge(peer_to_peer({}, Rtr::read), v2_rep("8008 C008"));
  EXPECT_EQ(a.state, State::open);
  EXPECT_EQ(a.parameters.rtr, Rtr::read);
}

TEST(Conformance, Row40_ReplyWithoutATerminates) {  // RFC 6581 §9.2
  const Answer a = judge(peer_to_peer({}, Rtr::write), v2_rep("0008 8008"));
  ASSERT_EQ(a.events.size(), 1u);
  EXPECT_EQ(a.events[0].terminate_code, 7);
  EXPECT_THAT(a.events[0].failure.received, ::testing::HasSubstr("A=0"));
}

TEST(Conformance, Row41_RtrIsTheFirstThingSent) {  // RFC 6581 §9.2
  for (const Rtr rtr : {Rtr::send, Rtr::write, Rtr::read}) {
    Startup m = initiator(peer_to_peer({}, rtr));
    (void)m.poll_transmit();
    (void)m.handle_bytes(t0, v2_rep("C008 C008"));
    EXPECT_EQ(only_event(m).parameters.rtr, rtr);
    EXPECT_TRUE(m.poll_transmit().empty());  // nothing of the machine's stands before it
  }
}

TEST(Conformance, Row42_AnyRtrKindAccepted) {  // RFC 6581 §9.2
  for (const std::string_view offer : {"C008 0008", "8008 8008", "8008 4008", "C008 C008"})
    for (const Rtr form : {Rtr::send, Rtr::write, Rtr::read, Rtr::none}) {
      Startup m = asked(v2_req(offer));
      ASSERT_TRUE(m.accept(t0, {}, {}));
      (void)events(m);
      m.handle_first_fpdu(t0, form);
      const StartupEvent e = only_event(m);
      EXPECT_EQ(e.kind, Kind::established);
      EXPECT_EQ(e.parameters.rtr, form);
      if (!e.parameters.answered.has(form)) {
        EXPECT_TRUE(has_reason(e.parameters, "not the agreed RTR"));
        EXPECT_EQ(has_reason(e.parameters, "a ULP message"), form == Rtr::none);
      }
    }
}

TEST(Conformance, Row43_MissingRtrTimesOut) {  // RFC 5044 §7.1.2 rule 10
  Startup m = asked(v2_req("8008 8008"));
  ASSERT_TRUE(m.accept(t0 + 1s, {}, {}));
  (void)events(m);
  EXPECT_EQ(m.next_deadline(), t0 + 11s);
  m.handle_deadline(t0 + 11s);
  const StartupEvent e = only_event(m);
  EXPECT_EQ(e.failure.code, Errc::timed_out);
  EXPECT_EQ(e.failure.step, step::wait_rtr);
}

TEST(Conformance, Row44_SWithoutEnhancedDataCloses) {  // RFC 6581 §6
  for (const int length : {0, 1, 2, 3}) {
    Startup m = responder();
    (void)m.handle_bytes(t0, raw_frame(PARLEY_MPA_KEY_REQ, 0x10, 2, length));
    const StartupEvent e = only_event(m);
    EXPECT_EQ(e.failure.code, Errc::malformed);
    EXPECT_EQ(e.failure.rule, "RFC 6581 §6");
    EXPECT_TRUE(m.poll_transmit().empty());
  }
}

TEST(Conformance, Row45_DestructiveRepliesAreSurvived) {  // RFC 6581 §6, RFC 5044 §7.1.1
  for (const int length : {0, 1, 2, 3}) {
    const Answer a = judge({}, raw_frame(PARLEY_MPA_KEY_REP, 0x10, 2, length));
    ASSERT_EQ(a.events.size(), 1u);
    EXPECT_EQ(a.events[0].failure.code, Errc::malformed);
  }
  EXPECT_EQ(judge(rev1(), rep(0x40, 1, Bytes(300))).state, State::open);  // allowed up to 512
  EXPECT_EQ(judge(rev1(), raw_frame(PARLEY_MPA_KEY_REP, 0x40, 1, 513)).events.at(0).failure.code,
            Errc::bad_private_data);
}

TEST(Conformance, Row46_Revision1AnswerToRevision2) {  // RFC 6581 §10
  const Answer again = judge({}, rep(0x00, 1));
  ASSERT_EQ(again.events.size(), 1u);
  EXPECT_EQ(again.events[0].kind, Kind::retry_v1);
  StartupOptions strict;
  strict.fall_back_to_v1 = false;
  const Answer no = judge(strict, rep(0x00, 1));
  EXPECT_EQ(no.events.at(0).kind, Kind::failed);
  EXPECT_EQ(no.events.at(0).failure.code, Errc::bad_revision);
}

TEST(Conformance, Row47_ResetOrFinAfterRevision2RequestRetries) {  // RFC 6581 §10
  for (const bool reset : {false, true}) {
    Startup m = initiator();
    m.handle_end(t0, reset);
    const StartupEvent e = only_event(m);
    EXPECT_EQ(e.kind, Kind::retry_v1);
    EXPECT_EQ(e.failure.code, reset ? Errc::peer_reset : Errc::peer_closed);
    Startup old = initiator(rev1());
    old.handle_end(t0, reset);
    EXPECT_EQ(only_event(old).kind, Kind::failed);
  }
}

TEST(Conformance, Row48_Revision2WithoutSGetsAPlainReply) {  // RFC 6581 §10
  const Answer a = answer(req(0x00, 2, text_bytes("data")));
  EXPECT_EQ(to_hex(a.octets), to_hex(rep(0x40, 2)));
  EXPECT_FALSE(a.parameters.depths_negotiated);
}

TEST(Conformance, Row65_BothSpellingsOfTheRtrKeyEstablish) {  // OFA 2007-10 Rtr §1
  for (const RtrSpelling spelling : {RtrSpelling::text, RtrSpelling::hex}) {
    Startup m = asked(req(0x50, 1));
    ASSERT_TRUE(m.accept(t0, {}, {}));
    EXPECT_EQ(m.handle_bytes(t0, join(rtr_frame(spelling), Bytes(5))), 20u);  // the rest is the deframer's
    const StartupEvent e = only_event(m);
    EXPECT_EQ(e.kind, Kind::established);
    EXPECT_EQ(e.parameters.rtr, Rtr::frame);
    EXPECT_TRUE(has_reason(e.parameters, "the Rtr frame arrived with the key"));
    StartupOptions o = rev1();
    o.rtr = Rtr::frame;
    o.rtr_spelling = spelling;
    Startup i = initiator(o);
    (void)i.poll_transmit();
    (void)i.handle_bytes(t0, rep(0x10, 1));
    EXPECT_EQ(to_hex(i.poll_transmit()), to_hex(rtr_frame(spelling)));
  }
}

TEST(Conformance, Row66_AnEchoedSIsNotBelievedFromAKnownEchoer) {  // OFA 2007-10 Rtr §2
  StartupOptions o = rev1();
  o.rtr = Rtr::frame;
  o.rtr_fallback = Rtr::read;
  o.peer_quirk = "siw";
  StartupOptions echo;
  echo.play_quirk = "echo-reserved";
  Pair p(o, echo);
  EXPECT_EQ(p.i.state(), State::open);
  EXPECT_EQ(p.i.parameters().rtr, Rtr::read);
  EXPECT_TRUE(has_reason(p.i.parameters(), "known to echo reserved bits"));
  EXPECT_EQ(p.r.state(), State::open);
}

}  // namespace
}  // namespace parley::mpa
