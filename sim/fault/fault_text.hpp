// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Texts for faults, and the checks of rules: shared by the injector and the scenario reader.
#pragma once
#include <string>

#include "parley/sim.hpp"

namespace parley::sim {

/// crash, restart, pause, resume.
bool is_host_action(FaultAction action);
/// The host by name, or "node 7" if it has no name.
std::string host_text(const FaultRule& rule);
/// All errors of a rule, each as a sentence that names the key and the correction; it begins with the key if one key is
/// wrong.
std::vector<std::string> rule_problems(const FaultRule& rule);
/// The first of them.
Checked<void> check_rule(const FaultRule& rule);

}  // namespace parley::sim
