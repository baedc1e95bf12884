// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// A world is what its calls say: it refuses what cannot be, carries connections over links and switches, lets faults
// happen when they are due, and is the same again from the same seed, whatever happens in other worlds.
#include <algorithm>

#include "base/rng.hpp"
#include "host_kit.hpp"
#include "link_kit.hpp"

namespace parley::sim {
namespace {

using namespace std::chrono_literals;
using testing_hosts::PlainTcp;
using testing_hosts::TestApp;
using testing_hosts::with_port;
using testing_links::Seen;

/// What a tap was told, as one number.
struct Fingerprint final : Tap {
  void add(ConstBytes octets) {
    for (const std::uint8_t octet : octets) value = (value ^ octet) * 0x100000001B3;
  }
  void add(std::uint64_t number) { value = (value ^ number) * 0x100000001B3; }
  void on_frame(const TapFrame& f) override {
    add(static_cast<std::uint64_t>(f.at.time_since_epoch().count()));
    add(f.frame_id);
    add(std::uint64_t{f.link} << 8 | f.end);
    add(f.octets);
    ++frames;
  }
  void on_note(Instant, NodeId, NoteKind, std::string_view text) override {
    for (const char c : text) add(static_cast<std::uint64_t>(c));
  }
  std::uint64_t value = 0xCBF29CE484222325;
  std::size_t frames = 0;
};

/// Hosts a and b with plain TCP programs and `switches` switches between them; b listens on 7471.
struct PlainWorld {
  explicit PlainWorld(std::uint64_t seed = 1, int switches = 0, const LinkOptions& link = {}) : world(seed) {
    a = *world.add_host("a");
    b = *world.add_host("b");
    NodeId from = a->id();
    for (int i = 0; i < switches; ++i) {
      const NodeId next = *world.add_switch("s" + std::to_string(i));
      links.push_back(*world.add_link(from, next, link));
      from = next;
    }
    links.push_back(*world.add_link(from, b->id(), link));
    a->set_machine(&at_a);
    b->set_machine(&at_b);
    at_b.listen(Address::any(Address::Family::v4, 7471));
  }
  void wake() {
    a->set_timer(world.now(), 0);
    b->set_timer(world.now(), 0);
  }
  bool connect() {
    at_a.open(with_port(b->address(), 7471));
    (void)world.step(world.now());
    wake();
    return world.run_until([&] { return at_a.connected == 1 && at_b.accepted == 1; }, 10s);
  }
  bool say(const Bytes& octets, Duration limit = 60s) {
    at_a.say(at_a.streams[0].id, octets);
    wake();
    return world.run_until([&] { return at_b.streams[0].in.size() >= octets.size(); }, limit);
  }

  PlainTcp at_a, at_b;
  World world;
  Host *a = nullptr, *b = nullptr;
  std::vector<LinkId> links;
};

FaultRule any_rule(FaultAction action) {
  FaultRule r;
  r.action = action;
  return r;
}
FaultRule host_rule(FaultAction action, NodeId host, Duration from) {
  FaultRule r = any_rule(action);
  r.host = host;
  r.from = Instant(from);
  return r;
}
template <class T>
std::string error(const Checked<T>& result) {
  return result ? "no error" : result.error();
}

// ---- topology ----------------------------------------------------------------------------------------------------

TEST(SimWorld, RefusesALoopAndNamesThePath) {
  World world(1);
  const NodeId a = *world.add_switch("a"), b = *world.add_switch("b"), c = *world.add_switch("c");
  ASSERT_TRUE(world.add_link(a, b));
  ASSERT_TRUE(world.add_link(b, c));
  EXPECT_EQ(error(world.add_link(c, a)), "link c-a would close a loop: a - b - c");
  EXPECT_EQ(error(world.add_link(a, b)), "link a-b would close a loop: b - a");
  EXPECT_EQ(world.link_count(), 2U);
}

// The switches of the way alone, and none twice.
TEST(SimWorld, NamesThePathOfALoopAmongBranches) {
  World world(1);
  std::vector<NodeId> line;
  for (const std::string name : {"a", "b", "c", "d", "e", "f"}) line.push_back(*world.add_switch(name));
  for (std::size_t i = 1; i < line.size(); ++i) ASSERT_TRUE(world.add_link(line[i - 1], line[i]));
  for (const std::size_t i : {1U, 3U, 4U}) {
    const NodeId branch = *world.add_switch(fmt::format("x{}", i));
    ASSERT_TRUE(world.add_link(branch, line[i]));
    ASSERT_TRUE(world.add_link((*world.add_host(fmt::format("h{}", i)))->id(), branch));
  }
  EXPECT_EQ(error(world.add_link(line[5], line[0])), "link f-a would close a loop: a - b - c - d - e - f");
  EXPECT_EQ(error(world.add_link(line[0], line[4])), "link a-e would close a loop: e - d - c - b - a");
}

TEST(SimWorld, HostsCloseNoLoopSinceTheyDoNotForward) {
  World world(1);
  const NodeId a = (*world.add_host("a"))->id(), b = (*world.add_host("b"))->id(), c = (*world.add_host("c"))->id();
  EXPECT_TRUE(world.add_link(a, b));
  EXPECT_TRUE(world.add_link(b, c));
  EXPECT_TRUE(world.add_link(c, a));
}

TEST(SimWorld, RefusesWhatCannotBeInOneSentence) {
  World world(1);
  const NodeId a = (*world.add_host("a"))->id(), b = (*world.add_host("b"))->id();
  EXPECT_EQ(error(world.add_host("a")), "host 'a': a host has this name already");
  EXPECT_EQ(error(world.add_switch("b")), "switch 'b': a host has this name already");
  EXPECT_EQ(error(world.add_host("")), "host '': a name has 1 to 64 letters, digits, '.', '_' and '-'");
  EXPECT_EQ(error(world.add_host("a b")), "host 'a b': a name has 1 to 64 letters, digits, '.', '_' and '-'");
  EXPECT_EQ(error(world.add_link(a, a)), "link a-a: joins a node to itself");
  EXPECT_EQ(error(world.add_link(a, 7)), "a link to node 7: there is no such node");
  EXPECT_EQ(error(world.add_link(a, b, {.rate_bps = 0})),
            "link a-b: nothing crosses a link of rate 0; for a dead link drop all frames by a fault");
  EXPECT_EQ(error(world.add_link(a, b, {.rate_bps = ~0ULL})),
            "link a-b: a rate of 18446744073709551615 b/s is above 100000000000000");
  EXPECT_EQ(error(world.add_link(a, b, {.mtu = 575})), "link a-b: an MTU of 575 is not in 576..9000");
  EXPECT_EQ(error(world.add_link(a, b, {.mtu = 9001})), "link a-b: an MTU of 9001 is not in 576..9000");
  EXPECT_EQ(error(world.add_link(a, b, {.delay = -1ns})), "link a-b: a delay of -1 ns is not in 0..1 h");
  EXPECT_EQ(error(world.add_link(a, b, {.delay = 2h})), "link a-b: a delay of 7200000000000 ns is not in 0..1 h");
  EXPECT_EQ(world.link_count(), 0U);
  EXPECT_EQ(world.node_count(), 2U);
}

TEST(SimWorld, BoundsThePortsOfAHost) {
  World world(1);
  const NodeId hub = (*world.add_host("hub"))->id();
  for (int i = 0; i < 200; ++i) {
    const NodeId leaf = (*world.add_host("h" + std::to_string(i)))->id();
    ASSERT_TRUE(world.add_link(hub, leaf));
  }
  const NodeId last = (*world.add_host("last"))->id();
  EXPECT_EQ(error(world.add_link(last, hub)), "link last-hub: host hub has 200 ports, and no more fit");
}

TEST(SimWorld, TakesNoNewPartsOnceItRuns) {
  World world(1);
  ASSERT_TRUE(world.add_host("a"));
  (void)world.step();
  EXPECT_EQ(error(world.add_host("b")), "host 'b': the world runs already");
  EXPECT_EQ(error(world.add_switch("s")), "switch 's': the world runs already");
  EXPECT_EQ(error(world.add_link(0, 0)), "a link from node 0 to node 0: the world runs already");
}

TEST(SimWorld, NamesItsParts) {
  World world(1);
  const NodeId a = (*world.add_host("a"))->id();
  const NodeId s = *world.add_switch("s");
  const NodeId b = (*world.add_host("b"))->id();
  const LinkId first = *world.add_link(a, s, {.mtu = 1400}), second = *world.add_link(b, s);
  EXPECT_EQ(world.link_end(first, 0).name, "a/p1");
  EXPECT_EQ(world.link_end(first, 1).name, "s/p1");
  EXPECT_EQ(world.link_end(second, 1).name, "s/p2");
  EXPECT_EQ(world.link_end(second, 0).node, b);
  EXPECT_EQ(world.link_options(first).mtu, 1400);
  EXPECT_EQ(world.node_count(), 3U);
  EXPECT_EQ(world.host_count(), 2U);
  EXPECT_EQ(&world.host(1), world.find_host("b"));
  EXPECT_EQ(world.find_host("s"), nullptr);
  EXPECT_EQ(world.find_host("x"), nullptr);
  EXPECT_TRUE(world.is_switch(s));
  EXPECT_EQ(world.node_name(s), "s");
}

TEST(SimWorld, WhatSwitchesJoinIsOneNetwork) {
  World world(1);
  Host* hosts[4];
  for (int i = 0; i < 4; ++i) hosts[i] = *world.add_host("h" + std::to_string(i));
  const NodeId s = *world.add_switch("s"), t = *world.add_switch("t");
  ASSERT_TRUE(world.add_link(hosts[0]->id(), s));
  ASSERT_TRUE(world.add_link(hosts[1]->id(), t));
  EXPECT_EQ(hosts[0]->address().to_string(), "10.0.0.1:0");
  EXPECT_EQ(hosts[1]->address().to_string(), "10.1.0.2:0");
  ASSERT_TRUE(world.add_link(s, t));
  EXPECT_EQ(hosts[1]->address().to_string(), "10.0.0.2:0");
  ASSERT_TRUE(world.add_link(hosts[2]->id(), t));
  EXPECT_EQ(hosts[2]->address().to_string(), "10.0.0.3:0");
  ASSERT_TRUE(world.add_link(hosts[2]->id(), hosts[3]->id()));
  EXPECT_NE(hosts[2]->address(Address::Family::v4, 1).octets[1], 0);
  EXPECT_EQ(hosts[2]->address(Address::Family::v4, 1).octets[1], hosts[3]->address().octets[1]);
}

// ---- running -----------------------------------------------------------------------------------------------------

TEST(SimWorld, CarriesAConnectionOverOneLinkAndOverSeveralSwitches) {
  for (const int switches : {0, 1, 4}) {
    PlainWorld w(1, switches);
    ASSERT_TRUE(w.connect()) << switches;
    const Bytes octets = testing_hosts::pattern(300'000);
    ASSERT_TRUE(w.say(octets)) << switches;
    EXPECT_EQ(w.at_b.streams[0].in, octets);
    EXPECT_EQ(w.world.counters().dropped, 0U);
    EXPECT_EQ(w.a->counters().tcp_retransmits, 0U);
    EXPECT_GE(w.world.counters().packet_hops, 200U * static_cast<unsigned>(switches + 1));
  }
}

TEST(SimWorld, StartsItsHostsAtTheFirstStep) {
  World world(1);
  TestApp app;
  Host* a = *world.add_host("a");
  a->set_app(&app);
  EXPECT_EQ(app.starts, 0);
  (void)world.step(Instant{});
  EXPECT_EQ(app.starts, 1);
}

TEST(SimWorld, StopsAtALimitAndLetsTimePass) {
  World world(1);
  TestApp app;
  Host* a = *world.add_host("a");
  a->set_app(&app);
  a->set_timer(Instant(3ms), 7);
  while (world.step(Instant(2ms))) {
  }
  EXPECT_TRUE(app.timers.empty());
  EXPECT_LT(world.now(), Instant(2ms));
  world.run_for(2ms);
  EXPECT_EQ(world.now(), Instant(2ms));
  EXPECT_TRUE(app.timers.empty());
  world.run_for(1ms);
  ASSERT_EQ(app.timers.size(), 1U);
  EXPECT_EQ(app.timers[0].first, Instant(3ms));
  EXPECT_EQ(world.now(), Instant(3ms));
  EXPECT_FALSE(world.run_until([] { return false; }, Duration::max()));
}

TEST(SimWorld, CountsWhatCrossesItsLinks) {
  PlainWorld w;
  ASSERT_TRUE(w.connect());
  const WorldCounters before = w.world.counters();
  ASSERT_TRUE(w.say(Bytes(100)));
  w.world.run_for(1s);
  const WorldCounters after = w.world.counters();
  EXPECT_EQ(after.packet_hops - before.packet_hops, 2U);  // a segment and its acknowledgement
  EXPECT_EQ(after.frames_in_flight, 0U);
  EXPECT_GE(after.frames_peak, 1U);
  EXPECT_FALSE(after.exhausted);
}

TEST(SimWorld, AWorldCanBeMovedAndDroppedInMidRun) {
  auto machines = std::make_unique<std::pair<PlainTcp, PlainTcp>>();
  World world(1);
  Host* a = *world.add_host("a");
  Host* b = *world.add_host("b");
  ASSERT_TRUE(world.add_link(a->id(), b->id(), {.rate_bps = 1'000'000, .delay = 10ms}));
  a->set_machine(&machines->first);
  b->set_machine(&machines->second);
  machines->second.listen(Address::any(Address::Family::v4, 7471));
  machines->first.open(with_port(b->address(), 7471));
  (void)world.step(Instant{});
  World moved = std::move(world);
  a->set_timer(moved.now(), 0);
  b->set_timer(moved.now(), 0);
  ASSERT_TRUE(moved.run_until([&] { return machines->first.connected == 1; }, 10s));
  machines->first.say(machines->first.streams[0].id, Bytes(100'000));
  a->set_timer(moved.now(), 0);
  ASSERT_TRUE(moved.run_until([&] { return moved.counters().frames_in_flight > 5; }, 10s));
}

// ---- the same again ----------------------------------------------------------------------------------------------

/// A lossy run: every random thing of the network has a part in it.
struct LossyRun {
  explicit LossyRun(std::uint64_t seed) : w(seed, 1) {
    FaultRule loss = any_rule(FaultAction::drop);
    loss.chance = {1, 20};
    EXPECT_TRUE(w.world.add_fault(w.links[0], LinkDirection::both, loss));
    FaultRule jitter = any_rule(FaultAction::delay);
    jitter.jitter = 20us;
    jitter.reorder = true;
    EXPECT_TRUE(w.world.add_fault(w.links[1], LinkDirection::forward, jitter));
    w.world.set_tap(&fingerprint);
    w.at_a.open(with_port(w.b->address(), 7471));
  }
  bool step() {
    const bool more = w.world.step(Instant(20s));
    if (!spoke && w.at_a.connected == 1) {
      spoke = true;
      w.at_a.say(w.at_a.streams[0].id, testing_hosts::pattern(60'000));
      w.wake();
    }
    return more;
  }
  PlainWorld w;
  Fingerprint fingerprint;
  bool spoke = false;
};

TEST(SimWorld, TheSameSeedGivesTheSameOctetsAndAnotherGivesOthers) {
  LossyRun first(5), second(5), other(6);
  for (LossyRun* run : {&first, &second, &other})
    while (run->step()) {
    }
  EXPECT_EQ(first.w.at_b.streams.at(0).in.size(), 60'000U);
  EXPECT_GT(first.w.world.counters().dropped, 0U);
  EXPECT_EQ(first.fingerprint.value, second.fingerprint.value);
  EXPECT_NE(first.fingerprint.value, other.fingerprint.value);
}

TEST(SimWorld, TwoWorldsSideBySideDoNotTouch) {
  LossyRun alone(5);
  while (alone.step()) {
  }
  LossyRun left(5), right(6);
  bool more = true;
  while (more) {
    more = left.step();
    more = right.step() || more;
  }
  EXPECT_EQ(left.fingerprint.value, alone.fingerprint.value);
}

TEST(SimWorld, DrawsOfAWorkloadDoNotDisturbTheNetwork) {
  LossyRun plain(5), drawing(5);
  while (plain.step()) {
  }
  for (int i = 0; i < 1000; ++i) (void)drawing.w.world.rng().next();
  while (drawing.step()) {
  }
  EXPECT_EQ(plain.fingerprint.value, drawing.fingerprint.value);
  EXPECT_NE(World(1).rng().next(), World(2).rng().next());
}

TEST(SimWorld, ATapDoesNotChangeTheRun) {
  LossyRun watched(5), alone(5);
  alone.w.world.set_tap(nullptr);
  while (watched.step()) {
  }
  while (alone.step()) {
  }
  EXPECT_EQ(watched.w.world.counters().events, alone.w.world.counters().events);
  EXPECT_EQ(watched.w.world.counters().dropped, alone.w.world.counters().dropped);
}

// ---- faults ------------------------------------------------------------------------------------------------------

TEST(SimWorld, RefusesFaultsThatCannotBe) {
  PlainWorld w(1, 1);
  World& world = w.world;
  EXPECT_EQ(error(world.add_fault(9, LinkDirection::both, any_rule(FaultAction::drop))),
            "a fault of link 9: there is no such link");
  EXPECT_EQ(error(world.add_fault(any_rule(FaultAction::drop))), "drop is of a link: name one");
  EXPECT_EQ(error(world.add_fault(host_rule(FaultAction::crash, 2, 1s))), "crash: s0 is a switch; write a host");
  EXPECT_EQ(error(world.add_fault(host_rule(FaultAction::pause, 77, 1s))), "pause: there is no node 77");
  EXPECT_EQ(error(world.add_fault(0, LinkDirection::both, host_rule(FaultAction::crash, 2, 1s))),
            "link a-s0: crash: s0 is a switch; write a host");
  EXPECT_EQ(error(world.add_fault(0, LinkDirection::both, any_rule(FaultAction::set_rate)))
                .rfind("link a-s0: set_rate needs", 0),
            0U);
  EXPECT_EQ(
      error(world.add_fault(0, LinkDirection::both, any_rule(FaultAction::truncate))).rfind("link a-s0: truncate", 0),
      0U);
  FaultRule backward_in_time = any_rule(FaultAction::set_rate);
  backward_in_time.rate_bps = 1;
  backward_in_time.from = Instant(2s);
  backward_in_time.until = Instant(1s);
  EXPECT_EQ(error(world.add_fault(0, LinkDirection::both, backward_in_time)),
            "link a-s0: set_rate: until is not after from: leave it out, or write a later one");
}

TEST(SimWorld, HostsCrashPauseAndComeBackWhenTheyAreTold) {
  PlainWorld w;
  Seen seen;
  w.world.set_tap(&seen);
  const NodeId b = w.b->id();
  ASSERT_TRUE(w.world.add_fault(host_rule(FaultAction::pause, b, 1s)));
  ASSERT_TRUE(w.world.add_fault(host_rule(FaultAction::resume, b, 2s)));
  ASSERT_TRUE(w.world.add_fault(host_rule(FaultAction::crash, b, 3s)));
  FaultRule restart = host_rule(FaultAction::restart, b, 3s);
  restart.delay = 1s;
  ASSERT_TRUE(w.world.add_fault(restart));
  w.world.run_for(1500ms);
  EXPECT_TRUE(w.b->paused());
  w.world.run_for(1s);
  EXPECT_FALSE(w.b->paused());
  w.world.run_for(1s);
  EXPECT_FALSE(w.b->up());
  w.world.run_for(1s);
  EXPECT_TRUE(w.b->up());
  EXPECT_EQ(w.b->incarnation(), 2U);
  ASSERT_EQ(seen.notes.size(), 4U);
  EXPECT_EQ(seen.notes[2], "3000000000 1 host b crashed");
}

TEST(SimWorld, AHostCrashesWhenAFramePasses) {
  PlainWorld w;
  Seen seen;
  w.world.set_tap(&seen);
  FaultRule crash = any_rule(FaultAction::crash);
  crash.host = w.b->id();
  crash.match.message = MessageKind::tcp_data;
  ASSERT_TRUE(w.world.add_fault(w.links[0], LinkDirection::forward, crash));
  ASSERT_TRUE(w.connect());
  EXPECT_TRUE(w.b->up());
  EXPECT_FALSE(w.say(Bytes(100), 100ms));
  EXPECT_FALSE(w.b->up());
  const bool named = std::any_of(seen.frames.begin(), seen.frames.end(), [](const Seen::Record& f) {
    return f.note.find("sets off crash of b") != std::string::npos;
  });
  EXPECT_TRUE(named);
}

TEST(SimWorld, ARateChangesAtItsTimeAndBack) {
  PlainWorld w(1, 0, {.rate_bps = 1'000'000'000, .delay = 0us});
  Seen seen;
  w.world.set_tap(&seen);
  ASSERT_TRUE(w.connect());
  w.world.run_for(500ms);
  FaultRule slow = any_rule(FaultAction::set_rate);
  slow.rate_bps = 8'000;  // a thousand octets a second
  slow.from = Instant(1s);
  slow.until = Instant(30s);
  ASSERT_TRUE(w.world.add_fault(w.links[0], LinkDirection::forward, slow));
  w.world.run_for(Instant(1s) - w.world.now());
  ASSERT_TRUE(w.say(Bytes(1000)));
  EXPECT_GT(w.world.now(), Instant(2s));
  w.world.run_for(Instant(31s) - w.world.now());
  const Instant before = w.world.now();
  w.at_b.streams[0].in.clear();
  ASSERT_TRUE(w.say(Bytes(1000)));
  EXPECT_LT(w.world.now(), before + 1ms);
  EXPECT_EQ(seen.notes, (std::vector<std::string>{"1000000000 0 rate from a to b is 8 kb/s",
                                                  "30000000000 0 rate from a to b is 1 Gb/s"}));
}

TEST(SimWorld, APartitionHealsAtItsTime) {
  PlainWorld w;
  FaultRule partition = any_rule(FaultAction::drop);
  partition.from = Instant(1s);
  partition.until = Instant(4s);
  ASSERT_TRUE(w.world.add_fault(w.links[0], LinkDirection::both, partition));
  ASSERT_TRUE(w.connect());
  w.world.run_for(Instant(1s) - w.world.now());
  ASSERT_TRUE(w.say(Bytes(5000)));
  EXPECT_GT(w.world.now(), Instant(4s));
  EXPECT_LT(w.world.now(), Instant(10s));
}

TEST(SimWorld, ADropMaskTakesTheTcpFramesThatHostsSend) {
  PlainWorld w(1, 2);
  Seen seen;
  w.world.set_tap(&seen);
  w.world.set_drop_mask(0b10);  // the SYN-ACK, whatever went before it to find the neighbour
  ASSERT_TRUE(w.connect());
  std::vector<std::size_t> dropped;
  std::size_t sent = 0;
  for (const auto& frame : seen.frames) {
    const bool by_host = frame.outbound && !w.world.is_switch(w.world.link_end(frame.link, frame.end & 1).node);
    const auto size = static_cast<std::uint32_t>(frame.octets.size());
    const bool tcp = wire::parse_packet(1, frame.octets, size).kind == wire::PacketKind::tcp;
    if (frame.drop == DropReason::rule) dropped.push_back(sent);
    if (by_host && tcp) ++sent;
  }
  EXPECT_EQ(dropped, std::vector<std::size_t>{1});
}

}  // namespace
}  // namespace parley::sim
