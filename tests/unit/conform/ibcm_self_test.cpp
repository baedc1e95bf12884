// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Parley's own passive side over RoCEv2 passes all of its own cases of InfiniBand's CM and transport.
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include <fmt/format.h>

#include "ibcm_kit.hpp"

namespace parley::conform::ibcm {
namespace {

using namespace kit;

TEST(ConformIbcmSelf, ParleyAsResponderPassesEachCase) {
  std::set<std::string_view> passed;
  for (const Under& under : {Under{}, Under{.receives = 1, .receive_size = 16, .rping = true}, Under{.receives = 0}}) {
    Stage stage(under);
    for (const Result& r : stage.run()) {
      // It asks again by its own back-off, for as long as its user waits (docs/roce.md).
      if (r.what->name == "rep-retries-are-counted") continue;
      EXPECT_NE(r.finding.verdict, Verdict::fail)
          << r.what->name << ": " << r.finding.observed << " (" << under.receives << " receives)";
      EXPECT_NE(r.finding.verdict, Verdict::not_run) << r.what->name << ": " << r.finding.observed;
      if (r.finding.verdict == Verdict::pass) passed.insert(r.what->name);
    }
  }
  for (const Case* c : cases()) {
    const bool own_timers = c->what.name == "rep-retries-are-counted";
    EXPECT_TRUE(own_timers || passed.count(c->what.name) > 0) << c->what.name << " was never passed";
  }
}

TEST(ConformIbcmSelf, ParleyAsInitiatorPassesEachCase) {
  std::set<std::string_view> passed;
  Stage stage({.connects = 2});
  for (const Result& r : stage.run()) {
    EXPECT_NE(r.finding.verdict, Verdict::fail) << r.what->name << ": " << r.finding.observed;
    if (r.finding.verdict == Verdict::pass) passed.insert(r.what->name);
  }
  for (const Case* c : ibcm::cases(Iut::initiator))
    EXPECT_TRUE(passed.count(c->what.name) > 0) << c->what.name << " was never passed";
}

TEST(ConformIbcmSelf, NamesAreUniqueAndRowsAreInOrder) {
  for (const Iut iut : {Iut::responder, Iut::initiator}) {
    std::set<std::string_view> names;
    int last = 0;
    for (const Case* c : ibcm::cases(iut)) {
      EXPECT_TRUE(names.insert(c->what.name).second) << c->what.name;
      EXPECT_EQ(c->what.iut, iut) << c->what.name;
      EXPECT_FALSE(c->what.clause.empty() || c->what.stimulus.empty() || c->what.expected.empty()) << c->what.name;
      const int row = std::stoi(std::string(c->what.row));
      EXPECT_EQ(row, last + 1) << c->what.name;
      last = row;
    }
    EXPECT_GE(names.size(), 55U);
  }
}

TEST(ConformIbcmSelf, TheTableOfCasesIsInTheDocumentation) {
  std::ifstream file(std::string(PARLEY_SOURCE_DIR) + "/docs/conform.md");
  std::ostringstream text;
  text << file.rdbuf();
  for (const Iut iut : {Iut::responder, Iut::initiator}) {
    std::vector<const conform::Case*> list;
    for (const Case* c : ibcm::cases(iut)) list.push_back(&c->what);
    const std::string table =
        case_table(iut == Iut::responder ? "RoCEv2 listener under test" : "RoCEv2 initiator under test", list);
    EXPECT_NE(text.str().find(table), std::string::npos) << "docs/conform.md should have:\n" << table;
  }
}

/// The verdicts of a report in docs/interop.
std::map<std::string, std::string> verdicts_on(std::istream& page) {
  std::map<std::string, std::string> out;
  for (std::string line; std::getline(page, line);) {
    std::vector<std::string> cells;
    std::istringstream row(line);
    for (std::string cell; std::getline(row, cell, '|');)
      cells.push_back(cell.size() > 2 ? cell.substr(1, cell.size() - 2) : cell);
    if (cells.size() > 6 && cells[1].find_first_not_of("0123456789") == std::string::npos) out[cells[2]] = cells[5];
  }
  return out;
}

// What "rxe" plays (wire/ib/quirks.cpp) fails the cases that the kernel fails, and no others.
TEST(ConformIbcmSelf, ParleyPlayingLinuxFailsTheCasesThatLinuxFails) {
  for (const Iut iut : {Iut::responder, Iut::initiator}) {
    const bool active = iut == Iut::initiator;
    std::ifstream page(std::string(PARLEY_SOURCE_DIR) + "/docs/interop/linux-6.1-rxe" +
                       (active ? "-initiator.md" : ".md"));
    const auto wanted = verdicts_on(page);
    ASSERT_GE(wanted.size(), 55U);
    std::map<std::string, std::string> found;
    Stage stage({.receives = 1, .receive_size = 16, .rping = !active, .connects = active ? 2U : 0, .quirk = "rxe"});
    for (const Result& r : stage.run())
      found[std::string(r.what->name)] = r.finding.verdict == Verdict::fail ? "FAIL: " + r.finding.observed : "pass";
    for (const auto& [name, verdict] : wanted) {
      if (name == "dreq-comes-again") continue;  // is of rping, which destroys its ID behind the first DREQ
      const std::string& ours = found[name];
      EXPECT_EQ(ours.starts_with("FAIL"), verdict == "FAIL") << name << ": " << ours << ", Linux: " << verdict;
    }
  }
}

}  // namespace
}  // namespace parley::conform::ibcm
