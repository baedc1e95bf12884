// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#pragma once
#include "bench/harness.hpp"

namespace parley::bench {

/// CPU time of 10,000 idle connections (at most `most`) on one thread with the default keepalive interval: iWARP, RoCE.
void keepalive_cost(const Settings& settings, Report& report, long most);

}  // namespace parley::bench
