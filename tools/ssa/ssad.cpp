// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// `parley ssad`: a node of the distribution tree of scalable subnet administration.
#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <memory>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/escape.hpp"
#include "base/text.hpp"
#include "drivers/asio/descriptor.hpp"
#include "drivers/clock.hpp"
#include "drivers/mad/where.hpp"
#include "drivers/open_files.hpp"
#include "drivers/ssa/control.hpp"
#include "drivers/ssa/daemon.hpp"
#include "tools/hex.hpp"
#include "tools/ops/metrics_output.hpp"
#include "tools/rping/session.hpp"
#include "tools/ssa/metrics.hpp"
#include "tools/ssa/node_acm.hpp"
#include "tools/ssa/nodes.hpp"
#include "tools/ssa/report.hpp"
#include "tools/ssa/ssa.hpp"

namespace parley::tools {

namespace {

struct SsadArgs {
  ssa_driver::DaemonOptions daemon;
  NodeAcmOptions acm;
  MetricsArgs metrics;
  std::string transport, role, nodes, key_file, listen = "127.0.0.1:0", control;
};

bool is_loopback(const Address& address) {
  const Address usual = Address::loopback(address.family, address.port);
  return address == usual || (address.family == Address::Family::v4 && address.octets[0] == 127);
}

/// The SSA_Key: a number in a file that only its owner can read, because who has it can be a node of the tree.
Or<std::uint64_t> read_key(const std::string& path) {
  struct stat is {};
  std::array<char, 64> octets{};
  const asio_driver::Descriptor file(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  if (file.fd < 0 || ::fstat(file.fd, &is) != 0 || !S_ISREG(is.st_mode))
    return command_error(Exit::environment, fmt::format("--key-file: {} cannot be read as a file", path));
  if (is.st_uid != ::geteuid() && is.st_uid != 0)
    return command_error(Exit::environment, fmt::format("--key-file: {} is that of another user", path));
  const ssize_t size = ::read(file.fd, octets.data(), octets.size());
  if (size < 0) return command_error(Exit::environment, fmt::format("--key-file: {} cannot be read", path));
  std::string_view text(octets.data(), static_cast<std::size_t>(size));
  text = text.substr(0, text.find('\n'));
  if ((is.st_mode & (S_IRWXG | S_IRWXO)) != 0)
    return command_error(Exit::environment, fmt::format("--key-file: {} must have mode 0600", path));
  const auto key = parse_hex_number(text);
  if (!key)
    return command_error(Exit::environment,
                         fmt::format("--key-file: {} has no number of up to 16 hexadecimal digits", path));
  return *key;
}

/// The roles of this port: those of --role, or of the file of --nodes.
Or<void> choose_roles(SsadArgs& args, const NodesFile& nodes, const mad::LocalPort& local) {
  if (!args.role.empty()) {
    args.daemon.roles = *parse_roles(args.role);
    return {};
  }
  const NodeEntry* entry = nodes.find(local.port_guid);
  if (entry == nullptr)
    return command_error(Exit::environment, fmt::format("{} has neither port 0x{:016x} nor *; or use --role",
                                                        args.nodes, local.port_guid));
  args.daemon.roles = entry->roles;
  return {};
}

/// Where parents take data connections: as the file of --nodes says; with --role alone, on this machine. A parent without an
/// address is not looked for here: any local process may have its port, and would get the SSA_Key.
void find_hosts(SsadArgs& args, NodesFile nodes) {
  if (args.nodes.empty()) {
    args.daemon.host_of = [](const Gid&) -> Result<Address> { return Address::loopback(Address::Family::v4, 0); };
    return;
  }
  const auto shared = std::make_shared<const NodesFile>(std::move(nodes));
  args.daemon.host_of = [shared](const Gid& gid) { return address_in(*shared, gid); };
  args.daemon.roles_of = [shared](const Gid& gid) -> std::uint8_t {
    const NodeEntry* entry = shared->find(read_bits(gid, 64, 64));
    return entry == nullptr ? std::uint8_t{0} : entry->roles;
  };
}

void print_note(const ssa::MemberNote& note, Output& out) {
  std::string text(name_of(note.kind));
  Json object{{"event", text}, {"gid", note.gid == Gid{} ? Json() : Json(gid_text(note.gid))}};
  if (note.gid != Gid{}) text += "  " + gid_text(note.gid);
  if (note.epoch.is_valid()) {
    object["epoch"] = epoch_text(note.epoch);
    text += "  " + epoch_text(note.epoch);
  }
  if (!note.text.empty()) {
    object["text"] = printable(note.text, false);
    text += "  " + printable(note.text, false);
  }
  out.text(text);
  out.object(object);
}

/// What runs in the daemon's loop.
struct Parts {
  ssa_driver::Daemon& daemon;
  ssa_driver::ControlServer& control;
  NodeAcm* acm;            ///< null: none
  MetricsOutput* metrics;  ///< null: none
};

void wait_for(const Parts& parts) {
  constexpr Duration longest = std::chrono::milliseconds(500);  // a signal may come just before
  std::vector<pollfd> polls;
  parts.daemon.add_to(polls);
  parts.control.add_to(polls);
  Instant until = std::min(parts.daemon.next_deadline(), parts.control.next_deadline());
  if (parts.metrics != nullptr) {
    parts.metrics->add_to(polls);
    until = std::min(until, parts.metrics->next_deadline());
  }
  const timespec patience = timespec_of(std::clamp(until - clock_now(), Duration{}, longest));
  static_cast<void>(::ppoll(polls.data(), polls.size(), &patience, nullptr));
}

/// Publishes what is new to the service for ibacm's clients; says once that it answers.
Or<void> follow(NodeAcm& acm, const ssa_driver::Daemon& daemon, const NodeAcmOptions& options, Output& out) {
  const auto begun = acm.follow(daemon);
  if (!begun) return tl::unexpected(begun.error());
  if (!*begun) return {};
  const std::size_t ports = daemon.paths()->ends().size();
  out.text(fmt::format("serving paths between {} at {}", counted(ports, "port"), fmt::join(options.sockets, ", ")));
  out.object({{"event", "serving_acm"}, {"sockets", options.sockets}, {"ports", ports}});
  return {};
}

/// Tells what changes outside of the tree, each once.
class Watcher {
 public:
  explicit Watcher(Output& out) : out_(out) {}

  void look(const ssa_driver::Daemon& daemon) {
    if (const ssa_driver::SurveyFacts& surveys = daemon.surveys(); surveys.error != survey_error_) {
      survey_error_ = surveys.error;
      if (!survey_error_.empty()) out_.note("parley ssad: the subnet could not be collected: " + survey_error_);
    }
    if (const std::size_t n = daemon.surveys().sl_unknown.size(); n != unknown_sls_) {
      unknown_sls_ = n;
      if (n > 0)
        out_.note(fmt::format("parley ssad: the SL of {} is unknown: it is taken as that of the subnet",
                              counted(n, "partition")));
    }
    const ssa_driver::Freshness fresh = daemon.freshness(clock_now());
    if (fresh.stale == stale_) return;
    stale_ = fresh.stale;
    const std::string event = stale_ ? "database_stale" : "database_renewed";
    const std::string epoch = epoch_text(daemon.current().get()->epoch());
    out_.text(event + "  " + epoch);
    out_.object({{"event", event}, {"gid", Json()}, {"epoch", epoch}});
  }

 private:
  Output& out_;
  std::string survey_error_;
  std::size_t unknown_sls_ = 0;
  bool stale_ = false;
};

int serve(const SsadArgs& args, const Parts& parts, Output& out) {
  Watcher watcher(out);
  while (!StopSignals::requested()) {
    const auto more = parts.daemon.turn();
    parts.control.turn(clock_now());
    if (parts.metrics != nullptr) parts.metrics->turn();
    while (const auto note = parts.daemon.poll_note()) print_note(*note, out);
    watcher.look(parts.daemon);
    if (!more) return out.error(Exit::environment, more.error().message());
    if (parts.acm != nullptr)
      if (const auto followed = follow(*parts.acm, parts.daemon, args.acm, out); !followed)
        return out.error(followed.error().exit, followed.error().text);
    if (!*more) wait_for(parts);
  }
  parts.daemon.leave();
  if (parts.metrics != nullptr)
    if (const auto ended = parts.metrics->finish(); !ended) return out.error(ended.error().exit, ended.error().text);
  return code(Exit::ok);
}

int run_ssad(SsadArgs& args, Output& out) {
  const StopSignals signals;
  raise_open_files();
  NodesFile nodes;
  if (!args.nodes.empty()) {
    auto read = read_nodes(args.nodes);
    if (!read) return out.error(read.error().exit, "--nodes: " + read.error().text);
    nodes = std::move(*read);
  }
  if (!args.key_file.empty()) {
    const auto key = read_key(args.key_file);
    if (!key) return out.error(key.error().exit, key.error().text);
    args.daemon.key = *key;
  }
  const auto data = parse_address(args.listen, 0);
  if (!data) return out.error(data.error().exit, "--listen: " + data.error().text);
  args.daemon.data = *data;
  if (!is_loopback(*data) && args.key_file.empty())
    out.note("parley ssad: without --key-file, each machine that reaches " + data->to_string() +
             " can be a node of the tree");
  auto opened = mad_driver::open_where(args.transport);
  if (!opened) return out.error(Exit::environment, opened.error());
  const std::string name = opened->name;
  if (const auto chosen = choose_roles(args, nodes, opened->transport->local()); !chosen)
    return out.error(chosen.error().exit, chosen.error().text);
  if (!opened->transport->facts().lids) return out.error(Exit::usage, name + " has no LIDs: the tree needs a subnet");
  find_hosts(args, std::move(nodes));
  if (!args.acm.sockets.empty()) args.acm.ports_of_node = ports_of_node(*opened->transport);
  auto daemon = ssa_driver::Daemon::open(args.daemon, std::move(opened->transport));
  if (!daemon) return out.error(Exit::environment, fmt::format("{}: {}", name, daemon.error().message()));
  QuestionCounts questions;
  auto control = ssa_driver::ControlServer::open(args.control, [&](std::string_view question) {
    return emit(answer_question(question, **daemon, clock_now(), questions));
  });
  if (!control)
    return out.error(Exit::environment, fmt::format("--control {}: {}", args.control, control.error().message()));
  std::unique_ptr<NodeAcm> acm;
  if (!args.acm.sockets.empty()) {
    auto service = NodeAcm::open(args.acm);
    if (!service) return out.error(service.error().exit, service.error().text);
    acm = std::move(*service);
  }
  const SsadMetrics source(**daemon, **control, questions, acm.get());
  std::unique_ptr<MetricsOutput> metrics;
  if (args.metrics.any()) {
    auto output = MetricsOutput::open(args.metrics, out, source);
    if (!output) return out.error(output.error().exit, output.error().text);
    metrics = std::move(*output);
  }
  const std::string gid = gid_text((*daemon)->local().gid), where = (*daemon)->server().listening()->to_string();
  out.text(fmt::format("{}  {}, data at {}, control at {}", gid, roles_text(args.daemon.roles), where, args.control));
  out.object({{"event", "listening"},
              {"gid", gid},
              {"roles", roles_text(args.daemon.roles)},
              {"data", where},
              {"control", args.control}});
  return serve(args, {**daemon, **control, acm.get(), metrics.get()}, out);
}

std::string check_args(const SsadArgs& args) {
  if (args.role.empty() && args.nodes.empty()) return "no role: use --role or --nodes";
  if (args.daemon.heartbeat < std::chrono::milliseconds(50) || args.daemon.heartbeat > std::chrono::minutes(1))
    return "--heartbeat: 50ms to 1m";
  if (args.daemon.collect_every < std::chrono::milliseconds(100)) return "--collect-every: at least 100ms";
  if (args.acm.sockets.size() > ssa_driver::acm_sockets_max)
    return fmt::format("--acm: at most {} are possible", ssa_driver::acm_sockets_max);
  if (!args.acm.addresses.empty() && args.acm.sockets.empty()) return "--addresses needs --acm";
  if (args.daemon.tree.size() > 32) return "--tree: at most 32 octets";
  return {};
}

void add_options(Command sub, SsadArgs& args) {
  sub.option("--role", args.role, "core, distribution, access or consumer; several with commas between them")
      .type("ROLES")
      .check([](const std::string& text) {
        const auto roles = parse_roles(text);
        return roles ? std::string() : roles.error();
      });
  sub.option("--nodes", args.nodes,
             "File with a line for each port: GUID or *, roles, address of data connections. A parent needs an address")
      .type("FILE");
  sub.option(
         "--transport", args.transport,
         "ibsim[:NAME[/NODE]] or umad[:DEVICE[/PORT]]. Default: ibsim if IBSIM_SOCKNAME or SIM_HOST is set, else umad")
      .type("TRANSPORT")
      .check([](const std::string& text) { return mad_driver::check_where(text); });
  sub.option("--listen", args.listen, "Take data connections here; port 0: any").type("ADDRESS[:PORT]").shows_default();
  add_control_option(sub, args.control);
  sub.option(
         "--acm", args.acm.sockets,
         "Also answer ib_acme and others at this Unix socket, as `parley ssa acm` does, by LID, GID and --addresses: "
         "NodeDescriptions are unknown; several are possible")
      .type("PATH")
      .repeatable();
  sub.option("--addresses", args.acm.addresses,
             "With --acm: names and IP addresses of ports: lines with an address and a GID, as in ibacm_hosts.data")
      .type("FILE");
  sub.option("--key-file", args.key_file,
             "File with the SSA_Key of the whole tree, in hexadecimal digits; its mode must be 0600. Default: 0")
      .type("FILE");
  sub.option("--tree", args.daemon.tree, "Name of the tree: a node with another one is refused").type("NAME");
  sub.option("--master", args.daemon.master_lid, "LID of the port with the master; 0: the subnet manager's")
      .type("LID")
      .shows_default();
  sub.option("--children", args.daemon.children_max,
             "Maximum number of children, with those that have the node as backup")
      .range(std::size_t{2}, std::size_t{16384})
      .shows_default();
  add_duration(sub, "--heartbeat", args.daemon.heartbeat,
               "Interval of heartbeats, the same in all nodes; all other times of the tree are in proportion to it");
  add_duration(sub, "--collect-every", args.daemon.collect_every, "At the root: read the subnet so often");
  add_duration(sub, "--stale-after", args.daemon.stale_after,
               "Call the database stale when it was last known to be the newest so long ago; it answers all the same; "
               "0: never");
  add_metrics_options(sub, args.metrics);
  sub.flag("--route-sls", args.daemon.route_sls,
           "At the root: ask the SA for the SLs of routes: needed if the routing engine chooses SLs");
}

}  // namespace

void register_ssad(Command app, Context& context) {
  auto args = std::make_shared<SsadArgs>();
  Command sub = app.subcommand("ssad", "Run a node of the tree that distributes the subnet administration's data");
  add_options(sub, *args);
  add_json_flag(sub, context);
  sub.footer(
      "A core node at the subnet manager's port is the root: it reads the subnet, and gives each node its parents. "
      "The\n"
      "others get the data from their parents, and answer `parley ssa query` from it.\n"
      "Examples:\n"
      "  parley ssad --role core\n"
      "  parley ssad --role consumer --control /run/parley-ssad.sock\n"
      "  parley ssad --nodes /etc/rdma/ssa-nodes --listen 192.0.2.1");
  sub.run([args, &context] { return run_ssad(*args, context.out); }, [args] { return check_args(*args); });
}

}  // namespace parley::tools
