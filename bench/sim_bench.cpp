// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The simulator compared with ns-3: the same topology and traffic on one thread, by CPU time. Each run is a separate
// process, and the two alternate. Also a storm of connections, with the cost of each. docs/performance.md explains each
// figure.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>
#include <vector>

#include "bench/harness.hpp"
#include "bench/ns3_peer.hpp"
#include "bench/sim_peer.hpp"
#include "sim/run/run.hpp"

namespace parley::bench {
namespace {

Sample of_packets(const SimSample& s) { return {.count = s.packets, .wall_s = s.cpu_s, .cpu_s = s.cpu_s}; }
Sample of_connections(const SimSample& s) { return {.count = s.connections, .wall_s = s.cpu_s, .cpu_s = s.cpu_s}; }

/// The throughput of one bulk connection, as text.
std::string pace(const SimSample& s) {
  return fmt::format("{:.2f} Gb/s of payload in {:.0f} ms of virtual time, {:.2f} events a packet",
                     s.octets * 8 / std::max(s.virtual_s, 1e-9) / 1e9, s.virtual_s * 1e3,
                     s.events / std::max(s.packets, 1.0));
}

struct Bench {
  Settings settings;
  Report report;
  bool ns3 = false;

  explicit Bench(const Settings& its_settings) : settings(its_settings), report("sim_bench", its_settings) {}

  /// Runs both sides in turn and adds a row.
  void compare(const std::string& what, const std::string& unit, const std::function<Sample()>& ours,
               const std::function<Sample()>& theirs, double goal) {
    std::vector<Contender> contenders{{"parley", ours}};
    if (ns3 && theirs) contenders.push_back({"ns-3", theirs});
    const auto samples = alternate(contenders, settings.rounds);
    Row row{.what = what, .unit = unit, .figure = median_of(samples[0], Reading::per_cpu_second)};
    if (samples.size() > 1) {
      row.limit_name = "ns-3";
      row.limit = median_of(samples[1], Reading::per_cpu_second);
      row.ratio = median_ratio(samples[0], samples[1], Reading::per_cpu_second);
      row.cpu_ratio = row.ratio;
      row.goal_kind = goal > 0 ? Row::Goal::ratio_at_least : Row::Goal::none;
      row.goal = goal;
    }
    report.add(row);
  }

  BulkWork our_bulk() const { return {.virtual_us = settings.quick ? 5'000 : 200'000}; }
  BulkWork their_bulk() const { return {.virtual_us = settings.quick ? 2'000 : 50'000}; }
  void bulk();
  void roce();
  void short_connections();
  void alive();
  void storm();
  void growth();
};

void Bench::bulk() {
  report.section(
      "bulk: one connection over 10 Gb/s and 10 us, segments of 1448 octets; packets over a link, per CPU second");
  const BulkWork ours = our_bulk(), theirs = their_bulk();
  const auto ns = [&] { return of_packets(ns3_bulk(theirs)); };
  compare(
      "TCP", "packets/s", [&] { return of_packets(parley_sim_tcp(ours)); }, ns, 10);
  compare(
      "iWARP Write with CRC", "packets/s", [&] { return of_packets(parley_sim_iwarp(ours, false)); }, ns, 10);
  compare(
      "iWARP Send with CRC", "packets/s", [&] { return of_packets(parley_sim_iwarp(ours, true)); }, ns, 10);
  const SimSample tcp = parley_sim_tcp(ours), rdma = parley_sim_iwarp(ours, false),
                  other = ns3 ? ns3_bulk(theirs) : SimSample{};
  const auto words = [](const char* who, const SimSample& s) {
    return fmt::format("{}: {}, {:.0f} MB", who, pace(s), s.memory_mb);
  };
  report.note(words("Parley TCP", tcp));
  report.note(words("Parley iWARP", rdma));
  if (ns3) report.note(words("ns-3 TCP", other));
}

void Bench::roce() {
  report.section(
      "roce: one connection over 10 Gb/s and 10 us, packets of 1024 octets; packets over a link, per CPU second");
  const BulkWork ours = our_bulk(), theirs = their_bulk();
  const auto ns = [&] { return of_packets(ns3_datagrams(theirs)); };
  compare(
      "RoCEv2 Write with ICRC, ns-3: UDP", "packets/s", [&] { return of_packets(parley_sim_roce(ours, false)); }, ns,
      10);
  compare(
      "RoCEv2 Send with ICRC, ns-3: UDP", "packets/s", [&] { return of_packets(parley_sim_roce(ours, true)); }, ns, 10);
  const auto words = [](const char* who, const SimSample& s) {
    return fmt::format("{}: {:.0f} packets, {}", who, s.packets, pace(s));
  };
  report.note(words("Parley RoCEv2", parley_sim_roce(ours, false)));
  if (ns3) report.note(words("ns-3 UDP", ns3_datagrams(theirs)));
}

void Bench::short_connections() {
  report.section("short connections: TCP handshake, 36 octets each way, close; connections per CPU second");
  for (const std::uint32_t at_once : {1u, 64u, 1000u}) {
    const std::uint32_t ours = settings.quick ? 2'000 : 100'000, theirs = settings.quick   ? 200
                                                                          : at_once < 1000 ? 5'000
                                                                                           : 2'000;
    compare(
        fmt::format("TCP, {} at a time", at_once), "1/s",
        [&] { return of_connections(parley_sim_connections({.count = ours, .at_once = at_once})); },
        [&] { return of_connections(ns3_connections({.count = theirs, .at_once = at_once})); }, 20);
  }
  for (const std::uint32_t at_once : {1u, 64u}) {
    const std::uint32_t count = settings.quick ? 500 : 20'000;
    compare(
        fmt::format("MPA through cm and RNIC, {} at a time", at_once), "1/s",
        [&] { return of_connections(parley_sim_mpa({.count = count, .at_once = at_once})); },
        [&] { return of_connections(ns3_connections({.count = count / 4, .at_once = at_once})); }, 0);
  }
  const SimSample one = parley_sim_connections({.count = 1'000});
  report.note(fmt::format("Parley: {:.1f} packets a connection", one.packets / std::max(one.connections, 1.0)));
  if (!ns3) return;
  const SimSample other = ns3_connections({.count = 1'000});
  report.note(fmt::format("ns-3: {:.1f} packets a connection", other.packets / std::max(other.connections, 1.0)));
}

void Bench::alive() {
  report.section("what a connection costs while others are alive; CPU time of one, opened, used and closed");
  const std::uint32_t many = settings.quick ? 5'000 : 100'000, churn = settings.quick ? 2'000 : 50'000;
  for (const bool mpa : {false, true}) {
    const auto run = [&](std::uint32_t alive) {
      const ConnectionWork work{.count = alive + churn, .at_once = 16, .alive = alive};
      return of_connections(mpa ? parley_sim_mpa(work) : parley_sim_connections(work));
    };
    const auto samples =
        alternate({{"many", [&] { return run(many); }}, {"few", [&] { return run(100); }}}, settings.rounds);
    const double ratio = median_ratio(samples[1], samples[0], Reading::per_cpu_second);
    report.add({.what = fmt::format("{}, {} alive", mpa ? "MPA" : "TCP", many),
                .unit = "us",
                .figure = 1e6 / median_of(samples[0], Reading::per_cpu_second),
                .limit_name = "100 alive",
                .limit = 1e6 / median_of(samples[1], Reading::per_cpu_second),
                .ratio = ratio,
                .cpu_ratio = ratio,
                .goal_kind = Row::Goal::ratio_at_most,
                .goal = 2});
  }
}

/// A pattern at several sizes.
struct Growth {
  const char* name;
  sim::StormPattern pattern;
  sim::NicEngine engine;
};

/// As many storms as give `connections`, each in a process of its own: none finds the memory of another in the caches.
SimSample storms(const Growth& growth, std::uint32_t nodes, std::uint32_t connections) {
  SimSample all;
  while (all.connections < connections) {
    const SimSample one = in_child([&] {
      SimSample sample;
      const double before = cpu_now();
      const sim::StormReport storm =
          sim::run_storm({.nodes = nodes, .pattern = growth.pattern, .engine = growth.engine, .sample = 4});
      sample.cpu_s = cpu_now() - before;
      sample.connections = storm.violations.empty() ? static_cast<double>(storm.established) : 0;
      sample.events = static_cast<double>(storm.counters.events);
      return sample;
    });
    if (one.connections == 0) throw std::runtime_error("a storm has failed");
    all.cpu_s += one.cpu_s;
    all.connections += one.connections;
    all.events += one.events;
    all.memory_mb = std::max(all.memory_mb, one.memory_mb);
  }
  return all;
}

void Bench::growth() {
  report.section("growth: storms of ever more nodes; CPU time of one connection, the building of the world included");
  const std::vector<std::uint32_t> sizes =
      settings.quick ? std::vector<std::uint32_t>{20, 100} : std::vector<std::uint32_t>{100, 1'000, 4'000, 10'000};
  using sim::StormPattern, sim::NicEngine;
  for (const Growth& growth : {Growth{"ring, MPA", StormPattern::ring, NicEngine::iwarp},
                               Growth{"incast, MPA", StormPattern::incast, NicEngine::iwarp},
                               Growth{"all to all sampled, MPA", StormPattern::alltoall, NicEngine::iwarp},
                               Growth{"ring, RoCE", StormPattern::ring, NicEngine::roce},
                               Growth{"incast, RoCE", StormPattern::incast, NicEngine::roce},
                               Growth{"all to all sampled, RoCE", StormPattern::alltoall, NicEngine::roce}}) {
    double first = 0, empty_mb = 0;
    for (const std::uint32_t nodes : sizes) {
      const SimSample s = storms(growth, nodes, settings.quick ? 100 : 10'000);
      const double each = s.cpu_s * 1e6 / std::max(s.connections, 1.0);
      if (first == 0) {
        first = each;
        empty_mb = in_child([] { return SimSample{}; }).memory_mb;
      }
      report.add({.what = fmt::format("{}, {} nodes", growth.name, nodes),
                  .unit = "us",
                  .figure = each,
                  .limit_name = fmt::format("{} nodes", sizes.front()),
                  .limit = first,
                  .ratio = each / first,
                  .cpu_ratio = each / first,
                  .goal_kind = Row::Goal::ratio_at_most,
                  .goal = 1.2});
      report.note(fmt::format("{}, {} nodes: {:.1f} events a connection, {:.1f} KB of memory a node, {:.0f} MB in all",
                              growth.name, nodes, s.events / std::max(s.connections, 1.0),
                              (s.memory_mb - empty_mb) * 1024 / nodes, s.memory_mb));
    }
  }
}

void Bench::storm() {
  report.section("storm: every node connects to every other through one switch, MPA; CPU time of one connection");
  for (const std::uint32_t nodes :
       settings.quick ? std::vector<std::uint32_t>{20} : std::vector<std::uint32_t>{100, 1000}) {
    double wanted = 0, packets = 0, failed = 0;
    const SimSample s = in_child([&] {
      SimSample sample;
      const double before = cpu_now();
      const sim::StormReport storm = sim::run_storm({.nodes = nodes});
      sample.cpu_s = cpu_now() - before;
      sample.connections = static_cast<double>(storm.established);
      sample.packets = static_cast<double>(storm.counters.packet_hops);
      sample.virtual_s = std::chrono::duration<double>(storm.virtual_time).count();
      sample.octets = static_cast<double>(storm.failed);
      sample.events = static_cast<double>(storm.wanted);
      return sample;
    });
    wanted = s.events, packets = s.packets, failed = s.octets;
    report.add({.what = fmt::format("{} nodes, {:.0f} connections", nodes, wanted),
                .unit = "us",
                .figure = s.cpu_s * 1e6 / std::max(s.connections, 1.0)});
    report.note(
        fmt::format("{} nodes: {:.0f} of {:.0f} established, {:.0f} failed, {:.1f} s of CPU, {:.3f} s of virtual time, "
                    "{:.1f} packets over links and {:.2f} KB a connection, {:.0f} MB in all",
                    nodes, s.connections, wanted, failed, s.cpu_s, s.virtual_s, packets / std::max(s.connections, 1.0),
                    s.memory_mb * 1024 / std::max(s.connections, 1.0), s.memory_mb));
  }
}

int run(int argc, char** argv) {
  const auto settings = parse_settings(
      argc, argv, "sim_bench: the simulator beside ns-3; groups bulk, roce, short, alive, storm, growth");
  if (!settings) return 2;
  Bench bench(*settings);
  const std::string missing = ns3_missing();
  bench.ns3 = missing.empty();
  if (!bench.ns3) bench.report.note("ns-3 is left out: " + missing);
  if (settings->wants("bulk")) bench.bulk();
  if (settings->wants("roce")) bench.roce();
  if (settings->wants("short")) bench.short_connections();
  if (settings->wants("alive")) bench.alive();
  if (settings->wants("storm")) bench.storm();
  if (settings->wants("growth")) bench.growth();
  return bench.report.finish();
}

}  // namespace
}  // namespace parley::bench

int main(int argc, char** argv) { return parley::bench::guarded("sim_bench", parley::bench::run, argc, argv); }
