// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The matrix of captures: which cell a connection stands in, what it is worth, and how peers get their names.
#include "capture/report/matrix.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "capture/report/matrix_collect.hpp"
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

MatrixEntry entry(const std::string& a, const std::string& b, ConnectionReport c) {
  MatrixEntry e = matrix_entry(std::move(c));
  e.file = a + "--" + b + ".pcap";
  e.initiator = a;
  e.responder = b;
  e.ladder = "frame  <ladder>\n";
  return e;
}

Matrix sample() {
  Matrix m;
  for (MatrixEntry& e : std::vector{entry("alpha", "beta", clean()), entry("alpha", "beta", broken()),
                                    entry("beta", "alpha", unfinished()), entry("<b>alpha", "\"beta\"", clean())})
    m.add(std::move(e));
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
  EXPECT_NE(page.find("<tr class=\"has-failed\"><th scope=\"row\">roce, &lt;1&gt;.pcap</th><td class=\"whole failed\" "
                      "colspan=\"2\">"
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
  ASSERT_EQ(m.cells.size(), 3u);
  const Matrix::Cell& cell = m.cells.at({"alpha", "beta"}).at("rev 1, no RTR, CRC");
  EXPECT_EQ(cell.entries, (std::vector<std::size_t>{0, 1}));
  EXPECT_EQ(cell.counts.worst(), Standing::failed);
  EXPECT_EQ(m.cells.at({"beta", "alpha"}).begin()->second.counts.worst(), Standing::partial);
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
    e.judgement = {given[i], "why & why not"};
    e.end = "all < said";
    e.first_frame = 10 + i;
    e.last_frame = 20 + i;
    e.ladder = "<" + std::to_string(i);
    m.add(e);
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
      page.find(
          "<td class=\"failed has-failed has-partial has-passed\"><a href=\"#c1\"><b>failed</b><small>8 connections"
          "</small><small>3 failed</small><small>2 partial</small><small>3 passed</small></a></td>"),
      std::string::npos);
}

TEST(Matrix, AnEmptyMatrixIsStillAPage) {
  EXPECT_NE(to_text({}, 80).find("0 files, 0 connections"), std::string::npos);
  EXPECT_NE(to_html({}, "x").find("</html>"), std::string::npos);
}

// One file, with more connections than are listed: of those that passed a part, of the others all.
TEST(MatrixCollector, CountsWhatItDoesNotListAndListsWhatFailed) {
  Matrix m;
  const PeerNames names;
  MatrixCollector collector(m, "alpha--beta.pcap", names);
  ConnectionReport c = clean();
  const auto add = [&](Standing standing, std::uint64_t first_frame) {
    ConnectionReport one = c;
    one.first_frame = first_frame;
    one.judgement = {standing, ""};
    collector.add(std::move(one), "");
  };
  const std::uint64_t passed = Matrix::passed_entries_max + 20;
  for (std::uint64_t i = 0; i < passed; ++i) add(Standing::passed, 100 + passed - i);
  for (std::uint64_t i = 0; i < 3; ++i) add(Standing::failed, 20 - i);
  collector.finish();

  EXPECT_EQ(m.counts.of, (std::array<std::uint64_t, 3>{passed, 0, 3}));
  EXPECT_EQ(m.not_listed(), 20u);
  ASSERT_EQ(m.cells.size(), 1u);
  const Matrix::Cell& cell = m.cells.at({"alpha", "beta"}).begin()->second;
  EXPECT_EQ(cell.counts.of, m.counts.of);
  EXPECT_EQ(cell.not_listed(), 20u);
  ASSERT_GE(m.entries.size(), 3u);
  EXPECT_EQ(m.entries[0].first_frame, 18u);
  EXPECT_EQ(m.entries[2].judgement.standing, Standing::failed);
  EXPECT_NE(to_text(m, 100).find(fmt::format("{} connections: {} passed, 0 partial, 3 failed", passed + 3, passed)),
            std::string::npos);
  const std::string csv = to_csv(m);
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), static_cast<std::ptrdiff_t>(1 + m.entries.size() + 1));
  EXPECT_NE(csv.find(",passed,,,,,,,,,20 more connections counted and not listed\n"), std::string::npos);
  const std::string page = to_html(m, "x");
  std::size_t articles = 0;
  for (std::size_t at = 0; (at = page.find("<article", at)) != std::string::npos; ++at) ++articles;
  EXPECT_EQ(articles, 203u);
  EXPECT_NE(page.find(fmt::format(">{} more connections of this cell are counted and not shown here.", passed - 200)),
            std::string::npos);
}

TEST(Matrix, CellsAreBoundedAndWhatTheyDoNotHoldIsCounted) {
  Matrix m;
  StandingCounts one;
  one.add(Standing::passed);
  for (std::size_t i = 0; i < Matrix::cells_max; ++i) m.add({std::to_string(i), "b"}, "f", false, one);
  one.add(Standing::failed);
  m.add({"last", "b"}, "f", false, one);
  m.add({"0", "b"}, "f", false, one);
  EXPECT_EQ(m.cell_count, Matrix::cells_max);
  EXPECT_EQ(m.not_in_a_cell, 2u);
  EXPECT_EQ(m.counts.of, (std::array<std::uint64_t, 3>{Matrix::cells_max + 2, 0, 2}));
  EXPECT_EQ(m.cells.at({"0", "b"}).at("f").counts.of, (std::array<std::uint64_t, 3>{2, 0, 1}));
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
  EXPECT_EQ(names.read("192.0.2.1 a\nnobody b\n"), "line 2: \"nobody\" is not an address");
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
