// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// What a TCP connection does about losses: time-outs, fast retransmit, reassembly.
#include "tcp_kit.hpp"

namespace parley::sim {
namespace {
using namespace kit;

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
    if (!timestamps) p.write(true, text(100));  // timed: never sent twice; an echo tells even of what was
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

// RFC 6298 §2.2: the first measurement counts whole, whatever the RTO was before.
TEST(SimTcp, AfterALostSynTheFirstMeasuredRoundTripSetsTheRto) {
  PairOptions o;
  o.a.timestamps = false;
  Pair p(o);
  p.fate = [n = 0](const Segment&) mutable { return n++ == 0 ? lost() : Pair::Fate{}; };
  p.a.tcp.connect(p.now);
  p.drain(true);
  p.run(2s);
  p.write(true, text(100));
  p.run(1s);
  p.fate = lose_data(true, 0);
  const std::size_t from = p.sent.size();
  p.write(true, text(100));
  p.run(5s);
  const auto s = of(p, true, from);
  ASSERT_EQ(s.size(), 2U);
  EXPECT_LT(s[1].at - s[0].at, 300ms);
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

TEST(SimTcp, NeighboursBehindAGapAreOneBlock) {
  Pair p;
  p.connect();
  TcpHeader h = next_header(p, true);
  const std::uint32_t next = h.seq;
  for (const std::uint32_t at : {10U, 30U, 20U}) {
    h.seq = next + at;
    p.inject(false, h, text(10));
  }
  ASSERT_EQ(p.sent.back().header.sack_count, 1);
  EXPECT_EQ(p.sent.back().header.sack[0], (TcpHeader::Block{next + 10, next + 40}));
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

// RFC 6298 §5.1
TEST(SimTcp, TheTimeOutCountsFromTheFirstSegmentUnderWay) {
  Pair p;
  p.connect();
  p.write(true, text(10));
  p.run(1s);
  p.fate = [](const Segment& s) { return s.first ? lost() : Pair::Fate{}; };
  const Instant start = p.now;
  p.write(true, text(10));
  p.run(150ms);
  p.write(true, text(10));
  EXPECT_EQ(p.a.tcp.next_deadline(), start + 200ms);
}

// RFC 6298 §5.3
TEST(SimTcp, AnAckOfSomethingStartsTheTimeOutAnew) {
  Pair p;
  p.connect();
  p.write(true, text(10));
  p.run(1s);
  p.fate = [n = 0](const Segment& s) mutable { return s.first && n++ > 0 ? lost() : Pair::Fate{}; };
  p.write(true, text(10));
  p.run(10ms);
  p.write(true, text(10));
  p.run(35ms);  // the delayed ACK of the first has come
  const Instant acknowledged = of(p, false).back().at + 1ms;
  EXPECT_EQ(p.a.tcp.next_deadline(), acknowledged + 200ms);
}

// RFC 5681 §3.1
TEST(SimTcp, AfterATimeOutSlowStartBeginsWithOneSegment) {
  PairOptions o;
  o.delay = 10ms;
  Pair p(o);
  p.connect();
  p.fate = [](const Segment& s) { return s.first ? lost() : Pair::Fate{}; };
  p.write(true, text(30 * full));
  p.run(100ms);
  p.fate = nullptr;
  const std::size_t from = p.sent.size();
  p.run(115ms);
  EXPECT_EQ(of(p, true, from).size(), 1U);
  p.run(20s);
  EXPECT_EQ(p.b.received, text(30 * full));
}

// RFC 6582 §3.2 step 4
TEST(SimTcp, ATimeOutEndsFastRecovery) {
  PairOptions o;
  o.delay = 10ms;
  Pair p(o);
  p.connect();
  p.fate = [](const Segment& s) { return s.first && s.header.seq == 1001 ? lost() : Pair::Fate{}; };
  p.write(true, text(10 * full));
  p.run(2s);  // fast retransmit, and that is lost too, and so on
  EXPECT_GE(p.a.tcp.retransmits(), 3U);
  p.fate = nullptr;
  p.run(20s);
  EXPECT_EQ(p.b.received, text(10 * full));
  p.write(true, text(150 * full));
  p.run(20s);
  p.fate = lose_data(true, 1);
  const std::uint64_t before = p.a.tcp.retransmits();
  p.write(true, text(10 * full));
  p.run(100ms);  // a loss of its own, repaired as such
  EXPECT_EQ(p.b.received.size(), 170 * full);
  EXPECT_EQ(p.a.tcp.retransmits(), before + 1);
}

// RFC 6582 §3.2 step 1: they may come from what the time-out made be sent once more.
TEST(SimTcp, DuplicateAcksOfWhatWasSentBeforeATimeOutAreNoLoss) {
  Pair p;
  p.connect();
  p.fate = [](const Segment& s) { return s.first ? lost() : Pair::Fate{}; };
  p.write(true, text(10 * full));
  p.run(1500ms);  // all is lost, and the first once more
  const std::uint64_t before = p.a.tcp.retransmits();
  TcpHeader h = next_header(p, false);
  h.ack = 1001 + full;
  p.inject(true, h);
  const std::uint64_t after_ack = p.a.tcp.retransmits();
  EXPECT_GT(after_ack, before);
  const std::size_t from = p.sent.size();
  for (int i = 0; i < 3; ++i) p.inject(true, h);
  for (const Segment& s : of(p, true, from)) EXPECT_NE(s.header.seq, 1001 + full);
}

// RFC 9293 §3.8.1: after a time-out the number to be sent next is an old one, but an ACK carries the newest.
TEST(SimTcp, AfterATimeOutAnAckIsStillUnderstood) {
  Pair p;
  p.connect();
  p.fate = [](const Segment& s) { return s.first ? Pair::Fate{} : lost(); };
  p.write(true, text(10 * full));
  p.run(10s);  // b has everything; a does not know
  ASSERT_EQ(p.b.received.size(), 10 * full);
  ASSERT_GT(p.a.tcp.send_queue(), 0U);
  p.fate = nullptr;
  p.now += 1ms;
  const std::size_t from = p.sent.size();
  TcpHeader h = next_header(p, false);
  h.ack = 1001;  // octets of b with an old ACK: a acknowledges them, while it has gone back itself
  p.inject(true, h, text(2 * full));
  const auto acks = of(p, true, from);
  ASSERT_FALSE(acks.empty());
  EXPECT_EQ(acks.back().header.seq, 1001 + 10 * full);
}

TEST(SimTcp, ASynThatComesAgainIsAnsweredAtOnce) {
  PairOptions o;
  o.b.rto_initial = 30s;
  Pair p(o);
  p.fate = [n = 0](const Segment& s) mutable { return !s.first && n++ == 0 ? lost() : Pair::Fate{}; };
  p.a.tcp.connect(p.now);
  p.drain(true);
  p.run(1010ms);
  EXPECT_EQ(p.a.events, "connected");
  EXPECT_EQ(p.words(false), "SA SA");
}

}  // namespace
}  // namespace parley::sim
