// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Prints one line with hashes for each scenario given: of its run, of runs with drawn parameters, and of the pages
// drawn from them; then of three storms. Built with several compilers and optimisations; tests/determinism/compare.sh
// holds their lines against each other. Only pure rooms are linked: what they compute may not depend on who built them.
#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "sim/record/record.hpp"
#include "sim/run/run.hpp"

namespace {

using namespace parley;

/// FNV-1a, as the pcapng's.
std::uint64_t fnv1a(std::string_view text, std::uint64_t hash = 0xcbf29ce484222325) {
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

std::string report_text(const sim::RunReport& report) {
  std::string text =
      fmt::format("{} {} {} {} {} {} {} {} {}", report.scenario, report.seed, static_cast<int>(report.end),
                  report.established, report.rejected, report.failed, report.faults_hit,
                  report.finished_at.time_since_epoch().count(), report.counters.events);
  for (const auto& v : report.violations)
    text += fmt::format("\n{} {} {} {} {}", v.checker, v.at.time_since_epoch().count(), v.connection, v.text, v.rule);
  for (const auto& o : report.outcomes)
    text += fmt::format("\n{} {} {} {} {}", o.label, o.initiator, o.responder, o.setup.count(), o.octets);
  for (const auto& g : report.groups) text += fmt::format("\n{} {} {}", g.label, g.datagrams, g.octets);
  for (const auto& node : report.xrc) {
    text += fmt::format("\n{} {} {} {}", node.label, node.created, node.destroyed, node.reaped);
    for (const auto& process : node.processes)
      text += fmt::format(" {} {} {}", process.exited, process.messages, process.octets);
  }
  for (const auto& pending : report.pending) text += "\n" + pending;
  return text;
}

/// One run: pcapng, report, ladder and page.
std::string run_hashes(const sim::Scenario& scenario, std::uint64_t seed) {
  sim::PcapngTap pcapng({"parley", scenario.name, seed}, [](ConstBytes) { return true; });
  sim::LadderTap ladder;
  sim::TapFan fan;
  fan.add(&pcapng);
  fan.add(&ladder);
  sim::RunOptions options;
  options.seed = seed;
  options.tap = &fan;
  options.on_world = [&](const sim::World& world) {
    pcapng.begin(world);
    ladder.begin(world);
  };
  const sim::RunReport report = sim::run_scenario(scenario, options);
  pcapng.finish(&report);
  const draw::Ladder drawn = ladder.finish(&report);
  return fmt::format("{:016x} {:016x} {:016x} {:016x}", pcapng.hash(), fnv1a(report_text(report)),
                     fnv1a(draw::to_text(drawn)), fnv1a(draw::to_html(drawn)));
}

bool tell_scenario(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const std::string name = path.substr(path.rfind('/') + 1);
  // Only the name: the builds may look at the files from different places.
  const auto scenario = sim::parse_scenario(text, name);
  if (!file.is_open() || !scenario) {
    fmt::print(stderr, "hashes: {}: {}\n", path,
               file.is_open() ? scenario.error().front().to_string() : std::string("cannot be read"));
    return false;
  }
  fmt::print("{} seed {} {}\n", name, scenario->seed, run_hashes(*scenario, scenario->seed));
  constexpr std::uint64_t seed = 0x51ab;
  const sim::Scenario drawn = sim::draw_swarm(*scenario, seed);
  fmt::print("{} swarm {} {:016x} {}\n", name, seed, fnv1a(sim::to_toml(drawn)), run_hashes(drawn, seed));
  return true;
}

void tell_storm(std::string_view name, sim::StormPattern pattern) {
  sim::StormOptions options;
  options.nodes = 12;
  options.ppn = 2;
  options.pattern = pattern;
  options.loss = {1, 100};
  options.seed = 7;
  const sim::StormReport report = sim::run_storm(options);
  std::string text = fmt::format("{} {} {} {} {} {} {} {}", report.established, report.failed, report.retried,
                                 report.alive_peak, report.virtual_time.count(), report.counters.events,
                                 report.counters.packet_hops, report.counters.dropped);
  for (const auto& [step, quantiles] : report.steps)
    for (const Duration quantile : quantiles) text += fmt::format(" {}={}", step, quantile.count());
  fmt::print("storm {} {:016x}\n", name, fnv1a(text));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    fmt::print(stderr, "usage: sim_hashes SCENARIO.toml...\n");
    return 2;
  }
  bool good = true;
  for (int i = 1; i < argc; ++i) good &= tell_scenario(argv[i]);
  tell_storm("alltoall", sim::StormPattern::alltoall);
  tell_storm("ring", sim::StormPattern::ring);
  tell_storm("incast", sim::StormPattern::incast);
  return good ? 0 : 3;
}
