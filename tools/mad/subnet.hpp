// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// A discovery as commands run it: with progress, until Ctrl-C, and what is told of one that did not come to its end.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "mad/discover.hpp"
#include "tools/mad/session.hpp"
#include "tools/progress.hpp"

namespace parley::tools {

/// Progress on a terminal alone, and an end by SIGINT or SIGTERM; lives as long as a StopSignals.
class LongWork {
 public:
  LongWork(Output& out, std::string unit, std::uint64_t total);
  /// `done` and `remark` are asked when something is to be shown.
  mad_driver::RunHooks hooks(std::function<std::uint64_t()> done, std::function<std::string()> remark = {});
  void clear();

 private:
  std::optional<Progress> progress_;
};

struct Subnet {
  mad::Discovery found;
  std::string cut_by;  ///< why it is not all; empty: it is
};
/// What was found before the transport went, too.
Subnet discover_subnet(MadSession& session, mad::DiscoverOptions options, Output& out);
/// What keeps a discovery that came to its end from being good, a sentence each; empty: nothing.
std::vector<std::string> doubts_about(const Subnet& subnet);
/// The same on standard error; false: there are any.
bool tell_doubts(const Subnet& subnet, Output& out);
/// "54 switches, 648 channel adapters, 1296 links"
std::string summary_text(const mad::Topology& topology);
/// {"event": "summary", ...} without what a command adds.
Json summary_json(const Subnet& subnet);

}  // namespace parley::tools
