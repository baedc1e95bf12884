// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// `parley sim merge`: the report of a sweep from the files of results of its shards.
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include <fmt/format.h>

#include "base/text.hpp"
#include "sim/sweep/results_file.hpp"
#include "tools/sim/sim.hpp"
#include "tools/sim/sim_sweep.hpp"
#include "tools/version.hpp"

namespace parley::tools {

namespace {

struct MergeArgs {
  std::vector<std::string> files;
  SimSinkOptions sinks;
};

Or<Bytes> read_results(const std::string& path) {
  const auto cannot = [&path](std::string_view why) {
    return command_error(Exit::environment, fmt::format("cannot read '{}': {}", path, why));
  };
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"), &std::fclose);
  if (!file) return cannot(std::strerror(errno));
  Bytes octets;
  constexpr std::size_t step = 1 << 20;
  for (std::size_t size = 0;;) {
    octets.resize(size + step);
    const std::size_t got = std::fread(octets.data() + size, 1, step, file.get());
    size += got;
    if (std::ferror(file.get()) != 0) return cannot(std::strerror(errno));
    if (size > sim::results_file_max)
      return cannot(fmt::format("it has more than {} octets: too large for a file of results", sim::results_file_max));
    if (got == step) continue;
    octets.resize(size);
    return octets;
  }
}

/// Files of results. They must all be shards of one sweep that this program would do too.
class Merger {
 public:
  Merger(const MergeArgs& args, Output& out) : args_(args), out_(out) {}
  int run();

 private:
  Or<void> read();
  Or<void> check() const;
  /// Adds the results in the order of their runs.
  Or<void> add_all(SimReporter& reporter) const;
  Or<bool> add(std::uint64_t index, ConstBytes record, SimReporter& reporter) const;
  void note_ends() const;
  const sim::Sweep& sweep() const { return shards_.front().results.sweep; }

  const MergeArgs& args_;
  Output& out_;
  std::vector<Bytes> octets_;
  std::vector<sim::NamedResults> shards_;
  ScenarioFile file_;
};

Or<void> Merger::read() {
  std::size_t all = 0;
  for (const std::string& path : args_.files) {
    auto octets = read_results(path);
    if (!octets) return tl::unexpected(octets.error());
    all += octets->size();
    if (all > sim::results_merged_max)
      return command_error(Exit::environment, fmt::format("'{}' and the files before it have {} octets, and at most {} "
                                                          "are merged",
                                                          path, all, sim::results_merged_max));
    octets_.push_back(std::move(*octets));
    auto results = sim::parse_results(octets_.back());
    if (!results) return command_error(Exit::environment, fmt::format("'{}' {}", path, results.error()));
    shards_.push_back({path, std::move(*results)});
  }
  return {};
}

Or<void> Merger::check() const {
  if (sweep().build != application_text())
    return command_error(Exit::usage, fmt::format("'{}' is from {}, and this is {}", shards_.front().name,
                                                  sweep().build, application_text()));
  std::vector<std::pair<std::string, std::string>> outputs{{"--junit", args_.sinks.junit}};
  for (const sim::NamedResults& shard : shards_)
    outputs.emplace_back("shard " + to_text(shard.results.shard), shard.name);
  return check_outputs({file_}, outputs);
}

Or<bool> Merger::add(std::uint64_t index, ConstBytes record, SimReporter& reporter) const {
  auto result = result_of(run_of(sweep(), file_, index), record, out_.json);
  if (!result)
    return command_error(
        Exit::environment,
        fmt::format(
            "'{}' is damaged: its record of {} {} is wrong", shards_[index % shards_.size()].name, unit_of(sweep()),
            sweep().kind == sim::Sweep::Kind::explore ? seed_text(sweep().seed_of(index)) : fmt::format("{}", index)));
  return add_result(sweep(), reporter, *result);
}

Or<void> Merger::add_all(SimReporter& reporter) const {
  std::size_t longest = 0;
  for (const sim::NamedResults& shard : shards_) longest = std::max(longest, shard.results.records.size());
  for (std::uint64_t position = 0; position < longest; ++position)
    for (const sim::NamedResults& shard : shards_) {
      if (position >= shard.results.records.size()) continue;
      const auto more = add(shard.results.shard.run_at(position), shard.results.records[position], reporter);
      if (!more) return tl::unexpected(more.error());
      if (!*more) return {};
    }
  return {};
}

void Merger::note_ends() const {
  for (const sim::NamedResults& shard : shards_)
    if (shard.results.end == sim::ShardEnd::interrupted)
      out_.note(fmt::format("'{}' (shard {}) was interrupted after {}", shard.name, to_text(shard.results.shard),
                            counted(shard.results.records.size(), "run")));
}

int Merger::run() {
  const auto fail = [this](const CommandError& error) { return out_.error(error.exit, error.text); };
  if (const auto good = read(); !good) return fail(good.error());
  if (const std::string trouble = match_shards(shards_); !trouble.empty()) return out_.error(Exit::usage, trouble);
  auto file = scenario_in(sweep());
  if (!file) return fail(file.error());
  file_ = std::move(*file);
  if (const auto good = check(); !good) return fail(good.error());
  auto reporter = SimReporter::open(args_.sinks, out_);
  if (!reporter) return fail(reporter.error());
  // From here on everything is as the sweep's own command would print it.
  out_.command = sweep().kind == sim::Sweep::Kind::explore ? "sim explore" : "sim exhaust";
  (*reporter)->tell_passed = false;
  (*reporter)->begin({&file_});
  print_sweep(sweep(), out_);
  if (const auto good = add_all(**reporter); !good) return fail(good.error());
  note_ends();
  const bool budget_over =
      std::ranges::any_of(shards_, [](const auto& shard) { return shard.results.end == sim::ShardEnd::time_budget; });
  const bool interrupted =
      std::ranges::any_of(shards_, [](const auto& shard) { return shard.results.end == sim::ShardEnd::interrupted; });
  return finish_sweep(sweep(), **reporter, runs_of(sweep().last), budget_over && !interrupted, out_);
}

}  // namespace

void add_sim_merge(Command sim, Context& context) {
  auto args = std::make_shared<MergeArgs>();
  Command sub = sim.subcommand("merge", "Makes one report of the results of all shards");
  sub.option("FILE", args->files, "The files that --results of each shard wrote").type("FILE").required();
  sub.option("--pcapng-on-failure", args->sinks.pcapng_on_failure,
             "Directory for a capture and a page of each failed run (at most 20)")
      .type("DIR");
  sub.option("--junit", args->sinks.junit, "Write the results as JUnit XML").type("FILE");
  add_color_option(sub, context);
  add_json_flag(sub, context);
  sub.footer(
      "The report is that of one process that did all runs: the same failures in the same order. Files of another\n"
      "version, scenario, range of seeds or options are refused, and so is a shard that is missing or given twice.\n"
      "Exit code: 0 every run passed, 1 one failed or a shard was interrupted, 2 the files do not belong together, 3 "
      "a\n"
      "file cannot be read or is damaged.\n\n"
      "Examples:\n"
      "  parley sim explore lossy_handshake --seeds 1..5000 --shard 1/2 --results 1.results\n"
      "  parley sim explore lossy_handshake --seeds 1..5000 --shard 2/2 --results 2.results\n"
      "  parley sim merge 1.results 2.results --junit junit.xml");
  sub.run([args, &context] { return Merger(*args, context.out).run(); }, refuse_ranks);
}

}  // namespace parley::tools
