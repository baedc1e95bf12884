// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "tools/pcap_standing.hpp"

#include <string>

namespace parley::tools {

void add_standing_options(CLI::App& sub, StandingArgs& args) {
  sub.add_option_function<std::string>(
         "--fail-on",
         [&args](const std::string& word) {
           args.fail_on = word == "warning" ? verdict::Severity::warning : verdict::Severity::error;
         },
         "Findings as grave as that fail a connection: error, unless given, or warning")
      ->type_name("SEVERITY")
      ->check(CLI::IsMember({"error", "warning"}));
  sub.add_option("--expect", args.expect, "A file with fewer connections than that has failed")->type_name("N");
  sub.add_flag("--partial-ok", args.partial_ok, "What could be looked at in part only does not fail the command");
}

Exit exit_for(verdict::Standing standing, const StandingArgs& args) {
  const bool good =
      standing == verdict::Standing::passed || (standing == verdict::Standing::partial && args.partial_ok);
  return good ? Exit::ok : Exit::failed;
}

}  // namespace parley::tools
