// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The first part of `parley demo`: a handshake over a simulated network that loses frames, and its ladder.
#pragma once
#include "tools/output.hpp"

namespace parley::tools {

/// Runs the shipped scenario lossy_handshake, which is compiled in, and draws its ladder. Returns the exit code.
int demo_simulation(Output& out);

}  // namespace parley::tools
