// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// `parley sim`: runs, explores, replays, shrinks and lists scenarios of the simulator. One function per subcommand,
// each in its own file; sim.cpp registers them.
#pragma once
#include "tools/command.hpp"

namespace parley::tools {

void add_sim_run(CLI::App& sim, Context& context);
void add_sim_replay(CLI::App& sim, Context& context);
void add_sim_explore(CLI::App& sim, Context& context);
void add_sim_exhaust(CLI::App& sim, Context& context);
void add_sim_shrink(CLI::App& sim, Context& context);
void add_sim_storm(CLI::App& sim, Context& context);
void add_sim_list(CLI::App& sim, Context& context);
void add_sim_check(CLI::App& sim, Context& context);

/// --jobs, worded the same everywhere; one thread per processor unless given.
void add_jobs(CLI::App& sub, unsigned& jobs);

}  // namespace parley::tools
