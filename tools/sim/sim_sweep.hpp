// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Many runs of one scenario (sim/sweep/sweep.hpp): by the threads of this process or by ranks, all of them or a shard; and
// the report of their results, which does not depend on who did the runs.
#pragma once
#include <functional>
#include <optional>
#include <string>

#include "sim/sweep/shard.hpp"
#include "sim/sweep/sweep.hpp"
#include "tools/sim/sim_report.hpp"

namespace parley::tools {

class Ranks;

struct SweepArgs {
  std::string file;
  sim::Sweep sweep;  ///< what the command line says of it
  unsigned jobs = 1;
  SimSinkOptions sinks;
  std::optional<sim::Shard> shard;
  std::string shard_source;  ///< with `--shard auto`: the variables
  std::string results;       ///< path of the file for `parley sim merge`
  Duration rank_silence = std::chrono::seconds(30);
};

/// "seed", "pattern".
std::string unit_of(const sim::Sweep& sweep);
/// The number of runs; of 2^64, one less.
std::uint64_t runs_of(std::uint64_t last);

/// The run at an index.
SimRun run_of(const sim::Sweep& sweep, const ScenarioFile& file, std::uint64_t index);
/// The result of a run as octets (sim/sweep/report_record.hpp), and back. Nothing if the octets are not its record.
/// `drawn`: with --swarm, what was drawn is found for runs that passed too.
Bytes record_of(const SimResult& result);
std::optional<SimResult> result_of(const SimRun& run, ConstBytes record, bool drawn);
/// The scenario of a sweep from another process. Errors: usage.
Or<ScenarioFile> scenario_in(const sim::Sweep& sweep);

/// Prints what a report of the sweep starts with, apart from its provenance.
void print_sweep(const sim::Sweep& sweep, Output& out);
/// Adds a result. Returns whether the sweep goes on: there were fewer failures than --failures.
bool add_result(const sim::Sweep& sweep, SimReporter& reporter, SimResult& result);
/// Notes why a sweep ended early, as far as its options ended it, and ends the report. Returns the exit code.
int finish_sweep(const sim::Sweep& sweep, SimReporter& reporter, std::uint64_t runs, bool budget_over, Output& out);

/// Does the runs of a command and reports them. `ranks` may be null.
int run_sweep(const SweepArgs& args, const sim::Sweep& sweep, const ScenarioFile& file, Ranks* ranks, Output& out);

}  // namespace parley::tools
