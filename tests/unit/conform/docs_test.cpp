// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The table of cases in the documentation is the one of the code; reports hold what they promise.
#include <fstream>
#include <sstream>

#include "kit.hpp"
#include "tests/unit/reviewed.hpp"

namespace parley::conform {
namespace {

using namespace kit;

TEST(ConformDocs, TheTableOfCasesIsTheOneOfTheCode) {
  std::ifstream file(std::string(PARLEY_SOURCE_DIR) + "/docs/conform.md");
  std::ostringstream text;
  text << file.rdbuf();
  EXPECT_NE(text.str().find(case_table()), std::string::npos) << "docs/conform.md should end with:\n" << case_table();
}

// So the code is read in the order of the documentation, and a list of all cases has one order only.
TEST(ConformDocs, EachTableOfCasesIsInTheOrderOfItsRows) {
  for (const auto& table :
       {startup_cases(), enhanced_cases(), initiator_cases(), framing_cases(), rdmap_cases(), order_cases()}) {
    int last = 0;
    for (const Case& c : table) {
      const int row = std::stoi(std::string(c.row));
      EXPECT_LE(last, row) << c.name;
      last = row;
    }
  }
}

TEST(ConformDocs, TheMarkdownReportIsTheSameFromRunToRun) {
  const Under under{.rping = true};
  const ReportHead head{"Parley", "parley conform mpa responder", false};
  const std::string first = markdown(head, Iut::responder, run(under));
  EXPECT_EQ(first, markdown(head, Iut::responder, run(under)));
  EXPECT_NE(first.find("| 1 | plain-v1 | RFC 5044 §7.1.1 | MUST | pass |"), std::string::npos) << first;
  EXPECT_EQ(first.find("10.0."), std::string::npos) << "an address";
}

TEST(ConformDocs, TheHtmlPageShowsEachExchangeAndEscapesWhatPeersSay) {
  Under under;
  under.mpa.play_quirk = "siw";
  auto results = run(under, [](const Case& c) { return c.row == "2" || c.row == "62"; });
  ASSERT_EQ(results.size(), 2U);
  results[0].output = "<script>";
  const std::string page = html({"<siw>'s", "", false}, Iut::responder, results);
  EXPECT_NE(page.find("&lt;siw&gt;&#39;s"), std::string::npos);
  EXPECT_EQ(page.find("<script>"), std::string::npos);
  EXPECT_NE(page.find("4d 50 41 20 49 44 20 52 65 71 20 46 72 61 6d 65 4f 01 00 00"), std::string::npos) << page;
  EXPECT_NE(page.find("<b class=bad>FAIL</b>"), std::string::npos);
  EXPECT_NE(page.find("not run"), std::string::npos);
  EXPECT_NE(page.find("<td class=n><a href=#c0>reserved-bits-ignored</a>"), std::string::npos) << "names stay whole";
}

TEST(ConformDocs, ShouldAndMayAreCountedApartAndAsFailuresOnlyWhenStrict) {
  const Case should{.row = "0", .name = "x", .level = Level::should};
  const Case may{.row = "0", .name = "y", .level = Level::may};
  std::vector<Result> results;
  for (const Case* c : {&should, &may, &may}) results.push_back({.what = c, .finding = {Verdict::fail, "no"}});
  EXPECT_EQ(tally_text(tally(results, false)),
            "0 passed, 0 failed, 1 SHOULD not met, 2 MAY not met, 0 inconclusive, 0 not run");
  EXPECT_EQ(tally_text(tally(results, true)), "0 passed, 3 failed, 0 inconclusive, 0 not run");
  EXPECT_EQ(verdict_text(results[0], false), "FAIL (SHOULD)");
  EXPECT_EQ(verdict_text(results[1], false), "FAIL (MAY)");
  EXPECT_EQ(verdict_text(results[0], true), "FAIL");
}

TEST(ConformDocs, FailuresAreToldTogetherWithWhatWasExpected) {
  const Case must{.row = "2", .name = "x", .clause = "RFC 5044 §7.1.1", .stimulus = "a Request", .expected = "a Reply"};
  const Case fine{.row = "3", .name = "y"};
  const std::vector<Result> results{{.what = &must, .finding = {Verdict::fail, "FIN"}},
                                    {.what = &fine, .finding = {Verdict::pass, "Rep"}},
                                    {.what = &fine, .finding = {Verdict::inconclusive, "silence"}}};
  EXPECT_EQ(failures_text(results, false),
            "FAIL x (RFC 5044 §7.1.1, MUST)\n  sent      a Request\n  expected  a Reply\n  observed  FIN\n");
  EXPECT_EQ(failures_text({results[1], results[2]}, true), "");
}

TEST(ConformDocs, ReportsOfAnInterruptedRunSayThatTheyArePartial) {
  const Case c{.row = "0", .name = "x"};
  const std::vector<Result> results{{.what = &c, .finding = {Verdict::not_run, "interrupted"}}};
  for (const bool interrupted : {false, true}) {
    const ReportHead head{"Parley", "", false, interrupted};
    EXPECT_EQ(markdown(head, Iut::responder, results).find("partial") != std::string::npos, interrupted);
    EXPECT_EQ(html(head, Iut::responder, results).find("partial") != std::string::npos, interrupted);
  }
}

/// A result for each verdict at each level, with exchanges, hostile words and a program's output.
std::vector<Result> every_kind_of_result(std::span<const Case> cases) {
  std::vector<Result> out;
  int n = 0;
  for (const Case& c : cases)
    for (const Verdict verdict : {Verdict::pass, Verdict::fail, Verdict::inconclusive, Verdict::not_run}) {
      Result r{.what = &c, .finding = {verdict, fmt::format("said {} | <b>&\n", ++n)}};
      r.began = Instant(10s);
      r.took = Duration(n * 1'234'567);
      r.output = n % 3 == 0 ? "<i>output</i>" : "";
      r.exchanges = {{.at = Instant(10s + 1500us),
                      .connection = 1,
                      .by_tester = true,
                      .words = "a <Request>",
                      .octets = Bytes(3, 0xAB)},
                     {.at = Instant(9s), .connection = 2, .words = "FIN"},
                     {.at = Instant(72s), .connection = 2, .words = "long", .octets = Bytes(97, 1)}};
      out.push_back(std::move(r));
    }
  return out;
}

TEST(ConformDocs, ReportsOfEveryKindOfResultAreAsReviewed) {
  const Case all[] = {
      {.row = "1",
       .name = "a",
       .clause = "RFC 5044 §7.1.1",
       .level = Level::must,
       .stimulus = "one | <two>",
       .expected = "three"},
      {.row = "22", .name = "b", .clause = "RFC 6581 §9", .level = Level::should, .stimulus = "s", .expected = "e"},
      {.row = "333", .name = "c", .clause = "RFC 5040 §5", .level = Level::may, .stimulus = "s", .expected = "e"}};
  const std::vector<Result> results = every_kind_of_result(all);
  const draw::Provenance from{
      .version = "0.1.0", .commit = "1a2b", .date = "2026-01-31T12:00:00Z", .command = "parley <x>"};
  std::string out;
  for (const bool strict : {false, true}) {
    const ReportHead head{strict ? "" : "a <peer>", strict ? "" : "parley conform & more", strict, strict,
                          strict ? nullptr : &from};
    const Iut iut = strict ? Iut::initiator : Iut::responder;
    out += fmt::format("{}\n{}\n{}\n", tally_text(tally(results, strict)), failures_text(results, strict),
                       markdown(head, iut, results));
    const std::string page = html(head, iut, results);
    const std::size_t style = page.find("<style>"), behind = page.find("</style>");
    out += page.substr(0, style) + page.substr(behind) + "\n";
  }
  expect_as_reviewed("conform_reports.txt", out);
}

}  // namespace
}  // namespace parley::conform
