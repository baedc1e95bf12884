// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The matrix of captures: which cell a connection stands in, what it is worth, and how peers get their names.
#include "capture/report/matrix.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/unit/capture/exchange.hpp"

namespace parley::capture::matrix_test {
namespace {

ConnectionReport only(const test::Exchange& x) {
  const FileReport r = test::analyse(x.frames);
  EXPECT_EQ(r.connections.size(), 1u);
  return r.connections.empty() ? ConnectionReport{} : r.connections[0];
}

ConnectionReport clean() { return only(test::conversation()); }

ConnectionReport broken() {
  test::Exchange x;
  Bytes bad = test::fpdu(test::send_segment(1, 64));
  bad[40] ^= 1;
  return only(x.set_up().send(0, bad).close());
}

ConnectionReport unfinished() {
  test::Exchange x;
  return only(x.open().send(0, test::startup(wire::MpaKey::req, PARLEY_MPA_FLAG_C, 1)));
}

MatrixEntry entry(const std::string& a, const std::string& b, const ConnectionReport& c) {
  return {a + "--" + b + ".pcap", a, b, form_of(c), c, "frame  <ladder>\n"};
}

Matrix sample() {
  Matrix m;
  m.entries = {entry("alpha", "beta", clean()), entry("alpha", "beta", broken()), entry("beta", "alpha", unfinished()),
               entry("<b>alpha", "\"beta\"", clean())};
  m.files = {{"one.pcap", 10, 4, "", "", {Standing::failed, "1 connection failed"}},
             {"two.pcap", 0, 0, "offset 0: not a pcap file"},
             {"roce, <1>.pcap", 9, 0, "", "no connection of a known protocol", {Standing::failed, "as said"}}};
  return m;
}

TEST(Matrix, HasFailedWhenOneFileHasOrThereIsNone) {
  EXPECT_EQ(sample().standing(), Standing::failed);
  EXPECT_EQ(Matrix{}.standing(), Standing::failed);
  Matrix m;
  m.files = {{"a", 1, 1, "", "", {Standing::passed, ""}}};
  EXPECT_EQ(m.standing(), Standing::passed);
  m.files.push_back({"b", 1, 1, "", "", {Standing::partial, "1 connection partial"}});
  EXPECT_EQ(m.standing(), Standing::partial);
}

TEST(Matrix, AFileWithoutAConnectionIsARowOfItsOwn) {
  const std::string row = "roce, <1>.pcap  failed: no connection of a known protocol";
  EXPECT_NE(to_text(sample(), 100).find(row), std::string::npos) << to_text(sample(), 100);
  const std::string page = to_html(sample(), "x");
  EXPECT_NE(page.find("<tr><th scope=\"row\">roce, &lt;1&gt;.pcap</th><td class=\"whole failed\" colspan=\"2\">"
                      "<b>failed</b> no connection of a known protocol</td></tr>"),
            std::string::npos);
  EXPECT_NE(to_csv(sample()).find("\"roce, <1>.pcap\",,,,failed,,,,,,,,,no connection of a known protocol\n"),
            std::string::npos)
      << to_csv(sample());
}

TEST(Matrix, WithoutAReplyNoFormIsClaimed) { EXPECT_EQ(form_of(unfinished()), "rev 1, no Reply seen"); }

TEST(Matrix, AColumnIsTheFormOfTheSetUp) {
  EXPECT_EQ(form_of(clean()), "rev 1, no RTR, CRC");
  EXPECT_EQ(form_of(only(test::conversation(false, true))), "rev 1, no RTR, CRC, markers both ways");
}

TEST(Matrix, TheWorstConnectionDecidesItsCell) {
  const Matrix m = sample();
  const auto cells = m.cells();
  ASSERT_EQ(cells.size(), 3u);
  const auto& cell = cells.at({"alpha", "beta"}).at("rev 1, no RTR, CRC");
  EXPECT_EQ(cell.size(), 2u);
  EXPECT_EQ(worst(m, cell), Standing::failed);
  EXPECT_EQ(worst(m, cells.at({"beta", "alpha"}).begin()->second), Standing::partial);
}

TEST(Matrix, TextShowsCountsFailuresAndUnreadFiles) {
  const std::string text = to_text(sample(), 100);
  EXPECT_NE(text.find("alpha -> beta"), std::string::npos) << text;
  EXPECT_NE(text.find("1 failed, 1 passed"), std::string::npos) << text;
  EXPECT_NE(text.find("RFC 5044 §4.4"), std::string::npos) << text;
  EXPECT_NE(text.find("cannot be read: two.pcap: offset 0"), std::string::npos) << text;
  EXPECT_NE(text.find("3 files, 4 connections: 2 passed, 1 partial, 1 failed"), std::string::npos) << text;
}

TEST(Matrix, CsvHasALinePerConnectionWithTheWorstFinding) {
  const std::string csv = to_csv(sample());
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 6);
  EXPECT_NE(csv.find("alpha--beta.pcap,alpha,beta,\"rev 1, no RTR, CRC\",failed"), std::string::npos) << csv;
  EXPECT_NE(csv.find("RFC 5044 §4.4"), std::string::npos);
}

TEST(Matrix, PageLinksEachCellToItsConnectionsAndEscapesNames) {
  const std::string page = to_html(sample(), "A & B");
  EXPECT_NE(page.find("<title>A &amp; B</title>"), std::string::npos);
  EXPECT_EQ(page.find("<b>alpha"), std::string::npos);
  EXPECT_NE(page.find("&lt;b&gt;alpha"), std::string::npos);
  for (int cell = 1; cell <= 3; ++cell) {
    EXPECT_NE(page.find("href=\"#c" + std::to_string(cell) + "\""), std::string::npos);
    EXPECT_NE(page.find("id=\"c" + std::to_string(cell) + "\""), std::string::npos);
  }
  EXPECT_NE(page.find("error, frame"), std::string::npos);
  EXPECT_NE(page.find("two.pcap"), std::string::npos);
  EXPECT_EQ(page.find("<script"), std::string::npos);
}

TEST(Matrix, PageListsTheConnectionsOfACellWorstFirstAndElseInTheirOrder) {
  Matrix m;
  std::string want;
  constexpr std::array<Standing, 8> given{Standing::passed, Standing::failed,  Standing::partial, Standing::passed,
                                          Standing::failed, Standing::partial, Standing::passed,  Standing::failed};
  for (std::size_t i = 0; i < given.size(); ++i) {
    MatrixEntry e = entry("alpha", "beta", clean());
    e.file = std::to_string(i) + ".pcap";
    e.report.judgement = {given[i], "why & why not"};
    e.report.end = "all < said";
    e.report.first_frame = 10 + i;
    e.report.last_frame = 20 + i;
    e.ladder = "<" + std::to_string(i);
    m.entries.push_back(e);
  }
  for (const Standing standing : {Standing::failed, Standing::partial, Standing::passed})
    for (std::size_t i = 0; i < given.size(); ++i) {
      if (given[i] != standing) continue;
      const std::string n = std::to_string(i), s(to_string(standing));
      want +=
          "<article class=\"" + s + "\"><h3><b>" + s + "</b> " + n + ".pcap, frames 1" + n + " to 2" + n + "</h3>\n";
      want += "<p>why &amp; why not</p>\n";
      want += "<p>192.0.2.1:40000 &rarr; 192.0.2.2:9001, established; all &lt; said</p>\n";
      want += "<details><summary>ladder</summary><pre>&lt;" + n + "\n</pre></details>\n</article>\n";
    }
  const std::string page = to_html(m, "x");
  const std::size_t begin = page.find("<article"), end = page.find("<a class=\"back\"");
  ASSERT_LT(begin, end);
  EXPECT_EQ(page.substr(begin, end - begin), want);
  EXPECT_NE(
      page.find("<td class=\"failed\"><a href=\"#c1\"><b>failed</b><small>8 connections</small><small>3 passed</small>"
                "<small>2 partial</small><small>3 failed</small></a></td>"),
      std::string::npos);
}

TEST(Matrix, AnEmptyMatrixIsStillAPage) {
  EXPECT_NE(to_text({}, 80).find("0 files, 0 connections"), std::string::npos);
  EXPECT_NE(to_html({}, "x").find("</html>"), std::string::npos);
}

TEST(PeerNames, AreReadFromLinesAndFromToml) {
  PeerNames names;
  EXPECT_EQ(names.read("# peers\n192.0.2.1 alpha one\n\n[names]\n\"2001:db8::1\" = \"beta\"\r\n"), "");
  EXPECT_EQ(names.name(test::end_a(false)), "alpha one");
  EXPECT_EQ(names.name(test::end_a(true)), "beta");
  EXPECT_EQ(names.name(test::end_b(false)), "192.0.2.2");
  EXPECT_EQ(names.name(test::end_b(true)), "2001:db8::2");
}

TEST(PeerNames, SayWhichLineIsWrong) {
  PeerNames names;
  EXPECT_EQ(names.read("192.0.2.1 a\nnobody b\n"), "line 2: \"nobody\" is no address");
  EXPECT_EQ(names.read("192.0.2.1\n"), "line 1: the address has no name behind it");
}

TEST(PeerNames, ComeFromTheFileOrItsDirectory) {
  std::string a, b;
  EXPECT_TRUE(names_in_path("captures/parley--siw.pcapng", a, b));
  EXPECT_EQ(a + "|" + b, "parley|siw");
  EXPECT_TRUE(names_in_path("captures/x--y/run-3.pcap", a, b));
  EXPECT_EQ(a + "|" + b, "x|y");
  EXPECT_TRUE(names_in_path("a--b--2.pcap", a, b));
  EXPECT_EQ(a + "|" + b, "a|b");
  EXPECT_FALSE(names_in_path("captures/run.pcap", a, b));
  EXPECT_FALSE(names_in_path("--b.pcap", a, b));
  EXPECT_FALSE(names_in_path("a--.pcap", a, b));
}

}  // namespace
}  // namespace parley::capture::matrix_test
