// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The rules of a TCP connection, one by one.
#include "sim_tcp_kit.hpp"

namespace parley::sim {
namespace {
using namespace kit;

// ---- handshake ----------------------------------------------------------------------------------------------------

TEST(SimTcp, ThreeSegmentsConnectBothEnds) {
  Pair p;
  p.connect();
  EXPECT_EQ(p.words(true), "S A");
  EXPECT_EQ(p.words(false), "SA");
  EXPECT_EQ(p.a.events, "connected");
  EXPECT_EQ(p.b.events, "connected");
  EXPECT_EQ(p.a.tcp.next_deadline(), never);
  EXPECT_EQ(p.b.tcp.next_deadline(), never);
  EXPECT_EQ(p.buffers.out(), 0U);
}

TEST(SimTcp, SynOffersWhatIsSwitchedOn) {
  Pair p;
  p.connect();
  for (const Segment& s : {p.sent[0], p.sent[1]}) {
    EXPECT_EQ(s.header.mss, 1460);
    EXPECT_TRUE(s.header.sack_permitted);
    EXPECT_TRUE(s.header.timestamps);
    EXPECT_EQ(s.header.window_scale, 3);  // 65535 << 3 is the first to reach 256 Ki
    EXPECT_EQ(s.header.window, 65535);    // never scaled in a SYN
  }
  EXPECT_EQ(p.a.tcp.emss(), full);
}

TEST(SimTcp, OptionsHoldOnlyIfBothEndsHaveThem) {
  PairOptions o;
  o.b.window_scale = o.b.sack_permitted = o.b.timestamps = false;
  Pair p(o);
  p.connect();
  EXPECT_FALSE(p.sent[1].header.timestamps);
  EXPECT_FALSE(p.sent[1].header.sack_permitted);
  EXPECT_EQ(p.sent[1].header.window_scale, -1);
  EXPECT_FALSE(p.sent[2].header.timestamps);
  EXPECT_EQ(p.sent[2].header.window, 65535);  // not scaled
  EXPECT_EQ(p.a.tcp.emss(), 1460);
  p.write(true, text(200000));
  p.write(false, text(200000));
  p.run(1s);
  EXPECT_EQ(p.a.received, text(200000));
  EXPECT_EQ(p.b.received, text(200000));
}

// RFC 9293 §3.7.1
TEST(SimTcp, MssOfThePeerIsHonoured) {
  PairOptions o;
  o.mss_b = 500;
  Pair p(o);
  p.connect();
  EXPECT_EQ(p.a.tcp.emss(), 488);
  p.write(true, text(5000));
  p.run(1s);
  for (const Segment& s : p.sent) EXPECT_LE(s.payload.size(), 488U);
  EXPECT_EQ(p.b.received, text(5000));
}

TEST(SimTcp, WithoutAnMssOptionSegmentsAreSmall) {
  Pair p;
  p.a.tcp.connect(p.now);
  p.drain(true);
  TcpHeader h;
  h.flags = flag::syn | flag::ack;
  h.ack = 1001;
  h.window = 5000;
  p.inject(true, h);
  EXPECT_EQ(p.a.tcp.emss(), 536);
}

TEST(SimTcp, WindowScaleReachesBeyond64KiB) {
  PairOptions o;
  o.delay = 10ms;
  Pair p(o);
  p.connect();
  for (int i = 0; i < 8; ++i) {
    p.write(true, text(std::min<std::size_t>(p.a.tcp.room(), 100000)));
    p.run(200ms);
  }
  const std::size_t from = p.sent.size();
  p.write(true, text(250000));
  std::size_t at_once = 0;
  for (const Segment& s : of(p, true, from)) at_once += s.payload.size();
  EXPECT_GT(at_once, 65535U);
}

TEST(SimTcp, WithoutWindowScale64KiBAreTheLimit) {
  PairOptions o;
  o.delay = 10ms;
  o.b.window_scale = false;
  Pair p(o);
  p.connect();
  for (int i = 0; i < 8; ++i) {
    p.write(true, text(std::min<std::size_t>(p.a.tcp.room(), 100000)));
    p.run(200ms);
  }
  const std::size_t from = p.sent.size();
  p.write(true, text(250000));
  std::size_t at_once = 0;
  for (const Segment& s : of(p, true, from)) at_once += s.payload.size();
  EXPECT_LE(at_once, 65535U);
  EXPECT_GT(at_once, 60000U);
}

// RFC 9293 §3.5, figure 7
TEST(SimTcp, SimultaneousOpenConnectsBothEnds) {
  Pair p;
  p.accepted = true;
  p.a.tcp.connect(p.now);
  p.b.tcp.connect(p.now);
  p.drain(true);
  p.drain(false);
  p.run(100ms);
  EXPECT_EQ(p.a.events, "connected");
  EXPECT_EQ(p.b.events, "connected");
  p.write(true, text(3000));
  p.write(false, text(4000));
  p.run(100ms);
  EXPECT_EQ(p.b.received, text(3000));
  EXPECT_EQ(p.a.received, text(4000));
}

TEST(SimTcp, ALostSynIsSentAgainAfterOneSecondThenTwo) {
  Pair p;
  p.fate = [n = 0](const Segment& s) mutable { return s.header.syn() && s.first && n++ < 2 ? lost() : Pair::Fate{}; };
  p.a.tcp.connect(p.now);
  p.drain(true);
  p.run(10s);
  const auto syns = of(p, true);
  ASSERT_GE(syns.size(), 3U);
  EXPECT_EQ(syns[1].at - syns[0].at, 1s);
  EXPECT_EQ(syns[2].at - syns[1].at, 2s);
  EXPECT_EQ(p.a.events, "connected");
  EXPECT_EQ(p.a.tcp.retransmits(), 2U);
}

TEST(SimTcp, SynRetriesRunOut) {
  Pair p;
  p.fate = [](const Segment&) { return lost(); };
  p.a.tcp.connect(p.now);
  p.drain(true);
  const Instant start = p.now;
  Instant end{};
  while (p.step()) end = p.now;
  EXPECT_EQ(p.words(true), "S S S S S S S");
  EXPECT_EQ(p.a.events, "timeout closed");
  EXPECT_EQ(end - start, 1s + 2s + 4s + 8s + 16s + 32s + 60s);  // the last wait is cut to rto_max
  EXPECT_EQ(p.a.tcp.next_deadline(), never);
}

TEST(SimTcp, SynAckIsSentAgainWhenTheSynComesAgain) {
  Pair p;
  p.fate = [n = 0](const Segment& s) mutable { return !s.first && n++ == 0 ? lost() : Pair::Fate{}; };
  p.a.tcp.connect(p.now);
  p.drain(true);
  p.run(10s);
  EXPECT_EQ(p.a.events, "connected");
  EXPECT_EQ(p.b.events, "connected");
}

TEST(SimTcp, ALostLastAckOfTheHandshakeIsMadeGoodByData) {
  Pair p;
  p.fate = [](const Segment& s) { return s.first && s.payload.empty() && !s.header.syn() ? lost() : Pair::Fate{}; };
  p.a.tcp.connect(p.now);
  p.drain(true);
  p.run(5ms);
  EXPECT_EQ(p.b.events, "");
  p.write(true, text(100));
  p.run(5ms);
  EXPECT_EQ(p.b.events, "connected");
  EXPECT_EQ(p.b.received, text(100));
}

TEST(SimTcp, ResetOfTheSynIsRefusal) {
  Pair p;
  p.a.tcp.connect(p.now);
  p.drain(true);
  p.inject(true, wire::reset_for(p.sent[0].header, 0));
  EXPECT_EQ(p.a.events, "refused closed");
  EXPECT_EQ(p.a.tcp.state(), TcpState::closed);
}

TEST(SimTcp, ResetThatDoesNotAnswerTheSynIsIgnored) {
  Pair p;
  p.a.tcp.connect(p.now);
  p.drain(true);
  TcpHeader h = wire::reset_for(p.sent[0].header, 0);
  h.ack += 1;
  p.inject(true, h);
  h.flags = flag::rst;
  p.inject(true, h);
  EXPECT_EQ(p.a.events, "");
  EXPECT_EQ(p.a.tcp.state(), TcpState::syn_sent);
}

// RFC 9293 §3.10.7.3
TEST(SimTcp, AnAckOfSomethingElseInSynSentIsAnsweredWithReset) {
  Pair p;
  p.a.tcp.connect(p.now);
  p.drain(true);
  TcpHeader h;
  h.flags = flag::ack;
  h.ack = 77;
  p.inject(true, h);
  EXPECT_EQ(p.words(true), "S R");
  EXPECT_EQ(p.sent.back().header.seq, 77U);
  EXPECT_EQ(p.a.tcp.state(), TcpState::syn_sent);
}

TEST(SimTcp, WhatIsWrittenBeforeTheHandshakeEndsIsSentThen) {
  Pair p;
  p.a.tcp.connect(p.now);
  p.write(true, text(100));
  p.shutdown(true);
  p.run(1s);
  EXPECT_EQ(p.b.received, text(100));
  EXPECT_EQ(p.b.events, "connected fin");
  EXPECT_EQ(p.a.tcp.state(), TcpState::fin_wait_2);
}

// ---- data -----------------------------------------------------------------------------------------------------------

TEST(SimTcp, EverySecondFullSegmentIsAcknowledgedAtOnce) {
  Pair p;
  p.connect();
  const std::size_t from = p.sent.size();
  p.write(true, text(4 * full));
  p.run(10ms);
  EXPECT_EQ(p.words(false, from), "A A");
}

TEST(SimTcp, ASingleSegmentIsAcknowledgedAfter40Milliseconds) {
  Pair p;
  p.connect();
  const std::size_t from = p.sent.size();
  p.write(true, text(100));
  const Instant arrival = p.now + 1ms;
  p.run(500ms);
  const auto acks = of(p, false, from);
  ASSERT_EQ(acks.size(), 1U);
  EXPECT_EQ(acks[0].at, arrival + 40ms);
  EXPECT_EQ(p.a.tcp.retransmits(), 0U);
}

TEST(SimTcp, AnAnswerCarriesTheAck) {
  Pair p;
  p.connect();
  p.write(true, text(100));
  p.run(2ms);
  const std::size_t from = p.sent.size();
  p.write(false, text(50));
  p.run(20ms);
  EXPECT_EQ(p.words(false, from), "50");
  EXPECT_EQ(p.a.tcp.send_queue(), 0U);
}

TEST(SimTcp, OnlyTheLastOctetsOfWhatIsQueuedArePushed) {
  Pair p;
  p.connect();
  const std::size_t from = p.sent.size();
  p.write(true, text(2 * full + 10));
  const auto s = of(p, true, from);
  ASSERT_EQ(s.size(), 3U);
  EXPECT_EQ(s[0].header.flags & flag::psh, 0);
  EXPECT_EQ(s[1].header.flags & flag::psh, 0);
  EXPECT_EQ(s[2].header.flags & flag::psh, flag::psh);
}

TEST(SimTcp, SlowStartBeginsWithTenSegments) {
  PairOptions o;
  o.delay = 10ms;
  Pair p(o);
  p.connect();
  const std::size_t from = p.sent.size();
  p.write(true, text(100 * full));
  EXPECT_EQ(of(p, true, from).size(), 10U);
}

TEST(SimTcp, SequenceNumbersWrapInMidStream) {
  PairOptions o;
  o.iss_a = 0xFFFFFFFF - 30000;
  o.iss_b = 0xFFFFFFFF;
  Pair p(o);
  p.connect();
  p.fate = lose_data(true, 15);
  p.write(true, text(200000));
  p.write(false, text(5000));
  p.run(10s);
  EXPECT_EQ(p.b.received, text(200000));
  EXPECT_EQ(p.a.received, text(5000));
  p.shutdown(true);
  p.shutdown(false);
  p.run(100s);
  EXPECT_EQ(p.a.events, "connected fin closed");
  EXPECT_EQ(p.b.events, "connected fin closed");
}

TEST(SimTcp, NoMoreIsTakenThanTheSendBufferHolds) {
  PairOptions o;
  o.a.send_buffer = 1000;
  Pair p(o);
  EXPECT_EQ(p.a.tcp.write(p.now, text(10)), 0U);  // not before connect
  p.connect();
  EXPECT_EQ(p.a.tcp.write(p.now, text(3000)), 1000U);
  EXPECT_EQ(p.a.tcp.room(), 0U);
  EXPECT_EQ(p.a.tcp.send_queue(), 1000U);
  p.drain(true);
  p.run(1s);
  EXPECT_EQ(p.a.tcp.room(), 1000U);
  EXPECT_EQ(p.buffers.out(), 0U);
}

TEST(SimTcp, AWindowOfOneOctetStillCarriesEverything) {
  PairOptions o;
  o.b.receive_buffer = 1;
  Pair p(o);
  p.connect();
  p.write(true, text(20));
  p.run(100ms);
  EXPECT_EQ(p.b.received, text(20));
  for (const Segment& s : p.sent) EXPECT_LE(s.payload.size(), 1U);
}

// ---- loss -----------------------------------------------------------------------------------------------------------

TEST(SimTcp, RtoDoublesUntilAnAnswerComes) {
  Pair p;
  p.connect();
  p.write(true, text(10));
  p.run(1s);  // a sample of the round trip
  p.fate = [](const Segment& s) { return s.first ? lost() : Pair::Fate{}; };
  const std::size_t from = p.sent.size();
  p.write(true, text(100));
  p.run(13s);
  const auto s = of(p, true, from);
  ASSERT_GE(s.size(), 6U);
  for (std::size_t i = 2; i < 6; ++i) EXPECT_EQ(s[i].at - s[i - 1].at, 2 * (s[i - 1].at - s[i - 2].at));
  EXPECT_EQ(s[1].at - s[0].at, 200ms);
  p.fate = nullptr;
  p.run(60s);
  EXPECT_EQ(p.b.received.size(), 110U);
}

TEST(SimTcp, RtoFallsBackAfterTheLossIsOver) {
  for (const bool timestamps : {false, true}) {
    PairOptions o;
    o.a.timestamps = timestamps;
    Pair p(o);
    p.connect();
    p.fate = [](const Segment& s) { return s.first ? lost() : Pair::Fate{}; };
    p.write(true, text(100));
    p.run(20s);
    p.fate = nullptr;
    p.run(60s);
    p.write(true, text(100));  // timed: never sent twice
    p.run(1s);
    p.fate = lose_data(true, 0);
    const std::size_t from = p.sent.size();
    p.write(true, text(100));
    p.run(1s);
    const auto s = of(p, true, from);
    ASSERT_GE(s.size(), 2U);
    EXPECT_EQ(s[1].at - s[0].at, 200ms) << timestamps;
  }
}

// RFC 6298 §5.7
TEST(SimTcp, AfterALostSynTheRtoOfDataIsThreeSeconds) {
  PairOptions o;
  o.a.timestamps = false;
  Pair p(o);
  p.fate = [n = 0](const Segment&) mutable { return n++ == 0 ? lost() : Pair::Fate{}; };
  p.a.tcp.connect(p.now);
  p.drain(true);
  p.run(2s);
  ASSERT_EQ(p.a.events, "connected");
  p.fate = lose_data(true, 0);
  const std::size_t from = p.sent.size();
  p.write(true, text(100));
  p.run(5s);
  const auto s = of(p, true, from);
  ASSERT_EQ(s.size(), 2U);
  EXPECT_EQ(s[1].at - s[0].at, 3s);
}

TEST(SimTcp, RetriesOfDataRunOut) {
  PairOptions o;
  o.a.retries = 3;
  Pair p(o);
  p.connect();
  p.fate = [](const Segment&) { return lost(); };
  const std::size_t from = p.sent.size();
  p.write(true, text(100));
  p.run(100s);
  EXPECT_EQ(p.words(true, from), "100 100 100 100");
  EXPECT_EQ(p.a.events, "connected timeout closed");
  EXPECT_EQ(p.buffers.out(), 0U);
}

TEST(SimTcp, ThreeDuplicateAcksBringTheSegmentWithoutWaiting) {
  Pair p;
  p.connect();
  p.fate = lose_data(true, 2);
  const Instant start = p.now;
  Instant complete{};
  p.write(true, text(10 * full));
  while (p.step(start + 10s))
    if (complete == Instant{} && p.b.received.size() == 10 * full) complete = p.now;
  EXPECT_EQ(p.b.received, text(10 * full));
  EXPECT_EQ(p.a.tcp.retransmits(), 1U);
  EXPECT_EQ(complete - start, 3ms);  // one round trip and the way of the second copy, far below the RTO
}

TEST(SimTcp, TwoDuplicateAcksDoNot) {
  Pair p;
  p.connect();
  p.fate = lose_data(true, 2);
  p.write(true, text(5 * full));  // two segments behind the lost one
  p.run(100ms);
  EXPECT_EQ(p.a.tcp.retransmits(), 0U);
  p.run(1s);
  EXPECT_EQ(p.b.received, text(5 * full));
}

// RFC 6582 §3.2
TEST(SimTcp, SeveralLossesInOneWindowAreRepairedOneByOneWithoutRto) {
  PairOptions o;
  o.delay = 5ms;
  Pair p(o);
  p.connect();
  p.write(true, text(60 * full));
  p.run(200ms);
  p.b.received.clear();
  p.fate = [n = 0](const Segment& s) mutable {
    if (!s.first || s.payload.empty()) return Pair::Fate{};
    const int i = n++;
    return i == 3 || i == 5 || i == 9 ? lost() : Pair::Fate{};
  };
  const std::uint64_t before = p.a.tcp.retransmits();
  p.write(true, text(30 * full));
  p.run(150ms);  // less than the RTO
  EXPECT_EQ(p.b.received, text(30 * full));
  EXPECT_EQ(p.a.tcp.retransmits() - before, 3U);
}

TEST(SimTcp, OutOfOrderIsAcknowledgedAtOnceWithSackBlocks) {
  Pair p;
  p.connect();
  p.fate = [n = 0](const Segment& s) mutable {
    if (!s.first || s.payload.empty()) return Pair::Fate{};
    const int i = n++;
    return i == 0 || i == 2 ? lost() : Pair::Fate{};
  };
  const std::size_t from = p.sent.size();
  p.write(true, text(4 * full));
  p.run(3ms);
  const auto acks = of(p, false, from);
  ASSERT_EQ(acks.size(), 2U);
  const auto one = static_cast<std::uint32_t>(full);
  EXPECT_EQ(acks[0].header.ack, 1001U);
  ASSERT_EQ(acks[0].header.sack_count, 1);
  EXPECT_EQ(acks[0].header.sack[0], (TcpHeader::Block{1001 + one, 1001 + 2 * one}));
  ASSERT_EQ(acks[1].header.sack_count, 2);
  EXPECT_EQ(acks[1].header.sack[0], (TcpHeader::Block{1001 + 3 * one, 1001 + 4 * one}));  // the newest first
  EXPECT_EQ(acks[1].header.sack[1], (TcpHeader::Block{1001 + one, 1001 + 2 * one}));
  EXPECT_EQ(p.b.tcp.out_of_order(), 2U);
  EXPECT_GT(p.b.tcp.reassembly(), 0U);
  p.run(5s);
  EXPECT_EQ(p.b.received, text(4 * full));
  EXPECT_EQ(p.b.tcp.reassembly(), 0U);
  EXPECT_EQ(p.sent.back().header.sack_count, 0);
}

TEST(SimTcp, NoSackBlocksUnlessPermitted) {
  PairOptions o;
  o.a.sack_permitted = false;
  Pair p(o);
  p.connect();
  p.fate = lose_data(true, 0);
  p.write(true, text(4 * full));
  p.run(5s);
  for (const Segment& s : p.sent) EXPECT_EQ(s.header.sack_count, 0);
}

TEST(SimTcp, FillingAGapIsAcknowledgedAtOnce) {
  Pair p;
  p.connect();
  p.fate = [n = 0](const Segment& s) mutable {
    return s.first && !s.payload.empty() && n++ == 0 ? Pair::Fate{.copies = 1, .extra = 5ms} : Pair::Fate{};
  };
  const std::size_t from = p.sent.size();
  p.write(true, text(full + 10));
  p.run(7ms);
  EXPECT_EQ(p.b.received, text(full + 10));
  EXPECT_EQ(p.words(false, from), "A A");
}

TEST(SimTcp, MoreGapsThanCanBeRememberedOnlyCostTime) {
  Pair p;
  p.connect();
  const Bytes all = text(1000);
  TcpHeader h = next_header(p, true);
  const std::uint32_t first = h.seq;
  for (std::uint32_t i = 1; i < 1000; i += 2) {  // every second octet
    h.seq = first + i;
    p.inject(false, h, ConstBytes(all).subspan(i, 1));
  }
  for (std::uint32_t i = 0; i < 1000; ++i) {
    h.seq = first + i;
    p.inject(false, h, ConstBytes(all).subspan(i, 1));
  }
  EXPECT_EQ(p.b.received, all);
  EXPECT_EQ(p.b.tcp.reassembly(), 0U);
}

}  // namespace
}  // namespace parley::sim
