// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The table of cases in the documentation is the one of the code; reports hold what they promise.
#include <fstream>
#include <sstream>

#include "kit.hpp"

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

}  // namespace
}  // namespace parley::conform
