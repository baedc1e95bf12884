// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// `parley fabric`: serves a simulated InfiniBand subnet to the programs on this machine.
#include <fstream>
#include <iostream>
#include <memory>

#include <fmt/format.h>

#include "base/escape.hpp"
#include "base/text.hpp"
#include "drivers/ibsim/client.hpp"
#include "tools/command.hpp"
#include "tools/fabric/server.hpp"
#include "tools/fabric/tell.hpp"
#include "tools/fabric/topology.hpp"
#include "tools/own_program.hpp"
#include "tools/rping/session.hpp"

namespace parley::tools {

namespace {

using sim::subnet::RouteReport;
using sim::subnet::Subnet;

struct FabricArgs {
  TopologyArgs topology;
  std::string write, name, tell;
  std::vector<std::string> faults;
  sim::subnet::SubnetOptions subnet;
  bool check_routes = false;
};

std::string name_of(const FabricArgs& args) {
  return args.name.empty() ? ibsim::environment_options().name : args.name;
}

int write_out(const FabricArgs& args, const sim::subnet::Plan& plan, Output& out) {
  const std::string text = write_plan(plan);
  if (args.write == "-") {
    out.verbatim(text);
    return code(Exit::ok);
  }
  std::ofstream file(args.write, std::ios::binary);
  file << text;
  file.close();
  if (!file) return out.error(Exit::environment, fmt::format("{} cannot be written", printable(args.write, false)));
  out.text(fmt::format("{}: {}", printable(args.write, false), counted(plan.nodes.size(), "node")));
  out.object({{"event", "written"}, {"file", args.write}, {"nodes", plan.nodes.size()}});
  return code(Exit::ok);
}

void print_faults(const Subnet& subnet, Output& out) {
  for (const auto* const rules : {&subnet.rules(), &subnet.commands()})
    for (const sim::subnet::FaultRule& rule : *rules) {
      out.text(fmt::format("fault '{}': {}", rule.text, counted(rule.hits, "hit")));
      out.object({{"event", "fault"}, {"fault", rule.text}, {"hits", rule.hits}});
    }
}

bool print_routes(const Subnet& subnet, Output& out) {
  const RouteReport report = check_routes(subnet.state());
  for (const std::string& wrong : report.wrong) out.text(wrong);
  out.text(fmt::format("routes: {} of {} pairs of hosts, {} of {} from hosts to switches, at most {} links: {}",
                       report.reached, report.pairs, report.switches_reached, report.switches, report.hops_max,
                       report.good() ? "good" : "WRONG"));
  out.object({{"event", "routes"},
              {"pairs", report.pairs},
              {"reached", report.reached},
              {"to_switches", report.switches},
              {"switches_reached", report.switches_reached},
              {"links_max", report.hops_max},
              {"wrong", report.wrong},
              {"good", report.good()}});
  return report.good();
}

void print_end(const Subnet& subnet, const FabricServer& server, Output& out) {
  const sim::subnet::Statistics& of = subnet.statistics();
  const ServerStatistics& served = server.statistics();
  out.text(fmt::format("{} from {}: {} answered, {} forwarded, {} undeliverable, {} malformed", counted(of.sent, "MAD"),
                       counted(served.clients, "client"), of.answered, of.forwarded, of.undeliverable, of.malformed));
  if (of.traps > 0) out.text(fmt::format("{}, {} repressed", counted(of.traps, "trap"), of.repressed));
  if (of.lost + of.delayed + of.duplicated + of.busy > 0)
    out.text(fmt::format("by faults: {} lost, {} delayed, {} duplicated, {} answered BUSY", of.lost, of.delayed,
                         of.duplicated, of.busy));
  const std::uint64_t dropped = served.dropped + of.overflows;
  if (dropped > 0) out.text(fmt::format("{} dropped for clients that did not read", counted(dropped, "datagram")));
  out.object({{"event", "ended"},
              {"clients", served.clients},
              {"clients_most", served.clients_most},
              {"clients_died", served.died},
              {"clients_refused", served.refused},
              {"received", served.received},
              {"sent", served.sent},
              {"dropped", dropped},
              {"unreadable", served.unreadable},
              {"answered", of.answered},
              {"forwarded", of.forwarded},
              {"refused", of.refused},
              {"undeliverable", of.undeliverable},
              {"malformed", of.malformed},
              {"lost", of.lost},
              {"delayed", of.delayed},
              {"duplicated", of.duplicated},
              {"busy", of.busy},
              {"traps", of.traps},
              {"repressed", of.repressed},
              {"m_key_violations", of.m_key_violations}});
}

void print_serving(const Subnet& subnet, const std::string& name, std::size_t nodes, Output& out) {
  std::size_t ends = 0;
  for (std::uint32_t i = 0; i < subnet.state().ports(); ++i)
    ends += subnet.state().port(i).peer != sim::subnet::nowhere ? 1 : 0;
  const std::string preload = own_library("libparley_umad.so");
  out.text(fmt::format("serving {} and {} as '{}'", counted(nodes, "node"), counted(ends / 2, "link"),
                       printable(name, false)));
  if (!preload.empty()) out.text(fmt::format("programs join with LD_PRELOAD={}", printable(preload, false)));
  out.object({{"event", "serving"},
              {"name", name},
              {"nodes", nodes},
              {"links", ends / 2},
              {"preload", preload.empty() ? Json() : Json(preload)}});
}

int serve(const FabricArgs& args, sim::subnet::Plan plan, Output& out) {
  const StopSignals stop;
  const std::size_t nodes = plan.nodes.size();
  Subnet subnet(std::move(plan), args.subnet, clock_now());
  const std::string name = name_of(args);
  auto server = FabricServer::open(subnet, name, out);
  if (!server) return out.error(server.error().exit, server.error().text);
  for (const std::string& fault : args.faults)
    if (const auto added = subnet.add_fault(clock_now(), fault); !added)
      return out.error(Exit::usage, fmt::format("--fault '{}': {}", printable(fault, false), added.error()));
  print_serving(subnet, name, nodes, out);
  while (!stop.requested()) (*server)->turn(std::chrono::milliseconds(200));
  print_faults(subnet, out);
  const bool good = !args.check_routes || print_routes(subnet, out);
  print_end(subnet, **server, out);
  return code(good ? Exit::ok : Exit::failed);
}

int run_fabric(const FabricArgs& args, Output& out) {
  if (!args.tell.empty()) return tell_fabric(name_of(args), args.tell, out);
  auto plan = load_topology(args.topology);
  if (!plan) return out.error(plan.error().exit, plan.error().text);
  return args.write.empty() ? serve(args, std::move(*plan), out) : write_out(args, *plan, out);
}

std::string wrong_with(const FabricArgs& args) {
  const bool serves = args.tell.empty() && args.write.empty();
  if (!serves &&
      (args.check_routes || !args.faults.empty() || args.subnet.loss.of > 0 || args.subnet.delay > Duration()))
    return "--check-routes, --fault, --loss and --delay exclude --write and --tell";
  if (!args.tell.empty() && !args.write.empty()) return "--write and --tell cannot be used together";
  if (!args.tell.empty())
    return args.topology.sources() == 0 ? "" : "--tell needs no subnet: it sends a command to a running server";
  if (args.topology.sources() != 1) return "exactly one of FILE, --fat-tree, --torus and --dragonfly is needed";
  return {};
}

}  // namespace

void register_fabric(Command app, Context& context) {
  auto args = std::make_shared<FabricArgs>();
  Command sub = app.subcommand("fabric", "Simulate an InfiniBand subnet for opensm, infiniband-diags and others");
  add_topology_options(sub, args->topology);
  sub.option("--write", args->write,
             "Write the subnet in ibsim's net format instead of serving it ('-': standard output)")
      .type("FILE");
  sub.option("--name", args->name,
             "Name of the sockets, for IBSIM_SOCKNAME of the clients (default: IBSIM_SOCKNAME, or 'sim')")
      .type("NAME");
  sub.option("--fault", args->faults, "A fault, described by meaning (see below)").type("FAULT").repeatable();
  sub.option(
         "--loss",
         [args](const std::string& text) {
           const auto loss = sim::subnet::parse_percentage(text);
           if (loss) args->subnet.loss = *loss;
           return loss ? std::string() : loss.error();
         },
         "Lose this share of all MADs, requests and answers: 1%")
      .type("PERCENT");
  add_duration(sub, "--delay", args->subnet.delay, "Delay all MADs by this time, requests and answers");
  sub.option("--seed", args->subnet.seed, "Seed of the random choices").type("NUMBER").shows_default();
  sub.flag(
      "--check-routes", args->check_routes,
      "At the end, follow the forwarding tables from each host to each other host and switch; exit 1 if one is not "
      "reached");
  sub.option("--tell", args->tell,
             "Command for a running server: 'down NODE:PORT', 'up NODE:PORT', 'reset NODE', a fault, or 'check-routes'")
      .type("TEXT");
  add_json_flag(sub, context);
  sub.footer(
      "Programs need a preload library: ibsim's libumad2sim.so, or libparley_umad.so. SIM_HOST names their "
      "node.\n"
      "Faults:\n"
      "  lose 3rd SubnGetResp(PortInfo) of S0007    delay 20ms every 10th *          at 2s reset S0007\n"
      "  lose 5% of SubnGet(*)                      busy 1st SubnGet(*) of H00003    at 500ms down S0007:3\n"
      "  duplicate 1% of *                          integrity, overrun or watchdog S0007:3\n"
      "  vl15 8 20us of S0007\n"
      "Examples:\n"
      "  parley fabric --fat-tree 2,36,36,18 --check-routes\n"
      "  parley fabric net.txt --loss 1% --fault 'reset 2nd SubnSet(LinearForwardingTable) of S0007'\n"
      "  parley fabric --torus 4x4x4,2 --write torus.net\n"
      "  parley fabric --tell 'down S0007:3'");
  sub.run([args, &context] { return run_fabric(*args, context.out); }, [args] { return wrong_with(*args); });
}

}  // namespace parley::tools
