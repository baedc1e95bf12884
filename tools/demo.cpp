// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// `parley demo` shows Parley in a few seconds and without RDMA hardware. First it simulates a handshake over a link
// that loses frames. Then a responder and an initiator in this process connect over real loopback sockets with MPA
// revision 1 and the Rtr frame of 2007, and exchange Sends, RDMA Reads and RDMA Writes. The capture of this is drawn
// and checked, as are real captures of Linux. With --roce the two connect over RoCEv2 on UDP.
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <vector>

#include <fmt/format.h>

#include "tools/command.hpp"
#include "tools/demo_captures.hpp"
#include "tools/own_program.hpp"
#include "tools/report.hpp"
#include "tools/rping/rping_link.hpp"
#include "tools/rping/session.hpp"
#include "tools/sim/demo_sim.hpp"
#include "tools/trace_sink.hpp"

namespace parley::tools {

namespace {

namespace fs = std::filesystem;

constexpr std::uint32_t ping_octets = 4096;
constexpr std::uint32_t pings_wanted = 3;
constexpr Duration patience = std::chrono::seconds(10);
constexpr std::uint8_t listens_max = 8;  // how many addresses of 127.0.0.0/24 to try for RoCE's port

struct DemoArgs {
  SessionOptions session;
  std::vector<std::string> captures;
  bool ipv6 = false;
  bool roce() const { return session.provider == "roce"; }
};

/// One side: its host, its connection, its buffers.
struct Party {
  mpa::Role role;
  Host& host;
  PdHandle pd = 0;
  cm::Id id;
  std::unique_ptr<RpingLink> link;
  std::optional<cm::Established> established;
  std::optional<CommandError> fault;
  bool over = false;
  const char* name() const { return role == mpa::Role::initiator ? "initiator" : "responder"; }
};

class Demo {
 public:
  Demo(const DemoArgs& args, Session& session, Host& responder_host, Context& context)
      : args_(args),
        session_(session),
        context_(context),
        initiator_{mpa::Role::initiator, session.host()},
        responder_{mpa::Role::responder, responder_host} {}

  int run(const std::string& pcapng);

 private:
  bool step(const std::string& what, bool (Demo::*done)() const);
  void turn();
  void handle(Party& party, const cm::Event& event);
  void begin();
  void drive_initiator();
  void drive_responder();
  bool listening() const { return server_.has_value(); }
  bool connected() const { return initiator_.established && responder_.established; }
  bool exchanged() const { return pings_ == pings_wanted; }
  bool ended() const { return initiator_.over && responder_.over; }
  void prepare(Party& party);
  void report_error(Party& party, const std::string& text);
  void listen();
  void connect();
  void print_agreement();
  void say(const std::string& text) { context_.out.text(text); }

  const DemoArgs& args_;
  Session& session_;
  Context& context_;
  Party initiator_, responder_;
  std::optional<Address> server_;
  std::uint8_t listens_ = 0;  ///< addresses that were tried
  std::uint32_t pings_ = 0, reads_checked_ = 0, writes_checked_ = 0;
  bool sink_next_ = false;        ///< initiator: the next message asks for the sink
  bool sink_advertised_ = false;  ///< responder: the next advertisement is the sink
};

void Demo::report_error(Party& party, const std::string& text) {
  if (!party.fault) party.fault = CommandError{Exit::failed, fmt::format("{}: {}", party.name(), text)};
}

void Demo::prepare(Party& party) {
  const auto pd = party.host.device().alloc_pd();
  if (!pd) return report_error(party, message_of(pd.error()));
  party.pd = *pd;
  auto link = RpingLink::create(party.host.device(), party.pd, ping_octets);
  if (!link) return report_error(party, link.error().text);
  party.link = std::move(*link);
}

void Demo::handle(Party& party, const cm::Event& event) {
  if (const auto* ready = std::get_if<cm::Listening>(&event)) {
    server_ = ready->local;
  } else if (const auto* request = std::get_if<cm::ConnectRequest>(&event)) {
    say(fmt::format("responder: request from {}, {}", request->peer.to_string(),
                    private_data_text(request->private_data)));
    party.id = request->id;
    const auto qp = party.id.create_qp(party.link->init());
    if (!qp) return report_error(party, message_of(qp.error()));
    party.link->attach(**qp);
    static constexpr std::string_view welcome = "welcome";
    const Bytes data(welcome.begin(), welcome.end());
    cm::AcceptOptions options;
    options.private_data = data;
    if (const auto accepted = party.id.accept(options); !accepted) report_error(party, message_of(accepted.error()));
  } else if (const auto* up = std::get_if<cm::Established>(&event)) {
    party.established = *up;
  } else if (const auto* rejected = std::get_if<cm::Rejected>(&event)) {
    report_error(party, "rejected: " + rejected->why.to_string());
  } else if (const auto* failed = std::get_if<cm::ConnectFailed>(&event)) {
    if (args_.roce() && !server_ && failed->why.code == Errc::address_in_use && listens_ < listens_max) return listen();
    report_error(party, failed->why.to_string());
  } else if (const auto* retrying = std::get_if<cm::Retrying>(&event)) {
    say(fmt::format("{}: trying again: {}", party.name(), retrying->why.to_string()));
  } else if (const auto* down = std::get_if<cm::Disconnected>(&event)) {
    party.over = true;
    if (!down->graceful) report_error(party, down->why.to_string());
  }
}

void Demo::turn() {
  for (Party* party : {&initiator_, &responder_}) {
    party->host.run_once(std::chrono::milliseconds(1));
    while (auto event = party->host.cm().poll_event()) handle(*party, *event);
  }
  if (connected() && !exchanged()) {
    drive_responder();
    drive_initiator();
  }
}

/// Starts ping `pings_`: the source buffer holds its data, and a Send advertises that buffer.
void Demo::begin() {
  rping_fill(initiator_.link->source(), pings_);
  initiator_.link->send(initiator_.link->advertise_source());
  sink_next_ = true;
}

void Demo::drive_initiator() {
  RpingLink& link = *initiator_.link;
  while (const auto done = link.poll()) {
    if (done->what != RpingLink::WorkKind::received) continue;
    if (std::exchange(sink_next_, false)) {
      link.send(link.advertise_sink());
      continue;
    }
    // The RDMA Write precedes the Send that has just arrived (RFC 5040 §5.5), so that its data must be here.
    if (const auto at = rping_difference(link.sink(), pings_))
      return report_error(initiator_, fmt::format("RDMA Write brought wrong data at octet {}", *at));
    ++writes_checked_;
    if (++pings_ < pings_wanted) begin();
  }
  if (link.fault()) report_error(initiator_, *link.fault());
}

void Demo::drive_responder() {
  RpingLink& link = *responder_.link;
  while (const auto done = link.poll()) {
    if (done->what == RpingLink::WorkKind::received && done->octets == RpingInfo::wire_size) {
      if (!std::exchange(sink_advertised_, false)) {
        link.read_to_sink(done->info);
      } else {
        link.write_from_sink(done->info, ping_octets);
        link.send({});
      }
    } else if (done->what == RpingLink::WorkKind::read) {
      if (const auto at = rping_difference(link.sink(), pings_))
        return report_error(responder_, fmt::format("RDMA Read brought wrong data at octet {}", *at));
      ++reads_checked_;
      sink_advertised_ = true;
      link.send({});
    }
  }
  if (link.fault()) report_error(responder_, *link.fault());
}

bool Demo::step(const std::string& what, bool (Demo::*done)() const) {
  const Instant deadline = session_.now() + patience;
  while (!(this->*done)()) {
    if (initiator_.fault || responder_.fault) return false;
    if (Session::stopped() || session_.now() >= deadline) {
      report_error(initiator_, fmt::format("{}: {}", what, Session::stopped() ? "interrupted" : "no end within 10s"));
      return false;
    }
    turn();
  }
  return !initiator_.fault && !responder_.fault;
}

/// RoCEv2 has one UDP port. If another process has it at one address, the next address of 127.0.0.0/24 is tried.
void Demo::listen() {
  Address local = Address::loopback(args_.ipv6 ? Address::Family::v6 : Address::Family::v4, 0);
  if (args_.roce()) local.octets[3] = ++listens_;
  (void)responder_.host.cm().listen(local);
}

void Demo::connect() {
  cm::ConnectOptions options;
  if (!args_.roce()) options.transport = mpa::Options{.revision = 1, .rtr = mpa::Rtr::frame};
  static constexpr std::string_view hello = "hello";
  const Bytes data(hello.begin(), hello.end());
  options.private_data = data;
  options.qp = initiator_.link->init();
  const auto id = initiator_.host.cm().connect(*server_, options);
  if (!id) return report_error(initiator_, message_of(id.error()));
  initiator_.id = *id;
  initiator_.link->attach(*initiator_.id.qp());
}

void Demo::print_agreement() {
  for (const Party* party : {&initiator_, &responder_}) {
    const cm::Established& up = *party->established;
    if (up.mpa() == nullptr) {
      say(fmt::format("\n{}: {}", party->name(), agreed_text(up)));
      context_.out.object({{"event", "agreement"},
                           {"role", party->name()},
                           {"parameters", parameters_json(up.parameters, party->role, up.id, up.ird, up.ord)}});
      continue;
    }
    const mpa::Parameters& p = *party->established->mpa();
    say(fmt::format("\n{}: {}", party->name(), parameters_text(p, party->role)));
    for (const std::string& reason : p.reasons) say("    because " + reason);
    context_.out.object(
        {{"event", "agreement"}, {"role", party->name()}, {"parameters", parameters_json(p, party->role)}});
  }
}

int Demo::run(const std::string& pcapng) {
  if (args_.roce()) {
    say("Parley demo over RoCEv2: two RDMA peers on this machine, by UDP port 4791, without hardware, kernel module or "
        "root.\n");
  } else {
    if (const int simulated = demo_simulation(context_.out); simulated != code(Exit::ok)) return simulated;
    say("Now over loopback TCP: two RDMA peers on this machine, without hardware, kernel module or root.\n");
  }
  prepare(initiator_);
  prepare(responder_);
  listen();
  bool good = step("listening", &Demo::listening);
  if (good) {
    say("responder: listening on " + server_->to_string());
    connect();
  }
  good = good && step("connection set-up", &Demo::connected);
  if (good) {
    print_agreement();
    begin();
    good = step("data exchange", &Demo::exchanged);
  }
  if (good) {
    say(fmt::format(
        "\n{} rounds of Send, RDMA Read and RDMA Write: {} Reads and {} Writes of {} octets, all data right", pings_,
        reads_checked_, writes_checked_, ping_octets));
    (void)initiator_.id.disconnect();
    good = step("disconnecting", &Demo::ended);
  }
  context_.out.object({{"event", "exchange"},
                       {"pings", pings_},
                       {"octets", ping_octets},
                       {"reads_verified", reads_checked_},
                       {"writes_verified", writes_checked_}});
  initiator_.id.destroy();
  responder_.id.destroy();
  if (const auto captured = session_.finish(); !captured)
    return context_.out.error(captured.error().exit, captured.error().text);
  for (const Party* party : {&initiator_, &responder_})
    if (party->fault) return context_.out.error(party->fault->exit, party->fault->text);
  return demo_captures(pcapng, args_.captures, args_.roce(), context_);
}

/// The default path of demo.pcapng: the top of the build tree if the program lies in one, else the temporary directory.
std::string default_pcapng() {
  std::error_code error;
  const fs::path self = own_program();
  const fs::path build = self.parent_path().parent_path();
  if (!self.empty() && fs::exists(build / "CMakeCache.txt", error)) return (build / "demo.pcapng").string();
  fs::path directory = fs::temp_directory_path(error);
  if (error) directory = "/tmp";
  return (directory / "demo.pcapng").string();
}

parley::Result<std::unique_ptr<Host>> open_responder(const DemoArgs& args, trace::Sink* sink) {
  if (args.roce()) {
    RoceHostOptions options;
    options.roce.trace = sink;
    return RoceHost::open(options);
  }
  TcpHostOptions options;
  options.iwarp.trace = sink;
  return TcpHost::open(options);
}

int run_demo(DemoArgs& args, Context& context) {
  if (args.roce() && args.ipv6)
    return context.out.error(Exit::usage,
                             "--ipv6 cannot go with --roce: each side needs an address of its own, and IPv6 has one "
                             "loopback address");
  if (args.session.pcapng.empty()) args.session.pcapng = default_pcapng();
  auto session = Session::open(args.session, context.out, "initiator");
  if (!session) return context.out.error(session.error().exit, session.error().text);
  std::optional<TraceSink> trace;
  if (const auto level = trace_level(args.session.verbose)) {
    trace.emplace(context.out, *level, "responder");
    trace->share_start(*(*session)->trace());
  }
  auto responder = open_responder(args, trace ? &*trace : nullptr);
  if (!responder) return context.out.error(Exit::environment, "cannot open sockets: " + message_of(responder.error()));
  return Demo(args, **session, **responder, context).run(args.session.pcapng);
}

}  // namespace

void register_demo(Command app, Context& context) {
  auto args = std::make_shared<DemoArgs>();
  Command sub = app.subcommand(
      "demo", "Show simulated and real connections, their data, and verdicts on captures; takes seconds");
  sub.option("captures", args->captures, "Captures to judge (default: those of Linux in the source tree)").type("FILE");
  sub.flag("-6,--ipv6", args->ipv6, "Over IPv6 loopback");
  sub.flag(
      "--roce", [args] { args->session.provider = "roce"; }, "Over RoCEv2 on UDP instead of iWARP on TCP");
  sub.option("--pcapng", args->session.pcapng, "Where the capture goes (default: demo.pcapng in the build directory)")
      .type("FILE");
  add_trace_option(sub, args->session.verbose);
  add_json_flag(sub, context);
  sub.footer(
      "Examples:\n"
      "  parley demo\n"
      "  parley demo --roce                            over UDP port 4791\n"
      "  parley demo --pcapng /tmp/rtr.pcapng          then: wireshark /tmp/rtr.pcapng\n"
      "  parley demo my-own-capture.pcapng");
  sub.run([args, &context] { return run_demo(*args, context); });
}

}  // namespace parley::tools
