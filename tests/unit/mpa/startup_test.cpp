// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The life of one connection attempt: who may call what when, what comes out, deadlines, private data, words.
#include "tests/unit/mpa/startup_kit.hpp"

namespace parley::mpa {
namespace {
using namespace kit;

// RFC 6581 §6: what enhanced data and a peer's known limits leave of the private data.
TEST(MpaStartup, TheRoomInARequestIsWhatCreateTakes) {
  std::vector<std::string> names{"", "no such peer"};
  for (const Quirk& quirk : all_quirks()) names.emplace_back(quirk.name);
  for (const std::string& name : names) {
    for (std::uint8_t revision = 1; revision <= 3; ++revision) {
      for (const std::size_t size : {0, 252, 253, 256, 257, 508, 509, 512, 513}) {
        StartupOptions as_peer{{.revision = revision}}, as_play{{.revision = revision}};
        as_peer.peer_quirk = name;
        as_play.play_quirk = name;
        for (const StartupOptions& o : {as_peer, as_play}) {
          const auto made = Startup::create(Role::initiator, o, Bytes(size), {});
          const auto checked = check_options(Role::initiator, o);
          const bool fits = checked && size <= Startup::request_room(o);
          ASSERT_EQ(made.has_value(), fits) << name << " " << int{revision} << " " << size;
          if (!made) {
            EXPECT_EQ(made.error(), checked ? Error(Errc::bad_private_data) : checked.error());
          }
        }
      }
    }
  }
}

TEST(MpaStartup, InitiatorSendsItsRequestAtOnceAndOnlyOnce) {  // RFC 5044 §7.1.2 rule 1
  Startup m = initiator(rev1(), text_bytes("hi"));
  EXPECT_EQ(to_hex(m.poll_transmit()), to_hex(req(0x40, 1, text_bytes("hi"))));
  EXPECT_TRUE(m.poll_transmit().empty());
  EXPECT_EQ(m.state(), State::wait_reply);
}

TEST(MpaStartup, ResponderHasNothingToSendBeforeItsUlpDecides) {  // RFC 5044 §7.1.2 rule 2
  Startup m = asked(req(0x40, 1));
  EXPECT_TRUE(m.poll_transmit().empty());
  EXPECT_EQ(m.next_deadline(), never);
}

TEST(MpaStartup, TwoParleysConnectByDefaultWithRevisionTwo) {
  Pair p({}, {});
  ASSERT_EQ(p.i.state(), State::open);
  ASSERT_EQ(p.r.state(), State::open);
  EXPECT_EQ(p.i.parameters().revision, 2);
  EXPECT_TRUE(p.i.parameters().crc);
  EXPECT_EQ(p.i.parameters().ord, 32);
  EXPECT_TRUE(p.i.parameters().depths_negotiated);
  ASSERT_EQ(p.r_events.size(), 3u);
  EXPECT_EQ(p.r_events[0].kind, Kind::request);
  EXPECT_EQ(p.r_events[1].kind, Kind::fpdu_mode);
  EXPECT_TRUE(p.r_events[1].parameters.reasons.empty());
  EXPECT_TRUE(p.r_events[1].parameters.crc);
  EXPECT_EQ(p.r_events[2].kind, Kind::established);
  EXPECT_EQ(p.r_events[2].parameters.reasons.texts(), p.r.parameters().reasons.texts());
  EXPECT_FALSE(p.r.parameters().reasons.empty());
}

TEST(MpaStartup, CommandsOutsideTheirStateAreRefusedAndChangeNothing) {
  for (Startup m : {initiator(), responder()}) {
    const State before = m.state();
    EXPECT_EQ(m.accept(t0, {}, {}).error(), Errc::wrong_state);
    EXPECT_EQ(m.reject(t0, {}).error(), Errc::wrong_state);
    m.handle_first_fpdu(t0, Rtr::send);
    EXPECT_EQ(m.state(), before);
    EXPECT_TRUE(events(m).empty());
  }
  Startup twice = asked(req(0x40, 1));
  ASSERT_TRUE(twice.accept(t0, {}, {}));
  EXPECT_EQ(twice.accept(t0, {}, {}).error(), Errc::wrong_state);
  EXPECT_EQ(twice.reject(t0, {}).error(), Errc::wrong_state);
}

TEST(MpaStartup, AcceptMayUseOtherOptionsThanTheListener) {
  Startup m = asked(req(0x00, 2));
  StartupOptions o;
  o.markers = true;
  o.crc = false;
  ASSERT_TRUE(m.accept(t0, o, {}));
  EXPECT_EQ(to_hex(m.poll_transmit()), to_hex(rep(0x80, 2)));
  EXPECT_FALSE(m.parameters().crc);
  EXPECT_TRUE(m.parameters().rx_markers);
}

TEST(MpaStartup, AcceptRefusedForItsArgumentsCanBeRepeated) {
  Startup m = asked(req(0x50, 2, hex("00080008")));
  EXPECT_EQ(m.accept(t0, {}, Bytes(509)).error(), Errc::bad_private_data);
  StartupOptions bad;
  bad.rtr_accept = {};
  EXPECT_EQ(m.accept(t0, bad, {}).error(), Errc::invalid_argument);
  EXPECT_EQ(m.state(), State::ulp_decision);
  EXPECT_TRUE(m.accept(t0, {}, Bytes(508)));
}

// ---- private data: RFC 5044 §7.1.1, RFC 6581 §6 ---------------------------------------------------------------------

TEST(MpaStartup, RequestTakes512OctetsOr508BesideEnhancedData) {
  EXPECT_TRUE(Startup::create(Role::initiator, rev1(), Bytes(512), t0));
  EXPECT_EQ(Startup::create(Role::initiator, rev1(), Bytes(513), t0).error(), Errc::bad_private_data);
  EXPECT_TRUE(Startup::create(Role::initiator, {}, Bytes(508), t0));
  EXPECT_EQ(Startup::create(Role::initiator, {}, Bytes(509), t0).error(), Errc::bad_private_data);
}

TEST(MpaStartup, ReplyTakes512OctetsOr508BesideEnhancedData) {
  EXPECT_EQ(answer(req(0x40, 1), {}, Bytes(512)).octets.size(), 532u);
  EXPECT_EQ(answer(req(0x50, 2, hex("00080008")), {}, Bytes(508)).octets.size(), 532u);
  Startup m = asked(req(0x40, 1));
  EXPECT_EQ(m.reject(t0, Bytes(513)).error(), Errc::bad_private_data);
  EXPECT_TRUE(m.reject(t0, Bytes(512)));
}

TEST(MpaStartup, TheUlpNeverSeesTheEnhancedData) {
  Startup m = responder();
  (void)m.handle_bytes(t0, req(0x50, 2, hex("00080008 6869")));
  EXPECT_EQ(only_event(m).private_data, text_bytes("hi"));
  EXPECT_EQ(judge({}, rep(0x50, 2, hex("00080008 6869"))).events.at(0).private_data, text_bytes("hi"));
}

TEST(MpaStartup, OwnLimitOnThePeersPrivateDataLeavesRoomForEnhancedData) {
  StartupOptions o;
  o.private_data_max = 2;
  for (const auto& [request, good] : {std::pair{req(0x40, 1, Bytes(2)), true},
                                      {req(0x40, 1, Bytes(3)), false},
                                      {req(0x50, 2, Bytes(6)), true},
                                      {req(0x50, 2, Bytes(7)), false}}) {
    Startup m = responder(o);
    (void)m.handle_bytes(t0, request);
    const StartupEvent e = only_event(m);
    EXPECT_EQ(e.kind, good ? Kind::request : Kind::failed);
    if (!good) {
      EXPECT_EQ(e.failure.code, Errc::bad_private_data);
      EXPECT_EQ(e.failure.rule, "");  // no rule was broken
    }
  }
}

// ---- options ------------------------------------------------------------------------------------------------------

TEST(MpaStartup, OptionsOutOfRangeOrContradictoryAreRefused) {
  const auto refused = [](Role role, auto change) {
    StartupOptions o;
    change(o);
    const auto m = Startup::create(role, o, {}, t0);
    return !m && m.error() == Errc::invalid_argument;
  };
  for (const Role role : {Role::initiator, Role::responder}) {
    EXPECT_TRUE(refused(role, [](StartupOptions& o) { o.revision = 0; }));
    EXPECT_TRUE(refused(role, [](StartupOptions& o) { o.revision = 3; }));
    EXPECT_TRUE(refused(role, [](StartupOptions& o) { o.ird = 0x4000; }));
    EXPECT_TRUE(refused(role, [](StartupOptions& o) { o.ord = 0xFFFF; }));
    EXPECT_TRUE(refused(role, [](StartupOptions& o) { o.ird_max = 0x3FFF; }));
    EXPECT_TRUE(refused(role, [](StartupOptions& o) { o.private_data_max = 513; }));
    EXPECT_TRUE(refused(role, [](StartupOptions& o) { o.peer_quirk = "nobody"; }));
    EXPECT_TRUE(refused(role, [](StartupOptions& o) { o.play_quirk = "nobody"; }));
    EXPECT_FALSE(refused(role, [](StartupOptions&) {}));
  }
  EXPECT_TRUE(refused(Role::initiator, [](StartupOptions& o) { o.rtr = Rtr::frame; }));  // needs revision 1
  EXPECT_TRUE(refused(Role::initiator, [](StartupOptions& o) { o.rtr_fallback = Rtr::frame; }));
  EXPECT_TRUE(refused(Role::responder, [](StartupOptions& o) { o.rtr_accept = {}; }));  // RFC 6581 §9.2
  EXPECT_TRUE(refused(Role::responder, [](StartupOptions& o) { o.rtr_expected = Rtr::frame; }));
  EXPECT_TRUE(refused(Role::responder, [](StartupOptions& o) {
    o.rtr_accept = {.read = true};
    o.ird = o.ird_max = 0;
  }));
}

// ---- deadlines ----------------------------------------------------------------------------------------------------

struct Wait {
  std::string name;
  std::function<Startup(Duration)> machine;
  cm::Step step;
};
void PrintTo(const Wait& w, std::ostream* os) { *os << w.name; }
class Deadline : public ::testing::TestWithParam<Wait> {};

Startup accepted(const Bytes& request, const StartupOptions& o) {
  Startup m = asked(request, o);
  EXPECT_TRUE(m.accept(t0, o, {}));
  (void)m.poll_transmit();
  (void)events(m);
  return m;
}

TEST_P(Deadline, EarlyDoesNothingAndOnTimeOrLateEndsIt) {
  for (const Duration late : {Duration(0), Duration(1), Duration(1h)}) {
    Startup m = GetParam().machine(7s);
    ASSERT_EQ(m.next_deadline(), t0 + 7s);
    m.handle_deadline(t0 + 7s - Duration(1));
    EXPECT_TRUE(events(m).empty());
    EXPECT_EQ(m.next_deadline(), t0 + 7s);
    m.handle_deadline(t0 + 7s + late);
    const StartupEvent e = only_event(m);
    EXPECT_EQ(e.kind, Kind::failed);
    // After the Reply the initiator counts on the connection: it must not take the end for a graceful one.
    const bool after_reply = GetParam().step == step::wait_rtr || GetParam().step == step::wait_first_fpdu;
    EXPECT_EQ(e.close, after_reply ? Close::reset : Close::graceful);
    EXPECT_EQ(e.failure.code, Errc::timed_out);
    EXPECT_EQ(e.failure.step, GetParam().step);
    EXPECT_THAT(e.failure.received, ::testing::HasSubstr("7 s"));
    EXPECT_EQ(m.next_deadline(), never);
    m.handle_deadline(t0 + 2h);
    EXPECT_TRUE(events(m).empty());
  }
}

TEST_P(Deadline, OfZeroWaitsForEver) {
  Startup m = GetParam().machine(0s);
  EXPECT_EQ(m.next_deadline(), never);
  m.handle_deadline(t0 + 1000h);
  EXPECT_TRUE(events(m).empty());
}

TEST_P(Deadline, BeyondTheClocksEndIsNever) { EXPECT_EQ(GetParam().machine(Duration::max()).next_deadline(), never); }

INSTANTIATE_TEST_SUITE_P(MpaStartup, Deadline,
                         ::testing::Values(Wait{"request",
                                                [](Duration d) {
                                                  StartupOptions o;
                                                  o.timeouts.request = d;
                                                  return responder(o);
                                                },
                                                step::wait_request},
                                           Wait{"reply",
                                                [](Duration d) {
                                                  StartupOptions o;
                                                  o.timeouts.reply = d;
                                                  return initiator(o);
                                                },
                                                step::wait_reply},
                                           Wait{"rtr_frame",
                                                [](Duration d) {
                                                  StartupOptions o;
                                                  o.timeouts.rtr = d;
                                                  return accepted(req(0x50, 1), o);
                                                },
                                                step::wait_rtr},
                                           Wait{"rtr_fpdu",
                                                [](Duration d) {
                                                  StartupOptions o;
                                                  o.timeouts.rtr = d;
                                                  return accepted(req(0x50, 2, hex("80084008")), o);
                                                },
                                                step::wait_rtr},
                                           Wait{"rtr_fpdu_in_place_of_the_frame",
                                                [](Duration d) {
                                                  StartupOptions o;
                                                  o.timeouts.rtr = d;
                                                  Startup m = accepted(req(0x50, 1), o);
                                                  EXPECT_EQ(m.handle_bytes(t0, hex("0012")), 0u);
                                                  (void)events(m);
                                                  return m;
                                                },
                                                step::wait_rtr},
                                           Wait{"first_fpdu",
                                                [](Duration d) {
                                                  StartupOptions o;
                                                  o.timeouts.first_fpdu = d;
                                                  return accepted(req(0x40, 1), o);
                                                },
                                                step::wait_first_fpdu}),
                         [](const auto& w) { return w.param.name; });

TEST(MpaStartup, TheUlpMayThinkAsLongAsItLikes) {
  Startup m = asked(req(0x40, 1));
  m.handle_deadline(t0 + 1000h);
  EXPECT_EQ(m.state(), State::ulp_decision);
  EXPECT_TRUE(m.accept(t0 + 1000h, {}, {}));
}

TEST(MpaStartup, TheRtrDeadlineCountsFromTheReply) {
  Startup m = asked(req(0x50, 1));
  ASSERT_TRUE(m.accept(t0 + 100s, {}, {}));
  EXPECT_EQ(m.next_deadline(), t0 + 110s);
}

TEST(MpaStartup, NoDeadlineOutlivesSetUp) {
  Pair p({}, {});
  EXPECT_EQ(p.i.next_deadline(), never);
  EXPECT_EQ(p.r.next_deadline(), never);
}

// ---- FIN and RST --------------------------------------------------------------------------------------------------

TEST(MpaStartup, TheEndOfThePeerIsAFailureInEachWaitingState) {
  const std::function<Startup()> makers[] = {
      [] { return initiator(rev1()); }, [] { return responder(); }, [] { return asked(req(0x40, 1)); },
      [] { return accepted(req(0x50, 1), {}); }, [] { return accepted(req(0x40, 1), {}); }};
  for (const auto& make : makers)
    for (const bool reset : {false, true}) {
      Startup m = make();
      m.handle_end(t0, reset);
      const StartupEvent e = only_event(m);
      EXPECT_EQ(e.kind, Kind::failed);
      EXPECT_EQ(e.failure.code, reset ? Errc::peer_reset : Errc::peer_closed);
      EXPECT_EQ(e.close, reset ? Close::none : Close::graceful);  // after a RST there is nothing to close
      EXPECT_THAT(e.failure.received, ::testing::StartsWith(reset ? "RST" : "FIN"));
      EXPECT_EQ(m.state(), State::failed);
    }
}

TEST(MpaStartup, HalfAReplyIsNoReasonToFallBack) {  // RFC 6581 §10: a peer that began to answer understood
  Startup m = initiator();
  (void)m.handle_bytes(t0, ConstBytes(rep(0x50, 2)).first(7));
  m.handle_end(t0, true);
  const StartupEvent e = only_event(m);
  EXPECT_EQ(e.kind, Kind::failed);
  EXPECT_EQ(e.failure.received, "RST after 7 octets of its startup frame");
}

TEST(MpaStartup, FallBackCanBeSwitchedOff) {  // RFC 6581 §10: MAY
  StartupOptions o;
  o.fall_back_to_v1 = false;
  Startup m = initiator(o);
  m.handle_end(t0, true);
  const StartupEvent e = only_event(m);
  EXPECT_EQ(e.kind, Kind::failed);
  EXPECT_EQ(e.failure.to_string("192.0.2.1:7471"),
            "wait for the MPA Reply from 192.0.2.1:7471: the peer reset the connection (RST instead of a Reply) "
            "[RFC 6581 §10]; the peer does not accept the Request; try revision 1");
}

TEST(MpaStartup, TheEndOfThePeerInFullOperationIsNotItsBusiness) {  // RFC 5044 §7.2
  Pair p({}, {});
  p.i.handle_end(t0, false);
  p.r.handle_end(t0, true);
  EXPECT_EQ(p.i.state(), State::open);
  EXPECT_EQ(p.r.state(), State::open);
}

// ---- the Rtr frame: OFA 2007-10 Rtr §1, §2 ------------------------------------------------------------------------

TEST(MpaStartup, AnRtrFrameWithPrivateDataOrAnotherRevisionFails) {
  for (const auto& [octets, code, offset] : {std::tuple{rtr_frame(RtrSpelling::text, 4), Errc::bad_private_data, 18u},
                                             {raw_frame(PARLEY_MPA_KEY_RTR, 0, 2, 0), Errc::bad_revision, 17u}}) {
    Startup m = accepted(req(0x50, 1), {});
    (void)m.handle_bytes(t0, octets);
    const StartupEvent e = only_event(m);
    EXPECT_EQ(e.kind, Kind::failed);
    EXPECT_EQ(e.failure.code, code);
    EXPECT_EQ(e.failure.offset, offset);
    EXPECT_EQ(e.failure.step, step::wait_rtr);
  }
}

// OFA 2007-10 Rtr §2 rule 3, OFA 2007-10 Rtr §2 rule 4
TEST(MpaStartup, AnRtrFrameCarriesTheCOfTheReplyAndNoS) {
  StartupOptions o = rev1();
  o.rtr = Rtr::frame;
  o.markers = true;
  for (const int c : {0x00, 0x40}) {
    const Answer a = judge(o, rep(0x10 | c, 1));
    EXPECT_EQ(a.frame().flags, 0x80 | c);
    EXPECT_EQ(a.frame().pd_length, 0);
  }
}

TEST(MpaStartup, AnRtrFrameWithAnyFlagsIsTaken) {  // OFA 2007-10 Rtr §2 rule 3
  Startup m = accepted(req(0x50, 1), {});
  EXPECT_EQ(m.handle_bytes(t0, raw_frame(PARLEY_MPA_KEY_RTR, 0xFF, 1, 0)), 20u);
  EXPECT_EQ(m.state(), State::open);
}

TEST(MpaStartup, TheRequestEventShowsNoKindsWithoutA) {  // RFC 6581 §9.2
  Startup m = responder();
  (void)m.handle_bytes(t0, req(0x50, 2, hex("4008c008")));
  const StartupEvent e = only_event(m);
  EXPECT_TRUE(e.parameters.offered.empty());
  EXPECT_FALSE(e.parameters.peer_to_peer);
  EXPECT_EQ(e.parameters.peer_ird, 8);
  EXPECT_EQ(e.parameters.peer_ord, 8);
}

TEST(MpaStartup, TheRequestEventShowsWhatBothSidesSay) {
  for (const bool own_crc : {false, true})
    for (const int flags : {0x00, 0x40, 0x80}) {
      StartupOptions o = rev1();
      o.crc = own_crc;
      o.markers = !own_crc;
      o.ird = 5;
      o.ord = 9;
      Startup m = responder(o);
      (void)m.handle_bytes(t0, req(static_cast<std::uint8_t>(flags), 1));
      const Parameters p = only_event(m).parameters;
      EXPECT_EQ(p.crc, own_crc || flags == 0x40) << flags;
      EXPECT_EQ(p.tx_markers, flags == 0x80) << flags;
      EXPECT_EQ(p.rx_markers, !own_crc) << flags;
      EXPECT_EQ(p.ird, 5);
      EXPECT_EQ(p.ord, 9);
    }
}

TEST(MpaStartup, APlayedSiwRejectsARequestWithoutEnhancedData) {
  StartupOptions o;
  o.play_quirk = "siw";
  Startup m = responder(o);
  (void)m.handle_bytes(t0, req(0x50, 2, Bytes(2)));
  EXPECT_EQ(to_hex(m.poll_transmit()), to_hex(raw_frame(PARLEY_MPA_KEY_REP, 0x30, 2, 0)));
  const StartupEvent e = only_event(m);
  EXPECT_EQ(e.kind, Kind::failed);
  EXPECT_EQ(e.failure.code, Errc::malformed);
  EXPECT_EQ(e.close, Close::graceful);
}

// ---- local errors -------------------------------------------------------------------------------------------------

TEST(MpaStartup, ALocalErrorResetsAResponder) {
  Startup m = asked(req(0x40, 1));
  m.handle_local_error(t0, "no memory");
  const StartupEvent e = only_event(m);
  EXPECT_EQ(e.close, Close::reset);
  EXPECT_EQ(e.failure.advice, "no memory");
}

// ---- the real thing: Linux siw -----------------------------------------------------------------------------------

const Bytes siw_request = hex("4d504120494420526571204672616d65 10020004 00010001");      // rping, revision 2, no CRC
const Bytes siw_p2p_request = hex("4d504120494420526571204672616d65 50020004 8001c001");  // peer_to_peer=1, CRC
const Bytes siw_reply = hex("4d504120494420526570204672616d65 10020004 00080008");

TEST(MpaStartupSiw, ItsDefaultRequestIsAnswered) {
  StartupOptions o;
  o.peer_quirk = "siw";
  const Answer a = answer(siw_request, o);
  EXPECT_EQ(to_hex(a.octets),
            "4d504120494420526570204672616d65"
            "50020004"
            "00200001");
  EXPECT_TRUE(a.parameters.crc);  // this side wants it
  EXPECT_EQ(a.parameters.ord, 1);
  EXPECT_EQ(a.parameters.rtr, Rtr::none);
}

TEST(MpaStartupSiw, ItsPeerToPeerRequestGetsWrite) {
  const Answer a = answer(siw_p2p_request);
  EXPECT_EQ(a.parameters.offered, (RtrSet{.write = true, .read = true}));
  EXPECT_EQ(a.parameters.rtr, Rtr::write);
  EXPECT_EQ(to_hex(a.octets).substr(40), "80208001");
}

TEST(MpaStartupSiw, ItsReplyIsUnderstood) {
  const Answer a = judge({}, siw_reply);
  EXPECT_EQ(a.state, State::open);
  EXPECT_EQ(a.parameters.ord, 8);
  EXPECT_EQ(a.parameters.ird, 32);
}

TEST(MpaStartupSiw, DataGluedToTheReplyIsToleratedFromAPeerKnownForIt) {  // against RFC 5044 §7.1.2 rule 4
  StartupOptions o;
  o.peer_quirk = "siw";
  Startup m = initiator(o);
  EXPECT_EQ(m.handle_bytes(t0, join(siw_reply, Bytes(12))), siw_reply.size());  // the rest is the deframer's
  EXPECT_EQ(m.state(), State::open);
  EXPECT_TRUE(has_reason(only_event(m).parameters, "known departure from RFC 5044 §7.1.2 rule 4"));
}

TEST(MpaStartupSiw, PrivateDataThatWouldCrashItIsNotSent) {
  StartupOptions o;
  o.peer_quirk = "siw";
  EXPECT_EQ(Startup::create(Role::initiator, o, Bytes(253), t0).error(), Errc::bad_private_data);
  Startup m = asked(siw_request, o);
  EXPECT_EQ(m.accept(t0, o, Bytes(253)).error(), Errc::bad_private_data);
  EXPECT_TRUE(m.accept(t0, o, Bytes(252)));
}

// ---- words --------------------------------------------------------------------------------------------------------

TEST(MpaWords, RtrNamesRoundTrip) {
  for (const Rtr rtr : {Rtr::none, Rtr::frame, Rtr::send, Rtr::write, Rtr::read})
    EXPECT_EQ(*parse_rtr(to_string(rtr)), rtr);
  EXPECT_EQ(parse_rtr("Read").error(), Errc::invalid_argument);
  EXPECT_EQ(parse_rtr("").error(), Errc::invalid_argument);
}

TEST(MpaWords, FailureIsOneSentenceWithAllThatIsKnown) {
  cm::Failure f{.step = step::wait_request,
                .code = make_error_code(Errc::bad_private_data),
                .rule = "RFC 5044 §7.1.1",
                .received = "PD_Length 600",
                .advice = "the peer must send at most 512 octets",
                .offset = 18};
  EXPECT_EQ(
      f.to_string("[::1]:7471"),
      "wait for the MPA Request from [::1]:7471: the private data length is not allowed (PD_Length 600, at octet 18) "
      "[RFC 5044 §7.1.1]; the peer must send at most 512 octets");
  f = {.step = step::tcp_connect, .code = make_error_code(Errc::refused)};
  EXPECT_EQ(f.to_string("192.0.2.1:1"), "open the TCP connection to 192.0.2.1:1: there is no listener at that address");
  EXPECT_EQ(f.to_string(), "open the TCP connection: there is no listener at that address");
}

TEST(MpaWords, EveryDecisionHasASentenceWithItsSection) {
  StartupOptions io;
  io.rtr = Rtr::read;
  io.markers = true;
  Pair p(io, {});
  for (const Parameters* q : {&p.i.parameters(), &p.r.parameters()}) {
    EXPECT_GE(q->reasons.size(), 3u);
    for (const auto& reason : q->reasons)
      EXPECT_THAT(reason, ::testing::AnyOf(::testing::HasSubstr("RFC "), ::testing::HasSubstr("OFA "))) << reason;
  }
}

}  // namespace
}  // namespace parley::mpa
