// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The commands of `parley ssa`, and the daemon that they ask.
#pragma once
#include "tools/command.hpp"

namespace parley::tools {

void register_ssad(Command app, Context& context);
void register_ssa_paths(Command ssa, Context& context);
void register_ssa_acm(Command ssa, Context& context);
/// status, tree, epoch, query: questions to a daemon.
void register_ssa_questions(Command ssa, Context& context);

/// --control, with the same words in the daemon and in the commands that ask it.
void add_control_option(Command sub, std::string& path);

}  // namespace parley::tools
