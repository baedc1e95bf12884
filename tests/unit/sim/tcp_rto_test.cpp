// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The retransmission timeout, to the nanosecond, from the round trips that were measured (RFC 6298 §2).
#include "tcp_kit.hpp"

namespace parley::sim {
namespace {
using namespace kit;

constexpr std::size_t mss = 1460;  // without timestamps

/// Connected over 50 ms each way. Two full segments are acknowledged at once, so a write measures a round trip.
class Measured : public Pair {
 public:
  explicit Measured(Duration rto_min = 1ms, Duration rto_max = 60s) : Pair(over(rto_min, rto_max)) { connect(); }
  void round_trip(Duration time) {
    options.delay = time / 2;
    write(true, text(2 * mss));
    run(time);
    ASSERT_EQ(a.tcp.send_queue(), 0U);
  }
  /// From a segment that is lost to the next one.
  Duration rto() {
    fate = [](const Segment& s) { return s.first ? lost() : Fate{}; };
    write(true, text(10));
    return a.tcp.next_deadline() - now;
  }

 private:
  static PairOptions over(Duration rto_min, Duration rto_max) {
    PairOptions o;
    o.a.rto_min = rto_min;
    o.a.rto_max = rto_max;
    o.a.timestamps = o.b.timestamps = false;
    o.delay = 50ms;
    return o;
  }
};

// RFC 6298 §2.2: SRTT = R, RTTVAR = R/2, RTO = SRTT + 4 RTTVAR.
TEST(SimTcpRto, TheFirstRoundTripCountsWhole) { EXPECT_EQ(Measured().rto(), 300ms); }

// RFC 6298 §2.3: RTTVAR = 3/4 RTTVAR + 1/4 |SRTT - R'|, then SRTT = 7/8 SRTT + 1/8 R'.
TEST(SimTcpRto, EachFurtherRoundTripCountsAnEighthAndItsErrorAQuarter) {
  Measured same;
  same.round_trip(100ms);
  EXPECT_EQ(same.rto(), 100ms + 4 * 37'500us);
  Measured longer;
  longer.round_trip(200ms);
  EXPECT_EQ(longer.rto(), 112'500us + 4 * 62'500us);
  Measured shorter;
  shorter.round_trip(20ms);
  EXPECT_EQ(shorter.rto(), 90ms + 4 * 57'500us);
  Measured twice;
  twice.round_trip(200ms);
  twice.round_trip(40ms);
  // |112.5 - 40| / 4 beside 3/4 of 62.5; 7/8 of 112.5 and 1/8 of 40.
  EXPECT_EQ(twice.rto(), 103'437'500ns + 4 * 65ms);
}

TEST(SimTcpRto, ItIsWithinItsBounds) {
  EXPECT_EQ(Measured(301ms).rto(), 301ms);
  EXPECT_EQ(Measured(1ms, 299ms).rto(), 299ms);
  EXPECT_EQ(Measured(300ms, 300ms).rto(), 300ms);
}

// RFC 6298 §2.3: with a variance of none at all it is still above the round trip.
TEST(SimTcpRto, ASteadyRoundTripBringsItDownToThat) {
  Measured p;
  for (int i = 0; i < 100 && !HasFatalFailure(); ++i) p.round_trip(100ms);
  EXPECT_EQ(p.rto(), 100ms + 1us);
}

// RFC 6298 §3: nobody knows which copy the ACK is of.
TEST(SimTcpRto, WhatWasSentTwiceIsNotMeasured) {
  Measured p;
  p.fate = lose_data(true, 0);
  p.write(true, text(2 * mss));
  p.run(1s);
  ASSERT_EQ(p.a.tcp.send_queue(), 0U);
  p.fate = nullptr;
  p.options.delay = 50ms;
  EXPECT_EQ(p.rto(), 600ms) << "backed off until something is measured";
}

// A probe may have waited for room, and its answer says nothing of the way.
TEST(SimTcpRto, AProbeOfAShutWindowIsNotMeasured) {
  PairOptions o;
  o.a.rto_min = 1ms;
  o.a.timestamps = o.b.timestamps = false;
  o.b.receive_buffer = 2 * mss;
  o.delay = 50ms;
  Pair p(o);
  p.connect();
  p.b.tcp.pause();
  p.write(true, text(2 * mss + 1));
  p.run(150ms);
  ASSERT_EQ(p.a.tcp.send_queue(), 1U);
  p.fate = [](const Segment& s) { return s.first ? Pair::Fate{} : lost(); };  // the window opens, and a is not told
  p.b.tcp.resume(p.now);
  p.drain(false);
  p.fate = nullptr;
  p.options.delay = 75ms;
  p.run(5s);  // the probe is what is missing, and is acknowledged before the next
  ASSERT_EQ(p.b.received.size(), 2 * mss + 1);
  ASSERT_EQ(p.a.tcp.send_queue(), 0U);
  p.fate = [](const Segment& s) { return s.first ? lost() : Pair::Fate{}; };
  p.write(true, text(10));
  EXPECT_EQ(p.a.tcp.next_deadline() - p.now, 2 * 250ms) << "as it was, and backed off until something is measured";
}

TEST(SimTcpRto, ItDoublesUpToTheMost) {
  Measured p(1ms, 1s);
  const std::size_t from = p.sent.size();
  EXPECT_EQ(p.rto(), 300ms);
  p.run(4s);
  const auto s = of(p, true, from);
  ASSERT_GE(s.size(), 5U);
  EXPECT_EQ(s[1].at - s[0].at, 300ms);
  EXPECT_EQ(s[2].at - s[1].at, 600ms);
  EXPECT_EQ(s[3].at - s[2].at, 1s);
  EXPECT_EQ(s[4].at - s[3].at, 1s);
}

}  // namespace
}  // namespace parley::sim
