// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// `parley neg`: staged negotiation of queue pairs over TCP.
#include <poll.h>
#include <sys/epoll.h>

#include <algorithm>
#include <memory>

#include <fmt/format.h>

#include "base/json_text.hpp"
#include "base/text.hpp"
#include "drivers/asio/descriptor.hpp"
#include "drivers/clock.hpp"
#include "drivers/plugin/process.hpp"
#include "parley/neg_plugin.hpp"
#include "parley/neg_qp.hpp"
#include "parley/neg_roce.hpp"
#include "parley/neg_tcp.hpp"
#include "parley/neg_verbs.hpp"
#include "tools/command.hpp"
#include "tools/neg/neg.hpp"
#include "tools/ops/config.hpp"
#include "tools/ops/watch.hpp"
#include "tools/options.hpp"
#include "tools/pcap/capture.hpp"
#include "tools/report.hpp"
#include "tools/rping/session.hpp"

namespace parley::tools {
namespace {

constexpr std::uint16_t neg_port = 7177;
constexpr std::uint16_t verbs_programs_port = 18515;  // the port of the ping-pong programs and of perftest

/// "manual", "acme/rc".
neg::Offer offer_of(const std::string& name, const neg::Config& config) {
  const std::size_t slash = name.find('/');
  if (slash == std::string::npos) return {.plugin = "parley", .variant = name, .config = config};
  return {.plugin = name.substr(0, slash), .variant = name.substr(slash + 1), .config = config};
}

Or<neg::Config> config_of(const std::vector<std::string>& settings) {
  neg::Config out;
  for (const std::string& setting : settings) {
    const std::size_t equals = setting.find('=');
    if (equals == std::string::npos || equals == 0)
      return command_error(Exit::usage, fmt::format("--set {}: write NAME=VALUE", setting));
    if (!out.emplace(setting.substr(0, equals), setting.substr(equals + 1)).second)
      return command_error(Exit::usage, fmt::format("--set {}: it is set twice", setting.substr(0, equals)));
  }
  return out;
}

/// Adds Parley's variants and those of `args`. A file in a folder that cannot be loaded is reported and skipped.
/// `drivers` are for Parley's own queue pairs.
Or<void> add_plugins(neg::Framework& framework, const PluginArgs& args, neg::QpDrivers drivers, Context& context) {
  const auto add = [&](const std::string& file) -> neg::Outcome<void> {
    auto plugin = args.limit > Duration{} ? neg::load_isolated_plugin(file, args.limit) : neg::load_plugin(file);
    if (!plugin) return tl::unexpected(plugin.error());
    return framework.add(std::move(*plugin));
  };
  if (const auto own = framework.add(neg::make_builtin_plugin(std::move(drivers))); !own)
    return command_error(Exit::environment, own.error().to_string());
  for (const std::string& file : args.files)
    if (const auto added = add(file); !added) return command_error(Exit::environment, added.error().to_string());
  for (const std::string& folder : args.folders) {
    const auto files = neg::plugins_in(folder);
    if (!files) return command_error(Exit::environment, files.error().to_string());
    for (const std::string& file : *files)
      if (const auto added = add(file); !added) context.out.note("left out: " + added.error().to_string());
  }
  return {};
}

/// Null for --provider rdmacm: queue pairs are those of the machine's RDMA devices.
Or<std::unique_ptr<neg::RoceEngine>> open_engine(const PluginArgs& args) {
  if (args.provider != "roce") return nullptr;
  auto engine = neg::RoceEngine::open();
  if (!engine) return command_error(Exit::environment, "cannot open sockets: " + engine.error().message());
  return std::move(*engine);
}

void add_plugin_options(Command sub, PluginArgs& args) {
  const auto provider =
      sub.option("--provider", args.provider,
                 "Where queue pairs come from: rdmacm, the machine's RDMA devices; roce, Parley's own RoCEv2 over UDP "
                 "port 4791")
          .one_of({"rdmacm", "roce"})
          .shows_default();
  add_roce_flag(sub, provider, args.provider);
  sub.option("--plugin", args.files, "Shared object or Python module with a plug-in; may be repeated")
      .type("FILE")
      .repeatable();
  sub.option("--plugin-dir", args.folders, "Load each *.so and *.py of this folder; may be repeated")
      .type("DIR")
      .repeatable();
  add_duration(sub, "--plugin-limit", args.limit,
               "Each session of these runs in a process of its own; longest time of a call (0: in this process)");
}

/// One command: the framework with its plug-ins, and the negotiations over TCP.
class Negotiator {
 public:
  Negotiator(const NegArgs& args, Context& context) : args_(args), context_(context), tally_(args, context) {}

  int serve(const Address& local);
  int dial(const std::vector<Address>& servers);

 private:
  Or<void> open();
  bool watch_both();
  void turn(Instant deadline);
  void wait(Instant until);
  void take_events();
  int finish(bool timed_out);

  const NegArgs& args_;
  Context& context_;
  std::unique_ptr<neg::RoceEngine> engine_;  // null without --provider roce
  neg::Framework framework_;
  neg::Config config_;
  std::unique_ptr<CaptureWriter> capture_;
  Watch watch_;
  std::unique_ptr<neg::TcpPeers> peers_;
  asio_driver::Descriptor both_{::epoll_create1(EPOLL_CLOEXEC)};  // the descriptors of engine_ and peers_
  StopSignals signals_;
  NegTally tally_;
};

Or<void> Negotiator::open() {
  auto config = config_of(args_.settings);
  if (!config) return tl::unexpected(config.error());
  config_ = std::move(*config);
  auto engine = open_engine(args_.plugins);
  if (!engine) return tl::unexpected(engine.error());
  engine_ = std::move(*engine);
  auto drivers = engine_ ? engine_->drivers() : neg::verbs_drivers();
  if (const auto added = add_plugins(framework_, args_.plugins, std::move(drivers), context_); !added) return added;
  if (auto watched = watch_.open(args_.log, args_.metrics, context_.out, ops::Metrics::CommandKind::negotiations);
      !watched)
    return watched;
  auto peers = neg::TcpPeers::open(
      framework_, {.session = args_.session, .sessions_max = args_.sessions_max, .trace = watch_.sink()});
  if (!peers) return command_error(Exit::environment, "cannot open sockets: " + peers.error().message());
  peers_ = std::move(*peers);
  if (engine_)
    watch_.count_packets([engine = engine_.get()] { return packet_counts(engine->counters(), engine->dropped()); });
  if (engine_ && !watch_both()) return command_error(Exit::environment, "no file descriptor is available");
  if (args_.pcapng.empty()) return {};
  auto capture = CaptureWriter::create(args_.pcapng);
  if (!capture) return tl::unexpected(capture.error());
  capture_ = std::move(*capture);
  peers_->set_tap([writer = capture_.get()](const TapRecord& record) { writer->add(record); });
  if (engine_) engine_->set_tap([writer = capture_.get()](const PacketTapRecord& record) { writer->add(record); });
  return {};
}

bool Negotiator::watch_both() {
  for (const int fd : {engine_->fd(), peers_->fd()}) {
    epoll_event event{};
    event.events = EPOLLIN;
    if (::epoll_ctl(both_.fd, EPOLL_CTL_ADD, fd, &event) != 0) return false;
  }
  return true;
}

/// Waits for at most 100 ms, so that signals are noticed.
void Negotiator::turn(Instant deadline) {
  constexpr Duration longest = std::chrono::milliseconds(100);
  const Instant now = peers_->now();
  Duration left = deadline <= now ? Duration(1) : std::min(deadline - now, longest);
  if (watch_.has_metrics() || engine_) {
    wait(std::min(now + left, peers_->next_deadline()));
    left = Duration{};
  }
  if (engine_) engine_->run_once({});
  peers_->run_once(left);
  take_events();
}

void Negotiator::wait(Instant until) {
  if (engine_) until = std::min(until, engine_->next_deadline());
  if (watch_.has_metrics()) return watch_.turn(engine_ ? both_.fd : peers_->fd(), until);
  const Duration left = std::max(until - peers_->now(), Duration{});
  const timespec limit = timespec_of(left);
  pollfd ready{.fd = both_.fd, .events = POLLIN, .revents = 0};
  (void)::ppoll(&ready, 1, &limit, nullptr);
}

void Negotiator::take_events() {
  while (const auto event = peers_->poll_event()) tally_.take(*event);
}

int Negotiator::serve(const Address& local) {
  if (const auto opened = open(); !opened) return context_.out.error(opened.error().exit, opened.error().text);
  std::vector<neg::Offer> offers;
  for (const std::string& name : args_.variants) offers.push_back(offer_of(name, config_));
  if (const auto listening = peers_->listen(local, std::move(offers)); !listening)
    return context_.out.error(exit_of(listening.error()), listening.error().to_string());
  const Instant deadline = args_.timeout == Duration{} ? never : peers_->now() + args_.timeout;
  const auto stopped = [&] { return StopSignals::requested() || peers_->now() >= deadline; };
  while (!tally_.served() && !tally_.listen_failure() && !stopped()) turn(deadline);
  peers_->stop_listening();
  return finish(args_.count > 0 && !tally_.served() && !StopSignals::requested());
}

int Negotiator::dial(const std::vector<Address>& servers) {
  if (const auto opened = open(); !opened) return context_.out.error(opened.error().exit, opened.error().text);
  const neg::Offer what = offer_of(args_.variants.front(), config_);
  const auto id = peers_->dial({.request = {.plugin = what.plugin, .variant = what.variant, .label = args_.label},
                                .config = config_,
                                .server = servers.front(),
                                .backups = {servers.begin() + 1, servers.end()},
                                .retry = args_.retry,
                                .session = args_.session,
                                .connect_timeout = args_.connect_timeout});
  if (!id) return context_.out.error(exit_of(id.error()), id.error().to_string());
  const Instant deadline = args_.timeout == Duration{} ? never : peers_->now() + args_.timeout;
  while (peers_->busy() > 0 && !StopSignals::requested() && peers_->now() < deadline) turn(deadline);
  return finish(peers_->busy() > 0 && !StopSignals::requested());
}

int Negotiator::finish(bool timed_out) {
  // Send what is pending, and give the peers one second to close.
  const Instant end = peers_->now() + std::chrono::seconds(1);
  while (peers_->streams() > peers_->busy() && peers_->now() < end) turn(end);
  Or<void> captured;
  if (capture_) {
    peers_->set_tap({});
    if (engine_) engine_->set_tap({});
    captured = capture_->finish();
  }
  if (auto watched = watch_.finish(); !watched && captured) captured = std::move(watched);
  return tally_.finish(captured, timed_out);
}

std::uint16_t port_of(const NegArgs& args) {
  if (args.port) return static_cast<std::uint16_t>(*args.port);
  const bool program = args.variants.size() == 1 && (offer_of(args.variants[0], {}).variant == "pingpong" ||
                                                     offer_of(args.variants[0], {}).variant == "perftest");
  return program ? verbs_programs_port : neg_port;
}

Or<std::vector<Address>> addresses_of(const std::string& text, std::uint16_t port) {
  const auto endpoint = parse_endpoint(text, port);
  if (!endpoint) return tl::unexpected(endpoint.error());
  return resolve(*endpoint);
}

/// Rejects options that apply to TCP only.
int run_over_cm(const NegArgs& args, const Address& address, decltype(&serve_over_cm) run, Context& context) {
  const auto config = config_of(args.settings);
  if (!config) return context.out.error(config.error().exit, config.error().text);
  if (args.variants.size() != 1 || offer_of(args.variants[0], {}).variant != "perftest")
    return context.out.error(Exit::usage, "--rdma-cm is perftest's -R: it goes with --variant perftest");
  if (!args.backups.empty() || args.retry.rounds > 1)
    return context.out.error(Exit::usage, "--rdma-cm has one server, which is asked once: no --backup, no --rounds");
  return run(args, *config, address, context);
}

int run_serve(const NegArgs& args, Context& context) {
  const auto local = addresses_of(args.endpoint, port_of(args));
  if (!local) return context.out.error(local.error().exit, local.error().text);
  if (!args.settings.empty() && args.variants.size() != 1)
    return context.out.error(Exit::usage, "--set is for one --variant");
  if (args.rdma_cm) return run_over_cm(args, local->front(), serve_over_cm, context);
  return Negotiator(args, context).serve(local->front());
}

int run_dial(const NegArgs& args, Context& context) {
  std::vector<Address> servers;
  std::vector<std::string> names{args.endpoint};
  names.insert(names.end(), args.backups.begin(), args.backups.end());
  for (const std::string& name : names) {
    const auto found = addresses_of(name, port_of(args));
    if (!found) return context.out.error(found.error().exit, found.error().text);
    servers.insert(servers.end(), found->begin(), found->end());
  }
  servers.resize(std::min(servers.size(), 1 + cm::backups_max));
  if (args.rdma_cm) return run_over_cm(args, servers.front(), dial_over_cm, context);
  return Negotiator(args, context).dial(servers);
}

struct PluginsArgs {
  PluginArgs plugins;
  std::string name;  ///< a variant, or a file to check
  std::vector<std::string> settings;
};

/// Runs both roles of a variant against each other in memory. Returns the failure, if any.
std::optional<neg::Failure> negotiate_with_itself(const neg::Framework& framework, const neg::Framework::Entry& entry,
                                                  const neg::Config& config) {
  const neg::Request request{.plugin = entry.plugin, .variant = entry.variant.id};
  auto first = framework.make(entry.plugin, entry.variant.id, neg::Role::initiator, config);
  if (!first) return first.error();
  auto initiator = neg::Session::initiate(request, std::move(*first), {}, {});
  if (!initiator) return initiator.error();
  auto responder = neg::Session::respond(
      [&](const neg::Request& r) { return framework.make(r.plugin, r.variant, neg::Role::responder, config); }, {}, {});
  for (;;) {
    const Bytes there = initiator->poll_transmit();
    responder->handle_bytes({}, there);
    const Bytes back = responder->poll_transmit();
    initiator->handle_bytes({}, back);
    if (there.empty() && back.empty()) break;
  }
  for (const neg::Session* side : {&*responder, &*initiator})
    if (side->failure() != nullptr && !side->failure()->by_peer) return *side->failure();
  if (initiator->completed() && responder->completed()) return std::nullopt;
  return neg::Failure{.problem = neg::Problem::plugin_refused, .text = "both sides wait for each other"};
}

int run_plugins(const PluginsArgs& args, Context& context) {
  neg::Framework framework;
  const auto engine = open_engine(args.plugins);
  if (!engine) return context.out.error(engine.error().exit, engine.error().text);
  auto drivers = *engine ? (*engine)->drivers() : neg::verbs_drivers();
  if (const auto added = add_plugins(framework, args.plugins, std::move(drivers), context); !added)
    return context.out.error(added.error().exit, added.error().text);
  if (!args.name.empty()) {
    const neg::Offer wanted = offer_of(args.name, {});
    const auto found = framework.find(wanted.plugin, wanted.variant);
    if (!found) return context.out.error(Exit::usage, found.error().to_string());
    context.out.text(entry_text(**found));
    context.out.object(entry_json(**found));
    return code(Exit::ok);
  }
  for (const auto& entry : framework.variants()) {
    context.out.text(fmt::format("{:<20} version {}  {}", entry.plugin + "/" + entry.variant.id, entry.version,
                                 entry.variant.summary));
    context.out.object(entry_json(entry));
  }
  return code(Exit::ok);
}

int check_plugin(const PluginsArgs& args, Context& context) {
  auto plugin = neg::load_plugin(args.name);
  if (!plugin) return context.out.error(Exit::failed, plugin.error().to_string());
  neg::Framework framework;
  if (const auto added = framework.add(std::move(*plugin)); !added)
    return context.out.error(Exit::failed, added.error().to_string());
  auto config = config_of(args.settings);
  if (!config) return context.out.error(config.error().exit, config.error().text);
  bool sound = true;
  for (const auto& entry : framework.variants()) {
    const auto failure = negotiate_with_itself(framework, entry, *config);
    sound = sound && !failure;
    context.out.text(fmt::format("{}/{} (version {}): {}", entry.plugin, entry.variant.id, entry.version,
                                 failure ? "failed: " + failure->to_string() : "completed with itself"));
    Json line = entry_json(entry);
    line["event"] = "checked_plugin";
    line["outcome"] = failure ? "failed" : "completed";
    if (failure) line["why"] = neg_failure_json(*failure);
    context.out.object(line);
  }
  return sound ? code(Exit::ok)
               : context.out.error(Exit::failed, args.name + ": a variant does not complete with itself");
}

/// Runs the check in a separate process, which may crash. It is killed if it takes too long.
int run_check_plugin(const PluginsArgs& args, Context& context) {
  if (args.plugins.limit == Duration{}) return check_plugin(args, context);
  const auto ended = neg::run_apart(args.plugins.limit, [&] { return check_plugin(args, context); });
  if (!ended) return context.out.error(Exit::failed, fmt::format("{}: {}", args.name, ended.error()));
  return *ended;
}

void add_neg_options(Command sub, NegArgs& args, Context& context) {
  add_plugin_options(sub, args.plugins);
  sub.option("--set", args.settings, "A value of the variant's configuration; may be repeated")
      .type("NAME=VALUE")
      .repeatable();
  add_duration(sub, "--answer-timeout", args.session.answer_timeout, "Longest wait for each answer");
  add_duration(sub, "--session-timeout", args.session.session_timeout, "Longest life of a session");
  add_duration(sub, "--timeout", args.timeout, "Give up after this long in all (0: no limit)");
  sub.option("--export", args.document, "Print what was agreed, and nothing else, for another program")
      .one_of({"otg", "json", "env"});
  sub.flag("-R,--rdma-cm", args.rdma_cm,
           "perftest: exchange over a connection of the provider, and connect the queue pair so, as its -R");
  sub.flag("--history", args.history, "Print every message, too");
  sub.option("--pcapng", args.pcapng, "Write what went over to this file").type("FILE");
  add_log_options(sub, args.log);
  add_metrics_options(sub, args.metrics);
  add_json_flag(sub, context);
  add_settings(sub, context);
}

void register_serve(Command neg, Context& context) {
  auto args = std::make_shared<NegArgs>();
  args->endpoint = "0.0.0.0";
  Command sub = neg.subcommand("serve", "Wait for peers and negotiate with each");
  sub.option("-a,--address,endpoint", args->endpoint, "Address to listen on, with a port if wanted; [::] for IPv6");
  sub.option("-p,--port", args->port, "Port; 7177, or 18515 for pingpong and perftest").type("PORT").range(0, 65535);
  sub.option("--variant", args->variants, "PLUGIN/VARIANT to offer, or VARIANT of Parley's; all, if none is named")
      .type("VARIANT")
      .repeatable();
  sub.option("-n,--count", args->count, "End after this many negotiations (0: go on)").shows_default();
  sub.option("--sessions-max", args->sessions_max, "Sessions at once").range(2U, 60000U).shows_default();
  add_neg_options(sub, *args, context);
  sub.footer(
      "Examples:\n"
      "  parley neg serve --variant manual --set qpn=0x12 --set gid=192.0.2.1\n"
      "  parley neg serve [fe80::1%eth0]:7177 --variant verbs-rc --set qpn=0x12 --set gid=fe80::1 --json\n"
      "  parley neg serve --variant verbs-rc               with a queue pair of this machine's RDMA device\n"
      "  parley neg serve --variant pingpong               for ibv_rc_pingpong of a peer, to its end\n"
      "  parley neg serve --variant perftest -R            for ib_write_bw -R\n"
      "  parley neg serve --variant pingpong --roce        the same without an RDMA device");
  sub.run([args, &context] { return run_serve(*args, context); });
}

void register_dial(Command neg, Context& context) {
  auto args = std::make_shared<NegArgs>();
  args->variants = {"verbs-rc"};
  Command sub = neg.subcommand("dial", "Negotiate with a peer that waits");
  sub.option("-a,--address,endpoint", args->endpoint, "HOST, HOST:PORT or [ADDRESS%SCOPE]:PORT of the peer").required();
  sub.option("-p,--port", args->port, "Port, if ENDPOINT has none; 7177, or 18515 for pingpong and perftest")
      .type("PORT")
      .range(0, 65535);
  sub.option("--variant", args->variants.front(), "PLUGIN/VARIANT, or VARIANT of Parley's")
      .type("VARIANT")
      .shows_default();
  sub.option("--label", args->label, "For the peer's log").type("TEXT");
  sub.option("--backup", args->backups, "HOST or HOST:PORT to try when ENDPOINT fails; may be repeated")
      .type("HOST")
      .repeatable();
  sub.option("--rounds", args->retry.rounds, "How often all addresses are tried")
      .range(1U, cm::retry_rounds_max)
      .shows_default();
  add_duration(sub, "--back-off", args->retry.first, "Wait before the second round; doubled for each later one");
  add_duration(sub, "--back-off-max", args->retry.cap, "Longest such wait");
  add_duration(sub, "--connect-timeout", args->connect_timeout, "Longest wait for the TCP connection");
  add_neg_options(sub, *args, context);
  sub.footer(
      "Examples:\n"
      "  parley neg dial 192.0.2.1 --variant verbs-rc --set device=mlx5_0\n"
      "  parley neg dial 192.0.2.1 --variant perftest --set test=send_bw --set size=1024\n"
      "  parley neg dial 192.0.2.1 --variant manual --set qpn=0x11 --set gid=192.0.2.2 --export otg\n"
      "  parley neg dial host --backup spare --rounds 3 --set qpn=0x11 --set gid=192.0.2.2 --history");
  sub.run([args, &context] { return run_dial(*args, context); });
}

}  // namespace

void register_neg(Command app, Context& context) {
  Command neg = app.subcommand("neg", "Negotiate queue pairs in stages: info, ready, done");
  neg.requires_subcommand();
  register_serve(neg, context);
  register_dial(neg, context);
  auto listed = std::make_shared<PluginsArgs>();
  Command plugins = neg.subcommand("plugins", "List the variants, or the parameters of one");
  plugins.option("variant", listed->name, "Only this one, with its configuration").type("VARIANT");
  add_plugin_options(plugins, listed->plugins);
  add_json_flag(plugins, context);
  plugins.footer(
      "Examples:\n  parley neg plugins\n  parley neg plugins perftest\n  parley neg plugins --plugin ./acme.so");
  plugins.run([listed, &context] { return run_plugins(*listed, context); });
  auto checked = std::make_shared<PluginsArgs>();
  checked->plugins.limit = std::chrono::seconds(20);
  Command check = neg.subcommand("check-plugin", "Load a plug-in, hold it to its interface, let it talk to itself");
  check.option("file", checked->name, "Shared object or Python module").type("FILE").required();
  check.option("--set", checked->settings, "A value of its variants' configuration").type("NAME=VALUE").repeatable();
  add_duration(check, "--plugin-limit", checked->plugins.limit,
               "Longest time of the check, which runs in a process of its own (0: in this one, without limit)");
  add_json_flag(check, context);
  check.footer("Examples:\n  parley neg check-plugin ./acme.so\n  parley neg check-plugin ./acme.so --set rate=200");
  check.run([checked, &context] { return run_check_plugin(*checked, context); });
}

}  // namespace parley::tools
