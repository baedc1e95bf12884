// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// A fault that hits nothing proves nothing: the run that was to survive it has not met it.
#pragma once
#include <vector>

#include "sim/check/judge.hpp"

namespace parley::sim::check {

/// Every fault of the scenario without `may_miss` must have hit something. By FaultRule::number: `settled` when the last connection
/// had settled, as far as the faults crash and pause hosts or set rates at a time; `end` when the network was silent. A fault that
/// chance alone kept from hitting is no error: other seeds show it.
void check_faults(const Scenario& scenario, const std::vector<FaultTally>& settled, const std::vector<FaultTally>& end,
                  Instant now, Judge& judge);

}  // namespace parley::sim::check
