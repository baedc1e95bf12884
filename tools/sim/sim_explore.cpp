// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// `parley sim explore` and `parley sim exhaust`: run one scenario many times, with many seeds or with every pattern of
// early losses. Results are taken in order, so that the first failure printed is that of the lowest seed or pattern.
#include <memory>

#include <fmt/format.h>

#include "base/text.hpp"
#include "tools/jobs.hpp"
#include "tools/progress.hpp"
#include "tools/rping/session.hpp"
#include "tools/sim/sim.hpp"
#include "tools/sim/sim_report.hpp"

namespace parley::tools {

namespace {

struct ManyArgs {
  std::string file;
  SeedRange seeds;
  std::optional<std::uint64_t> seed;  ///< exhaust
  unsigned packets = 10;
  sim::Layer layer = sim::Layer::tcp;  ///< exhaust: the layer whose frames are counted
  bool swarm = false, settled = false, strict = false;
  unsigned jobs = 1;
  std::uint64_t failures_max = 20;
  Duration time_budget{};
  SimSinkOptions sinks;
};

/// The difference between the two commands: the number of runs and the i-th run.
struct Plan {
  std::uint64_t last = 0;
  std::string_view unit;   ///< "seed"
  std::string_view units;  ///< "seeds"
  std::function<SimRun(std::uint64_t)> run;
};

std::uint64_t count_of(std::uint64_t last) { return last == ~std::uint64_t{0} ? last : last + 1; }

int run_many(const ManyArgs& args, const Plan& plan, SimReporter& reporter, Output& out) {
  using Clock = std::chrono::steady_clock;
  const StopSignals signals;
  const auto began = Clock::now();
  const std::uint64_t count = count_of(plan.last);
  Progress progress(out, std::string(plan.units), count);
  std::uint64_t done = 0;
  bool budget_over = false, enough = false;
  in_order<SimResult>(
      plan.last, args.jobs,
      [&plan](std::uint64_t i, const std::atomic<bool>& stop) { return carry_out(plan.run(i), {}, stop); },
      [&](std::uint64_t, SimResult&& result) {
        if (result.stopped()) return false;
        if (!result.passed()) progress.clear();
        reporter.add(result);
        ++done;
        enough = args.failures_max != 0 && reporter.failed() >= args.failures_max;
        return !enough;
      },
      [&] {
        progress.update(done, fmt::format("{} failed", reporter.failed()));
        budget_over = args.time_budget != Duration{} && Clock::now() - began >= args.time_budget;
        return !budget_over && !StopSignals::requested();
      });
  progress.clear();
  if (budget_over && done < count)
    out.note(fmt::format("the time budget of {} is used up", duration_text(args.time_budget)));
  if (enough && done < count) out.note(fmt::format("stopped after {} failures (--failures)", reporter.failed()));
  return reporter.finish(count, budget_over || enough, std::string(plan.unit));
}

int run_explore(const ManyArgs& args, Output& out) {
  const auto file = load_scenario(args.file, out);
  if (!file) return out.error(file.error().exit, file.error().text);
  auto reporter = SimReporter::open(args.sinks, out);
  if (!reporter) return out.error(reporter.error().exit, reporter.error().text);
  (*reporter)->tell_passed = false;
  (*reporter)->begin({&*file});
  const Plan plan{args.seeds.last - args.seeds.first, "seed", "seeds", [&](std::uint64_t i) {
                    return SimRun{&*file, args.seeds.first + i, args.swarm, {}, args.settled};
                  }};
  return run_many(args, plan, **reporter, out);
}

std::string frames_text(sim::Layer layer) {
  if (layer == sim::Layer::any) return "frames";
  return layer == sim::Layer::tcp ? "TCP frames" : fmt::format("frames with a message of {}", sim::to_string(layer));
}

int run_exhaust(const ManyArgs& args, Output& out) {
  const auto file = load_scenario(args.file, out);
  if (!file) return out.error(file.error().exit, file.error().text);
  auto reporter = SimReporter::open(args.sinks, out);
  if (!reporter) return out.error(reporter.error().exit, reporter.error().text);
  (*reporter)->tell_passed = false;
  (*reporter)->begin({&*file});
  const std::uint64_t runs = std::uint64_t{1} << args.packets;
  const std::uint64_t seed = args.seed.value_or(file->scenario.seed);
  out.text(fmt::format("{} runs: every pattern of losses among the first {} {} of {}, seed {}", runs, args.packets,
                       frames_text(args.layer), file->shown, seed_text(seed)));
  const Plan plan{runs - 1, "pattern", "patterns", [&](std::uint64_t i) {
                    return SimRun{&*file, seed, false, sim::DropMask{i, args.layer}, !args.strict};
                  }};
  return run_many(args, plan, **reporter, out);
}

void add_common(Command sub, ManyArgs& args, Context& context) {
  sub.option("--failures", args.failures_max, "Stop after this many failed runs; 0: never").shows_default();
  sub.option("--pcapng-on-failure", args.sinks.pcapng_on_failure,
             "Directory for a capture and a page of each failed run (at most 20)")
      .type("DIR");
  sub.option("--junit", args.sinks.junit, "Write the results as JUnit XML").type("FILE");
  add_jobs(sub, args.jobs);
  add_color_option(sub, context);
  add_json_flag(sub, context);
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
           args->seeds = *range;
           return std::string();
         },
         "Seeds, both ends included; decimal or 0x hexadecimal, up to 2^64-1")
      .type("A..B")
      .required();
  sub.flag("--swarm", args->swarm, "Draw delays, rates, faults, revisions, RTR forms, sizes from the seed too");
  add_settled(sub, args->settled);
  add_duration(sub, "--time-budget", args->time_budget, "Start no more runs after this time; 0: no limit");
  add_common(sub, *args, context);
  sub.footer(
      "Exit code: 0 every seed that was run passed, 1 one failed or it was interrupted, 2 usage or a wrong scenario, 3 "
      "a "
      "file\n"
      "cannot be read or written.\n\n"
      "Examples:\n"
      "  parley sim explore reconnect.toml --seeds 1..5000 --time-budget 120s\n"
      "  parley sim explore lossy_handshake --seeds 1..20000 --swarm --junit junit.xml --pcapng-on-failure artifacts/");
  sub.run([args, &context] { return run_explore(*args, context.out); });
}

void add_sim_exhaust(Command sim, Context& context) {
  auto args = std::make_shared<ManyArgs>();
  Command sub = sim.subcommand("exhaust", "Runs one scenario with every pattern of early losses");
  sub.option("FILE", args->file, "The scenario").type("SCENARIO").required();
  sub.option("-k,--packets", args->packets, "Frames that may be lost: 2^K runs").type("K").range(1u, 20u).required();
  sub.option(
         "--layer",
         [args](const std::string& text) {
           const auto layer = parse_mask_layer(text);
           if (!layer) return layer.error().text;
           args->layer = *layer;
           return std::string();
         },
         "Frames that carry a message of this layer may be lost: any, arp, nd, tcp, mpa, rdmap, roce or cm [tcp]")
      .type("LAYER");
  add_seed(sub, "--seed", args->seed, "In place of the seed in the file; decimal or 0x hexadecimal");
  sub.flag("--strict", args->strict, "Each connection must end as the scenario expects, whatever is lost");
  add_common(sub, *args, context);
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
  sub.run([args, &context] { return run_exhaust(*args, context.out); });
}

}  // namespace parley::tools
