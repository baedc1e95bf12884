// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// A run with all that records it, and what a reader sees of it as text: how it ended, each connection, each host, and a
// hash of every octet that was recorded.
#pragma once
#include <deque>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "base/fnv1a.hpp"
#include "sim/record/record.hpp"
#include "sim/run/run.hpp"

namespace parley::sim::test {

inline std::uint64_t hash_of(std::string_view text, std::uint64_t hash = fnv1a_start) {
  return fnv1a({reinterpret_cast<const std::uint8_t*>(text.data()), text.size()}, hash);
}

inline std::string seconds(Duration time) {
  const auto ns = time.count();
  return fmt::format("{}.{:09} s", ns / 1'000'000'000, ns % 1'000'000'000);
}

/// What the hosts have counted when a frame is last seen, or the first 5000 of many.
class HostsTap final : public Tap {
 public:
  void begin(const World& world) { world_ = &world; }
  void on_frame(const TapFrame&) override { look(); }
  void on_note(Instant, NodeId, NoteKind, std::string_view text) override {
    look();
    notes_ += fmt::format("  {}\n", text);
  }
  std::string text() const {
    std::string out = notes_;
    for (const auto& [name, c] : counted_)
      out += fmt::format(
          "  {}: frames in {} out {} discarded {}; TCP again {} timeouts {} out of order {} resets {}; "
          "no neighbour {}; streams {} of {}; queue {} reassembly {}\n",
          name, c.frames_in, c.frames_out, c.discarded, c.tcp_retransmits, c.tcp_timeouts, c.tcp_out_of_order,
          c.resets_sent, c.neighbour_failures, c.streams, c.streams_peak, c.send_queue_peak, c.reassembly_peak);
    return out;
  }

 private:
  void look() {
    if (++looks_ > 5000) return;
    counted_.resize(world_->host_count());
    for (std::size_t i = 0; i < counted_.size(); ++i)
      counted_[i] = {world_->host(i).name(), world_->host(i).counters()};
  }

  const World* world_ = nullptr;
  std::vector<std::pair<std::string, HostCounters>> counted_;
  std::string notes_;
  std::size_t looks_ = 0;
};

class TraceHash final : public trace::Sink {
 public:
  TraceHash(PcapngTap& pcapng, std::string host) : pcapng_(pcapng), host_(std::move(host)) {
    up_to = trace::Level::trace;
  }
  void record(const trace::Record& record) override {
    pcapng_.on_trace(host_, record);
    hash_ = hash_of(trace::to_text(record, Instant{}), hash_);
  }
  std::uint64_t hash() const { return hash_; }

 private:
  PcapngTap& pcapng_;
  std::string host_;
  std::uint64_t hash_ = fnv1a_start;
};

struct Recorded {
  RunReport report;
  std::string hosts;
  std::uint64_t pcapng = 0, ladder = 0, trace = 0;
};

inline Recorded record_run(const Scenario& scenario, std::uint64_t seed) {
  Recorded out;
  const RecordInfo info{"parley", scenario.name, seed};
  PcapngTap pcapng(info, [](ConstBytes) { return true; });
  LadderTap ladder;
  ladder.set_info(info);
  HostsTap hosts;
  TapFan fan;
  for (Tap* tap : {static_cast<Tap*>(&pcapng), static_cast<Tap*>(&ladder), static_cast<Tap*>(&hosts)}) fan.add(tap);
  std::deque<TraceHash> traces;
  RunOptions options;
  options.seed = seed;
  options.tap = &fan;
  options.on_world = [&](const World& world) {
    pcapng.begin(world);
    ladder.begin(world);
    hosts.begin(world);
  };
  options.trace = [&](const std::string& host) { return &traces.emplace_back(pcapng, host); };
  out.report = run_scenario(scenario, options);
  pcapng.finish(&out.report);
  out.pcapng = pcapng.hash();
  out.ladder = hash_of(draw::to_text(ladder.finish(&out.report)));
  for (const TraceHash& trace : traces) out.trace = out.trace * 31 + trace.hash();
  out.hosts = hosts.text();
  return out;
}

/// Connections that ended alike next to each other share a line.
inline std::string outcomes_text(const RunReport& report, std::size_t lines_max) {
  std::string out;
  std::size_t lines = 0;
  for (const ConnectionOutcome& o : report.outcomes) {
    if (lines++ == lines_max) return out + fmt::format("  ... {} in all\n", report.outcomes.size());
    out += fmt::format("  {}: {} / {}, set up in {}, {} octets\n", o.label, o.initiator, o.responder, seconds(o.setup),
                       o.octets);
  }
  return out;
}

inline std::string report_text(const RunReport& report, std::size_t lines_max) {
  constexpr std::string_view ends[] = {"settled", "time bound", "event bound", "converge bound", "stopped"};
  const WorldCounters& c = report.counters;
  std::string out = fmt::format(
      "{}, seed {}: {} at {}; {}; faults {}\n  events {} hops {} dropped {} pending {} in flight {} peak {}\n",
      report.scenario, report.seed, ends[static_cast<std::size_t>(report.end)],
      seconds(report.finished_at.time_since_epoch()), connections_text(report), report.faults_hit, c.events,
      c.packet_hops, c.dropped, c.events_pending, c.frames_in_flight, c.frames_peak);
  for (const Violation& v : report.violations)
    out += fmt::format("  ! {} {} {}: {} ({})\n", v.checker, seconds(v.at.time_since_epoch()), v.connection, v.text,
                       v.rule);
  for (const std::string& pending : report.pending) out += "  pending: " + pending + "\n";
  out += outcomes_text(report, lines_max);
  for (const GroupOutcome& g : report.groups)
    out += fmt::format("  {}: {} datagrams, {} octets\n", g.label, g.datagrams, g.octets);
  for (const XrcOutcome& node : report.xrc) {
    out += fmt::format("  {}: TGT queue pairs made {} ended {} reaped {}; messages", node.label, node.created,
                       node.destroyed, node.reaped);
    for (const XrcOutcome::Process& process : node.processes)
      out += fmt::format(" {}{}", process.messages, process.exited ? " (exited)" : "");
    out += '\n';
  }
  if (report.streams.size() > lines_max) return out;
  for (const auto& [stream, outcome] : report.streams)
    out += fmt::format("  {} - {}: {}\n", stream.first.to_string(), stream.second.to_string(), outcome + 1);
  return out;
}

}  // namespace parley::sim::test
