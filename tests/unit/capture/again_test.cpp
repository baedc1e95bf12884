// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// RFC 5044 §7.1.2 rules 2 and 3: a reject leaves TCP to the ULP, which may begin again on it. Each set-up is judged by
// itself.
#include <gtest/gtest.h>

#include "capture/report/text.hpp"
#include "exchange.hpp"

namespace parley::capture {
namespace {

using test::Exchange;
using test::fpdu;
using test::send_segment;
using test::startup;
using wire::MpaKey;

constexpr std::uint8_t M = PARLEY_MPA_FLAG_M, C = PARLEY_MPA_FLAG_C, R = PARLEY_MPA_FLAG_R;

/// Rejected, then accepted: frames 4 to 7; three FPDUs.
Exchange accepted_later(std::uint8_t request = C) {
  Exchange x;
  x.open().send(0, startup(MpaKey::req, M | C, 1)).send(1, startup(MpaKey::rep, C | R, 1));
  x.send(0, startup(MpaKey::req, request, 1)).send(1, startup(MpaKey::rep, C, 1));
  return x.send(0, fpdu(send_segment(1, 8)))
      .send(1, fpdu(send_segment(1, 8)))
      .send(0, fpdu(send_segment(2, 8)))
      .close();
}

void lose(Exchange& x, std::size_t frame) { x.frames.erase(x.frames.begin() + static_cast<std::ptrdiff_t>(frame - 1)); }

TEST(CaptureAgain, EachSetUpOnOneTcpConnectionHasItsReport) {
  const FileReport r = test::analyse(accepted_later().frames);
  ASSERT_EQ(r.connections.size(), 2u) << test::words(r);
  EXPECT_EQ(r.tcp_connections, 1u);
  const ConnectionReport &first = r.connections[0], &second = r.connections[1];
  EXPECT_EQ(first.outcome, Outcome::rejected);
  EXPECT_EQ(first.last_frame, 5u);
  EXPECT_EQ(first.end, "another Request on the same TCP connection (frame 6)");
  EXPECT_EQ(first.from_initiator.octets, 20u);
  EXPECT_EQ(first.from_responder.octets, 20u);
  EXPECT_TRUE(first.steps.tcp && first.steps.request && first.steps.reply);
  EXPECT_EQ(second.outcome, Outcome::established);
  EXPECT_EQ(second.first_frame, 6u);
  EXPECT_FALSE(second.markers_to_initiator);
  EXPECT_EQ(second.from_initiator.fpdus, 2u);
  EXPECT_EQ(second.from_responder.fpdus, 1u);
  EXPECT_FALSE(second.steps.tcp || second.steps.request);  // TCP was there already
  EXPECT_TRUE(second.steps.reply && second.steps.first_fpdu);
  EXPECT_EQ(r.count(Severity::error), 0u) << test::words(r);
  EXPECT_NE(summary_text("x.pcap", r).find("1 TCP connection, 2 MPA connections: 2 passed"), std::string::npos);
}

TEST(CaptureAgain, AllRulesHoldForTheSecondSetUp) {
  const FileReport r = test::analyse(accepted_later(C | R).frames);
  EXPECT_TRUE(test::has(r, Severity::error, "the initiator set R")) << test::words(r);
  Exchange unasked;
  unasked.open().send(0, startup(MpaKey::req, C, 1)).send(1, startup(MpaKey::rep, C | R, 1));
  unasked.send(1, startup(MpaKey::rep, C | R, 1)).close();
  EXPECT_TRUE(test::has(test::analyse(unasked.frames), Severity::error, "a second Reply after that of frame 5"));
  Exchange early;
  early.open().send(0, startup(MpaKey::req, C, 1)).send(1, startup(MpaKey::rep, C | R, 1));
  early.send(0, startup(MpaKey::req, C, 1)).send(0, fpdu(send_segment(1, 8))).send(1, startup(MpaKey::rep, C, 1));
  EXPECT_TRUE(test::has(test::analyse(early.close().frames), Severity::error, "octets after its Request before"));
}

TEST(CaptureAgain, ARetransmissionIsNoSecondRequest) {
  Exchange x;
  x.open().send(0, startup(MpaKey::req, C, 1)).send(1, startup(MpaKey::rep, C | R, 1));
  x.frames.push_back(x.frames[3]);
  x.close();
  EXPECT_EQ(test::analyse(x.frames).connections.size(), 1u);
  Exchange again = accepted_later();
  again.frames.insert(again.frames.begin() + 7, again.frames[3]);
  const FileReport r = test::analyse(again.frames);
  EXPECT_EQ(r.connections.size(), 2u);
  EXPECT_EQ(r.connections[1].from_initiator.retransmissions, 1u);
  EXPECT_EQ(r.count(Severity::error), 0u) << test::words(r);
}

TEST(CaptureAgain, WhatIsNoRequestIsTheUlps) {
  Exchange x;
  x.open().send(0, startup(MpaKey::req, C, 1)).send(1, startup(MpaKey::rep, C | R, 1));
  x.send(0, Bytes(40, 'x')).send(0, startup(MpaKey::req, C | R, 1)).close();
  const FileReport r = test::analyse(x.frames);
  ASSERT_EQ(r.connections.size(), 1u);
  EXPECT_EQ(r.connections[0].outcome, Outcome::rejected);
  EXPECT_EQ(r.count(Severity::error), 0u) << test::words(r);
}

TEST(CaptureAgain, ARequestThatIsLostLeavesItsReplyASetUpOfItsOwn) {
  Exchange x = accepted_later();
  lose(x, 6);
  const FileReport r = test::analyse(x.frames);
  ASSERT_EQ(r.connections.size(), 2u) << test::words(r);
  EXPECT_EQ(r.connections[0].outcome, Outcome::rejected);
  EXPECT_EQ(r.connections[0].from_initiator.missing_octets, 0u);
  EXPECT_EQ(r.connections[1].from_initiator.missing_octets, 20u);
  EXPECT_EQ(r.connections[1].from_initiator.fpdus, 2u);
  EXPECT_EQ(r.count(Severity::error), 0u) << test::words(r);
}

TEST(CaptureAgain, AnRtrFrameBehindALostRequestBeginsNothing) {
  Exchange x;
  x.open().send(0, startup(MpaKey::req, C, 1)).send(1, startup(MpaKey::rep, C | R, 1));
  x.send(0, startup(MpaKey::req, C | PARLEY_MPA_FLAG_S, 1)).send(0, startup(MpaKey::rtr, C, 1)).close();
  lose(x, 6);
  const FileReport r = test::analyse(x.frames);
  EXPECT_EQ(r.count(Severity::error), 0u) << test::words(r);
}

TEST(CaptureAgain, AReplyIsNotHeldToARequestThatAnotherReplyAnswered) {
  const wire::MpaEnhanced depths{.ird = 4, .ord = 4};
  Exchange x;
  x.open().send(0, startup(MpaKey::req, C, 1)).send(1, startup(MpaKey::rep, C | R, 1));
  x.send(0, startup(MpaKey::req, C | PARLEY_MPA_FLAG_S, 2, depths));
  x.send(1, startup(MpaKey::rep, C | PARLEY_MPA_FLAG_S, 2, depths)).send(0, fpdu(send_segment(1, 8))).close();
  lose(x, 6);
  lose(x, 5);
  const FileReport r = test::analyse(x.frames);
  EXPECT_EQ(r.count(Severity::error), 0u) << test::words(r);
}

/// A Request without markers whose Reply is lost; what followed was answered by FPDUs with markers. `behind`: octets of the
/// initiator that the capture lacks right behind it, or behind another Request that it holds.
Exchange lost_set_up(bool another, std::size_t behind, std::size_t replies) {
  Exchange x;
  x.open().send(0, startup(MpaKey::req, C, 1)).send(1, Bytes(replies));
  if (another) x.send(0, startup(MpaKey::req, C, 1));
  x.send(0, behind > 0 ? Bytes(behind) : fpdu(send_segment(1, 8)));
  std::uint64_t position = 0;
  for (std::uint32_t msn = 1; msn < 20; ++msn) {
    const Bytes octets = fpdu(send_segment(msn, 40), position, true);
    position += octets.size();
    x.send(1, octets).acknowledge(0);
  }
  x.close();
  if (behind > 0) lose(x, another ? 7 : 6);
  lose(x, 5);
  return x;
}

TEST(CaptureAgain, WhatWasAgreedIsNotKnownWhereAnotherSetUpMayBeLost) {
  for (const bool another : {false, true}) {
    const FileReport r = test::analyse(lost_set_up(another, 60, 60).frames);
    EXPECT_EQ(r.count(Severity::error), 0u) << another << test::words(r);
    ASSERT_EQ(r.connections.size(), 1u);
    EXPECT_GT(r.connections[0].from_responder.fpdus, 0u);
  }
}

TEST(CaptureAgain, WhatTheRequestAsksForHoldsWhereNoOtherSetUpCanBeLost) {
  const char* const wrong = "the responder sent an FPDU with CRC";
  EXPECT_NE(test::words(test::analyse(lost_set_up(false, 0, 60).frames)).find(wrong), std::string::npos);
  EXPECT_NE(test::words(test::analyse(lost_set_up(false, 60, 20).frames)).find(wrong), std::string::npos);
}

TEST(CaptureAgain, AThousandRejectsStayWithinTheBoundsOfTheReport) {
  Exchange x;
  x.open();
  for (int i = 0; i < 1000; ++i) x.send(0, startup(MpaKey::req, C, 1)).send(1, startup(MpaKey::rep, C | R, 1));
  x.close();
  const FileReport all = test::analyse(x.frames);
  EXPECT_EQ(all.connections.size(), 1000u);
  AnalyzerOptions few;
  few.report_octets_max = 64 << 10;
  const FileReport r = test::analyse(x.frames, few);
  EXPECT_LT(r.connections.size(), 100u);
  EXPECT_EQ(r.all_connections(), 1000u);
  EXPECT_EQ(r.count(Standing::passed), 1000u);
}

TEST(CaptureAgain, ALadderMayBeOfTheSecondSetUpAlone) {
  AnalyzerOptions second;
  second.events = true;
  second.only = {6};
  const FileReport r = test::analyse(accepted_later().frames, second);
  ASSERT_EQ(r.connections.size(), 2u);
  EXPECT_TRUE(r.connections[0].events.empty());
  ASSERT_FALSE(r.connections[1].events.empty());
  EXPECT_EQ(r.connections[1].events.front().frame, 6u);
}

}  // namespace
}  // namespace parley::capture
