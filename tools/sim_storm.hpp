// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The arithmetic of `parley sim storm`: shares of loss as two integers, and how many connections a pattern asks for.
#pragma once
#include <string_view>

#include "sim/run.hpp"
#include "tools/options.hpp"

namespace parley::tools {

/// "0.01%", "1/10000", "0.0001", "0": exactly, as two integers. Errors: usage (malformed, more than all).
Or<Ratio> parse_ratio(std::string_view text);

}  // namespace parley::tools
