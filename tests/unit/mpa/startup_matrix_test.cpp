// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The outcome matrices: every way to ask for an RTR against every way to answer, and IRD and ORD against each other.
#include "tests/unit/mpa/startup_kit.hpp"

namespace parley::mpa {
namespace {
using namespace kit;

// ---- OFA 2007-10 Rtr §2: revision 1 -------------------------------------------------------------------------------

struct V1Row {
  std::string name;
  Rtr rtr = Rtr::none;
  bool by_s = false;
  Rtr fallback = Rtr::none;
  std::string peer_quirk;  // what the initiator knows
  bool accepts = true;     // responder
  Rtr expected = Rtr::none;
  std::string plays;  // what the responder plays
  // Outcome.
  bool request_s = false, reply_s = false;
  Rtr i_rtr = Rtr::none, r_rtr = Rtr::none;
  bool rtr_on_wire = false;
  State r_state = State::open;
  std::string i_reason;
};
void PrintTo(const V1Row& row, std::ostream* os) { *os << row.name; }

class Revision1Matrix : public ::testing::TestWithParam<V1Row> {};

TEST_P(Revision1Matrix, EndsAsTheTableSays) {
  const V1Row& row = GetParam();
  StartupOptions io = rev1(), ro;
  io.rtr = row.rtr;
  io.rtr_by_s = row.by_s;
  io.rtr_fallback = row.fallback;
  io.peer_quirk = row.peer_quirk;
  ro.accept_rtr_frame = row.accepts;
  ro.rtr_expected = row.expected;
  ro.play_quirk = row.plays;
  Pair p(io, ro);
  const auto request = *wire::MpaFrameView::parse(p.octets);
  const auto reply = *wire::MpaFrameView::parse(ConstBytes(p.octets).subspan(request.frame_size()));
  EXPECT_EQ(request.s(), row.request_s);
  EXPECT_EQ(reply.s(), row.reply_s);
  EXPECT_EQ(p.i.state(), State::open);
  EXPECT_EQ(p.i.parameters().rtr, row.i_rtr);
  EXPECT_EQ(p.octets.size() == 60, row.rtr_on_wire);
  EXPECT_EQ(p.r.state(), row.r_state);
  EXPECT_EQ(p.r.parameters().rtr, row.r_rtr);
  if (!row.i_reason.empty()) {
    EXPECT_TRUE(has_reason(p.i.parameters(), row.i_reason));
  }
  EXPECT_FALSE(p.i.parameters().depths_negotiated);
  EXPECT_TRUE(has_reason(p.i.parameters(), "the ULP must agree on them"));
}

INSTANTIATE_TEST_SUITE_P(
    OfaRtr, Revision1Matrix,
    ::testing::Values(
        V1Row{.name = "classic"}, V1Row{.name = "classic_to_one_who_could"},
        V1Row{.name = "frame_refused_without_fallback",
              .rtr = Rtr::frame,
              .accepts = false,
              .request_s = true,
              .i_reason = "the peer cannot take the RTR offered; instead the initiator's ULP must speak first"},
        V1Row{.name = "frame_refused_read_instead",
              .rtr = Rtr::frame,
              .fallback = Rtr::read,
              .accepts = false,
              .request_s = true,
              .i_rtr = Rtr::read,
              .i_reason = "instead a zero-length Read by configuration"},
        V1Row{.name = "frame_agreed",
              .rtr = Rtr::frame,
              .request_s = true,
              .reply_s = true,
              .i_rtr = Rtr::frame,
              .r_rtr = Rtr::frame,
              .rtr_on_wire = true,
              .i_reason = "both sides set S"},
        // The echoer answers S and then takes the Rtr frame for an FPDU: nothing at startup level can tell.
        V1Row{.name = "frame_to_an_unknown_echoer",
              .rtr = Rtr::frame,
              .plays = "echo-reserved",
              .request_s = true,
              .reply_s = true,
              .i_rtr = Rtr::frame,
              .rtr_on_wire = true},
        V1Row{.name = "frame_to_a_known_echoer",
              .rtr = Rtr::frame,
              .peer_quirk = "echo-reserved",
              .plays = "echo-reserved",
              .i_reason = "known to echo reserved bits"},
        V1Row{.name = "frame_to_siw_with_fallback",
              .rtr = Rtr::frame,
              .fallback = Rtr::write,
              .peer_quirk = "siw",
              .plays = "siw",
              .i_rtr = Rtr::write,
              .i_reason = "instead a zero-length Write by configuration"},
        V1Row{.name = "read_by_s_agreed",
              .rtr = Rtr::read,
              .by_s = true,
              .request_s = true,
              .reply_s = true,
              .i_rtr = Rtr::read,
              .r_rtr = Rtr::read,
              .i_reason = "the RTR is a zero-length Read"},
        V1Row{.name = "send_by_s_agreed",
              .rtr = Rtr::send,
              .by_s = true,
              .request_s = true,
              .reply_s = true,
              .i_rtr = Rtr::send,
              .r_rtr = Rtr::send},
        V1Row{.name = "write_by_s_refused", .rtr = Rtr::write, .by_s = true, .accepts = false, .request_s = true},
        V1Row{.name = "write_by_s_refused_with_fallback",
              .rtr = Rtr::write,
              .by_s = true,
              .fallback = Rtr::send,
              .accepts = false,
              .request_s = true,
              .i_rtr = Rtr::send},
        V1Row{.name = "read_configured_on_both_sides",
              .rtr = Rtr::read,
              .expected = Rtr::read,
              .i_rtr = Rtr::read,
              .r_rtr = Rtr::read,
              .i_reason = "nothing announced it"},
        V1Row{.name = "send_configured_on_both_sides",
              .rtr = Rtr::send,
              .expected = Rtr::send,
              .i_rtr = Rtr::send,
              .r_rtr = Rtr::send},
        V1Row{.name = "write_configured_on_both_sides",
              .rtr = Rtr::write,
              .expected = Rtr::write,
              .i_rtr = Rtr::write,
              .r_rtr = Rtr::write},
        V1Row{.name = "read_configured_at_the_initiator_only", .rtr = Rtr::read, .i_rtr = Rtr::read},
        V1Row{.name = "write_sent_where_read_was_expected",
              .rtr = Rtr::write,
              .expected = Rtr::read,
              .i_rtr = Rtr::write,
              .r_rtr = Rtr::write},
        V1Row{.name = "frame_agreed_where_read_was_expected",
              .rtr = Rtr::frame,
              .expected = Rtr::read,
              .request_s = true,
              .reply_s = true,
              .i_rtr = Rtr::frame,
              .r_rtr = Rtr::frame,
              .rtr_on_wire = true}),
    [](const auto& row) { return row.param.name; });

// OFA 2007-10 Rtr §2 rule 1: R decides, and S beside it nothing.
TEST(Revision1, TheRtrFrameFollowsAnAcceptingReplyOnly) {
  for (const int r : {0x00, 0x20})
    for (const int s : {0x00, 0x10}) {
      StartupOptions o = rev1();
      o.rtr = Rtr::frame;
      const Answer a = judge(o, rep(r | s, 1));
      EXPECT_EQ(a.octets.empty(), r != 0 || s == 0) << "R " << (r != 0) << " S " << (s != 0);
      EXPECT_EQ(a.state, r != 0 ? State::rejected : State::open);
    }
}

TEST(Revision1, ARejectionEndsBeforeAnyRtr) {  // OFA 2007-10 Rtr §2 rule 1
  Startup m = asked(req(0x50, 1));
  ASSERT_TRUE(m.reject(t0, {}));
  const Bytes reply = m.poll_transmit();
  EXPECT_FALSE(wire::MpaFrameView::parse(reply)->s());
  StartupOptions o = rev1();
  o.rtr = Rtr::frame;
  const Answer a = judge(o, rep(0x30, 1));  // S set beside R by a peer
  EXPECT_EQ(a.state, State::rejected);
  EXPECT_TRUE(a.octets.empty());
}

TEST(Revision1, AVolunteeredSIsIgnored) {  // OFA 2007-10 Rtr §2 rule 2: a responder must not volunteer
  const Answer a = judge(rev1(), rep(0x50, 1));
  EXPECT_EQ(a.parameters.rtr, Rtr::none);
  EXPECT_TRUE(a.octets.empty());
  EXPECT_TRUE(has_reason(a.parameters, "S=1 in the Reply was ignored"));
}

TEST(Revision1, ARevision2RequestMakesA2007ResponderReset) {  // OFA 2007-10 Rtr §2, last row; RFC 6581 §10
  Startup m = responder(rev1());
  (void)m.handle_bytes(t0, req(0x50, 2, hex("00080008")));
  const StartupEvent e = only_event(m);
  EXPECT_EQ(e.close, Close::reset);  // cxgb4 and irdma fall back on a reset only
  EXPECT_EQ(e.failure.rule, "RFC 6581 §10");
}

// ---- RFC 6581 §9.2: kinds offered against kinds accepted -----------------------------------------------------------

RtrSet set_of(int bits) { return {.send = (bits & 1) != 0, .write = (bits & 2) != 0, .read = (bits & 4) != 0}; }

std::string words_of(int bits) {
  const RtrSet set = set_of(bits);
  return std::string(set.send ? "_send" : "") + (set.write ? "_write" : "") + (set.read ? "_read" : "");
}

class Kinds : public ::testing::TestWithParam<std::tuple<int, int>> {};

TEST_P(Kinds, ACommonOneIsChosenOrTheInitiatorTerminates) {
  const RtrSet offered = set_of(std::get<0>(GetParam())), able = set_of(std::get<1>(GetParam()));
  for (const Rtr wanted : {Rtr::send, Rtr::write, Rtr::read}) {
    if (!offered.has(wanted)) continue;
    StartupOptions io, ro;
    io.rtr = wanted;
    io.rtr_offer = offered;
    ro.rtr_accept = able;
    Pair p(io, ro);
    const RtrSet common = both(offered, able);
    const RtrSet answered = p.i.parameters().answered;
    ASSERT_FALSE(answered.empty());
    if (common.empty()) {  // the responder names what it has, and the initiator ends it
      EXPECT_EQ(answered, able);
      ASSERT_FALSE(p.i_events.empty());
      EXPECT_EQ(p.i_events.back().kind, Kind::terminate);
      EXPECT_EQ(p.i_events.back().terminate_code, 7);
      EXPECT_EQ(p.r.state(), State::wait_first_fpdu);
      EXPECT_TRUE(has_reason(p.r.parameters(), "none of the offered RTR kinds is possible"));
      continue;
    }
    EXPECT_EQ(int{answered.send} + int{answered.write} + int{answered.read}, 1);  // exactly one, as cxgb4 insists
    EXPECT_EQ(both(common, answered), answered);
    EXPECT_EQ(p.i.state(), State::open);
    EXPECT_TRUE(answered.has(p.i.parameters().rtr));
    EXPECT_EQ(p.r.state(), State::open);
    EXPECT_EQ(p.r.parameters().rtr, p.i.parameters().rtr);
    EXPECT_TRUE(p.r.parameters().peer_to_peer && p.i.parameters().peer_to_peer);
  }
}
INSTANTIATE_TEST_SUITE_P(Rfc6581, Kinds, ::testing::Combine(::testing::Range(1, 8), ::testing::Range(1, 8)),
                         [](const auto& kinds) {
                           return "offered" + words_of(std::get<0>(kinds.param)) + "_able" +
                                  words_of(std::get<1>(kinds.param));
                         });

TEST(Revision2, TheResponderPrefersWriteThenReadThenSend) {  // RFC 6581 §9.2 leaves it free
  EXPECT_EQ(answer(req(0x50, 2, hex("C008C008"))).parameters.rtr, Rtr::write);
  EXPECT_EQ(answer(req(0x50, 2, hex("C0084008"))).parameters.rtr, Rtr::read);
  EXPECT_EQ(answer(req(0x50, 2, hex("C0080008"))).parameters.rtr, Rtr::send);
}

TEST(Revision2, AWithoutAnyKindIsAnsweredWithAllThatIsPossible) {  // RFC 6581 §9.2
  const auto e = answer(req(0x50, 2, hex("80080008"))).enhanced();
  EXPECT_TRUE(e.a && e.b && e.c && e.d);
}

TEST(Revision2, TheWantedKindWinsWhenTheReplyLeavesTheChoice) {  // RFC 6581 §9.2
  for (const Rtr wanted : {Rtr::send, Rtr::write, Rtr::read}) {
    StartupOptions o;
    o.rtr = wanted;
    o.rtr_offer = set_of(7);
    EXPECT_EQ(judge(o, rep(0x50, 2, hex("C008C008"))).parameters.rtr, wanted);
  }
}

TEST(Revision2, AReadIsPassedOverWhenTheResponderHasIrd0) {  // RFC 6581 §9.1
  StartupOptions o;
  o.rtr = Rtr::read;
  o.rtr_offer.send = true;
  const Answer other = judge(o, rep(0x50, 2, hex("C0004008")));
  EXPECT_EQ(other.parameters.rtr, Rtr::send);
  EXPECT_TRUE(has_reason(other.parameters, "the responder has IRD 0"));
  const Answer none = judge(o, rep(0x50, 2, hex("80004008")));
  ASSERT_EQ(none.events.size(), 1u);
  EXPECT_EQ(none.events[0].terminate_code, 6);
}

TEST(Revision2, APeerToPeerReplyToAClientServerRequestIsOverlooked) {  // RFC 6581 §9.2
  const Answer a = judge({}, rep(0x50, 2, hex("8008 8008")));
  EXPECT_EQ(a.state, State::open);
  EXPECT_EQ(a.parameters.rtr, Rtr::none);
  EXPECT_TRUE(has_reason(a.parameters, "A=1 although the Request had A=0"));
}

TEST(Revision2, ALocalFailureBeforeTheRtrTerminatesWithCode5) {  // RFC 6581 §9.2
  Startup early = initiator();
  (void)early.poll_transmit();
  early.handle_local_error(t0, "no memory for the queue pair");
  EXPECT_TRUE(events(early).empty());  // nothing can be sent before the Reply
  (void)early.handle_bytes(t0, rep(0x50, 2, hex("00080008")));
  const StartupEvent e = only_event(early);
  EXPECT_EQ(e.kind, Kind::terminate);
  EXPECT_EQ(e.terminate_code, 5);
  EXPECT_EQ(e.failure.advice, "no memory for the queue pair");
  Startup late = initiator();
  (void)late.handle_bytes(t0, rep(0x50, 2, hex("00080008")));
  (void)events(late);
  late.handle_local_error(t0, "x");
  EXPECT_EQ(only_event(late).terminate_code, 5);
}

TEST(Revision2, AReplyWithoutSToAnEnhancedRequestFallsBack) {  // RFC 6581 §10
  const Answer a = judge({}, rep(0x40, 2));
  EXPECT_EQ(a.events.at(0).kind, Kind::retry_v1);
  EXPECT_EQ(a.events.at(0).failure.received, "S=0 in the Reply to an enhanced Request");
}

// ---- RFC 6581 §9.1: depths -----------------------------------------------------------------------------------------

TEST(Depths, BothSidesEndWithDepthsThatFit) {
  constexpr std::uint16_t values[] = {0, 1, 8, 32, 128, 200, depth_max, depth_not_negotiated};
  for (const auto i_ird : values)
    for (const auto i_ord : values)
      for (const auto r_ird : values)
        for (const auto r_ord : values) {
          StartupOptions io, ro;
          io.ird = i_ird;
          io.ord = i_ord;
          ro.ird = r_ird;
          ro.ord = r_ord;
          Pair p(io, ro);
          SCOPED_TRACE(fmt::format("initiator {}/{} responder {}/{}", i_ird, i_ord, r_ird, r_ord));
          const Parameters &i = p.i.parameters(), &r = p.r.parameters();
          const bool all = i_ird != depth_not_negotiated && i_ord != depth_not_negotiated &&
                           r_ird != depth_not_negotiated && r_ord != depth_not_negotiated;
          ASSERT_EQ(p.i.state(), State::open);  // a Parley responder never asks for more than the initiator has
          ASSERT_EQ(i.depths_negotiated, all);
          ASSERT_EQ(r.depths_negotiated, all);
          ASSERT_EQ(r.peer_ird, i_ird);
          ASSERT_EQ(r.peer_ord, i_ord);
          if (all) {
            ASSERT_LE(i.ord, r.ird);
            ASSERT_LE(r.ord, i.ird);
            ASSERT_LE(r.ird, std::max<std::uint16_t>(r_ird, 128));
          }
          if (i_ord == depth_not_negotiated || r_ird == depth_not_negotiated) {
            ASSERT_EQ(i.ord, i_ord);  // left alone
            ASSERT_EQ(r.ird, r_ird);
          }
        }
}

TEST(Depths, RawPeerValuesReachTheUlpOnAcceptAndOnReject) {  // RFC 6581 §9.1
  EXPECT_EQ(judge({}, rep(0x50, 2, hex("00110009"))).parameters.peer_ird, 0x11);
  const Answer a = judge({}, rep(0x70, 2, join(hex("00110009"), text_bytes("why"))));
  ASSERT_EQ(a.events.at(0).kind, Kind::rejected);
  EXPECT_EQ(a.events[0].parameters.peer_ird, 0x11);
  EXPECT_EQ(a.events[0].parameters.peer_ord, 9);
  EXPECT_EQ(a.events[0].private_data, text_bytes("why"));
}

TEST(Depths, ARejectCarriesTheRespondersDepths) {  // RFC 6581 §9.1: it names what it would have needed
  Startup m = asked(req(0x50, 2, hex("00000000")));
  ASSERT_TRUE(m.reject(t0, text_bytes("why")));
  const Bytes out = m.poll_transmit();
  const auto f = *wire::MpaFrameView::parse(out);
  EXPECT_TRUE(f.r() && f.s());
  EXPECT_EQ(wire::MpaEnhanced::parse(f.private_data)->ird, 32);
}

TEST(Depths, TheResponderRaisesItsIrdAsFarAsAllowed) {  // RFC 6581 §9.1
  EXPECT_EQ(answer(req(0x50, 2, hex("00080040"))).enhanced().ird, 64);
  const Answer a = answer(req(0x50, 2, hex("00080400")));
  EXPECT_EQ(a.enhanced().ird, 128);
  EXPECT_TRUE(has_reason(a.parameters, "IRD raised from 32 to 128 for the peer's ORD of 1024"));
}

TEST(Depths, AReadRtrGivesTheInitiatorAnOrdOfAtLeastOne) {  // RFC 6581 §9.1
  for (const int revision : {1, 2}) {
    StartupOptions o;
    o.revision = static_cast<std::uint8_t>(revision);
    o.rtr = Rtr::read;
    o.ord = 0;
    EXPECT_EQ(initiator(o).parameters().ord, 1);
  }
}

}  // namespace
}  // namespace parley::mpa
