// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Reports say nothing that cannot be, whatever the capture lacks or holds late.
#include <gtest/gtest.h>

#include "capture/report/csv.hpp"
#include "capture/report/json.hpp"
#include "capture/report/ladder.hpp"
#include "capture/report/text.hpp"
#include "capture/report/text_ladder.hpp"
#include "tests/unit/capture/exchange.hpp"

namespace parley::capture {
namespace {

using draw::Ladder;

using test::Exchange;
using test::fpdu;
using test::send_segment;
using test::startup;

wire::MpaEnhanced peer_to_peer(bool send, bool write, bool read) {
  wire::MpaEnhanced e;
  e.a = true;
  e.b = send;
  e.c = write;
  e.d = read;
  e.ird = e.ord = 4;
  return e;
}
constexpr std::uint8_t cs = PARLEY_MPA_FLAG_C | PARLEY_MPA_FLAG_S;

Exchange rtr_set_up(const wire::MpaEnhanced& request, const wire::MpaEnhanced& reply) {
  Exchange x;
  x.open().send(0, startup(wire::MpaKey::req, cs, 2, request)).send(1, startup(wire::MpaKey::rep, cs, 2, reply));
  return x;
}
std::string all_texts(const FileReport& r) {
  std::string out = to_text("a", r);
  for (const auto& c : r.connections) {
    out += to_ladder(c);
    const Ladder p = ladder_of("a", c);
    for (const auto& [name, value] : p.facts) out += name + ": " + value + "\n";
  }
  return out;
}
bool says(const FileReport& r, std::string_view words) { return all_texts(r).find(words) != std::string::npos; }

TEST(Oddities, NoRtrInCommonIsNotAnAgreedOne) {
  const FileReport r = test::analyse(
      rtr_set_up(peer_to_peer(true, false, false), peer_to_peer(false, true, false)).close().frames, 1, true);
  ASSERT_EQ(r.connections.size(), 1u);
  EXPECT_EQ(r.connections[0].outcome, Outcome::failed);  // RFC 6581 §9.2
  EXPECT_TRUE(says(r, "no RTR in common")) << all_texts(r);
  EXPECT_FALSE(says(r, "agreed, not seen")) << all_texts(r);
  EXPECT_FALSE(says(r, "the agreed RTR")) << all_texts(r);
}

TEST(Oddities, SeveralAgreedRtrsAreNamed) {
  const FileReport r = test::analyse(
      rtr_set_up(peer_to_peer(false, true, true), peer_to_peer(true, true, true)).close().frames, 1, true);
  EXPECT_TRUE(says(r, "RTR write or read agreed, not seen")) << all_texts(r);
  EXPECT_TRUE(says(r, "ended before the initiator sent the agreed RTR")) << all_texts(r);
}

TEST(Oddities, NothingIsAgreedWithoutAReply) {
  Exchange x;
  const FileReport r =
      test::analyse(x.open().send(0, startup(wire::MpaKey::req, PARLEY_MPA_FLAG_C, 1)).close().frames, 1, true);
  EXPECT_TRUE(says(r, "  agreed     nothing: no Reply is in the capture\n")) << all_texts(r);
  EXPECT_TRUE(says(r, "agreed: nothing: no Reply is in the capture\n")) << all_texts(r);
  EXPECT_FALSE(says(r, "CRC on")) << all_texts(r);
  EXPECT_NE(to_json("a", r).find(R"("agreed":false)"), std::string::npos);
  EXPECT_NE(to_csv("a", r).find(",false,mpa,,,,\n"), std::string::npos) << to_csv("a", r);
}

TEST(Oddities, NothingIsAgreedByARejection) {
  Exchange x;
  x.open()
      .send(0, startup(wire::MpaKey::req, PARLEY_MPA_FLAG_C, 1))
      .send(1, startup(wire::MpaKey::rep, PARLEY_MPA_FLAG_C | PARLEY_MPA_FLAG_R, 1))
      .close();
  const FileReport r = test::analyse(x.frames, 1, true);
  EXPECT_TRUE(says(r, "  agreed     nothing: the Reply rejects\n")) << all_texts(r);
  EXPECT_TRUE(says(r, "9001  rejected, passed\n")) << all_texts(r);
}

TEST(Oddities, AFailedSetUpIsSaidToHaveFailedOnce) {
  Exchange x;
  x.open().send(0, startup(wire::MpaKey::req, PARLEY_MPA_FLAG_C, 1)).rst(1);
  const FileReport r = test::analyse(x.frames, 1, true);
  EXPECT_TRUE(says(r, "9001  failed: the set-up failed")) << all_texts(r);
}

TEST(Oddities, TimesAreNeverNegative) {
  Exchange x = test::conversation();
  // A clock that was set back by a second in the middle of the set-up: SYN ACK, Request, Reply and so on.
  for (std::size_t back = 1; back < 8; ++back) {
    test::Frames frames = x.frames;
    for (std::size_t i = back; i < frames.size(); ++i) frames[i].at -= std::chrono::seconds(1);
    const FileReport r = test::analyse(frames, 1, true);
    ASSERT_EQ(r.connections.size(), 1u);
    const std::string csv = to_csv("a", r), json = to_json("a", r), text = all_texts(r);
    EXPECT_EQ(csv.find(",-"), std::string::npos) << back << csv;
    EXPECT_EQ(json.find(":-"), std::string::npos) << back << json;
    for (const std::string_view negative : {" -0", " -1", " -9"})
      EXPECT_EQ(text.find(negative), std::string::npos) << back << text;
  }
}

TEST(Oddities, WhatComesAheadOfItsTurnIsNotSentAgain) {
  Exchange x;
  x.set_up();
  for (std::uint32_t msn = 1; msn <= 3; ++msn) x.send(0, fpdu(send_segment(msn, 40)));
  x.close();
  std::swap(x.frames[5], x.frames[6]);
  const FileReport r = test::analyse(x.frames, 1, true);
  ASSERT_EQ(r.connections.size(), 1u);
  EXPECT_EQ(r.connections[0].from_initiator.out_of_order, 1u);
  EXPECT_TRUE(says(r, "64 octets ahead of their turn")) << all_texts(r);
  for (const auto& row : ladder_of("a", r.connections[0]).rows) EXPECT_FALSE(row.repeated) << row.text;
  EXPECT_FALSE(says(r, "╌")) << all_texts(r);
}

TEST(Oddities, APassedPageHasWarningsAndNothingThatWentWrong) {
  Exchange x;
  x.open()
      .send(0, startup(wire::MpaKey::req, 0, 1))  // C=0: a warning
      .send(1, startup(wire::MpaKey::rep, 0, 1))
      .send(0, fpdu(send_segment(1, 8), 0, false, false))
      .close();
  const FileReport r = test::analyse(x.frames, 1, true);
  ASSERT_EQ(r.connections.size(), 1u);
  const Ladder p = ladder_of("a", r.connections[0]);
  EXPECT_EQ(p.facts.front().second, "passed");
  const std::string page = to_html(p);
  EXPECT_EQ(page.find("What went wrong"), std::string::npos);
  EXPECT_NE(page.find("<section class=\"doubts\"><b>Warnings</b>"), std::string::npos);
  EXPECT_NE(page.find("<span class=\"badge good\">passed</span>"), std::string::npos);
  EXPECT_EQ(to_text(p).find("✗"), std::string::npos);
}

TEST(Oddities, APartialPageIsNeitherGreenNorRed) {
  const test::Frames all = test::conversation().frames;
  const FileReport r = test::analyse(test::Frames(all.begin() + 6, all.end()), 1, true);
  ASSERT_EQ(r.connections.size(), 1u);
  EXPECT_NE(to_html(ladder_of("a", r.connections[0])).find("<span class=\"badge warn\">partial: "), std::string::npos);
}

}  // namespace
}  // namespace parley::capture
