// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The second half of `parley demo`: its own capture drawn as a ladder, then real captures judged in a few lines each.
#pragma once
#include <string>
#include <vector>

#include "tools/output.hpp"

namespace parley::tools {

/// Returns the exit code: failed when the demo's own capture has an error, environment when a file cannot be read.
/// `others` empty: those of Linux siw, or of rxe if `over_roce`, in the source tree that the program was built in, if it
/// can be found.
int demo_captures(const std::string& own, std::vector<std::string> others, bool over_roce, Context& context);

}  // namespace parley::tools
