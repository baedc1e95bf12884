// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// `parley ssa acm`: answers programs that ask ibacm, from the subnet's tables.
#include <algorithm>
#include <random>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/after.hpp"
#include "base/json_text.hpp"
#include "base/rng.hpp"
#include "base/text.hpp"
#include "drivers/open_files.hpp"
#include "drivers/ssa/acm_sa.hpp"
#include "drivers/ssa/acm_service.hpp"
#include "tools/rping/session.hpp"
#include "tools/ssa/acm.hpp"
#include "tools/ssa/ssa.hpp"
#include "tools/ssa/tables.hpp"

namespace parley::tools {

namespace {

using ssa::acm::Addresses;
using ssa::acm::Counter;
using ssa_driver::AcmService;

constexpr Duration signals_noticed_within = std::chrono::milliseconds(100);

struct AcmArgs {
  MadOptions mad;
  ssa_driver::AcmServiceOptions service;
  std::string addresses;
  Duration refresh = std::chrono::hours(1);
  bool librdmacm = false, route_sls = false;
  AcmArgs() { mad.window = 32; }
};

/// The path of the option, the environment, or the one that the programs have built in.
void choose_places(AcmArgs& args) {
  ssa_driver::AcmServiceOptions& service = args.service;
  if (service.sockets.empty() && !service.port) service.sockets.push_back(acmes_socket());
  if (args.librdmacm) service.sockets.push_back(librdmacms_socket());
}

/// The descriptions of channel adapters, for their first port with a LID.
void add_descriptions(const mad::Topology& topology, std::uint64_t prefix, Addresses& out) {
  for (const mad::TopologyNode& node : topology.nodes()) {
    if (node.type != wire::mad::NodeType::channel_adapter) continue;
    for (const mad::TopologyPort& port : topology.ports_of(node)) {
      if (!port.known || port.lid == 0 || port.guid == 0) continue;
      out.add_name(topology.description(node), ssa::gid_of_port(prefix, port.guid));
      break;
    }
  }
}

/// The description, and what else leads to the port.
std::vector<std::string> names_of(std::string_view description, const Gid& gid, const Addresses& addresses) {
  std::vector<std::string> out{std::string(description)};
  for (std::string& text : addresses.texts_of(gid))
    if (text != description) out.push_back(std::move(text));
  return out;
}

/// Each P_Key of the ports of this node; those of the port that the command uses come first.
std::vector<ssa::acm::Endpoint> endpoints_of(const mad::LocalPort& local, const mad::Topology& topology,
                                             const ssa_driver::SubnetTables& tables, const Addresses& addresses) {
  std::vector<ssa::acm::Endpoint> out;
  const std::uint32_t index = topology.find(local.node_guid);
  if (index == mad::no_node) return out;
  const mad::TopologyNode& node = topology.nodes()[index];
  const auto add = [&](std::uint8_t number) {
    const mad::TopologyPort& port = topology.port(index, number);
    const auto keys = tables.p_keys.find({index, number});
    if (!port.known || port.lid == 0 || keys == tables.p_keys.end()) return;
    const Gid gid = ssa::gid_of_port(tables.subnet.gid_prefix, port.guid);
    const auto names = names_of(topology.description(node), gid, addresses);
    for (const std::uint16_t key : keys->second) out.push_back({node.guid, gid, number, node.ports, key, names});
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
    std::string place;
    auto service = AcmService::open(args_.service, &place);
    if (!service) return out_.error(Exit::environment, fmt::format("{}: {}", place, service.error().message()));
    auto tables = read();
    if (!tables) return out_.error(tables.error().exit, tables.error().text);
    set_refresh();
    served_ = std::move(*tables);
    for (const std::string& doubt : served_.doubts) out_.note(doubt);
    if (const auto started = (*service)->start(served_.data, &place); !started)
      return out_.error(Exit::environment, fmt::format("{}: {}", place, started.error().message()));
    announce(**service);
    while (!StopSignals::requested()) {
      if (clock_now() >= refresh_at_) refresh(**service);
      if (const auto query = (*service)->wait_query(signals_noticed_within)) answer(**service, *query);
    }
    (*service)->stop();
    summarize(**service);
    return code(Exit::ok);
  }

 private:
  struct Tables {
    std::shared_ptr<const ssa::acm::Data> data;
    std::vector<std::string> doubts;
    std::size_t lost = 0, doubtful = 0, links = 0;
    Instant read_at{};
    Duration took{};

    std::size_t ports() const { return data->map->ends().size(); }
    bool is_worse_than(const Tables& other) const {
      return lost > other.lost || doubtful > other.doubtful || (links == 0 && other.links > 0);
    }
  };

  Or<Tables> read() {
    const Instant began = clock_now();
    const DiscoveredSubnet subnet = discover_subnet(session_, {}, out_);
    if (!subnet.cut_by.empty())
      return command_error(Exit::failed, fmt::format("discovery was incomplete: {}", subnet.cut_by));
    const mad::Topology& topology = subnet.found.topology;
    auto tables = read_tables(session_, topology, args_.route_sls, out_);
    if (!tables) return tl::unexpected(tables.error());
    auto data = std::make_shared<ssa::acm::Data>();
    data->map = std::move(tables->map);
    const auto addresses = std::make_shared<Addresses>(addresses_);
    addresses->set_prefix(data->map->gid_prefix());
    add_descriptions(topology, data->map->gid_prefix(), *addresses);
    data->endpoints = endpoints_of(session_.port().local(), topology, tables->tables, *addresses);
    data->addresses = addresses;
    const Instant now = clock_now();
    return Tables{
        std::move(data), doubts_about(subnet), subnet.found.lost, subnet.found.doubtful, topology.links(), now,
        now - began};
  }

  /// From half of the time to one and a half, so that the hosts of a subnet do not read it together.
  void set_refresh() {
    if (args_.refresh <= Duration{}) return;
    refresh_at_ = after(clock_now(),
                        args_.refresh / 2 + Duration(random_.below(static_cast<std::uint64_t>(args_.refresh.count()))));
  }

  /// If the subnet cannot be read as well as before, the older tables stay.
  void refresh(AcmService& service) {
    auto fresh = read();
    set_refresh();
    if (StopSignals::requested()) return;
    if (fresh && !fresh->is_worse_than(served_)) {
      served_ = std::move(*fresh);
      service.publish(served_.data);
      out_.object({{"event", "refreshed"},
                   {"ports", served_.ports()},
                   {"took_s", in_seconds(served_.took)},
                   {"lost", served_.lost},
                   {"doubtful", served_.doubtful}});
      return;
    }
    const std::string why = fresh ? fmt::format("{}", fmt::join(fresh->doubts, "; ")) : fresh.error().text;
    const Duration age = clock_now() - served_.read_at;
    out_.note(fmt::format("parley {}: the tables are {} old, because they cannot be read again: {}", out_.command,
                          brief_duration_text(age), why));
    out_.object({{"event", "refresh_failed"}, {"text", why}, {"age_s", in_seconds(age)}});
  }

  void answer(AcmService& service, const ssa_driver::AcmQuery& query) {
    const auto asked = session_.run(ssa_driver::ask_sa(session_.port(), session_.defaults(), query.record),
                                    {.stop = [] { return StopSignals::requested(); }, .tick = {}});
    if (asked)
      service.answer(query.client, *asked);
    else
      service.answer(query.client, tl::unexpected(ssa::acm::Status::not_connected));
  }

  void announce(const AcmService& service) {
    std::string places;
    for (const std::string& path : args_.service.sockets) places += (places.empty() ? "" : ", ") + path;
    if (service.port() != 0) places += fmt::format(", 127.0.0.1:{}", service.port());
    out_.text(fmt::format("serving paths between {} at {}; tables read in {}", counted(served_.ports(), "port"), places,
                          measured_duration_text(served_.took)));
    out_.object({{"event", "serving_acm"},
                 {"sockets", args_.service.sockets},
                 {"port", service.port() == 0 ? Json() : Json(service.port())},
                 {"ports", served_.ports()},
                 {"took_s", in_seconds(served_.took)},
                 {"lost", served_.lost},
                 {"doubtful", served_.doubtful}});
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
  Tables served_;
  Instant refresh_at_ = never;
  Rng random_{std::random_device()()};
};

int run_acm(AcmArgs& args, Output& out) {
  choose_places(args);
  if (const std::string wrong = args.librdmacm ? std::string() : hidden_librdmacm(args.service); !wrong.empty())
    return out.error(Exit::environment, wrong + ", or use --librdmacm");
  raise_open_files();
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
             "Unix socket for ib_acme and others; several are possible (default without --port: "
             "$PARLEY_ACM_SOCKET, else /run/ibacm-unix.sock, where ib_acme looks)")
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
  add_duration(sub, "--refresh", args->refresh,
               "Read the tables again after half of this time to one and a half (0: never)");
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
