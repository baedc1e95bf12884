// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "sim/check/convergence.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.hpp"

namespace parley::sim::check {

Convergence::Convergence(const Scenario& scenario) : converge_(scenario.bounds.converge) {
  // A partition heals, and a host restarts, at a time that the scenario names. Rules tied to frames are healed after
  // their last hit, which fault_seen() reports.
  for (const ScenarioFault& fault : scenario.faults) {
    const FaultRule& rule = fault.rule;
    if (rule.until != never) last_fault_ = std::max(last_fault_, rule.until);
    const bool by_time = fault.link.empty() || rule.action == FaultAction::set_rate;
    if (by_time) last_fault_ = std::max(last_fault_, rule.from + rule.delay);
  }
}

Instant Convergence::deadline(Instant last_intent) const { return std::max(last_fault_, last_intent) + converge_; }

bool Convergence::overdue(Instant now, Instant last_intent, const std::vector<std::string>& pending, Judge& judge) {
  if (now <= deadline(last_intent)) return false;
  if (said_) return true;
  said_ = true;
  judge.add("convergence", now, {},
            fmt::format("{} after the last fault healed and the workload began its last step, this is still "
                        "open: {}{}",
                        exact_duration_text(now - (deadline(last_intent) - converge_)),
                        pending.empty() ? "nothing that has a name" : pending.front(),
                        pending.size() > 1 ? fmt::format(" (and {} more)", pending.size() - 1) : ""));
  return true;
}

}  // namespace parley::sim::check
