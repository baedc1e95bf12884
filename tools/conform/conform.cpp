// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// `parley conform`: puts the conformance table to a live peer.
#include "tools/conform/conform.hpp"

#include <algorithm>
#include <cstdio>
#include <memory>
#include <regex>

#include <fmt/format.h>

#include "base/json_text.hpp"
#include "base/text.hpp"
#include "capture/report/text.hpp"
#include "drivers/asio/machine_loop.hpp"
#include "tools/command.hpp"
#include "tools/junit.hpp"
#include "tools/pcap/capture.hpp"
#include "tools/progress.hpp"
#include "tools/provenance.hpp"
#include "tools/report.hpp"
#include "tools/rping/session.hpp"
#include "tools/sim/sim_files.hpp"

namespace parley::tools {
namespace {

using conform::Case;
using conform::Iut;
using conform::Result;
using conform::Verdict;

/// --only: names separated by commas, or a regular expression that is found in the name. Errors: usage.
class Only {
 public:
  // The parser of expressions recurses over the text and into each group. All cases by name are some 2,000 octets.
  static constexpr std::size_t octets_max = 10'000, expression_octets_max = 1000;
  static constexpr std::ptrdiff_t groups_max = 100;

  static Or<Only> parse(const std::string& text) {
    if (text.size() > octets_max)
      return complain(Exit::usage, fmt::format("--only has {} octets; at most {} can be", text.size(), octets_max));
    if (std::count(text.begin(), text.end(), '(') > groups_max)
      return complain(Exit::usage, fmt::format("--only has more than {} groups", groups_max));
    Only only;
    only.all_ = text.empty();
    try {
      for (std::size_t at = 0; !text.empty() && at <= text.size();) {
        const std::size_t comma = std::min(text.find(',', at), text.size());
        if (comma - at > expression_octets_max)
          return complain(Exit::usage, fmt::format("--only has an expression of {} octets; at most {} can be",
                                                   comma - at, expression_octets_max));
        if (comma > at) only.patterns_.emplace_back(text.substr(at, comma - at), flavour);
        at = comma + 1;
      }
      // An expression may turn out too hard only when it is used.
      for (const Iut iut : {Iut::responder, Iut::initiator})
        for (const Case* c : conform::cases(iut)) (void)only.has(c->name);
    } catch (const std::regex_error& error) {
      return complain(Exit::usage,
                      fmt::format("--only '{}' is not a valid regular expression: {}", text, error.what()));
    }
    return only;
  }
  bool has(std::string_view name) const {
    if (all_) return true;
    return std::any_of(patterns_.begin(), patterns_.end(),
                       [&](const std::regex& p) { return std::regex_search(name.begin(), name.end(), p); });
  }

 private:
#ifdef __GLIBCXX__
  // Without it, the time to find "(a*)*b" doubles with each octet of the name.
  static constexpr auto flavour = std::regex::extended | std::regex_constants::__polynomial;
#else
  static constexpr auto flavour = std::regex::extended;
#endif
  bool all_ = true;
  std::vector<std::regex> patterns_;
};

Json exchange_json(const Result& r) {
  Json list = Json::array();
  for (const conform::Exchange& e : r.exchanges)
    list.push_back({{"at_ms", std::chrono::duration_cast<std::chrono::milliseconds>(e.at - r.began).count()},
                    {"connection", e.connection},
                    {"by", e.by_tester ? "tester" : "peer"},
                    {"text", e.words},
                    {"hex", hex_digits(e.octets)}});
  return list;
}

Json case_json(const Case& c) {
  return {{"row", c.row},
          {"name", c.name},
          {"transport", "iwarp"},
          {"protocol", "mpa"},
          {"iut", to_string(c.iut)},
          {"rule", c.clause},
          {"level", to_string(c.level)},
          {"destructive", c.destructive},
          {"stimulus", c.stimulus},
          {"expected", c.expected}};
}

Json result_json(const Result& r) {
  Json object{{"event", "case"}};
  object.update(case_json(*r.what));
  object["verdict"] = json_word(to_string(r.finding.verdict));
  object["observed"] = r.finding.observed;
  object["took_s"] = in_seconds(r.took);
  object["exchanges"] = exchange_json(r);
  if (!r.output.empty()) object["output"] = r.output;
  return object;
}

JunitCase junit_case(const Result& r, bool strict) {
  JunitCase c;
  c.class_name = fmt::format("conform.mpa.{}", to_string(r.what->iut));
  c.name = std::string(r.what->name);
  c.time_us = static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::microseconds>(r.took).count());
  const std::string words = fmt::format("{}\nclause: {} ({})\nstimulus: {}\nexpected: {}", r.finding.observed,
                                        r.what->clause, to_string(r.what->level), r.what->stimulus, r.what->expected);
  if (counts_as_failed(r, strict)) {
    c.failure = words;
  } else if (r.finding.verdict == Verdict::inconclusive || r.finding.verdict == Verdict::not_run) {
    c.skipped = fmt::format("{}: {}", to_string(r.finding.verdict), r.finding.observed);
  }
  for (const conform::Exchange& e : r.exchanges)
    c.output +=
        fmt::format("{} {}: {} [{}]\n", e.connection, e.by_tester ? "tester" : "peer", e.words, hex_text(e.octets));
  c.output += r.output;
  return c;
}

/// The reports, which are proven writable before the first case.
struct Outputs {
  std::unique_ptr<OutputFile> junit, html, markdown;

  /// Errors: usage, environment.
  static Or<Outputs> open(const ConformArgs& args) {
    if (const auto apart = check_outputs(
            {},
            {{"--junit", args.junit}, {"--html", args.html}, {"--markdown", args.markdown}, {"--pcapng", args.pcapng}});
        !apart)
      return tl::unexpected(apart.error());
    Outputs outputs;
    for (auto [file, path] : {std::pair(&outputs.junit, &args.junit), std::pair(&outputs.html, &args.html),
                              std::pair(&outputs.markdown, &args.markdown)}) {
      auto opened = open_output(*path);
      if (!opened) return tl::unexpected(opened.error());
      *file = std::move(*opened);
    }
    return outputs;
  }
};

class Conform {
 public:
  Conform(ConformArgs& args, Only only, Iut iut, Context& context)
      : args_(args), only_(std::move(only)), iut_(iut), context_(context), provenance_(provenance(context.out)) {}
  int run();

 private:
  int list();
  Or<void> open();
  Or<void> listen(const Address& at);
  void turn();
  std::string left_out(const Case& c) const;
  std::string line(const Result& result) const;
  void print(const Result& result);
  Or<void> write_reports(const conform::Run& run);
  int finish(const conform::Run& run);
  int verdict(const conform::Run& run, const conform::Tally& t);

  ConformArgs& args_;
  Only only_;
  Iut iut_;
  Context& context_;
  draw::Provenance provenance_;
  StopSignals signals_;
  tester::ScriptedPeer peer_;
  Outputs outputs_;
  std::unique_ptr<CaptureWriter> capture_;
  std::unique_ptr<asio_driver::MachineLoop> loop_;
  Program program_;
  std::unique_ptr<Progress> progress_;
  const conform::Run* run_ = nullptr;
  bool nobody_told_ = false;
  std::size_t done_ = 0, failed_ = 0;
};

int Conform::list() {
  for (const Case* c : conform::cases(iut_)) {
    if (!only_.has(c->name)) continue;
    context_.out.text(fmt::format("{:<6} {:<34} {:<26} {:<7}{}", c->row, c->name, c->clause, to_string(c->level),
                                  c->run == nullptr ? "not testable live"
                                  : c->destructive  ? "destructive"
                                                    : ""));
    Json object{{"event", "case"}};
    object.update(case_json(*c));
    context_.out.object(object);
  }
  return code(Exit::ok);
}

std::string Conform::left_out(const Case& c) const {
  if (!only_.has(c.name)) return "left out by --only";
  if (c.destructive && !args_.destructive) return "may crash the peer; needs --destructive";
  return {};
}

void Conform::turn() { loop_->run_once(std::chrono::milliseconds(100)); }

Or<void> Conform::listen(const Address& at) {
  std::optional<Address> local;
  const auto script = [](tester::ScriptedPeer& peer, Address where, std::optional<Address>& out) -> tester::Task<> {
    out = co_await peer.listen(where, std::chrono::seconds(5));
  };
  peer_.start(loop_->now(), script(peer_, at, local));
  while (!peer_.done()) turn();
  if (!local) return complain(Exit::environment, fmt::format("cannot listen on {}: {}", at.to_string(), peer_.why()));
  context_.out.text("listening on " + local->to_string());
  context_.out.object({{"event", "listening"}, {"local", local->to_string()}, {"port", local->port}});
  return {};
}

Or<void> Conform::open() {
  const auto endpoint = parse_endpoint(args_.endpoint, default_port);
  if (!endpoint) return tl::unexpected(endpoint.error());
  const auto addresses = resolve(*endpoint);
  if (!addresses) return tl::unexpected(addresses.error());
  args_.settings.target = addresses->front();
  auto outputs = Outputs::open(args_);
  if (!outputs) return tl::unexpected(outputs.error());
  outputs_ = std::move(*outputs);
  auto loop = asio_driver::MachineLoop::open(peer_);
  if (!loop) return complain(Exit::environment, "cannot open sockets: " + words(loop.error()));
  loop_ = std::move(*loop);
  if (!args_.pcapng.empty()) {
    auto capture = CaptureWriter::create(args_.pcapng);
    if (!capture) return tl::unexpected(capture.error());
    capture_ = std::move(*capture);
    loop_->set_tap([writer = capture_.get()](const TapRecord& record) { writer->add(record); });
  }
  print_provenance(context_.out, provenance_);
  return iut_ == Iut::initiator ? listen(args_.settings.target) : Or<void>{};
}

std::string Conform::line(const Result& result) const {
  constexpr std::size_t words_at = 56, words_least = 24;  // columns; the words are wrapped where so many are left
  const std::string& observed = result.finding.observed;
  const std::size_t columns = context_.out.columns;
  return fmt::format("{:<13} {:<6} {:<34} {}", verdict_text(result, args_.strict), result.what->row, result.what->name,
                     columns < words_at + words_least ? observed : wrap(observed, columns, words_at));
}

void Conform::print(const Result& result) {
  ++done_;
  if (counts_as_failed(result, args_.strict)) ++failed_;
  const bool chosen = only_.has(result.what->name);
  if (chosen && progress_) progress_->clear();
  // A dead port is the first thing to be said, and lines of cases that could not be put to it would bury that.
  const bool nobody = run_ != nullptr && run_->unreachable();
  if (nobody && !nobody_told_)
    context_.out.text(fmt::format("no peer at {}: {}", args_.settings.target.to_string(), run_->why_unreachable()));
  nobody_told_ = nobody_told_ || nobody;
  if (chosen && !args_.quiet && !nobody) context_.out.text(line(result));
  if (chosen) context_.out.object(result_json(result));
  if (progress_) progress_->update(done_, fmt::format("{} failed", failed_));
}

Or<void> Conform::write_reports(const conform::Run& run) {
  const auto& results = run.results();
  const conform::ReportHead head{args_.title, fmt::format("parley conform mpa {}", to_string(iut_)), args_.strict,
                                 run.interrupted(), &provenance_};
  Or<void> written;
  const auto save = [&written](const std::unique_ptr<OutputFile>& file, const auto& make) {
    if (!file) return;
    file->write(std::string_view(make()));
    if (const auto ended = file->finish(); !ended && written) written = ended;
  };
  save(outputs_.markdown, [&] { return markdown(head, iut_, results); });
  save(outputs_.html, [&] { return html(head, iut_, results); });
  save(outputs_.junit, [&] {
    std::vector<JunitCase> cases;
    for (const Result& r : results) cases.push_back(junit_case(r, args_.strict));
    const std::string suite = fmt::format("parley conform mpa {}", to_string(iut_));
    return junit_xml(suite, {{suite, std::move(cases), report_properties(provenance_)}});
  });
  if (capture_) {
    loop_->set_tap({});
    if (const auto ended = capture_->finish(); !ended && written) written = ended;
  }
  return written;
}

int Conform::finish(const conform::Run& run) {
  if (progress_) progress_->clear();
  const conform::Tally t = tally(run.results(), args_.strict);
  const auto written = write_reports(run);
  // Told again together, with what was expected: the lines above are many, and --only finds a case by its name.
  if (const std::string failures = failures_text(run.results(), args_.strict); !failures.empty() && !args_.quiet)
    context_.out.text("\n" + failures);
  context_.out.text(tally_text(t));
  context_.out.object({{"event", "summary"},
                       {"command", "conform"},
                       {"transport", "iwarp"},
                       {"protocol", "mpa"},
                       {"iut", to_string(iut_)},
                       {"passed", t.passed},
                       {"failed", t.failed},
                       {"should_failed", t.should_failed},
                       {"may_failed", t.may_failed},
                       {"inconclusive", t.inconclusive},
                       {"not_run", t.not_run},
                       {"interrupted", run.interrupted()},
                       {"report", report_json(provenance_)}});
  if (!written) return context_.out.error(written.error().exit, written.error().text);
  return verdict(run, t);
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
  if (run.interrupted()) return out.error(Exit::failed, "interrupted: the results are partial");
  if (t.passed + t.failed + t.should_failed + t.may_failed == 0)
    return out.error(
        Exit::failed,
        fmt::format("no case reached a verdict ({} inconclusive, {} not run); this does not count as passed",
                    t.inconclusive, t.not_run));
  return code(t.failed > 0 ? Exit::failed : Exit::ok);
}

int Conform::run() {
  if (args_.list) return list();
  if (const auto opened = open(); !opened) return context_.out.error(opened.error().exit, opened.error().text);
  args_.settings.iut = iut_;
  const auto all = conform::cases(iut_);
  if (std::none_of(all.begin(), all.end(), [this](const Case* c) { return only_.has(c->name); }))
    return context_.out.error(Exit::usage, "--only names no case; --list shows them");
  progress_ = std::make_unique<Progress>(context_.out, "cases", all.size());
  std::string broken;
  conform::Hooks hooks;
  if (!args_.run.empty()) {
    hooks.before = [&](const Case& c) {
      if (auto why = program_.start(args_.run, c.name); !why.empty()) broken = std::move(why);
    };
    hooks.after = [&] { return program_.finish(args_.run_limit); };
  }
  hooks.result = [&](const Result& result) { print(result); };
  hooks.stopped = [&] { return StopSignals::requested() || !broken.empty(); };
  conform::Run run(
      peer_, args_.settings, all, [&](const Case& c) { return left_out(c); }, std::move(hooks));
  run_ = &run;
  peer_.start(loop_->now(), run.script());
  while (!peer_.done()) {
    turn();
    if (StopSignals::requested() && !peer_.done()) run.interrupt();
  }
  for (int i = 0; i < 5; ++i) loop_->run_once(std::chrono::milliseconds(20));
  if (!broken.empty()) return context_.out.error(Exit::environment, broken);
  return finish(run);
}

int run_conform(ConformArgs& args, Iut iut, Context& context) {
  auto only = Only::parse(args.only);
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
  sub.option("--only", args.only, "Run only the cases whose name matches: REGEX or several, separated by commas");
  sub.flag("--list", args.list, "Print the cases and stop");
  sub.flag("--strict", args.strict, "Count a SHOULD or MAY that is not met as failed");
  sub.flag("--destructive", args.destructive, "Also run the cases that have crashed a known peer");
  sub.option("--ulp", args.ulp, "The peer's program, whose part the tester then plays: rping").one_of({"rping"});
  sub.option("--recv-size", args.recv_size, "Octets of the peer's first posted receive (unknown)").when_given([&args] {
    args.recv_size_given = true;
  });
  sub.option("--recv-count", args.recv_count, "Receives that the peer has posted (unknown)").when_given([&args] {
    args.recv_count_given = true;
  });
  sub.option("--run", args.run, "Shell command that starts the peer; run for each case");
  add_duration(sub, "--run-limit", args.run_limit, "How long the command may go on after its case");
  add_duration(sub, "--timeout", args.settings.reply, "How long to wait for an answer");
  add_duration(sub, "--timer", args.settings.timer, "How long to wait for the peer's own timers");
  add_duration(sub, "--quiet-time", args.settings.quiet, "How long a silence counts as no answer");
  add_duration(sub, "--pause", args.settings.pause, "Between two cases");
  add_duration(sub, "--first-fpdu-after", args.settings.first_fpdu, "From the Reply to the tester's first FPDU");
  sub.option("--title", args.title, "Name of the peer, for the reports");
  sub.option("--junit", args.junit, "Write the results as JUnit XML").type("FILE");
  sub.option("--html", args.html, "Write one page with every exchange").type("FILE");
  sub.option("--markdown", args.markdown, "Write a report that is the same from run to run").type("FILE");
  sub.option("--pcapng", args.pcapng, "Write what went over the sockets").type("FILE");
  sub.flag("--quiet", args.quiet, "Print the summary only");
  add_color_option(sub, context);
  add_json_flag(sub, context);
}

}  // namespace

void register_conform(Command app, Context& context) {
  Command conform = app.subcommand("conform", "Test a live peer against the RFCs, case by case");
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
}

}  // namespace parley::tools
