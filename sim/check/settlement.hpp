// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// No event is lost or doubled: every connect and every accepted responder has exactly one end, and every failure is
// reported as text with a code (docs/cm.md, "What a user can rely on").
#pragma once
#include "sim/check/history.hpp"
#include "sim/check/judge.hpp"

namespace parley::sim::check {

/// The order of one end's events. `ended`: the run is over, so the end must be too unless `may_stay_open`.
void check_settlement(const End& end, std::string_view label, bool ended, bool may_stay_open, Instant now,
                      Judge& judge);

}  // namespace parley::sim::check
