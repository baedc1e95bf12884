// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Windows that close, connections that end, and segments that do not belong.
#include "tcp_kit.hpp"

namespace parley::sim {
namespace {
using namespace kit;

// ---- flow control ---------------------------------------------------------------------------------------------------

/// Connected, b reads no more and its window is full; a has `behind` octets left.
class ShutWindow : public Pair {
 public:
  explicit ShutWindow(std::size_t behind, Duration dead_after = {}) : Pair(small()) {
    a.tcp.watch_peer(dead_after / 3, dead_after);
    connect();
    b.tcp.pause();
    write(true, text(10000 + behind));
    run(150ms);
  }

 private:
  static PairOptions small() {
    PairOptions o;
    o.b.receive_buffer = 10000;
    return o;
  }
};

TEST(SimTcpWindow, APausedReaderClosesTheWindow) {
  ShutWindow p(500);
  EXPECT_TRUE(p.b.received.empty());
  EXPECT_EQ(of(p, false).back().header.window, 0);
  EXPECT_EQ(p.a.tcp.send_queue(), 500U);
  EXPECT_GE(p.b.tcp.reassembly(), 10000U);
}

TEST(SimTcpWindow, AReaderThatGoesOnOpensItAgain) {
  ShutWindow p(500);
  const std::size_t from = p.sent.size();
  p.b.tcp.resume(p.now);
  p.drain(false);
  EXPECT_EQ(p.b.received, text(10000));
  EXPECT_EQ(p.words(false, from), "A");
  EXPECT_EQ(p.sent.back().header.window, 10000);
  EXPECT_EQ(p.b.tcp.reassembly(), 0U);
  p.run(3ms);
  EXPECT_EQ(p.b.received, text(10500));
}

// RFC 9293 §3.8.6.1
TEST(SimTcpWindow, AShutWindowIsProbedWithOneOctetEverMoreSlowly) {
  ShutWindow p(500);
  const std::size_t from = p.sent.size();
  p.run(10s);
  const auto probes = of(p, true, from);
  ASSERT_GE(probes.size(), 4U);
  for (const Segment& s : probes) EXPECT_EQ(s.payload.size(), 1U);
  for (std::size_t i = 2; i < probes.size(); ++i)
    EXPECT_EQ(probes[i].at - probes[i - 1].at, 2 * (probes[i - 1].at - probes[i - 2].at));
  EXPECT_EQ(of(p, false, from).size(), probes.size());  // each is answered
}

TEST(SimTcpWindow, AShutWindowIsProbedForAsLongAsThePeerAnswers) {
  ShutWindow p(500);
  p.run(std::chrono::hours(2));  // far more probes than retries
  EXPECT_EQ(p.a.events, "connected");
  p.b.tcp.resume(p.now);
  p.drain(false);
  p.run(1s);
  EXPECT_EQ(p.b.received, text(10500));
}

TEST(SimTcpWindow, APeerThatReadsNothingIsDeadAfterItsWindowWasShutForTheTimeGiven) {
  ShutWindow idle(0, 12s);
  idle.run(std::chrono::hours(2));
  EXPECT_EQ(idle.a.events, "connected") << "its system answers keepalives";
  ShutWindow waiting(500, 12s);
  waiting.run(11800ms);
  EXPECT_EQ(waiting.a.events, "connected");
  waiting.run(500ms);
  EXPECT_EQ(waiting.a.events, "connected timeout closed");
}

TEST(SimTcpWindow, AnEndThatItsOwnerClosedDoesNotProbeForEver) {
  ShutWindow p(500);
  p.a.tcp.close(p.now);
  p.drain(true);
  p.run(std::chrono::hours(2));
  EXPECT_EQ(p.a.events, "connected timeout closed");
}

TEST(SimTcpWindow, ProbesThatNobodyAnswersEndTheConnection) {
  ShutWindow p(500);
  p.fate = [](const Segment& s) { return s.first ? lost() : Pair::Fate{}; };
  p.run(std::chrono::hours(2));
  EXPECT_EQ(p.a.events, "connected timeout closed");
}

TEST(SimTcpWindow, AProbeRepairsALostWindowUpdate) {
  ShutWindow p(500);
  p.fate = [](const Segment& s) { return s.first ? Pair::Fate{} : lost(); };
  p.b.tcp.resume(p.now);
  p.drain(false);
  p.fate = nullptr;
  p.run(5s);
  EXPECT_EQ(p.b.received, text(10500));
}

TEST(SimTcpWindow, FinPassesAShutWindow) {
  ShutWindow p(0);
  p.shutdown(true);
  p.run(5s);
  EXPECT_EQ(p.a.tcp.state(), TcpState::fin_wait_2);
  EXPECT_EQ(p.b.events, "connected");  // the octets before it are not read yet
  p.b.tcp.resume(p.now);
  p.drain(false);
  EXPECT_EQ(p.b.events, "connected fin");
  EXPECT_EQ(p.b.received, text(10000));
}

TEST(SimTcpWindow, DuplicateAcksOfAShutWindowAreNoLoss) {
  ShutWindow p(5000);
  const std::uint64_t before = p.a.tcp.retransmits();
  const TcpHeader h = next_header(p, false);
  for (int i = 0; i < 5; ++i) p.inject(true, h);
  EXPECT_EQ(p.a.tcp.retransmits(), before);
}

TEST(SimTcpWindow, AnEndThatProbesStillAcknowledges) {
  ShutWindow p(500);
  p.run(5s);
  ASSERT_EQ(p.a.tcp.send_queue(), 500U);
  p.write(false, text(100));
  p.run(60ms);
  EXPECT_EQ(p.a.received, text(100));
  EXPECT_EQ(p.b.tcp.send_queue(), 0U);
}

TEST(SimTcpWindow, AWindowThatOpensEndsTheProbing) {
  ShutWindow p(500);
  p.run(30s);
  p.b.tcp.resume(p.now);
  p.drain(false);
  p.fate = [](const Segment& s) { return s.first ? lost() : Pair::Fate{}; };
  p.run(1ms);
  EXPECT_EQ(of(p, true).back().payload.size(), 500U);
  EXPECT_EQ(p.a.tcp.next_deadline(), p.now + 200ms);  // of the retransmission, no longer backed off
}

TEST(SimTcpWindow, AcksBesideTheFirstOctetsAfterProbingAreUnderstood) {
  ShutWindow p(500);
  p.run(5s);
  p.b.tcp.resume(p.now);
  p.drain(false);
  p.run(1ms);
  p.write(false, text(2 * full));
  p.run(3ms);
  EXPECT_EQ(p.b.received.size(), 10500U);
  EXPECT_EQ(p.b.tcp.send_queue(), 0U);
}

TEST(SimTcpWindow, FinTakesRoomInTheWindow) {
  PairOptions o;
  o.b.receive_buffer = 1000;
  Pair p(o);
  p.connect();
  const std::size_t from = p.sent.size();
  p.a.tcp.write(p.now, text(1000));
  p.shutdown(true);
  EXPECT_EQ(p.words(true, from), "1000");
  p.run(1s);
  EXPECT_EQ(p.words(true, from), "1000 FA");
  EXPECT_EQ(p.b.events, "connected fin");
}

TEST(SimTcpWindow, AFinBehindWhatDoesNotFitIsNotTaken) {
  PairOptions o;
  o.b.receive_buffer = 1000;
  Pair p(o);
  p.connect();
  TcpHeader h = next_header(p, true);
  h.flags = flag::ack | flag::fin;
  p.inject(false, h, text(1400));
  EXPECT_EQ(p.b.received.size(), 1000U);
  EXPECT_EQ(p.b.events, "connected");
  h.seq += 1000;
  const Bytes all = text(1400);
  p.inject(false, h, ConstBytes(all).subspan(1000));
  EXPECT_EQ(p.b.received, text(1400));
  EXPECT_EQ(p.b.events, "connected fin");
}

TEST(SimTcpWindow, WhatIsBeyondTheWindowIsNotTaken) {
  PairOptions o;
  o.b.receive_buffer = 1000;
  Pair p(o);
  p.connect();
  TcpHeader h = next_header(p, true);
  p.inject(false, h, text(1400));
  EXPECT_EQ(p.b.received.size(), 1000U);
  h.seq += 5000;
  p.inject(false, h, text(10));
  EXPECT_EQ(p.b.tcp.reassembly(), 0U);
  EXPECT_EQ(p.sent.back().header.ack, 1001U + 1000U);
}

// ---- FIN ------------------------------------------------------------------------------------------------------------

TEST(SimTcpClose, FinFollowsTheLastOctets) {
  Pair p;
  p.connect();
  const std::size_t from = p.sent.size();
  p.a.tcp.write(p.now, text(2000));
  p.shutdown(true);
  EXPECT_EQ(p.words(true, from), "1448 552F");
  EXPECT_EQ(p.a.tcp.write(p.now, text(1)), 0U);
  EXPECT_EQ(p.a.tcp.room(), 0U);
  p.run(10ms);
  EXPECT_EQ(p.b.events, "connected fin");
  EXPECT_EQ(p.b.received, text(2000));
}

TEST(SimTcpClose, TheOtherHalfGoesOnReceiving) {
  Pair p;
  p.connect();
  p.shutdown(true);
  p.run(10ms);
  EXPECT_EQ(p.a.tcp.state(), TcpState::fin_wait_2);
  EXPECT_EQ(p.b.tcp.state(), TcpState::close_wait);
  p.write(false, text(100000));
  p.run(10s);
  EXPECT_EQ(p.a.received, text(100000));
  EXPECT_EQ(p.a.tcp.state(), TcpState::fin_wait_2);
  p.shutdown(false);
  EXPECT_EQ(p.b.tcp.state(), TcpState::last_ack);
  p.run(10ms);
  EXPECT_EQ(p.a.events, "connected fin");
  EXPECT_EQ(p.b.events, "connected fin closed");
}

TEST(SimTcpClose, BothAtOnceGoThroughClosing) {
  Pair p;
  p.connect();
  p.shutdown(true);
  p.shutdown(false);
  p.step();
  EXPECT_EQ(p.b.tcp.state(), TcpState::closing);
  p.run(10ms);
  EXPECT_EQ(p.a.tcp.state(), TcpState::time_wait);
  EXPECT_EQ(p.b.tcp.state(), TcpState::time_wait);
  p.run(61s);
  EXPECT_EQ(p.a.events, "connected fin closed");
  EXPECT_EQ(p.b.events, "connected fin closed");
}

TEST(SimTcpClose, ALostFinIsSentAgain) {
  Pair p;
  p.connect();
  p.fate = [n = 0](const Segment& s) mutable { return s.header.fin() && n++ == 0 ? lost() : Pair::Fate{}; };
  p.shutdown(true);
  p.run(5s);
  EXPECT_EQ(p.b.events, "connected fin");
  EXPECT_EQ(p.a.tcp.retransmits(), 1U);
}

TEST(SimTcpClose, FinBeforeTheOctetsItFollowsWaits) {
  Pair p;
  p.connect();
  p.fate = lose_data(true, 0);
  p.a.tcp.write(p.now, text(2000));
  p.shutdown(true);
  p.run(10ms);
  EXPECT_EQ(p.b.events, "connected");
  p.run(1s);
  EXPECT_EQ(p.b.events, "connected fin");
  EXPECT_EQ(p.b.received, text(2000));
}

TEST(SimTcpClose, NothingCountsBehindTheFin) {
  Pair p;
  p.connect();
  TcpHeader h = next_header(p, true);
  const std::uint32_t first = h.seq;
  h.seq = first + 10;
  h.flags = flag::ack | flag::fin;
  p.inject(false, h, text(10));
  h.seq = first;
  h.flags = flag::ack;
  p.inject(false, h, text(100));
  EXPECT_EQ(p.b.received.size(), 20U);
  EXPECT_EQ(p.b.events, "connected fin");
}

// RFC 9293 §3.6.1, §3.10.7.4
TEST(SimTcpClose, TimeWaitAnswersAFinThatComesAgainAndStartsAnew) {
  Pair p;
  p.connect();
  p.shutdown(true);
  p.run(10ms);
  p.shutdown(false);
  p.run(10ms);
  ASSERT_EQ(p.a.tcp.state(), TcpState::time_wait);
  const Segment fin = of(p, false).back();
  p.run(50s);
  p.fate = [](const Segment&) { return lost(); };  // the peer has gone
  const std::size_t from = p.sent.size();
  p.inject(true, fin.header);
  EXPECT_EQ(p.words(true, from), "A");
  EXPECT_EQ(p.a.tcp.next_deadline(), p.now + 60s);
  EXPECT_EQ(p.buffers.out(), 0U);
  p.run(59s);
  EXPECT_EQ(p.a.tcp.state(), TcpState::time_wait);
  p.run(2s);
  EXPECT_EQ(p.a.events, "connected fin closed");
}

TEST(SimTcpClose, TimeWaitGivesWayToANewerSyn) {
  Pair p;
  p.connect();
  p.shutdown(true);
  p.run(10ms);
  p.shutdown(false);
  p.run(10ms);
  TcpHeader syn;
  syn.flags = flag::syn;
  syn.seq = of(p, false).back().header.seq;
  EXPECT_FALSE(p.a.tcp.gives_way_to(syn));
  syn.seq += 100;
  EXPECT_TRUE(p.a.tcp.gives_way_to(syn));
  EXPECT_FALSE(p.b.tcp.gives_way_to(syn));  // closed
  syn.seq -= 200;
  syn.timestamps = true;
  syn.ts_value = 1'000'000;
  EXPECT_TRUE(p.a.tcp.gives_way_to(syn));
}

TEST(SimTcpClose, ClosedByItsOwnerAnEndAnswersOctetsWithReset) {
  Pair p;
  p.connect();
  p.a.tcp.close(p.now);
  p.drain(true);
  p.run(10ms);
  const std::size_t from = p.sent.size();
  p.write(false, text(10));
  p.run(10ms);
  EXPECT_EQ(p.words(true, from), "RA");
  EXPECT_EQ(p.a.events, "connected closed");
  EXPECT_EQ(p.b.events, "connected fin reset closed");
}

TEST(SimTcpClose, ClosedWithUnreadOctetsAnEndResets) {
  Pair p;
  p.connect();
  p.a.tcp.pause();
  p.write(false, text(10));
  p.run(10ms);
  const std::size_t from = p.sent.size();
  p.a.tcp.close(p.now);
  p.drain(true);
  EXPECT_EQ(p.words(true, from), "RA");
  p.run(10ms);
  EXPECT_EQ(p.b.events, "connected reset closed");
  EXPECT_EQ(p.buffers.out(), 0U);
}

TEST(SimTcpClose, ClosedByItsOwnerAnEndDoesNotWaitForEverForTheFin) {
  Pair p;
  p.connect();
  p.a.tcp.close(p.now);
  p.drain(true);
  p.run(10ms);
  EXPECT_EQ(p.a.tcp.state(), TcpState::fin_wait_2);
  p.run(61s);
  EXPECT_EQ(p.a.events, "connected closed");
}

TEST(SimTcpClose, ClosedByItsOwnerAnEndSendsWhatIsQueued) {
  Pair p;
  p.connect();
  p.a.tcp.write(p.now, text(100000));
  p.a.tcp.close(p.now);
  p.drain(true);
  p.run(1s);
  EXPECT_EQ(p.b.received, text(100000));
  EXPECT_EQ(p.b.events, "connected fin");
}

// ---- RST ------------------------------------------------------------------------------------------------------------

TEST(SimTcpReset, AbortIsSeenByThePeer) {
  Pair p;
  p.connect();
  p.a.tcp.write(p.now, text(3000));
  p.drain(true);
  p.run(5ms);
  p.a.tcp.abort(p.now);
  p.drain(true);
  EXPECT_EQ(p.a.events, "connected closed");
  EXPECT_EQ(p.a.tcp.next_deadline(), never);
  p.run(5ms);
  EXPECT_EQ(p.b.events, "connected reset closed");
  EXPECT_EQ(p.buffers.out(), 0U);
}

TEST(SimTcpReset, AbortWithOctetsOnTheWayIsSeenByThePeerToo) {
  Pair p;
  p.connect();
  p.fate = lose_data(true, 0);
  p.a.tcp.write(p.now, text(3000));
  p.drain(true);
  p.a.tcp.abort(p.now);
  p.drain(true);
  p.run(10ms);  // the RST is ahead of a gap: a challenge, and the answer to that
  EXPECT_EQ(p.b.events, "connected reset closed");
}

// RFC 5961 §3.2
TEST(SimTcpReset, ResetInTheWindowButNotNextIsChallenged) {
  Pair p;
  p.connect();
  TcpHeader h = next_header(p, true);
  h.flags = flag::rst;
  h.seq += 1;
  const std::size_t from = p.sent.size();
  p.inject(false, h);
  EXPECT_EQ(p.words(false, from), "A");
  EXPECT_EQ(p.b.events, "connected");
  h.seq -= 1;
  p.inject(false, h);
  EXPECT_EQ(p.b.events, "connected reset closed");
}

TEST(SimTcpReset, ResetOutOfTheWindowIsIgnored) {
  Pair p;
  p.connect();
  TcpHeader h = next_header(p, true);
  h.flags = flag::rst | flag::ack;
  const std::size_t from = p.sent.size();
  for (const std::uint32_t seq : {h.seq - 1, h.seq + 2'000'000}) {
    h.seq = seq;
    p.inject(false, h);
  }
  EXPECT_EQ(p.words(false, from), "");
  EXPECT_EQ(p.b.events, "connected");
}

// RFC 5961 §4.2
TEST(SimTcpReset, SynInAConnectionIsChallenged) {
  Pair p;
  p.connect();
  TcpHeader h = next_header(p, true);
  h.flags = flag::syn;
  const std::size_t from = p.sent.size();
  p.inject(false, h);
  EXPECT_EQ(p.words(false, from), "A");
  EXPECT_EQ(p.b.tcp.state(), TcpState::established);
}

TEST(SimTcpReset, ResetBeforeTheHandshakeEndsTheResponder) {
  Pair p;
  p.fate = [](const Segment& s) { return s.first && !s.header.syn() ? lost() : Pair::Fate{}; };
  p.a.tcp.connect(p.now);
  p.drain(true);
  p.run(5ms);
  TcpHeader h = next_header(p, true);
  h.flags = flag::rst;
  p.inject(false, h);
  EXPECT_EQ(p.b.events, "reset closed");
}

// RFC 9293 §3.10.7.4
TEST(SimTcpReset, AWrongAckOfTheSynAckIsAnsweredWithReset) {
  Pair p;
  p.fate = [](const Segment& s) { return s.first && !s.header.syn() ? lost() : Pair::Fate{}; };
  p.a.tcp.connect(p.now);
  p.drain(true);
  p.run(5ms);
  TcpHeader h = next_header(p, true);
  h.ack += 7;
  const std::size_t from = p.sent.size();
  p.inject(false, h);
  EXPECT_EQ(p.words(false, from), "R");
  EXPECT_EQ(p.sent.back().header.seq, h.ack);
  EXPECT_EQ(p.b.tcp.state(), TcpState::syn_received);
}

TEST(SimTcpReset, ResetInTimeWaitEndsIt) {
  Pair p;
  p.connect();
  p.shutdown(true);
  p.run(10ms);
  p.shutdown(false);
  p.run(10ms);
  TcpHeader h = next_header(p, false);
  h.flags = flag::rst;
  p.inject(true, h);
  EXPECT_EQ(p.a.events, "connected fin closed");
}

// ---- timestamps, strange numbers ------------------------------------------------------------------------------------

// RFC 7323 §5.3
TEST(SimTcpPaws, AnOldTimestampIsNotTakenForNewData) {
  Pair p;
  p.connect();
  p.run(1s);
  p.write(true, text(10));
  p.run(100ms);
  TcpHeader h = next_header(p, true);
  h.ts_value -= 1;
  const std::size_t from = p.sent.size();
  p.inject(false, h, text(10));
  EXPECT_EQ(p.b.received.size(), 10U);
  EXPECT_EQ(p.words(false, from), "A");
  h.ts_value += 1;
  p.inject(false, h, text(10));
  EXPECT_EQ(p.b.received.size(), 20U);
}

TEST(SimTcpPaws, After24DaysOfSilenceAnyTimestampIsGood) {
  Pair p;
  p.connect();
  p.run(std::chrono::hours(24 * 25));
  TcpHeader h = next_header(p, true);
  h.ts_value -= 1;
  p.inject(false, h, text(10));
  EXPECT_EQ(p.b.received.size(), 10U);
}

TEST(SimTcpPaws, TheClockMayWrap) {
  Pair p;
  p.now = Instant(std::chrono::milliseconds(0xFFFFFFFFLL - 50));
  p.connect();
  for (int i = 0; i < 10; ++i) {
    p.write(true, text(100));
    p.run(100ms);
  }
  EXPECT_EQ(p.b.received.size(), 1000U);
  EXPECT_EQ(p.a.tcp.retransmits(), 0U);
}

// RFC 7323 §3.2
TEST(SimTcpPaws, WithoutTheTimestampThatWasAgreedASegmentDoesNotCount) {
  Pair p;
  p.connect();
  TcpHeader h = next_header(p, true);
  h.timestamps = false;
  p.inject(false, h, text(10));
  EXPECT_TRUE(p.b.received.empty());
}

TEST(SimTcpStrange, AnAckOfWhatWasNeverSentIsAnsweredAndIgnored) {
  Pair p;
  p.connect();
  TcpHeader h = next_header(p, false);
  h.ack += 100;
  const std::size_t from = p.sent.size();
  p.inject(true, h);
  EXPECT_EQ(p.words(true, from), "A");
  EXPECT_EQ(p.a.tcp.state(), TcpState::established);
}

TEST(SimTcpStrange, OldOctetsAreAcknowledgedAgainAndNotHandedOut) {
  Pair p;
  p.connect();
  p.write(true, text(10));
  p.run(100ms);
  const std::size_t from = p.sent.size();
  p.inject(false, of(p, true).back().header, text(10));
  EXPECT_EQ(p.b.received, text(10));
  EXPECT_EQ(p.words(false, from), "A");
}

// Two ends that disagree must not answer each other for ever.
TEST(SimTcpStrange, EmptySegmentsOutOfTheWindowAreAnsweredOnceInHalfASecond) {
  Pair p;
  p.connect();
  TcpHeader h = next_header(p, true);
  h.seq -= 5;
  const std::size_t from = p.sent.size();
  for (int i = 0; i < 10; ++i) p.inject(false, h);
  EXPECT_EQ(p.words(false, from), "A");
  p.run(501ms);
  p.inject(false, h);
  EXPECT_EQ(p.words(false, from), "A A");
}

TEST(SimTcpStrange, AnEarlyDeadlineDoesNothing) {
  Pair p;
  p.connect();
  p.write(true, text(10));
  const Instant deadline = p.a.tcp.next_deadline();
  ASSERT_NE(deadline, never);
  const std::size_t from = p.sent.size();
  p.a.tcp.handle_deadline(deadline - 1ns);
  p.drain(true);
  EXPECT_EQ(p.sent.size(), from);
  EXPECT_EQ(p.a.tcp.next_deadline(), deadline);
}

TEST(SimTcpStrange, ACallTooManyDoesNothing) {
  Pair p;
  p.connect();
  p.a.tcp.connect(p.now);
  p.b.tcp.accept(p.now, p.sent[0].header);
  p.a.tcp.resume(p.now);
  p.a.tcp.abort(p.now);
  p.drain(true);
  const std::size_t from = p.sent.size();
  p.a.tcp.abort(p.now);
  p.a.tcp.shutdown(p.now);
  p.a.tcp.connect(p.now);
  p.a.tcp.close(p.now);
  p.drain(true);
  EXPECT_EQ(p.sent.size(), from);
  EXPECT_EQ(p.a.events, "connected closed");
}

TEST(SimTcpMemory, AnIdleConnectionIsSmallAndHoldsNoBuffer) {
  EXPECT_LE(sizeof(Tcp), 256U);
  Pair p;
  p.connect();
  p.write(true, text(100000));
  EXPECT_GT(p.buffers.out(), 0U);
  p.run(10s);
  EXPECT_EQ(p.buffers.out(), 0U);
}

TEST(SimTcpMemory, SteadyTrafficDoesNotReachTheHeap) {
  Pair p;
  p.connect();
  const auto traffic = [&] {
    for (int i = 0; i < 50; ++i) {
      p.write(true, text(5000));
      p.write(false, text(100));
      p.run(50ms);
    }
  };
  traffic();
  const std::uint64_t before = p.buffers.made();
  traffic();
  EXPECT_EQ(p.buffers.made(), before);
  EXPECT_EQ(p.buffers.out(), 0U);
}

// The free blocks are bounded; a peak's memory goes back to the heap.
TEST(SimTcpMemory, APeakOfBuffersIsNotKeptForEver) {
  TcpBuffers buffers;
  std::vector<TcpRing> rings(100);
  for (TcpRing& ring : rings) ring.reserve(buffers, 0, 0, 1 << 20);
  EXPECT_EQ(buffers.out(), 100U << 20);
  for (TcpRing& ring : rings) ring.release(buffers);
  EXPECT_EQ(buffers.out(), 0U);
  EXPECT_EQ(buffers.made(), 100U);
  for (TcpRing& ring : rings) ring.reserve(buffers, 0, 0, 1 << 20);
  EXPECT_EQ(buffers.made(), 100U + 100U - (TcpBuffers::free_max >> 20));
  for (TcpRing& ring : rings) ring.release(buffers);
}

}  // namespace
}  // namespace parley::sim
