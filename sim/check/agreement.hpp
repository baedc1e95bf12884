// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Both ends agree on what was negotiated (RFC 5044 §7.1, RFC 6581 §9), or both end with a reason. No end stays
// established alone, and no end reports a graceful end that the other end does not know of.
#pragma once
#include "sim/check/history.hpp"
#include "sim/check/judge.hpp"

namespace parley::sim::check {

/// `ended`: the run is over. An attempt that a fault touched may end differently at its two ends, but must end at both.
void check_agreement(const Attempt& attempt, bool ended, Instant now, Judge& judge);

/// RoCE, after the network has become silent: no user was asked about a late copy of a request (IBA §12.9).
void check_timewait(const Attempt& attempt, Judge& judge);

}  // namespace parley::sim::check
