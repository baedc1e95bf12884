// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// One simulated run: its scenario and seed, what to record, and its result.
#pragma once
#include <atomic>
#include <optional>
#include <string>
#include <vector>

#include "base/json.hpp"
#include "parley/sim_trial.hpp"
#include "parley/trace.hpp"
#include "sim/record/record.hpp"
#include "sim/run/run.hpp"
#include "tools/sim/sim_files.hpp"

namespace parley::tools {

/// Everything that determines a run, apart from the commit.
struct SimRun {
  const ScenarioFile* file = nullptr;
  std::uint64_t seed = 0;
  bool swarm = false;  ///< parameters are drawn from the seed too
  std::optional<sim::DropMask> drop_mask{};
  bool settled = false;  ///< an orderly failure on both ends passes too
};

inline constexpr std::size_t trace_max = 100'000;  ///< trace events kept for one run

struct SimRecording {
  OutputFile* pcapng = nullptr;
  bool hash = false;  ///< compute the hash of the pcapng, even if no file is written
  bool ladder = false;
  std::optional<trace::Level> trace{};
};

/// A trace event, for text and for JSON output.
struct SimTraced {
  std::string text;
  Json object;
};

struct SimResult {
  SimRun run;
  sim::RunReport report;
  std::vector<std::string> drawn;     ///< --swarm: the differences from the file
  std::optional<std::uint64_t> hash;  ///< FNV-1a of the pcapng
  std::optional<draw::Ladder> ladder;
  std::vector<SimTraced> trace;  ///< at most trace_max
  std::uint64_t trace_left_out = 0;
  std::uint64_t cpu_us = 0;            ///< of this thread
  std::string pcapng_file, html_file;  ///< paths of the written files; empty until then
  bool passed() const { return report.passed(); }
  /// The run was interrupted: it neither passed nor failed.
  bool stopped() const { return report.end == sim::RunEnd::stopped && report.violations.empty(); }
};

/// The scenario of this run, with drawn parameters and relaxed expectations.
sim::Scenario scenario_of(const SimRun& run, std::vector<std::string>* drawn = nullptr);
/// Runs it in its own world on this thread. `stop` ends it early.
SimResult carry_out(const SimRun& run, const SimRecording& recording, const std::atomic<bool>& stop);

/// The notation of seeds: "0x51ab".
std::string seed_text(std::uint64_t seed);
/// As sim::parse_seed and sim::parse_seeds. Errors: usage.
Or<std::uint64_t> parse_seed(std::string_view text);
using SeedRange = sim::Seeds;
Or<SeedRange> parse_seed_range(std::string_view text);
Option add_seed(Command sub, const std::string& name, std::optional<std::uint64_t>& target, const std::string& help);

/// "0x5"; with the layer if it is not tcp: "mpa:0x5".
std::string mask_text(const sim::DropMask& mask);
void add_drop_mask(Command sub, std::optional<sim::DropMask>& target);
/// Errors: usage, with a list of the layers.
Or<sim::Layer> parse_mask_layer(std::string_view text);
void add_settled(Command sub, bool& settled);

/// The command that repeats this run.
std::string replay_command(const SimRun& run);
/// A path as an argument. A path with a leading dash gets "./", because it would be taken for an option.
std::string file_word(const std::string& path);
/// "lossy_handshake-0x51ab": the prefix of the names of a run's files.
std::string file_stem(const SimRun& run);

/// Repeats a failed run to record it, and writes DIR/<stem>.pcapng and .html. A run is a function of its inputs. If the
/// second run differs from the first, that is an error.
Or<void> record_failure(SimResult& failed, const std::string& directory, const std::string& stem,
                        const std::atomic<bool>& stop, const draw::Provenance& report);

}  // namespace parley::tools
