// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The results of simulated runs as text, JSON, JUnit, and GitHub annotations and summaries. The text and JSON of a run
// contain no wall-clock time, so that they do not depend on when and on how many threads it ran.
#pragma once
#include <string>
#include <vector>

#include "tools/junit.hpp"
#include "tools/sim/sim_once.hpp"

namespace parley::tools {

/// "passed", "failed", "stopped".
std::string_view verdict_word(const SimResult& result);
/// "3 established, 1 rejected"; "no connection".
std::string outcome_text(const sim::RunReport& report);
/// A violation in one line: checker, time, connection, message.
std::string violation_text(const sim::Violation& violation);
/// The first violation or bound in one line; empty if there was none.
std::string first_trouble(const sim::RunReport& report);

/// One line for the run. Below it: what failed, what was pending, and the command that repeats the run.
std::string run_text(const SimResult& result);
/// The same as an object. `connections` adds one object for each attempt.
Json run_json(const SimResult& result, bool connections);
JunitCase run_junit(const SimResult& result);

/// Outputs besides standard output. They are opened before the first run.
struct SimSinkOptions {
  std::string junit;
  std::string pcapng_on_failure;  ///< directory
};

/// Collects the results of one command in order and writes all requested outputs.
class SimReporter {
 public:
  /// Errors: environment, if an output cannot be written.
  static Or<std::unique_ptr<SimReporter>> open(const SimSinkOptions& options, Output& out);

  /// Which runs are printed: all (run), or only failures (explore).
  bool tell_passed = true;
  bool connections = false;  ///< in JSON

  /// Sets and prints the provenance of the results. Call it before the first run.
  void begin(const std::vector<const ScenarioFile*>& files);
  const draw::Provenance& provenance() const { return provenance_; }
  /// Prints and counts one finished run.
  void add(SimResult& result);
  std::uint64_t passed() const { return passed_; }
  std::uint64_t failed() const { return failed_; }
  /// Ends the reports. `wanted` is the planned number of runs; fewer runs mean an interruption, unless `fewer_is_well`.
  /// Returns the exit code.
  int finish(std::uint64_t wanted, bool fewer_is_well, const std::string& what);

 private:
  explicit SimReporter(Output& out) : out_(out) {}
  void annotate(const SimResult& result);

  Output& out_;
  draw::Provenance provenance_;
  std::string directory_;
  std::unique_ptr<OutputFile> junit_;
  std::map<std::string, int> stems_;     ///< stems of the written records, at most recorded_max
  std::unique_ptr<OutputFile> summary_;  ///< $GITHUB_STEP_SUMMARY
  bool annotations_ = false;             ///< $GITHUB_ACTIONS
  std::vector<JunitCase> cases_;         ///< failures always; passed runs up to cases_max
  std::vector<std::string> rows_;        ///< of the summary's table: failures, at most rows_max
  std::uint64_t passed_ = 0, failed_ = 0;
  std::optional<CommandError> trouble_;  ///< an output could not be written completely
};

/// Escapes text or a property of a GitHub workflow command.
std::string github_escape(std::string_view text, bool property);

}  // namespace parley::tools
