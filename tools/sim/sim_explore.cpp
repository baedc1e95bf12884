// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// `parley sim explore` and `parley sim exhaust`: run one scenario many times, with many seeds or with every pattern of
// early losses. Results are taken in order, so that the first failure printed is that of the lowest seed or pattern.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>

#include <fmt/format.h>

#include "sim/sweep/results_file.hpp"
#include "tools/sim/sim.hpp"
#include "tools/sim/sim_ranks.hpp"
#include "tools/sim/sim_sweep.hpp"
#include "tools/version.hpp"

namespace parley::tools {

namespace {

struct ManyArgs : SweepArgs {
  std::optional<std::uint64_t> seed;  ///< exhaust
  unsigned packets = 10;
  bool strict = false;
  bool shard_of_task = false;  ///< each task of a job has its own shard
};

/// The sweep of the command line, with its scenario.
sim::Sweep whole_sweep(const ManyArgs& args, const ScenarioFile& file) {
  sim::Sweep sweep = args.sweep;
  sweep.build = application_text();
  sweep.shown = file.shown;
  sweep.path = file.scenario.file;
  sweep.text = file.text;
  if (sweep.kind == sim::Sweep::Kind::explore) return sweep;
  sweep.last = (std::uint64_t{1} << args.packets) - 1;
  sweep.seed = args.seed.value_or(file.scenario.seed);
  sweep.settled = !args.strict;
  return sweep;
}

/// Removes the results of an earlier sweep, so that none remain if this one ends before its first run. Another file is
/// left alone: it may be the scenario.
void remove_old_results(const std::string& path) {
  std::error_code none;
  if (path.empty() || !std::filesystem::is_regular_file(path, none)) return;
  std::string start(sim::results_magic.size(), '\0');
  std::ifstream(path, std::ios::binary).read(start.data(), static_cast<std::streamsize>(start.size()));
  if (start == sim::results_magic) std::filesystem::remove(path, none);
}

/// The ranks of this command; a null pointer if it has none. Slurm's `srun` sets the variables of MPICH for each task,
/// but a task with its own shard is not a rank.
Or<std::unique_ptr<Ranks>> join_ranks(const ManyArgs& args) {
  return args.shard_of_task ? Or<std::unique_ptr<Ranks>>(nullptr) : Ranks::join();
}

int run_many(const ManyArgs& args, Output& out) {
  const auto ranks = join_ranks(args);
  if (!ranks) return out.error(ranks.error().exit, ranks.error().text);
  if (*ranks && !(*ranks)->leads()) return (*ranks)->follow(args.jobs, out);
  remove_old_results(args.results);
  if (*ranks) out.colour = out.terminal = false;  // a launcher may give ranks a terminal, whatever it prints to itself
  const auto file = load_scenario(args.file, out);
  if (!file) return out.error(file.error().exit, file.error().text);
  if (const auto good = check_outputs({*file}, {{"--junit", args.sinks.junit}, {"--results", args.results}}); !good)
    return out.error(good.error().exit, good.error().text);
  return run_sweep(args, whole_sweep(args, *file), *file, ranks->get(), out);
}

std::string set_shard(ManyArgs& args, const std::string& text) {
  if (text != "auto") {
    const auto shard = sim::parse_shard(text);
    if (!shard) return shard.error();
    args.shard = *shard;
    return {};
  }
  const auto detected = sim::detect_shard([](const char* name) { return std::getenv(name); });
  if (!detected) return detected.error();
  args.shard = detected->shard;
  args.shard_source = detected->source;
  args.shard_of_task = detected->of_task;
  return {};
}

void add_shard(Command sub, const std::shared_ptr<ManyArgs>& args) {
  sub.option(
         "--shard", [args](const std::string& text) { return set_shard(*args, text); },
         "Do each N-th run from the I-th on; auto: I and N from Slurm's or GitLab's variables")
      .type("I/N");
  sub.option("--results", args->results, "Write the results for 'parley sim merge'").type("FILE");
  add_duration(sub, "--rank-timeout", args->rank_silence,
               "Under mpirun: a rank that is silent for this time is lost, and others repeat its runs");
}

void add_common(Command sub, const std::shared_ptr<ManyArgs>& shared, Context& context) {
  ManyArgs& args = *shared;
  sub.option("--failures", args.sweep.failures_max, "Stop after this many failed runs; 0: never").shows_default();
  sub.option("--pcapng-on-failure", args.sinks.pcapng_on_failure,
             "Directory for a capture and a page of each failed run (at most 20)")
      .type("DIR");
  sub.option("--junit", args.sinks.junit, "Write the results as JUnit XML").type("FILE");
  add_shard(sub, shared);
  add_jobs(sub, args.jobs);
  add_color_option(sub, context);
  add_json_flag(sub, context);
}

void set_run(Command sub, const std::shared_ptr<ManyArgs>& args, Context& context) {
  static constexpr Duration least = std::chrono::seconds(2);  // ranks say that they are alive twice a second
  sub.run([args, &context] { return run_many(*args, context.out); },
          [args] { return args->rank_silence < least ? std::string("--rank-timeout: 2s or more") : std::string(); });
}

}  // namespace

void add_sim_explore(Command sim, Context& context) {
  auto args = std::make_shared<ManyArgs>();
  Command sub = sim.subcommand("explore", "Runs one scenario with many seeds");
  sub.option("FILE", args->file, "The scenario").type("SCENARIO").required();
  sub.option(
         "--seeds",
         [args](const std::string& text) {
           const auto range = parse_seed_range(text);
           if (!range) return range.error().text;
           args->sweep.seed = range->first;
           args->sweep.last = range->last - range->first;
           return std::string();
         },
         "Seeds, both ends included; decimal or 0x hexadecimal, up to 2^64-1")
      .type("A..B")
      .required();
  sub.flag("--swarm", args->sweep.swarm, "Draw delays, rates, faults, revisions, RTR forms, sizes from the seed too");
  add_settled(sub, args->sweep.settled);
  add_duration(sub, "--time-budget", args->sweep.time_budget, "Start no more runs after this time; 0: no limit");
  add_common(sub, args, context);
  sub.footer(
      "Exit code: 0 every seed that was run passed, 1 one failed or it was interrupted, 2 usage or a wrong scenario, 3 "
      "a "
      "file\n"
      "cannot be read or written.\n\n"
      "Examples:\n"
      "  parley sim explore reconnect.toml --seeds 1..5000 --time-budget 120s\n"
      "  parley sim explore lossy_handshake --seeds 1..20000 --swarm --junit junit.xml --pcapng-on-failure artifacts/\n"
      "  parley sim explore lossy_handshake --seeds 1..1000000 --shard 2/4 --results 2.results\n"
      "  mpirun -n 64 parley sim explore lossy_handshake --seeds 1..1000000");
  set_run(sub, args, context);
}

void add_sim_exhaust(Command sim, Context& context) {
  auto args = std::make_shared<ManyArgs>();
  args->sweep.kind = sim::Sweep::Kind::exhaust;
  Command sub = sim.subcommand("exhaust", "Runs one scenario with every pattern of early losses");
  sub.option("FILE", args->file, "The scenario").type("SCENARIO").required();
  sub.option("-k,--packets", args->packets, "Frames that may be lost: 2^K runs").type("K").range(1u, 20u).required();
  sub.option(
         "--layer",
         [args](const std::string& text) {
           const auto layer = parse_mask_layer(text);
           if (!layer) return layer.error().text;
           args->sweep.layer = *layer;
           return std::string();
         },
         "Frames that carry a message of this layer may be lost: any, arp, nd, tcp, mpa, rdmap, roce or cm [tcp]")
      .type("LAYER");
  add_seed(sub, "--seed", args->seed, "In place of the seed in the file; decimal or 0x hexadecimal");
  sub.flag("--strict", args->strict, "Each connection must end as the scenario expects, whatever is lost");
  add_common(sub, args, context);
  sub.footer(
      "Frames with a message of the layer are counted in the order in which the hosts send them, over all links, from "
      "0;\n"
      "bit i of a pattern loses the i-th. Retransmissions count. 'parley sim replay FILE --seed N --drop-mask M' "
      "shows\n"
      "one pattern.\n"
      "Many losses of one frame outlast the time-outs of a set-up. Such a connection may fail, if both ends get an "
      "event;\n"
      "with --strict it may not.\n\n"
      "Examples:\n"
      "  parley sim exhaust handshake_v1_rtr_frame --packets 10\n"
      "  parley sim exhaust handshake_v2_read --packets 6 --layer mpa\n"
      "  parley sim exhaust my.toml --packets 14 --jobs 2 --failures 1");
  set_run(sub, args, context);
}

}  // namespace parley::tools
