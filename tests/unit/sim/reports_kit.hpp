// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// A run with all that records it, and what a reader sees of it by values: how it ended, its connections and hosts, and how
// much was recorded.
#pragma once
#include <deque>
#include <map>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "sim/record/record.hpp"
#include "sim/run/run.hpp"
#include "tests/unit/runs.hpp"

namespace parley::sim::test {

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
    notes_.emplace_back(text);
  }
  const std::vector<std::pair<std::string, HostCounters>>& counted() const { return counted_; }
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  void look() {
    if (++looks_ > 5000) return;
    counted_.resize(world_->host_count());
    for (std::size_t i = 0; i < counted_.size(); ++i)
      counted_[i] = {world_->host(i).name(), world_->host(i).counters()};
  }

  const World* world_ = nullptr;
  std::vector<std::pair<std::string, HostCounters>> counted_;
  std::vector<std::string> notes_;
  std::size_t looks_ = 0;
};

/// Hands every record on, and counts records and octets of their text.
class CountedTrace final : public trace::Sink {
 public:
  CountedTrace(PcapngTap& pcapng, std::string host) : pcapng_(pcapng), host_(std::move(host)) {
    up_to = trace::Level::trace;
  }
  void record(const trace::Record& record) override {
    pcapng_.on_trace(host_, record);
    ++records;
    octets += trace::to_text(record, Instant{}).size();
  }
  std::size_t records = 0, octets = 0;

 private:
  PcapngTap& pcapng_;
  std::string host_;
};

struct Recorded {
  RunReport report;
  std::vector<std::pair<std::string, HostCounters>> hosts;
  std::vector<std::string> notes;
  std::size_t pcapng = 0, ladder = 0, trace_records = 0, trace = 0;  ///< octets, but for trace_records
};

inline Recorded record_run(const Scenario& scenario, std::uint64_t seed) {
  Recorded out;
  const RecordInfo info{"parley", scenario.name, seed};
  PcapngTap pcapng(info, [&out](ConstBytes octets) {
    out.pcapng += octets.size();
    return true;
  });
  LadderTap ladder;
  ladder.set_info(info);
  HostsTap hosts;
  TapFan fan;
  for (Tap* tap : {static_cast<Tap*>(&pcapng), static_cast<Tap*>(&ladder), static_cast<Tap*>(&hosts)}) fan.add(tap);
  std::deque<CountedTrace> traces;
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
  out.ladder = draw::to_text(ladder.finish(&out.report)).size();
  for (const CountedTrace& trace : traces) out.trace_records += trace.records, out.trace += trace.octets;
  out.hosts = hosts.counted();
  out.notes = hosts.notes();
  return out;
}

/// How a run ended, on one line: counters of the world, connections by how both ends saw them (times and octets summed),
/// hosts with frames in, out and discarded, TCP's repetitions, timeouts, segments out of order and resets, failures of
/// neighbours, streams at last and at most, the fullest send queue and reassembly. Sentences by letters.
inline std::string run_line(const Recorded& run, Legend& legend) {
  constexpr std::string_view ends[] = {"settled", "time bound", "event bound", "converge bound", "stopped"};
  const RunReport& r = run.report;
  const WorldCounters& w = r.counters;
  std::string out = fmt::format(
      "{} seed {}: {} at {}; {}; retries {} faults {} queue drops {}; events {} hops {} dropped {} pending {} in "
      "flight {} peak {};",
      r.scenario, r.seed, ends[static_cast<std::size_t>(r.end)], seconds(r.finished_at.time_since_epoch()),
      connections_text(r), r.retries, r.faults_hit, r.queue_drops, w.events, w.packet_hops, w.dropped, w.events_pending,
      w.frames_in_flight, w.frames_peak);
  for (const Violation& v : r.violations)
    out += fmt::format(" ! {} {} {} [{}];", v.checker, seconds(v.at.time_since_epoch()), v.connection,
                       legend.letter_of_form(v.text + " (" + std::string(v.rule) + ")"));
  for (const std::string& pending : r.pending) out += " pending [" + legend.letter_of_form(pending) + "];";
  struct GroupKey {
    std::size_t connections = 0;
    Duration setup{};
    std::uint64_t octets = 0;
  };
  std::map<std::string, GroupKey> alike;
  for (const ConnectionOutcome& o : r.outcomes) {
    // One to a statement: the order in which the operands of + are evaluated is the compiler's choice.
    const std::string initiator = legend.letter_of_form(o.initiator), responder = legend.letter_of_form(o.responder);
    GroupKey& a = alike[fmt::format("{}/{}", initiator, responder)];
    ++a.connections;
    a.setup += o.setup;
    a.octets += o.octets;
  }
  for (const auto& [as, a] : alike)
    out += fmt::format(" {} [{}] {} ns {} octets;", a.connections, as, a.setup.count(), a.octets);
  for (const GroupOutcome& g : r.groups) out += fmt::format(" {} {} {};", g.label, g.datagrams, g.octets);
  for (const XrcOutcome& node : r.xrc) {
    out += fmt::format(" {} TGT {} {} {}, messages", node.label, node.created, node.destroyed, node.reaped);
    for (const XrcOutcome::Process& process : node.processes)
      out += fmt::format(" {}{}", process.messages, process.exited ? "x" : "");
    out += ';';
  }
  std::map<int, std::size_t> streams;
  for (const auto& [stream, outcome] : r.streams) ++streams[static_cast<int>(outcome) + 1];
  for (const auto& [outcome, times] : streams) out += fmt::format(" {} streams of {};", times, outcome);
  for (const std::string& note : run.notes) out += " note [" + legend.letter_of_form(note) + "];";
  for (const auto& [name, c] : run.hosts)
    out += fmt::format(" {} {}>{}-{} {} {} {} {} {} {}/{} {} {};", name, c.frames_in, c.frames_out, c.discarded,
                       c.tcp_retransmits, c.tcp_timeouts, c.tcp_out_of_order, c.resets_sent, c.neighbour_failures,
                       c.streams, c.streams_peak, c.send_queue_peak, c.reassembly_peak);
  return out +
         fmt::format(" pcapng {} ladder {} trace {} of {}\n", run.pcapng, run.ladder, run.trace, run.trace_records);
}

/// Many runs: how they ended, and the sums of what they counted.
inline void add_run(Tally& tally, const Recorded& run) {
  const RunReport& r = run.report;
  const auto n = [](auto of) { return static_cast<std::int64_t>(of); };
  tally.add("runs",
            {n(r.established), n(r.rejected), n(r.failed), n(r.retries), n(r.faults_hit), n(r.queue_drops),
             n(r.counters.events), n(r.counters.packet_hops), n(r.counters.dropped), n(r.counters.frames_peak)});
  tally.add(fmt::format("runs that ended by {}", static_cast<int>(r.end)),
            {n(r.finished_at.time_since_epoch().count())});
  for (const Violation& v : r.violations) tally.add(fmt::format("violations of {}", v.checker));
  for (const std::string& pending : r.pending) tally.add("pending: " + without_numbers(pending));
  for (const ConnectionOutcome& o : r.outcomes)
    tally.add(fmt::format("{} / {}", without_numbers(o.initiator), without_numbers(o.responder)),
              {n(o.setup.count()), n(o.octets)});
  for (const GroupOutcome& g : r.groups) tally.add("groups", {n(g.datagrams), n(g.octets)});
  for (const auto& [stream, outcome] : r.streams)
    tally.add(fmt::format("streams of {}", static_cast<int>(outcome) + 1));
  for (const std::string& note : run.notes) tally.add("note: " + without_numbers(note));
  for (const auto& [name, c] : run.hosts)
    tally.add("hosts", {n(c.frames_in), n(c.frames_out), n(c.discarded), n(c.tcp_retransmits), n(c.tcp_timeouts),
                        n(c.tcp_out_of_order), n(c.resets_sent), n(c.neighbour_failures), n(c.streams),
                        n(c.streams_peak), n(c.send_queue_peak), n(c.reassembly_peak)});
  tally.add("recorded", {n(run.pcapng), n(run.ladder), n(run.trace_records), n(run.trace)});
}

/// What a run that should have passed says, for people.
inline std::string violations_text(const RunReport& r) {
  std::string out = r.scenario + "\n";
  for (const Violation& v : r.violations) out += fmt::format("  ! {} {}: {}\n", v.checker, v.connection, v.text);
  return out;
}

}  // namespace parley::sim::test
