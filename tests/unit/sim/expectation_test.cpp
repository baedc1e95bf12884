// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// What is said of every pair of ends under every expectation, beside tests/states/sim_expectations.txt.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "endings_kit.hpp"
#include "sim/check/expectation.hpp"

namespace parley::sim::check {
namespace {

/// What is said of one pair of ends; `responder` none: it never heard of the connection.
std::string said_of_ends(const Ending& initiator, const Ending* responder, const ScenarioConnect& wanted,
                         bool touched) {
  Attempt attempt;
  attempt.touched = touched;
  initiator.make(attempt.initiator);
  if (responder != nullptr) {
    attempt.responders.push_back(std::make_unique<End>());
    attempt.responders[0]->role = mpa::Role::responder;
    responder->make(*attempt.responders[0]);
  }
  Judge judge;
  check_expectation(attempt, wanted, Instant{}, judge);
  std::string out;
  for (const Violation& v : judge.list()) out += (out.empty() ? "" : "; ") + v.text;
  return out;
}

/// A row for each initiator, a column for each responder; "." is as expected, a letter stands for the words below.
std::string judged_table(const ScenarioConnect& wanted, bool touched) {
  Legend legend;
  std::string out;
  for (const Ending& initiator : endings) {
    out += "  " + pad(initiator.name, 26);
    for (std::size_t r = 0; r <= std::size(endings); ++r)
      out += " " + legend.letter(said_of_ends(initiator, r == 0 ? nullptr : &endings[r - 1], wanted, touched));
    out += "\n";
  }
  return out + legend.text();
}

TEST(SimExpectation, EveryPairOfEndsIsJudgedAsReviewed) {
  std::string out =
      "# Rows: the initiator. Columns: a responder that never heard of it, then those of the rows, in order.\n";
  constexpr std::pair<Expect, std::string_view> all[] = {{Expect::established, "established"},
                                                         {Expect::rejected, "rejected"},
                                                         {Expect::failed, "failed"},
                                                         {Expect::settled, "settled"}};
  for (const auto& [expect, name] : all) {
    for (const ClosingSide closer : {ClosingSide::initiator, ClosingSide::nobody}) {
      const bool closed = closer != ClosingSide::nobody;
      if (!closed && (expect == Expect::rejected || expect == Expect::failed)) continue;  // no matter who closes
      ScenarioConnect wanted;
      wanted.expect = expect;
      wanted.closer = closer;
      const std::string usual = judged_table(wanted, false), touched = judged_table(wanted, true);
      const std::string title = fmt::format("{}{}", name, closed ? "" : ", closed by nobody");
      out += fmt::format("\n{}\n{}\n{}, after a fault\n{}", title, usual, title,
                         touched == usual ? "  the same\n" : touched);
    }
  }
  expect_as_reviewed("sim_expectations.txt", out);
}

}  // namespace
}  // namespace parley::sim::check
