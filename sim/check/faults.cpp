// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "sim/check/faults.hpp"

#include <fmt/format.h>

#include "sim/scenario/scenario_schema.hpp"

namespace parley::sim::check {
namespace {

/// "the fault at x.toml:12", or "fault 2" if the scenario is not a file.
std::string place_text(const Scenario& scenario, std::size_t index) {
  const int line = scenario.faults[index].line;
  if (line == 0) return fmt::format("fault {}", index + 1);
  return fmt::format("the fault at {}:{}", scenario.file, line);
}

std::string why(const ScenarioFault& fault, const FaultTally& tally) {
  if (is_momentary(fault))
    return tally.aimed != 0 ? "the host or its process was in that state already, or in none that the action applies to"
                            : "everything had settled before its time";
  if (tally.matched == 0) return "no such frame passed while it held";
  if (tally.aimed == 0)
    return fmt::format("{} such frames passed, and nth, times, chance or mask ask for others", tally.matched);
  return fmt::format("of the {} frames that it chose another fault took each, or it found nothing there to change",
                     tally.aimed);
}

/// Host restarts and healed links may come after everything has settled.
bool heals(const ScenarioFault& fault) {
  return fault.rule.action == FaultAction::restart || fault.rule.action == FaultAction::resume ||
         fault.rule.action == FaultAction::continue_process;
}

}  // namespace

void check_faults(const Scenario& scenario, const std::vector<FaultTally>& settled, const std::vector<FaultTally>& end,
                  Instant now, Judge& judge) {
  for (std::size_t i = 0; i < scenario.faults.size(); ++i) {
    const ScenarioFault& fault = scenario.faults[i];
    const auto& tallies = is_momentary(fault) && !heals(fault) ? settled : end;
    const FaultTally tally = i + 1 < tallies.size() ? tallies[i + 1] : FaultTally{};
    if (fault.may_miss || tally.hit != 0 || tally.spared != 0) continue;
    const std::string& name = fault.rule.name;
    FaultRule rule = fault.rule;
    rule.host_name = fault.host;
    judge.add("faults", now, {},
              fmt::format("{} ({}) never hit anything: {}; mend it, or write may_miss = true", place_text(scenario, i),
                          name.empty() ? rule.to_string() : name, why(fault, tally)));
  }
}

}  // namespace parley::sim::check
