// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// What came of simulated runs: as text, JSON, JUnit, and for GitHub's pages. Text and JSON of a run hold no wall-clock
// time, so that they are the same whenever and on however many threads it ran.
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
/// A broken rule on one line: checker, time, connection, sentence.
std::string violation_text(const sim::Violation& violation);
/// The first thing that went wrong, on one line; empty when nothing did.
std::string first_trouble(const sim::RunReport& report);

/// One line, and below it what went wrong, what was pending and the one command that shows it again.
std::string run_text(const SimResult& result);
/// The same as an object; `connections` adds one object for each attempt.
Json run_json(const SimResult& result, bool connections);
JunitCase run_junit(const SimResult& result);

/// Where results go besides standard output; opened before the first run.
struct SimSinkOptions {
  std::string junit;
  std::string pcapng_on_failure;  ///< directory
};

/// Collects the results of one command in order and writes everything that was asked for.
class SimReporter {
 public:
  /// Errors: environment, an output that cannot be written.
  static Or<std::unique_ptr<SimReporter>> open(const SimSinkOptions& options, Output& out);

  /// How much of each run is printed: all of them (run), or only failures (explore).
  bool tell_passed = true;
  bool connections = false;  ///< in JSON

  /// Says where what follows comes from. Before the first run.
  void begin(const std::vector<const ScenarioFile*>& files);
  const draw::Provenance& provenance() const { return provenance_; }
  /// Prints and counts one finished run.
  void take(SimResult& result);
  std::uint64_t passed() const { return passed_; }
  std::uint64_t failed() const { return failed_; }
  /// Ends the reports. `wanted` runs were to be made; fewer means that the command was interrupted. Returns the exit
  /// code.
  int finish(std::uint64_t wanted, bool fewer_is_well, const std::string& what);

 private:
  explicit SimReporter(Output& out) : out_(out) {}
  void annotate(const SimResult& result);

  Output& out_;
  draw::Provenance provenance_;
  std::string directory_;
  std::unique_ptr<OutputFile> junit_;
  std::map<std::string, int> stems_;     ///< of the records written, at most recorded_max
  std::unique_ptr<OutputFile> summary_;  ///< $GITHUB_STEP_SUMMARY
  bool annotations_ = false;             ///< $GITHUB_ACTIONS
  std::vector<JunitCase> cases_;         ///< failures always; passed runs up to cases_max
  std::vector<std::string> rows_;        ///< of the summary's table: failures, at most rows_max
  std::uint64_t passed_ = 0, failed_ = 0;
  std::optional<Complaint> trouble_;  ///< an output that could not be written to its end
};

/// Text and properties of a GitHub workflow command.
std::string github_escape(std::string_view text, bool property);

}  // namespace parley::tools
