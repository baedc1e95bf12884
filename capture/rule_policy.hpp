// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// What a user wants of some rules otherwise than the table has it.
#pragma once
#include <map>
#include <set>
#include <vector>

#include "capture/report.hpp"

namespace parley::capture {

struct RulePolicy {
  std::set<Rule> ignored;               ///< their findings are counted, and decide nothing
  std::map<Rule, Severity> severities;  ///< in place of those of the table

  /// Takes the ignored findings out and adds their numbers to `left_out`; gives the others their severities.
  void apply(std::vector<Finding>& findings, RuleCounts& left_out) const;
};

}  // namespace parley::capture
