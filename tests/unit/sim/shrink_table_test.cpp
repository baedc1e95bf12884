// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Every step of shrinking a scenario with something of everything, for failures that hang on different parts of it,
// beside tests/states/sim_shrunk.txt: how many tries each step took, its words, and the file that is left.
#include <gtest/gtest.h>

#include <algorithm>

#include "base/fnv1a.hpp"
#include "base/rng.hpp"
#include "reports_kit.hpp"
#include "sim/scenario/scenario.hpp"
#include "tests/unit/reviewed.hpp"

namespace parley::sim::test {
namespace {

constexpr std::string_view full_scenario = R"(
name = "full"
[bounds]
time = "31s"
frames = 999
[[host]]
name = "a"
tcp = { rto_min = "10ms", timestamps = false }
rnic = { linger = "1.5s" }
ring = 99
[[host]]
name = "b"
learn_announcements = true
[[host]]
name = "c"
[[host]]
name = "idle"
[[switch]]
name = "s"
[[switch]]
name = "t"
[[link]]
ends = ["a", "s"]
delay = "123us"
mtu = 1400
[[link]]
name = "trunk"
ends = ["s", "t"]
rate = "2Gbps"
mtu = 1400
[[link]]
ends = ["b", "t"]
mtu = 1400
[[link]]
ends = ["t", "c"]
mtu = 1400
[[link]]
ends = ["idle", "t"]
mtu = 1400
[[listen]]
host = "b"
accept_after = "3456us"
pending_max = 77
[[listen]]
host = "c"
port = 99
[listen.mpa]
ird_max = 9
[[listen]]
host = "idle"
[[connect]]
from = "a"
to = "b"
count = 7
interval = "1234us"
messages = 13
octets = 5000
retries = 3
close = "both"
close_after = "77ms"
at = "987us"
[connect.mpa]
rtr = "write"
[[connect]]
from = "a"
to = "c"
port = 99
transfer = "read"
private_data = 100
[connect.mpa]
rtr = "read"
reply_timeout = "9s"
[[connect]]
from = "c"
to = "b"
expect = "settled"
[[fault]]
action = "drop"
link = "a-s"
mask = 0b110101
until = "1234ms"
[[fault]]
action = "delay"
link = "trunk"
to = "t"
chance = "25%"
nth = 3
times = 4
delay = "3456us"
jitter = "17us"
from = "12345us"
[[fault]]
action = "duplicate"
link = "b-t"
to = "b"
count = 5
match = "tcp_data"
[[fault]]
action = "corrupt"
link = "t-c"
count = 9
until = "3s"
[[fault]]
action = "set_rate"
link = "trunk"
rate = "1Mbps"
at = "1500ms"
[[fault]]
action = "crash"
host = "c"
at = "2222ms"
[[fault]]
action = "restart"
host = "c"
at = "3333ms"
)";

bool has_action(const Scenario& s, FaultAction action) {
  return std::any_of(s.faults.begin(), s.faults.end(), [=](const ScenarioFault& f) { return f.rule.action == action; });
}
template <FaultAction action>
bool needs(const Scenario& s) {
  return has_action(s, action);
}

struct Failure {
  std::string_view name;
  bool (*fails)(const Scenario&);
};
constexpr Failure failures[] = {
    {"always", [](const Scenario&) { return true; }},
    {"never again", [](const Scenario&) { return false; }},
    {"with a lost frame", needs<FaultAction::drop>},
    {"with a delay", needs<FaultAction::delay>},
    {"with copies", needs<FaultAction::duplicate>},
    {"with flipped bits", needs<FaultAction::corrupt>},
    {"with another rate", needs<FaultAction::set_rate>},
    {"with a crash and its restart",
     [](const Scenario& s) { return has_action(s, FaultAction::crash) && has_action(s, FaultAction::restart); }},
    {"with bits 2 and 5 of a mask",
     [](const Scenario& s) {
       return !s.faults.empty() && s.faults[0].rule.mask && (*s.faults[0].rule.mask & 36) == 36;
     }},
    {"with a switch",
     [](const Scenario& s) {
       return std::any_of(s.hosts.begin(), s.hosts.end(), [](const ScenarioHost& h) { return h.is_switch; });
     }},
    {"with a link called trunk",
     [](const Scenario& s) {
       return std::any_of(s.links.begin(), s.links.end(), [](const ScenarioLink& l) { return l.name == "trunk"; });
     }},
    {"with three listeners", [](const Scenario& s) { return s.listens.size() == 3; }},
    {"with two connections to b",
     [](const Scenario& s) {
       return std::count_if(s.connects.begin(), s.connects.end(),
                            [](const ScenarioConnect& c) { return c.to == "b"; }) == 2;
     }},
    {"with five connections, three messages and 300 octets",
     [](const Scenario& s) {
       return s.connects[0].count >= 5 && s.connects[0].messages >= 3 && s.connects[0].octets >= 300;
     }},
    {"with two retries and an interval",
     [](const Scenario& s) { return s.connects[0].retries >= 2 && s.connects[0].interval.count() > 0; }},
    {"with a Read", [](const Scenario& s) { return s.connects.back().transfer == Transfer::read; }},
    {"with a delay that is not round and a third frame",
     [](const Scenario& s) {
       return std::any_of(s.faults.begin(), s.faults.end(), [](const ScenarioFault& f) {
         return f.rule.delay > std::chrono::microseconds(3200) && f.rule.match.nth >= 2 && f.rule.match.times >= 2;
       });
     }},
    {"with four hosts and switches", [](const Scenario& s) { return s.hosts.size() >= 4; }},
    {"with a host that keeps its timestamps off", [](const Scenario& s) { return !s.hosts[0].options.tcp.timestamps; }},
    {"with an accept_after and a close_after",
     [](const Scenario& s) { return s.listens[0].accept_after.count() > 0 && s.connects[0].close_after.count() > 0; }},
};

std::string shrunk_text(const Scenario& from, const std::function<bool(const Scenario&)>& fails,
                        std::uint32_t tries_max) {
  std::string out;
  const Scenario least = shrink(from, fails, tries_max, [&](const ShrinkStep& step) {
    out += fmt::format("{}{} {}", out.empty() ? "  " : "; ", step.tries, step.what);
  });
  std::string toml = to_toml(least);
  EXPECT_TRUE(check_scenario(least).empty());
  for (std::size_t at = toml.find('\n'); at != std::string::npos; at = toml.find('\n', at + 1))
    toml.replace(at, 1, " | ");
  return out + "\n  " + toml + "\n";
}

TEST(SimShrinkTable, EveryStepIsAsReviewed) {
  const auto full = parse_scenario(full_scenario, "full.toml");
  ASSERT_TRUE(full) << full.error().front().to_string();
  std::string out = "# What is taken away: the number of the try, and its words. Then the scenario that is left.\n";
  for (const Failure& failure : failures)
    out += fmt::format("\n{}\n{}", failure.name, shrunk_text(*full, failure.fails, 10000));
  for (const std::uint32_t tries : {0U, 1U, 7U, 40U})
    out += fmt::format("\nalways, at most {} tries\n{}", tries, shrunk_text(*full, failures[0].fails, tries));
  expect_as_reviewed("sim_shrunk.txt", out);
}

TEST(SimShrinkTable, DrawnScenariosShrinkAsTheyDid) {
  const auto full = parse_scenario(full_scenario, "full.toml");
  ASSERT_TRUE(full);
  std::string out =
      "# Drawn scenarios and failures: steps, tries of the last, the sum of all tries, octets of words and of the file "
      "that is left.\n";
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    std::uint64_t steps = 0, tries = 0, all = 0, words = 0;
    const Scenario least = shrink(
        draw_swarm(*full, seed),
        [seed](const Scenario& s) {  // fails for three in four, whichever they are
          const std::string toml = to_toml(s);
          return fnv1a({reinterpret_cast<const std::uint8_t*>(toml.data()), toml.size()}, seed) % 4 != 0;
        },
        2000,
        [&](const ShrinkStep& step) { ++steps, tries = step.tries, all += step.tries, words += step.what.size(); });
    EXPECT_TRUE(check_scenario(least).empty());
    out += fmt::format("{}: {} {} {} {} {}\n", seed, steps, tries, all, words, to_toml(least).size());
  }
  expect_as_reviewed("sim_shrunk_drawn.txt", out);
}

}  // namespace
}  // namespace parley::sim::test
