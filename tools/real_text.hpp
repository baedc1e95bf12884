// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// How numbers with a fraction look in the commands' JSON.
#pragma once
#include <string>

namespace parley::tools {

/// "0.5", "12.0", "1e-07"; "null" for what is no number.
std::string real_text(double value);

}  // namespace parley::tools
