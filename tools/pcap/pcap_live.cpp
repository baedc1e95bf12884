// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// `parley pcap live`: captures on a network interface, prints a verdict as each connection ends, and writes the packets
// to a ring of files.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <chrono>
#include <memory>
#include <optional>
#include <vector>

#include "base/text.hpp"
#include "capture/link_type.hpp"
#include "capture/report/csv.hpp"
#include "capture/report/json.hpp"
#include "capture/report/text.hpp"
#include "drivers/clock.hpp"
#include "drivers/pcap/live.hpp"
#include "tools/pcap/capture_ring.hpp"
#include "tools/pcap/pcap.hpp"
#include "tools/pcap/pcap_junit.hpp"
#include "tools/pcap/pcap_reports.hpp"
#include "tools/pcap/pcap_standing.hpp"
#include "tools/provenance.hpp"
#include "tools/rping/session.hpp"
#include "wire/packet.hpp"

namespace parley::tools {
namespace {

using pcap_driver::LiveCapture;
using pcap_driver::LiveDrops;
using Steady = std::chrono::steady_clock;

struct LiveArgs {
  bool list = false, quiet = false, no_promiscuous = false;
  std::string interface, base;
  std::vector<std::string> filter;
  std::optional<RingSize> ring;
  std::size_t buffer = pcap_driver::LiveOptions{}.buffer_octets;
  std::uint64_t count = 0;
  Duration duration{0}, idle = std::chrono::hours(1);
  std::size_t width = 100;
  std::vector<std::uint16_t> mpa_ports;
  bool no_icrc = false;
  StandingArgs standing;
  ReportArgs reports;
};

constexpr Duration turn_wait = std::chrono::milliseconds(100);   // latency of verdicts and of the end
constexpr Duration drops_every = std::chrono::seconds(1);        // interval of asking libpcap
constexpr Duration drops_told_every = std::chrono::seconds(10);  // interval of reporting drops
constexpr Duration rest_wait = std::chrono::milliseconds(200);  // the kernel delivers its last packets within this time
constexpr Duration rest_max = std::chrono::seconds(2);          // limit while packets keep arriving

class LiveCheck {
 public:
  LiveCheck(const LiveArgs& args, Output& out)
      : args_(args),
        out_(out),
        report_(provenance(out)),
        filter_(fmt::format("{}", fmt::join(args.filter, " "))),
        analyzer_({.mpa_ports = args.mpa_ports,
                   .fail_on = args.standing.fail_on,
                   .expect = args.standing.expect,
                   .policy = args.standing.policy,
                   .no_icrc = args.no_icrc,
                   .idle = args.idle}),
        junit_(args.interface, args.standing) {}

  int run() {
    auto reports = Reports::open(args_.reports, {}, out_);
    if (!reports) return out_.error(reports.error().exit, reports.error().text);
    reports_ = &*reports;
    if (const auto wrong = open()) return out_.error(wrong->exit, wrong->text);
    const StopSignals signals;
    print_start();
    const Steady::time_point begun = Steady::now();
    while (end_.empty()) {
      turn(turn_wait);
      if (!end_.empty()) break;
      if (StopSignals::requested()) end_ = "signal";
      if (args_.duration > Duration{0} && Steady::now() - begun >= args_.duration) end_ = "duration";
    }
    if (fault_.empty() && end_ != "count") take_rest();
    return finish();
  }

 private:
  std::optional<CommandError> open();
  void print_start();
  void turn(Duration wait);
  std::size_t read(Duration wait);
  void packet(const pcap_driver::LivePacket& p);
  void take_rest();
  void count_drops();
  void print_drops();
  void ended(const capture::ConnectionReport& c);
  void ended(const capture::NegotiationReport& n);
  void print(const capture::ConnectionReport& c);
  void say(std::string_view text) {
    if (reports_->text()) out_.text(text);
  }
  void broken(std::string why) {
    if (fault_.empty()) fault_ = std::move(why);
    end_ = "error";
  }
  Json place_json(std::uint64_t frame) const;
  std::string recorded_text(std::uint64_t first_frame, std::uint64_t last_frame) const;
  int finish();
  Or<void> write_junit(const CaptureVerdict& verdict);

  const LiveArgs& args_;
  Output& out_;
  draw::Provenance report_;
  Reports* reports_ = nullptr;  // run()'s
  std::string filter_;
  capture::Analyzer analyzer_;
  std::unique_ptr<LiveCapture> capture_;
  std::unique_ptr<CaptureRing> ring_;
  JunitCapture junit_;
  std::uint64_t frames_ = 0, connections_ = 0, negotiations_ = 0;
  LiveDrops drops_;
  std::uint64_t drops_told_ = 0;
  Steady::time_point drops_asked_at_{}, drops_told_at_{};
  std::string end_, fault_;  // why the capture ends; what failed
};

std::optional<CommandError> LiveCheck::open() {
  auto capture = LiveCapture::open({.interface = args_.interface,
                                    .filter = filter_,
                                    .buffer_octets = args_.buffer,
                                    .promiscuous = !args_.no_promiscuous});
  if (!capture)
    return CommandError{capture.error().usage ? Exit::usage : Exit::environment, std::move(capture.error().text)};
  capture_ = std::move(*capture);
  if (!wire::link_type_supported(capture_->link_type()))
    return CommandError{Exit::environment,
                        fmt::format("'{}': {}", args_.interface, capture::link_type_refusal(capture_->link_type()))};
  if (!args_.ring) return std::nullopt;
  auto ring = CaptureRing::open({.base = args_.base,
                                 .size = *args_.ring,
                                 .interface = args_.interface,
                                 .link_type = capture_->link_type(),
                                 .comment = filter_.empty() ? "" : "filter: " + filter_});
  if (!ring) return ring.error();
  ring_ = std::move(*ring);
  return std::nullopt;
}

void LiveCheck::print_start() {
  std::string text =
      fmt::format("capturing on {}, link type {}", args_.interface, capture::link_type_text(capture_->link_type()));
  if (!filter_.empty()) text += fmt::format(", filter '{}'", filter_);
  if (ring_)
    text += fmt::format(", into {} and on, at most {} files of {} octets", ring_->current(), args_.ring->files,
                        args_.ring->octets);
  if (reports_->text()) print_provenance(out_, report_);
  say(text + "\n");
  reports_->add_csv(capture::csv_header(&report_));
  out_.object({{"event", "capturing"},
               {"interface", args_.interface},
               {"link_type", capture_->link_type()},
               {"filter", filter_},
               {"ring", ring_ ? Json(ring_->current()) : Json()},
               {"report", report_json(report_)}});
  if (!capture_->warning().empty()) out_.note(fmt::format("parley pcap live: {}", capture_->warning()));
}

void LiveCheck::packet(const pcap_driver::LivePacket& p) {
  wire::CapturedPacket packet;
  packet.frame = ++frames_;
  packet.at = p.at;
  packet.link_type = capture_->link_type();
  packet.original_length = p.original_length;
  packet.octets = p.octets;
  analyzer_.push(packet);
  if (!ring_ || !fault_.empty()) return;
  if (const auto written = ring_->packet(packet.frame, p.at, p.octets, p.original_length); !written)
    broken(written.error().text);
}

std::size_t LiveCheck::read(Duration wait) {
  const auto n = capture_->read(wait, [this](const pcap_driver::LivePacket& p) { packet(p); });
  if (!n) broken(fmt::format("the capture on '{}' ended: {}", args_.interface, n.error().text));
  if (ring_ && fault_.empty())
    if (const auto flushed = ring_->flush(); !flushed) broken(flushed.error().text);
  return n.value_or(0);
}

void LiveCheck::turn(Duration wait) {
  read(wait);
  const auto now = Steady::now();
  if (now - drops_asked_at_ >= drops_every) {
    drops_asked_at_ = now;
    count_drops();
  }
  if (drops_.all() > drops_told_ && now - drops_told_at_ >= drops_told_every) {
    drops_told_at_ = now;
    print_drops();
  }
  for (const capture::ConnectionReport& c : analyzer_.take_ended(wall_clock_now())) ended(c);
  for (const capture::NegotiationReport& n : analyzer_.take_negotiations()) ended(n);
  if (args_.count > 0 && connections_ + negotiations_ >= args_.count && end_.empty()) end_ = "count";
}

/// Reads the packets that the kernel still holds from before the end.
void LiveCheck::take_rest() {
  const auto begun = Steady::now();
  while (fault_.empty() && Steady::now() - begun < rest_max && read(rest_wait) > 0) continue;
}

void LiveCheck::count_drops() {
  const std::uint64_t before = drops_.all();
  drops_ = capture_->drops();
  analyzer_.dropped(drops_.all() - before);
}

void LiveCheck::print_drops() {
  out_.note(
      fmt::format("parley pcap live: {} dropped by the kernel, {} by the interface so far: the verdicts that they "
                  "touch are partial; a filter or a larger --buffer may help",
                  counted(drops_.kernel, "packet"), drops_.interface));
  out_.object({{"event", "dropped"}, {"kernel", drops_.kernel}, {"interface", drops_.interface}});
  drops_told_ = drops_.all();
}

Json LiveCheck::place_json(std::uint64_t frame) const {
  const auto place = ring_->place_of(frame);
  if (!place) return {};
  return {{"file", place->file}, {"frame", place->frame}};
}

void LiveCheck::ended(const capture::ConnectionReport& c) {
  ++connections_;
  // Write the files first: a program that reads about the connection on standard output finds it in them.
  if (reports_->csv()) reports_->add_csv(capture::to_csv(args_.interface, connections_, c, &report_));
  if (reports_->junit()) junit_.connection(c);
  print(c);
}

void LiveCheck::ended(const capture::NegotiationReport& n) {
  ++negotiations_;
  if (reports_->junit()) junit_.negotiation(n);
  if (out_.json) {
    Json object{{"event", "negotiation"}, {"negotiation", negotiations_}};
    object.update(capture::json(n));
    if (ring_) object["recorded"] = {{"first", place_json(n.first_frame)}, {"last", place_json(n.last_frame)}};
    return out_.object(object);
  }
  say(capture::to_text(n, {.width = args_.width, .notes = !args_.quiet}) + recorded_text(n.first_frame, n.last_frame));
}

void LiveCheck::print(const capture::ConnectionReport& c) {
  if (out_.json) {
    Json object{{"event", "connection"}, {"connection", connections_}};
    object.update(capture::json(c));
    if (ring_) object["recorded"] = {{"first", place_json(c.first_frame)}, {"last", place_json(c.last_frame)}};
    return out_.object(object);
  }
  say(capture::to_text(c, {.width = args_.width, .notes = !args_.quiet}) + recorded_text(c.first_frame, c.last_frame));
}

/// Where the ring has recorded the frames.
std::string LiveCheck::recorded_text(std::uint64_t first_frame, std::uint64_t last_frame) const {
  if (!ring_) return {};
  const auto first = ring_->place_of(first_frame), last = ring_->place_of(last_frame);
  if (first && last && first->file == last->file)
    return fmt::format("  recorded   {}, frames {} to {}\n", first->file, first->frame, last->frame);
  if (first && last)
    return fmt::format("  recorded   {} from frame {} to {} frame {}\n", first->file, first->frame, last->file,
                       last->frame);
  if (last) return fmt::format("  recorded   to {} frame {}; its beginning is overwritten\n", last->file, last->frame);
  return "  recorded   no longer: the ring has gone round\n";
}

int LiveCheck::finish() {
  count_drops();
  if (drops_.all() > drops_told_) print_drops();
  if (ring_ && fault_.empty())
    if (const auto written = ring_->finish(); !written) broken(written.error().text);
  if (drops_.all() > 0)
    analyzer_.note(
        fmt::format("{} dropped by the kernel, {} by the interface: what is not seen whole while that "
                    "happened is partial",
                    counted(drops_.kernel, "packet"), drops_.interface));
  if (!fault_.empty()) analyzer_.unread(fault_);
  capture::FileReport report = analyzer_.finish();
  for (const capture::ConnectionReport& c : report.take_connections()) ended(c);
  for (const capture::NegotiationReport& n : report.take_negotiations()) ended(n);
  const std::string summary = capture::summary_text(args_.interface, report);
  say(std::string_view(summary).substr(0, summary.size() - 1));
  if (out_.json) {
    Json object{{"event", "summary"}, {"interface", args_.interface}, {"end", end_}};
    Json whole = capture::json("", report);
    whole.erase("file");
    object.update(std::move(whole));
    object.erase("connections");
    object["connection_count"] = report.all_connections();
    if (report.all_negotiations() > 0) object["negotiation_count"] = report.all_negotiations();
    object.erase("negotiations");
    object["dropped"] = {{"kernel", drops_.kernel}, {"interface", drops_.interface}};
    object["report"] = report_json(report_);
    out_.object(object);
  }
  reports_->add_csv(capture::to_csv(args_.interface, report, &report_));  // reports that there was no connection
  const Exit verdict = exit_for(report.judgement.standing, args_.standing);
  const auto written = write_junit({.report = std::move(report), .error = fault_, .readable = true});
  if (!fault_.empty()) return out_.error(Exit::environment, fault_);
  if (!written) return out_.error(written.error().exit, written.error().text);
  return code(verdict);
}

Or<void> LiveCheck::write_junit(const CaptureVerdict& verdict) {
  std::vector<JunitSuite> suites;
  if (reports_->junit()) {
    suites.push_back(junit_.finish(verdict));
    suites.back().properties = report_properties(report_);
  }
  return reports_->finish("parley pcap live", suites);
}

int list_interfaces(Output& out) {
  const auto interfaces = pcap_driver::list_interfaces();
  if (!interfaces) return out.error(Exit::environment, interfaces.error().text);
  if (interfaces->empty())
    return out.error(Exit::environment, "no interface that this user may capture on: try it as root");
  for (const pcap_driver::Interface& i : *interfaces) {
    out.text(fmt::format("{:15} {}{}{}{}", i.name, i.up ? "up" : "down", i.loopback ? ", loopback" : "",
                         i.description.empty() ? "" : ": ", i.description));
    out.object({{"event", "interface"},
                {"name", i.name},
                {"up", i.up},
                {"loopback", i.loopback},
                {"description", i.description}});
  }
  return code(Exit::ok);
}

int run_live(const LiveArgs& args, Output& out) {
  if (args.list) return list_interfaces(out);
  if (args.interface.empty())
    return out.error(Exit::usage, "no interface is given: -i any captures on all, -D lists those there are");
  return LiveCheck(args, out).run();
}

void add_capture_options(Command sub, LiveArgs& args) {
  sub.option("-i,--interface", args.interface, "Where to capture; any: on all interfaces").type("IFACE");
  sub.flag("-D,--list-interfaces", args.list, "List the interfaces that there are, and end");
  sub.option("FILTER", args.filter, "Only the packets that this filter of tcpdump passes (pcap-filter(7))");
  sub.flag("-p,--no-promiscuous", args.no_promiscuous, "Only packets that this host would take anyway");
  sub.option(
         "--buffer",
         [&args](const std::string& text) {
           const auto octets = parse_octets(text);
           using Limits = pcap_driver::LiveOptions;
           if (!octets || *octets < Limits::buffer_octets_min || *octets > Limits::buffer_octets_max)
             return fmt::format("'{}' is not a size from 1MiB to 1GiB", text);
           args.buffer = *octets;
           return std::string();
         },
         "What the kernel keeps for us while we are busy")
      .type("SIZE")
      .shows_default("16MiB");
  Option ring = sub.option(
                       "--ring",
                       [&args](const std::string& text) {
                         const auto size = parse_ring_size(text);
                         if (!size) return size.error();
                         args.ring = *size;
                         return std::string();
                       },
                       "Write the packets to a ring of at most FILES files of at most SIZE; the oldest is deleted")
                    .type("FILESxSIZE");
  Option base = sub.option("-w,--write", args.base, "Name of the ring: FILE_00001.pcapng and on").type("FILE");
  ring.needs(base);
  base.needs(ring);
}

}  // namespace

void add_pcap_live(Command pcap, Context& context) {
  auto args = std::make_shared<LiveArgs>();
  Command sub = pcap.subcommand("live", "Capture on an interface: a verdict as each MPA connection ends");
  add_capture_options(sub, *args);
  add_duration(sub, "--duration", args->duration, "End after this time (0: by Ctrl-C)");
  sub.option("-n,--count", args->count, "Stop once this many connections have ended (0: by Ctrl-C)").shows_default();
  add_duration(sub, "--idle", args->idle, "Judge and forget an open connection that was silent for this long");
  sub.flag("-q,--quiet", args->quiet, "Leave out findings of severity note");
  add_report_options(sub, args->reports);
  add_width_option(sub, args->width, context, "Columns of the text");
  add_color_option(sub, context);
  add_mpa_port(sub, args->mpa_ports);
  add_no_icrc(sub, args->no_icrc);
  add_standing_options(sub, args->standing);
  add_json_flag(sub, context);
  sub.footer(
      "Capturing needs CAP_NET_RAW: run it as root, or once sudo setcap cap_net_raw+ep $(command -v parley)\n"
      "Passed, partial and failed are as in 'parley pcap check'. Connections that are open at the end are judged as "
      "far\n"
      "as they came. If the kernel drops packets, connections not seen whole are partial.\n"
      "Exit code: 0 all passed, 1 something failed or is partial, or no connection was seen, 2 usage, 3 the capture\n"
      "cannot be started, or broke off.\n\n"
      "Examples:\n"
      "  parley pcap live -i eth0 tcp port 7471\n"
      "  parley pcap live -i any --json --duration 10m | jq -c 'select(.event == \"connection\") | [.initiator, "
      ".why]'\n"
      "  parley pcap live -i eth0 --ring 10x100MB -w /var/tmp/rdma --fail-on warning\n"
      "  parley pcap live -i eth0 --csv connections.csv --junit junit.xml --duration 1h\n"
      "  parley pcap live -i lo --count 1 --expect 1 port 7175");
  sub.run([args, &context] { return run_live(*args, context.out); });
}

}  // namespace parley::tools
