// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// A link takes the time that its rate and delay say, keeps the order, bounds its queue, and does to frames what the
// rules say and no more.
#include "base/text.hpp"
#include "link_kit.hpp"
#include "wire/packet.hpp"

namespace parley::sim {
namespace {

using namespace testing_links;

constexpr std::uint64_t gigabit = 1'000'000'000;

FaultRule rule(FaultAction action) {
  FaultRule r;
  r.action = action;
  return r;
}

/// A TCP segment as a whole frame.
FramePtr tcp_frame(FramePool& pool, std::uint8_t flags, std::string_view payload) {
  const Bytes text(payload.begin(), payload.end());
  const auto octets = wire::emit_tcp_frame({.source = Address::v4(10, 0, 0, 1, 40000),
                                            .destination = Address::v4(10, 0, 0, 2, 7471),
                                            .seq = 1000,
                                            .ack = 5000,
                                            .flags = flags,
                                            .payload = text});
  FramePtr frame = pool.take(octets->size());
  std::copy(octets->begin(), octets->end(), frame->data());
  return frame;
}

// ---- time --------------------------------------------------------------------------------------------------------

TEST(SimLink, AFrameTakesItsSerialisationAndTheDelay) {
  Wire wire({.rate_bps = gigabit, .delay = 1us});
  wire.send(1000);  // and 24 octets of preamble, FCS and gap: 8192 ns
  wire.run();
  EXPECT_EQ(wire.b.times(), std::vector<std::int64_t>{8192 + 1000});
  EXPECT_EQ(wire.engine.counters.events, 1u);
}

TEST(SimLink, ASmallFrameTakesAsLongAsTheSmallestEthernetFrame) {
  Wire wire({.rate_bps = gigabit, .delay = 0us});
  wire.send(54);
  wire.run();
  EXPECT_EQ(wire.b.times(), std::vector<std::int64_t>{84 * 8});
}

TEST(SimLink, PicosecondsAddUpAndArrivalsAreRoundedUp) {
  Wire wire({.rate_bps = 100 * gigabit, .delay = 0us});
  for (int i = 0; i < 100; ++i) wire.send(60);  // 84 octets: 6720 ps each
  wire.run();
  std::vector<std::int64_t> expected;
  for (std::int64_t i = 1; i <= 100; ++i) expected.push_back((6720 * i + 999) / 1000);
  EXPECT_EQ(wire.b.times(), expected);
}

TEST(SimLink, FramesWaitForThoseBeforeThemAndAnIdleLinkStartsAtOnce) {
  Wire wire({.rate_bps = gigabit, .delay = 5us});
  wire.send(1476);  // 12 us
  wire.send(101);   // 1 us behind it, though it is shorter
  wire.run();
  EXPECT_EQ(wire.b.times(), (std::vector<std::int64_t>{17'000, 18'000}));
  wire.engine.advance_to(at(100'000));
  wire.send(101);
  wire.run();
  EXPECT_EQ(wire.b.times().back(), 106'000);
}

TEST(SimLink, TheTwoWaysDoNotDisturbEachOther) {
  Wire wire({.rate_bps = gigabit, .delay = 1us});
  wire.send(1476);
  wire.backward.transmit(wire.frame(1476));
  wire.run();
  EXPECT_EQ(wire.b.times(), std::vector<std::int64_t>{13'000});
  EXPECT_EQ(wire.a.times(), std::vector<std::int64_t>{13'000});
}

TEST(SimLink, ASlowLinkAndALongTimeDoNotOverflow) {
  Wire wire({.rate_bps = 1, .delay = std::chrono::hours(1), .queue_octets = 0xFFFFFFFF});
  wire.engine.advance_to(Instant(std::chrono::hours(24 * 365 * 100)));
  const Instant start = wire.engine.now();
  wire.send(1500);
  wire.send(1500);
  wire.run();
  ASSERT_EQ(wire.b.arrivals.size(), 2u);
  EXPECT_EQ(wire.b.arrivals[1].at, start + 2 * std::chrono::seconds(1524 * 8) + std::chrono::hours(1));
}

// ---- bounds ------------------------------------------------------------------------------------------------------

TEST(SimLink, AFullQueueDropsAtTheTailAndDrainsWithTime) {
  Wire wire({.rate_bps = gigabit, .delay = 0us, .queue_octets = 3000});
  Seen seen;
  wire.engine.tap = &seen;
  for (int i = 0; i < 5; ++i) wire.send(976);  // 1000 octets on the wire each
  EXPECT_EQ(wire.engine.counters.dropped, 2u);
  ASSERT_EQ(seen.frames.size(), 5u);
  EXPECT_EQ(seen.frames[2].drop, DropReason::none);
  EXPECT_EQ(seen.frames[3].drop, DropReason::queue_full);
  EXPECT_EQ(seen.frames[3].note, "queue full: 3000 of 3000 octets wait");
  wire.engine.advance_to(at(7'999));
  wire.send(976);  // the first is not quite gone
  EXPECT_EQ(wire.engine.counters.dropped, 3u);
  wire.engine.advance_to(at(8'000));
  wire.send(976);
  EXPECT_EQ(wire.engine.counters.dropped, 3u);
  wire.run();
  EXPECT_EQ(wire.b.arrivals.size(), 4u);
}

TEST(SimLink, AnIdleSenderTakesAFrameWhateverTheQueueHolds) {
  Wire wire({.rate_bps = gigabit, .queue_octets = 0});
  wire.send(1000);
  wire.send(1000);
  wire.run();
  EXPECT_EQ(wire.b.arrivals.size(), 1u);
  EXPECT_EQ(wire.engine.counters.dropped, 1u);
}

// Whatever the rate and the lengths: who asks how many it may send finds no more waiting before the last of them.
TEST(SimLink, TellsHowManyFramesFitBeforeTooManyOctetsWait) {
  Rng rng(5);
  for (const std::uint64_t rate : {gigabit / 3, 10 * gigabit, 100'000 * gigabit})
    for (int round = 0; round < 300; ++round) {
      const auto mtu = static_cast<std::uint16_t>(576 + rng.below(1500));
      Wire wire({.rate_bps = rate, .delay = 0us, .queue_octets = 1 << 20, .mtu = mtu});
      const std::uint64_t limit = rng.below(40'000);
      for (std::uint64_t before = rng.below(40); before > 0; --before) wire.send(60 + rng.below(mtu - 46u + 1));
      wire.engine.advance_to(at(static_cast<std::int64_t>(rng.below(10'000))));
      const std::uint64_t frames = wire.forward.frames_until_waiting(limit);
      EXPECT_EQ(frames == 0, wire.forward.has_waiting(limit));
      EXPECT_LE(frames, 1 + limit / mtu);
      for (std::uint64_t i = 0; i < frames; ++i) {
        EXPECT_FALSE(wire.forward.has_waiting(limit)) << i << " of " << frames << " at " << rate;
        wire.send(14u + mtu);
      }
      if (frames == 0) continue;
      for (std::uint64_t more = 0; more < 2 && !wire.forward.has_waiting(limit); ++more) wire.send(14u + mtu);
      EXPECT_TRUE(wire.forward.has_waiting(limit)) << "not many fewer than fit";
    }
}

TEST(SimLink, AFrameOverTheMtuIsDroppedAndSaysSo) {
  Wire wire({.mtu = 1400});
  Seen seen;
  wire.engine.tap = &seen;
  wire.send(1414);
  wire.send(1415);
  wire.run();
  EXPECT_EQ(wire.b.arrivals.size(), 1u);
  ASSERT_EQ(seen.frames.size(), 3u);
  EXPECT_EQ(seen.frames[1].drop, DropReason::too_big);
  EXPECT_EQ(seen.frames[1].note, "1401 octets of packet are more than the MTU of 1400");
  EXPECT_EQ(wire.engine.counters.packet_hops, 1u);
}

TEST(SimLink, FramesComeFromThePoolAndGoBackToIt) {
  Wire wire;
  for (int i = 0; i < 50; ++i) {
    for (const std::size_t size : {60u, 500u, 1500u}) wire.send(size);
    wire.run();
  }
  EXPECT_EQ(wire.engine.frames.out(), 0u);
  EXPECT_EQ(wire.engine.frames.peak(), 3u);
  EXPECT_EQ(wire.engine.frames.take(9217), nullptr);
}

// ---- the tap -----------------------------------------------------------------------------------------------------

TEST(SimLink, TheTapSeesAFrameAtBothEndsWithOneId) {
  Wire wire({.rate_bps = gigabit, .delay = 1us});
  Seen seen;
  wire.engine.tap = &seen;
  wire.b.discarded_size = 77;
  const std::uint64_t id = wire.send(77);
  wire.run();
  ASSERT_EQ(seen.frames.size(), 2u);
  EXPECT_TRUE(seen.frames[0].outbound);
  EXPECT_EQ(seen.frames[0].end, 0);
  EXPECT_EQ(seen.frames[0].at, at(0));
  EXPECT_EQ(seen.frames[0].id, id);
  EXPECT_EQ(seen.frames[0].note, "");
  EXPECT_FALSE(seen.frames[1].outbound);
  EXPECT_EQ(seen.frames[1].end, 1);
  EXPECT_EQ(seen.frames[1].at, at(1808));
  EXPECT_EQ(seen.frames[1].id, id);
  EXPECT_EQ(seen.frames[1].drop, DropReason::discarded);
  EXPECT_EQ(seen.frames[1].note, "not wanted");
  EXPECT_EQ(seen.frames[0].octets, seen.frames[1].octets);
}

// ---- faults ------------------------------------------------------------------------------------------------------

TEST(SimLink, ADroppedFrameTookItsTimeOnTheWireAndIsShownAsSent) {
  Wire wire({.rate_bps = gigabit, .delay = 0us});
  Seen seen;
  wire.engine.tap = &seen;
  FaultRule lost = rule(FaultAction::drop);
  lost.mask = 0b1;
  ASSERT_TRUE(wire.forward.add_fault(lost));
  wire.send(101);
  wire.send(101);
  wire.run();
  EXPECT_EQ(wire.b.times(), std::vector<std::int64_t>{2000});
  ASSERT_EQ(seen.frames.size(), 3u);
  EXPECT_EQ(seen.frames[0].drop, DropReason::rule);
  EXPECT_NE(seen.frames[0].note, "");
  EXPECT_EQ(wire.engine.counters.dropped, 1u);
  EXPECT_EQ(wire.engine.counters.packet_hops, 2u);
  EXPECT_EQ(wire.engine.frames.out(), 0u);
}

TEST(SimLink, CopiesArriveBesideTheFrameAndKeepItsId) {
  Wire wire;
  FaultRule twice = rule(FaultAction::duplicate);
  twice.count = 2;
  twice.match.times = 1;
  ASSERT_TRUE(wire.forward.add_fault(twice));
  const std::uint64_t first = wire.send(100), second = wire.send(200);
  wire.run();
  EXPECT_EQ(wire.b.ids(), (std::vector<std::uint64_t>{first, first, first, second}));
  EXPECT_EQ(wire.b.arrivals[0].octets, wire.b.arrivals[2].octets);
}

TEST(SimLink, ADelayedFrameHoldsUpThoseBehindItUnlessTheRuleLetsThemOvertake) {
  for (const bool reorder : {false, true}) {
    Wire wire({.rate_bps = gigabit, .delay = 1us});
    FaultRule late = rule(FaultAction::delay);
    late.delay = 50us;
    late.reorder = reorder;
    late.match.times = 1;
    ASSERT_TRUE(wire.forward.add_fault(late));
    const std::uint64_t first = wire.send(101), second = wire.send(101);
    wire.run();
    if (reorder) {
      EXPECT_EQ(wire.b.ids(), (std::vector<std::uint64_t>{second, first}));
      EXPECT_EQ(wire.b.times(), (std::vector<std::int64_t>{3000, 52'000}));
    } else {
      EXPECT_EQ(wire.b.ids(), (std::vector<std::uint64_t>{first, second}));
      EXPECT_EQ(wire.b.times(), (std::vector<std::int64_t>{52'000, 52'000}));
    }
  }
}

TEST(SimLink, ACorruptedFrameIsSeenSoundWhenSentAndDamagedWhenReceived) {
  Wire wire;
  Seen seen;
  wire.engine.tap = &seen;
  ASSERT_TRUE(wire.forward.add_fault(rule(FaultAction::corrupt)));
  FramePtr frame = wire.frame(300);
  const Bytes before(frame->data(), frame->data() + 300);
  wire.send(std::move(frame));
  wire.run();
  ASSERT_EQ(seen.frames.size(), 2u);
  EXPECT_EQ(seen.frames[0].octets, before);
  EXPECT_NE(seen.frames[1].octets, before);
  EXPECT_EQ(seen.frames[1].octets, wire.b.arrivals.at(0).octets);
  EXPECT_NE(seen.frames[0].note, "");
}

TEST(SimLink, ATruncatedFrameArrivesShort) {
  Wire wire;
  FaultRule cut = rule(FaultAction::truncate);
  cut.octets = 40;
  ASSERT_TRUE(wire.forward.add_fault(cut));
  wire.send(300);
  wire.run();
  ASSERT_EQ(wire.b.arrivals.size(), 1u);
  EXPECT_EQ(wire.b.arrivals[0].size, 40u);
}

TEST(SimLink, AResetReachesBothEndsAfterTheFrame) {
  Wire wire({.rate_bps = gigabit, .delay = 1us});
  Seen seen;
  wire.engine.tap = &seen;
  FaultRule reset = rule(FaultAction::reset);
  reset.match.message = MessageKind::tcp_data;
  reset.match.times = 1;
  ASSERT_TRUE(wire.forward.add_fault(reset));
  wire.send(tcp_frame(wire.engine.frames, wire::tcp_flag::ack, "hello"));
  wire.run();
  ASSERT_EQ(wire.b.arrivals.size(), 2u);
  ASSERT_EQ(wire.a.arrivals.size(), 1u);
  EXPECT_GE(wire.b.arrivals[1].at, wire.b.arrivals[0].at);
  const auto at_b = wire::parse_packet(1, wire.b.arrivals[1].octets, wire.b.arrivals[1].size);
  const auto at_a = wire::parse_packet(1, wire.a.arrivals[0].octets, wire.a.arrivals[0].size);
  EXPECT_TRUE(at_b.tcp.rst());
  EXPECT_EQ(at_b.tcp.seq, 1005u);
  EXPECT_TRUE(at_a.tcp.rst());
  EXPECT_EQ(at_a.tcp.seq, 5000u);
  EXPECT_EQ(seen.frames.back().note, "made by a fault");
}

TEST(SimLink, AHostActionIsScheduledForWhenTheFrameHasLeft) {
  Wire wire({.rate_bps = gigabit, .delay = 1ms});
  FaultRule crash = rule(FaultAction::crash);
  crash.delay = 7us;
  crash.host = 1;
  crash.match.times = 1;
  ASSERT_TRUE(wire.forward.add_fault(crash));
  wire.send(101);
  wire.send(101);
  wire.run();
  ASSERT_EQ(wire.scheduled.actions.size(), 1u);
  EXPECT_EQ(wire.scheduled.actions[0].first, at(8'000));
  EXPECT_EQ(wire.scheduled.actions[0].second, FaultAction::crash);
  EXPECT_EQ(wire.b.arrivals.size(), 2u);
}

TEST(SimLink, AChangedRateHoldsForWhatIsSentFromThenOn) {
  Wire wire({.rate_bps = gigabit, .delay = 0us});
  wire.send(101);
  wire.forward.set_rate(gigabit / 10);
  wire.send(101);
  wire.forward.set_rate(gigabit);
  wire.send(101);
  wire.run();
  EXPECT_EQ(wire.b.times(), (std::vector<std::int64_t>{1000, 11'000, 12'000}));
}

TEST(SimLink, ARuleThatContradictsItselfIsRefusedAndChangesNothing) {
  Wire wire;
  FaultRule wrong = rule(FaultAction::truncate);
  EXPECT_FALSE(wire.forward.add_fault(wrong));
  wire.send(100);
  wire.run();
  EXPECT_EQ(wire.b.arrivals.size(), 1u);
}

TEST(SimLink, ADropMaskTakesFramesOfHostsInOrderOfSending) {
  Wire wire;
  wire.engine.drop_mask = 0b101;
  const std::uint64_t first = wire.send(100), second = wire.send(100), third = wire.send(100), fourth = wire.send(100);
  wire.run();
  EXPECT_EQ(wire.b.ids(), (std::vector<std::uint64_t>{second, fourth}));
  EXPECT_NE(first, third);
  EXPECT_EQ(wire.engine.counters.dropped, 2u);
}

TEST(SimLink, RatesAreWrittenInTheLargestUnitWithoutFraction) {
  EXPECT_EQ(bit_rate_text(100 * gigabit), "100 Gb/s");
  EXPECT_EQ(bit_rate_text(1'500'000'000), "1500 Mb/s");
  EXPECT_EQ(bit_rate_text(64'000), "64 kb/s");
  EXPECT_EQ(bit_rate_text(1'234), "1234 b/s");
}

}  // namespace
}  // namespace parley::sim
