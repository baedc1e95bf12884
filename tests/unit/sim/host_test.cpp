// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Hosts as a driver: what a plain TCP program and its peer see.
#include "host_kit.hpp"
#include "sim/host/stack.hpp"

namespace parley::sim::testing_hosts {
namespace {

using Kind = StreamCommand::Kind;

bool is_tcp(const Cable::Seen& s, std::uint8_t flags, std::uint8_t mask = 0x3F) {
  const wire::PacketView p = s.packet();
  return p.kind == wire::PacketKind::tcp && (p.tcp.flags & mask) == flags;
}
std::error_code code(std::errc e) { return std::make_error_code(e); }

/// Two hosts with plain TCP programs; b listens on 7471 of every address.
struct PlainPair {
  explicit PlainPair(const HostOptions& options = {}, std::uint64_t seed = 1) : cable(seed) {
    for (PlainTcp* machine : {&a, &b}) {
      Host& host = cable.add(options);
      host.set_machine(machine);
      cable.hosts.back()->set_app(nullptr);
    }
    b.listen(Address::any(Address::Family::v4, 7471));
    if (options.ipv6) b.listen(Address::any(Address::Family::v6, 7471));
    cable.start();
  }
  Host& ha() { return *cable.hosts[0]; }
  Host& hb() { return *cable.hosts[1]; }
  Address to_b(Address::Family family = Address::Family::v4) { return with_port(hb().address(family, 0), 7471); }
  /// Makes a host look after its program.
  void wake(Host& host) { host.set_timer(cable.engine.now(), 0); }
  void connect(const Address& to) {
    a.open(to);
    wake(ha());
    ASSERT_TRUE(cable.run_until([&] { return b.accepted == 1 && a.connected == 1; }));
  }
  PlainTcp a, b;
  Cable cable;
};

TEST(SimHost, ConnectsAndCarriesOctetsBothWaysOverEveryKindOfAddress) {
  for (int kind = 0; kind < 3; ++kind) {
    PlainPair p;
    const Address to = kind == 0   ? p.to_b()
                       : kind == 1 ? p.to_b(Address::Family::v6)
                                   : with_port(p.hb().link_local(0), 7471);
    p.connect(to);
    ASSERT_EQ(p.a.streams.size(), 1U);
    EXPECT_EQ(p.a.streams[0].info.peer, to);
    EXPECT_EQ(p.b.streams[0].info.local.octets, to.octets);
    EXPECT_EQ(p.b.streams[0].info.local.port, 7471);
    EXPECT_EQ(p.b.streams[0].info.peer, p.a.streams[0].info.local);
    EXPECT_EQ(p.a.streams[0].info.local.scope_id, kind == 2 ? 1U : 0U);
    EXPECT_EQ(p.a.streams[0].info.emss, (kind == 0 ? 1460 : 1440) - 12);
    EXPECT_EQ(p.b.streams[0].id % 2, 0U) << "the driver's streams have even numbers";
    const Bytes there = pattern(700'000, 7), back = pattern(500'000, 13);
    p.a.say(p.a.streams[0].id, there);
    p.b.say(p.b.streams[0].id, back);
    p.wake(p.ha()), p.wake(p.hb());
    ASSERT_TRUE(p.cable.run_until(
        [&] { return p.b.streams[0].in.size() == there.size() && p.a.streams[0].in.size() == back.size(); }));
    EXPECT_EQ(p.b.streams[0].in, there);
    EXPECT_EQ(p.a.streams[0].in, back);
    EXPECT_TRUE(p.cable.discards.empty()) << p.cable.discards.front();
    EXPECT_EQ(p.ha().counters().discarded, 0U);
    EXPECT_EQ(p.ha().counters().streams, 1U);
    EXPECT_EQ(p.ha().counters().tcp_retransmits, 0U);
    EXPECT_GE(p.ha().counters().send_queue_peak, 200'000U);
  }
}

TEST(SimHost, AddressesComeFromTheHostsNumber) {
  PlainPair p;
  EXPECT_EQ(p.hb().address(Address::Family::v4, 0).to_string(), "10.0.0.2:0");
  EXPECT_EQ(p.hb().address(Address::Family::v6, 0).to_string(), "[2001:db8::2]:0");
  EXPECT_EQ(p.hb().link_local(0).to_string(), "[fe80::2%1]:0");
  const PortAddresses far = make_addresses(0x1233, 2, 9);
  EXPECT_EQ(far.v4.to_string(), "10.9.18.52:0");
  EXPECT_EQ(far.v6.to_string(), "[2001:db8:9::1234]:0");
  EXPECT_EQ(far.link_local.to_string(), "[fe80::2:1234%3]:0");
  EXPECT_EQ(far.mac, (wire::Mac{2, 0, 0, 2, 0x12, 0x34}));
}

TEST(SimHost, OpensAnswerWithTheErrorThatASocketWouldGive) {
  HostOptions no_v6;
  no_v6.ipv6 = false;
  struct Case {
    const char* what;
    Address to;
    Address from;
    std::errc error;
  };
  const Address any = Address::any(Address::Family::v4, 0), any6 = Address::any(Address::Family::v6, 0);
  PlainPair p;
  Address scopeless = with_port(p.hb().link_local(0), 7471), far_scope = scopeless;
  scopeless.scope_id = 0;
  far_scope.scope_id = 2;
  const Case cases[] = {
      {"there is no listener", with_port(p.to_b(), 9), any, std::errc::connection_refused},
      {"there is no listener, IPv6", with_port(p.to_b(Address::Family::v6), 9), any6, std::errc::connection_refused},
      {"no route", Address::v4(192, 0, 2, 1, 7471), any, std::errc::network_unreachable},
      {"nobody there", Address::v4(10, 0, 0, 77, 7471), any, std::errc::host_unreachable},
      {"nobody there, IPv6", with_port(p.cable.hosts[1]->address(Address::Family::v6, 7), 7471), any6,
       std::errc::network_unreachable},
      {"no scope", scopeless, any6, std::errc::invalid_argument},
      {"no such scope", far_scope, any6, std::errc::network_unreachable},
      {"foreign source", p.to_b(), Address::v4(10, 0, 0, 9, 0), std::errc::address_not_available},
  };
  for (const Case& c : cases) {
    p.a.failures.clear();
    p.a.open(c.to, c.from);
    p.wake(p.ha());
    ASSERT_TRUE(p.cable.run_until([&] { return !p.a.failures.empty(); })) << c.what;
    EXPECT_EQ(p.a.failures[0], code(c.error)) << c.what << ": " << p.a.failures[0].message();
    EXPECT_EQ(p.ha().counters().streams, 0U) << c.what;
  }
  PlainPair q(no_v6);
  q.a.open(with_port(q.hb().address(Address::Family::v6, 0), 7471));
  q.wake(q.ha());
  ASSERT_TRUE(q.cable.run_until([&] { return !q.a.failures.empty(); }));
  EXPECT_EQ(q.a.failures[0], code(std::errc::address_family_not_supported));
}

TEST(SimHost, ListenersClashAsSocketsDo) {
  PlainPair p;
  p.b.listen(with_port(p.hb().address(Address::Family::v4, 0), 7471));
  p.b.listen(with_port(p.ha().address(Address::Family::v4, 0), 80));
  p.b.listen(Address::any(Address::Family::v4, 0));
  p.wake(p.hb());
  ASSERT_TRUE(p.cable.run_until([&] { return p.b.failures.size() == 2 && p.b.listening.size() == 3; }));
  EXPECT_EQ(p.b.failures[0], code(std::errc::address_in_use));
  EXPECT_EQ(p.b.failures[1], code(std::errc::address_not_available));
  EXPECT_GE(p.b.listening[2].port, 32768);
}

TEST(SimHost, ALocalPortThatWasAskedForIsUsedAndOnlyOnce) {
  PlainPair p;
  p.a.open(p.to_b(), Address::any(Address::Family::v4, 5555));
  p.a.open(p.to_b(), Address::any(Address::Family::v4, 5555));
  p.wake(p.ha());
  ASSERT_TRUE(p.cable.run_until([&] { return p.a.connected == 1 && p.a.failures.size() == 1; }));
  EXPECT_EQ(p.a.streams[0].info.local.port, 5555);
  EXPECT_EQ(p.a.failures[0], code(std::errc::address_in_use));
}

TEST(SimHost, PortsThatRanOutAreNotLookedForAgainBeforeOneIsFree) {
  Rng rng(1);
  Stack stack(rng);
  ConnectionKey key{.peer_port = 7471};
  std::vector<std::uint32_t> slots;
  for (std::uint32_t i = 0; i < Stack::ephemeral_ports; ++i) {
    key.local_port = stack.pick_port(key);
    ASSERT_GE(key.local_port, Stack::ephemeral_first);
    slots.push_back(stack.add(key));
  }
  // Each look at all the ports takes half a millisecond, which this many would make most of an hour.
  for (int i = 0; i < 5'000'000; ++i) ASSERT_EQ(stack.pick_port(key), 0);
  ConnectionKey elsewhere{.peer_port = 7472};
  EXPECT_NE(stack.pick_port(elsewhere), 0) << "another port of the peer";
  const std::uint16_t freed = stack.at(slots[100]).key.local_port;
  stack.remove(slots[100]);
  EXPECT_EQ(stack.pick_port(key), freed);
}

TEST(SimHost, ASilentPeerEndsAnOpenWithATimeout) {
  HostOptions options;
  options.tcp.syn_retries = 2;
  PlainPair p(options);
  p.cable.passes = [](const Cable::Seen& s) { return s.type() == 0x0806; };
  p.a.open(p.to_b());
  p.wake(p.ha());
  ASSERT_TRUE(p.cable.run_until([&] { return !p.a.failures.empty(); }));
  EXPECT_EQ(p.a.failures[0], code(std::errc::timed_out));
  EXPECT_EQ(p.cable.count([](const Cable::Seen& s) { return is_tcp(s, wire::tcp_flag::syn); }), 3U);
  EXPECT_EQ(p.ha().counters().tcp_timeouts, 1U);
  EXPECT_EQ(p.ha().counters().tcp_retransmits, 2U);
}

TEST(SimHost, FinComesAfterAllOctetsAndLeavesTheOtherHalf) {
  PlainPair p;
  p.connect(p.to_b());
  const Bytes last = pattern(200'000);
  p.a.say(p.a.streams[0].id, last);
  p.wake(p.ha());
  ASSERT_TRUE(p.cable.run_until([&] { return p.a.streams[0].sent == last.size(); }));
  p.a.tell(Kind::shutdown, p.a.streams[0].id);
  p.wake(p.ha());
  ASSERT_TRUE(p.cable.run_until([&] { return p.b.streams[0].fin; }));
  EXPECT_EQ(p.b.streams[0].in, last);
  const Bytes answer = pattern(100'000, 3);
  p.b.say(p.b.streams[0].id, answer);
  p.wake(p.hb());
  ASSERT_TRUE(p.cable.run_until([&] { return p.a.streams[0].in.size() == answer.size(); }));
  p.b.tell(Kind::close, p.b.streams[0].id);
  p.wake(p.hb());
  ASSERT_TRUE(p.cable.run_until([&] { return p.a.streams[0].fin; }));
  EXPECT_EQ(p.hb().counters().streams, 0U);
  EXPECT_EQ(p.cable.count([](const Cable::Seen& s) { return is_tcp(s, wire::tcp_flag::rst, wire::tcp_flag::rst); }),
            0U);
}

/// a's half is closed, and b has said its last octets: none of a's acknowledgements has come back.
struct Finishing : PlainPair {
  explicit Finishing(const HostOptions& options = {}) : PlainPair(options) {
    connect(to_b());
    a.tell(Kind::shutdown, a.streams[0].id);
    wake(ha());
    EXPECT_TRUE(cable.run_until([&] { return b.streams[0].fin; }));
    cable.run_for(1s);
    cable.passes = [](const Cable::Seen& s) { return s.from == 1; };
    b.say(b.streams[0].id, pattern(100));
    wake(hb());
    EXPECT_TRUE(cable.run_until([&] { return b.streams[0].sent == 100; }));
    b.tell(Kind::finish, b.streams[0].id);
    wake(hb());
    cable.run_for(100ms);
  }
  const PlainTcp::Stream& stream() { return b.streams[0]; }
};

TEST(SimHost, AFinishedStreamIsDeliveredWithItsLastAcknowledgement) {
  Finishing p;
  EXPECT_EQ(p.a.streams[0].in.size(), 100U);
  EXPECT_FALSE(p.stream().delivered) << "b does not know that";
  p.cable.passes = nullptr;
  EXPECT_TRUE(p.cable.run_until([&] { return p.stream().delivered; }, 2s));
  EXPECT_EQ(p.hb().counters().streams, 0U);
}

TEST(SimHost, AFinishedStreamWhoseOctetsNobodyAcknowledgesFails) {
  HostOptions options;
  options.tcp.retries = 3;
  Finishing p(options);
  EXPECT_TRUE(p.cable.run_until([&] { return p.stream().timeout; }, 60s));
  EXPECT_FALSE(p.stream().delivered);
}

TEST(SimHost, AFinishedStreamWithNothingUnderWayIsDeliveredAtOnce) {
  PlainPair p;
  p.connect(p.to_b());
  p.a.tell(Kind::shutdown, p.a.streams[0].id);
  p.wake(p.ha());
  ASSERT_TRUE(p.cable.run_until([&] { return p.b.streams[0].fin; }));
  p.b.tell(Kind::finish, p.b.streams[0].id);
  p.wake(p.hb());
  p.cable.passes = [](const Cable::Seen&) { return false; };
  EXPECT_TRUE(p.cable.run_until([&] { return p.b.streams[0].delivered; }, 1ms));
}

TEST(SimHost, ResetIsHeardAndForgotten) {
  PlainPair p;
  p.connect(p.to_b());
  p.a.tell(Kind::reset, p.a.streams[0].id);
  p.wake(p.ha());
  ASSERT_TRUE(p.cable.run_until([&] { return p.b.streams[0].rst; }));
  EXPECT_FALSE(p.a.streams[0].rst);
  EXPECT_EQ(p.ha().counters().streams, 0U);
  EXPECT_EQ(p.hb().counters().streams, 0U);
  EXPECT_EQ(p.ha().counters().resets_sent, 1U);
}

TEST(SimHost, OctetsForAClosedStreamAreAnsweredByReset) {
  PlainPair p;
  p.connect(p.to_b());
  p.b.tell(Kind::close, p.b.streams[0].id);
  p.wake(p.hb());
  ASSERT_TRUE(p.cable.run_until([&] { return p.a.streams[0].fin; }));
  p.a.say(p.a.streams[0].id, pattern(10));
  p.wake(p.ha());
  EXPECT_TRUE(p.cable.run_until([&] { return p.a.streams[0].rst; }));
}

TEST(SimHost, ARefusedAcceptIsReset) {
  PlainPair p;
  p.b.refuse = true;
  p.a.open(p.to_b());
  p.wake(p.ha());
  ASSERT_TRUE(p.cable.run_until([&] { return p.a.connected == 1 && p.a.streams[0].rst; }));
  EXPECT_EQ(p.hb().counters().streams, 0U);
}

TEST(SimHost, APausedStreamHoldsThePeerBackAndLosesNothing) {
  HostOptions options;
  options.tcp.receive_buffer = 20'000;
  options.tcp.send_buffer = 20'000;
  PlainPair p(options);
  p.connect(p.to_b());
  p.b.tell(Kind::pause, p.b.streams[0].id);
  p.wake(p.hb());
  const Bytes all = pattern(200'000);
  p.a.say(p.a.streams[0].id, all);
  p.wake(p.ha());
  p.cable.run_for(20s);
  EXPECT_TRUE(p.b.streams[0].in.empty());
  EXPECT_LE(p.a.streams[0].sent, 45'000U) << "one receive buffer and one send buffer";
  p.b.tell(Kind::resume, p.b.streams[0].id);
  p.wake(p.hb());
  ASSERT_TRUE(p.cable.run_until([&] { return p.b.streams[0].in.size() == all.size(); }));
  EXPECT_EQ(p.b.streams[0].in, all);
}

TEST(SimHost, AFullSendBufferIsRefilledInLargePieces) {
  PlainPair p;
  p.connect(p.to_b());
  const Bytes all = pattern(4'000'000);
  p.a.say(p.a.streams[0].id, all);
  p.wake(p.ha());
  ASSERT_TRUE(p.cable.run_until([&] { return p.b.streams[0].in.size() == all.size(); }));
  EXPECT_EQ(p.b.streams[0].in, all);
  EXPECT_LT(p.a.gathers, 4'000'000 / (256 << 10) * 3 + 10);
}

TEST(SimHost, LossAndDisorderAreHealedAndCounted) {
  PlainPair p;
  p.connect(p.to_b());
  int n = 0;
  p.cable.passes = [&](const Cable::Seen&) { return ++n % 23 != 0; };
  const Bytes all = pattern(600'000);
  p.a.say(p.a.streams[0].id, all);
  p.wake(p.ha());
  ASSERT_TRUE(p.cable.run_until([&] { return p.b.streams[0].in.size() == all.size(); }));
  EXPECT_EQ(p.b.streams[0].in, all);
  EXPECT_GT(p.ha().counters().tcp_retransmits, 10U);
  EXPECT_GT(p.hb().counters().tcp_out_of_order, 10U);
  EXPECT_GT(p.hb().counters().reassembly_peak, 0U);
}

TEST(SimHost, ATimerThatMovesEarlierIsKept) {
  PlainPair p;
  p.connect(p.to_b());  // the SYN had a time-out of a second
  int lost = 0;
  p.cable.passes = [&](const Cable::Seen& s) { return s.from == 1 || s.packet().tcp.payload.empty() || ++lost > 1; };
  const Instant begun = p.cable.engine.now();
  p.a.say(p.a.streams[0].id, pattern(100));
  p.wake(p.ha());
  ASSERT_TRUE(p.cable.run_until([&] { return p.b.streams[0].in.size() == 100; }));
  EXPECT_GE(p.cable.engine.now() - begun, 200ms);
  EXPECT_LE(p.cable.engine.now() - begun, 300ms) << "the time-out of data";
}

TEST(SimHost, AStreamThatTakesThePlaceOfOneJustDroppedIsOpened) {
  PlainPair p;
  p.connect(p.to_b());
  p.a.tell(Kind::reset, p.a.open(p.to_b()));
  p.a.open(p.to_b());
  p.wake(p.ha());
  p.cable.run_for(1ms);
  EXPECT_EQ(p.a.connected, 2);
  EXPECT_EQ(p.ha().counters().streams, 2U);
}

TEST(SimHost, EveryDamagedFrameIsThrownAwayWithAReason) {
  PlainPair p;
  p.connect(p.to_b());
  const Bytes all = pattern(300'000);
  p.a.say(p.a.streams[0].id, all);
  std::uint32_t n = 0, damaged = 0;
  p.cable.spoil = [&](Frame& frame) {
    if (++n % 11 != 0) return;
    // Any octet behind the Ethernet addresses: some checksum or length covers each.
    frame.data()[12 + n * 31 % (frame.size - 12)] ^= 0x10;
    ++damaged;
  };
  p.wake(p.ha());
  ASSERT_TRUE(p.cable.run_until([&] { return p.b.streams[0].in.size() == all.size(); }));
  EXPECT_EQ(p.b.streams[0].in, all);
  p.cable.spoil = {};
  EXPECT_EQ(p.cable.discards.size(), damaged);
  EXPECT_EQ(p.ha().counters().discarded + p.hb().counters().discarded, damaged);
  EXPECT_NE(std::find(p.cable.discards.begin(), p.cable.discards.end(), "bad TCP checksum"), p.cable.discards.end());
}

TEST(SimHost, WhatBelongsToNobodyIsAnsweredAsTheRfcSays) {
  PlainPair p;
  const auto segment = [&](std::uint8_t flags, std::uint16_t port, std::size_t payload) {
    wire::TcpHeader header;
    header.source_port = 1000;
    header.destination_port = port;
    header.seq = 5000;
    header.ack = 9000;
    header.flags = flags;
    const Bytes octets = pattern(payload);
    const ConstBytes pieces[] = {octets};
    const PortAddresses from = make_addresses(0, 0, 0), to = make_addresses(1, 0, 0);
    FramePtr frame = write_segment(p.cable.engine.frames, from, LocalKind::v4, to.v4.octets, header, pieces, 1);
    std::copy(to.mac.begin(), to.mac.end(), frame->data());
    p.cable.seen.clear();
    p.cable.inject(0, Bytes(frame->octets().begin(), frame->octets().end()));
    frame.reset();
    p.cable.run_for(1s);
    std::vector<wire::TcpSegmentView> answers;
    for (const Cable::Seen& s : p.cable.seen)
      if (s.from == 1 && s.packet().kind == wire::PacketKind::tcp) answers.push_back(s.packet().tcp);
    return answers;
  };
  using namespace wire::tcp_flag;
  auto answers = segment(ack, 9, 10);  // RFC 9293 §3.10.7.1
  ASSERT_EQ(answers.size(), 1U);
  EXPECT_EQ(answers[0].flags, rst);
  EXPECT_EQ(answers[0].seq, 9000U);
  answers = segment(fin, 9, 10);
  ASSERT_EQ(answers.size(), 1U);
  EXPECT_EQ(answers[0].flags, rst | ack);
  EXPECT_EQ(answers[0].seq, 0U);
  EXPECT_EQ(answers[0].ack, 5011U);
  EXPECT_TRUE(segment(rst, 9, 0).empty());
  answers = segment(ack, 7471, 0);  // RFC 9293 §3.10.7.2
  ASSERT_EQ(answers.size(), 1U);
  EXPECT_EQ(answers[0].flags, rst);
  EXPECT_TRUE(segment(fin, 7471, 0).empty());
  EXPECT_TRUE(segment(rst, 7471, 0).empty());
}

TEST(SimHost, AFullBacklogDropsTheSyn) {
  PlainPair p;
  p.b.listen(Address::any(Address::Family::v4, 90), 2);
  p.wake(p.hb());
  p.cable.run_for(1ms);
  // Nothing of what b answers arrives: its connections stay half open.
  p.cable.passes = [](const Cable::Seen& s) { return s.from == 0 || s.type() == 0x0806; };
  for (int i = 0; i < 5; ++i) p.a.open(with_port(p.to_b(), 90));
  p.wake(p.ha());
  p.cable.run_for(500ms);
  EXPECT_EQ(p.cable.count([](const Cable::Seen& s) { return s.from == 1 && is_tcp(s, 0x12); }), 2U);
  p.cable.passes = {};
  ASSERT_TRUE(p.cable.run_until([&] { return p.a.connected == 5; })) << "the SYNs that were dropped come again";
}

TEST(SimHost, ACrashedHostIsSilentAndItsSuccessorResetsOldConnections) {
  PlainPair p;
  p.connect(p.to_b());
  p.cable.seen.clear();
  p.hb().crash();
  EXPECT_FALSE(p.hb().up());
  p.a.say(p.a.streams[0].id, pattern(100));
  p.wake(p.ha());
  p.cable.run_for(2s);
  EXPECT_EQ(p.cable.count([](const Cable::Seen& s) { return s.from == 1; }), 0U);
  EXPECT_FALSE(p.a.streams[0].rst);
  EXPECT_EQ(p.cable.discards.back(), "host is down");
  p.hb().restart();
  EXPECT_EQ(p.hb().incarnation(), 2U);
  ASSERT_TRUE(p.cable.run_until([&] { return p.a.streams[0].rst; }));
  EXPECT_EQ(p.ha().counters().streams, 0U);
}

TEST(SimHost, APeerThatNeverComesBackEndsTheConnectionByTimeout) {
  HostOptions options;
  options.tcp.retries = 4;
  PlainPair p(options);
  p.connect(p.to_b());
  p.hb().crash();
  p.a.say(p.a.streams[0].id, pattern(100));
  p.wake(p.ha());
  ASSERT_TRUE(p.cable.run_until([&] { return p.a.streams[0].timeout; }));
  EXPECT_EQ(p.ha().counters().tcp_timeouts, 1U);
}

TEST(SimHost, APausedHostKeepsItsRingAndItsTimersComeLate) {
  HostOptions options;
  options.ring = 4;
  PlainPair p(options);
  TestApp app;
  p.cable.hosts[1]->set_app(nullptr);
  p.connect(p.to_b());
  p.hb().pause();
  p.a.say(p.a.streams[0].id, pattern(14'480));  // ten segments, at once
  p.wake(p.ha());
  p.cable.run_for(100ms);
  EXPECT_TRUE(p.b.streams[0].in.empty());
  EXPECT_EQ(p.cable.discards.size(), 6U);
  EXPECT_EQ(p.cable.discards.front(), "host is paused and its ring is full");
  p.hb().resume();
  EXPECT_EQ(p.b.streams[0].in.size(), 4U * 1448);
  ASSERT_TRUE(p.cable.run_until([&] { return p.b.streams[0].in.size() == 14'480; }));
}

TEST(SimHost, TheSameSeedGivesTheSameFramesAndWorldsDoNotTouch) {
  const auto digest = [](std::uint64_t seed, bool beside) {
    PlainPair p({}, seed);
    PlainPair other({}, seed + 5);
    p.a.open(p.to_b());
    p.wake(p.ha());
    if (beside) other.connect(other.to_b());
    EXPECT_TRUE(p.cable.run_until([&] { return p.b.accepted == 1 && p.a.connected == 1; }));
    p.a.say(p.a.streams[0].id, pattern(50'000));
    p.wake(p.ha());
    EXPECT_TRUE(p.cable.run_until([&] { return p.b.streams[0].in.size() == 50'000; }));
    std::uint64_t hash = 14695981039346656037ULL;
    for (const Cable::Seen& s : p.cable.seen)
      for (const std::uint8_t octet : s.octets) hash = (hash ^ octet) * 1099511628211ULL;
    return hash;
  };
  EXPECT_EQ(digest(1, false), digest(1, true));
  EXPECT_NE(digest(1, false), digest(2, false)) << "initial sequence numbers come from the seed";
}

TEST(SimHost, DestructionInTheMiddleOfEverythingIsSafe) {
  for (int steps = 0; steps < 60; ++steps) {
    PlainPair p;
    p.a.open(p.to_b());
    p.a.open(p.to_b(Address::Family::v6));
    p.a.open(Address::v4(10, 0, 0, 77, 1));
    p.wake(p.ha());
    for (int i = 0; i < steps; ++i) (void)p.cable.engine.step(never);
    if (steps % 3 == 0) p.hb().crash();
  }
}

}  // namespace
}  // namespace parley::sim::testing_hosts
