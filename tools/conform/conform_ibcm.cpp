// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// `parley conform ibcm`: the cases of InfiniBand's CM and transport, put to a live peer over RoCEv2.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <random>

#include <fmt/format.h>

#include "conform/ibcm/run.hpp"
#include "drivers/asio/packet_loop.hpp"
#include "tools/conform/conform_report.hpp"
#include "tools/pcap/capture.hpp"
#include "tools/progress.hpp"
#include "tools/provenance.hpp"
#include "tools/rping/session.hpp"
#include "tools/sim/sim_files.hpp"

namespace parley::tools {
namespace {

using conform::Iut;
using conform::Result;
namespace ibcm = conform::ibcm;

class ConformIbcm {
 public:
  ConformIbcm(ConformArgs& args, Only only, Context& context)
      : args_(args), only_(std::move(only)), context_(context), provenance_(provenance(context.out)) {}
  int run();

 private:
  int list();
  Or<void> open();
  ibcm::Settings settings() const;
  conform::Hooks hooks();
  void print(const Result& result);
  int finish(const ibcm::Run& run);
  int verdict(const ibcm::Run& run, const conform::Tally& t);

  ConformArgs& args_;
  Only only_;
  Context& context_;
  draw::Provenance provenance_;
  ConformTable table_{"ibcm", "roce", "parley conform ibcm", "conform.ibcm"};
  StopSignals signals_;
  tester::PacketPeer peer_;
  ConformOutputs outputs_;
  std::unique_ptr<CaptureWriter> capture_;
  std::unique_ptr<asio_driver::PacketLoop> loop_;
  Program program_;
  std::unique_ptr<Progress> progress_;
  const ibcm::Run* run_ = nullptr;
  std::string broken_;
  std::size_t done_ = 0, failed_ = 0;
};

int ConformIbcm::list() {
  for (const ibcm::Case* c : ibcm::cases())
    if (only_.has(c->what.name)) list_case(table_, c->what, true, context_.out);
  return code(Exit::ok);
}

Or<void> ConformIbcm::open() {
  const auto target = parse_address(args_.endpoint, default_port);
  if (!target) return tl::unexpected(target.error());
  args_.settings.target = *target;
  auto outputs = ConformOutputs::open(args_);
  if (!outputs) return tl::unexpected(outputs.error());
  outputs_ = std::move(*outputs);
  auto loop = asio_driver::PacketLoop::open(peer_);
  if (!loop) return complain(Exit::environment, "cannot open sockets: " + words(loop.error()));
  loop_ = std::move(*loop);
  if (!args_.pcapng.empty()) {
    auto capture = CaptureWriter::create(args_.pcapng);
    if (!capture) return tl::unexpected(capture.error());
    capture_ = std::move(*capture);
    loop_->set_tap([writer = capture_.get()](const PacketTapRecord& record) { writer->add(record); });
  }
  print_provenance(context_.out, provenance_);
  return {};
}

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

conform::Hooks ConformIbcm::hooks() {
  conform::Hooks hooks;
  if (!args_.run.empty()) {
    hooks.before = [this](const conform::Case& c) {
      if (auto why = program_.start(args_.run, c.name); !why.empty()) broken_ = std::move(why);
    };
    hooks.after = [this] { return program_.finish(args_.run_limit); };
  }
  hooks.result = [this](const Result& result) { print(result); };
  hooks.stopped = [this] { return StopSignals::requested() || !broken_.empty(); };
  return hooks;
}

void ConformIbcm::print(const Result& result) {
  ++done_;
  if (counts_as_failed(result, args_.strict)) ++failed_;
  const bool chosen = only_.has(result.what->name);
  if (chosen && progress_) progress_->clear();
  // What kept all cases from being run is said once, at the end.
  const bool said = run_ != nullptr && (run_->unreachable() || run_->refused());
  if (chosen && !args_.quiet && !said) context_.out.text(conform_line(result, args_.strict, context_.out.columns));
  if (chosen) context_.out.object(result_json(table_, result));
  if (progress_) progress_->update(done_, fmt::format("{} failed", failed_));
}

int ConformIbcm::finish(const ibcm::Run& run) {
  if (progress_) progress_->clear();
  const conform::Tally t = tally(run.results(), args_.strict);
  const conform::ReportHead head{args_.title, table_.command, args_.strict, run.interrupted(), &provenance_, "RoCEv2"};
  Or<void> written = outputs_.write(table_, head, Iut::responder, run.results());
  if (capture_) {
    loop_->set_tap({});
    if (const auto ended = capture_->finish(); !ended && written) written = ended;
  }
  if (const std::string failures = failures_text(run.results(), args_.strict); !failures.empty() && !args_.quiet)
    context_.out.text("\n" + failures);
  context_.out.text(tally_text(t));
  context_.out.object(summary_json(table_, Iut::responder, t, run.interrupted(), provenance_));
  if (!written) return context_.out.error(written.error().exit, written.error().text);
  return verdict(run, t);
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

int ConformIbcm::run() {
  if (args_.list) return list();
  if (const auto opened = open(); !opened) return context_.out.error(opened.error().exit, opened.error().text);
  const auto all = ibcm::cases();
  if (std::none_of(all.begin(), all.end(), [this](const ibcm::Case* c) { return only_.has(c->what.name); }))
    return context_.out.error(Exit::usage, "--only names no case; --list shows them");
  progress_ = std::make_unique<Progress>(context_.out, "cases", all.size());
  ibcm::Run run(
      peer_, settings(), all, [this](const conform::Case& c) { return left_out(only_, c, args_.destructive); },
      hooks());
  run_ = &run;
  peer_.start(loop_->now(), run.script());
  while (!peer_.done()) {
    loop_->run_once(std::chrono::milliseconds(100));
    if (StopSignals::requested() && !peer_.done()) run.interrupt();
  }
  if (!broken_.empty()) return context_.out.error(Exit::environment, broken_);
  return finish(run);
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
