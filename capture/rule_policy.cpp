// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "capture/rule_policy.hpp"

namespace parley::capture {

void RulePolicy::apply(std::vector<Finding>& findings, RuleCounts& left_out) const {
  if (ignored.empty() && severities.empty()) return;
  std::erase_if(findings, [&](const Finding& f) {
    if (!f.broken || !ignored.contains(*f.broken)) return false;
    ++left_out[*f.broken];
    return true;
  });
  for (Finding& f : findings)
    if (const auto other = f.broken ? severities.find(*f.broken) : severities.end(); other != severities.end())
      f.severity = other->second;
}

}  // namespace parley::capture
