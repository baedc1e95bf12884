// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// `parley ssa acm`: answers programs that ask ibacm, from the subnet's tables.
#include <fstream>
#include <sstream>

#include <fmt/format.h>

#include "base/after.hpp"
#include "base/bytes_io.hpp"
#include "base/json_text.hpp"
#include "base/text.hpp"
#include "drivers/secure_env.hpp"
#include "drivers/ssa/acm_sa.hpp"
#include "drivers/ssa/acm_service.hpp"
#include "tools/rping/session.hpp"
#include "tools/ssa/ssa.hpp"
#include "tools/ssa/tables.hpp"

namespace parley::tools {

namespace {

using ssa::acm::Addresses;
using ssa::acm::Counter;
using ssa_driver::AcmService;

constexpr std::size_t address_file_octets_max = 256 << 20;
constexpr Duration signals_noticed_within = std::chrono::milliseconds(100);

struct AcmArgs {
  MadOptions mad;
  ssa_driver::AcmServiceOptions service;
  std::string addresses;
  Duration refresh = std::chrono::minutes(5);
  bool librdmacm = false, route_sls = false;
  AcmArgs() { mad.window = 32; }
};

std::string from_environment(const char* variable, const char* otherwise) {
  const char* const value = secure_env(variable);
  return value != nullptr && *value != 0 ? value : otherwise;
}

/// The path of the option, the environment, or the one that the programs have built in.
void choose_places(AcmArgs& args) {
  ssa_driver::AcmServiceOptions& service = args.service;
  if (service.sockets.empty())
    service.sockets.push_back(from_environment("PARLEY_ACM_SOCKET", ssa_driver::acme_socket));
  if (args.librdmacm)
    service.sockets.push_back(from_environment("PARLEY_ACM_LIBRDMACM_SOCKET", ssa_driver::librdmacm_socket));
}

Or<Addresses> read_addresses(const std::string& path) {
  Addresses out;
  if (path.empty()) return out;
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  if (!file || !(text << file.rdbuf()))
    return command_error(Exit::environment, fmt::format("'{}' cannot be read, or is empty", path));
  if (text.view().size() > address_file_octets_max)
    return command_error(Exit::environment,
                         fmt::format("'{}' has more than {} MiB", path, address_file_octets_max >> 20));
  if (const auto added = out.add_file(text.view()); !added)
    return command_error(Exit::environment, fmt::format("{}: {}", path, added.error().sentence()));
  return out;
}

Gid gid_of_port(std::uint64_t prefix, std::uint64_t guid) {
  Gid out;
  store(out.data(), prefix, std::endian::big);
  store(out.data() + 8, guid, std::endian::big);
  return out;
}

/// The descriptions of channel adapters, for their first port with a LID.
void add_descriptions(const mad::Topology& topology, std::uint64_t prefix, Addresses& out) {
  for (const mad::TopologyNode& node : topology.nodes()) {
    if (node.type != wire::mad::NodeType::channel_adapter) continue;
    for (const mad::TopologyPort& port : topology.ports_of(node)) {
      if (!port.known || port.lid == 0 || port.guid == 0) continue;
      out.add_name(topology.description(node), gid_of_port(prefix, port.guid));
      break;
    }
  }
}

/// Each P_Key of the ports of this node; those of the port that the command uses come first.
std::vector<ssa::acm::Endpoint> endpoints_of(const mad::LocalPort& local, const mad::Topology& topology,
                                             const ssa_driver::SubnetTables& tables) {
  std::vector<ssa::acm::Endpoint> out;
  const std::uint32_t index = topology.find(local.node_guid);
  if (index == mad::no_node) return out;
  const mad::TopologyNode& node = topology.nodes()[index];
  const auto add = [&](std::uint8_t number) {
    const mad::TopologyPort& port = topology.port(index, number);
    const auto keys = tables.p_keys.find({index, number});
    if (!port.known || port.lid == 0 || keys == tables.p_keys.end()) return;
    const Gid gid = gid_of_port(tables.subnet.gid_prefix, port.guid);
    for (const std::uint16_t key : keys->second)
      out.push_back({node.guid, gid, number, node.ports, key, {std::string(topology.description(node))}});
  };
  if (local.port <= node.ports) add(local.port);
  for (unsigned n = 0; n <= node.ports; ++n)
    if (n != local.port) add(static_cast<std::uint8_t>(n));
  return out;
}

class AcmCommand {
 public:
  AcmCommand(AcmArgs& args, MadSession& session, Addresses addresses, Output& out)
      : args_(args), session_(session), addresses_(std::move(addresses)), out_(out) {}

  int run() {
    const StopSignals signals;
    auto data = read();
    if (!data) return out_.error(data.error().exit, data.error().text);
    std::string place;
    auto service = AcmService::open(args_.service, &place);
    if (!service) return out_.error(Exit::environment, fmt::format("{}: {}", place, service.error().message()));
    (*service)->publish(*data);
    announce(**service, (*data)->map->ends().size());
    while (!StopSignals::requested()) {
      if (args_.refresh > Duration{} && clock_now() >= refresh_at_) refresh(**service);
      if (const auto query = (*service)->wait_query(signals_noticed_within)) answer(**service, *query);
    }
    (*service)->stop();
    summarize(**service);
    return code(Exit::ok);
  }

 private:
  using DataPtr = std::shared_ptr<const ssa::acm::Data>;

  Or<DataPtr> read() {
    const Instant began = clock_now();
    const DiscoveredSubnet subnet = discover_subnet(session_, {}, out_);
    if (!subnet.cut_by.empty())
      return command_error(Exit::failed, fmt::format("discovery was incomplete: {}", subnet.cut_by));
    (void)print_doubts(subnet, out_);
    const mad::Topology& topology = subnet.found.topology;
    auto tables = read_tables(session_, topology, args_.route_sls, out_);
    if (!tables) return tl::unexpected(tables.error());
    auto data = std::make_shared<ssa::acm::Data>();
    data->map = std::move(tables->map);
    data->addresses = addresses_;
    add_descriptions(topology, tables->tables.subnet.gid_prefix, data->addresses);
    data->endpoints = endpoints_of(session_.port().local(), topology, tables->tables);
    read_at_ = clock_now();
    took_ = read_at_ - began;
    refresh_at_ = after(read_at_, args_.refresh);
    return data;
  }

  /// If the subnet cannot be read, the older tables stay.
  void refresh(AcmService& service) {
    const auto data = read();
    if (StopSignals::requested()) return;
    if (data) {
      service.publish(*data);
      out_.object({{"event", "refreshed"}, {"ports", (*data)->map->ends().size()}, {"took_s", in_seconds(took_)}});
      return;
    }
    out_.note(fmt::format("parley {}: the tables are {} old, because they cannot be read again: {}", out_.command,
                          brief_duration_text(clock_now() - read_at_), data.error().text));
    refresh_at_ = after(clock_now(), args_.refresh);
  }

  void answer(AcmService& service, const ssa_driver::AcmQuery& query) {
    const mad::Path path = session_.with_options(session_.port().sa_path());
    const auto asked = session_.run(ssa_driver::ask_sa(session_.port(), path, query.record),
                                    {.stop = [] { return StopSignals::requested(); }, .tick = {}});
    if (asked)
      service.answer(query.client, *asked);
    else
      service.answer(query.client, tl::unexpected(ssa::acm::Status::not_connected));
  }

  void announce(const AcmService& service, std::size_t ports) {
    std::string places;
    for (const std::string& path : args_.service.sockets) places += (places.empty() ? "" : ", ") + path;
    if (service.port() != 0) places += fmt::format(", 127.0.0.1:{}", service.port());
    out_.text(fmt::format("serving paths between {} at {}; tables read in {}", counted(ports, "port"), places,
                          measured_duration_text(took_)));
    out_.object({{"event", "serving_acm"},
                 {"sockets", args_.service.sockets},
                 {"port", service.port() == 0 ? Json() : Json(service.port())},
                 {"ports", ports},
                 {"took_s", in_seconds(took_)}});
  }

  void summarize(const AcmService& service) {
    const auto count = [&](Counter which) { return service.counter(which); };
    out_.text(fmt::format("{} resolved, {} without a path, {} refused, {} asked of subnet administration",
                          count(Counter::route_cache), count(Counter::no_data), count(Counter::error),
                          count(Counter::route_query)));
    out_.object({{"event", "summary"},
                 {"resolved", count(Counter::route_cache)},
                 {"missing", count(Counter::no_data)},
                 {"refused", count(Counter::error)},
                 {"asked_sa", count(Counter::route_query)}});
  }

  AcmArgs& args_;
  MadSession& session_;
  Addresses addresses_;
  Output& out_;
  Instant read_at_{}, refresh_at_ = never;
  Duration took_{};
};

int run_acm(AcmArgs& args, Output& out) {
  choose_places(args);
  auto addresses = read_addresses(args.addresses);
  if (!addresses) return out.error(addresses.error().exit, addresses.error().text);
  auto session = MadSession::open(args.mad, out);
  if (!session) return out.error(session.error().exit, session.error().text);
  const int status = AcmCommand(args, **session, std::move(*addresses), out).run();
  if (const auto written = (*session)->finish(); !written) return out.error(written.error().exit, written.error().text);
  return status;
}

std::string check_places(const AcmArgs& args) {
  if (args.service.sockets.size() + 1 > ssa_driver::acm_sockets_max)
    return fmt::format("--socket: at most {} are possible", ssa_driver::acm_sockets_max - 1);
  if (!args.service.port_files.empty() && !args.service.port) return "--port-file needs --port";
  return {};
}

}  // namespace

void register_ssa_acm(Command ssa, Context& context) {
  auto args = std::make_shared<AcmArgs>();
  Command sub = ssa.subcommand("acm", "Answer ib_acme and librdmacm in place of ibacm, from the subnet's tables");
  sub.option("--socket", args->service.sockets,
             "Unix socket for ib_acme and others; several are possible (default: $PARLEY_ACM_SOCKET, else "
             "/run/ibacm-unix.sock, where ib_acme looks)")
      .type("PATH")
      .repeatable();
  sub.flag("--librdmacm", args->librdmacm,
           "Also answer librdmacm, at $PARLEY_ACM_LIBRDMACM_SOCKET or /run/ibacm.sock. rdma_getaddrinfo() then returns "
           "AF_IB addresses first");
  sub.option(
      "--port", [args](std::uint16_t port) { args->service.port = port; },
      "Also listen at this TCP port of 127.0.0.1 (0: any); ib_acme uses 6125");
  sub.option("--port-file", args->service.port_files,
             "Write the TCP port to this file: ib_acme reads /run/ibacm-tcp.port, librdmacm /run/ibacm.port")
      .type("FILE")
      .repeatable();
  sub.option("--addresses", args->addresses,
             "Names and IP addresses of ports: lines with an address and a GID, as in ibacm_hosts.data")
      .type("FILE");
  add_duration(sub, "--refresh", args->refresh, "Read the tables again after this time (0: never)");
  sub.flag("--route-sls", args->route_sls,
           "Ask the SA for all paths of one host of each switch, for their SLs, as `parley ssa paths` does");
  add_mad_options(sub, args->mad);
  add_json_flag(sub, context);
  sub.footer(
      "Reads the subnet's tables, and answers requests for paths from memory until it is stopped. Channel adapters "
      "are\n"
      "known by LID, GID and NodeDescription; ib_acme -v asks the SA.\n"
      "Examples:\n"
      "  parley ssa acm                          for ib_acme, as root\n"
      "  parley ssa acm --socket /tmp/acm.sock   ib_acme -S /tmp/acm.sock -f l -s 3 -d 7 -v");
  sub.run([args, &context] { return run_acm(*args, context.out); }, [args] { return check_places(*args); });
}

}  // namespace parley::tools
