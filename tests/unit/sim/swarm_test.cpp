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

std::size_t hosts_with_roce(const Scenario& scenario) {
  std::size_t n = 0;
  for (const ScenarioHost& host : scenario.hosts) n += !host.is_switch && engine_of(host) == NicEngine::roce ? 1 : 0;
  return n;
}

Scenario base_with_roce() {
  Scenario out = base();
  for (ScenarioHost& host : out.hosts) host.options.engine = NicEngine::roce;
  for (ScenarioConnect& connect : out.connects) connect.mpa = {};
  return out;
}

/// c and d speak RoCE, a and b iWARP.
Scenario base_with_both() {
  Scenario out = base();
  out.hosts[2].options.engine = NicEngine::roce;
  out.hosts.push_back({.name = "d"});
  out.hosts.back().options.engine = NicEngine::roce;
  out.links.push_back({.name = "s-d", .ends = {"s", "d"}});
  out.connects[1].from = "d";
  out.connects[1].mpa = {};
  return out;
}

TEST(SimSwarm, DrawsOnlyScenariosThatTheChecksPass) {
  for (const Scenario& from : {base(), base_with_roce(), base_with_both()})
    for (std::uint64_t seed = 0; seed < 3000; ++seed) {
      const Scenario drawn = draw_swarm(from, seed);
      const auto errors = check_scenario(drawn);
      ASSERT_TRUE(errors.empty()) << "seed " << seed << ": " << errors.front().to_string() << '\n' << to_toml(drawn);
    }
}

TEST(SimSwarm, SomeOfTheHostsSpeakRoceInSomeDrawsAndConnectionsJoinLikeWithLike) {
  std::map<std::size_t, int> seen;
  for (std::uint64_t seed = 0; seed < 2000; ++seed) ++seen[hosts_with_roce(draw_swarm(base(), seed))];
  EXPECT_EQ(seen.size(), 2U) << "a, b and c belong together";
  EXPECT_GT(seen[3], 200);
  EXPECT_LT(seen[3], 600);
  Scenario apart = base();  // a and b, c and d
  apart.hosts.push_back({.name = "d"});
  apart.links.push_back({.name = "s-d", .ends = {"s", "d"}});
  apart.connects[1].from = "d";
  seen.clear();
  for (std::uint64_t seed = 0; seed < 2000; ++seed) ++seen[hosts_with_roce(draw_swarm(apart, seed))];
  EXPECT_EQ(seen.size(), 3U);
  EXPECT_GT(seen[2], 100) << "one world with both";
  EXPECT_GT(seen[4], 100);
  Scenario with_mpa = base();
  with_mpa.faults.emplace_back();
  with_mpa.faults[0].link = "a-s";
  with_mpa.faults[0].rule.match.message = MessageKind::mpa_reply;
  Scenario quirky = base();
  quirky.listens[0].mpa.play_quirk = "siw";
  for (const Scenario& from : {with_mpa, quirky})
    for (std::uint64_t seed = 0; seed < 300; ++seed) EXPECT_EQ(hosts_with_roce(draw_swarm(from, seed)), 0U) << seed;
}

TEST(SimSwarm, FaultsAreOnMessagesOfWhatTheHostsSpeak) {
  for (const Scenario& from : {base(), base_with_roce(), base_with_both()}) {
    std::set<std::string> seen;
    for (std::uint64_t seed = 0; seed < 3000; ++seed) {
      const Scenario drawn = draw_swarm(from, seed);
      const std::size_t roce = hosts_with_roce(drawn);
      for (const ScenarioFault& f : drawn.faults) {
        const MessageKind kind = f.rule.match.message;
        if (kind == MessageKind::any || kind.layer == Layer::arp || kind.layer == Layer::nd) continue;
        const bool packets = kind.layer == Layer::roce || kind.layer == Layer::cm;
        EXPECT_TRUE(packets ? roce != 0 : roce < drawn.hosts.size() - 1) << seed << ' ' << to_string(kind);
        seen.insert(std::string(to_string(kind)));
        if (f.rule.action == FaultAction::corrupt_roce) seen.insert("field " + std::string(to_string(f.rule.field)));
      }
    }
    if (hosts_with_roce(from) != 3) continue;
    for (const char* kind : {"roce_send", "roce_write", "roce_read_request", "roce_read_response", "roce_ack",
                             "roce_nak", "cm_message", "cm_req", "cm_mra", "cm_rej", "cm_rep", "cm_rtu", "cm_dreq",
                             "cm_drep", "field psn", "field payload", "field syndrome", "field starting_psn"})
      EXPECT_TRUE(seen.contains(kind)) << kind;
  }
}

TEST(SimSwarm, DrawsWhatHcasHaveAndSwitchesThatMark) {
  std::set<int> mtus, timeouts, classes;
  bool marks = false, plain = false;
  for (std::uint64_t seed = 0; seed < 1000; ++seed) {
    const Scenario drawn = draw_swarm(base_with_roce(), seed);
    std::set<Mtu> common;
    for (const ScenarioHost& host : drawn.hosts) {
      if (host.is_switch) {
        (host.switching.ecn_threshold != 0 ? marks : plain) = true;
        continue;
      }
      common.insert(host.options.hca.mtu);
      mtus.insert(static_cast<int>(host.options.hca.mtu));
      timeouts.insert(host.options.hca.ack_timeout);
      classes.insert(host.options.hca.traffic_class);
    }
    EXPECT_EQ(common.size(), 1U) << "an HCA rejects who asks for more than its own";
  }
  EXPECT_EQ(mtus.size(), 5U);
  EXPECT_EQ(timeouts, (std::set{16, 17, 18}));
  EXPECT_EQ(classes, (std::set{0, 106}));
  EXPECT_TRUE(marks && plain);
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
      Scenario drawn = draw_swarm(from, seed);
      for (ScenarioFault& fault : drawn.faults) fault.may_miss = false;  // as all of them had it then
      if (hosts_with_roce(drawn) != hosts_with_roce(from))
        continue;  // what iWARP gets is as it was before there was RoCE
      const std::string text = to_toml(drawn);
      hash = fnv1a({reinterpret_cast<const std::uint8_t*>(text.data()), text.size()}, hash);
    }
    return fmt::format("{:016x}", hash);
  };
  EXPECT_EQ(draws(base()), "2cc5b1ac5de77d10");
  EXPECT_EQ(draws(cable), "e233d261ba8b9992");
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

// Where more come than there is room for, some are sent away more often than they come again, and half-open ones give way.
TEST(SimSwarm, AListenerHasRoomForAllOrAnyEndIsRight) {
  Scenario from = base_with_roce();
  for (ScenarioListen& listen : from.listens) listen.pending_max = 2;
  int roomy = 0, full = 0, fits = 0;
  for (std::uint64_t seed = 0; seed < 2000; ++seed) {
    const Scenario drawn = draw_swarm(from, seed);
    for (std::size_t i = 0; i < 2; ++i) {
      const ScenarioListen& listen = drawn.listens[i];
      const ScenarioConnect& connect = drawn.connects[i];
      if (connect.count * (1 + connect.retries) > listen.pending_max) {
        EXPECT_EQ(connect.expect, Expect::settled) << seed;
        EXPECT_LE(connect.retries, 1U) << seed << ": a try may take half a minute";
        ++full;
      } else {
        ++(listen.pending_max > 2 ? roomy : fits);
      }
    }
  }
  EXPECT_GT(full, 1000);
  EXPECT_GT(roomy, 500);
  EXPECT_GT(fits, 100);
}

TEST(SimSwarm, WhatAFaultOfTheFileNeverLetsThroughIsTriedTwice) {
  Scenario from = base_with_roce();
  from.connects[0].expect = Expect::failed;
  from.faults.emplace_back();
  from.faults[0].link = "b-s";
  from.faults[0].rule.match.message = MessageKind::cm_rep;
  std::uint32_t most = 0;
  for (std::uint64_t seed = 0; seed < 1000; ++seed) {
    const Scenario drawn = draw_swarm(from, seed);
    for (const ScenarioConnect& connect : drawn.connects)
      if (connect.expect == Expect::settled) most = std::max(most, connect.retries);
  }
  EXPECT_EQ(most, 1U);
}

// An HCA sends all that is posted at once.
TEST(SimSwarm, QueuesHoldMorePacketsOfRoce) {
  const Scenario from = base_with_roce();
  for (std::uint64_t seed = 0; seed < 2000; ++seed)
    for (const ScenarioLink& link : draw_swarm(from, seed).links) {
      EXPECT_GE(link.options.queue_octets, 16U * (link.options.mtu + 14U)) << seed;
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
      EXPECT_NE(r.action, FaultAction::corrupt_roce) << seed;
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
      if (f.way == LinkDirection::both) seen.insert("both ways");
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
