// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Known departures: each is played as it was seen, and tolerated where that is possible.
#include <set>

#include "tests/unit/mpa/startup_kit.hpp"

namespace parley::mpa {
namespace {
using namespace kit;

StartupOptions playing(std::string_view quirk) {
  StartupOptions o;
  o.play_quirk = quirk;
  return o;
}
StartupOptions knowing(std::string_view quirk) {
  StartupOptions o;
  o.peer_quirk = quirk;
  return o;
}

TEST(MpaQuirks, EveryEntryCanBeFoundAndExplainsItself) {
  std::set<std::string_view> names;
  for (const Quirk& q : all_quirks()) {
    EXPECT_EQ(*find_quirk(q.name), &q);
    EXPECT_TRUE(names.insert(q.name).second) << q.name;
    EXPECT_TRUE(q.summary.ends_with('.')) << q.name;
    EXPECT_FALSE(q.evidence.empty()) << q.name;
  }
  for (const auto* name : {"siw", "siw-p2p", "siw-no-a", "cxgb4", "cxgb4-stag0", "irdma", "erdma", "echo-reserved"})
    EXPECT_EQ(names.count(name), 1u) << name;
}

TEST(MpaQuirks, TheEmptyNameIsAPeerWithoutDepartures) {
  const Quirk& q = **find_quirk("");
  EXPECT_TRUE(q.name.empty());
  EXPECT_FALSE(q.echoes_reserved || q.no_fence || q.terminate_nibbles_swapped || q.rtr_stag_zero);
  EXPECT_EQ(find_quirk("SIW").error(), Errc::invalid_argument);
}

TEST(MpaQuirks, TheMachineShowsThemToWhoeverMovesTheData) {
  StartupOptions o = knowing("siw");
  o.play_quirk = "irdma";
  const Startup m = initiator(o);
  EXPECT_GT(m.peer_quirk().first_fpdu_delay, 0s);
  EXPECT_TRUE(m.peer_quirk().terminate_nibbles_swapped);
  EXPECT_TRUE(m.play_quirk().rtr_stag_zero);
}

// cxgb4 and irdma send a Read as RTR under revision 1 without a word; who is configured otherwise does as configured.
TEST(MpaQuirks, AConfiguredRtrGoesBeforeTheOneThatAQuirkSendsUnderRevision1) {
  StartupOptions o = playing("cxgb4");
  o.revision = 1;
  EXPECT_EQ(initiator(o).parameters().rtr, Rtr::read);
  o.rtr = Rtr::write;
  EXPECT_EQ(initiator(o).parameters().rtr, Rtr::write);
}

// ---- siw as responder: the exchanges are those of a Linux 6.1 kernel ----------------------------------------------

struct Exchange {
  std::string name, request, reply;  // hex behind the key; the reply's empty: none
};
void PrintTo(const Exchange& e, std::ostream* os) { *os << e.name; }

class PlayedSiw : public ::testing::TestWithParam<Exchange> {};

TEST_P(PlayedSiw, AnswersAsTheKernelDid) {
  Bytes request = text_bytes(PARLEY_MPA_KEY_REQ);
  request = join(request, hex(GetParam().request));
  Startup m = responder(playing("siw"));
  (void)m.handle_bytes(t0, request);
  if (m.state() == State::ulp_decision) {
    ASSERT_TRUE(m.accept(t0, playing("siw"), {}));
  }
  const Bytes reply = m.poll_transmit();
  const std::string expected =
      GetParam().reply.empty() ? "" : to_hex(text_bytes(PARLEY_MPA_KEY_REP)) + GetParam().reply;
  EXPECT_EQ(to_hex(reply), expected);
}

INSTANTIATE_TEST_SUITE_P(
    Linux61, PlayedSiw,
    ::testing::Values(Exchange{"plain", "00010000", "00010000"}, Exchange{"s_echoed", "10010000", "10010000"},
                      Exchange{"all_reserved_echoed", "1f010000", "1f010000"},
                      Exchange{"r_echoed", "20010000", "20010000"}, Exchange{"crc", "40010000", "40010000"},
                      Exchange{"markers", "80010000", "20010000"}, Exchange{"markers_crc", "c0010000", "60010000"},
                      Exchange{"gso_bit_echoed", "08010000", "08010000"}, Exchange{"rev3", "00030000", ""},
                      Exchange{"v2_without_s", "00020000", "00020000"},
                      Exchange{"v2_nothing_enhanced", "10020000", "30020000"},
                      Exchange{"v2_three_octets", "10020003010203", "30020000"},
                      Exchange{"v2_client_server", "1002000400080008", "1002000400080008"},
                      Exchange{"v2_kinds_without_a", "100200044008c008", "1002000400080008"},
                      Exchange{"v2_a_b", "10020004c0080008", "1002000480088008"},
                      Exchange{"v2_a_c", "1002000480088008", "1002000480088008"},
                      Exchange{"v2_a_d", "1002000480084008", "1002000480084008"},
                      Exchange{"v2_a_c_d", "100200048008c008", "1002000480088008"},
                      Exchange{"v2_a", "1002000480080008", "1002000480088008"},
                      Exchange{"v2_read_at_depth_0", "1002000480004000", "1002000480004000"},
                      Exchange{"v2_3fff", "100200043fff3fff", "1002000400800080"},
                      Exchange{"v2_1000", "1002000403e803e8", "1002000400800080"},
                      Exchange{"v2_markers", "9002000400080008", "3002000400000000"}),
    [](const auto& e) { return e.param.name; });

TEST(MpaQuirks, SiwTakes256OctetsAndResetsAtMore) {
  Startup good = responder(playing("siw"));
  (void)good.handle_bytes(t0, req(0, 1, Bytes(256)));
  EXPECT_EQ(only_event(good).kind, Kind::request);
  Startup bad = responder(playing("siw"));
  (void)bad.handle_bytes(t0, req(0, 1, Bytes(257)));
  EXPECT_EQ(only_event(bad).close, Close::reset);
}

TEST(MpaQuirks, SiwIsInFullOperationBeforeAnythingArrives) {  // against RFC 5044 §7.1.2 rule 4
  const Answer a = answer(req(0x40, 1), playing("siw"));
  EXPECT_EQ(a.state, State::open);
  ASSERT_EQ(a.events.size(), 2u);
  EXPECT_EQ(a.events[0].kind, Kind::fpdu_mode);
  EXPECT_EQ(a.events[1].kind, Kind::established);
  EXPECT_EQ(answer(req(0x50, 2, hex("80088008")), playing("siw")).state, State::wait_first_fpdu);
}

// ---- siw as initiator --------------------------------------------------------------------------------------------

TEST(MpaQuirks, SiwAsksWithoutCrcAndAsClient) {
  StartupOptions o = playing("siw");
  o.ird = o.ord = 1;
  Startup m = initiator(o);
  EXPECT_EQ(to_hex(m.poll_transmit()), to_hex(req(0x10, 2, hex("00010001"))));
  m.handle_end(t0, true);
  EXPECT_EQ(only_event(m).kind, Kind::failed);  // it never retries
}

TEST(MpaQuirks, SiwWithPeerToPeerOffersWriteAndReadAndIgnoresA) {
  StartupOptions o = playing("siw-p2p");
  o.ird = o.ord = 0;
  Startup m = initiator(o);
  EXPECT_EQ(to_hex(m.poll_transmit()), to_hex(req(0x10, 2, hex("8000c001"))));
  (void)m.handle_bytes(t0, rep(0x10, 2, hex("0008c008")));
  EXPECT_EQ(only_event(m).parameters.rtr, Rtr::write);
}

TEST(MpaQuirks, SiwTerminatesOnDepthsAboveItsOwnAndOnTheSentinel) {
  for (const auto* depths : {"000800c8", "3fff3fff"}) {
    const Answer a = judge(playing("siw"), rep(0x10, 2, hex(depths)));
    EXPECT_EQ(a.events.at(0).terminate_code, 6) << depths;
  }
  EXPECT_EQ(judge(playing("siw"), rep(0x10, 2, hex("00080064"))).state, State::open);
}

TEST(MpaQuirks, SiwGivesUpOnAReplyThatAsksForMarkers) {  // against RFC 5044 §4.3
  const Answer a = judge(playing("siw"), rep(0x90, 2, hex("00080008")));
  EXPECT_EQ(a.events.at(0).kind, Kind::failed);
  EXPECT_EQ(a.events.at(0).failure.code, Errc::unsupported);
}

TEST(MpaQuirks, SoftiwarpWithoutAIsToleratedOnlyWhenKnown) {  // RFC 6581 §9.2
  StartupOptions io;
  io.rtr = Rtr::write;
  Pair strict(io, playing("siw-no-a"));
  EXPECT_EQ(strict.i_events.back().terminate_code, 7);
  io.peer_quirk = "siw-no-a";
  Pair known(io, playing("siw-no-a"));
  EXPECT_EQ(known.i.state(), State::open);
  EXPECT_EQ(known.i.parameters().rtr, Rtr::write);
  EXPECT_TRUE(has_reason(known.i.parameters(), "known departure"));
}

// ---- cxgb4 ------------------------------------------------------------------------------------------------------

TEST(MpaQuirks, Cxgb4FindsItsOwnKindInOurReply) {  // RFC 6581 §9.2
  for (const auto* quirk : {"cxgb4", "cxgb4-write"}) {
    Pair p(playing(quirk), {});
    EXPECT_EQ(p.i.state(), State::open);
    EXPECT_EQ(p.i.parameters().rtr, p.i.play_quirk().own_rtr);
    EXPECT_EQ(p.r.state(), State::open);
  }
}

TEST(MpaQuirks, Cxgb4TerminatesOnMoreThanItsOwnKind) {
  EXPECT_EQ(judge(playing("cxgb4"), rep(0x50, 2, hex("8008c008"))).events.at(0).terminate_code, 7);
  EXPECT_EQ(judge(playing("cxgb4"), rep(0x50, 2, hex("00080008"))).events.at(0).terminate_code, 7);
}

TEST(MpaQuirks, Cxgb4AnswersItsOwnKindWhateverWasOffered) {
  StartupOptions io;
  io.rtr = Rtr::write;
  Pair write_only(io, playing("cxgb4"));
  EXPECT_EQ(write_only.i_events.back().terminate_code, 7);
  io.rtr_offer.read = true;
  Pair both_kinds(io, playing("cxgb4"));
  EXPECT_EQ(both_kinds.i.parameters().rtr, Rtr::read);
  io = {};
  io.rtr = Rtr::send;
  Pair send_only(io, playing("cxgb4"));  // B alone: it answers A=0
  EXPECT_EQ(send_only.i_events.back().terminate_code, 7);
  EXPECT_EQ(send_only.i.parameters().answered, RtrSet{});
}

TEST(MpaQuirks, Cxgb4SendsAnUnannouncedReadUnderRevision1) {
  StartupOptions io = playing("cxgb4");
  io.revision = 1;
  Pair unprepared(io, {});
  EXPECT_EQ(unprepared.i.parameters().rtr, Rtr::read);
  EXPECT_TRUE(has_reason(unprepared.r.parameters(), "an RTR that nothing announced"));
  StartupOptions ro = knowing("cxgb4");
  ro.ird = 0;
  Pair prepared(io, ro);
  EXPECT_EQ(prepared.r.parameters().rtr, Rtr::read);
  EXPECT_EQ(prepared.r.parameters().ird, 1);
}

TEST(MpaQuirks, PeersThatFallBackOnResetOnlyGetAReset) {  // RFC 6581 §10
  for (const auto* quirk : {"cxgb4", "irdma"}) {
    StartupOptions ro = rev1();
    Startup r = responder(ro), i = initiator(playing(quirk));
    (void)r.handle_bytes(t0, i.poll_transmit());
    const StartupEvent e = only_event(r);
    ASSERT_EQ(e.close, Close::reset);
    i.handle_end(t0, true);
    EXPECT_EQ(only_event(i).kind, Kind::retry_v1);
    Startup fin = initiator(playing(quirk));
    fin.handle_end(t0, false);
    EXPECT_EQ(only_event(fin).kind, Kind::failed);
  }
}

// ---- irdma, qedr ------------------------------------------------------------------------------------------------

TEST(MpaQuirks, IrdmaResetsClientServerUnlessTheInitiatorKnowsIt) {  // RFC 6581 §9.2
  Startup r = responder(playing("irdma")), plain = initiator();
  (void)r.handle_bytes(t0, plain.poll_transmit());
  EXPECT_EQ(only_event(r).close, Close::reset);
  Pair p(knowing("irdma"), playing("irdma"));
  EXPECT_EQ(p.i.state(), State::open);
  EXPECT_EQ(p.i.parameters().rtr, Rtr::read);
  EXPECT_TRUE(has_reason(p.i.parameters(), "this peer resets client/server Requests"));
}

TEST(MpaQuirks, IrdmaResetsAnOfferOfSendAlone) {
  Startup m = responder(playing("irdma"));
  (void)m.handle_bytes(t0, req(0x50, 2, hex("C0080008")));
  EXPECT_EQ(only_event(m).close, Close::reset);
}

TEST(MpaQuirks, QedrNamesEveryCommonKindAndTheInitiatorChooses) {  // RFC 6581 §9.2
  StartupOptions io;
  io.rtr = Rtr::read;
  io.rtr_offer.send = true;
  Pair p(io, playing("qedr"));
  EXPECT_EQ(p.i.parameters().answered, (RtrSet{.send = true, .read = true}));
  EXPECT_EQ(p.i.parameters().rtr, Rtr::read);
}

TEST(MpaQuirks, IrdmaNeedsTheFrameWhole) {
  Startup m = responder(playing("irdma"));
  const Bytes request = req(0x50, 2, hex("80084008"));
  (void)m.handle_bytes(t0, ConstBytes(request).first(23));
  EXPECT_EQ(only_event(m).close, Close::reset);
}

TEST(MpaQuirks, IrdmaTakesWriteFromUsAndReadForItself) {
  Pair asked_by_irdma(playing("irdma"), {});
  EXPECT_EQ(asked_by_irdma.r.parameters().rtr, Rtr::write);
  StartupOptions io;
  io.rtr = Rtr::write;
  io.rtr_offer.read = true;
  Pair asked_by_us(io, playing("irdma"));
  EXPECT_EQ(asked_by_us.i.parameters().rtr, Rtr::read);
}

TEST(MpaQuirks, DefaultAgainstDefaultWorksWhereItCan) {
  for (const Quirk& q : all_quirks()) {
    if (q.private_revision != 0) continue;
    Pair they_ask(playing(q.name), knowing(q.name)), we_ask(knowing(q.name), playing(q.name));
    EXPECT_EQ(they_ask.i.state(), State::open) << q.name;
    EXPECT_EQ(they_ask.r.state(), State::open) << q.name;
    EXPECT_EQ(we_ask.i.state(), State::open) << q.name;
    EXPECT_EQ(we_ask.r.state(), State::open) << q.name;
  }
}

// ---- erdma ------------------------------------------------------------------------------------------------------

TEST(MpaQuirks, ErdmaIsRecognisedAndExplained) {
  Startup they = initiator(playing("erdma")), us = responder();
  const Bytes request = they.poll_transmit();
  EXPECT_EQ(request.size(), 28u);  // 8 octets that PD_Length does not count
  (void)us.handle_bytes(t0, request);
  const StartupEvent e = only_event(us);
  EXPECT_EQ(e.failure.code, Errc::bad_revision);
  EXPECT_THAT(e.failure.advice, ::testing::HasSubstr("erdma"));
  Startup ask = initiator(), other = responder(playing("erdma"));
  (void)other.handle_bytes(t0, ask.poll_transmit());
  EXPECT_EQ(only_event(other).failure.code, Errc::bad_revision);
}

}  // namespace
}  // namespace parley::mpa
