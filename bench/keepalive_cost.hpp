// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#pragma once
#include "bench/harness.hpp"

namespace parley::bench {

/// CPU that 10,000 idle connections (at most `most`) take on one thread at the default interval of keepalives: iWARP, RoCE.
void keepalive_cost(const Settings& settings, Report& report, long most);

}  // namespace parley::bench
