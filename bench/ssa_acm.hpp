// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Requests of ibacm's clients per second, from the octets of a Unix socket to the answers in the client.
#pragma once
#include <memory>

#include "bench/harness.hpp"
#include "ssa/paths.hpp"

namespace parley::bench {

/// Adds a section: requests one by one, as ib_acme sends them, and 64 at a time. Both ends run in this process.
void measure_acm(Report& report, const Settings& settings, std::shared_ptr<const ssa::PathMap> map);

}  // namespace parley::bench
