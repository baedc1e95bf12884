// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Compares the scenario's expectation for a connection (Expect) with what both users saw in its last attempt.
#pragma once
#include "sim/check/history.hpp"
#include "sim/check/judge.hpp"

namespace parley::sim::check {

/// "established", "rejected: <words>", "failed: <words>", "crashed", "unknown": the outcome at one end.
std::string outcome_text(const End* end);

void check_expectation(const Attempt& attempt, const ScenarioConnect& wanted, Instant now, Judge& judge);

}  // namespace parley::sim::check
