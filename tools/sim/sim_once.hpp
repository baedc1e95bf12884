// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// One simulated run as the commands see it: which scenario with which seed, what is recorded, and what came of it.
#pragma once
#include <atomic>
#include <optional>
#include <string>
#include <vector>

#include "base/json.hpp"
#include "parley/trace.hpp"
#include "sim/record/record.hpp"
#include "sim/run/run.hpp"
#include "tools/sim/sim_files.hpp"

namespace parley::tools {

/// All that a run is a function of, besides the commit.
struct SimRun {
  const ScenarioFile* file = nullptr;
  std::uint64_t seed = 0;
  bool swarm = false;  ///< parameters are drawn from the seed too
  std::optional<sim::DropMask> drop_mask{};
  bool settled = false;  ///< an orderly failure on both ends is well too
};

inline constexpr std::size_t trace_max = 100'000;  ///< events kept of one run

struct SimRecording {
  OutputFile* pcapng = nullptr;
  bool hash = false;  ///< of the pcapng, also when no file is written
  bool ladder = false;
  std::optional<trace::Level> trace{};
};

/// An event of the trace, for either kind of output.
struct SimTraced {
  std::string text;
  Json object;
};

struct SimResult {
  SimRun run;
  sim::RunReport report;
  std::vector<std::string> drawn;     ///< --swarm: what differs from the file
  std::optional<std::uint64_t> hash;  ///< FNV-1a of the pcapng
  std::optional<draw::Ladder> ladder;
  std::vector<SimTraced> trace;  ///< at most trace_max
  std::uint64_t trace_left_out = 0;
  std::uint64_t cpu_us = 0;            ///< of this thread
  std::string pcapng_file, html_file;  ///< where they are, once they are
  bool passed() const { return report.passed(); }
  /// Neither passed nor failed: it was stopped from outside.
  bool stopped() const { return report.end == sim::RunEnd::stopped && report.violations.empty(); }
};

/// The scenario as this run has it: parameters drawn, expectations loosened.
sim::Scenario scenario_of(const SimRun& run, std::vector<std::string>* drawn = nullptr);
/// Runs it in a world of its own on this thread; `stop` ends it early.
SimResult carry_out(const SimRun& run, const SimRecording& recording, const std::atomic<bool>& stop);

/// "0x51ab": how seeds are written.
std::string seed_text(std::uint64_t seed);
/// Decimal or 0x hexadecimal, up to 2^64-1. Errors: usage.
Or<std::uint64_t> parse_seed(std::string_view text);
/// "1..5000", "0x10..0x1f", "7"; both ends are included. Errors: usage (malformed, out of range, reversed).
struct SeedRange {
  std::uint64_t first = 1, last = 1;
};
Or<SeedRange> parse_seed_range(std::string_view text);
Option add_seed(Command sub, const std::string& name, std::optional<std::uint64_t>& target, const std::string& help);

/// "0x5", or "mpa:0x5" for another layer than tcp.
std::string mask_text(const sim::DropMask& mask);
void add_drop_mask(Command sub, std::optional<sim::DropMask>& target);
/// Errors: usage, with the layers there are.
Or<sim::Layer> parse_mask_layer(std::string_view text);
void add_settled(Command sub, bool& settled);

/// The command that shows this run again.
std::string replay_command(const SimRun& run);
/// A path as an argument: a leading dash would make it an option.
std::string file_word(const std::string& path);
/// "lossy_handshake-0x51ab": the start of the names of a run's files.
std::string file_stem(const SimRun& run);

/// Writes what was recorded of a failed run, by running it once more: DIR/<stem>.pcapng and .html. The run is a
/// function of its inputs, so the second must be equal to the first; if it is not, that is said too.
Or<void> record_failure(SimResult& failed, const std::string& directory, const std::string& stem,
                        const std::atomic<bool>& stop, const draw::Provenance& report);

}  // namespace parley::tools
