// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "tools/sim/demo_sim.hpp"

#include <fmt/format.h>

#include "base/text.hpp"
#include "tools/lossy_handshake.hpp"
#include "tools/sim/sim_report.hpp"

namespace parley::tools {

namespace {

constexpr std::size_t width = 110;

}  // namespace

int demo_simulation(Output& out) {
  ScenarioFile file;
  file.shown = "lossy_handshake";
  auto scenario = sim::parse_scenario(lossy_handshake_toml, "lossy_handshake.toml");
  if (!scenario) return out.error(Exit::failed, scenario.error().front().to_string());
  file.scenario = std::move(*scenario);
  const std::atomic<bool> no_stop{false};
  const SimRun run{&file, file.scenario.seed, false, {}};
  const SimResult result = carry_out(run, {.hash = true, .ladder = true}, no_stop);
  const sim::RunReport& report = result.report;
  out.text(
      "Parley demo. First in a simulated network, in virtual time: two hosts set up a connection over a link that "
      "loses\n"
      "frames. It is the same protocol code that runs on sockets further below.\n");
  out.text(draw::to_text(*result.ladder, {.width = width}));
  out.text(
      fmt::format("{} frames were lost, and still: {}, in {} of virtual time. The seed makes it the same each time:\n"
                  "  parley sim run {} --ladder          pcapng fnv1a 0x{:016x}\n",
                  report.counters.dropped, outcome_text(report),
                  precise_duration_text(report.finished_at.time_since_epoch()), file.shown, *result.hash));
  out.object({{"event", "simulated"},
              {"scenario", report.scenario},
              {"seed", seed_text(run.seed)},
              {"verdict", verdict_word(result)},
              {"established", report.established},
              {"frames_dropped", report.counters.dropped},
              {"pcapng_fnv1a", fmt::format("0x{:016x}", *result.hash)}});
  if (!result.passed()) return out.error(Exit::failed, "the simulated handshake: " + first_trouble(report));
  return code(Exit::ok);
}

}  // namespace parley::tools
