// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Runs of scenarios that tests write as text, and what came of them in words, for a test that fails.
#pragma once
#include <gtest/gtest.h>

#include <string>

#include <fmt/format.h>

#include "sim/run/run.hpp"
#include "sim/scenario/scenario.hpp"

namespace parley::sim::run_kit {

inline RunReport run(const Scenario& scenario, std::uint64_t seed = 1) {
  return run_scenario(scenario, {.seed = seed});
}
inline RunReport run(const std::string& toml) {
  const auto read = parse_scenario(toml, "x.toml");
  EXPECT_TRUE(read) << read.error().front().to_string();
  return run(read.value_or(Scenario{}));
}

inline std::string words(const RunReport& report) {
  std::string out = connections_text(report) + "\n";
  for (const Violation& v : report.violations) out += v.checker + " " + v.connection + ": " + v.text + "\n";
  for (const std::string& p : report.pending) out += "pending: " + p + "\n";
  for (const ConnectionOutcome& o : report.outcomes) out += o.label + ": " + o.initiator + " / " + o.responder + "\n";
  for (const GroupOutcome& g : report.groups) out += fmt::format("{}: {}\n", g.label, g.datagrams);
  return out;
}

}  // namespace parley::sim::run_kit
