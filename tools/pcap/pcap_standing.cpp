// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "tools/pcap/pcap_standing.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <vector>

#include "sim/scenario/scenario_value.hpp"

namespace parley::tools {

namespace {

/// Applies a value of --ignore. Returns what is wrong with it, or an empty string.
std::string ignore(capture::RulePolicy& policy, const std::string& id) {
  const capture::RuleFacts* const row = capture::find_rule(id);
  if (row == nullptr) return no_rule(id);
  policy.ignored.insert(row->rule);
  return {};
}

/// Applies "cm.early=error". Returns what is wrong with it, or an empty string.
std::string set_severity(capture::RulePolicy& policy, const std::string& word) {
  using capture::Severity;
  const std::size_t equals = word.find('=');
  if (equals == std::string::npos) return fmt::format("'{}' has no severity: ID=note, ID=warning or ID=error", word);
  const std::string id = word.substr(0, equals), severity = word.substr(equals + 1);
  const capture::RuleFacts* const row = capture::find_rule(id);
  if (row == nullptr) return no_rule(id);
  for (const Severity each : {Severity::note, Severity::warning, Severity::error}) {
    if (severity != to_string(each)) continue;
    policy.severities[row->rule] = each;
    return {};
  }
  return fmt::format("'{}' is not a severity: note, warning or error", severity);
}

}  // namespace

std::string no_rule(std::string_view id) {
  constexpr std::size_t shown_max = 5;
  std::vector<std::string_view> ids, near;
  for (const capture::RuleFacts& row : capture::all_rules()) ids.push_back(row.id);
  if (const std::string_view meant = sim::nearest(id, ids); !meant.empty()) near.push_back(meant);
  for (const std::string_view each : ids)
    if (id.size() >= 2 && each.find(id) != std::string_view::npos && near.size() < shown_max &&
        std::find(near.begin(), near.end(), each) == near.end())
      near.push_back(each);
  return fmt::format("no rule is called '{}'; {}'parley pcap rules' lists them", id.substr(0, 60),
                     near.empty() ? std::string() : fmt::format("near: {}; ", fmt::join(near, ", ")));
}

void add_standing_options(Command sub, StandingArgs& args) {
  sub.option(
         "--fail-on",
         [&args](const std::string& word) {
           args.fail_on = word == "warning" ? capture::Severity::warning : capture::Severity::error;
           return std::string();
         },
         "Findings of this severity or higher fail a connection: error (default) or warning")
      .type("SEVERITY")
      .one_of({"error", "warning"});
  sub.option("--expect", args.expect, "A file with fewer connections than that has failed").type("N");
  sub.option(
         "--ignore",
         [&args](const std::vector<std::string>& ids) {
           for (const std::string& id : ids)
             if (const std::string why = ignore(args.policy, id); !why.empty()) return why;
           return std::string();
         },
         "Leave the findings of this rule out and count them (parley pcap rules lists the rules); may be given several "
         "times")
      .type("RULE")
      .repeatable();
  sub.option(
         "--severity",
         [&args](const std::vector<std::string>& words) {
           for (const std::string& word : words)
             if (const std::string why = set_severity(args.policy, word); !why.empty()) return why;
           return std::string();
         },
         "Give the findings of a rule another severity: note, warning or error; may be given several times")
      .type("RULE=SEVERITY")
      .repeatable();
  sub.flag("--partial-ok", args.partial_ok, "What could be looked at in part only does not fail the command");
}

Exit exit_for(capture::Standing standing, const StandingArgs& args) {
  const bool good =
      standing == capture::Standing::passed || (standing == capture::Standing::partial && args.partial_ok);
  return good ? Exit::ok : Exit::failed;
}

}  // namespace parley::tools
