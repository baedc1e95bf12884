// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// `parley conform ibcm`: the cases of InfiniBand's CM and transport, put to a live peer over RoCEv2.
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
  ConformIbcm(ConformArgs& args, Only only, Context& context)
      : args_(args),
        context_(context),
        session_(args, std::move(only), Iut::responder, {"ibcm", "roce", "parley conform ibcm", "conform.ibcm"},
                 "RoCEv2", context) {}
  int run();

 private:
  ibcm::Settings settings() const;
  Or<int> put_cases(const std::vector<const Case*>& all);
  int verdict(const ibcm::Run& run, const conform::Tally& t);

  ConformArgs& args_;
  Context& context_;
  ConformSession session_;
  tester::PacketPeer peer_;
};

ibcm::Settings ConformIbcm::settings() const {
  const conform::Settings& s = args_.settings;
  std::random_device entropy;
  return {.target = s.target,
          .connect = s.connect,
          .reply = s.reply,
          .quiet = s.quiet,
          .pause = s.pause,
          .ulp = args_.ulp == "rping" ? conform::Ulp::rping : conform::Ulp::unknown,
          // A peer remembers IDs of the run before this one.
          .seed = std::uint64_t{entropy()} << 32 | entropy(),
          .refused_max = s.refused_max};
}

int ConformIbcm::verdict(const ibcm::Run& run, const conform::Tally& t) {
  Output& out = context_.out;
  const std::string at = args_.settings.target.to_string();
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
  run.emplace(peer_, settings(), ibcm::cases(), session_.selection(),
              session_.hooks([&] { return run && (run->unreachable() || run->refused()); }));
  if (const auto driven = session_.drive(**loop, peer_, *run); !driven) return tl::unexpected(driven.error());
  return session_.finish(**loop, *run, [&](const conform::Tally& t) { return verdict(*run, t); });
}

int ConformIbcm::run() {
  std::vector<const Case*> all;
  for (const ibcm::Case* c : ibcm::cases()) all.push_back(&c->what);
  if (args_.list) return session_.list(all, [](const Case&) { return true; });
  const auto status = put_cases(all);
  return status ? *status : context_.out.error(status.error().exit, status.error().text);
}

int run_conform_ibcm(ConformArgs& args, Context& context) {
  std::vector<std::string_view> names;
  for (const ibcm::Case* c : ibcm::cases()) names.push_back(c->what.name);
  auto only = Only::parse(args.only, names);
  if (!only) return context.out.error(only.error().exit, only.error().text);
  if (args.endpoint.empty() && !args.list)
    return context.out.error(Exit::usage, "HOST:PORT of the listener is missing");
  return ConformIbcm(args, std::move(*only), context).run();
}

}  // namespace

void register_conform_ibcm(Command conform, Context& context) {
  auto args = std::make_shared<ConformArgs>();
  Command sub = conform.subcommand("ibcm", "Test a RoCEv2 peer that listens: InfiniBand's CM and transport");
  sub.option("endpoint", args->endpoint, "HOST:PORT where it listens");
  add_duration(sub, "--connect-timeout", args->settings.connect, "For the service to be there");
  add_conform_options(sub, *args, context);
  sub.footer(
      "The tester speaks over UDP port 4791 of its own address, which must be free: no rxe module there.\n"
      "Examples:\n"
      "  parley conform ibcm 192.0.2.1:7174 --ulp rping      against 'rping -s -P'\n"
      "  parley conform ibcm 192.0.2.1:7174 --only 'psn|dreq' --html report.html\n"
      "  parley conform ibcm 127.0.0.1:7175 --run 'parley listen 127.0.0.1:7175 --roce'\n"
      "  parley conform ibcm --list");
  sub.run([args, &context] { return run_conform_ibcm(*args, context); });
}

}  // namespace parley::tools
