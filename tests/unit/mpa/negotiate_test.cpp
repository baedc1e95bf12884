// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The decisions alone, without frames around them.
#include "tests/unit/mpa/startup_kit.hpp"

namespace parley::mpa {
namespace {
using namespace kit;

const Quirk& nobody = **find_quirk("");

Parameters planned(const StartupOptions& o, RequestPlan& plan) {
  Parameters p;
  plan = plan_request(o, nobody, nobody, p);
  return p;
}

TEST(MpaNegotiate, ReasonsAreBounded) {
  Parameters p;
  for (int i = 0; i < 100; ++i) add_reason(p, "x");
  EXPECT_EQ(p.reasons.size(), reasons_max);
}

TEST(MpaNegotiate, ReasonsAreSentencesWithTheirNumbersAndNames) {
  Parameters p;
  add_reason(p, {.text = "{r}: {x}, then {y}; {a}, {b}, {c} and {w}{",
                 .word = "more",
                 .a = 7,
                 .b = 0,
                 .c = depth_not_negotiated,
                 .rtr = Rtr::read,
                 .x = {.write = true, .read = true}});
  add_reason(p, "plain");
  EXPECT_EQ(p.reasons[0], "zero-length Read: Write, Read, then none; 7, 0, 0x3FFF (not negotiated) and more{");
  EXPECT_THAT(p.reasons.texts(), ::testing::ElementsAre(p.reasons[0], "plain"));
}

TEST(MpaNegotiate, KindsPrintInTheOrderOfTheirFlags) {
  EXPECT_EQ(to_string(RtrSet{}), "none");
  EXPECT_EQ(to_string(RtrSet{true, true, true}), "Send, Write, Read");
}

TEST(MpaNegotiate, RequestHasNoKindsWithoutA) {  // RFC 6581 §9.2
  StartupOptions o;
  o.rtr_offer = {true, true, true};  // rtr none: client/server
  RequestPlan plan;
  const Parameters p = planned(o, plan);
  EXPECT_EQ(*plan.enhanced, (wire::MpaEnhanced{.ird = 32, .ord = 32}));
  EXPECT_FALSE(p.peer_to_peer);
}

TEST(MpaNegotiate, TheWantedKindIsAlwaysOffered) {  // RFC 6581 §9.2
  StartupOptions o;
  o.rtr = Rtr::send;
  o.rtr_offer = {.read = true};
  RequestPlan plan;
  EXPECT_EQ(planned(o, plan).offered, (RtrSet{.send = true, .read = true}));
  EXPECT_TRUE(plan.enhanced->a && plan.enhanced->b && plan.enhanced->d);
  EXPECT_FALSE(plan.enhanced->c);
}

TEST(MpaNegotiate, Revision1CarriesNoEnhancedData) {  // RFC 6581 §6
  RequestPlan plan;
  StartupOptions o = rev1();
  o.rtr = Rtr::read;
  (void)planned(o, plan);
  EXPECT_FALSE(plan.enhanced);
  EXPECT_EQ(plan.flags, PARLEY_MPA_FLAG_C);
}

TEST(MpaNegotiate, SIsSetForTheFrameAndForKindsAnnouncedByS) {  // OFA 2007-10 Rtr §2
  RequestPlan plan;
  StartupOptions o = rev1();
  o.rtr = Rtr::frame;
  (void)planned(o, plan);
  EXPECT_TRUE(plan.flags & PARLEY_MPA_FLAG_S);
  o.rtr = Rtr::read;
  (void)planned(o, plan);
  EXPECT_FALSE(plan.flags & PARLEY_MPA_FLAG_S);
  o.rtr_by_s = true;
  (void)planned(o, plan);
  EXPECT_TRUE(plan.flags & PARLEY_MPA_FLAG_S);
  o.rtr = Rtr::none;
  (void)planned(o, plan);
  EXPECT_FALSE(plan.flags & PARLEY_MPA_FLAG_S);
}

// RFC 6581 §9.1, initiator: own IRD/ORD, the Reply's IRD/ORD, what results.
struct DepthRow {
  int ird, ord, ird_max, reply_ird, reply_ord;
  int code, result_ird, result_ord;
  bool negotiated;
};
TEST(MpaNegotiate, InitiatorSettlesDepths) {
  constexpr int sentinel = depth_not_negotiated;
  const DepthRow rows[] = {
      {8, 8, 8, 8, 8, 0, 8, 8, true},
      {8, 8, 8, 4, 2, 0, 8, 4, true},     // ORD goes down to the peer's IRD, IRD need not
      {8, 8, 8, 0, 0, 0, 8, 0, true},     // no Reads from this side then
      {8, 8, 16, 8, 16, 0, 16, 8, true},  // IRD raised as far as allowed
      {8, 8, 16, 8, 17, 6, 8, 8, true},   // one more is too much
      {16, 8, 8, 8, 16, 0, 16, 8, true},  // ird itself counts as room
      {8, 8, 8, sentinel, 8, 0, 8, 8, false},
      {8, 8, 8, 4, sentinel, 0, 8, 4, false},
      {sentinel, 8, 8, 8, 500, 0, sentinel, 8, false},
      {8, sentinel, 8, 2, 8, 0, 8, sentinel, false},
  };
  for (const DepthRow& row : rows) {
    StartupOptions o;
    o.ird = static_cast<std::uint16_t>(row.ird);
    o.ord = static_cast<std::uint16_t>(row.ord);
    o.ird_max = static_cast<std::uint16_t>(row.ird_max);
    RequestPlan plan;
    Parameters p = planned(o, plan);
    const wire::MpaEnhanced reply{.ird = static_cast<std::uint16_t>(row.reply_ird),
                                  .ord = static_cast<std::uint16_t>(row.reply_ord)};
    const Refusal refusal = judge_enhanced_reply(o, nobody, nobody, reply, p);
    SCOPED_TRACE(fmt::format("own {}/{} reply {}/{}", row.ird, row.ord, row.reply_ird, row.reply_ord));
    EXPECT_EQ(refusal.terminate_code, row.code);
    EXPECT_EQ(p.ird, row.result_ird);
    EXPECT_EQ(p.ord, row.result_ord);
    EXPECT_EQ(p.depths_negotiated, row.negotiated);
  }
}

// RFC 6581 §9.1, responder: own IRD/ORD, the Request's, what is answered and kept.
TEST(MpaNegotiate, ResponderSettlesDepths) {
  constexpr int sentinel = depth_not_negotiated;
  struct Row {
    int ird, ord, ird_max, request_ird, request_ord, answer_ird, answer_ord, kept_ird, kept_ord;
  };
  const Row rows[] = {
      {8, 8, 8, 8, 8, 8, 8, 8, 8},
      {8, 8, 8, 4, 2, 8, 4, 8, 4},
      {8, 8, 16, 4, 12, 12, 4, 12, 4},
      {8, 8, 16, 4, 100, 16, 4, 16, 4},
      {8, 8, 8, 0, 0, 8, 0, 8, 0},
      {8, 8, 8, sentinel, 4, 8, sentinel, 8, 8},
      {8, 8, 8, 4, sentinel, sentinel, 4, 8, 4},
      {sentinel, 8, 8, 4, 4, sentinel, 4, sentinel, 4},
      {8, sentinel, 8, 4, 4, 8, sentinel, 8, sentinel},
  };
  for (const Row& row : rows) {
    StartupOptions o;
    o.ird = static_cast<std::uint16_t>(row.ird);
    o.ord = static_cast<std::uint16_t>(row.ord);
    o.ird_max = static_cast<std::uint16_t>(row.ird_max);
    Parameters p;
    const auto e = answer_enhanced(
        o, nobody,
        {.ird = static_cast<std::uint16_t>(row.request_ird), .ord = static_cast<std::uint16_t>(row.request_ord)}, p);
    SCOPED_TRACE(fmt::format("own {}/{} request {}/{}", row.ird, row.ord, row.request_ird, row.request_ord));
    EXPECT_EQ(e.ird, row.answer_ird);
    EXPECT_EQ(e.ord, row.answer_ord);
    EXPECT_EQ(p.ird, row.kept_ird);
    EXPECT_EQ(p.ord, row.kept_ord);
  }
}

TEST(MpaNegotiate, AReadIsNotChosenWhenNoIrdMayBeGiven) {  // RFC 6581 §9.1
  StartupOptions o;
  o.ird = o.ird_max = 0;
  o.rtr_accept = {.send = true, .read = true};
  Parameters p;
  const auto e = answer_enhanced(o, nobody, {.a = true, .d = true, .ird = 8, .ord = 0}, p);
  EXPECT_TRUE(e.b);
  EXPECT_FALSE(e.d);
  EXPECT_EQ(e.ird, 0);
}

TEST(MpaNegotiate, TheMinimalRaiseForAReadKeepsTheSentinelOnTheWire) {  // RFC 6581 §9.1
  StartupOptions o;
  o.ird = 0;
  Parameters p;
  const auto e = answer_enhanced(o, nobody, {.a = true, .d = true, .ird = 8, .ord = depth_not_negotiated}, p);
  EXPECT_EQ(e.ird, depth_not_negotiated);
  EXPECT_EQ(p.ird, 1);
}

TEST(MpaNegotiate, AnRtrIsExpectedByConfigurationUnderRevision1Only) {
  StartupOptions o;
  o.rtr_expected = Rtr::read;
  Parameters p;
  EXPECT_FALSE(answer_plain(o, nobody, nobody, 1, false, p));
  EXPECT_EQ(p.rtr, Rtr::read);
  p = {};
  EXPECT_FALSE(answer_plain(o, nobody, nobody, 2, false, p));
  EXPECT_EQ(p.rtr, Rtr::none);
}

TEST(MpaNegotiate, FlagsOfBothSides) {  // RFC 5044 §4.3, §4.4
  for (const bool own_c : {false, true})
    for (const bool own_m : {false, true})
      for (const int peer : {0x00, 0x40, 0x80, 0xC0}) {
        Parameters p;
        settle_flags(own_c, own_m, static_cast<std::uint8_t>(peer), p);
        EXPECT_EQ(p.crc, own_c || (peer & 0x40) != 0);
        EXPECT_EQ(p.tx_markers, (peer & 0x80) != 0);
        EXPECT_EQ(p.rx_markers, own_m);
      }
}

}  // namespace
}  // namespace parley::mpa
