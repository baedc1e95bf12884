// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// A test in virtual time that runs once for each of many seeds. When one fails, the faults that it does not need are left out,
// and the report has the ladder of what remains. parley/sim_test.hpp is the same for GoogleTest; any other framework can use
// run_trials() itself. docs/simulator.md has an example.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "parley/bytes.hpp"
#include "parley/sim.hpp"

namespace parley::sim {

/// Seeds in order; both ends are included.
struct Seeds {
  std::uint64_t first = 1, last = 100;
};
/// Decimal or 0x hexadecimal, up to 2^64-1. Errors: malformed, out of range.
Checked<std::uint64_t> parse_seed(std::string_view text);
/// "1..5000", "0x10..0x1f", "7". Errors: malformed, out of range, reversed.
Checked<Seeds> parse_seeds(std::string_view text);

/// One run of a test. It belongs to run_trials(), and outlives the worlds that the test makes.
class Trial {
 public:
  Trial(const Trial&) = delete;
  Trial& operator=(const Trial&) = delete;

  std::uint64_t seed() const;
  /// Call it when the topology is complete, before the first step: the run that is reported is recorded by a tap of this world.
  /// Without this call, or with another tap of the test's own, the report has no ladder.
  void watch(World& world);
  /// World::add_fault, for faults that the search for a smaller failure may leave out. A fault that is given to the world itself
  /// always stays.
  Checked<void> add_fault(World& world, LinkId link, LinkDirection way, const FaultRule& rule);
  Checked<void> add_fault(World& world, const FaultRule& host_rule);

 private:
  friend class TrialRuns;
  struct Impl;
  explicit Trial(Impl& impl) : impl_(impl) {}
  Impl& impl_;
};

struct TrialOptions {
  Seeds seeds{};
  std::size_t failures_max = 20;        ///< no further seed is run after so many that failed
  std::uint32_t shrink_runs_max = 500;  ///< runs that look for faults to leave out
  std::size_t rows_max = 500;           ///< of the ladder
  std::size_t width = 100;              ///< columns of the ladder; at least 60
  bool ascii = false;                   ///< the ladder in ASCII only
};

struct TrialsReport {
  std::uint64_t runs = 0;             ///< seeds that were run
  std::vector<std::uint64_t> failed;  ///< the seeds that failed, in order
  bool cut_off = false;               ///< `failures_max` was reached: seeds were left out
  // The first seed that failed:
  std::string why;  ///< as the test said it
  /// With the same seed and the same faults it failed again. If not, the test depends on more than its seed: a clock, an address, a
  /// variable that outlives a run. Nothing was left out then, and there is no ladder.
  bool repeatable = true;
  std::size_t faults = 0;                ///< given to Trial::add_fault
  std::vector<std::string> faults_left;  ///< those without which it does not fail: "a/p1 > b/p1: drop, mpa_request"
  std::string why_left;                  ///< as the test said it with these alone
  bool shrink_cut_off = false;           ///< `shrink_runs_max` was reached: fewer faults may do
  std::string ladder;                    ///< of the run with these faults; empty without Trial::watch
  Bytes pcapng;                          ///< of the same run; at most 64 MiB

  bool passed() const { return failed.empty() && runs > 0; }
  /// All of it as text, without the capture.
  std::string to_string() const;
};

/// Runs the test for each seed. The test says why it failed, or nothing; an exception of type std::exception is a failure too.
TrialsReport run_trials(const TrialOptions& options, const std::function<std::string(Trial&)>& test);

}  // namespace parley::sim
