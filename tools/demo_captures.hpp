// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The second half of `parley demo`: a ladder of its own capture, then the verdicts on real captures in a few lines
// each.
#pragma once
#include <string>
#include <vector>

#include "tools/output.hpp"

namespace parley::tools {

/// Returns the exit code: failed if the demo's own capture has an error, environment if a file cannot be read. If
/// `others` is empty, the captures of Linux siw (of rxe if `over_roce`) are used if the source tree is found above the
/// program or above the working directory.
int demo_captures(const std::string& own, std::vector<std::string> others, bool over_roce, Context& context);

}  // namespace parley::tools
