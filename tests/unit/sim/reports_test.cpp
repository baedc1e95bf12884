// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// How the shipped scenarios end, to the nanosecond and the octet. Who reports a scenario and a seed has reported a run:
// what happens in it is not to change unawares. Where it changes on purpose, the tables say what a user will notice.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "reports_kit.hpp"
#include "sim/scenario/scenario.hpp"
#include "tests/unit/reviewed.hpp"

namespace parley::sim::test {
namespace {

std::vector<Scenario> shipped() {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(PARLEY_SOURCE_DIR "/sim/scenarios"))
    if (entry.path().extension() == ".toml") files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  // Those of RoCE came later: behind the others they take no seed from them.
  std::stable_partition(files.begin(), files.end(),
                        [](const auto& path) { return !path.filename().string().starts_with("roce_"); });
  std::vector<Scenario> out;
  for (const auto& path : files) {
    std::ifstream file(path);
    std::stringstream content;
    content << file.rdbuf();
    auto scenario = parse_scenario(content.str(), path.filename().string());
    EXPECT_TRUE(scenario) << path;
    if (scenario) out.push_back(std::move(*scenario));
  }
  return out;
}

TEST(SimReports, ShippedScenariosEndAsReviewed) {
  std::string out;
  Legend legend;
  for (const Scenario& scenario : shipped()) out += run_line(record_run(scenario, scenario.seed), legend);
  expect_as_reviewed("sim_reports.txt", out + legend.text());
}

TEST(SimReports, SeedsThatWereReportedStillRunAsTheyDid) {
  constexpr std::uint64_t seeds = 3;
  std::uint64_t first = 1;
  std::string out = fmt::format(
      "# {} seeds of each, with drawn parameters: sums of their connections, faults, hops, events, frames that hosts "
      "sent,\n"
      "# TCP's repetitions, virtual time in ns, octets of the connections, of pcapng and ladder, records and octets of "
      "traces.\n",
      seeds);
  for (const Scenario& scenario : shipped()) {
    if (scenario.name.starts_with("flood_")) continue;  // thousands of connections each
    RunReport sum;
    std::uint64_t frames = 0, again = 0, octets = 0;
    std::size_t pcapng = 0, ladder = 0, records = 0, trace = 0, parameters = 0;
    Duration time{};
    for (std::uint64_t seed = first; seed < first + seeds; ++seed) {
      std::vector<std::string> drawn;
      const Scenario swarm = draw_swarm(scenario, seed, &drawn);
      const Recorded run = record_run(swarm, seed);
      EXPECT_TRUE(run.report.passed()) << violations_text(run.report);
      sum.established += run.report.established;
      sum.rejected += run.report.rejected;
      sum.failed += run.report.failed;
      sum.faults_hit += run.report.faults_hit;
      sum.groups.insert(sum.groups.end(), run.report.groups.begin(), run.report.groups.end());
      sum.counters.packet_hops += run.report.counters.packet_hops;
      sum.counters.events += run.report.counters.events;
      for (const auto& [name, c] : run.hosts) frames += c.frames_out, again += c.tcp_retransmits;
      for (const ConnectionOutcome& o : run.report.outcomes) octets += o.octets, time += o.setup;
      time += run.report.finished_at.time_since_epoch();
      pcapng += run.pcapng, ladder += run.ladder, records += run.trace_records, trace += run.trace;
      for (const std::string& one : drawn) parameters += one.size();
    }
    out += fmt::format("{} from {}: {}; {} {} {} {} {} {} {} {} {} {} {} {}\n", pad(scenario.name, 36), first,
                       connections_text(sum), sum.faults_hit, sum.counters.packet_hops, sum.counters.events, frames,
                       again, time.count(), octets, pcapng, ladder, records, trace, parameters);
    first += seeds;
  }
  expect_as_reviewed("sim_seeds.txt", out);
}

}  // namespace
}  // namespace parley::sim::test
