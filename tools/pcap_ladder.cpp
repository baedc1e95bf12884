// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// `parley pcap ladder`: each MPA connection of a capture as a picture, initiator left and responder right.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <vector>

#include "tools/pcap.hpp"
#include "tools/sim_files.hpp"
#include "verdict/capture_picture.hpp"
#include "verdict/ladder.hpp"
#include "verdict/standing.hpp"
#include "verdict/text.hpp"

namespace parley::tools {
namespace {

struct PcapOptions {
  std::vector<std::string> files;
  std::string html;  // empty: not asked for; "-": standard output
  bool quiet = false;
  bool ascii = false;
  std::size_t width = 100;
  std::uint64_t connection = 0;
  std::vector<std::uint16_t> mpa_ports;
  CaptureFilter filter;
};

// A page has room for so many connections, rows of each and rows in all, at some 2 kB a row; -n chooses among more.
constexpr std::size_t page_connections_max = 60, page_rows_max = 5000, page_rows_in_all = 20'000;

class Ladders {
 public:
  Ladders(const PcapOptions& options, Output& out) : options_(options), out_(out) {}

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
    for (const std::string& file : options_.files) one(file);
    if (options_.html.empty()) return code(exit_);
    const std::string title = options_.files.size() == 1 ? options_.files.front() : "Captures";
    const std::string html = verdict::to_html("MPA connections of " + title, pictures_, left_out_);
    if (to_output) {
      out_.verbatim(html);
      return code(exit_);
    }
    (*page)->write(html);
    if (const auto written = (*page)->finish(); !written) return out_.error(written.error().exit, written.error().text);
    out_.text(fmt::format("{}: {} connection{} drawn{}", options_.html, pictures_.size(),
                          pictures_.size() == 1 ? "" : "s",
                          left_out_ > 0 ? fmt::format(", {} more left out (choose with -n)", left_out_) : ""));
    return code(exit_);
  }

 private:
  /// With -n, a file that can be read twice is: the first time tells with which frame the connection begins.
  CaptureVerdict read(const std::string& file) const {
    verdict::AnalyzerOptions o{.events = true, .mpa_ports = options_.mpa_ports};
    if (!options_.html.empty()) {
      o.fields = true;
      o.drawn_max = page_connections_max;
      o.events_max = page_rows_max;
    }
    std::error_code error;
    if (options_.connection == 0 || !std::filesystem::is_regular_file(file, error) || error)
      return check_capture_file(file, o, {}, options_.filter.get());
    CaptureVerdict v =
        check_capture_file(file, verdict::AnalyzerOptions{.mpa_ports = options_.mpa_ports}, {}, options_.filter.get());
    if (options_.connection > v.report.connections.size()) return v;
    o.only = v.report.connections[options_.connection - 1].first_frame;
    return check_capture_file(file, o, {}, options_.filter.get());
  }

  void one(const std::string& file) {
    const CaptureVerdict v = read(file);
    std::uint64_t number = 0, shown = 0, undrawn = 0;
    for (const auto& c : v.report.connections) {
      if (++number != options_.connection && options_.connection != 0) continue;
      ++shown;
      if (c.events.empty())
        ++undrawn;
      else
        show(file, c);
    }
    if (v.readable && v.report.connections.empty()) {
      out_.note(fmt::format("parley pcap ladder: {}: {}", file, verdict::shortfall(v.report, 0)));
      if (exit_ == Exit::ok) exit_ = Exit::failed;
    } else if (v.readable && shown == 0) {
      out_.note(fmt::format("parley pcap ladder: {}: it has {} MPA connection{}, no number {}", file,
                            v.report.connections.size(), v.report.connections.size() == 1 ? "" : "s",
                            options_.connection));
      if (exit_ == Exit::ok) exit_ = Exit::failed;
    }
    if (undrawn > 0)
      out_.note(
          fmt::format("parley pcap ladder: {}: not drawn: {}, since only the first of a file are; choose one with -n",
                      file, verdict::counted(undrawn, "connection")));
    if (!v.error.empty()) {
      out_.note(fmt::format("parley pcap ladder: {}: {}", file, v.error));
      exit_ = Exit::environment;
    }
    if (!options_.html.empty()) left_out_ += undrawn;
  }

  void show(const std::string& file, const verdict::ConnectionReport& c) {
    if (out_.json) {
      Json lines = Json::array();
      for (const auto& e : c.events)
        lines.push_back({{"frame", e.frame},
                         {"time", static_cast<double>((e.at - c.first_at).count()) / 1e9},
                         {"from", std::string(verdict::to_string(e.from))},
                         {"text", e.text}});
      out_.object({{"file", file},
                   {"initiator", c.initiator.to_string()},
                   {"responder", c.responder.to_string()},
                   {"ladder", std::move(lines)}});
    }
    if (options_.html.empty()) {
      out_.text(verdict::to_ladder(c, {.width = options_.width, .ascii = options_.ascii, .findings = !options_.quiet}));
    } else if (pictures_.size() < page_connections_max && rows_left_ > 0) {  // of all files together
      const std::size_t most = std::min(page_rows_max, rows_left_);
      pictures_.push_back(verdict::to_picture(file, c, {.rows_max = most, .notes = !options_.quiet}));
      rows_left_ -= std::min(rows_left_, pictures_.back().rows.size());
    } else {
      ++left_out_;
    }
  }

  const PcapOptions& options_;
  Output& out_;
  Exit exit_ = Exit::ok;
  std::vector<verdict::Picture> pictures_;
  std::size_t left_out_ = 0, rows_left_ = page_rows_in_all;
};

int run_ladder(const PcapOptions& options, Output& out) { return Ladders(options, out).run(); }

}  // namespace

void add_pcap_ladder(CLI::App& pcap, Context& context) {
  auto options = std::make_shared<PcapOptions>();
  CLI::App* sub = pcap.add_subcommand("ladder", "Draws each MPA connection: initiator left, responder right");
  sub->add_option("FILE", options->files, "Captures: pcap or pcapng; - is standard input")->required();
  sub->add_option("-n,--connection", options->connection, "Only the n-th MPA connection of the file");
  sub->add_option("--html", options->html,
                  "Draw one page for a browser, with every field of each frame, instead of text; - is standard output")
      ->type_name("FILE");
  sub->add_flag("-q,--quiet", options->quiet, "Without findings (a page: without notes)");
  sub->add_flag("--ascii", options->ascii, "Without box-drawing characters");
  add_width_option(*sub, options->width, context, "Columns of the text");
  add_color_option(*sub, context);
  add_mpa_port(*sub, options->mpa_ports);
  add_filter(*sub, options->filter);
  add_json_flag(*sub, context);
  sub->footer(
      "Examples:\n  parley pcap ladder siw.pcap\n  parley pcap ladder -n 2 --ascii siw.pcap\n"
      "  parley pcap ladder --html siw.html siw.pcap");
  sub->callback([options, &context] {
    context.out.command = "pcap ladder";
    context.run = [options, &context] { return run_ladder(*options, context.out); };
  });
}

}  // namespace parley::tools
