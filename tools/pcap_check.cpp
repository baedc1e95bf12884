// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// `parley pcap check`: a verdict per MPA connection of each capture, as text and as JSON.
#include <fmt/format.h>

#include <memory>
#include <vector>

#include "tools/pcap.hpp"
#include "verdict/analyzer.hpp"
#include "verdict/json.hpp"
#include "verdict/text.hpp"

namespace parley::tools {
namespace {

struct PcapOptions {
  std::vector<std::string> files;
  bool quiet = false;
  std::size_t width = 100;
};

int run_check(const PcapOptions& options, Output& out) {
  Exit exit = Exit::ok;
  for (const std::string& file : options.files) {
    const CaptureVerdict v = check_capture_file(file, false);
    if (out.json) {
      // The object is printed as verdict/json makes it: its key order is part of the reviewed golden files.
      out.object(Json::parse(v.readable ? verdict::to_json(file, v.report) : verdict::error_json(file, v.error)));
    } else if (v.readable) {
      out.text(verdict::to_text(file, v.report, {.width = options.width, .notes = !options.quiet}));
    }
    if (!v.error.empty()) {
      out.note(fmt::format("parley pcap check: {}: {}", file, v.error));
      exit = Exit::environment;
    } else if (exit == Exit::ok && v.report.count(verdict::Severity::error) > 0) {
      exit = Exit::failed;
    }
  }
  return code(exit);
}

}  // namespace

CaptureVerdict check_capture_file(const std::string& path, bool with_events, const OnFeedProgress& on_progress) {
  CaptureVerdict v;
  verdict::Analyzer analyzer({.events = with_events});
  const FeedResult fed = feed_capture(
      path, [&analyzer](const wire::CapturedPacket& packet) { analyzer.push(packet); }, on_progress);
  v.error = fed.error;
  if (!v.error.empty()) analyzer.note(v.error);
  v.report = analyzer.finish();
  v.readable = v.error.empty() || fed.packets > 0;
  if (v.readable && v.report.unsupported_packets > 0 && v.report.unsupported_packets == v.report.packets) {
    v.error = fmt::format("link type {} is not decoded (Ethernet, Linux cooked, loopback and raw IP are)",
                          v.report.unsupported_link_type);
    v.readable = false;
  }
  return v;
}

void add_pcap_check(CLI::App& pcap, Context& context) {
  auto options = std::make_shared<PcapOptions>();
  CLI::App* sub =
      pcap.add_subcommand("check", "Verdict per MPA connection: who, what was agreed, who broke which rule");
  sub->add_option("FILE", options->files, "Captures: pcap or pcapng; - is standard input")->required();
  sub->add_flag("-q,--quiet", options->quiet, "Leave out findings of severity note");
  sub->add_option("--width", options->width, "Columns of the text")->check(CLI::Range(60, 1000))->capture_default_str();
  add_json_flag(*sub, context);
  sub->footer(
      "Exit code: 0 no error found, 1 a peer broke a MUST (severity error), 2 usage, 3 a file cannot be read to its "
      "end\n"
      "(what comes before that is analysed and printed).\n\n"
      "Examples:\n"
      "  parley pcap check siw.pcap\n"
      "  parley pcap check --json *.pcap | jq '.connections[] | .outcome'\n"
      "  tcpdump -i any -w - port 7471 | parley pcap check -");
  sub->callback([options, &context] {
    context.out.command = "pcap check";
    context.run = [options, &context] { return run_check(*options, context.out); };
  });
}

}  // namespace parley::tools
