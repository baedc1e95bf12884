// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "tools/sim/sim_sweep.hpp"

#include <memory>

#include <fmt/format.h>

#include "base/text.hpp"
#include "sim/sweep/report_record.hpp"
#include "sim/sweep/results_file.hpp"
#include "tools/jobs.hpp"
#include "tools/progress.hpp"
#include "tools/rping/session.hpp"
#include "tools/sim/sim_ranks.hpp"

namespace parley::tools {
namespace {

std::string frames_text(sim::Layer layer) {
  if (layer == sim::Layer::any) return "frames";
  return layer == sim::Layer::tcp ? "TCP frames" : fmt::format("frames with a message of {}", sim::to_string(layer));
}

bool enough_failures(const sim::Sweep& sweep, const SimReporter& reporter) {
  return sweep.failures_max != 0 && reporter.failed() >= sweep.failures_max;
}

void print_shard(const SweepArgs& args, const sim::Sweep& sweep, std::uint64_t runs, Output& out) {
  if (!args.shard) return;
  const std::string source = args.shard_source.empty() ? "" : fmt::format(" ({})", args.shard_source);
  out.text(fmt::format("shard {}{}: {} of {}", to_text(*args.shard), source, runs,
                       counted(runs_of(sweep.last), unit_of(sweep))));
  Json object{{"event", "shard"}, {"number", args.shard->number}, {"count", args.shard->count}, {"runs", runs}};
  if (!args.shard_source.empty()) object["source"] = args.shard_source;
  out.object(object);
}

/// The file for `parley sim merge`.
class ResultsFile {
 public:
  explicit ResultsFile(std::unique_ptr<OutputFile> file) : file_(std::move(file)) {}
  void begin(const sim::Sweep& sweep, const sim::Shard& shard) { write(writer_.begin(sweep, shard)); }
  /// False if the file has no room for it.
  bool add(const SimResult& result) {
    if (!file_) return true;
    const Bytes record = record_of(result);
    full_ = record.size() > sim::report_record_max || octets_ + record.size() + room_behind > sim::results_file_max;
    if (!full_) write(writer_.add(record));
    return !full_;
  }
  Or<void> finish(sim::ShardEnd how) {
    if (!file_) return {};
    write(writer_.end(how));
    if (const auto written = file_->finish(); !written) return written;
    if (!full_) return {};
    return command_error(Exit::environment, fmt::format("'{}' is full: a file of results has at most {} octets, and a "
                                                        "record {}; use more shards",
                                                        file_->path(), sim::results_file_max, sim::report_record_max));
  }

 private:
  void write(const Bytes& octets) {
    octets_ += octets.size();
    if (file_) file_->write(ConstBytes(octets));
  }
  static constexpr std::size_t room_behind = 64;  ///< for the length of a record and the end
  std::unique_ptr<OutputFile> file_;
  std::size_t octets_ = 0;
  bool full_ = false;
  sim::ResultsWriter writer_;
};

}  // namespace

std::string unit_of(const sim::Sweep& sweep) { return sweep.kind == sim::Sweep::Kind::explore ? "seed" : "pattern"; }

std::uint64_t runs_of(std::uint64_t last) { return last == ~std::uint64_t{0} ? last : last + 1; }

SimRun run_of(const sim::Sweep& sweep, const ScenarioFile& file, std::uint64_t index) {
  return {&file, sweep.seed_of(index), sweep.swarm, sweep.mask_of(index), sweep.settled};
}

Bytes record_of(const SimResult& result) { return sim::encode_record({result.report, result.cpu_us}); }

std::optional<SimResult> result_of(const SimRun& run, ConstBytes record, bool drawn) {
  auto decoded = sim::decode_record(record);
  if (!decoded || decoded->report.seed != run.seed) return std::nullopt;
  SimResult result;
  result.run = run;
  result.report = std::move(decoded->report);
  result.cpu_us = decoded->cpu_us;
  if (run.swarm && (drawn || !result.passed())) (void)scenario_of(run, &result.drawn);
  return result;
}

Or<ScenarioFile> scenario_in(const sim::Sweep& sweep) {
  auto scenario = sim::parse_scenario(sweep.text, sweep.path);
  if (!scenario) return command_error(Exit::usage, scenario.error().front().to_string());
  return ScenarioFile{sweep.shown, std::move(*scenario), input_of(sweep.path, sweep.text), sweep.text};
}

void print_sweep(const sim::Sweep& sweep, Output& out) {
  if (sweep.kind == sim::Sweep::Kind::explore) return;
  const std::uint64_t runs = sweep.last + 1;
  out.text(fmt::format("{} runs: every pattern of losses among the first {} {} of {}, seed {}", runs,
                       std::bit_width(sweep.last), frames_text(sweep.layer), sweep.shown, seed_text(sweep.seed)));
}

bool add_result(const sim::Sweep& sweep, SimReporter& reporter, SimResult& result) {
  reporter.add(result);
  return !enough_failures(sweep, reporter);
}

int finish_sweep(const sim::Sweep& sweep, SimReporter& reporter, std::uint64_t runs, bool budget_over, Output& out) {
  const bool enough = enough_failures(sweep, reporter);
  if (const std::uint64_t done = reporter.passed() + reporter.failed(); done < runs) {
    if (budget_over) out.note(fmt::format("the time budget of {} is used up", duration_text(sweep.time_budget)));
    if (enough) out.note(fmt::format("stopped after {} failures (--failures)", reporter.failed()));
  }
  return reporter.finish(runs, budget_over || enough, unit_of(sweep));
}

int run_sweep(const SweepArgs& args, const sim::Sweep& sweep, const ScenarioFile& file, Ranks* ranks, Output& out) {
  using Clock = std::chrono::steady_clock;
  const StopSignals signals;  // before the first output: then Ctrl-C leaves a report
  auto reporter_opened = SimReporter::open(args.sinks, out);
  if (!reporter_opened) return out.error(reporter_opened.error().exit, reporter_opened.error().text);
  SimReporter& reporter = **reporter_opened;
  auto output = open_output(args.results);
  if (!output) return out.error(output.error().exit, output.error().text);
  ResultsFile results(std::move(*output));
  const sim::Shard shard = args.shard.value_or(sim::Shard{});
  const auto last = shard.last_position(sweep.last);
  const std::uint64_t runs = last ? runs_of(*last) : 0;
  reporter.tell_passed = false;
  reporter.begin({&file});
  print_sweep(sweep, out);
  print_shard(args, sweep, runs, out);
  results.begin(sweep, shard);
  const auto began = Clock::now();
  Progress progress(out, unit_of(sweep) + "s", runs);
  std::uint64_t done = 0;
  bool budget_over = false;
  const auto take = [&](std::uint64_t, SimResult&& result) {
    if (result.stopped()) return false;
    if (!result.passed()) progress.clear();
    if (!results.add(result)) return false;
    ++done;
    return add_result(sweep, reporter, result);
  };
  const auto idle = [&] {
    progress.update(done, fmt::format("{} failed", reporter.failed()));
    budget_over = sweep.time_budget != Duration{} && Clock::now() - began >= sweep.time_budget;
    return !budget_over && !StopSignals::requested();
  };
  std::string refusal;
  if (last && ranks != nullptr)
    refusal = ranks->in_order({sweep, shard, file, *last, args.jobs, args.rank_silence}, take, idle, out);
  else if (last)
    in_order<SimResult>(
        *last, args.jobs,
        [&](std::uint64_t position, const std::atomic<bool>& stop) {
          return carry_out(run_of(sweep, file, shard.run_at(position)), {}, stop);
        },
        take, idle);
  progress.clear();
  const bool enough = enough_failures(sweep, reporter);
  const auto written = results.finish(done == runs  ? sim::ShardEnd::complete
                                      : enough      ? sim::ShardEnd::enough_failures
                                      : budget_over ? sim::ShardEnd::time_budget
                                                    : sim::ShardEnd::interrupted);
  const int exit = finish_sweep(sweep, reporter, runs, budget_over, out);
  if (!refusal.empty()) return out.error(Exit::environment, refusal);
  return written ? exit : out.error(written.error().exit, written.error().text);
}

}  // namespace parley::tools
