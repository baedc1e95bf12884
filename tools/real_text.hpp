// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The format of numbers with a fraction in the commands' JSON.
#pragma once
#include <string>

namespace parley::tools {

/// "0.5", "12.0", "1e-07"; "null" for NaN and infinity.
std::string real_text(double value);

}  // namespace parley::tools
