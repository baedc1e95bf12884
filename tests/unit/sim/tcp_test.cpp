// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The rules of a TCP connection, one by one.
#include "tcp_kit.hpp"

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

// RFC 9293 §3.8.6.2.1
TEST(SimTcp, NoSmallSegmentsInMidStreamWhereAWindowIsTheLimit) {
  PairOptions o;
  o.b.receive_buffer = 20000;  // not a multiple of a segment
  Pair p(o);
  p.connect();
  const std::size_t from = p.sent.size();
  p.write(true, text(100 * full));
  p.run(5s);
  EXPECT_EQ(p.b.received, text(100 * full));
  for (const Segment& s : of(p, true, from)) EXPECT_EQ(s.payload.size(), full);
}

// RFC 7323 §4.3
TEST(SimTcp, AnAckEchoesTheTimestampOfTheFirstSegmentItAnswers) {
  Pair p;
  p.connect();
  TcpHeader h = next_header(p, true);
  const std::size_t from = p.sent.size();
  h.ts_value += 5;
  p.inject(false, h, text(100));
  h.seq += 100;
  h.ts_value += 5;
  p.inject(false, h, text(100));
  EXPECT_EQ(p.words(false, from), "");
  p.run(40ms);
  const auto acks = of(p, false, from);
  ASSERT_EQ(acks.size(), 1U);
  EXPECT_EQ(acks[0].header.ts_echo, h.ts_value - 5);
}

TEST(SimTcp, AnAckFromThePeerThatFilledTheWindowCounts) {
  PairOptions o;
  o.a.receive_buffer = 3 * full;
  Pair p(o);
  p.connect();
  p.fate = [n = 0](const Segment& s) mutable { return !s.first && n++ == 0 ? lost() : Pair::Fate{}; };
  p.write(false, text(3 * full));  // the first segment is lost; the next number of b is the edge of the window
  p.write(true, text(2 * full));
  p.run(2500us);  // before the lost segment comes again
  EXPECT_EQ(p.a.tcp.send_queue(), 0U);
}

TEST(SimTcp, OctetsKeepTheirOrderEvenIfTheReaderIsSlowToAsk) {
  Pair p;
  p.connect();
  TcpHeader h = next_header(p, true);
  const Bytes all = text(300);
  p.b.tcp.pause();
  p.inject(false, h, ConstBytes(all).first(100));
  p.b.tcp.resume(p.now);
  h.seq += 100;
  p.inject(false, h, ConstBytes(all).subspan(100, 200));
  EXPECT_EQ(p.b.received, all);
}

}  // namespace
}  // namespace parley::sim
