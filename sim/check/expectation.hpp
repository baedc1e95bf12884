// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// What the scenario wants of a connection (Expect), judged over its last attempt by what both users were told.
#pragma once
#include "sim/check/history.hpp"
#include "sim/check/judge.hpp"

namespace parley::sim::check {

/// "established", "rejected: <words>", "failed: <words>", "crashed", "unknown": one end in a word.
std::string outcome_text(const End* end);

void check_expectation(const Attempt& attempt, const ScenarioConnect& wanted, Instant now, Judge& judge);

}  // namespace parley::sim::check
