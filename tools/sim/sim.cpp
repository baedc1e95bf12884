// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "tools/sim/sim.hpp"

#include <thread>

#include "drivers/mpi/mpi_world.hpp"

namespace parley::tools {

void add_jobs(Command sub, unsigned& jobs) {
  constexpr unsigned jobs_max = 256;
  jobs = std::max(1u, std::min(std::thread::hardware_concurrency(), jobs_max));
  if (mpi::launcher() != mpi::Launcher::none) jobs = 1;  // there is a rank for each processor
  sub.option("-j,--jobs", jobs, "Runs at once; the order of what is printed does not depend on it")
      .range(1u, jobs_max)
      .shows_default("one per processor; under mpirun one per rank");
}

std::string refuse_ranks() {
  return mpi::launcher() == mpi::Launcher::none ? std::string()
                                                : "mpirun started several of this command, and each would do and write "
                                                  "the same; only 'parley sim explore' "
                                                  "and 'exhaust' share their runs";
}

void register_sim(Command app, Context& context) {
  Command sim = app.subcommand("sim", "Simulate networks, faults and crashes around the same protocol code");
  sim.requires_subcommand();
  sim.footer(
      "A FILE is a scenario (TOML), a directory of them, or the name of a shipped scenario ('parley sim list').\n"
      "Exit codes: 0 all passed, 1 something failed, 2 usage or a wrong scenario, 3 environment.\n\n"
      "Examples:\n"
      "  parley sim list\n"
      "  parley sim run lossy_handshake --ladder\n"
      "  parley sim explore lossy_handshake --seeds 1..5000 --swarm\n"
      "  parley sim COMMAND --help");
  add_sim_run(sim, context);
  add_sim_explore(sim, context);
  add_sim_replay(sim, context);
  add_sim_shrink(sim, context);
  add_sim_exhaust(sim, context);
  add_sim_merge(sim, context);
  add_sim_storm(sim, context);
  add_sim_list(sim, context);
  add_sim_check(sim, context);
}

}  // namespace parley::tools
