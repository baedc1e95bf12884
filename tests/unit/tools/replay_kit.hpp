// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// For tests of replay in the simulator: the differences that were reviewed, and captures of shipped scenarios.
#pragma once
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <sstream>
#include <string>

#include "sim/record/record.hpp"
#include "sim/run/run.hpp"

namespace parley::tools {

/// The reviewed list of a folder of captures: file, connection and role to the first difference. Everything that is not in it is the
/// same, and everything that is in it is there.
class ReviewedDifferences {
 public:
  explicit ReviewedDifferences(const std::string& folder) {
    std::ifstream file(std::string(PARLEY_SOURCE_DIR) + "/tests/captures/" + folder + "/replay_differences.txt");
    std::string line;
    while (std::getline(file, line)) {
      if (line.empty() || line.front() == '#') continue;
      const std::size_t bar = line.find(" | "), second = line.find(" | ", bar + 3);
      EXPECT_NE(second, std::string::npos) << "no reason is given: " << line;
      expected_[line.substr(0, bar)] = line.substr(bar + 3, second - bar - 3);
    }
  }
  std::size_t size() const { return expected_.size(); }
  /// `difference`: the first, or "same".
  void played(const std::string& name, std::size_t connection, capture::Side side, const std::string& difference,
              const std::string& log) {
    const std::string key = name + " " + std::to_string(connection) + " " + std::string(capture::to_string(side));
    const auto it = expected_.find(key);
    EXPECT_EQ(difference, it == expected_.end() ? "same" : it->second) << key << "\n" << log;
    if (it != expected_.end()) expected_.erase(it);
    ++played_;
    if (difference == "same") ++same_;
  }
  /// More were played, and more of them without difference, than that.
  void finish(std::size_t played, std::size_t same) const {
    for (const auto& [key, what] : expected_) ADD_FAILURE() << "no such recording any more: " << key;
    EXPECT_GT(played_, played);
    EXPECT_GT(same_, same);
  }

 private:
  std::map<std::string, std::string> expected_;
  std::size_t played_ = 0, same_ = 0;
};

/// A capture of a shipped scenario.
inline Bytes simulated(const std::string& name, std::uint64_t seed) {
  std::ifstream in(std::string(PARLEY_SOURCE_DIR) + "/sim/scenarios/" + name + ".toml");
  std::stringstream text;
  text << in.rdbuf();
  const auto scenario = sim::parse_scenario(text.str(), name);
  EXPECT_TRUE(scenario) << name;
  Bytes out;
  if (!scenario) return out;
  sim::PcapngTap tap({"test", name, seed}, [&out](ConstBytes octets) {
    out.insert(out.end(), octets.begin(), octets.end());
    return true;
  });
  sim::RunOptions options;
  options.seed = seed;
  options.tap = &tap;
  options.on_world = [&tap](const sim::World& world) { tap.begin(world); };
  const sim::RunReport report = sim::run_scenario(*scenario, options);
  EXPECT_TRUE(report.passed()) << name;
  tap.finish(&report);
  return out;
}

}  // namespace parley::tools
