// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Parley's own passive side over RoCEv2 passes all of its own cases of InfiniBand's CM and transport.
#include <fstream>
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

TEST(ConformIbcmSelf, NamesAreUniqueAndRowsAreInOrder) {
  std::set<std::string_view> names;
  int last = 0;
  for (const Case* c : cases()) {
    EXPECT_TRUE(names.insert(c->what.name).second) << c->what.name;
    EXPECT_FALSE(c->what.clause.empty() || c->what.stimulus.empty() || c->what.expected.empty()) << c->what.name;
    const int row = std::stoi(std::string(c->what.row));
    EXPECT_EQ(row, last + 1) << c->what.name;
    last = row;
  }
  EXPECT_GE(names.size(), 60U);
}

TEST(ConformIbcmSelf, TheTableOfCasesIsInTheDocumentation) {
  std::ifstream file(std::string(PARLEY_SOURCE_DIR) + "/docs/conform.md");
  std::ostringstream text;
  text << file.rdbuf();
  std::vector<const conform::Case*> list;
  for (const Case* c : cases()) list.push_back(&c->what);
  const std::string table = case_table("RoCEv2 listener under test", list);
  EXPECT_NE(text.str().find(table), std::string::npos) << "docs/conform.md should end with:\n" << table;
}

}  // namespace
}  // namespace parley::conform::ibcm
