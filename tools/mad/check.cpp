// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// `parley mad check`: widths, speeds, states, LIDs and error counters of a whole subnet.
#include <fmt/format.h>

#include "base/text.hpp"
#include "mad/topology_check.hpp"
#include "mad/topology_print.hpp"
#include "tools/mad/counters.hpp"
#include "tools/mad/mad.hpp"
#include "tools/mad/subnet.hpp"
#include "tools/rping/session.hpp"

namespace parley::tools {

namespace {

struct CheckArgs {
  MadOptions mad;
  bool no_counters = false;
  unsigned factor = 1;
  CheckArgs() { mad.window = 32; }
};

Json finding_json(const mad::Topology& topology, const mad::TopologyFinding& finding) {
  const mad::TopologyNode& node = topology.nodes()[finding.node];
  return {{"event", "finding"},
          {"fault", mad::name_of(finding.fault)},
          {"guid", mad::guid_text(node.guid)},
          {"name", topology.description(node)},
          {"port", finding.port},
          {"text", finding.text}};
}

/// Appends the findings of counters to those of links.
void read_counters(MadSession& session, DiscoveredSubnet& subnet, const CheckArgs& args,
                   std::vector<mad::TopologyFinding>& findings, CounterTally& tally, Output& out) {
  const mad::Topology& topology = subnet.found.topology;
  const StopSignals signals;
  const std::vector<CounterPlace> places = ports_with_counters(topology);
  CommandProgress work(out, "ports", places.size());
  const auto take = [&](const CounterPlace& place, const mad::Reply<wire::mad::PortCounters>& counters) {
    if (!counters) {
      findings.push_back(
          {place.node, place.port, mad::TopologyFault::lost, "its counters: " + counters.error().message()});
      return;
    }
    if (std::string text = mad::check_counters(*counters, args.factor); !text.empty())
      findings.push_back({place.node, place.port, mad::TopologyFault::counter, std::move(text)});
  };
  const auto ran = session.run(each_counters(session, places, topology, tally, take),
                               work.hooks([&] { return tally.read + tally.lost; }));
  work.clear();
  if (!ran) subnet.cut_by = ran.error().text;
  if (ran && tally.cut) subnet.cut_by = "interrupted";
}

int print_findings(const DiscoveredSubnet& subnet, const std::vector<mad::TopologyFinding>& findings,
                   const CounterTally& tally, bool no_counters, Output& out) {
  const mad::Topology& topology = subnet.found.topology;
  for (const mad::TopologyFinding& finding : findings) {
    out.text(fmt::format("error  {}: {}", mad::port_text(topology, finding.node, finding.port), finding.text));
    out.object(finding_json(topology, finding));
  }
  bool good = print_doubts(subnet, out) && findings.empty() && subnet.cut_by.empty();
  if (!no_counters && tally.read == 0) {
    out.note("no counters were read");
    good = false;
  }
  std::string verdict = good ? "passed" : (subnet.cut_by.empty() ? "failed" : "partial");
  out.text(fmt::format("{}: {}; {}, counters of {}{}", verdict, counted(findings.size(), "finding"),
                       summary_text(topology), counted(tally.read, "port"),
                       subnet.cut_by.empty() ? "" : "; cut short: " + subnet.cut_by));
  Json summary = summary_json(subnet);
  summary["findings"] = findings.size();
  summary["ports_with_counters"] = tally.read;
  summary["verdict"] = verdict;
  out.object(summary);
  return code(good ? Exit::ok : Exit::failed);
}

int run_check(const CheckArgs& args, Output& out) {
  auto session = MadSession::open(args.mad, out);
  if (!session) return out.error(session.error().exit, session.error().text);
  mad::DiscoverOptions options;
  options.jobs_max = std::size_t{args.mad.window} * 4;
  DiscoveredSubnet subnet = discover_subnet(**session, options, out);
  if (subnet.found.topology.nodes().empty())
    return out.error(Exit::environment, subnet.cut_by.empty() ? "the local port does not answer" : subnet.cut_by);
  auto findings = mad::check_links(subnet.found.topology);
  CounterTally tally;
  if (!args.no_counters && subnet.cut_by.empty()) read_counters(**session, subnet, args, findings, tally, out);
  if (const auto written = (*session)->finish(); !written) return out.error(written.error().exit, written.error().text);
  return print_findings(subnet, findings, tally, args.no_counters, out);
}

}  // namespace

void register_mad_check(Command mad, Context& context) {
  auto args = std::make_shared<CheckArgs>();
  Command sub = mad.subcommand(
      "check", "Report slow and narrow links, ports that are not active, duplicate LIDs and error counters");
  sub.flag("--no-counters", args->no_counters, "Check only links");
  sub.option("--factor", args->factor, "Multiplier of the thresholds of the counters")
      .range(1U, 1000000U)
      .shows_default();
  add_mad_options(sub, args->mad);
  add_json_flag(sub, context);
  add_color_option(sub, context);
  sub.footer(
      "Exit status 0: everything was looked at and nothing found; 1: findings, not everything answered, or there was "
      "nothing to look at.\n"
      "Thresholds are those of ibcheckerrors: 10 for symbol errors, recoveries, downs and receive errors, 100 for "
      "discards.\n"
      "Examples:\n  parley mad check\n  parley mad check --no-counters --json");
  sub.run([args, &context] { return run_check(*args, context.out); });
}

}  // namespace parley::tools
