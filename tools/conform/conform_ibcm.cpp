// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// `parley conform ibcm`: runs the cases for the InfiniBand CM and transport against a live peer over RoCEv2.
#include <memory>
#include <optional>
#include <random>
#include <vector>

#include <fmt/format.h>

#include "conform/ibcm/run.hpp"
#include "drivers/asio/packet_loop.hpp"
#include "tools/conform/conform_session.hpp"

namespace parley::tools {
namespace {

using conform::Case;
using conform::Iut;
namespace ibcm = conform::ibcm;

class ConformIbcm {
 public:
  ConformIbcm(ConformArgs& args, CaseFilter only, Iut iut, Context& context)
      : args_(args),
        iut_(iut),
        context_(context),
        session_(args, std::move(only), iut, table_of(iut), "RoCEv2", context) {}
  int run();

 private:
  static ConformTable table_of(Iut iut) {
    if (iut == Iut::initiator) return {"ibcm", "roce", "parley conform ibcm initiator", "conform.ibcm.initiator"};
    return {"ibcm", "roce", "parley conform ibcm", "conform.ibcm"};
  }
  ibcm::Settings settings() const;
  Or<int> put_cases(const std::vector<const Case*>& all);
  int verdict(const ibcm::Run& run, const conform::Tally& t);

  ConformArgs& args_;
  Iut iut_;
  Context& context_;
  ConformSession session_;
  tester::PacketPeer peer_;
};

ibcm::Settings ConformIbcm::settings() const {
  const conform::Settings& s = args_.settings;
  std::random_device entropy;
  return {.iut = iut_,
          .target = s.target,
          .connect = s.connect,
          .reply = s.reply,
          .timer = args_.timer,
          .patience = s.patience,
          .quiet = s.quiet,
          .pause = s.pause,
          .ulp = args_.ulp == "rping" ? conform::Ulp::rping : conform::Ulp::unknown,
          // IDs are random, because a peer remembers those of earlier runs.
          .seed = std::uint64_t{entropy()} << 32 | entropy(),
          .refused_max = s.refused_max};
}

int ConformIbcm::verdict(const ibcm::Run& run, const conform::Tally& t) {
  Output& out = context_.out;
  const std::string at = args_.settings.target.to_string();
  if (iut_ == Iut::initiator && (run.unreachable() || run.refused()))
    return out.error(Exit::environment, fmt::format("nothing that connected to {} could be tested: {}", at, run.why()));
  if (run.unreachable()) return out.error(Exit::environment, fmt::format("no RoCEv2 peer at {}: {}", at, run.why()));
  if (run.refused())
    return out.error(Exit::environment,
                     fmt::format("{} speaks InfiniBand's CM, but nothing could be tested: {}", at, run.why()));
  if (run.gave_up())
    return out.error(Exit::environment, "the peer was not there any more, and cases were not run: " + run.why());
  return exit_of(run.interrupted(), t, out);
}

Or<int> ConformIbcm::put_cases(const std::vector<const Case*>& all) {
  const auto loop = session_.open<asio_driver::PacketLoop>(peer_);
  if (!loop) return tl::unexpected(loop.error());
  if (const auto begun = session_.begin(all); !begun) return tl::unexpected(begun.error());
  std::optional<ibcm::Run> run;
  // The script binds the address before any peer can send to it.
  if (iut_ == Iut::initiator) session_.print_listening(args_.settings.target);
  run.emplace(peer_, settings(), ibcm::cases(iut_), session_.selection(),
              session_.hooks([&] { return run && (run->unreachable() || run->refused()); }));
  if (const auto driven = session_.drive(**loop, peer_, *run); !driven) return tl::unexpected(driven.error());
  return session_.finish(**loop, *run, [&](const conform::Tally& t) { return verdict(*run, t); });
}

int ConformIbcm::run() {
  std::vector<const Case*> all;
  for (const ibcm::Case* c : ibcm::cases(iut_)) all.push_back(&c->what);
  if (args_.list) return session_.list(all, [](const Case&) { return true; });
  const auto status = put_cases(all);
  return status ? *status : context_.out.error(status.error().exit, status.error().text);
}

int run_conform_ibcm(ConformArgs& args, Iut iut, Context& context) {
  std::vector<std::string_view> names;
  for (const ibcm::Case* c : ibcm::cases(iut)) names.push_back(c->what.name);
  auto only = CaseFilter::parse(args.only, names);
  if (!only) return context.out.error(only.error().exit, only.error().text);
  if (args.endpoint.empty() && !args.list)
    return context.out.error(
        Exit::usage, iut == Iut::responder ? "HOST:PORT of the listener is missing" : "--listen ADDR:PORT is missing");
  return ConformIbcm(args, std::move(*only), iut, context).run();
}

}  // namespace

void register_conform_ibcm(Command conform, Context& context) {
  auto args = std::make_shared<ConformArgs>();
  Command sub = conform.subcommand("ibcm", "Test a RoCEv2 peer: InfiniBand's CM and transport");
  sub.option("endpoint", args->endpoint, "HOST:PORT where it listens");
  add_duration(sub, "--connect-timeout", args->settings.connect, "Wait for the peer's service to start");
  add_conform_options(sub, *args, context);
  sub.footer(
      "The tester speaks over UDP port 4791 of its own address, which must be free: no rxe module there.\n"
      "Examples:\n"
      "  parley conform ibcm 192.0.2.1:7174 --ulp rping      against 'rping -s -P'\n"
      "  parley conform ibcm 192.0.2.1:7174 --only 'psn|dreq' --html report.html\n"
      "  parley conform ibcm 127.0.0.1:7175 --run 'parley listen 127.0.0.1:7175 --roce'\n"
      "  parley conform ibcm --list\n"
      "  parley conform ibcm initiator --help                a peer that connects");
  auto initiator = std::make_shared<ConformArgs>();
  initiator->settings.pause = std::chrono::milliseconds(10);
  Command i = sub.subcommand("initiator", "Test a peer that connects");
  i.option("--listen", initiator->endpoint, "ADDR:PORT to listen on; the port is that of the service");
  add_duration(i, "--patience", initiator->settings.patience, "For the peer's next REQ");
  add_duration(i, "--timer", initiator->timer, "How long to wait for the peer's own timers");
  add_conform_options(i, *initiator, context);
  i.footer(
      "Each REQ serves the next case: let two programs connect again and again, and one ask for a service of UD "
      "(udaddy -C 0),\n"
      "without which the cases of SIDR say nothing.\n"
      "Examples:\n"
      "  parley conform ibcm initiator --listen 192.0.2.1:7174 --ulp rping      and there: rping -c -a TESTER in a "
      "loop\n"
      "  parley conform ibcm initiator --list");
  // For a command with a subcommand, the parser runs both callbacks, the subcommand's first. One callback handles both.
  sub.run([args, initiator, sub, &context] {
    return sub.chosen().name() == "initiator" ? run_conform_ibcm(*initiator, Iut::initiator, context)
                                              : run_conform_ibcm(*args, Iut::responder, context);
  });
}

}  // namespace parley::tools
