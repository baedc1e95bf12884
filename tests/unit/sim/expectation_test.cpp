// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// What is said of every pair of ends under every expectation, beside tests/states/sim_expectations.txt.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "sim/check/expectation.hpp"
#include "tests/unit/reviewed.hpp"

namespace parley::sim::check {
namespace {

struct Ending {
  std::string_view name;
  void (*make)(End&);
};

void come_up(End& end) {
  end.told = {{.what = Told::established}};
  end.transfers_done = true;
}
void be_told(End& end, Told what, std::string_view words) {
  end.told.push_back({.what = what, .has_code = true, .words = std::string(words)});
}

constexpr Ending endings[] = {
    {"nothing told", [](End&) {}},
    {"up", come_up},
    {"up, not all transferred",
     [](End& end) {
       come_up(end);
       end.transfers_done = false;
     }},
    {"closed",
     [](End& end) {
       come_up(end);
       end.told.push_back({.what = Told::disconnected, .graceful = true});
     }},
    {"failed in close",
     [](End& end) {
       come_up(end);
       be_told(end, Told::disconnected, "no FIN");
       end.told.back().in_close = true;
     }},
    {"cut",
     [](End& end) {
       come_up(end);
       be_told(end, Told::disconnected, "an RST");
     }},
    {"rejected", [](End& end) { be_told(end, Told::rejected, "code 4"); }},
    {"refused", [](End& end) { end.refused = true; }},
    {"failed", [](End& end) { be_told(end, Told::failed, "time-out"); }},
    {"crashed",
     [](End& end) {
       come_up(end);
       end.crashed = true;
     }},
    {"given up", [](End& end) { end.dropped = true; }},
};

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
  std::vector<std::string> words;
  std::string out;
  for (const Ending& initiator : endings) {
    out += "  " + pad(initiator.name, 26);
    for (std::size_t r = 0; r <= std::size(endings); ++r) {
      const std::string said = said_of_ends(initiator, r == 0 ? nullptr : &endings[r - 1], wanted, touched);
      if (said.empty()) {
        out += " .";
        continue;
      }
      const auto at = std::find(words.begin(), words.end(), said) - words.begin();
      if (at == static_cast<std::ptrdiff_t>(words.size())) words.push_back(said);
      out += fmt::format(" {}", static_cast<char>('a' + at));
    }
    out += "\n";
  }
  for (std::size_t i = 0; i < words.size(); ++i) out += fmt::format("  {}: {}\n", static_cast<char>('a' + i), words[i]);
  return out;
}

TEST(SimExpectation, EveryPairOfEndsIsJudgedAsReviewed) {
  std::string out =
      "# Rows: the initiator. Columns: a responder that never heard of it, then those of the rows, in order.\n";
  constexpr std::pair<Expect, std::string_view> all[] = {{Expect::established, "established"},
                                                         {Expect::rejected, "rejected"},
                                                         {Expect::failed, "failed"},
                                                         {Expect::settled, "settled"}};
  for (const auto& [expect, name] : all) {
    for (const Closer closer : {Closer::initiator, Closer::nobody}) {
      const bool closed = closer != Closer::nobody;
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
