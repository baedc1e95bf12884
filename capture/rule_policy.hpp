// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Rules that the user ignores, or to which the user gives another severity than the table.
#pragma once
#include <map>
#include <set>
#include <vector>

#include "capture/report.hpp"

namespace parley::capture {

struct RulePolicy {
  std::set<Rule> ignored;               ///< their findings are only counted; they do not affect the verdict
  std::map<Rule, Severity> severities;  ///< replace those of the table

  /// Removes the ignored findings, counts them in `left_out`, and sets the severities of the others.
  void apply(std::vector<Finding>& findings, RuleCounts& left_out) const;
};

}  // namespace parley::capture
