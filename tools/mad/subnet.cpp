// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "tools/mad/subnet.hpp"

#include <fmt/format.h>

#include "base/text.hpp"
#include "tools/rping/session.hpp"

namespace parley::tools {

CommandProgress::CommandProgress(Output& out, std::string unit, std::uint64_t total) {
  if (Progress::standard_error_is_terminal()) progress_.emplace(out, std::move(unit), total);
}

mad_driver::RunHooks CommandProgress::hooks(std::function<std::uint64_t()> done, std::function<std::string()> remark) {
  mad_driver::RunHooks out;
  out.stop = [] { return StopSignals::requested(); };
  if (!progress_) return out;
  out.tick = [this, done = std::move(done), remark = std::move(remark)] {
    progress_->update(done(), remark ? remark() : std::string());
  };
  return out;
}

void CommandProgress::clear() {
  if (progress_) progress_->clear();
}

DiscoveredSubnet discover_subnet(MadSession& session, mad::DiscoverOptions options, Output& out) {
  DiscoveredSubnet subnet;
  if (!session.has_smps()) {
    subnet.cut_by = "RoCE has no subnet management to query";
    return subnet;
  }
  const StopSignals signals;
  CommandProgress work(out, "requests", 0);
  options.path = session.with_options(options.path);
  const auto hooks = work.hooks([&] { return subnet.found.asked; },
                                [&] { return counted(subnet.found.topology.nodes().size(), "node"); });
  const auto ran = session.run(mad::discover(session.port(), options, subnet.found), hooks);
  work.clear();
  if (!ran)
    subnet.cut_by = ran.error().text;
  else if (subnet.found.full)
    subnet.cut_by = fmt::format("more than {} nodes", options.nodes_max);
  else if (!subnet.found.whole)
    subnet.cut_by = "interrupted";
  return subnet;
}

std::vector<std::string> doubts_about(const DiscoveredSubnet& subnet) {
  const mad::Discovery& found = subnet.found;
  std::vector<std::string> out;
  if (found.lost > 0)
    out.push_back(
        fmt::format("{} had no answer; the nodes and ports concerned are marked", counted(found.lost, "request")));
  if (found.doubtful > 0)
    out.push_back(
        fmt::format("the ends of {} contradict each other: two nodes have the same GUID, or something "
                    "changed meanwhile",
                    counted(found.doubtful, "link")));
  if (found.topology.links() == 0) out.emplace_back("no link was found, so that there was none to look at");
  return out;
}

bool print_doubts(const DiscoveredSubnet& subnet, Output& out) {
  const auto doubts = doubts_about(subnet);
  for (const std::string& doubt : doubts) out.note(doubt);
  return doubts.empty();
}

std::string summary_text(const mad::Topology& topology) {
  using wire::mad::NodeType;
  const std::size_t switches = topology.count(NodeType::switch_), routers = topology.count(NodeType::router);
  return fmt::format("{} {}, {}, {}{}", switches, switches == 1 ? "switch" : "switches",
                     counted(topology.count(NodeType::channel_adapter), "channel adapter"),
                     routers > 0 ? counted(routers, "router") + ", " : std::string(),
                     counted(topology.links(), "link"));
}

Json summary_json(const DiscoveredSubnet& subnet) {
  using wire::mad::NodeType;
  const mad::Topology& topology = subnet.found.topology;
  return {{"event", "summary"},
          {"whole", subnet.cut_by.empty()},
          {"cut_by", subnet.cut_by.empty() ? Json() : Json(subnet.cut_by)},
          {"switches", topology.count(NodeType::switch_)},
          {"channel_adapters", topology.count(NodeType::channel_adapter)},
          {"routers", topology.count(NodeType::router)},
          {"links", topology.links()},
          {"requests", subnet.found.asked},
          {"lost", subnet.found.lost},
          {"doubtful", subnet.found.doubtful}};
}

}  // namespace parley::tools
