// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// `parley conform`: runs the conformance cases against a live peer.
#include <memory>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "drivers/asio/machine_loop.hpp"
#include "tools/conform/conform_session.hpp"

namespace parley::tools {
namespace {

using conform::Case;
using conform::Iut;

class Conform {
 public:
  Conform(ConformArgs& args, CaseFilter only, Iut iut, Context& context)
      : args_(args),
        iut_(iut),
        context_(context),
        session_(args, std::move(only), iut,
                 {"mpa", "iwarp", fmt::format("parley conform mpa {}", to_string(iut)),
                  fmt::format("conform.mpa.{}", to_string(iut))},
                 "iWARP", context) {}
  int run();

 private:
  Or<void> open();
  Or<void> listen(const Address& at);
  Or<int> put_cases();
  bool nobody(const conform::Run& run);
  int verdict(const conform::Run& run, const conform::Tally& t);

  ConformArgs& args_;
  Iut iut_;
  Context& context_;
  ConformSession session_;
  tester::ScriptedPeer peer_;
  std::unique_ptr<asio_driver::MachineLoop> loop_;
  bool nobody_told_ = false;
};

Or<void> Conform::listen(const Address& at) {
  std::optional<Address> local;
  const auto script = [](tester::ScriptedPeer& peer, Address where, std::optional<Address>& out) -> tester::Task<> {
    out = co_await peer.listen(where, std::chrono::seconds(5));
  };
  peer_.start(loop_->now(), script(peer_, at, local));
  while (!peer_.done()) loop_->run_once(std::chrono::milliseconds(100));
  if (!local)
    return command_error(Exit::environment, fmt::format("cannot listen on {}: {}", at.to_string(), peer_.why()));
  session_.print_listening(*local);
  return {};
}

Or<void> Conform::open() {
  auto loop = session_.open<asio_driver::MachineLoop>(peer_);
  if (!loop) return tl::unexpected(loop.error());
  loop_ = std::move(*loop);
  return iut_ == Iut::initiator ? listen(args_.settings.target) : Or<void>{};
}

// An unreachable peer is reported once. Lines for the cases that could not be run would hide this message.
bool Conform::nobody(const conform::Run& run) {
  if (!run.unreachable()) return false;
  if (!std::exchange(nobody_told_, true))
    context_.out.text(fmt::format("no peer at {}: {}", args_.settings.target.to_string(), run.why_unreachable()));
  return true;
}

int Conform::verdict(const conform::Run& run, const conform::Tally& t) {
  Output& out = context_.out;
  if (run.unreachable()) return out.error(Exit::environment, "the peer was never reached: " + run.why_unreachable());
  if (run.gave_up())
    return out.error(Exit::environment,
                     "the peer was not there any more, and cases were not run: " + run.why_unreachable());
  if (const std::string instead = run.why_foreign(); !instead.empty()) {
    const std::string at = args_.settings.target.to_string();
    if (iut_ == Iut::initiator)
      return out.error(Exit::environment, fmt::format("nothing that connected to {} spoke MPA: instead of a Request it "
                                                      "sent {}",
                                                      at, instead));
    if (run.gone())
      return out.error(Exit::environment, fmt::format("{} accepted no further connection, so no valid Request could be "
                                                      "tried: {}; --run restarts the program for each case",
                                                      at, instead));
    if (run.spoke_mpa())
      return out.error(Exit::environment, fmt::format("{} speaks MPA but accepted no Request, so nothing could be "
                                                      "tested: a plain one was answered with {}",
                                                      at, instead));
    return out.error(
        Exit::environment,
        fmt::format("nothing that answered at {} spoke MPA: a plain Request was answered by {}", at, instead));
  }
  return exit_of(run.interrupted(), t, out);
}

Or<int> Conform::put_cases() {
  const auto all = conform::cases(iut_);
  if (const auto opened = open(); !opened) return tl::unexpected(opened.error());
  args_.settings.iut = iut_;
  if (const auto begun = session_.begin(all); !begun) return tl::unexpected(begun.error());
  std::optional<conform::Run> run;
  run.emplace(peer_, args_.settings, all, session_.selection(), session_.hooks([&] { return run && nobody(*run); }));
  if (const auto driven = session_.drive(*loop_, peer_, *run); !driven) return tl::unexpected(driven.error());
  for (int i = 0; i < 5; ++i) loop_->run_once(std::chrono::milliseconds(20));
  return session_.finish(*loop_, *run, [&](const conform::Tally& t) { return verdict(*run, t); });
}

int Conform::run() {
  if (args_.list) return session_.list(conform::cases(iut_), [](const Case& c) { return c.run != nullptr; });
  const auto status = put_cases();
  return status ? *status : context_.out.error(status.error().exit, status.error().text);
}

int run_conform(ConformArgs& args, Iut iut, Context& context) {
  std::vector<std::string_view> names;
  for (const Iut role : {Iut::responder, Iut::initiator})
    for (const Case* c : conform::cases(role)) names.push_back(c->name);
  auto only = CaseFilter::parse(args.only, names);
  if (!only) return context.out.error(only.error().exit, only.error().text);
  if (args.endpoint.empty() && !args.list)
    return context.out.error(
        Exit::usage, iut == Iut::responder ? "HOST:PORT of the responder is missing" : "--listen ADDR:PORT is missing");
  if (args.ulp == "rping") {
    args.settings.ulp = conform::Ulp::rping;
    args.settings.recv_size = 16;
    args.settings.recv_count = 1;
  }
  if (args.recv_size_given) args.settings.recv_size = args.recv_size;
  if (args.recv_count_given) args.settings.recv_count = args.recv_count;
  return Conform(args, std::move(*only), iut, context).run();
}

void add_common(Command sub, ConformArgs& args, Context& context) {
  add_conform_options(sub, args, context);
  sub.option("--recv-size", args.recv_size, "Octets of the peer's first posted receive (unknown)").when_given([&args] {
    args.recv_size_given = true;
  });
  sub.option("--recv-count", args.recv_count, "Receives that the peer has posted (unknown)").when_given([&args] {
    args.recv_count_given = true;
  });
  add_duration(sub, "--timer", args.settings.timer, "How long to wait for the peer's own timers");
  add_duration(sub, "--first-fpdu-after", args.settings.first_fpdu, "From the Reply to the tester's first FPDU");
}

}  // namespace

void add_conform_options(Command sub, ConformArgs& args, Context& context) {
  sub.option("--only", args.only, "Run only the cases whose name matches: REGEX or several, separated by commas");
  sub.flag("--list", args.list, "Print the cases and stop");
  sub.flag("--strict", args.strict, "Count a SHOULD or MAY that is not met as failed");
  sub.flag("--destructive", args.destructive, "Also run the cases that have crashed a known peer");
  sub.option("--ulp", args.ulp, "The peer's program, whose part the tester then plays: rping").one_of({"rping"});
  sub.option("--run", args.run, "Shell command that starts the peer; run for each case");
  add_duration(sub, "--run-limit", args.run_limit, "How long the command may go on after its case");
  add_duration(sub, "--timeout", args.settings.reply, "How long to wait for an answer");
  add_duration(sub, "--quiet-time", args.settings.quiet, "How long a silence counts as no answer");
  add_duration(sub, "--pause", args.settings.pause, "Between two cases");
  sub.option("--title", args.title, "Name of the peer, for the reports");
  sub.option("--junit", args.junit, "Write the results as JUnit XML").type("FILE");
  sub.option("--html", args.html, "Write one page with every exchange").type("FILE");
  sub.option("--markdown", args.markdown, "Write a report that is the same from run to run").type("FILE");
  sub.option("--pcapng", args.pcapng, "Write what went over the sockets").type("FILE");
  sub.flag("--quiet", args.quiet, "Print the summary only");
  add_color_option(sub, context);
  add_json_flag(sub, context);
}

void register_conform(Command app, Context& context) {
  Command conform = app.subcommand("conform", "Test a live peer against the specifications, case by case");
  conform.requires_subcommand();
  Command group = conform.subcommand("mpa", "Test an iWARP peer: MPA, DDP and RDMAP");
  group.requires_subcommand();
  auto responder = std::make_shared<ConformArgs>();
  Command r = group.subcommand("responder", "Test a peer that listens");
  r.option("endpoint", responder->endpoint, "HOST:PORT where it listens");
  add_duration(r, "--connect-timeout", responder->settings.connect, "For a TCP connection");
  r.flag("--speaks-first", responder->settings.speaks_first, "The peer's program sends as soon as it is allowed to");
  add_common(r, *responder, context);
  r.footer(
      "Examples:\n"
      "  parley conform mpa responder 192.0.2.1:7174 --ulp rping      against 'rping -s -P'\n"
      "  parley conform mpa responder 192.0.2.1:7174 --only 'rtr' --html report.html\n"
      "  parley conform mpa responder localhost:7175 --run 'parley listen 127.0.0.1:7175 -n 1'\n"
      "  parley conform mpa responder --list");
  r.run([responder, &context] { return run_conform(*responder, Iut::responder, context); });
  auto initiator = std::make_shared<ConformArgs>();
  Command i = group.subcommand("initiator", "Test a peer that connects");
  i.option("--listen", initiator->endpoint, "ADDR:PORT to listen on; port 0: any free one, printed");
  add_duration(i, "--patience", initiator->settings.patience, "For the peer's next connection");
  add_common(i, *initiator, context);
  i.footer(
      "Each connection serves the next case.\n"
      "Examples:\n"
      "  parley conform mpa initiator --listen 0.0.0.0:7174 --ulp rping      and there: rping -c -a TESTER in a loop\n"
      "  parley conform mpa initiator --listen 127.0.0.1:7175 --run 'parley connect 127.0.0.1:7175 --hold 2s'\n"
      "  parley conform mpa initiator --list");
  i.run([initiator, &context] { return run_conform(*initiator, Iut::initiator, context); });
  register_conform_ibcm(conform, context);
}

}  // namespace parley::tools
