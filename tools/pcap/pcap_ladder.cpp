// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// `parley pcap ladder`: each MPA and RoCE connection of a capture as a ladder, initiator left and responder right.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <vector>

#include "base/json_text.hpp"
#include "base/text.hpp"
#include "capture/report/ladder.hpp"
#include "capture/report/standing.hpp"
#include "capture/report/text.hpp"
#include "capture/report/text_ladder.hpp"
#include "tools/pcap/connection_choice.hpp"
#include "tools/pcap/pcap.hpp"
#include "tools/provenance.hpp"
#include "tools/sim/sim_files.hpp"

namespace parley::tools {
namespace {

struct LadderArgs {
  std::vector<std::string> files;
  std::string html;  // empty: no HTML; "-": standard output
  bool quiet = false;
  bool ascii = false;
  std::size_t width = 100;
  ConnectionChoice choice;
  std::vector<std::uint16_t> mpa_ports;
  bool no_icrc = false;
  CaptureFilter filter;
};

// Limits of a page: connections, rows of each and rows in all, at about 2 kB per row. Failed connections are drawn
// first. -n selects others.
constexpr std::size_t page_connections_max = 60, page_rows_max = 5000, page_rows_in_all = 20'000;

class Ladders {
 public:
  Ladders(const LadderArgs& options, Output& out) : options_(options), out_(out), report_(provenance(out)) {}

  int run() {
    const bool to_output = options_.html == "-";
    if (to_output && out_.json)
      return out_.error(Exit::usage, "only one of --json and --html - can go to standard output");
    for (const std::string& file : options_.files) {
      std::error_code error;
      if (!options_.html.empty() && !to_output && std::filesystem::equivalent(options_.html, file, error) && !error)
        return out_.error(Exit::usage, fmt::format("--html {} would overwrite a capture that is to be read", file));
    }
    auto page = open_output(to_output ? "" : options_.html);
    if (!page) return out_.error(page.error().exit, page.error().text);
    if (options_.html.empty()) print_provenance(out_, report_);
    for (const std::string& file : options_.files) one(file);
    if (options_.html.empty() || (exit_ == Exit::usage && drawn_.empty())) return code(exit_);
    std::vector<draw::Ladder> ladders;
    for (Drawn& drawn : drawn_) ladders.push_back(std::move(drawn.ladder));
    const std::string title = options_.files.size() == 1 ? options_.files.front() : "Captures";
    const std::string html = draw::to_html("Connections of " + title, ladders, left_out_, &report_);
    if (to_output) {
      out_.verbatim(html);
      return code(exit_);
    }
    (*page)->write(html);
    if (const auto written = (*page)->finish(); !written) return out_.error(written.error().exit, written.error().text);
    out_.text(fmt::format("{}: {} drawn{}", options_.html, counted(ladders.size(), "connection"),
                          left_out_ > 0 ? fmt::format(", {} more left out (choose with -n)", left_out_) : ""));
    return code(exit_);
  }

 private:
  struct Drawn {
    int rank;
    draw::Ladder ladder;
  };

  /// The number of connections of a file whose events are kept.
  std::size_t drawn_max() const {
    return options_.html.empty() ? capture::AnalyzerOptions{}.drawn_max : page_connections_max;
  }

  /// If the first reading kept no events of a selected connection, a regular file is read a second time for them.
  CaptureVerdict read(const std::string& file) const {
    capture::AnalyzerOptions o{
        .events = true, .drawn_max = drawn_max(), .mpa_ports = options_.mpa_ports, .no_icrc = options_.no_icrc};
    if (!options_.html.empty()) {
      o.fields = true;
      o.events_max = page_rows_max;
    }
    std::error_code error;
    if (!std::filesystem::is_regular_file(file, error) || error)
      return check_capture_file(file, o, {}, options_.filter.get());
    const capture::AnalyzerOptions plain{.mpa_ports = options_.mpa_ports, .no_icrc = options_.no_icrc};
    CaptureVerdict v = check_capture_file(file, options_.choice.all() ? o : plain, {}, options_.filter.get());
    const auto& all = v.report.connections;
    if (std::none_of(all.begin(), all.end(), [](const auto& c) { return c.events.empty(); })) return v;
    std::vector<std::size_t> meant = options_.choice.of(v.report);
    if (meant.empty()) return v;
    if (meant.size() > o.drawn_max) meant.resize(o.drawn_max);
    for (const std::size_t i : meant) o.only.push_back(all[i].first_frame);
    std::sort(o.only.begin(), o.only.end());
    return check_capture_file(file, o, {}, options_.filter.get());
  }

  void one(const std::string& file) {
    const CaptureVerdict v = read(file);
    report_.inputs.push_back(v.input);
    if (options_.html.empty() && v.readable) out_.verbatim("\n" + draw::input_text(v.input));
    std::uint64_t undrawn = 0, shown = 0;
    const std::vector<std::size_t> meant =
        lacks_a_number(file, v) ? std::vector<std::size_t>{} : options_.choice.of(v.report);
    // A connection that contains only part of a startup frame has no events but may have findings.
    for (const std::size_t i : meant) {
      if (v.report.connections[i].events.empty() && shown >= drawn_max()) {
        ++undrawn;
      } else {
        show(file, v.report, i);
        ++shown;
      }
    }
    if (v.readable && v.report.connections.empty()) {
      out_.note(fmt::format("parley pcap ladder: {}: {}", file, capture::lack_of_mpa(v.report, 0)));
      end_with(Exit::failed);
    } else if (v.readable && meant.empty() && exit_ != Exit::usage && options_.html.empty()) {
      out_.text(fmt::format(
          "{}: none of {} failed", file,
          options_.choice.highest() > 0 ? "these connections" : counted(v.report.connections.size(), "connection")));
    }
    if (undrawn > 0)
      out_.note(
          fmt::format("parley pcap ladder: {}: not drawn: {}, since only the first of a file are; choose some with -n",
                      file, counted(undrawn, "connection")));
    if (!v.error.empty()) {
      out_.note(fmt::format("parley pcap ladder: {}: {}", file, v.error));
      end_with(Exit::environment);
    }
    if (!options_.html.empty()) left_out_ += undrawn;
  }

  /// Whether the user selected a number that the file does not have. After a read error this is unknown, and false.
  bool lacks_a_number(const std::string& file, const CaptureVerdict& v) {
    const std::uint64_t last = v.report.connections.size(), asked = options_.choice.highest();
    if (asked <= last || last == 0 || !v.error.empty()) return false;
    out_.error(Exit::usage, fmt::format("{}: it has {}, no number {}", file, v.report.connections_text(), asked));
    end_with(Exit::usage);
    return true;
  }

  void end_with(Exit exit) { exit_ = std::max(exit_, exit); }

  void show(const std::string& file, const capture::FileReport& report, std::size_t index) {
    const capture::ConnectionReport& c = report.connections[index];
    if (out_.json) {
      draw::Provenance of_file = report_;
      of_file.inputs = {report_.inputs.back()};
      Json lines = Json::array();
      for (const auto& e : c.events)
        lines.push_back({{"frame", e.frame},
                         {"at_s", in_seconds(e.at - c.first_at)},
                         {"from", std::string(capture::to_string(e.from))},
                         {"text", e.text}});
      out_.object({{"file", file},
                   {"connection", index + 1},
                   {"verdict", std::string(capture::to_string(c.judgement.standing))},
                   {"transport", c.ib ? "roce" : "iwarp"},
                   {"protocol", c.ib ? "ibcm" : "mpa"},
                   {"initiator", c.end_text(capture::Side::initiator)},
                   {"responder", c.end_text(capture::Side::responder)},
                   {"ladder", std::move(lines)},
                   {"report", report_json(of_file)}});
    }
    if (options_.html.empty()) {
      out_.text(fmt::format("{}: connection {} of {}", file, index + 1, report.connections.size()));
      out_.text(capture::to_ladder(c, {.width = options_.width, .ascii = options_.ascii, .findings = !options_.quiet}));
    } else {
      draw::Ladder ladder =
          capture::ladder_of(file, c, {.rows_max = page_rows_max, .notes = !options_.quiet, .number = index + 1});
      add_to_page(rank(c.judgement.standing), std::move(ladder));
    }
  }

  /// Failed connections of all files come first on the page. What exceeds its limits is removed from the end.
  void add_to_page(int standing, draw::Ladder ladder) {
    const auto behind = std::upper_bound(drawn_.begin(), drawn_.end(), standing,
                                         [](int rank, const Drawn& drawn) { return rank < drawn.rank; });
    rows_ += ladder.rows.size();
    drawn_.insert(behind, {standing, std::move(ladder)});
    while (drawn_.size() > page_connections_max || (rows_ > page_rows_in_all && drawn_.size() > 1)) {
      rows_ -= drawn_.back().ladder.rows.size();
      drawn_.pop_back();
      ++left_out_;
    }
  }

  const LadderArgs& options_;
  Output& out_;
  Exit exit_ = Exit::ok;
  draw::Provenance report_;
  std::vector<Drawn> drawn_;
  std::size_t left_out_ = 0, rows_ = 0;
};

int run_ladder(const LadderArgs& options, Output& out) { return Ladders(options, out).run(); }

}  // namespace

void add_pcap_ladder(Command pcap, Context& context) {
  auto options = std::make_shared<LadderArgs>();
  Command sub = pcap.subcommand("ladder", "Draws each MPA or RoCE connection: initiator left, responder right");
  sub.option("FILE", options->files, "Captures: pcap or pcapng; - is standard input").required();
  add_connection_choice(sub, options->choice);
  sub.option("--html", options->html,
             "Draw one page for a browser, with every field of each frame, instead of text; - is standard output")
      .type("FILE");
  sub.flag("-q,--quiet", options->quiet, "Without findings (a page: without notes)");
  sub.flag("--ascii", options->ascii, "Without box-drawing characters");
  add_width_option(sub, options->width, context, "Columns of the text");
  add_color_option(sub, context);
  add_mpa_port(sub, options->mpa_ports);
  add_no_icrc(sub, options->no_icrc);
  add_filter(sub, options->filter);
  add_json_flag(sub, context);
  sub.footer(
      "Failed connections come first, then partial ones.\n\n"
      "Examples:\n  parley pcap ladder siw.pcap\n  parley pcap ladder -n 2,5-9 --ascii siw.pcap\n"
      "  parley pcap ladder --failed siw.pcap\n"
      "  parley pcap ladder --html siw.html siw.pcap");
  sub.run([options, &context] { return run_ladder(*options, context.out); });
}

}  // namespace parley::tools
