// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// libfabric's connection managers (FI_EP_MSG: fi_connect, fi_accept) with the same work, to compare set-up rates. Each
// segment runs in a child process, so that a provider's leftovers affect no other segment.
#pragma once
#include <string>

#include "bench/harness.hpp"

namespace parley::bench {

/// Empty if this build has libfabric and it offers `provider` on loopback; otherwise the reason.
std::string libfabric_missing(const std::string& provider);

/// Opens `n` connections with 16 octets of private data each way, both ends on one thread, and keeps them open. Counts
/// those that both ends report as connected. Gives up after `seconds_max`; the count is then what it has reached.
/// `more` as in raw_keep_open; each part may take `seconds_max`.
Sample libfabric_keep_open(const std::string& provider, long n, long more, double seconds_max);

}  // namespace parley::bench
