// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The commands of `parley ssa`.
#pragma once
#include "tools/command.hpp"

namespace parley::tools {

void register_ssa_paths(Command ssa, Context& context);
void register_ssa_acm(Command ssa, Context& context);

}  // namespace parley::tools
