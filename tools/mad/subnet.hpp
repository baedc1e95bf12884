// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// A discovery as commands run it: with progress, until Ctrl-C, and with a report if it was interrupted.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "mad/discover.hpp"
#include "tools/mad/session.hpp"
#include "tools/progress.hpp"

namespace parley::tools {

/// Shows progress on a terminal only, and ends at SIGINT or SIGTERM. Needs a StopSignals for its lifetime.
class CommandProgress {
 public:
  CommandProgress(Output& out, std::string unit, std::uint64_t total);
  /// `done` and `remark` are called when progress is shown.
  mad_driver::RunHooks hooks(std::function<std::uint64_t()> done, std::function<std::string()> remark = {});
  void clear();

 private:
  std::optional<Progress> progress_;
};

struct DiscoveredSubnet {
  mad::Discovery found;
  std::string cut_by;  ///< why the discovery is incomplete; empty: it is complete
};
/// If the transport fails, returns what was found before.
DiscoveredSubnet discover_subnet(MadSession& session, mad::DiscoverOptions options, Output& out);
/// Why a complete discovery is doubtful, a sentence each; empty: it is not.
std::vector<std::string> doubts_about(const DiscoveredSubnet& subnet);
/// Prints them to standard error. Returns false if there are any.
bool print_doubts(const DiscoveredSubnet& subnet, Output& out);
/// "54 switches, 648 channel adapters, 1296 links"
std::string summary_text(const mad::Topology& topology);
/// {"event": "summary", ...} without the keys that a command adds.
Json summary_json(const DiscoveredSubnet& subnet);

}  // namespace parley::tools
