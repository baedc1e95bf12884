// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// `parley doctor`: tries what works on this machine, and reports why the rest does not.
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <memory>
#include <system_error>

#include <fmt/format.h>

#include "base/gid.hpp"
#include "base/json_text.hpp"
#include "base/text.hpp"
#include "drivers/asio/sockaddr.hpp"
#include "parley/host.hpp"
#include "parley/rdma_host.hpp"
#include "parley/roce_host.hpp"
#include "parley/tcp_host.hpp"
#include "tools/command.hpp"
#include "tools/doctor/check.hpp"
#include "tools/doctor/run_checks.hpp"
#include "tools/options.hpp"
#include "tools/report.hpp"

namespace parley::tools {
namespace {

std::string_view to_string(Verdict verdict) {
  return verdict == Verdict::works ? "works" : verdict == Verdict::limited ? "limited" : "fails";
}
std::string_view in_json(Verdict verdict) {
  return verdict == Verdict::works ? "passed" : verdict == Verdict::limited ? "partial" : "failed";
}

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

/// Connects this host to itself through the provider and the system's sockets. Errors: a message.
tl::expected<Duration, std::string> connect_to_self(Address::Family family) {
  auto host = TcpHost::open();
  if (!host) return tl::unexpected(message_of(host.error()));
  cm::Manager& cm = (*host)->cm();
  const auto listener = cm.listen(Address::loopback(family, 0));
  if (!listener) return tl::unexpected(message_of(listener.error()));
  const Instant begin = (*host)->now();
  cm::Id client, server;
  std::optional<Duration> took;
  std::string failed;
  // Ids must be destroyed before the host. Aborting these connections does no harm.
  const auto forget = [&] {
    for (cm::Id id : {client, server, *listener})
      if (id) id.destroy();
  };
  while (!took && failed.empty() && (*host)->now() - begin < std::chrono::seconds(5)) {
    (*host)->run_once(std::chrono::milliseconds(50));
    while (auto event = cm.poll_event()) {
      if (const auto* up = std::get_if<cm::Listening>(&*event)) {
        const auto id = cm.connect(up->local);
        if (!id) failed = message_of(id.error());
        if (id) client = *id;
      } else if (auto* request = std::get_if<cm::ConnectRequest>(&*event)) {
        server = request->id;
        if (const auto accepted = server.accept(); !accepted) failed = message_of(accepted.error());
      } else if (const auto* set_up = std::get_if<cm::Established>(&*event)) {
        if (set_up->id == client) took = set_up->steps.established;
      } else if (const auto* lost = std::get_if<cm::ConnectFailed>(&*event)) {
        failed = lost->why.to_string();
      }
    }
  }
  forget();
  if (took) return *took;
  return tl::unexpected(failed.empty() ? "a connection to itself was not set up within 5 s" : failed);
}

Check check_sockets(std::string name, Address::Family family) {
  const auto took = connect_to_self(family);
  const std::string of = family == Address::Family::v4 ? "IPv4" : "IPv6";
  if (!took)
    return {std::move(name), Verdict::fails, fmt::format("{}: {}", of, took.error()),
            "look at the loopback interface, the firewall and the limits below"};
  return {std::move(name),
          Verdict::works,
          fmt::format("a connection to itself over {} loopback took {}", of, measured_duration_text(*took)),
          {},
          {{"setup_us", in_microseconds(*took)}}};
}

Check check_files() {
  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  const auto hard = files.rlim_max;
  Check check{"open-files",
              Verdict::works,
              fmt::format("{} of at most {}; the commands raise it themselves", files.rlim_cur, hard),
              {},
              {{"soft", files.rlim_cur}, {"hard", hard}}};
  if (hard < 65536) {
    check.verdict = Verdict::limited;
    check.advice = "raise the hard limit (ulimit -Hn) for more connections at once: each takes one";
  }
  return check;
}

Check check_ports() {
  std::string range = first_line("/proc/sys/net/ipv4/ip_local_port_range");
  std::replace(range.begin(), range.end(), '\t', '-');
  return {
      "local-ports",
      Verdict::works,
      range.empty() ? "the range cannot be read" : "range " + range + ": as many connections to one address and port",
      {},
      Json::object()};
}

Check check_capture() {
  std::ifstream status("/proc/self/status");
  constexpr unsigned net_raw = 13;  // CAP_NET_RAW
  std::uint64_t effective = 0;
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("CapEff:")) effective = std::strtoull(line.c_str() + 7, nullptr, 16);
  if ((effective >> net_raw & 1) != 0)
    return {"live-capture", Verdict::works, "CAP_NET_RAW is there", {}, Json::object()};
  return {"live-capture", Verdict::fails, "`parley pcap live` lacks CAP_NET_RAW", "run it as root, or with setcap",
          Json::object()};
}

Check check_locked_memory() {
  rlimit locked{};
  getrlimit(RLIMIT_MEMLOCK, &locked);
  if (locked.rlim_cur == RLIM_INFINITY || geteuid() == 0)
    return {"locked-memory", Verdict::works, "memory of any size may be registered", {}, Json::object()};
  Check check{"locked-memory",
              Verdict::works,
              fmt::format("up to {} KiB may be registered with a NIC", locked.rlim_cur >> 10),
              {},
              {{"octets", locked.rlim_cur}}};
  if (locked.rlim_cur < 64 << 20) {
    check.verdict = Verdict::limited;
    check.advice = "raise it (ulimit -l): registered memory is locked";
  }
  return check;
}

std::string_view kind_text(GidInfo::Kind kind) {
  switch (kind) {
    case GidInfo::Kind::roce_v1: return "RoCE v1";
    case GidInfo::Kind::roce_v2: return "RoCE v2";
    case GidInfo::Kind::iwarp: return "iWARP";
    case GidInfo::Kind::infiniband: break;
  }
  return "InfiniBand";
}

/// Text lines and JSON of a device.
std::string describe(const DeviceInfo& device, Json& json) {
  const DeviceAttr& attr = device.attr;
  std::string text = fmt::format("\n  {} ({}): {} work requests a queue, {} completions, IRD {}, ORD {}", device.name,
                                 parley::to_string(attr.transport), attr.max_qp_wr, attr.max_cqe, attr.max_qp_rd_atom,
                                 attr.max_qp_init_rd_atom);
  Json ports = Json::array();
  for (const PortInfo& port : device.ports) {
    text += fmt::format("\n    port {} {}, {}, MTU {}", port.number, port.state, port.link_layer, port.mtu);
    Json gids = Json::array();
    for (const GidInfo& gid : port.gids) {
      text += fmt::format("\n      GID {} {} {}{}{}: {}{}", gid.index, gid_text(gid.gid), kind_text(gid.kind),
                          gid.interface.empty() ? "" : " of ", gid.interface, gid.reason,
                          gid.rank == 0 && port.gids.size() > 1 ? " (the best)" : "");
      gids.push_back({{"index", gid.index},
                      {"gid", gid_text(gid.gid)},
                      {"kind", kind_text(gid.kind)},
                      {"interface", gid.interface},
                      {"rank", gid.rank},
                      {"reason", gid.reason}});
    }
    ports.push_back({{"port", port.number},
                     {"state", port.state},
                     {"link_layer", port.link_layer},
                     {"mtu", port.mtu},
                     {"gids", gids}});
  }
  json = {{"name", device.name},
          {"transport", parley::to_string(attr.transport)},
          {"max_qp_wr", attr.max_qp_wr},
          {"max_cqe", attr.max_cqe},
          {"max_mr", attr.max_mr},
          {"ird", attr.max_qp_rd_atom},
          {"ord", attr.max_qp_init_rd_atom},
          {"ports", ports}};
  return text;
}

std::string rdma_advice(const Error& why) {
  if (why == Errc::unsupported)
    return "install librdmacm1 and ibverbs-providers (Debian's names); if Parley was built without them, build it "
           "again";
  if (why == Errc::unreachable)
    return "load the NIC's driver and rdma_ucm; in a container, the device and its network namespace must be "
           "visible; for a software NIC: rdma link add rxe0 type rxe netdev eth0; RDMA programs run without a device "
           "by "
           "'parley run'";
  return "run as a user that may open /dev/infiniband/rdma_cm and uverbs*";
}

Check check_rdma() {
  const auto host = RdmaHost::open();
  const auto devices = list_rdma_devices();
  Check check{"rdmacm", Verdict::works, {}, {}, Json::object()};
  Json list = Json::array();
  std::string text;
  bool active = false;
  for (const DeviceInfo& device : devices ? *devices : std::vector<DeviceInfo>{}) {
    Json json = Json::object();
    text += describe(device, json);
    list.push_back(json);
    for (const PortInfo& port : device.ports) active = active || port.state == "ACTIVE";
  }
  check.details["devices"] = list;
  if (!host) {
    check.verdict = Verdict::fails;
    check.found = host.error().sentence() + text;
    check.advice = rdma_advice(host.error());
    return check;
  }
  check.found = counted(devices ? devices->size() : 0, "device") + text;
  if (!active) {
    check.verdict = Verdict::limited;
    check.advice = "no port is ACTIVE: bring the interface up";
  }
  return check;
}

/// RoCEv2 has one UDP port, which only one process can bind at an address.
Check check_roce() {
  Check check{.name = "roce", .verdict = Verdict::fails, .found = {}, .advice = {}, .details = Json::object()};
  const auto host = RoceHost::open();
  // Use an address that no other process has, so that the test fails only if a process (such as rxe) has the port at
  // all addresses.
  const auto process = static_cast<std::uint32_t>(::getpid());
  const Address own =
      Address::v4(127, 254, static_cast<std::uint8_t>(process >> 8), static_cast<std::uint8_t>(process), 0);
  const auto id = host ? (*host)->cm().listen(own) : tl::unexpected(host.error());
  if (!id) return check.found = id.error().sentence(), check;
  const Instant end = (*host)->now() + std::chrono::seconds(2);
  check.found = "no answer from the system within 2 s";
  while ((*host)->now() < end) {
    (*host)->run_once(std::chrono::milliseconds(20));
    const auto event = (*host)->cm().poll_event();
    if (!event) continue;
    if (const auto* failed = std::get_if<cm::ConnectFailed>(&*event)) {
      check.verdict = Verdict::limited;
      check.found = failed->why.received;
      check.advice = "give each process an address of its own (docs/roce.md)";
    } else {
      check.verdict = Verdict::works;
      check.found = "RoCEv2 on UDP sockets: no process has port 4791 on all addresses";
    }
    break;
  }
  return check;
}

/// The device and addresses that a connection to `peer` would use. Errors: a message.
tl::expected<cm::Resolved, std::string> resolve_way(Host& host, const Address& peer) {
  cm::Manager& cm = host.cm();
  auto id = cm.resolve(peer);
  if (!id) return tl::unexpected(message_of(id.error()));
  const Instant end = host.now() + std::chrono::seconds(10);
  tl::expected<cm::Resolved, std::string> out = tl::unexpected(std::string("no answer within 10 s"));
  for (bool told = false; !told && host.now() < end;) {
    host.run_once(std::chrono::milliseconds(50));
    while (auto event = cm.poll_event()) {
      told = true;
      if (auto* way = std::get_if<cm::Resolved>(&*event)) out = std::move(*way);
      if (const auto* lost = std::get_if<cm::ConnectFailed>(&*event))
        out = tl::unexpected(lost->why.to_string(peer.to_string()));
    }
  }
  id->destroy();
  return out;
}

/// Uses an RDMA device if there is one, unless a provider is named.
Check check_way(std::string provider, const std::string& to, const Address& peer) {
  Check check{.name = "way", .verdict = Verdict::fails, .found = {}, .advice = {}, .details = {{"to", to}}};
  if (provider.empty()) provider = RdmaHost::open() ? "rdmacm" : "iwarp";
  check.details["provider"] = provider;
  auto host = open_host(provider);
  if (!host) return check.found = host.error().sentence(), check;
  const auto way = resolve_way(**host, peer);
  if (!way) return check.found = way.error(), check;
  const bool sockets = provider != "rdmacm";
  auto local = sockets ? asio_driver::source_toward(peer) : way->local;
  if (!local)
    return check.found = fmt::format("no socket reaches {}: {}", peer.to_string(), local.error().message()), check;
  check.verdict = Verdict::works;
  check.found = fmt::format("{}: {}", peer.to_string(), way->reason);
  if (sockets) check.found = fmt::format("{}: sockets, from {}", peer.to_string(), local->to_string());
  check.details.update(
      {{"peer", peer.to_string()}, {"device", way->device->query().name}, {"local", local->to_string()}});
  if (const auto* ib = std::get_if<ib::Parameters>(&way->parameters))
    check.details.update({{"port", ib->port_num},
                          {"sgid_index", ib->sgid_index},
                          {"sgid", gid_text(ib->sgid)},
                          {"dgid", gid_text(ib->dgid)},
                          {"path_mtu", 128U << static_cast<unsigned>(ib->path_mtu)}});
  return check;
}

bool print(const Check& check, Context& context) {
  const std::string advice = check.advice.empty() ? "" : "\n  try: " + check.advice;
  context.out.text(fmt::format("{}: {}: {}{}", check.name, to_string(check.verdict), check.found, advice));
  Json json{{"event", "check"},     {"name", check.name},     {"verdict", in_json(check.verdict)},
            {"found", check.found}, {"advice", check.advice}, {"details", check.details}};
  context.out.object(json);
  return check.verdict != Verdict::fails;
}

int run_doctor(const std::string& provider, const std::string& to, Context& context) {
  if (!to.empty()) {
    const auto peer = parse_address(to, 7471);
    if (!peer) return context.out.error(peer.error().exit, peer.error().text);
    if (print(check_way(provider, to, *peer), context)) return code(Exit::ok);
    return context.out.error(Exit::environment, "the way there was not found");
  }
  bool good = true;
  if (provider.empty() || provider == "iwarp") {
    // One IP version is enough for connections.
    const bool v4 = print(check_sockets("iwarp-ipv4", Address::Family::v4), context);
    const bool v6 = print(check_sockets("iwarp-ipv6", Address::Family::v6), context);
    good = v4 || v6;
    print(check_files(), context);
    print(check_ports(), context);
    if (provider.empty()) print(check_capture(), context);
  }
  if (provider.empty() || provider == "roce") {
    const bool roce = print(check_roce(), context);
    if (!provider.empty()) good = roce;
  }
  if (provider.empty() || provider == "run") {
    bool run = true;
    for (const Check& check : check_run()) run = print(check, context) && run;
    if (!provider.empty()) good = run;
  }
  if (provider.empty() || provider == "rdmacm") {
    const bool rdma = print(check_rdma(), context);
    if (rdma) print(check_locked_memory(), context);
    if (!provider.empty()) good = rdma;
  }
  if (good) return code(Exit::ok);
  return context.out.error(Exit::environment, provider == "run" ? std::string("'parley run' does not work here")
                                                                : fmt::format("connections through {} do not work here",
                                                                              provider.empty() ? "iwarp" : provider));
}

}  // namespace

void register_doctor(Command app, Context& context) {
  auto provider = std::make_shared<std::string>(), to = std::make_shared<std::string>();
  Command sub = app.subcommand("doctor", "Report what works on this machine, and why the rest does not");
  sub.option("provider", *provider, "Only this one, which then has to work").one_of({"iwarp", "roce", "run", "rdmacm"});
  sub.option("--to", *to, "Which device, address and GID lead to HOST, and nothing else").type("HOST");
  add_json_flag(sub, context);
  sub.footer(
      "Examples:\n"
      "  parley doctor                 all of it; fails only if not even plain sockets work\n"
      "  parley doctor rdmacm          fails if no RDMA device can be used\n"
      "  parley doctor run             what 'parley run' needs\n"
      "  parley doctor rdmacm --to HOST\n"
      "  parley doctor --json");
  sub.run([provider, to, &context] { return run_doctor(*provider, *to, context); });
}

}  // namespace parley::tools
