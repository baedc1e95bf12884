// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Safety first, then liveness: once the last fault has healed and the workload starts nothing new, every request
// settles within ScenarioBounds::converge.
#pragma once
#include <algorithm>

#include "sim/check/judge.hpp"

namespace parley::sim::check {

class Convergence {
 public:
  Convergence(const Scenario& scenario);
  /// A fault just touched a frame or a host.
  void fault_seen(Instant at) { last_fault_ = std::max(last_fault_, at); }
  /// The latest time at which the run may still be unsettled.
  Instant deadline(Instant last_intent) const;
  /// True once the deadline has passed; reports it once.
  bool overdue(Instant now, Instant last_intent, const std::vector<std::string>& pending, Judge& judge);

 private:
  Duration converge_;
  Instant last_fault_{};  // scheduled ends of faults, and faults seen
  bool said_ = false;
};

}  // namespace parley::sim::check
