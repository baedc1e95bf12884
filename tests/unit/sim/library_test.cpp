// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The scenarios that ship: each can be read, says what it is about, is left alone by writing and reading, and ends as
// it says.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "mpa/quirks.hpp"
#include "sim/run/run.hpp"
#include "sim/scenario/scenario.hpp"

namespace parley::sim {
namespace {

std::vector<std::filesystem::path> library() {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(PARLEY_SOURCE_DIR "/sim/scenarios"))
    if (entry.path().extension() == ".toml") files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::stringstream content;
  content << file.rdbuf();
  return content.str();
}

std::string names_of(const std::vector<Violation>& violations) {
  std::string out;
  for (const Violation& v : violations) out += v.checker + ": " + v.connection + ": " + v.text + '\n';
  return out;
}

TEST(SimLibrary, HasWhatIsPromised) {
  std::set<std::string> names;
  for (const auto& path : library()) names.insert(path.stem().string());
  EXPECT_GE(names.size(), 28u);
  for (const char* name : {"handshake_v1_classic",
                           "handshake_v1_rtr_frame",
                           "handshake_v1_read",
                           "handshake_v1_send",
                           "handshake_v1_write",
                           "handshake_v2_client_server",
                           "handshake_v2_read",
                           "handshake_v2_send",
                           "handshake_v2_write",
                           "lossy_handshake",
                           "partition_to_responder",
                           "partition_to_initiator",
                           "slow_accept",
                           "reject_with_private_data",
                           "simultaneous_close",
                           "half_close",
                           "lossy_marker_stream",
                           "pause_and_resume",
                           "process_ends",
                           "process_stops",
                           "incast_16",
                           "switch_hops",
                           "roce_drop_second_rep",
                           "roce_drop_ack_of_psn",
                           "roce_duplicate_dreq",
                           "roce_crash_responder",
                           "roce_ecn",
                           "roce_and_iwarp"})
    EXPECT_EQ(names.count(name), 1u) << name;
  for (const char* who : {"initiator", "responder"})
    for (const char* step : {"before_request", "after_request", "after_reply", "after_rtr", "in_data", "in_close"})
      EXPECT_EQ(names.count(std::string("crash_") + who + '_' + step), 1u) << who << ' ' << step;
  for (const mpa::Quirk& quirk : mpa::all_quirks()) {
    std::string name = "quirk_" + std::string(quirk.name);
    std::replace(name.begin(), name.end(), '-', '_');
    EXPECT_EQ(names.count(name), 1u) << name;
  }
}

TEST(SimLibrary, EachSaysWhatItIsAbout) {
  for (const auto& path : library()) {
    const std::string text = read_file(path);
    EXPECT_TRUE(text.starts_with("# SPDX-License-Identifier")) << path;
    EXPECT_GE(std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(text.find("\nname")), '#'), 2)
        << path;
    const auto scenario = parse_scenario(text, path.filename().string());
    ASSERT_TRUE(scenario) << scenario.error().front().to_string();
    EXPECT_EQ(scenario->name, path.stem().string());
    EXPECT_GE(scenario->description.size(), 5u) << path;
    const auto again = parse_scenario(to_toml(*scenario), "again.toml");
    ASSERT_TRUE(again) << path << ' ' << again.error().front().to_string();
    EXPECT_EQ(to_toml(*again), to_toml(*scenario)) << path;
  }
}

TEST(SimLibrary, EachEndsAsItSays) {
  for (const auto& path : library()) {
    const auto scenario = parse_scenario(read_file(path), path.filename().string());
    ASSERT_TRUE(scenario) << path;
    for (std::uint64_t seed = 1; seed <= 3; ++seed) {
      const RunReport report = run_scenario(*scenario, {.seed = seed});
      EXPECT_TRUE(report.passed()) << path << " with seed " << seed << '\n' << names_of(report.violations);
      const bool flood =
          path.stem().string().find("flood_") != std::string::npos;  // thousands of connections are its point
      EXPECT_LT(report.counters.events, flood ? 200'000u : 20'000u) << path << " is to take milliseconds";
      // A fault that is described and never happens tells a wrong story.
      EXPECT_TRUE(seed != 1 || (report.faults_hit > 0) == !scenario->faults.empty()) << path;
      EXPECT_TRUE(report.queue_drops > 0 || path.stem() != "incast_16") << path;
    }
  }
}

// What a listener without room answers decides when its second caller is up: the times of the policies do not overlap.
TEST(SimLibrary, AFullListenerAnswersAsItsPolicySays) {
  const auto second = [](std::string_view policy) {
    for (const auto& path : library())
      if (path.stem() == "roce_full_" + std::string(policy))
        return run_scenario(*parse_scenario(read_file(path), path.filename().string()), {.seed = 1}).outcomes.at(1);
    ADD_FAILURE() << "no scenario roce_full_" << policy;
    return ConnectionOutcome{};
  };
  using std::chrono::milliseconds;
  EXPECT_GT(second("mra").setup, milliseconds(540));
  EXPECT_GT(second("retry_after").setup, milliseconds(250));
  EXPECT_LT(second("retry_after").setup, milliseconds(450));
  EXPECT_GT(second("drop").setup, milliseconds(20));
  EXPECT_LT(second("drop").setup, milliseconds(200));
  EXPECT_TRUE(second("refuse").initiator.starts_with("failed")) << second("refuse").initiator;
}

}  // namespace
}  // namespace parley::sim
