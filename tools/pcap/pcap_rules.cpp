// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// `parley pcap rules`: lists the rules that captures are checked against.
#include <fmt/format.h>

#include <memory>

#include "capture/rule.hpp"
#include "tools/pcap/pcap.hpp"
#include "tools/pcap/pcap_standing.hpp"

namespace parley::tools {
namespace {

using capture::RuleFacts;

Json rule_json(const RuleFacts& row) {
  return {{"key", row.id},
          {"rule", row.clause},
          {"severity", capture::to_string(row.severity)},
          {"text", row.sentence},
          {"needs", capture::to_string(row.needs)}};
}

std::string line_of(const RuleFacts& row) {
  return fmt::format("{:<29}{:<9}{:<21}{}", row.id, capture::to_string(row.severity), row.clause, row.sentence);
}

int run_rules(const std::string& id, Output& out) {
  if (id.empty()) {
    for (const RuleFacts& row : capture::all_rules()) {
      out.text(line_of(row));
      out.object(rule_json(row));
    }
    return code(Exit::ok);
  }
  const RuleFacts* const row = capture::find_rule(id);
  if (row == nullptr) return out.error(Exit::usage, no_rule(id));
  out.text(fmt::format("{}\n    {}\n    rule       {}\n    severity   {}\n    needs      {}", row->id, row->sentence,
                       row->clause, capture::to_string(row->severity), capture::to_string(row->needs)));
  out.object(rule_json(*row));
  return code(Exit::ok);
}

}  // namespace

void add_pcap_rules(Command pcap, Context& context) {
  auto id = std::make_shared<std::string>();
  Command sub = pcap.subcommand("rules", "List the rules that captures are judged by");
  sub.option("ID", *id, "Only this one: mpa.crc").type("RULE");
  add_json_flag(sub, context);
  sub.footer(
      "severity: what a finding of the rule has unless --severity of parley pcap check gives it another one.\n"
      "needs: what a capture must hold to prove a breach.\n"
      "Exit code: 0, or 2 if there is no such rule\n\n"
      "Examples:\n"
      "  parley pcap rules\n"
      "  parley pcap rules mpa.crc\n"
      "  parley pcap rules --json | jq -r 'select(.severity == \"error\").key'\n"
      "  parley pcap check --ignore cm.early --severity mpa.crc-not-asked=error *.pcap");
  sub.run([id, &context] { return run_rules(*id, context.out); });
}

}  // namespace parley::tools
