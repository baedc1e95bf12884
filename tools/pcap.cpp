// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "tools/pcap.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <vector>

#include "verdict/analyzer.hpp"
#include "verdict/json.hpp"
#include "verdict/ladder.hpp"
#include "verdict/text.hpp"
#include "wire/pcapng.hpp"

namespace parley::tools {
namespace {

struct FileCloser {
  void operator()(std::FILE* f) const {
    if (f != stdin) std::fclose(f);
  }
};
using File = std::unique_ptr<std::FILE, FileCloser>;

/// Feeds a file to the analyzer through a window of bounded size.
class Feeder {
 public:
  Feeder(std::FILE* file, verdict::Analyzer& analyzer)
      : file_(file), analyzer_(analyzer), buffer_(wire::capture_window_min + chunk) {}

  /// Empty when the whole file was read.
  std::string run() {
    for (;;) {
      std::size_t consumed = 0;
      wire::CapturedPacket packet;
      const auto status = reader_.next(ConstBytes(buffer_).subspan(begin_, end_ - begin_), packet, consumed);
      if (status == wire::CaptureStatus::packet) {
        ++packets_;
        analyzer_.push(packet);
      }
      begin_ += consumed;
      if (status == wire::CaptureStatus::error) return reader_.error().to_string();
      if (status == wire::CaptureStatus::packet || fill()) continue;
      if (read_error_ != 0) return std::strerror(read_error_);
      const auto error = reader_.finish(end_ - begin_);
      return error ? error->to_string() : std::string();
    }
  }
  std::uint64_t packets() const { return packets_; }

 private:
  static constexpr std::size_t chunk = 1 << 20;

  bool fill() {
    if (begin_ > 0) {
      std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
      end_ -= begin_;
      begin_ = 0;
    }
    const std::size_t n = std::fread(buffer_.data() + end_, 1, buffer_.size() - end_, file_);
    if (n == 0 && std::ferror(file_) != 0) read_error_ = errno != 0 ? errno : EIO;
    end_ += n;
    return n > 0;
  }

  std::FILE* file_;
  verdict::Analyzer& analyzer_;
  wire::CaptureReader reader_;
  Bytes buffer_;
  std::size_t begin_ = 0, end_ = 0;
  std::uint64_t packets_ = 0;
  int read_error_ = 0;
};

struct PcapOptions {
  std::vector<std::string> files;
  bool quiet = false;
  bool ascii = false;
  std::size_t width = 100;
  std::uint64_t connection = 0;
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

void add_check(CLI::App& pcap, Context& context) {
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

void add_ladder(CLI::App& pcap, Context& context) {
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

}  // namespace

CaptureVerdict check_capture_file(const std::string& path, bool with_events) {
  CaptureVerdict v;
  errno = 0;
  const File file(path == "-" ? stdin : std::fopen(path.c_str(), "rb"));
  if (!file) {
    v.error = std::strerror(errno);
    return v;
  }
  verdict::Analyzer analyzer({.events = with_events});
  Feeder feeder(file.get(), analyzer);
  v.error = feeder.run();
  if (!v.error.empty()) analyzer.note(v.error);
  v.report = analyzer.finish();
  v.readable = v.error.empty() || feeder.packets() > 0;
  if (v.readable && v.report.unsupported_packets > 0 && v.report.unsupported_packets == v.report.packets) {
    v.error = fmt::format("link type {} is not decoded (Ethernet, Linux cooked, loopback and raw IP are)",
                          v.report.unsupported_link_type);
    v.readable = false;
  }
  return v;
}

void register_pcap(CLI::App& app, Context& context) {
  CLI::App* pcap = app.add_subcommand("pcap", "Checks captures of MPA connections, or draws them");
  pcap->require_subcommand(1);
  add_check(*pcap, context);
  add_ladder(*pcap, context);
}

}  // namespace parley::tools
