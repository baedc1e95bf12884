// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Drawn scenarios: valid, the same from the same seed, round in files, varied, and bounded.
#include <gtest/gtest.h>

#include <map>
#include <set>

#include <fmt/format.h>

#include "base/fnv1a.hpp"
#include "scenario_kit.hpp"
#include "sim/scenario/scenario.hpp"

namespace parley::sim {
namespace {

using namespace std::chrono_literals;

constexpr std::string_view base_text = R"(
name = "base"
[[host]]
name = "a"
[[host]]
name = "b"
[[host]]
name = "c"
[[switch]]
name = "s"
[[link]]
ends = ["a", "s"]
[[link]]
ends = ["b", "s"]
[[link]]
ends = ["s", "c"]
[[listen]]
host = "b"
[[listen]]
host = "c"
port = 99
[[connect]]
from = "a"
to = "b"
[[connect]]
from = "a"
to = "c"
port = 99
transfer = "read"
[connect.mpa]
rtr = "read"
)";

Scenario base() {
  const auto read = parse_scenario(base_text, "base.toml");
  EXPECT_TRUE(read) << read.error().front().to_string();
  return read ? *read : Scenario{};
}

TEST(SimSwarm, DrawsOnlyScenariosThatTheChecksPass) {
  const Scenario from = base();
  for (std::uint64_t seed = 0; seed < 3000; ++seed) {
    const Scenario drawn = draw_swarm(from, seed);
    const auto errors = check_scenario(drawn);
    ASSERT_TRUE(errors.empty()) << "seed " << seed << ": " << errors.front().to_string() << '\n' << to_toml(drawn);
  }
}

TEST(SimSwarm, DrawsTheSameFromTheSameSeedAndAnotherFromAnother) {
  const Scenario from = base();
  std::set<std::string> seen;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    std::vector<std::string> first, second;
    const std::string text = to_toml(draw_swarm(from, seed, &first));
    EXPECT_EQ(to_toml(draw_swarm(from, seed, &second)), text);
    EXPECT_EQ(first, second);
    seen.insert(text);
  }
  EXPECT_EQ(seen.size(), 200u);
}

TEST(SimSwarm, WritesAFileThatReadsBackToTheSame) {
  const Scenario from = base();
  for (std::uint64_t seed = 0; seed < 1000; ++seed) {
    const Scenario drawn = draw_swarm(from, seed);
    const std::string text = to_toml(drawn);
    const auto read = parse_scenario(text, "drawn.toml");
    ASSERT_TRUE(read) << read.error().front().to_string() << '\n' << text;
    ASSERT_EQ(to_toml(*read), text);
    expect_same(*read, drawn);
    ASSERT_FALSE(HasFailure()) << "seed " << seed << '\n' << text;
  }
}

// Whoever reports a seed has reported a scenario: what it draws is not to change unawares.
TEST(SimSwarm, ASeedThatWasReportedStillDrawsItsScenario) {
  Scenario cable = base();
  cable.hosts.pop_back();
  cable.links = {{.name = "a-b", .ends = {"a", "b"}}, {.name = "a-c", .ends = {"a", "c"}}};
  Scenario quirky = base();
  quirky.connects[0].mpa.peer_quirk = "siw";
  quirky.listens[0].mpa.play_quirk = "siw";
  const auto draws = [](const Scenario& from) {
    std::uint64_t hash = fnv1a_start;
    for (std::uint64_t seed = 0; seed < 1000; ++seed) {
      const std::string text = to_toml(draw_swarm(from, seed));
      hash = fnv1a({reinterpret_cast<const std::uint8_t*>(text.data()), text.size()}, hash);
    }
    return fmt::format("{:016x}", hash);
  };
  EXPECT_EQ(draws(base()), "65af5e43b0efa376");
  EXPECT_EQ(draws(cable), "0ea3ac0bb3baafd3");
  EXPECT_EQ(draws(quirky), "76cfd1f9ddd8a003");
}

TEST(SimSwarm, LeavesTopologyNamesAndKindOfWorkAlone) {
  const Scenario from = base();
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    const Scenario drawn = draw_swarm(from, seed);
    ASSERT_EQ(drawn.hosts.size(), 4u);
    ASSERT_EQ(drawn.links.size(), 3u);
    EXPECT_EQ(drawn.links[2].name, "s-c");
    ASSERT_EQ(drawn.connects.size(), 2u);
    EXPECT_EQ(drawn.connects[0].transfer, Transfer::send);
    EXPECT_EQ(drawn.connects[1].transfer, Transfer::read);
    EXPECT_EQ(drawn.connects[1].to, "c");
    EXPECT_EQ(drawn.links[0].options.mtu, drawn.links[1].options.mtu) << "behind a switch there is one MTU";
  }
}

TEST(SimSwarm, KeepsRunsSmall) {
  const Scenario from = base();
  for (std::uint64_t seed = 0; seed < 2000; ++seed) {
    std::uint64_t payload = 0, connections = 0;
    for (const ScenarioConnect& c : draw_swarm(from, seed).connects) {
      payload += std::uint64_t{c.count} * c.messages * c.octets;
      connections += c.count;
    }
    EXPECT_LE(payload, 512u << 10) << seed;
    EXPECT_LE(connections, 80u) << seed;
  }
}

TEST(SimSwarm, EveryQueueHoldsSomeFramesOfItsLink) {
  const Scenario from = base();
  for (std::uint64_t seed = 0; seed < 2000; ++seed)
    for (const ScenarioLink& link : draw_swarm(from, seed).links) {
      EXPECT_GE(link.options.queue_octets, 4U * (link.options.mtu + 14U)) << seed;
      EXPECT_LE(link.options.queue_octets, 1U << 20) << seed;
    }
}

TEST(SimSwarm, EveryFaultHeals) {
  const Scenario from = base();
  for (std::uint64_t seed = 0; seed < 2000; ++seed) {
    std::map<std::string, int> down, paused;
    const Scenario drawn = draw_swarm(from, seed);
    for (std::size_t i = 0; i < drawn.faults.size(); ++i) {
      const ScenarioFault& f = drawn.faults[i];
      const FaultRule& r = f.rule;
      if (r.action == FaultAction::crash || r.action == FaultAction::pause) {
        ASSERT_LT(i + 1, drawn.faults.size());
        const FaultRule& heal = drawn.faults[i + 1].rule;
        EXPECT_GT(heal.from.time_since_epoch() + heal.delay, r.from.time_since_epoch() + r.delay) << seed;
        EXPECT_EQ(heal.match, r.match);
      }
      switch (r.action) {
        case FaultAction::crash: ++down[f.host]; break;
        case FaultAction::restart: --down[f.host]; break;
        case FaultAction::pause: ++paused[f.host]; break;
        case FaultAction::resume: --paused[f.host]; break;
        case FaultAction::set_rate: EXPECT_GT(r.rate_bps, 0u); break;
        default: EXPECT_TRUE(r.until <= Instant(5s) || (r.match.times >= 1 && r.match.times <= 3)) << r.to_string();
      }
    }
    for (const auto& [host, n] : down) EXPECT_EQ(n, 0) << host << ", seed " << seed;
    for (const auto& [host, n] : paused) EXPECT_EQ(n, 0) << host << ", seed " << seed;
  }
}

TEST(SimSwarm, KeepsTheExpectationExactlyWhenNothingDrawnCanBreakIt) {
  const Scenario from = base();
  int kept = 0;
  for (std::uint64_t seed = 0; seed < 2000; ++seed) {
    const Scenario drawn = draw_swarm(from, seed);
    if (drawn.connects[0].expect == Expect::settled) continue;
    ++kept;
    EXPECT_EQ(drawn.connects[0].expect, Expect::established);
    for (const ScenarioFault& f : drawn.faults) {
      const FaultRule& r = f.rule;
      EXPECT_NE(r.action, FaultAction::crash) << seed;
      EXPECT_NE(r.action, FaultAction::reset) << seed;
      EXPECT_NE(r.action, FaultAction::cut_stream) << seed;
      EXPECT_NE(r.action, FaultAction::corrupt_mpa) << seed;
      EXPECT_TRUE(r.match.message == MessageKind::any || r.match.message >= MessageKind::tcp_syn) << seed;
      EXPECT_TRUE(r.until == never || r.until <= Instant(500ms)) << seed;
    }
  }
  EXPECT_GT(kept, 700);
  EXPECT_LT(kept, 1300);
}

constexpr std::string_view everything[] = {"revision 2 rtr none",
                                           "revision 2 rtr send",
                                           "revision 2 rtr write",
                                           "revision 2 rtr read",
                                           "revision 1 rtr none",
                                           "revision 1 rtr frame",
                                           "revision 1 rtr send",
                                           "revision 1 rtr write",
                                           "revision 1 rtr read",
                                           "markers",
                                           "no crc",
                                           "long private data",
                                           "no message",
                                           "long message",
                                           "ird 0",
                                           "close initiator",
                                           "close responder",
                                           "close both",
                                           "address v4",
                                           "address v6",
                                           "action drop",
                                           "action duplicate",
                                           "action delay",
                                           "action corrupt",
                                           "action corrupt_mpa",
                                           "action truncate",
                                           "action cut_stream",
                                           "action reset",
                                           "action set_rate",
                                           "action crash",
                                           "action restart",
                                           "action pause",
                                           "action resume",
                                           "mask",
                                           "both ways",
                                           "match arp_request",
                                           "match nd_solicit",
                                           "match tcp_syn",
                                           "match tcp_fin",
                                           "match mpa_request",
                                           "match mpa_reply",
                                           "match mpa_rtr",
                                           "match fpdu",
                                           "field key",
                                           "field pd_length",
                                           "field crc",
                                           "field marker"};

TEST(SimSwarm, ComesByEverythingThatItMayDraw) {
  const Scenario from = base();
  std::set<std::string> seen;
  for (std::uint64_t seed = 0; seed < 3000; ++seed) {
    const Scenario drawn = draw_swarm(from, seed);
    for (const ScenarioConnect& c : drawn.connects) {
      seen.insert("revision " + std::to_string(c.mpa.revision) + " rtr " + std::string(mpa::to_string(c.mpa.rtr)));
      if (c.mpa.markers) seen.insert("markers");
      if (!c.mpa.crc) seen.insert("no crc");
      if (c.private_data.size() > 500) seen.insert("long private data");
      if (c.messages == 0) seen.insert("no message");
      if (c.octets > 50'000) seen.insert("long message");
      if (c.mpa.ird == 0) seen.insert("ird 0");
      seen.insert("close " + std::string(to_string(c.closer)));
      seen.insert("address " + std::string(to_string(c.address)));
    }
    for (const ScenarioFault& f : drawn.faults) {
      seen.insert("action " + std::string(to_string(f.rule.action)));
      if (f.rule.mask) seen.insert("mask");
      if (f.way == Way::both) seen.insert("both ways");
      if (f.rule.match.message != MessageKind::any)
        seen.insert("match " + std::string(to_string(f.rule.match.message)));
      if (f.rule.action == FaultAction::corrupt_mpa) seen.insert("field " + std::string(to_string(f.rule.field)));
    }
  }
  for (const std::string_view wanted : everything) EXPECT_EQ(seen.count(std::string(wanted)), 1u) << wanted;
}

TEST(SimSwarm, SaysWhatItChanged) {
  const Scenario from = base();
  std::vector<std::string> drawn;
  const Scenario out = draw_swarm(from, 12, &drawn);
  std::set<std::string> lines(drawn.begin(), drawn.end());
  EXPECT_EQ(lines.size(), drawn.size());
  EXPECT_EQ(lines.count("link a-s: mtu = " + std::to_string(out.links[0].options.mtu)),
            out.links[0].options.mtu != 1500);
  std::size_t faults = 0;
  for (const std::string& line : drawn) faults += line.starts_with("fault ") ? 1 : 0;
  EXPECT_EQ(faults, out.faults.size());
}

TEST(SimSwarm, LeavesQuirksAndTheirOptionsAlone) {
  Scenario from = base();
  from.connects[0].mpa.peer_quirk = "siw";
  from.listens[0].mpa.play_quirk = "siw";
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const Scenario drawn = draw_swarm(from, seed);
    EXPECT_EQ(drawn.connects[0].mpa.revision, from.connects[0].mpa.revision);
    EXPECT_EQ(drawn.listens[0].mpa.ird, from.listens[0].mpa.ird);
    EXPECT_TRUE(check_scenario(drawn).empty());
  }
}

TEST(SimSwarm, NamesLinksThatCodeDidNotName) {
  Scenario from = base();
  for (ScenarioLink& link : from.links) link.name.clear();
  for (std::uint64_t seed = 0; seed < 50; ++seed) EXPECT_TRUE(check_scenario(draw_swarm(from, seed)).empty()) << seed;
}

// RFC 8200 §5: IPv6 needs an MTU of 1280.
TEST(SimSwarm, DrawsNoIpv6OverANicThatIsTooNarrowForIt) {
  for (const auto& [mtu, drawn] : {std::pair(std::uint16_t{1279}, false), {std::uint16_t{1280}, true}}) {
    Scenario from = base();
    from.hosts[0].options.nics = {{.name = "n1", .mtu = mtu}};
    bool v6 = false;
    for (std::uint64_t seed = 0; seed < 300; ++seed)
      for (const ScenarioConnect& c : draw_swarm(from, seed).connects) v6 |= c.address == AddressKind::v6;
    EXPECT_EQ(v6, drawn) << mtu;
  }
}

// Times are drawn too, so none can be promised.
TEST(SimSwarm, PromisesNoTimeOfSetUp) {
  Scenario from = base();
  from.connects[0].established_within = 1s;
  for (std::uint64_t seed = 0; seed < 20; ++seed)
    EXPECT_EQ(draw_swarm(from, seed).connects[0].established_within, Duration{}) << seed;
}

TEST(SimSwarm, TakesAScenarioWithoutLinks) {
  Scenario empty;
  EXPECT_TRUE(draw_swarm(empty, 1).faults.empty());
}

}  // namespace
}  // namespace parley::sim
