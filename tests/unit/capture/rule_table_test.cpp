// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The table of rules (parley/wire/rules.h), and what a user may want of a rule otherwise than it has it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "capture/report/json.hpp"
#include "capture/report/text.hpp"
#include "tests/unit/capture/exchange.hpp"

namespace parley::capture {
namespace {

using test::Exchange;
using test::fpdu;
using test::send_segment;
using testing::HasSubstr;
using testing::Not;

std::size_t times(std::string_view text, std::string_view part) {
  std::size_t n = 0;
  for (std::size_t at = text.find(part); at != std::string_view::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

class EachRule : public testing::TestWithParam<RuleFacts> {};

TEST_P(EachRule, IsFoundByItsId) {
  const RuleFacts* const found = find_rule(GetParam().id);
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->rule, GetParam().rule);
  EXPECT_EQ(&facts_of(GetParam().rule), found);
  EXPECT_FALSE(found->clause.empty());
}

TEST_P(EachRule, HasASentenceOfItsOwnThatTheManualHasOnce) {
  static const std::string page = [] {
    const Bytes octets = test::read_file(std::string(PARLEY_SOURCE_DIR) + "/docs/pcap-check.md");
    return std::string(octets.begin(), octets.end());
  }();
  const RuleFacts& row = GetParam();
  EXPECT_EQ(std::count_if(all_rules().begin(), all_rules().end(),
                          [&](const RuleFacts& other) { return other.sentence == row.sentence; }),
            1);
  const std::string line = "| `" + std::string(row.id) + "` | " + std::string(row.clause) + " | " +
                           std::string(to_string(row.severity)) + " | " + std::string(row.sentence) + " | ";
  EXPECT_EQ(times(page, line), 1u) << line;
  EXPECT_EQ(times(page, "| `" + std::string(row.id) + "` |"), 1u);
}

INSTANTIATE_TEST_SUITE_P(Rules, EachRule, testing::ValuesIn(all_rules().begin(), all_rules().end()),
                         [](const auto& of) {
                           std::string name(of.param.id);
                           std::replace_if(
                               name.begin(), name.end(), [](char c) { return c == '.' || c == '-'; }, '_');
                           return name;
                         });

TEST(RuleTable, HasNoRuleOfAnotherName) {
  EXPECT_EQ(find_rule("mpa.crcs"), nullptr);
  EXPECT_EQ(find_rule(""), nullptr);
}

/// The initiator asks for no CRC, and sends one that is wrong all the same, for the responder asks for them.
Exchange two_faults() {
  Exchange x;
  Bytes broken = fpdu(send_segment(1, 4));
  broken.back() ^= 1;
  x.set_up().send(0, broken);
  return x;
}

TEST(RulePolicy, AnIgnoredFindingIsCountedAndDecidesNothing) {
  const test::Frames frames = two_faults().frames;
  const FileReport plain = test::analyse(frames);
  ASSERT_EQ(plain.connections.size(), 1u);
  EXPECT_EQ(plain.judgement.standing, Standing::failed);
  EXPECT_TRUE(plain.ignored.empty());
  ASSERT_EQ(plain.count(Severity::error), 1u);

  AnalyzerOptions options;
  options.policy.ignored = {Rule::mpa_crc};
  const FileReport r = test::analyse(frames, options);
  EXPECT_EQ(r.count(Severity::error), 0u);
  EXPECT_NE(r.judgement.standing, Standing::failed);
  EXPECT_EQ(r.ignored, (RuleCounts{{Rule::mpa_crc, 1}}));
  EXPECT_EQ(r.connections.front().findings.size() + 1, plain.connections.front().findings.size());
  EXPECT_THAT(to_text("a", r), HasSubstr("\n1 finding ignored (mpa.crc)\n"));
  EXPECT_THAT(to_json("a", r), HasSubstr(R"("ignored":{"mpa.crc":1})"));
  EXPECT_THAT(to_json("a", plain), Not(HasSubstr(R"("ignored")")));
}

TEST(RulePolicy, ASeverityOfTheUsersReplacesThatOfTheTable) {
  const test::Frames frames = two_faults().frames;
  AnalyzerOptions options;
  options.policy.severities = {{Rule::mpa_crc, Severity::note}};
  const FileReport r = test::analyse(frames, options);
  EXPECT_EQ(r.count(Severity::error), 0u);
  EXPECT_NE(r.judgement.standing, Standing::failed);
  EXPECT_TRUE(r.ignored.empty());
  const auto& findings = r.connections.front().findings;
  const auto crc =
      std::find_if(findings.begin(), findings.end(), [](const Finding& f) { return f.broken == Rule::mpa_crc; });
  ASSERT_NE(crc, findings.end());
  EXPECT_EQ(crc->severity, Severity::note);
  EXPECT_EQ(crc->key(), "mpa.crc");
}

TEST(RulePolicy, SaysHowManyOfWhichRules) {
  EXPECT_EQ(ignored_text({}), "");
  EXPECT_EQ(ignored_text({{Rule::cm_early, 3}}), "3 findings ignored (cm.early)");
  EXPECT_EQ(ignored_text({{Rule::mpa_crc, 1}, {Rule::cm_early, 2}}), "3 findings ignored (mpa.crc 1, cm.early 2)");
}

}  // namespace
}  // namespace parley::capture
