// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The neighbour table by itself, then ARP and neighbour discovery between hosts.
#include "sim/host/neighbour.hpp"

#include "host_kit.hpp"

namespace parley::sim::testing_hosts {
namespace {

constexpr std::uint16_t arp = 0x0806;

Address ip(std::uint8_t last) { return Address::v4(10, 0, 0, last, 0); }
constexpr wire::Mac mac_a{2, 0, 0, 0, 0, 1}, mac_b{2, 0, 0, 0, 0, 2};

struct TableTest : ::testing::Test {
  FramePool pool;
  NeighbourTable table;
  Instant now{1s};

  int asks(bool* alone = nullptr) {
    int n = 0;
    for (NeighbourAsk out; table.poll_ask(out); ++n)
      if (alone != nullptr) *alone = out.mac.has_value();
    return n;
  }
  int frames() {
    int n = 0;
    std::uint16_t port = 0;
    while (FramePtr frame = table.poll_frame(port)) {
      ++n;
      last_mac = {};
      std::copy_n(frame->data(), 6, last_mac.begin());
      last_port = port;
    }
    return n;
  }
  int failures() {
    int n = 0;
    std::uint16_t port = 0;
    for (Address out; table.poll_failure(port, out); ++n) last_failed = out;
    return n;
  }
  void wait(Duration time) {
    const Instant end = now + time;
    while (table.next_deadline() <= end) {
      now = table.next_deadline();
      table.handle_deadline(now);
    }
    now = end;
  }
  NeighbourRef known(std::uint8_t last) {
    const NeighbourRef ref = table.find(0, ip(last));
    (void)table.resolve(now, ref);
    (void)asks();
    table.heard(now, 0, ip(last), mac_b, true, true, false);
    return ref;
  }
  wire::Mac last_mac{};
  std::uint16_t last_port = 0;
  Address last_failed;
};

TEST_F(TableTest, AsksOnceASecondThreeTimesThenFails) {
  const NeighbourRef ref = table.find(3, ip(9));
  EXPECT_EQ(table.resolve(now, ref), nullptr);
  table.wait(ref, pool.take(60));
  EXPECT_EQ(table.resolve(now, ref), nullptr);
  EXPECT_EQ(asks(), 1);
  wait(999ms);
  EXPECT_EQ(asks(), 0);
  wait(1ms);
  EXPECT_EQ(asks(), 1);
  wait(1s);
  EXPECT_EQ(asks(), 1);
  EXPECT_EQ(failures(), 0);
  wait(1s);
  EXPECT_EQ(asks(), 0);
  EXPECT_EQ(failures(), 1);
  EXPECT_EQ(last_failed, ip(9));
  EXPECT_FALSE(table.valid(ref));
  EXPECT_EQ(table.next_deadline(), never);
  EXPECT_EQ(pool.out(), 0U) << "what waited is given back";
  EXPECT_EQ(table.resolve(now, table.find(3, ip(9))), nullptr);
  EXPECT_EQ(asks(), 1) << "the next packet asks anew";
}

TEST_F(TableTest, WhatWaitedLeavesInOrderOnceTheAnswerIsThere) {
  const NeighbourRef ref = table.find(5, ip(9));
  (void)table.resolve(now, ref);
  for (int i = 0; i < 3; ++i) table.wait(ref, pool.take(60));
  table.heard(now, 5, ip(9), mac_b, true, true, false);
  EXPECT_EQ(frames(), 3);
  EXPECT_EQ(last_mac, mac_b);
  EXPECT_EQ(last_port, 5);
  ASSERT_NE(table.resolve(now, ref), nullptr);
  EXPECT_EQ(*table.resolve(now, ref), mac_b);
}

TEST_F(TableTest, TheQueueOfAnUnresolvedNeighbourIsBoundedAndTheOldestGoes) {
  const NeighbourRef ref = table.find(0, ip(9));
  (void)table.resolve(now, ref);
  for (std::size_t i = 0; i < NeighbourTable::waiting_max + 5; ++i) table.wait(ref, pool.take(60));
  EXPECT_EQ(pool.out(), NeighbourTable::waiting_max);
}

TEST_F(TableTest, AStaleEntryIsUsedAndProbedAloneUnlessTrafficConfirmsIt) {
  const NeighbourRef ref = known(9);
  wait(29s);
  EXPECT_NE(table.resolve(now, ref), nullptr);
  EXPECT_EQ(table.next_deadline(), never) << "reachable";
  wait(2s);
  EXPECT_NE(table.resolve(now, ref), nullptr) << "stale, used all the same";
  wait(4s);
  table.confirm(now, ref);
  EXPECT_EQ(table.next_deadline(), never);
  wait(60s);
  EXPECT_EQ(asks(), 0);
  (void)table.resolve(now, ref);
  wait(5s);
  bool alone = false;
  EXPECT_EQ(asks(&alone), 1);
  EXPECT_TRUE(alone);
  wait(3s);
  EXPECT_EQ(asks(), 2);
  EXPECT_EQ(failures(), 1);
  EXPECT_FALSE(table.valid(ref));
}

TEST_F(TableTest, TheTableIsBoundedAndTheOldestGoes) {
  NeighbourRef first;
  for (std::uint32_t i = 0; i < NeighbourTable::entries_max + 10; ++i) {
    const NeighbourRef ref =
        table.find(0, Address::v4(10, 0, static_cast<std::uint8_t>(i >> 8), static_cast<std::uint8_t>(i), 0));
    if (i == 0) first = ref;
    (void)table.resolve(now, ref);
  }
  EXPECT_EQ(table.size(), NeighbourTable::entries_max);
  EXPECT_FALSE(table.valid(first));
  EXPECT_EQ(failures(), 10) << "whoever waited for them is told";
}

TEST_F(TableTest, AnnouncementsCorrectWhatIsKnownAndMakeNothing) {
  table.heard(now, 0, ip(9), mac_b, false, true, false);
  EXPECT_EQ(table.size(), 0U);
  const NeighbourRef ref = known(9);
  table.heard(now, 0, ip(9), mac_a, false, true, false);
  EXPECT_EQ(*table.resolve(now, ref), mac_a);
  EXPECT_NE(table.next_deadline(), never) << "not known to hear us: to be probed";
  table.heard(now, 0, ip(9), mac_b, false, false, false);
  EXPECT_EQ(*table.resolve(now, ref), mac_a) << "RFC 4861 §7.2.5: without the override flag not believed";
}

TEST_F(TableTest, WhoeverAskedUsIsKnownWithoutAsking) {
  table.heard(now, 0, ip(9), mac_b, false, true, true);
  const wire::Mac* mac = table.resolve(now, table.find(0, ip(9)));
  ASSERT_NE(mac, nullptr);
  EXPECT_EQ(*mac, mac_b);
  EXPECT_EQ(asks(), 0);
}

TEST(SlotIndexTest, FindsEverythingAfterAnyMixOfInsertsAndErases) {
  Rng rng(7);
  SlotIndex index;
  std::vector<std::uint32_t> hashes(400);
  std::vector<bool> in(400, false);
  for (std::uint32_t& hash : hashes) hash = static_cast<std::uint32_t>(rng.below(64));  // many of them equal
  for (int i = 0; i < 20'000; ++i) {
    const auto slot = static_cast<std::uint32_t>(rng.below(400));
    if (in[slot])
      index.erase(hashes[slot], slot);
    else
      index.insert(hashes[slot], slot);
    in[slot] = !in[slot];
    if (i % 50 != 0) continue;
    for (std::uint32_t s = 0; s < 400; ++s) {
      const std::uint32_t found = index.find(hashes[s], [s](std::uint32_t other) { return other == s; });
      ASSERT_EQ(found, in[s] ? s : SlotIndex::none);
    }
  }
}

// ---- between hosts -------------------------------------------------------------------------------------------------

bool is_nd(const Cable::Seen& s, std::uint8_t type) {
  return s.type() == 0x86DD && s.octets[20] == 58 && s.octets[54] == type;
}

struct NeighbourPair {
  explicit NeighbourPair(const HostOptions& options = {}) {
    for (PlainTcp* machine : {&a, &b}) {
      Host& host = cable.add(options);
      host.set_machine(machine);
      cable.hosts.back()->set_app(nullptr);
    }
    b.listen(Address::any(Address::Family::v4, 7471));
    if (options.ipv6) b.listen(Address::any(Address::Family::v6, 7471));
    cable.start();
    cable.run_for(1ms);
    cable.seen.clear();
  }
  void open(const Address& to) {
    a.open(to);
    cable.hosts[0]->set_timer(cable.engine.now(), 0);
  }
  Address to_b(Address::Family family = Address::Family::v4) {
    return with_port(cable.hosts[1]->address(family, 0), 7471);
  }
  PlainTcp a, b;
  Cable cable;
};

TEST(SimNeighbour, HostsAnnounceThemselvesOnStartAndRestart) {
  Cable cable;
  cable.add();
  cable.start();
  EXPECT_EQ(cable.count([](const Cable::Seen& s) { return s.type() == arp; }), 1U);
  EXPECT_EQ(cable.count([](const Cable::Seen& s) { return is_nd(s, 136); }), 2U) << "link-local and global";
  EXPECT_EQ(cable.seen[0].octets[0], 0xFF);
  cable.hosts[0]->restart();
  EXPECT_EQ(cable.seen.size(), 6U);
  Cable old;
  HostOptions no_v6;
  no_v6.ipv6 = false;
  old.add(no_v6);
  old.start();
  EXPECT_EQ(old.seen.size(), 1U);
}

TEST(SimNeighbour, ArpAsksOnceAndItsAnswerServesBothSides) {
  NeighbourPair p;
  p.open(p.to_b());
  ASSERT_TRUE(p.cable.run_until([&] { return p.a.connected == 1 && p.b.accepted == 1; }));
  EXPECT_EQ(p.cable.count([](const Cable::Seen& s) { return s.type() == arp; }), 2U) << "one request, one reply";
  EXPECT_EQ(p.cable.seen[1].octets[0], 2) << "the reply goes to the asker alone";
}

TEST(SimNeighbour, NeighbourDiscoveryAsksTheSolicitedNodeGroup) {
  for (const bool local : {false, true}) {
    NeighbourPair p;
    p.open(local ? with_port(p.cable.hosts[1]->link_local(0), 7471) : p.to_b(Address::Family::v6));
    ASSERT_TRUE(p.cable.run_until([&] { return p.a.connected == 1 && p.b.accepted == 1; }));
    EXPECT_EQ(p.cable.count([](const Cable::Seen& s) { return is_nd(s, 135); }), 1U);
    EXPECT_EQ(p.cable.count([](const Cable::Seen& s) { return is_nd(s, 136); }), 1U);
    const Bytes& solicit = p.cable.seen[0].octets;
    EXPECT_EQ(Bytes(solicit.begin(), solicit.begin() + 6), (Bytes{0x33, 0x33, 0xFF, 0, 0, 2}));
    EXPECT_EQ(solicit[21], 255) << "hop limit";
    EXPECT_EQ(solicit[22], local ? 0xFE : 0x20) << "a source of the same scope";
  }
}

TEST(SimNeighbour, NobodyAnswersAndTheOpenFailsAsUnreachableAfterThreeTries) {
  for (const bool v6 : {false, true}) {
    NeighbourPair p;
    Address nobody = p.to_b(v6 ? Address::Family::v6 : Address::Family::v4);
    nobody.octets[v6 ? 15 : 3] = 99;
    const Instant begun = p.cable.engine.now();
    p.open(nobody);
    p.open(nobody);
    ASSERT_TRUE(p.cable.run_until([&] { return p.a.failures.size() == 2; }));
    EXPECT_EQ(p.a.failures[0], std::make_error_code(std::errc::host_unreachable));
    EXPECT_EQ(p.a.failed_at - begun, Duration(3s));
    EXPECT_EQ(p.cable.count([&](const Cable::Seen& s) { return v6 ? is_nd(s, 135) : s.type() == arp; }), 3U);
    EXPECT_EQ(p.cable.hosts[0]->counters().neighbour_failures, 1U);
    EXPECT_EQ(p.cable.hosts[0]->counters().streams, 0U);
  }
}

TEST(SimNeighbour, ALostRequestIsAskedAgainAndTheConnectionIsMade) {
  for (const bool v6 : {false, true}) {
    NeighbourPair p;
    int lost = 0;
    p.cable.passes = [&](const Cable::Seen& s) {
      return !(v6 ? is_nd(s, 135) : s.type() == arp && s.octets[21] == 1) || ++lost > 2;
    };
    p.open(p.to_b(v6 ? Address::Family::v6 : Address::Family::v4));
    ASSERT_TRUE(p.cable.run_until([&] { return p.a.connected == 1; }));
    EXPECT_EQ(lost, 3);
    EXPECT_LT(p.cable.engine.now(), Instant(2100ms)) << "the SYN waited for the answer";
  }
}

TEST(SimNeighbour, AnIdleNeighbourIsProbedWhenItIsUsedAgainUnlessItAnswers) {
  NeighbourPair p;
  p.open(p.to_b());
  ASSERT_TRUE(p.cable.run_until([&] { return p.a.connected == 1 && p.b.accepted == 1; }));
  p.cable.run_for(100s);
  p.cable.seen.clear();
  p.a.say(p.a.streams[0].id, pattern(100));
  p.cable.hosts[0]->set_timer(p.cable.engine.now(), 0);
  p.cable.run_for(20s);
  EXPECT_EQ(p.b.streams[0].in.size(), 100U);
  const auto probes = [&](std::size_t from) {
    return p.cable.count([from](const Cable::Seen& s) { return s.type() == arp && s.from == from; });
  };
  EXPECT_EQ(probes(0) + probes(1), 0U) << "the segments themselves showed that both are there";
  p.cable.run_for(100s);
  // Now b is silent, but for ARP: a probes it alone, and goes on as before.
  p.cable.seen.clear();
  p.cable.passes = [](const Cable::Seen& s) { return s.from == 0 || s.type() == arp; };
  p.a.say(p.a.streams[0].id, pattern(100));
  p.cable.hosts[0]->set_timer(p.cable.engine.now(), 0);
  p.cable.run_for(6s);
  ASSERT_GE(probes(0), 1U);
  for (const Cable::Seen& s : p.cable.seen)
    EXPECT_FALSE(s.from == 0 && s.type() == arp && s.octets[0] != 2) << "asked alone, not by broadcast";
  EXPECT_GE(probes(1), 1U);
}

TEST(SimNeighbour, AnnouncementsSpareTheQuestionWhereTheyAreLearntFrom) {
  for (const bool learns : {false, true}) {
    HostOptions options;
    options.learn_announcements = learns;
    for (int kind = 0; kind < 3; ++kind) {
      NeighbourPair p(options);
      p.open(kind == 0   ? p.to_b()
             : kind == 1 ? p.to_b(Address::Family::v6)
                         : with_port(p.cable.hosts[1]->link_local(0), 7471));
      ASSERT_TRUE(p.cable.run_until([&] { return p.a.connected == 1 && p.b.accepted == 1; }));
      EXPECT_EQ(p.cable.count([](const Cable::Seen& s) { return s.type() == arp || is_nd(s, 135); }), learns      ? 0U
                                                                                                      : kind == 0 ? 2U
                                                                                                                  : 1U);
    }
  }
}

TEST(SimNeighbour, AHostWithoutIpv6IgnoresIt) {
  HostOptions no_v6;
  no_v6.ipv6 = false;
  PlainTcp a, b;
  Cable cable;
  cable.add().set_machine(&a);
  cable.add(no_v6).set_machine(&b);
  for (auto& host : cable.hosts) host->set_app(nullptr);
  cable.start();
  a.open(with_port(cable.hosts[1]->address(Address::Family::v6, 0), 7471));
  cable.hosts[0]->set_timer(cable.engine.now(), 0);
  ASSERT_TRUE(cable.run_until([&] { return !a.failures.empty(); }));
  EXPECT_EQ(a.failures[0], std::make_error_code(std::errc::host_unreachable));
  EXPECT_EQ(cable.discards.back(), "IPv6 is off");
}

}  // namespace
}  // namespace parley::sim::testing_hosts
