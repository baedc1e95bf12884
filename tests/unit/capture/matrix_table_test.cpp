// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The tables of a matrix, to the column.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/text.hpp"
#include "capture/report/matrix.hpp"
#include "capture/report/text_ladder.hpp"
#include "tests/unit/capture/exchange.hpp"

namespace parley::capture {
namespace {

using testing::HasSubstr;

MatrixEntry entry(std::string a, std::string b, std::string form, Standing standing, std::string why = {}) {
  MatrixEntry e;
  e.file = "x.pcap";
  e.initiator = std::move(a);
  e.responder = std::move(b);
  e.form = std::move(form);
  e.judgement = {standing, std::move(why)};
  e.end = "open at the end of the capture";
  e.ends = {"192.0.2.1:1", "192.0.2.2:2"};
  return e;
}

TEST(MatrixTable, ColumnsAreAsWideAsTheirWidestCellAndTheUsualFormComesFirst) {
  Matrix m;
  for (MatrixEntry& e :
       std::vector{entry("a", "b", "rare", Standing::passed), entry("a", "b", "usual", Standing::failed, "1 error"),
                   entry("a", "b", "usual", Standing::passed), entry("a", "long name", "usual", Standing::partial)})
    m.add(std::move(e));
  m.entries[1].first_frame = 6;
  m.entries[1].last_frame = 11;
  m.entries[1].findings = {{7, Severity::note, "", "a note"},
                           {8, Severity::warning, "", "a warning"},
                           {9, Severity::error, "RFC 1 §2", "an error"},
                           {10, Severity::error, "RFC 1 §3", "another"}};
  m.files = {{"x.pcap", 3, 4, "", "", {Standing::failed, ""}}};
  EXPECT_EQ(to_text(m, 100),
            "  1  usual\n"
            "  2  rare\n"
            "\n"
            "                1                   2       \n"
            "a -> b          1 failed, 1 passed  1 passed\n"
            "a -> long name  1 partial           not seen\n"
            "\n"
            "failed x.pcap: a -> b: 1 error; frame 9: an error [RFC 1 §2]\n"
            "\n"
            "1 file, 4 connections: 2 passed, 1 partial, 1 failed\n");
  EXPECT_EQ(to_csv(m),
            "file,initiator,responder,form,verdict,outcome,first_frame,last_frame,errors,warnings,first_finding_frame,"
            "first_finding_rule,first_finding,reason\n"
            "x.pcap,a,b,rare,passed,incomplete,0,0,0,0,,,,\n"
            "x.pcap,a,b,usual,failed,incomplete,6,11,2,1,9,RFC 1 §2,an error,1 error\n"
            "x.pcap,a,b,usual,passed,incomplete,0,0,0,0,,,,\n"
            "x.pcap,a,long name,usual,partial,incomplete,0,0,0,0,,,,\n");
  EXPECT_THAT(to_html(m, "t"), HasSubstr("<p class=\"sub\">1 file, 4 connections: 2 passed, 1 partial, 1 failed. "));
}

TEST(MatrixTable, AFailureWithoutAFindingTellsHowTheConnectionEnded) {
  Matrix m;
  m.add(entry("a", "b", "f", Standing::failed, "the set-up failed"));
  EXPECT_THAT(to_text(m, 100),
              HasSubstr("\nfailed x.pcap: a -> b: the set-up failed; open at the end of the capture\n"));
  StandingCounts more;
  more.add(Standing::failed, 3);
  m.add_outside(more);
  EXPECT_THAT(to_text(m, 100), HasSubstr("0 files, 4 connections: 0 passed, 0 partial, 4 failed\n"
                                         "3 connections of them are not in the table: it has 100000 cells at most\n"));
}

TEST(MatrixTable, FortyFailuresAreListedAndTheOthersCounted) {
  for (const std::size_t n : {40u, 41u, 45u}) {
    Matrix m;
    for (std::size_t i = 0; i < n; ++i) m.add(entry("a", "b", "f", Standing::failed, "why"));
    const std::string text = to_text(m, 100);
    std::size_t listed = 0;
    for (std::size_t at = 0; (at = text.find("failed x.pcap", at)) != std::string::npos; ++at) ++listed;
    EXPECT_EQ(listed, 40u);
    const std::string more = "failed and " + std::to_string(n - 40) + " more\n";
    EXPECT_EQ(text.find(more) != std::string::npos, n > 40) << text;
  }
}

TEST(MatrixTable, ARowOfAFileWithoutAConnectionGoesOverAllForms) {
  for (const std::size_t forms : {0u, 1u, 2u, 3u}) {
    Matrix m;
    for (std::size_t f = 0; f < forms; ++f) m.add(entry("a", "b", "form " + std::to_string(f), Standing::passed));
    m.files = {{"y.pcap", 3, 0, "", "no connection", {Standing::failed, ""}}};
    EXPECT_THAT(to_html(m, "t"), HasSubstr("<td class=\"whole failed\" colspan=\"" +
                                           std::to_string(std::max<std::size_t>(forms, 1)) + "\"><b>failed</b> no "));
  }
}

TEST(MatrixTable, ACellOfThePageCountsItsConnectionsAndThoseThatDifferFromEachOther) {
  const auto page = [](std::vector<Standing> of) {
    Matrix m;
    for (const Standing s : of) m.add(entry("a", "b", "f", s));
    return to_html(m, "t");
  };
  EXPECT_THAT(page({Standing::passed}),
              HasSubstr("<td class=\"passed has-passed\"><a href=\"#c1\"><b>passed</b><small>1 "
                        "connection</small></a></td>"));
  EXPECT_THAT(
      page({Standing::passed, Standing::passed}),
      HasSubstr("<td class=\"passed has-passed\"><a href=\"#c1\"><b>passed</b><small>2 connections</small></a></td>"));
  EXPECT_THAT(page({Standing::passed, Standing::failed, Standing::partial, Standing::passed}),
              HasSubstr("<b>failed</b><small>4 connections</small><small>1 failed</small><small>1 partial</small>"
                        "<small>2 passed</small></a></td>"));
  const std::string order = page({Standing::passed, Standing::partial, Standing::failed});
  EXPECT_LT(order.find("<article class=\"failed\">"), order.find("<article class=\"partial\">"));
  EXPECT_LT(order.find("<article class=\"partial\">"), order.find("<article class=\"passed\">"));
}

TEST(MatrixTable, AFormNamesRevisionRtrCrcAndMarkers) {
  ConnectionReport c;
  c.revision = 2;
  EXPECT_EQ(form_of(c), "rev 2, no Reply seen");
  c.reply.emplace();
  EXPECT_EQ(form_of(c), "rev 2, no RTR, no CRC");
  c.crc = c.markers_to_responder = true;
  EXPECT_EQ(form_of(c), "rev 2, no RTR, CRC, markers to responder");
  c.markers_to_initiator = true;
  EXPECT_EQ(form_of(c), "rev 2, no RTR, CRC, markers both ways");
  c.markers_to_responder = false;
  c.peer_to_peer = true;
  EXPECT_EQ(form_of(c), "rev 2, no RTR in common, CRC, markers to initiator");
  c.rtr_common.read = true;
  EXPECT_EQ(form_of(c), "rev 2, RTR open, CRC, markers to initiator");
  c.rtr_agreed = mpa::Rtr::write;
  EXPECT_EQ(form_of(c), "rev 2, RTR write, CRC, markers to initiator");
  c.rtr = mpa::Rtr::read;
  EXPECT_EQ(form_of(c), "rev 2, RTR read, CRC, markers to initiator");
  c.outcome = Outcome::not_captured;
  EXPECT_EQ(form_of(c), to_string(Outcome::not_captured));
}

TEST(MatrixTable, ANameIsUnquotedOnlyIfAQuoteStandsAtEachEnd) {
  const std::pair<const char*, const char*> cases[] = {
      {"alpha", "alpha"},     {"\"alpha\"", "alpha"}, {"alpha\"", "alpha\""},
      {"\"alpha", "\"alpha"}, {"\"", "\""},           {"\"\"", ""},
      {"= \"a b\"", "a b"},   {"=beta", "beta"},      {"\t two words \t", "two words"},
      {"a = b", "a = b"}};
  for (const auto& [written, name] : cases)
    for (const std::string address : {"192.0.2.1", "\"192.0.2.1\"", "192.0.2.1:9001"}) {
      PeerNames names;
      EXPECT_EQ(names.read(address + " " + written + "\n"), "") << address << " " << written;
      EXPECT_EQ(names.name(test::end_a(false)), name) << address << " " << written;
    }
  PeerNames names;
  EXPECT_EQ(names.read("192.0.2.1\" a\n"), "line 1: \"192.0.2.1\"\" is not an address");
  EXPECT_EQ(names.read("\"192.0.2.1 a\n"), "line 1: \"\"192.0.2.1\" is not an address");
}

TEST(TextLadder, NamesOfAnyLengthKeepAColumnBetweenThem) {
  for (const std::size_t width : {60u, 72u, 100u})
    for (std::size_t both = 2; both < 2 * width; ++both) {
      ConnectionReport c;
      const std::string left(both / 2, 'l'), right(both - both / 2, 'r');
      const std::string text = to_ladder(c, {.width = width, .left_name = left, .right_name = right});
      const std::size_t gap = both + 21 < width ? width - 21 - both : 1;
      EXPECT_THAT(text, HasSubstr("  " + left + std::string(gap, ' ') + right + "\n")) << width << " " << both;
      EXPECT_THAT(text, HasSubstr("initiator" + std::string(width - 21 - 18, ' ') + "responder\n"));
    }
}

TEST(TextLadder, EveryRowIsAsWideAsItIsAsked) {
  const FileReport r = test::analyse(test::conversation().frames, 1, true);
  ASSERT_EQ(r.connections.size(), 1u);
  for (const bool ascii : {false, true})
    for (const std::size_t width : {0u, 60u, 61u, 80u, 133u}) {
      std::string text = to_ladder(r.connections[0], {.width = width, .ascii = ascii});
      text.erase(0, text.find('\n') + 1);
      for (std::size_t end; (end = text.find('\n')) != std::string::npos; text.erase(0, end + 1))
        EXPECT_EQ(columns(text.substr(0, end)), std::max<std::size_t>(width, 60)) << text.substr(0, end);
    }
}

}  // namespace
}  // namespace parley::capture
