// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// A ladder as text and as a page. A browser looks at the page in tests/html.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "base/text.hpp"
#include "draw/ladder.hpp"

namespace parley::draw {
namespace {

using testing::HasSubstr;
using testing::Not;
using Kind = LadderRow::Kind;
using Fate = LadderRow::Fate;

Instant us(std::int64_t n) { return Instant{} + std::chrono::microseconds(n); }

LadderRow frame(std::int64_t at, std::uint32_t from, std::uint32_t to, std::string text) {
  LadderRow row;
  row.at = us(at);
  row.arrived = us(at + 1);
  row.from = from;
  row.to = to;
  row.layer = "mpa";
  row.text = std::move(text);
  return row;
}

Ladder handshake() {
  Ladder p;
  p.title = "lossy handshake";
  p.columns = {"a", "b"};
  p.addresses = {"10.0.0.1", "10.0.0.2"};
  LadderRow request = frame(0, 0, 1, "MPA Request");
  request.frame = 1;
  request.detail = "rev=1 C";
  request.fields = {{"MPA Request", ""}, {"Rev", "1"}};
  LadderRow lost = frame(2, 1, 0, "MPA Reply");
  lost.frame = 3;
  lost.fate = Fate::dropped;
  lost.why = "dropped by rule 'loss'";
  LadderRow again = frame(200'002, 1, 0, "MPA Reply");
  again.frame = 4;
  again.repeated = true;
  p.rows = {request, lost, again};
  p.facts = {{"result", "passed"}, {"seed", "7"}};
  return p;
}

std::vector<std::string> lines(const std::string& text) {
  std::vector<std::string> out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = text.find('\n', at);
    out.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return out;
}

TEST(LadderText, TwoHostsReadAsALadderOfWordsOnArrows) {
  EXPECT_EQ(to_text(handshake(), {.width = 80, .ascii = true}),
            "lossy handshake\n"
            "\n"
            " frame      seconds  a                                                         b\n"
            "                     10.0.0.1                                           10.0.0.2\n"
            "     1     0.000000  |-- MPA Request rev=1 C --------------------------------->|\n"
            "     3     0.000002  | dropped by rule 'loss' X------------------- MPA Reply --|\n"
            "                     :                      200 ms later                       :\n"
            "     4     0.200002  |<..................................... MPA Reply again ..|\n"
            "\n"
            "             result  passed\n"
            "               seed  7\n");
}

TEST(LadderText, BoxDrawingIsTheDefaultAndAsciiIsAscii) {
  EXPECT_THAT(to_text(handshake()), HasSubstr("│── MPA Request rev=1 C ─"));
  EXPECT_THAT(to_text(handshake()), HasSubstr("✗"));
  Ladder p = handshake();
  p.columns[0] = "zürich";
  p.rows[0].text = "→";
  const std::string text = to_text(p, {.ascii = true});
  for (char c : text) EXPECT_TRUE(c == '\n' || (c >= 0x20 && c < 0x7F)) << text;
  EXPECT_THAT(text, HasSubstr("z?rich"));
}

TEST(LadderText, NoLineIsWiderThanAskedForWhateverTheTexts) {
  Ladder p = handshake();
  for (LadderRow& row : p.rows) {
    row.detail = std::string(300, 'x');
    row.why = "because " + std::string(40, 'y') + " and " + std::string(40, 'z');
  }
  for (const std::size_t width : {60u, 80u, 100u, 200u})
    for (const std::size_t hosts : {2u, 3u, 5u}) {
      p.columns.assign(hosts, "a host with quite a long name");
      p.addresses.assign(hosts, "2001:db8::1234:5678:9abc:def0");
      p.rows[1].to = static_cast<std::uint32_t>(hosts - 1);
      p.rows[1].from = 0;
      for (const std::string& line : lines(to_text(p, {.width = width})))
        EXPECT_LE(columns(line), width + 30) << width << ' ' << hosts << '\n' << line;
    }
  p = handshake();
  p.rows[0].detail = std::string(300, 'x');
  for (const std::string& line : lines(to_text(p, {.width = 90}))) EXPECT_LE(columns(line), 90u) << line;
}

TEST(LadderText, ACrashedHostHasABrokenLifeLineUntilItRestarts) {
  Ladder p = handshake();
  LadderRow crash;
  crash.kind = Kind::note;
  crash.at = us(1);
  crash.from = crash.to = 1;
  crash.layer = "crash";
  crash.text = "host b crashed";
  LadderRow restart = crash;
  restart.at = us(3);
  restart.layer = "restart";
  restart.text = "host b started again";
  p.rows.insert(p.rows.begin() + 1, crash);
  p.rows.insert(p.rows.begin() + 3, restart);
  const auto text = lines(to_text(p, {.width = 80, .ascii = true}));
  EXPECT_THAT(text[4], testing::EndsWith("|"));
  EXPECT_THAT(text[5], testing::EndsWith("host b crashed *"));
  EXPECT_THAT(text[6], testing::EndsWith("--."));
  EXPECT_THAT(text[7], testing::EndsWith("host b started again *"));
  EXPECT_THAT(text.back(), HasSubstr("7"));
}

TEST(LadderText, ViolationsStandWhereTheyHappenedWithTheirRule) {
  Ladder p = handshake();
  LadderRow v;
  v.kind = Kind::violation;
  v.at = us(1);
  v.text = "fence";
  v.detail = "the responder sent an FPDU before it had received one";
  v.why = "RFC 5044 §7.1.2";
  p.rows.insert(p.rows.begin() + 1, v);
  const std::string text = to_text(p, {.width = 80});
  EXPECT_THAT(text, HasSubstr("✗ fence: the responder sent an FPDU"));
  EXPECT_THAT(text, HasSubstr("[RFC 5044 §7.1.2]"));
  EXPECT_LT(text.find("MPA Request"), text.find("fence"));
  EXPECT_LT(text.find("fence"), text.find("MPA Reply"));
}

TEST(LadderText, ManyHostsHaveTheirWordsBesideAndABroadcastReachesAll) {
  Ladder p;
  p.columns = {"a", "b", "c", "idle"};
  LadderRow arp = frame(0, 1, 0, "ARP request");
  arp.also = {2};
  p.rows = {arp, frame(5, 0, 2, "SYN")};
  const std::string text = to_text(p, {.width = 100, .ascii = true});
  EXPECT_THAT(text, Not(HasSubstr("idle")));
  EXPECT_THAT(text, HasSubstr("|<------------|------------>|   ARP request"));
  EXPECT_THAT(text, HasSubstr("|-------------+------------>|   SYN"));
}

TEST(LadderText, ANameThatIsTooLongForItsColumnIsCut) {
  const auto head = [](std::size_t hosts, const std::string& name, std::size_t width) {
    Ladder p;
    p.columns.assign(hosts, name);
    for (std::uint32_t host = 0; host < hosts; ++host) p.rows.push_back(frame(host, host, 0, "SYN"));
    return lines(to_text(p, {.width = width, .ascii = true})).front();
  };
  const std::string name = "abcdefghijklmnopqrstu", before = " frame      seconds  ";
  EXPECT_EQ(head(1, name, 100), before + "abcdefghijklmnopq...");
  EXPECT_EQ(head(1, name.substr(1), 100), before + "bcdefghijklmnopqrstu");
  EXPECT_EQ(head(2, name, 60), before + "abcdefghijklmno...   abcdefghijklmno...");
  EXPECT_EQ(head(2, name.substr(3), 60), before + "defghijklmnopqrstu   defghijklmnopqrstu");
  EXPECT_EQ(head(3, name, 60), before + "abcde... abcde... abcde...");
  EXPECT_EQ(head(3, name.substr(13), 60), before + "nopqrstu nopqrstu nopqrstu");
}

TEST(LadderText, WhatTheWireSaysCannotDriveTheTerminal) {
  Ladder p = handshake();
  p.rows[0].detail = "\033[31mred\033]0;title\007 \xff\xfe \xc2\x9b";
  const std::string text = to_text(p);
  EXPECT_THAT(text, Not(HasSubstr("\033")));
  EXPECT_THAT(text, Not(HasSubstr("\007")));
  EXPECT_THAT(text, Not(HasSubstr("\xff")));
  EXPECT_THAT(text, Not(HasSubstr("\xc2\x9b")));
}

TEST(LadderText, ColoursCostNoColumnsAndEnd) {
  const std::string plain = to_text(handshake());
  std::string coloured = to_text(handshake(), {.colour = true});
  EXPECT_THAT(coloured, HasSubstr("\033["));
  for (std::size_t at; (at = coloured.find("\033[")) != std::string::npos;)
    coloured.erase(at, coloured.find('m', at) - at + 1);
  EXPECT_EQ(lines(coloured).size(), lines(plain).size());
  for (std::size_t i = 0; i < lines(plain).size(); ++i) {
    std::string line = lines(coloured)[i];
    while (!line.empty() && line.back() == ' ') line.pop_back();
    EXPECT_EQ(line, lines(plain)[i]);
  }
}

TEST(LadderHtml, IsOneFileWithEveryRowAndItsFields) {
  const std::string page = to_html(handshake());
  EXPECT_THAT(page, testing::StartsWith("<!doctype html>"));
  EXPECT_THAT(page, HasSubstr("id=\"r2\""));
  EXPECT_THAT(page, Not(HasSubstr("id=\"r3\"")));
  EXPECT_THAT(page, HasSubstr("MPA Request\n  Rev: 1\n"));
  EXPECT_THAT(page, HasSubstr("dropped by rule &#39;loss&#39;"));
  EXPECT_THAT(page, HasSubstr("200 ms later"));
  EXPECT_THAT(page, HasSubstr("prefers-color-scheme:dark"));
  EXPECT_THAT(page, Not(HasSubstr("http://")));
  EXPECT_THAT(page, Not(HasSubstr("https://")));
}

TEST(LadderHtml, EscapesEveryTextOfTheLadder) {
  const std::string nasty = "</script><img src=x onerror=\"a\" '&";
  Ladder p = handshake();
  p.title = p.subtitle = p.columns[0] = p.addresses[0] = nasty;
  p.facts = {{nasty, nasty}, {"result", nasty}};
  for (LadderRow& row : p.rows) {
    row.layer = row.text = row.detail = row.why = nasty;
    row.fields = {{nasty, nasty}, {nasty, ""}};
  }
  p.rows.push_back(p.rows[0]);
  p.rows.back().kind = Kind::note;
  p.rows.push_back(p.rows[0]);
  p.rows.back().kind = Kind::violation;
  const std::string page = to_html(p);
  EXPECT_THAT(page, Not(HasSubstr("<img")));
  EXPECT_THAT(page, Not(HasSubstr("onerror=\"")));
  EXPECT_THAT(page, HasSubstr("&lt;/script&gt;&lt;img src=x onerror=&quot;a&quot; &#39;&amp;"));
}

TEST(LadderHtml, AndTextAreTheSameEachTime) {
  EXPECT_EQ(to_html(handshake()), to_html(handshake()));
  EXPECT_EQ(to_text(handshake()), to_text(handshake()));
}

TEST(LadderHtml, AnEmptyLadderIsAPageAndATextToo) {
  EXPECT_THAT(to_html(Ladder{}), HasSubstr("</html>"));
  EXPECT_EQ(to_text(Ladder{}), "");
  Ladder only_a_host;
  only_a_host.columns = {"a"};
  EXPECT_THAT(to_text(only_a_host), HasSubstr("a"));
}

}  // namespace
}  // namespace parley::draw
