// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// `parley pcap check`: prints a verdict for each MPA connection and QP negotiation of each capture, as text, JSON,
// JUnit XML and CSV.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "base/text.hpp"
#include "capture/link_type.hpp"
#include "capture/report/csv.hpp"
#include "capture/report/json.hpp"
#include "capture/report/text.hpp"
#include "capture/report/total.hpp"
#include "tools/pcap/pcap.hpp"
#include "tools/pcap/pcap_junit.hpp"
#include "tools/pcap/pcap_reports.hpp"
#include "tools/pcap/pcap_standing.hpp"
#include "tools/progress.hpp"
#include "tools/provenance.hpp"

namespace parley::tools {
namespace {

struct CheckArgs {
  std::vector<std::string> files;
  ReportArgs reports;
  bool quiet = false;
  bool no_digest = false;
  std::size_t width = 100;
  std::vector<std::uint16_t> mpa_ports;
  bool no_icrc = false;
  CaptureFilter filter;
  StandingArgs standing;
};

CaptureVerdict check_with_progress(const std::string& file, const CheckArgs& options, Output& out) {
  std::unique_ptr<Progress> bar;
  const capture::AnalyzerOptions how{.mpa_ports = options.mpa_ports,
                                     .fail_on = options.standing.fail_on,
                                     .expect = options.standing.expect,
                                     .policy = options.standing.policy,
                                     .no_icrc = options.no_icrc};
  const bool digest = !options.no_digest;
  if (!Progress::standard_error_is_terminal()) return check_capture_file(file, how, {}, options.filter.get(), digest);
  const auto progress = [&](std::uint64_t octets, std::uint64_t total) {
    if (!bar && std::max(octets, total) >= Progress::octets_min)
      bar = std::make_unique<Progress>(out, "MiB", total >> 20, true);
    if (bar) bar->update(octets >> 20, file);
  };
  return check_capture_file(file, how, progress, options.filter.get(), digest);
}

class Check {
 public:
  Check(const CheckArgs& options, Output& out) : options_(options), out_(out), report_(provenance(out)) {}

  int run() {
    auto reports = Reports::open(options_.reports, options_.files, out_);
    if (!reports) return out_.error(reports.error().exit, reports.error().text);
    reports->add_csv(capture::csv_header(&report_));
    if (reports->text()) print_provenance(out_, report_, false);
    for (const std::string& file : options_.files) one(file, *reports);
    if (several() && reports->text()) out_.text("\n" + capture::to_text(total_));
    if (several()) add_total();
    if (const auto written = reports->finish("parley pcap check", suites_); !written)
      return out_.error(written.error().exit, written.error().text);
    return code(exit_);
  }

 private:
  void one(const std::string& file, Reports& reports) {
    const CaptureVerdict v = check_with_progress(file, options_, out_);
    total_.add(v.report, v.error.empty());
    report_.inputs = {v.input};
    if (out_.json) {
      Json object = v.readable ? capture::json(file, v.report) : capture::error_json(file, v.error);
      object["report"] = report_json(report_);
      if (several() && &file == &options_.files.back()) object["total"] = total_json();
      out_.object(object);
    } else if (v.readable && reports.text()) {
      out_.verbatim("\n" + draw::input_text(v.input));
      capture::write_text(file, v.report, {.width = options_.width, .notes = !options_.quiet},
                          [this](std::string_view lines) { out_.text(lines.substr(0, lines.size() - 1)); });
    }
    if (reports.junit()) {
      suites_.push_back(junit_suite(file, v, options_.standing));
      suites_.back().properties = report_properties(report_);
    }
    if (reports.csv()) reports.add_csv(capture::to_csv(file, v.report, &report_));
    if (!v.error.empty()) {
      out_.note(fmt::format("parley pcap check: {}: {}", file, v.error));
      exit_ = Exit::environment;
    } else if (exit_ == Exit::ok) {
      exit_ = exit_for(v.report.judgement.standing, options_.standing);
    }
  }

  bool several() const { return options_.files.size() > 1; }

  Json total_json() const {
    const auto counts = [](const capture::Total::ByStanding& of) {
      Json json{{"all", capture::sum(of)}};
      for (std::size_t i = 0; i < of.size(); ++i)
        json[std::string(capture::to_string(static_cast<capture::Standing>(i)))] = of[i];
      return json;
    };
    Json files = counts(total_.files);
    files["unread"] = total_.unread;
    Json json{{"files", std::move(files)}, {"connections", counts(total_.connections)}};
    if (capture::sum(total_.negotiations) > 0) json["negotiations"] = counts(total_.negotiations);
    json["errors"] = total_.errors;
    json["warnings"] = total_.warnings;
    if (!total_.ignored.empty()) json["ignored"] = capture::json(total_.ignored);
    return json;
  }

  void add_total() {
    for (JunitSuite& suite : suites_) {
      const auto total = junit_properties(total_);
      suite.properties.insert(suite.properties.end(), total.begin(), total.end());
    }
  }

  const CheckArgs& options_;
  Output& out_;
  draw::Provenance report_;  ///< its input is the current file
  capture::Total total_;
  Exit exit_ = Exit::ok;
  std::vector<JunitSuite> suites_;
};

int run_check(const CheckArgs& options, Output& out) { return Check(options, out).run(); }

}  // namespace

CaptureVerdict check_capture_file(const std::string& path, bool with_events, const OnFeedProgress& on_progress) {
  return check_capture_file(path, capture::AnalyzerOptions{.events = with_events}, on_progress);
}

CaptureVerdict check_capture_file(const std::string& path, const capture::AnalyzerOptions& options,
                                  const OnFeedProgress& on_progress, pcap_driver::PacketFilter* filter, bool digest) {
  CaptureVerdict v;
  capture::Analyzer analyzer(options);
  const FeedResult fed = feed_capture(
      path, [&analyzer](const wire::CapturedPacket& packet) { analyzer.push(packet); }, on_progress, filter, digest);
  v.error = fed.error;
  v.input = fed.input;
  if (fed.passed_over > 0) analyzer.note(fmt::format("the filter left {} out", counted(fed.passed_over, "packet")));
  if (!v.error.empty()) analyzer.unread(v.error);
  v.report = analyzer.finish();
  v.readable = v.error.empty() || fed.packets > 0;
  if (v.readable && v.report.unsupported_packets > 0 && v.report.unsupported_packets == v.report.packets) {
    v.error = capture::link_type_refusal(v.report.unsupported_link_type);
    v.readable = false;
  }
  return v;
}

void add_no_icrc(Command sub, bool& no_icrc) {
  sub.flag("--no-icrc", no_icrc, "RoCE: do not look at the ICRC, which an adapter may make behind the capture");
}

void add_mpa_port(Command sub, std::vector<std::uint16_t>& ports) {
  sub.option("--mpa-port", ports,
             "Connections of this TCP port carry MPA: where their handshake is not in the capture, take up FPDUs "
             "without CRC too; may be given several times")
      .type("PORT")
      .repeatable()
      .range(1, 65535);
}

void add_pcap_check(Command pcap, Context& context) {
  auto options = std::make_shared<CheckArgs>();
  Command sub =
      pcap.subcommand("check", "Verdict per MPA connection: endpoints, agreed parameters, violations by side");
  sub.option("FILE", options->files, "Captures: pcap or pcapng; - is standard input").required();
  sub.flag("-q,--quiet", options->quiet, "Leave out findings of severity note");
  add_report_options(sub, options->reports);
  add_width_option(sub, options->width, context, "Columns of the text");
  add_color_option(sub, context);
  add_mpa_port(sub, options->mpa_ports);
  add_no_icrc(sub, options->no_icrc);
  add_filter(sub, options->filter);
  add_standing_options(sub, options->standing);
  sub.flag("--no-digest", options->no_digest,
           "Leave the SHA-256 of the files out of the reports, which saves time with large ones");
  add_json_flag(sub, context);
  sub.footer(
      "failed: a peer broke a MUST (severity error), the set-up failed, or a Terminate ended the connection; a file\n"
      "without a connection of a known protocol. partial: not failed, but the set-up is not whole or octets are\n"
      "missing. passed: all else, a rejection in good order too.\n"
      "Exit code: 0 all passed, 1 something failed or is partial, 2 usage, 3 a file cannot be read to its end (what\n"
      "comes before that is analysed and printed).\n\n"
      "Examples:\n"
      "  parley pcap check siw.pcap\n"
      "  parley pcap check --json *.pcap | jq '.connections[] | .outcome'\n"
      "  parley pcap check --junit junit.xml --csv connections.csv captures/*.pcapng\n"
      "  tcpdump -i any -w - port 7471 | parley pcap check -");
  sub.run([options, &context] { return run_check(*options, context.out); });
}

}  // namespace parley::tools
