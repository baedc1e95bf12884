// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "tools/mad/session.hpp"

#include <random>

#include <fmt/format.h>

#include "base/escape.hpp"
#include "drivers/mad/where.hpp"
#include "tools/fabric/topology.hpp"

namespace parley::tools {

namespace {

struct Opened : mad_driver::Opened {
  std::unique_ptr<sim::subnet::VirtualSubnet> net = {};  // of a simulated transport
};

Or<Opened> open_simulation(const MadOptions& options) {
  auto plan = load_topology(topology_in("--sim", options.sim.subnet));
  if (!plan) return tl::unexpected(plan.error());
  auto net = std::make_unique<sim::subnet::VirtualSubnet>(std::move(*plan),
                                                          sim::subnet::SubnetOptions{.seed = options.sim.seed});
  auto transport = net->attach({.node = options.sim.node});
  if (!transport) return command_error(Exit::usage, fmt::format("--sim-node: {}", transport.error()));
  for (const std::string& fault : options.sim.faults)
    if (const auto added = net->subnet().add_fault(net->now(), fault); !added)
      return command_error(Exit::usage, fmt::format("--sim-fault '{}': {}", printable(fault, false), added.error()));
  return Opened{{std::move(*transport), "the simulated subnet"}, std::move(net)};
}

Or<Opened> open_transport(const MadOptions& options, const mad::PathText* path) {
  if (!options.sim.subnet.empty()) return open_simulation(options);
  std::string wanted = options.transport;
  if (wanted.empty() && path != nullptr && !path->device.empty())
    wanted = fmt::format("umad:{}{}", path->device, path->port != 0 ? fmt::format("/{}", path->port) : std::string());
  auto opened = mad_driver::open_where(wanted);
  if (!opened)
    return command_error(Exit::environment,
                         fmt::format("{}{}", opened.error(), wanted.empty() ? "; see --transport" : ""));
  return Opened{std::move(*opened)};
}

/// Adds --sim and the three options that need it.
void add_sim_options(Command sub, MadOptions& options, Option transport) {
  auto& sim = options.sim;
  Option subnet =
      sub.option("--sim", sim.subnet,
                 "Simulate this subnet in virtual time, without another program: a FILE that `parley fabric` reads, "
                 "fat-tree:LEVELS,RADIX,PODS,HOSTS, torus:SIZExSIZE,HOSTS or dragonfly:ROUTERS,GLOBALS,HOSTS")
          .type("SUBNET")
          .excludes(transport);
  sub.option("--sim-node", sim.node, "Node to attach to; NAME/2 is its second port").type("NODE").needs(subnet);
  sub.option("--sim-fault", sim.faults, "Fault in the simulated subnet, as in --fault of `parley fabric`")
      .type("FAULT")
      .repeatable()
      .needs(subnet);
  sub.option("--sim-seed", sim.seed, "Seed for faults and transaction IDs")
      .type("NUMBER")
      .shows_default()
      .needs(subnet);
}

}  // namespace

void add_mad_options(Command sub, MadOptions& options) {
  Option transport =
      sub.option("--transport", options.transport,
                 "ibsim[:NAME[/NODE]]: ibsim's sockets; default NAME and NODE: IBSIM_SOCKNAME and SIM_HOST; "
                 "umad[:DEVICE[/PORT]]: a device of this machine; roce:ADDRESS[/qp]: UDP port 4791 of this machine's "
                 "address, as QP1 or a UD queue pair; verbs[:DEVICE[/GID]]: a UD queue pair of a RoCE device, at the "
                 "GID of that index. Default: ibsim if IBSIM_SOCKNAME or SIM_HOST is set, else umad")
          .type("TRANSPORT")
          .check([](const std::string& text) { return mad_driver::check_where(text); });
  add_sim_options(sub, options, transport);
  add_duration(sub, "--timeout", options.timeout,
               "Wait for the answer to the first try; each retry waits twice as long");
  sub.option("--retries", options.retries, "Retransmissions of a request").range(0U, 255U).shows_default();
  sub.option("--window", options.window, "Requests in flight").range(1U, 1024U).shows_default();
  sub.option("--table-max", options.table_max,
             "Maximum octets of one answer; a longer answer ends only its own request")
      .range(std::size_t{1}, std::size_t{1} << 32)
      .shows_default();
  sub.option("--mkey", options.m_key, "M_Key of SMPs").type("KEY");
  sub.option("--smkey", options.sm_key, "SM_Key of requests to subnet administration").type("KEY");
  sub.flag("--trace", options.trace, "Print each datagram sent or received to standard error");
  sub.option("--pcap", options.pcap, "Write the datagrams to a capture for Wireshark, as packets of an InfiniBand link")
      .type("FILE");
}

Or<std::unique_ptr<MadSession>> MadSession::open(const MadOptions& options, Output& out, const mad::PathText* path) {
  auto opened = open_transport(options, path);
  if (!opened) return tl::unexpected(opened.error());
  auto session = std::make_unique<MadSession>();
  session->options_ = options;
  session->name_ = opened->name;
  session->qp_num_ = opened->qp_num;
  session->net_ = std::move(opened->net);
  session->transport_ = std::move(opened->transport);
  if (options.trace || !options.pcap.empty()) {
    auto tap = Tap::open(std::move(session->transport_), options.trace, options.pcap, out,
                         [net = session->net_.get()] { return net != nullptr ? net->now() : clock_now(); });
    if (!tap) return tl::unexpected(tap.error());
    session->tap_ = tap->get();
    session->transport_ = std::move(*tap);
  }
  const mad::Transport& transport = *session->transport_;
  const std::size_t window = std::min<std::size_t>(options.window, transport.facts().window_max);
  // Losses usually mean that one destination is overrun. The port's window shrinks less: stock tools keep their window
  // despite losses.
  const mad::WindowOptions windows{.start = window, .least = std::max<std::size_t>(1, window / 2), .most = window};
  const mad::WindowOptions each{.start = window, .least = std::min<std::size_t>(window, 4), .most = window};
  const std::uint64_t seed = session->net_ ? options.sim.seed : std::random_device()() | std::uint64_t{1} << 32;
  const mad::PortOptions port{
      .seed = seed, .window = windows, .destination_window = each, .table_octets_max = options.table_max};
  session->port_ = std::make_unique<mad::Port>(transport.facts(), transport.local(), port);
  return session;
}

mad::PathDefaults MadSession::defaults() const {
  return {.timeout = options_.timeout,
          .retries = static_cast<std::uint8_t>(options_.retries),
          .m_key = options_.m_key,
          .sm_key = options_.sm_key};
}

mad::Task<mad::Reply<mad::Path>> MadSession::resolve(const mad::PathText& to) const {
  return mad::resolve_text(*port_, to, defaults());
}

Or<void> MadSession::serve(const mad::ServedClass& what) {
  if (const auto served = transport_->serve(what); !served)
    return command_error(Exit::environment, fmt::format("{}: {}", name_, mad_driver::text_of(served.error())));
  port_->serve();
  return {};
}

Or<void> MadSession::check(const mad::PathText& to) const {
  if (has_lids() && to.gid && port_->local().sm_lid == 0)
    return command_error(Exit::environment, "no subnet manager: PortInfo of this port has no SM LID");
  if (!has_lids() && !to.path.address.grh && !to.gid)
    return command_error(Exit::usage, "RoCE has no LIDs: use a GID (::ffff:192.0.2.1)");
  return {};
}

Json error_json(const mad::MadError& error) {
  return {{"event", "unanswered"},
          {"path", mad::path_spec(error.path())},
          {"fault", mad::word_of(error.fault())},
          {"status", error.status()},
          {"tries", error.tries()},
          {"text", error.message()},
          {"context", error.context()}};
}

int print_error(const mad::MadError& error, Output& out) {
  out.object(error_json(error));
  std::string text = error.dump();
  while (text.ends_with('\n')) text.pop_back();
  out.note(fmt::format("parley {}: {}", out.command, text));
  return code(Exit::failed);
}

}  // namespace parley::tools
