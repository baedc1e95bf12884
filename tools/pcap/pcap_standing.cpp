// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "tools/pcap/pcap_standing.hpp"

#include <string>

namespace parley::tools {

void add_standing_options(Command sub, StandingArgs& args) {
  sub.option(
         "--fail-on",
         [&args](const std::string& word) {
           args.fail_on = word == "warning" ? capture::Severity::warning : capture::Severity::error;
           return std::string();
         },
         "Findings as grave as that fail a connection: error, unless given, or warning")
      .type("SEVERITY")
      .one_of({"error", "warning"});
  sub.option("--expect", args.expect, "A file with fewer connections than that has failed").type("N");
  sub.flag("--partial-ok", args.partial_ok, "What could be looked at in part only does not fail the command");
}

Exit exit_for(capture::Standing standing, const StandingArgs& args) {
  const bool good =
      standing == capture::Standing::passed || (standing == capture::Standing::partial && args.partial_ok);
  return good ? Exit::ok : Exit::failed;
}

}  // namespace parley::tools
