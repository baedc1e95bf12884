// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// A connection of a capture as a ladder: every frame is a row with its fields, and findings stand at their frames.
#include "capture/report/ladder.hpp"

#include <gtest/gtest.h>

#include "tests/unit/capture/exchange.hpp"

namespace parley::capture {
namespace {

using draw::Ladder;
using draw::LadderRow;
using draw::to_html;

using test::Exchange;
using test::fpdu;
using test::send_segment;

FileReport drawn(const Exchange& x, AnalyzerOptions options = {.events = true, .fields = true}) {
  return test::analyse(x.frames, options);
}
Ladder ladder(const Exchange& x) {
  const FileReport r = drawn(x);
  return r.connections.empty() ? Ladder{} : ladder_of("a.pcap", r.connections[0]);
}
const LadderRow* row(const Ladder& p, std::string_view text) {
  for (const auto& r : p.rows)
    if (r.text == text) return &r;
  return nullptr;
}
std::string field(const LadderRow& r, std::string_view name) {
  for (const auto& [key, value] : r.fields)
    if (key == name) return value;
  return "no such field";
}
Exchange faulty() {
  Exchange x;
  Bytes bad = fpdu(send_segment(2, 8));
  bad.back() ^= 1;
  x.set_up().send(0, fpdu(send_segment(1, 8))).send(0, bad);
  x.frames.push_back(x.frames[5]);  // the first Send once more
  return x.close();
}

TEST(CaptureLadder, FramesHaveTheirFields) {
  const Ladder p = ladder(faulty());
  EXPECT_EQ(p.columns, (std::vector<std::string>{"initiator", "responder"}));
  EXPECT_EQ(p.addresses, (std::vector<std::string>{"192.0.2.1:40000", "192.0.2.2:9001"}));
  const LadderRow* request = row(p, "MPA Request");
  ASSERT_NE(request, nullptr);
  EXPECT_EQ(request->frame, 4U);
  EXPECT_EQ(request->layer, "mpa");
  EXPECT_EQ(field(*request, "C (CRC preferred)"), "1");
  EXPECT_EQ(field(*request, "Seconds since the first packet"), "0.003000000");
  const LadderRow* send = row(p, "Send");
  ASSERT_NE(send, nullptr);
  EXPECT_EQ(send->detail, "msn=1 len=8");
  EXPECT_EQ(field(*send, "MSN"), "1");
  EXPECT_NE(field(*send, "CRC").find("right"), std::string::npos);
  EXPECT_EQ(field(*row(p, "SYN mss=1460"), "Maximum segment size"), "1460");
}

TEST(CaptureLadder, RepetitionsAndFindingsStandAtTheirFrames) {
  const Ladder p = ladder(faulty());
  std::size_t repeated = 0;
  for (const auto& r : p.rows)
    if (r.repeated) ++repeated;
  EXPECT_EQ(repeated, 1U);
  std::size_t at = 0;
  while (at < p.rows.size() && p.rows[at].kind != LadderRow::Kind::violation) ++at;
  ASSERT_LT(at, p.rows.size());
  EXPECT_TRUE(p.rows[at].text.starts_with("the initiator sent an FPDU with CRC")) << p.rows[at].text;
  EXPECT_EQ(p.rows[at].detail, "error, frame 7");
  EXPECT_EQ(p.rows[at].why, "RFC 5044 §4.4");
  EXPECT_EQ(p.rows[at].frame, 7U);
  EXPECT_EQ(p.rows[at - 1].frame, 7U);
  EXPECT_NE(field(p.rows[at - 1], "CRC").find("wrong"), std::string::npos);
  EXPECT_EQ(p.facts.front().first, "result");
  EXPECT_TRUE(p.facts.front().second.starts_with("failed: 1 error")) << p.facts.front().second;
  for (std::size_t i = 1; i < p.rows.size(); ++i) EXPECT_LE(p.rows[i - 1].at, p.rows[i].at);
}

TEST(CaptureLadder, GapsAreNotesOfTheSideThatLacksOctets) {
  Exchange x;
  x.set_up();
  for (std::uint32_t msn = 1; msn <= 4; ++msn) x.send(0, fpdu(send_segment(msn, 100)));
  x.acknowledge(1).close();
  x.frames.erase(x.frames.begin() + 6);
  const Ladder p = ladder(x);
  const LadderRow* gap = row(p, "124 octets are not in the capture");
  ASSERT_NE(gap, nullptr);
  EXPECT_EQ(gap->kind, LadderRow::Kind::note);
  EXPECT_EQ(gap->from, 0U);
}

TEST(CaptureLadder, RowsAreBoundedAndWhatIsWrongIsKept) {
  const FileReport r = drawn(faulty());
  const Ladder p = ladder_of("a.pcap", r.connections[0], {.rows_max = 3});
  EXPECT_GT(p.rows_dropped, 3U);
  EXPECT_TRUE(std::any_of(p.rows.begin(), p.rows.end(),
                          [](const LadderRow& each) { return each.kind == LadderRow::Kind::violation; }));
}

TEST(CaptureLadder, OnlyTheConnectionAskedForIsDrawn) {
  Exchange x = test::conversation();
  Exchange second(Address::v4(192, 0, 2, 3, 5), Address::v4(192, 0, 2, 2, 9001), 7, 8);
  second.set_up().send(0, fpdu(send_segment(1, 4))).close();
  const std::uint64_t first = x.frames.size() + 1;
  x.frames.insert(x.frames.end(), second.frames.begin(), second.frames.end());
  FileReport r = drawn(x, {.events = true, .only = {first}});
  ASSERT_EQ(r.connections.size(), 2U);
  EXPECT_TRUE(r.connections[0].events.empty());
  EXPECT_FALSE(r.connections[1].events.empty());
  r = drawn(x, {.events = true, .drawn_max = 1, .events_max = 5});
  EXPECT_EQ(r.connections[0].events.size(), 5U);
  EXPECT_GT(r.connections[0].events_dropped, 5U);
  EXPECT_TRUE(r.connections[1].events.empty());
}

TEST(CaptureLadder, SeveralConnectionsMakeOnePage) {
  const Ladder p = ladder(faulty());
  EXPECT_EQ(to_html("t", {p}, 0), to_html(p));
  const std::string page = to_html("</title><script>alert(1)</script>", {p, p}, 3);
  EXPECT_EQ(page.find("<script>alert"), std::string::npos);
  EXPECT_NE(page.find("<section id=\"c2\">"), std::string::npos);
  EXPECT_NE(page.find("3 more connections are left out"), std::string::npos);
  EXPECT_NE(to_html("t", {}, 0).find("No connection is drawn"), std::string::npos);
}

}  // namespace
}  // namespace parley::capture
