// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// What `parley run` needs from this machine.
#pragma once
#include <vector>

#include "tools/doctor/check.hpp"

namespace parley::tools {

/// The library, the addresses, UDP port 4791 at each of them, the system's services, and the device itself, which a
/// child process opens by the preloaded library at an address of its own.
std::vector<Check> check_run();

}  // namespace parley::tools
