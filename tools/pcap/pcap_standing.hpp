// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The options that change when a capture counts as passed, partial or failed. They are the same for every subcommand
// that checks captures.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "capture/analyzer.hpp"
#include "tools/command.hpp"

namespace parley::tools {

struct StandingArgs {
  capture::Severity fail_on = capture::Severity::error;
  std::uint64_t expect = 0;
  bool partial_ok = false;
  capture::RulePolicy policy;
};

/// --fail-on, --expect, --partial-ok, --ignore, --severity.
void add_standing_options(Command sub, StandingArgs& args);
/// "no rule is called 'mpa.crcc'; did you mean mpa.crc? ...": the rules with near ids.
std::string no_rule(std::string_view id);
Exit exit_for(capture::Standing standing, const StandingArgs& args);

}  // namespace parley::tools
