// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// `parley sim shrink`: finds a smaller scenario that still fails in the same way.
#include <memory>
#include <optional>

#include <fmt/format.h>

#include "base/text.hpp"
#include "tools/progress.hpp"
#include "tools/provenance.hpp"
#include "tools/rping/session.hpp"
#include "tools/sim/sim.hpp"
#include "tools/sim/sim_report.hpp"
#include "tools/sim/sim_trouble.hpp"

namespace parley::tools {

namespace {

struct ShrinkArgs {
  std::string file, output;
  std::optional<std::uint64_t> seed;
  std::optional<sim::DropMask> drop_mask;
  bool swarm = false, settled = false;
  std::uint32_t tries = 2000;
};

std::string size_text(const sim::Scenario& s) {
  return fmt::format("{}, {}, {}, {}", counted(s.hosts.size(), "host"), counted(s.links.size(), "link"),
                     counted(s.connects.size(), "connect"), counted(s.faults.size(), "fault"));
}

class Shrinker {
 public:
  Shrinker(const ShrinkArgs& args, Output& out) : args_(args), out_(out) {}
  int run();

 private:
  sim::RunReport once(const sim::Scenario& scenario) const;
  int write(sim::Scenario smallest, OutputFile& output);

  const ShrinkArgs& args_;
  Output& out_;
  ScenarioFile file_;
  std::optional<SimTrouble> failure_;
  std::string trouble_, size_before_;
  std::uint32_t tries_ = 0;
};

sim::RunReport Shrinker::once(const sim::Scenario& scenario) const {
  sim::RunOptions options;
  options.seed = *args_.seed;
  options.drop_mask = args_.drop_mask;
  options.keep_going = [] { return !StopSignals::requested(); };
  return sim::run_scenario(scenario, options);
}

int Shrinker::write(sim::Scenario smallest, OutputFile& output) {
  // The original description may not apply to the smaller scenario.
  smallest.description = fmt::format("What is left of {} when all goes that its failure does not need.", file_.shown);
  std::string comment = fmt::format("# Shrunk from {} with seed {}{}. It fails with:\n", file_.shown,
                                    seed_text(*args_.seed), args_.swarm ? " and drawn parameters" : "");
  std::string trouble = trouble_;
  for (std::size_t at = 0; (at = trouble.find('\n', at)) != std::string::npos; at += 3) trouble.replace(at, 1, "\n# ");
  comment += "# " + trouble + "\n";
  const std::string toml = sim::to_toml(smallest);
  output.write(std::string_view(comment + toml));
  if (const auto written = output.finish(); !written) return out_.error(written.error().exit, written.error().text);
  // Verify that the written file fails in the same way.
  const auto again = sim::parse_scenario(toml, args_.output);
  if (!again)
    return out_.error(Exit::failed,
                      fmt::format("the file written is not read back: {}", again.error().front().to_string()));
  if (!StopSignals::requested() && !failure_->find_in(once(*again)))
    return out_.error(Exit::failed, "the file written does not fail when it is read back");
  const std::string mask = args_.drop_mask ? fmt::format(" --drop-mask {}", mask_text(*args_.drop_mask)) : "";
  const std::string command =
      fmt::format("parley sim replay {} --seed {}{}", file_word(args_.output), seed_text(*args_.seed), mask);
  print_provenance(out_, provenance(out_, {file_.input}));
  out_.text(fmt::format("{}: {} after {}; it was {}\n  {}\n  reproduce: {}", args_.output, size_text(smallest),
                        counted(tries_, "run"), size_before_, trouble_, command));
  out_.object({{"event", "shrunk"},
               {"file", args_.output},
               {"tries", tries_},
               {"hosts", smallest.hosts.size()},
               {"links", smallest.links.size()},
               {"connects", smallest.connects.size()},
               {"faults", smallest.faults.size()},
               {"trouble", trouble_},
               {"reproduce", command},
               {"report", report_json(provenance(out_, {file_.input}))}});
  return code(Exit::ok);
}

int Shrinker::run() {
  auto file = load_scenario(args_.file, out_);
  if (!file) return out_.error(file.error().exit, file.error().text);
  file_ = std::move(*file);
  if (const auto good = check_outputs({file_}, {{"--output", args_.output}}); !good)
    return out_.error(good.error().exit, good.error().text);
  auto output = OutputFile::open(args_.output);
  if (!output) return out_.error(output.error().exit, output.error().text);
  const StopSignals signals;
  sim::Scenario failing = scenario_of({&file_, *args_.seed, args_.swarm, args_.drop_mask, args_.settled});
  failing.seed = *args_.seed;
  const sim::RunReport first = once(failing);
  if (first.end == sim::RunEnd::stopped) return out_.error(Exit::failed, "interrupted in the first run");
  if (first.passed())
    return out_.error(Exit::failed, fmt::format("{} passes with seed {}; there is nothing to shrink", file_.shown,
                                                seed_text(*args_.seed)));
  size_before_ = size_text(failing);
  failure_.emplace(failing, first);
  trouble_ = first_trouble(first);
  Progress progress(out_, "tries", args_.tries);
  std::string last_step = "fails as told";
  const sim::Scenario smallest = sim::shrink(
      failing,
      [&](const sim::Scenario& candidate) {
        progress.update(++tries_, last_step);
        if (StopSignals::requested()) return false;
        auto trouble = failure_->find_in(once(candidate));
        if (!trouble) return false;
        trouble_ = std::move(*trouble);
        return true;
      },
      args_.tries, [&](const sim::ShrinkStep& step) { last_step = step.what; });
  progress.clear();
  const int exit = write(smallest, *output);
  if (exit == code(Exit::ok) && StopSignals::requested())
    return out_.error(Exit::failed, "interrupted; the smallest scenario so far was written");
  return exit;
}

}  // namespace

void add_sim_shrink(Command sim, Context& context) {
  auto args = std::make_shared<ShrinkArgs>();
  Command sub = sim.subcommand("shrink", "Makes a failing scenario smaller while it still fails");
  sub.option("FILE", args->file, "The scenario").type("SCENARIO").required();
  add_seed(sub, "--seed", args->seed, "The seed that the failed run printed").required();
  sub.flag("--swarm", args->swarm, "Parameters were drawn from the seed too");
  add_drop_mask(sub, args->drop_mask);
  add_settled(sub, args->settled);
  sub.option("-o,--output", args->output, "Where the smaller scenario goes").type("FILE").required();
  sub.option("--tries", args->tries, "Runs to spend at most").range(1u, 1'000'000u).shows_default();
  add_json_flag(sub, context);
  sub.footer(
      "The smaller scenario fails as the given one does first: the same checker says the same thing (figures and "
      "names\n"
      "aside) of a connection that got as far, or the same bound is hit with the same left open; with the same seed.\n"
      "Exit code: 0 written, 1 the given one does not fail, 2 usage or a wrong scenario, 3 a file cannot be "
      "read\n"
      "or written.\n\n"
      "Examples:\n"
      "  parley sim shrink reconnect.toml --seed 0x51ab -o minimal.toml\n"
      "  parley sim shrink reconnect.toml --seed 0x51ab --swarm -o minimal.toml");
  sub.run([args, &context] { return Shrinker(*args, context.out).run(); }, refuse_ranks);
}

}  // namespace parley::tools
