// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Whole reports of small storms of every kind, and the plan and the quantiles of storms, beside
// tests/states/sim_storms.txt.
#include <gtest/gtest.h>

#include "reports_kit.hpp"
#include "sim/run/storm_histogram.hpp"
#include "sim/run/storm_plan.hpp"
#include "tests/unit/reviewed.hpp"

namespace parley::sim::test {
namespace {

using namespace std::chrono_literals;

std::string storm_text(const StormReport& r) {
  const WorldCounters& c = r.counters;
  std::string out = fmt::format("  wanted {} established {} failed {} retried {} alive at most {}, {}\n", r.wanted,
                                r.established, r.failed, r.retried, r.alive_peak, seconds(r.virtual_time));
  out += fmt::format("  events {} hops {} dropped {} pending {} in flight {} peak {}\n", c.events, c.packet_hops,
                     c.dropped, c.events_pending, c.frames_in_flight, c.frames_peak);
  for (const auto& [step, quantiles] : r.steps) {
    out += fmt::format("  {}", pad(step, 12));
    for (const Duration q : quantiles) out += fmt::format(" {}", q.count());
    out += "\n";
  }
  for (const Violation& v : r.violations)
    out += fmt::format("  ! {} {} {}: {}\n", v.checker, seconds(v.at.time_since_epoch()), v.connection, v.text);
  return out;
}

struct StormCase {
  std::string_view name;
  void (*change)(StormOptions&);
};
constexpr StormCase storms[] = {
    {"all to all", [](StormOptions&) {}},
    {"ring", [](StormOptions& o) { o.pattern = StormPattern::ring; }},
    {"incast", [](StormOptions& o) { o.pattern = StormPattern::incast; }},
    {"incast, one at a time", [](StormOptions& o) { o.pattern = StormPattern::incast, o.in_setup = 1; }},
    {"three processes each", [](StormOptions& o) { o.nodes = 3, o.ppn = 3; }},
    {"kept open", [](StormOptions& o) { o.keep_open = true; }},
    {"an RTR by Read", [](StormOptions& o) { o.mpa.rtr = mpa::Rtr::read; }},
    {"revision 1, Rtr frame", [](StormOptions& o) { o.mpa.revision = 1, o.mpa.rtr = mpa::Rtr::frame; }},
    {"5 % lost",
     [](StormOptions& o) {
       o.loss = {1, 20};
     }},
    {"30 % lost",
     [](StormOptions& o) {
       o.loss = {3, 10}, o.nodes = 3;
     }},
    {"everything lost",
     [](StormOptions& o) {
       o.loss = {1, 1}, o.nodes = 2, o.ppn = 1;
     }},
    {"slow links", [](StormOptions& o) { o.link.rate_bps = 10'000'000, o.link.delay = 1ms; }},
    {"a short queue", [](StormOptions& o) { o.link.rate_bps = 1'000'000, o.link.queue_octets = 1514; }},
    {"an MTU of 576", [](StormOptions& o) { o.link.mtu = 576; }},
    {"the initiator gives up", [](StormOptions& o) { o.nodes = 2, o.link.delay = 1ms, o.mpa.timeouts.reply = 3ms; }},
    {"another seed",
     [](StormOptions& o) {
       o.loss = {1, 20}, o.seed = 2;
     }},
    {"neighbours known", [](StormOptions& o) { o.neighbours = Neighbours::known; }},
    {"neighbours known, 5 % lost",
     [](StormOptions& o) {
       o.neighbours = Neighbours::known, o.loss = {1, 20};
     }},
    {"two nodes, one process", [](StormOptions& o) { o.nodes = 2, o.ppn = 1; }},
    {"one node", [](StormOptions& o) { o.nodes = 1; }},
    {"no process", [](StormOptions& o) { o.ppn = 0; }},
    {"none in set-up", [](StormOptions& o) { o.in_setup = 0; }},
    {"a link that cannot be", [](StormOptions& o) { o.link.mtu = 100; }},
    {"options that contradict each other",
     [](StormOptions& o) { o.nodes = 2, o.ppn = 1, o.mpa.rtr = mpa::Rtr::frame; }},
};

std::string plans() {
  std::string out = "\nWho connects to whom\n";
  constexpr std::pair<StormPattern, std::string_view> patterns[] = {
      {StormPattern::alltoall, "all to all"}, {StormPattern::ring, "ring"}, {StormPattern::incast, "incast"}};
  for (const auto& [pattern, name] : patterns)
    for (const auto& [nodes, ppn] : {std::pair(2U, 1U), {3U, 1U}, {4U, 1U}, {2U, 2U}, {3U, 2U}, {2U, 3U}, {5U, 2U}}) {
      StormOptions options;
      options.nodes = nodes;
      options.ppn = ppn;
      options.pattern = pattern;
      const StormPlan plan(options);
      out += fmt::format("  {} {} x {}, {}:", name, nodes, ppn, plan.wanted());
      for (std::uint32_t p = 0; p < plan.processes(); ++p) {
        std::uint32_t cursor = 0;
        while (const auto target = plan.next(p, cursor)) out += fmt::format(" {}>{}", p, *target);
      }
      out += "\n";
    }
  return out;
}

std::string quantiles() {
  std::string out = "\nQuantiles 0, 50, 90, 99, 100 and 1, 25 %\n";
  const auto line = [&out](std::string_view name, const DurationHistogram& h) {
    out += fmt::format("  {}: {};", name, h.count());
    for (const Duration d : h.summary()) out += fmt::format(" {}", d.count());
    out += fmt::format("; {} {}\n", h.quantile(1).count(), h.quantile(25).count());
  };
  for (const std::int64_t one :
       {0LL, 1LL, 1023LL, 1024LL, 2047LL, 2048LL, 2049LL, 4095LL, 4097LL, 1'000'001LL, 86'400'000'000'007LL}) {
    DurationHistogram h;
    h.add(Duration(one));
    line(fmt::format("{} alone", one), h);
    h.add(Duration(one + 5));
    h.add(Duration(3 * one));
    line("and two more", h);
  }
  DurationHistogram many, negative;
  for (int i = 1; i <= 1000; ++i) many.add(Duration(i * 997));
  line("1000 times 997", many);
  negative.add(Duration(-5));
  line("a negative one", negative);
  return out;
}

TEST(SimStormReport, IsAsReviewed) {
  std::string out = "# Storms of 4 nodes with 2 processes unless said; steps in ns: quantiles 0, 50, 90, 99, 100 %.\n";
  for (const StormCase& storm : storms) {
    StormOptions options;
    options.nodes = 4;
    options.ppn = 2;
    options.neighbours = Neighbours::discovered;
    storm.change(options);
    out += fmt::format("\n{}\n{}", storm.name, storm_text(run_storm(options)));
  }
  expect_as_reviewed("sim_storms.txt", out + plans() + quantiles());
}

}  // namespace
}  // namespace parley::sim::test
