// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Texts for faults, and what a rule may say: shared by the injector and the scenario reader.
#pragma once
#include <string>

#include "parley/sim.hpp"

namespace parley::sim {

/// crash, restart, pause, resume.
bool is_host_action(FaultAction action);
/// The host by name, or "node 7" if no world has named it.
std::string host_text(const FaultRule& rule);
/// All that is wrong with a rule, each as a sentence that names the key and says what to write; it begins with the key
/// where one key is wrong.
std::vector<std::string> rule_problems(const FaultRule& rule);
/// The first of them.
Checked<void> check_rule(const FaultRule& rule);

}  // namespace parley::sim
