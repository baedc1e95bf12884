// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// `parley pcap ladder`: each MPA connection of a capture as a picture, initiator left and responder right.
#include <fmt/format.h>

#include <memory>
#include <vector>

#include "tools/pcap.hpp"
#include "verdict/ladder.hpp"

namespace parley::tools {
namespace {

struct PcapOptions {
  std::vector<std::string> files;
  bool quiet = false;
  bool ascii = false;
  std::size_t width = 100;
  std::uint64_t connection = 0;
};

int run_ladder(const PcapOptions& options, Output& out) {
  Exit exit = Exit::ok;
  for (const std::string& file : options.files) {
    const CaptureVerdict v = check_capture_file(file, true);
    std::uint64_t number = 0;
    for (const auto& c : v.report.connections) {
      if (++number != options.connection && options.connection != 0) continue;
      if (out.json) {
        Json lines = Json::array();
        for (const auto& e : c.events)
          lines.push_back({{"frame", e.frame},
                           {"time", static_cast<double>((e.at - c.first_at).count()) / 1e9},
                           {"from", std::string(verdict::to_string(e.from))},
                           {"text", e.text}});
        out.object({{"file", file},
                    {"initiator", c.initiator.to_string()},
                    {"responder", c.responder.to_string()},
                    {"ladder", std::move(lines)}});
      }
      out.text(verdict::to_ladder(c, {.width = options.width, .ascii = options.ascii, .findings = !options.quiet}));
    }
    if (v.readable && v.report.connections.empty()) out.text(fmt::format("{}: no MPA connection in it", file));
    if (!v.error.empty()) {
      out.note(fmt::format("parley pcap ladder: {}: {}", file, v.error));
      exit = Exit::environment;
    }
  }
  return code(exit);
}

}  // namespace

void add_pcap_ladder(CLI::App& pcap, Context& context) {
  auto options = std::make_shared<PcapOptions>();
  CLI::App* sub = pcap.add_subcommand("ladder", "Draws each MPA connection: initiator left, responder right");
  sub->add_option("FILE", options->files, "Captures: pcap or pcapng; - is standard input")->required();
  sub->add_option("-n,--connection", options->connection, "Only the n-th MPA connection of the file");
  sub->add_flag("-q,--quiet", options->quiet, "Without findings");
  sub->add_flag("--ascii", options->ascii, "Without box-drawing characters");
  sub->add_option("--width", options->width, "Columns of the text")->check(CLI::Range(60, 1000))->capture_default_str();
  add_json_flag(*sub, context);
  sub->footer("Examples:\n  parley pcap ladder siw.pcap\n  parley pcap ladder -n 2 --ascii siw.pcap");
  sub->callback([options, &context] {
    context.out.command = "pcap ladder";
    context.run = [options, &context] { return run_ladder(*options, context.out); };
  });
}

}  // namespace parley::tools
