// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// libfabric's own connection managers (FI_EP_MSG: fi_connect, fi_accept) doing the same work, for the comparison of
// set-up rates. Each segment runs in a child process: what a provider leaves behind then disturbs nobody.
#pragma once
#include <string>

#include "bench/harness.hpp"

namespace parley::bench {

/// Empty when this build has libfabric and it offers `provider` on loopback; else why not.
std::string libfabric_missing(const std::string& provider);

/// Opens `n` connections with 16 octets of private data each way, both ends on one thread, and keeps them open. Counts
/// those that both ends called connected. Gives up after `seconds_max`; the count then says how far it came.
/// `more` as in raw_keep_open; each part may take `seconds_max`.
Sample libfabric_keep_open(const std::string& provider, long n, long more, double seconds_max);

}  // namespace parley::bench
