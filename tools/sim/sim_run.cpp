// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// `parley sim run` and `parley sim replay`: run scenarios with one seed each, and draw them.
#include <memory>

#include <fmt/format.h>

#include "base/json_text.hpp"
#include "tools/jobs.hpp"
#include "tools/progress.hpp"
#include "tools/rping/session.hpp"
#include "tools/sim/sim.hpp"
#include "tools/sim/sim_report.hpp"
#include "tools/trace_sink.hpp"

namespace parley::tools {

namespace {

struct RunArgs {
  std::vector<std::string> files;
  std::optional<std::uint64_t> seed;
  std::optional<sim::DropMask> drop_mask;
  bool swarm = false, settled = false;
  bool always_hash = false;  ///< replay
  unsigned jobs = 1;
  std::string pcapng, html;
  bool ladder = false, ascii = false;
  unsigned verbose = 0;
  std::size_t width = 100;
  SimSinkOptions sinks;
};

Json ladder_json(const SimResult& result) {
  Json rows = Json::array();
  for (const draw::LadderRow& row : result.ladder->rows) {
    using Kind = draw::LadderRow::Kind;
    using Fate = draw::LadderRow::Fate;
    const auto column = [&](std::uint32_t at) {
      return at < result.ladder->columns.size() ? result.ladder->columns[at] : std::string();
    };
    Json object{{"kind", row.kind == Kind::frame  ? "frame"
                         : row.kind == Kind::note ? "note"
                                                  : "violation"},
                {"at_us", in_microseconds(row.at - Instant{})},
                {"from", column(row.from)}};
    if (row.kind == Kind::frame) {
      object["to"] = column(row.to);
      object["fate"] = row.fate == Fate::arrived ? "arrived" : row.fate == Fate::dropped ? "dropped" : "discarded";
      object["layer"] = row.layer;
      object["repeated"] = row.repeated;
    }
    object["text"] = row.text;
    if (!row.why.empty()) object["reason"] = row.why;
    rows.push_back(std::move(object));
  }
  return {{"event", "ladder"},
          {"file", result.run.file->shown},
          {"seed", seed_text(result.run.seed)},
          {"rows", std::move(rows)},
          {"rows_left_out", result.ladder->rows_dropped}};
}

class Runner {
 public:
  Runner(const RunArgs& args, Context& context) : args_(args), out_(context.out) {}
  int run();

 private:
  int prepare();
  SimResult work(std::uint64_t index, const std::atomic<bool>& stop) const;
  void add(SimResult& result);

  const RunArgs& args_;
  Output& out_;
  std::vector<ScenarioFile> scenarios_;
  std::unique_ptr<OutputFile> pcapng_, html_;
  std::unique_ptr<SimReporter> reporter_;
  std::optional<CommandError> trouble_;
};

/// Detects every error in the arguments before the first run.
int Runner::prepare() {
  auto scenarios = load_scenarios(args_.files, out_);
  if (!scenarios) return out_.error(scenarios.error().exit, scenarios.error().text);
  scenarios_ = std::move(*scenarios);
  for (const auto& [option, value] : {std::pair{"--pcapng", &args_.pcapng}, std::pair{"--html", &args_.html}})
    if (!value->empty() && scenarios_.size() > 1)
      return out_.error(Exit::usage,
                        fmt::format("{} accepts one scenario, not {}; --pcapng-on-failure DIR accepts any number",
                                    option, scenarios_.size()));
  if (const auto good = check_outputs(
          scenarios_, {{"--pcapng", args_.pcapng}, {"--html", args_.html}, {"--junit", args_.sinks.junit}});
      !good)
    return out_.error(good.error().exit, good.error().text);
  auto reporter = SimReporter::open(args_.sinks, out_);
  if (!reporter) return out_.error(reporter.error().exit, reporter.error().text);
  reporter_ = std::move(*reporter);
  reporter_->connections = true;
  auto pcapng = open_output(args_.pcapng, Readers::owner);
  if (!pcapng) return out_.error(pcapng.error().exit, pcapng.error().text);
  pcapng_ = std::move(*pcapng);
  auto html = open_output(args_.html);
  if (!html) return out_.error(html.error().exit, html.error().text);
  html_ = std::move(*html);
  std::vector<const ScenarioFile*> files;
  for (const ScenarioFile& file : scenarios_) files.push_back(&file);
  reporter_->begin(files);
  return code(Exit::ok);
}

SimResult Runner::work(std::uint64_t index, const std::atomic<bool>& stop) const {
  const ScenarioFile& file = scenarios_[index];
  const SimRun run{&file, args_.seed.value_or(file.scenario.seed), args_.swarm, args_.drop_mask, args_.settled};
  return carry_out(
      run, {pcapng_.get(), args_.always_hash, args_.ladder || html_ != nullptr, trace_level(args_.verbose)}, stop);
}

void Runner::add(SimResult& result) {
  if (html_) {
    html_->write(std::string_view(draw::to_html(*result.ladder, &reporter_->provenance())));
    result.html_file = html_->path();
  }
  for (OutputFile* file : {pcapng_.get(), html_.get()})
    if (file != nullptr)
      if (const auto written = file->finish(); !written && !trouble_) trouble_ = written.error();
  if (!out_.json && !result.trace.empty() && scenarios_.size() > 1) out_.note(result.report.scenario + ":");
  for (SimTraced& traced : result.trace) {
    traced.object["scenario"] = result.report.scenario;
    if (out_.json)
      out_.object(traced.object);
    else
      out_.note(traced.text);
  }
  if (result.trace_left_out > 0)
    out_.note(
        fmt::format("{} more events are left out; -v instead of -vv, or a shorter scenario", result.trace_left_out));
  reporter_->add(result);
  if (!args_.ladder) return;
  if (out_.json)
    out_.object(ladder_json(result));
  else
    out_.text("\n" + draw::to_text(*result.ladder, {.width = args_.width, .ascii = args_.ascii}));
}

int Runner::run() {
  if (const int wrong = prepare(); wrong != code(Exit::ok)) return wrong;
  const StopSignals signals;
  Progress progress(out_, "scenarios", scenarios_.size());
  std::uint64_t done = 0;
  in_order<SimResult>(
      scenarios_.size() - 1, args_.jobs,
      [this](std::uint64_t index, const std::atomic<bool>& stop) { return work(index, stop); },
      [&](std::uint64_t, SimResult&& result) {
        if (result.stopped()) return false;
        progress.clear();
        add(result);
        ++done;
        return true;
      },
      [&] {
        progress.update(done, fmt::format("{} failed", reporter_->failed()));
        return !StopSignals::requested();
      });
  progress.clear();
  const int exit = reporter_->finish(scenarios_.size(), false, "scenario");
  return trouble_ ? out_.error(trouble_->exit, trouble_->text) : exit;
}

void add_ladders(Command sub, RunArgs& args, Context& context) {
  sub.option("--pcapng", args.pcapng, "Record every frame at both ends of its links; prints the file's hash")
      .type("FILE");
  sub.flag("--ladder", args.ladder, "Draw the run: hosts as columns, each frame with its meaning and its fate");
  sub.option("--html", args.html, "Draw the run as one page for a browser").type("FILE");
  sub.flag("--ascii", args.ascii, "The ladder without box-drawing characters");
  add_width_option(sub, args.width, context, "Columns of the ladder");
  add_trace_option(sub, args.verbose);
  add_color_option(sub, context);
}

void add_sinks(Command sub, SimSinkOptions& sinks) {
  sub.option("--pcapng-on-failure", sinks.pcapng_on_failure,
             "Directory for a capture and a page of each failed run (at most 20)")
      .type("DIR");
  sub.option("--junit", sinks.junit, "Write the results as JUnit XML").type("FILE");
}

void set_run(Command sub, Context& context, const std::shared_ptr<RunArgs>& args) {
  sub.run([args, &context] { return Runner(*args, context).run(); }, refuse_ranks);
}

}  // namespace

void add_sim_run(Command sim, Context& context) {
  auto args = std::make_shared<RunArgs>();
  Command sub = sim.subcommand("run", "Runs scenarios and judges them");
  sub.option("FILE", args->files, "Scenarios, directories of them, or names of shipped ones")
      .type("SCENARIO")
      .required();
  add_seed(sub, "--seed", args->seed, "In place of the seed in the file; decimal or 0x hexadecimal");
  add_jobs(sub, args->jobs);
  add_settled(sub, args->settled);
  add_ladders(sub, *args, context);
  add_sinks(sub, args->sinks);
  add_json_flag(sub, context);
  sub.footer(
      "Exit code: 0 all passed, 1 a rule was broken or a bound was hit, 2 usage or a wrong scenario, 3 a file cannot "
      "be\n"
      "read or written. A failed run prints the one command that shows it again.\n\n"
      "Examples:\n"
      "  parley sim run lossy_handshake\n"
      "  parley sim run lossy_handshake --ladder --pcapng lossy.pcapng --html lossy.html\n"
      "  parley sim run scenarios/ --junit junit.xml --pcapng-on-failure artifacts/");
  set_run(sub, context, args);
}

void add_sim_replay(Command sim, Context& context) {
  auto args = std::make_shared<RunArgs>();
  args->always_hash = true;
  args->files.resize(1);
  Command sub = sim.subcommand("replay", "Runs one scenario with one seed again, octet for octet");
  sub.option("FILE", args->files.front(), "The scenario").type("SCENARIO").required();
  add_seed(sub, "--seed", args->seed, "The seed that the failed run printed").required();
  sub.flag("--swarm", args->swarm, "Parameters were drawn from the seed too");
  add_drop_mask(sub, args->drop_mask);
  add_settled(sub, args->settled);
  add_ladders(sub, *args, context);
  add_json_flag(sub, context);
  sub.footer(
      "The hash printed is that of the run's pcapng: where it is equal, the run was the same, on any machine and with "
      "any\n"
      "compiler.\n\n"
      "Examples:\n"
      "  parley sim replay reconnect.toml --seed 0x51ab --ladder\n"
      "  parley sim replay reconnect.toml --seed 0x51ab --swarm --pcapng run.pcapng --html run.html");
  set_run(sub, context, args);
}

}  // namespace parley::tools
