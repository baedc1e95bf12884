// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// `parley sim`: runs, explores, replays, shrinks, merges and lists scenarios of the simulator. One function per subcommand,
// each in its own file; sim.cpp registers them.
#pragma once
#include "tools/command.hpp"

namespace parley::tools {

void add_sim_run(Command sim, Context& context);
void add_sim_replay(Command sim, Context& context);
void add_sim_explore(Command sim, Context& context);
void add_sim_exhaust(Command sim, Context& context);
void add_sim_shrink(Command sim, Context& context);
void add_sim_merge(Command sim, Context& context);
void add_sim_storm(Command sim, Context& context);
void add_sim_list(Command sim, Context& context);
void add_sim_check(Command sim, Context& context);

/// Adds --jobs with the same help text in every command. The default is one thread per processor; as a
/// rank of several, one thread.
void add_jobs(Command sub, unsigned& jobs);
/// Why a command that does not share its runs is refused under mpirun; empty for one process. For Command::run.
std::string refuse_ranks();

}  // namespace parley::tools
