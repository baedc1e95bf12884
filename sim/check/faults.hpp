// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// A fault that hits nothing proves nothing: the run never met it.
#pragma once
#include <vector>

#include "sim/check/judge.hpp"

namespace parley::sim::check {

/// Every fault of the scenario without `may_miss` must have hit something. The tallies are indexed by
/// FaultRule::number. `settled`: taken when the last connection had settled, for faults that crash or pause hosts or
/// set rates at a given time; `end`: taken when the network was silent. A fault that missed only because of its
/// probability is not an error: other seeds show it.
void check_faults(const Scenario& scenario, const std::vector<FaultTally>& settled, const std::vector<FaultTally>& end,
                  Instant now, Judge& judge);

}  // namespace parley::sim::check
