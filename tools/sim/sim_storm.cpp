// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// `parley sim storm`: many nodes that connect at once, and the cost of a connection.
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <memory>

#include <fmt/format.h>

#include "base/json_text.hpp"
#include "base/text.hpp"
#include "sim/run/storm_plan.hpp"
#include "sim/scenario/scenario_value.hpp"
#include "tools/progress.hpp"
#include "tools/provenance.hpp"
#include "tools/rping/session.hpp"
#include "tools/sim/sim.hpp"
#include "tools/sim/sim_report.hpp"

namespace parley::tools {

namespace {

/// A larger number would run for hours and exhaust memory. A million connections take minutes.
constexpr std::uint64_t connections_max = 20'000'000;

struct StormArgs {
  sim::StormOptions storm;
  std::optional<std::uint64_t> seed;
  std::string pattern = "alltoall", timers = "back-off", neighbours = "known";
  bool roce = false;
};

sim::StormPattern pattern_of(const std::string& word) {
  using sim::StormPattern;
  return word == "ring" ? StormPattern::ring : word == "incast" ? StormPattern::incast : StormPattern::alltoall;
}

std::uint64_t cpu_us() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto us = [](const timeval& t) {
    return static_cast<std::uint64_t>(t.tv_sec) * 1'000'000 + static_cast<std::uint64_t>(t.tv_usec);
  };
  return us(usage.ru_utime) + us(usage.ru_stime);
}

/// The steps of a set-up in chronological order, then any other steps of the report.
std::vector<std::string> in_order_of_time(const sim::StormReport& report) {
  std::vector<std::string> names;
  for (const char* name : {"transport", "request", "reply", "established"})
    if (report.steps.contains(name)) names.emplace_back(name);
  for (const auto& [name, quantiles] : report.steps)
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  return names;
}

/// Resident memory of the process in octets.
std::uint64_t resident_now() {
  std::ifstream file("/proc/self/statm");
  std::uint64_t size = 0, resident = 0;
  file >> size >> resident;
  return resident * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}
std::uint64_t resident_peak() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<std::uint64_t>(usage.ru_maxrss) * 1024;
}

struct Cost {
  std::uint64_t cpu_us = 0, octets = 0;
};

void print_result(const StormArgs& args, const sim::StormReport& report, const Cost& cost, Output& out) {
  const auto each = [](std::uint64_t total, std::uint64_t n) {
    return n == 0 ? 0.0 : static_cast<double>(total) / static_cast<double>(n);
  };
  print_provenance(out, provenance(out));
  out.text(fmt::format("{}{}: {} nodes, {} process{} on each, {} connections wanted, seed {}", args.pattern,
                       args.roce ? " over RoCE, timers: " + args.timers : "", args.storm.nodes, args.storm.ppn,
                       args.storm.ppn == 1 ? "" : "es", report.wanted, seed_text(args.storm.seed)));
  out.text(fmt::format("{} established, {} failed, {} tried again; {} of virtual time, at most {} alive at once",
                       report.established, report.failed, report.retried, precise_duration_text(report.virtual_time),
                       report.alive_peak));
  Json steps = Json::object();
  out.text(fmt::format("\n{:<14}{:>14}{:>14}{:>14}{:>14}{:>14}", "step", "least", "median", "90 %", "99 %", "most"));
  for (const std::string& step : in_order_of_time(report)) {
    std::string line = fmt::format("{:<14}", step);
    for (const Duration quantile : report.steps.at(step)) {
      line += fmt::format("{:>14}", precise_duration_text(quantile));
      steps[step].push_back(in_microseconds(quantile));
    }
    out.text(line);
  }
  const double cpu_each = each(cost.cpu_us, report.established);
  const double hops_each = each(report.counters.packet_hops, report.established);
  const double octets_each = each(cost.octets, report.alive_peak);
  out.text(
      fmt::format("\nper connection: {:.1f} us of CPU, {:.1f} packet-hops; {:.0f} octets of memory for each one alive",
                  cpu_each, hops_each, octets_each));
  out.text(
      fmt::format("in all: {:.1f} s of CPU, {} events, {} packet-hops ({} lost), {:.0f} packet-hops per CPU second",
                  static_cast<double>(cost.cpu_us) / 1e6, report.counters.events, report.counters.packet_hops,
                  report.counters.dropped, each(report.counters.packet_hops, cost.cpu_us) * 1e6));
  if (args.roce) out.text(fmt::format("{} of the CM sent again", counted(report.cm_resent, "message")));
  Json object{{"event", "storm"},
              {"pattern", args.pattern},
              {"engine", to_string(args.storm.engine)},
              {"nodes", args.storm.nodes},
              {"ppn", args.storm.ppn},
              {"sample", args.storm.sample},
              {"neighbours", to_string(args.storm.neighbours)},
              {"seed", seed_text(args.storm.seed)},
              {"wanted", report.wanted},
              {"established", report.established},
              {"failed", report.failed},
              {"retried", report.retried},
              {"alive_peak", report.alive_peak},
              {"virtual_us", in_microseconds(report.virtual_time)},
              {"steps_us", std::move(steps)},
              {"events", report.counters.events},
              {"packet_hops", report.counters.packet_hops},
              {"frames_dropped", report.counters.dropped},
              {"cpu_us", cost.cpu_us},
              {"cpu_us_per_connection", cpu_each},
              {"octets_per_connection_alive", octets_each}};
  if (args.roce) object["cm_resent"] = report.cm_resent;
  object["violations"] = Json::array();
  for (const sim::Violation& v : report.violations) {
    object["violations"].push_back({{"checker", v.checker}, {"connection", v.connection}, {"text", v.text}});
    out.text(fmt::format("  {} at {}, {}: {}", v.checker, precise_duration_text(v.at.time_since_epoch()), v.connection,
                         v.text));
  }
  object["report"] = report_json(provenance(out));
  out.object(object);
}

int run_storm_command(StormArgs& args, Output& out) {
  args.storm.seed = args.seed.value_or(args.storm.seed);
  const StopSignals signals;
  Progress progress(out, "connections", sim::StormPlan(args.storm).wanted());
  const std::uint64_t memory_before = resident_now(), cpu_before = cpu_us();
  std::uint64_t done_last = 0;
  const sim::StormReport report = sim::run_storm(args.storm, [&](std::uint64_t done) {
    progress.update(done_last = done);
    return !StopSignals::requested();
  });
  progress.clear();
  const std::uint64_t peak = resident_peak();
  const Cost cost{cpu_us() - cpu_before, peak > memory_before ? peak - memory_before : 0};
  print_result(args, report, cost, out);
  if (StopSignals::requested() && report.established + report.failed < report.wanted)
    return out.error(Exit::failed, fmt::format("interrupted after {} of {} connections", done_last, report.wanted));
  if (!report.violations.empty() || report.established != report.wanted)
    return out.error(Exit::failed,
                     fmt::format("{} of {} connections were not established, {} violations",
                                 report.wanted - report.established, report.wanted, report.violations.size()));
  return code(Exit::ok);
}

}  // namespace

void add_sim_storm(Command sim, Context& context) {
  auto args = std::make_shared<StormArgs>();
  Command sub = sim.subcommand("storm", "Many nodes connect at once: times per step, cost per connection");
  sub.option("-n,--nodes", args->storm.nodes, "Hosts").range(2u, 10'000u).shows_default();
  sub.option("--ppn", args->storm.ppn, "Processes per node, each with connections of its own")
      .range(1u, 256u)
      .shows_default();
  sub.option("--pattern", args->pattern, "Who connects to whom").one_of({"alltoall", "ring", "incast"}).shows_default();
  sub.option("--sample", args->storm.sample,
             "With alltoall: to how many others each process connects, evenly spread over all; 0: to all")
      .shows_default();
  sub.option("--neighbours", args->neighbours,
             "Whether hosts know each other's MAC addresses from the start, or ask and announce (ARP)")
      .one_of({"known", "discovered"})
      .shows_default();
  sub.flag("--roce", args->roce, "RoCE HCAs in place of iWARP NICs");
  sub.option("--timers", args->timers,
             "With --roce: when messages of the CM are sent again. spec: always after IBA's 4.3 s")
      .one_of({"back-off", "spec"})
      .shows_default();
  sub.option("--in-setup", args->storm.in_setup, "Connections that one process sets up at once")
      .range(1u, 65'536u)
      .shows_default();
  sub.option(
         "--loss",
         [args](const std::string& text) {
           const auto ratio = sim::parse_ratio(text);
           if (!ratio) return fmt::format("'{}' is not a ratio from 0 to 1; write 0.01%, 1/10000 or 0.0001", text);
           args->storm.loss = *ratio;
           return std::string();
         },
         "Share of frames lost on each link: 0.01%, 1/10000, 0.0001")
      .type("RATIO")
      .shows_default("0");
  sub.flag("--keep-open", args->storm.keep_open, "Leave every connection open until the last is up");
  add_seed(sub, "--seed", args->seed, "Seed of the losses; decimal or 0x hexadecimal");
  add_color_option(sub, context);
  add_json_flag(sub, context);
  sub.footer(
      "Exit code: 0 every connection was established, 1 some were not or a rule was broken, 2 usage.\n\n"
      "Examples:\n"
      "  parley sim storm --nodes 16 --pattern alltoall\n"
      "  parley sim storm --nodes 64 --ppn 4 --pattern incast --loss 0.01%\n"
      "  parley sim storm --nodes 1000 --pattern incast --roce --timers spec --loss 1%\n"
      "  parley sim storm --nodes 1000 --pattern alltoall --json");
  sub.run([args, &context] { return run_storm_command(*args, context.out); },
          [args] {
            if (const std::string why = refuse_ranks(); !why.empty()) return why;
            if (!args->roce && args->timers != "back-off")
              return std::string("--timers: only HCAs have these; give --roce too");
            args->storm.engine = args->roce ? sim::NicEngine::roce : sim::NicEngine::iwarp;
            args->storm.hca.spec_timers = args->timers == "spec";
            args->storm.pattern = pattern_of(args->pattern);
            if (args->storm.sample != 0 && args->pattern != "alltoall")
              return std::string("--sample: only alltoall has targets to choose from");
            args->storm.neighbours = args->neighbours == "known" ? sim::Neighbours::known : sim::Neighbours::discovered;
            const std::uint64_t wanted = sim::StormPlan(args->storm).wanted();
            return wanted <= connections_max ? std::string()
                                             : fmt::format(
                                                   "--nodes: {} connections would be wanted; {} are the most: lower "
                                                   "--nodes, or give --sample with alltoall",
                                                   wanted, connections_max);
          });
}

}  // namespace parley::tools
