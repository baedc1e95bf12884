// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Tests in virtual time with GoogleTest, over many seeds:
//
//   TEST(Service, SurvivesALostRequest) {
//     parley::sim::expect_for_seeds({.seeds = {1, 200}}, [](parley::sim::Trial& trial) {
//       Peer client, server;  // declared before the world: hosts call them until they are destroyed
//       parley::sim::World world(trial.seed());
//       ...
//       trial.watch(world);
//       EXPECT_TRUE(world.run_until([&] { return client.up && server.up; }, 10s));
//     });
//   }
//
// PARLEY_SIM_SEEDS=7 or 1..5000 runs other seeds, PARLEY_SIM_CAPTURES=DIRECTORY keeps a pcapng file of each test that failed.
#pragma once
#include <fcntl.h>
#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>

#include "parley/sim_trial.hpp"

namespace parley::sim {

/// The value of an environment variable; empty if it is not set, or in a program that has more rights than its user.
inline std::string test_variable(const char* name) {
  const char* value = ::secure_getenv(name);
  return value == nullptr ? std::string() : value;
}

/// Writes the capture of a report to NAME.pcapng in the directory that PARLEY_SIM_CAPTURES names, readable by its owner alone. Returns
/// a sentence that says where it is, or why it could not be written; an empty one if there is no capture or no such variable.
inline std::string keep_capture(const TrialsReport& report, const std::string& name) {
  const std::string folder = test_variable("PARLEY_SIM_CAPTURES");
  if (folder.empty() || report.pcapng.empty()) return {};
  std::string path = folder + "/" + name + ".pcapng";
  for (std::size_t at = folder.size() + 1; at < path.size(); ++at)
    if (path[at] == '/') path[at] = '.';  // in the names of parametrised tests
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  std::FILE* const file = fd < 0 ? nullptr : ::fdopen(fd, "wb");
  if (file == nullptr) return "capture: " + path + " cannot be created\n";
  const bool written = std::fwrite(report.pcapng.data(), 1, report.pcapng.size(), file) == report.pcapng.size();
  return std::fclose(file) == 0 && written ? "capture: " + path + "\n" : "capture: " + path + " could not be written\n";
}

/// The failures of one run, with file and line. ASSERT_ macros return from the function that contains them, as always, but HasFailure()
/// returns false in the body.
inline std::string failures_of(const std::function<void(Trial&)>& body, Trial& trial) {
  testing::TestPartResultArray results;
  {
    testing::ScopedFakeTestPartResultReporter reporter(
        testing::ScopedFakeTestPartResultReporter::INTERCEPT_ONLY_CURRENT_THREAD, &results);
    body(trial);
  }
  std::string text;
  for (int i = 0; i < results.size(); ++i) {
    const testing::TestPartResult& result = results.GetTestPartResult(i);
    if (!result.failed()) continue;
    const std::string file = result.file_name() == nullptr ? "unknown file" : result.file_name();
    text += file + ":" + std::to_string(result.line_number()) + ": " + result.message() + "\n";
  }
  return text;
}

/// Runs the body for each seed. Failures of its runs become one failure of the test: the seeds, the expectations that failed, the
/// faults that are needed for it, and the ladder.
inline void expect_for_seeds(const TrialOptions& options, const std::function<void(Trial&)>& body) {
  TrialOptions with_seeds = options;
  if (const std::string text = test_variable("PARLEY_SIM_SEEDS"); !text.empty()) {
    const auto seeds = parse_seeds(text);
    if (!seeds) {
      ADD_FAILURE() << "PARLEY_SIM_SEEDS: " << seeds.error();
      return;
    }
    with_seeds.seeds = *seeds;
  }
  const TrialsReport report = run_trials(with_seeds, [&](Trial& trial) { return failures_of(body, trial); });
  if (report.passed()) return;
  const testing::TestInfo* info = testing::UnitTest::GetInstance()->current_test_info();
  const std::string name = info == nullptr ? "test" : std::string(info->test_suite_name()) + "." + info->name();
  ADD_FAILURE() << report.to_string() << keep_capture(report, name);
}

}  // namespace parley::sim
