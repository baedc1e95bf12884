// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// `parley pcap matrix`: the captures of an interop event as one table of which peers connected and how, as text, JSON,
// CSV and HTML. Directories are walked in order. Unreadable files are listed, and the run continues.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <memory>
#include <set>

#include "base/json_text.hpp"
#include "capture/report/json.hpp"
#include "capture/report/matrix_collect.hpp"
#include "capture/report/standing.hpp"
#include "capture/report/text_ladder.hpp"
#include "tools/pcap/pcap.hpp"
#include "tools/pcap/pcap_standing.hpp"
#include "tools/progress.hpp"
#include "tools/provenance.hpp"
#include "tools/read_whole.hpp"
#include "tools/sim/sim_files.hpp"

namespace parley::tools {
namespace {

namespace fs = std::filesystem;

struct MatrixArgs {
  std::vector<std::string> inputs;
  std::string names, html, csv, title = "Interoperability matrix";
  std::size_t width = 100;
  std::vector<std::uint16_t> mpa_ports;
  CaptureFilter filter;
  bool no_icrc = false;
  StandingArgs standing;
};

constexpr std::size_t ladder_lines_max = 400;         // of one connection; `pcap ladder` draws all of it
constexpr std::size_t ladders_octets_max = 32 << 20;  // of the whole page
constexpr std::size_t names_file_max = 1 << 20;

bool looks_like_capture(fs::path path) {
  const auto ending = [&path] {
    std::string end = path.extension().string();
    std::transform(end.begin(), end.end(), end.begin(),
                   [](char c) { return c >= 'A' && c <= 'Z' ? char(c - 'A' + 'a') : c; });
    return end;
  };
  if (const std::string end = ending(); end == ".gz" || end == ".zst" || end == ".lz4") path = path.stem();
  const std::string end = ending();
  return end == ".pcap" || end == ".pcapng" || end == ".cap" || end == ".dmp";
}

class MatrixRun {
 public:
  MatrixRun(const MatrixArgs& args, Output& out) : args_(args), out_(out), report_(provenance(out)) {}

  int run() {
    if (const auto ready = prepare(); !ready) return out_.error(ready.error().exit, ready.error().text);
    auto html = open_output(args_.html), csv = open_output(args_.csv);
    for (const auto* file : {&html, &csv})
      if (!*file) return out_.error(file->error().exit, file->error().text);
    Progress bar(out_, "captures", files_.size());
    const bool show = Progress::standard_error_is_terminal();
    std::size_t done = 0;
    for (const std::string& file : files_) {
      one(file);
      if (show) bar.update(++done, file);
    }
    bar.clear();
    print();
    if (*html) (*html)->write(capture::to_html(matrix_, args_.title, &report_));
    if (*csv) (*csv)->write(capture::to_csv(matrix_, &report_));
    for (auto* file : {&*html, &*csv})
      if (*file)
        if (const auto written = (*file)->finish(); !written)
          return out_.error(written.error().exit, written.error().text);
    if (unread_ > 0) return code(Exit::environment);
    return code(exit_for(matrix_.standing(), args_.standing));
  }

 private:
  Or<void> prepare() {
    if (!args_.names.empty()) {
      const auto text = read_whole(args_.names, names_file_max);
      if (!text) return tl::unexpected(text.error());
      if (const std::string why = names_.read(*text); !why.empty())
        return command_error(Exit::usage, fmt::format("{}: {}", args_.names, why));
    }
    if (!args_.html.empty() && args_.html == args_.csv)
      return command_error(Exit::usage, fmt::format("--html and --csv both name {}", args_.html));
    for (const std::string& input : args_.inputs)
      if (const auto found = find(input); !found) return found;
    std::sort(files_.begin(), files_.end());
    files_.erase(std::unique(files_.begin(), files_.end()), files_.end());
    if (files_.empty())
      return command_error(
          Exit::environment,
          "no capture there: files that end with .pcap, .pcapng, .cap or .dmp are looked for, packed (.gz, "
          ".zst, .lz4) or not");
    for (const std::string& file : files_)
      for (const std::string& target : {args_.html, args_.csv, args_.names}) {
        std::error_code error;
        if (!target.empty() && fs::equivalent(target, file, error) && !error)
          return command_error(Exit::usage, fmt::format("{} is one of the captures that are to be read", target));
      }
    return {};
  }

  Or<void> find(const std::string& input) {
    std::error_code error;
    if (!fs::is_directory(input, error)) {
      if (!fs::exists(input, error))
        return command_error(Exit::environment, fmt::format("{}: there is no such file", input));
      files_.push_back(input);
      return {};
    }
    fs::recursive_directory_iterator it(input, fs::directory_options::skip_permission_denied, error), end;
    for (; !error && it != end; it.increment(error)) {
      std::error_code ignored;
      if (looks_like_capture(it->path()) && it->is_regular_file(ignored)) files_.push_back(it->path().string());
    }
    if (error) return command_error(Exit::environment, fmt::format("{}: {}", input, error.message()));
    return {};
  }

  void one(const std::string& file) {
    capture::MatrixCollector collector(matrix_, file, names_);
    const capture::AnalyzerOptions how{.events = !args_.html.empty(),
                                       .mpa_ports = args_.mpa_ports,
                                       .fail_on = args_.standing.fail_on,
                                       .expect = args_.standing.expect,
                                       .policy = args_.standing.policy,
                                       .no_icrc = args_.no_icrc,
                                       .on_connection = [&](capture::ConnectionReport&& c) {
                                         std::string drawn = ladder(c);
                                         collector.add(std::move(c), std::move(drawn));
                                       }};
    const CaptureVerdict v = check_capture_file(file, how, {}, args_.filter.get());
    collector.finish();
    report_.inputs.push_back(v.input);
    std::string lacking = v.readable ? capture::lack_of_mpa(v.report, args_.standing.expect) : "";
    capture::Judgement judged = v.report.judgement;
    if (!lacking.empty()) judged.standing = capture::Standing::failed;  // without the expected connections
    for (const auto& [rule, count] : v.report.ignored) ignored_[rule] += count;
    matrix_.files.push_back({file, v.report.packets, v.report.all_connections(), v.error, std::move(lacking), judged});
    if (!v.error.empty()) ++unread_;
  }

  std::string ladder(const capture::ConnectionReport& c) {
    if (c.judgement.standing == capture::Standing::passed || c.events.empty() || ladder_octets_ > ladders_octets_max)
      return {};
    capture::ConnectionReport shown = c;
    if (shown.events.size() > ladder_lines_max) {
      shown.events_dropped += shown.events.size() - ladder_lines_max;
      shown.events.resize(ladder_lines_max);
    }
    std::string text = capture::to_ladder(shown, {.width = args_.width});
    ladder_octets_ += text.size();
    return text;
  }

  void print() {
    print_provenance(out_, report_);
    out_.text("\n" + capture::to_text(matrix_, args_.width));
    if (!ignored_.empty()) out_.text(capture::ignored_text(ignored_));
    if (!out_.json) return;
    Json rows = Json::array(), unread = Json::array(), short_of = Json::array();
    for (const auto& [pair, row] : matrix_.cells)
      for (const auto& [form, cell] : row) {
        Json connections = Json::array();
        for (const std::size_t i : cell.entries) {
          const auto& e = matrix_.entries[i];
          Json findings = Json::array();
          for (const auto& f : e.findings)
            if (f.severity != capture::Severity::note) findings.push_back(capture::json(f));
          connections.push_back({{"file", e.file},
                                 {"verdict", std::string(capture::to_string(e.judgement.standing))},
                                 {"reason", e.judgement.why},
                                 {"outcome", json_word(capture::to_string(e.outcome))},
                                 {"first_frame", e.first_frame},
                                 {"last_frame", e.last_frame},
                                 {"findings", std::move(findings)}});
        }
        rows.push_back({{"initiator", pair.first},
                        {"responder", pair.second},
                        {"transport", cell.roce ? "roce" : "iwarp"},
                        {"protocol", cell.roce ? "ibcm" : "mpa"},
                        {"form", form},
                        {"verdict", std::string(capture::to_string(cell.counts.worst()))},
                        {"passed", cell.counts[capture::Standing::passed]},
                        {"partial", cell.counts[capture::Standing::partial]},
                        {"failed", cell.counts[capture::Standing::failed]},
                        {"connections", std::move(connections)}});
      }
    for (const auto& f : matrix_.files)
      if (!f.error.empty()) unread.push_back({{"file", f.file}, {"error", f.error}});
    for (const auto& f : matrix_.files)
      if (!f.shortfall.empty()) short_of.push_back({{"file", f.file}, {"verdict", "failed"}, {"reason", f.shortfall}});
    Json report{{"files", matrix_.files.size()},
                {"connection_count", matrix_.counts.all()},
                {"not_listed", matrix_.not_listed()},
                {"verdict", std::string(capture::to_string(matrix_.standing()))},
                {"passed", matrix_.counts[capture::Standing::passed]},
                {"partial", matrix_.counts[capture::Standing::partial]},
                {"failed", matrix_.counts[capture::Standing::failed]},
                {"cells", std::move(rows)},
                {"lacking", std::move(short_of)},
                {"unread", std::move(unread)},
                {"report", report_json(report_)}};
    if (!ignored_.empty()) report["ignored"] = capture::json(ignored_);
    out_.object(report);
  }

  const MatrixArgs& args_;
  Output& out_;
  std::vector<std::string> files_;
  draw::Provenance report_;
  capture::PeerNames names_;
  capture::Matrix matrix_;
  capture::RuleCounts ignored_;
  std::size_t unread_ = 0, ladder_octets_ = 0;
};

}  // namespace

void add_pcap_matrix(Command pcap, Context& context) {
  auto args = std::make_shared<MatrixArgs>();
  Command sub = pcap.subcommand("matrix", "Who with whom, set up how, and whether it worked, of many captures");
  sub.option("DIR", args->inputs, "Directories of captures, with those below; or captures").required();
  sub.option("--names", args->names, "Names of peers: lines of an address and its name").type("FILE");
  sub.option("--html", args->html, "Write one page that needs nothing else").type("FILE");
  sub.option("--csv", args->csv, "Write a line per connection").type("FILE");
  sub.option("--title", args->title, "Title of the page").shows_default();
  add_width_option(sub, args->width, context, "Columns of the text");
  add_mpa_port(sub, args->mpa_ports);
  add_filter(sub, args->filter);
  add_no_icrc(sub, args->no_icrc);
  add_standing_options(sub, args->standing);
  add_json_flag(sub, context);
  sub.footer(
      "A peer is named by what --names gives for its address; else what the path says (parley--siw.pcap, or a "
      "directory\n"
      "parley--siw: the initiator of the first connection, then its responder); else by its address.\n"
      "passed, partial and failed are those of parley pcap check. A capture without a connection of a known protocol\n"
      "has failed, and a row of its own says what it holds.\n"
      "Exit code: 0 all passed, 1 something failed or is partial, 2 usage, 3 a capture cannot be read (to its end)\n\n"
      "Examples:\n"
      "  parley pcap matrix captures/\n"
      "  parley pcap matrix captures/ --names peers.txt --html matrix.html --csv matrix.csv");
  sub.run([args, &context] { return MatrixRun(*args, context.out).run(); });
}

}  // namespace parley::tools
