// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Storms and scenarios of many hosts: what a connection costs in events and frames does not depend on the number of
// hosts. PARLEY_SIM_HOSTS has the number; ./dev stress runs 10,000.
#include <gtest/gtest.h>

#include <cstdlib>

#include "run_kit.hpp"

namespace parley::sim::scale_test {
namespace {

std::uint32_t hosts() {
  const char* number = std::getenv("PARLEY_SIM_HOSTS");
  return number == nullptr ? 300 : static_cast<std::uint32_t>(std::strtoul(number, nullptr, 10));
}

std::string troubles(const StormReport& report) {
  std::string out;
  for (const Violation& v : report.violations) out += v.connection + ": " + v.text + "\n";
  return out;
}

/// Events of one connection.
double events_each(StormPattern pattern, NicEngine engine, std::uint32_t nodes) {
  StormOptions options;
  options.nodes = nodes;
  options.pattern = pattern;
  options.engine = engine;
  options.sample = 4;
  const StormReport report = run_storm(options);
  EXPECT_EQ(report.established, report.wanted) << troubles(report);
  EXPECT_TRUE(report.violations.empty()) << troubles(report);
  EXPECT_LE(report.counters.frames_peak, 40U * nodes);
  return static_cast<double>(report.counters.events) / static_cast<double>(report.wanted);
}

TEST(SimScale, AConnectionOfAStormCostsTheSameEventsAmongManyNodesAsAmongFew) {
  for (const StormPattern pattern : {StormPattern::ring, StormPattern::incast, StormPattern::alltoall})
    for (const NicEngine engine : {NicEngine::iwarp, NicEngine::roce})
      EXPECT_NEAR(events_each(pattern, engine, hosts()) / events_each(pattern, engine, 30), 1, 0.2)
          << static_cast<int>(pattern) << ' ' << to_string(engine);
}

TEST(SimScale, ScenariosOfManyHostsPassOnTheirDefaults) {
  for (const std::string_view engine : {"iwarp", "roce"})
    for (const std::string_view to : {"h", "h1"}) {
      const RunReport report = run_kit::run(
          fmt::format("neighbours = \"known\"\n[[host]]\nname = \"h\"\ncount = {}\nengine = \"{}\"\n"
                      "[[switch]]\nname = \"s\"\n[[link]]\nends = [\"h\", \"s\"]\nqueue = \"64MiB\"\n"
                      "[[listen]]\nhost = \"h\"\npending_max = 100000\n[[connect]]\nfrom = \"h\"\nto = \"{}\"\n",
                      hosts(), engine, to));
      EXPECT_TRUE(report.passed()) << run_kit::words(report);
      EXPECT_EQ(report.established, to == "h" ? hosts() : hosts() - 1);
    }
}

// Each host announces itself to all others: thousands of pending copies take few entries of the event queue.
TEST(SimScale, HostsThatAnnounceThemselvesPassOnTheirDefaults) {
  const RunReport report = run_kit::run(
      fmt::format("[[host]]\nname = \"h\"\ncount = {}\n[[switch]]\nname = \"s\"\n[[link]]\nends = [\"h\", \"s\"]\n"
                  "queue = \"16MiB\"\n[[listen]]\nhost = \"h\"\n[[connect]]\nfrom = \"h\"\nto = \"h\"\n",
                  std::min(hosts() / 10, 1000U)));
  EXPECT_TRUE(report.passed()) << run_kit::words(report);
}

}  // namespace
}  // namespace parley::sim::scale_test
