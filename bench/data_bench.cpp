// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Data over loopback TCP through nic/iwarp: RDMA Write, Send and RDMA Read with and without CRC, and the round trip of
// a small Send. The limit is raw TCP that sends the same chunks with the same congestion control. With CRC it also
// computes the CRC of both sides and copies once.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "bench/harness.hpp"
#include "bench/parley_peer.hpp"
#include "bench/raw_epoll.hpp"

namespace parley::bench {
namespace {

constexpr double goal_with_crc = 0.9, goal_without_crc = 0.95;
constexpr double goal_round_trip_us = 0.5;

std::string size_text(std::size_t size) {
  return size >= (1 << 20) ? fmt::format("{} MiB", size >> 20) : fmt::format("{} KiB", size >> 10);
}

/// Octets that raw TCP transfers in the time of one segment.
std::uint64_t calibrated(BulkOptions options, double seconds) {
  options.total = 64 << 20;
  const double rate = std::max(raw_bulk(options).per_second(), 1e8);
  const auto chunks = static_cast<std::uint64_t>(rate * seconds / static_cast<double>(options.chunk)) + 1;
  return chunks * options.chunk;
}

void bulk(const Settings& settings, Report& report, Threads threads, std::size_t chunk) {
  const bool one = threads == Threads::one;
  report.section(fmt::format("Octets per second, {} messages, both ends on {}", size_text(chunk),
                             one ? "one thread" : "two threads of two CPUs"));
  BulkOptions options{.chunk = chunk, .total = 0, .congestion = settings.congestion, .threads = threads};
  options.total = calibrated(options, settings.seconds);

  struct Work {
    const char* name;
    Operation operation;
    bool crc;
  };
  const Work works[] = {{"RDMA Write, CRC", Operation::write, true}, {"RDMA Write, no CRC", Operation::write, false},
                        {"Send, CRC", Operation::send, true},        {"Send, no CRC", Operation::send, false},
                        {"RDMA Read, CRC", Operation::read, true},   {"RDMA Read, no CRC", Operation::read, false}};
  // With CRC the limit also does what the RFC requires: the CRC of both ends and a copy.
  BulkOptions with_crc = options;
  with_crc.crc = true;
  std::vector<Contender> contenders{{"raw", [&] { return raw_bulk(options); }},
                                    {"raw, CRC", [&] { return raw_bulk(with_crc); }}};
  for (const auto& work : works) {
    contenders.push_back({work.name, [&options, work] { return parley_bulk(options, work.operation, work.crc); }});
  }
  const auto samples = alternate(contenders, settings.rounds);
  for (std::size_t i = 0; i < std::size(works); ++i) {
    const auto& figures = samples[i + 2];
    const auto& limits = samples[works[i].crc ? 1 : 0];
    Row row{.what = works[i].name,
            .unit = "B/s",
            .figure = median_of(figures, Reading::per_second),
            .limit_name = works[i].crc ? "raw, CRC" : "raw TCP",
            .limit = median_of(limits, Reading::per_second),
            .ratio = median_ratio(figures, limits, Reading::per_second),
            .goal_kind = Row::Goal::ratio_at_least,
            .goal = works[i].crc ? goal_with_crc : goal_without_crc};
    // On two CPUs the slower end decides, which the sum of both ends' CPU time does not show.
    if (one) row.cpu_ratio = median_ratio(figures, limits, Reading::per_cpu_second);
    report.add(row);
  }
}

void round_trip(const Settings& settings, Report& report, Threads threads) {
  report.section(fmt::format("Round trip of 64 octets, both ends polling on {}",
                             threads == Threads::one ? "one thread" : "two threads of two CPUs"));
  const PingPongOptions options{.size = 64,
                                .round_trips = std::max(200L, static_cast<long>(settings.seconds / 15e-6)),
                                .congestion = settings.congestion,
                                .threads = threads};
  const auto samples = alternate({{"raw", [&] { return raw_ping_pong(options); }},
                                  {"CRC", [&] { return parley_ping_pong(options, true); }},
                                  {"no CRC", [&] { return parley_ping_pong(options, false); }}},
                                 settings.rounds);
  for (std::size_t i = 1; i < samples.size(); ++i) {
    report.add({.what = i == 1 ? "Send and answer, CRC" : "Send and answer, no CRC",
                .unit = "us",
                .figure = median_of(samples[i], Reading::median_us),
                .limit_name = "raw TCP",
                .limit = median_of(samples[0], Reading::median_us),
                .ratio = median_ratio(samples[i], samples[0], Reading::median_us),
                .goal_kind = Row::Goal::difference_at_most,
                .goal = goal_round_trip_us,
                .difference = median_difference(samples[i], samples[0], Reading::median_us)});
  }
}

int run(int argc, char** argv) {
  auto settings =
      parse_settings(argc, argv,
                     "data_bench: RDMA over loopback TCP beside raw TCP\n"
                     "groups: one thread bulk, two threads bulk, one thread round trip, two threads round trip");
  if (!settings) return 2;
  // Both sides of a comparison must use the same congestion control, independent of the machine's default.
  if (settings->congestion.empty()) settings->congestion = preferred_congestion();
  pin_to_cpu(0);
  raise_open_files();
  Report report("data_bench", *settings);
  for (const Threads threads : {Threads::one, Threads::two}) {
    const std::string group = threads == Threads::one ? "one thread" : "two threads";
    if (settings->wants(group + " bulk")) {
      for (const std::size_t chunk : {16UL << 10, 64UL << 10, 1UL << 20}) bulk(*settings, report, threads, chunk);
    }
    if (settings->wants(group + " round trip")) round_trip(*settings, report, threads);
  }
  return report.finish();
}

}  // namespace
}  // namespace parley::bench

int main(int argc, char** argv) { return parley::bench::guarded("data_bench", parley::bench::run, argc, argv); }
