// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// A capture that goes on: connections are handed out as they end, once each, with the verdict that a file of the same
// packets gets; what the capture drops makes partial what it may have touched, and accuses nobody.
#include <gtest/gtest.h>

#include "capture/report/json.hpp"
#include "capture/report/text.hpp"
#include "tests/unit/capture/exchange.hpp"

namespace parley::capture {
namespace {

using test::analyse;
using test::conversation;
using test::Exchange;
using test::fpdu;
using test::Frame;
using test::Frames;
using test::send_segment;
using test::startup;

constexpr Duration second = std::chrono::seconds(1);

/// Packets as they come, and what the Analyzer hands out.
class Live {
 public:
  explicit Live(const AnalyzerOptions& options = {}) : analyzer(options) {}
  void push(const Frame& f) {
    wire::CapturedPacket p;
    p.frame = ++number_;
    p.at = now = f.at;
    p.link_type = 1;
    p.octets = f.octets;
    p.original_length = static_cast<std::uint32_t>(f.octets.size());
    analyzer.push(p);
  }
  void push(const Frames& frames) {
    for (const Frame& f : frames) push(f);
  }
  std::vector<ConnectionReport> after(Duration d) { return analyzer.take_ended(now += d); }

  Analyzer analyzer;
  Instant now{};

 private:
  std::uint64_t number_ = 0;
};

Exchange from_port(std::uint16_t port) {
  Address a = test::end_a(false);
  a.port = port;
  return Exchange(a, test::end_b(false), port * 7u, port * 11u);
}

Exchange whole(std::uint16_t port) {
  Exchange x = from_port(port);
  x.set_up().send(0, fpdu(send_segment(1, 20))).close();
  return x;
}

TEST(Ended, AConnectionIsHandedOutOnceWhenItIsOver) {
  Live live;
  const Exchange x = conversation();
  live.push(x.frames);
  EXPECT_TRUE(live.after(second / 2).empty()) << "packets may still come late";
  const auto ended = live.after(second);
  ASSERT_EQ(ended.size(), 1u);
  EXPECT_TRUE(live.after(10 * second).empty());
  // What a file of these packets is told.
  EXPECT_EQ(to_json(ended[0]), to_json(analyse(x.frames).connections.at(0)));
  const FileReport all = live.analyzer.finish();
  EXPECT_TRUE(all.connections.empty());
  EXPECT_EQ(all.all_connections(), 1u);
  EXPECT_EQ(all.count(Standing::passed), 1u);
  EXPECT_EQ(all.judgement.standing, Standing::passed);
}

TEST(Ended, WhatIsOpenStaysAndIsListedAtTheEnd) {
  Live live;
  Exchange open = from_port(40001);
  open.set_up().send(0, fpdu(send_segment(1, 20)));
  live.push(open.frames);
  live.push(whole(40002).frames);
  const auto ended = live.after(60 * second);
  ASSERT_EQ(ended.size(), 1u);
  EXPECT_EQ(ended[0].initiator.port, 40002);
  const FileReport all = live.analyzer.finish();
  ASSERT_EQ(all.connections.size(), 1u);
  EXPECT_EQ(all.connections[0].initiator.port, 40001);
  EXPECT_EQ(all.connections[0].end, "open at the end of the capture");
  EXPECT_EQ(all.all_connections(), 2u);
}

TEST(Ended, AClosedConnectionWaitsForWhatItLacks) {
  Live live;
  Exchange x = from_port(40001);
  x.set_up().send(0, fpdu(send_segment(1, 20))).fin(0).fin(1);  // the last acknowledgment is still to come
  live.push(x.frames);
  EXPECT_TRUE(live.after(2 * second).empty());
  EXPECT_EQ(live.after(2 * second).size(), 1u);
}

TEST(Ended, AResetEndsAConnectionAtOnceUnlessSomeOfItMayComeLate) {
  for (const unsigned who : {0u, 1u})
    for (const bool hole : {false, true}) {
      Live live;
      Exchange x = from_port(40001);
      x.set_up().send(0, fpdu(send_segment(1, 20))).send(0, fpdu(send_segment(2, 20))).rst(who);
      if (hole) x.frames.erase(x.frames.begin() + 5);
      live.push(x.frames);
      EXPECT_TRUE(live.after(second / 2).empty());
      EXPECT_EQ(live.after(second).size(), hole ? 0u : 1u) << who;
      EXPECT_EQ(live.after(2 * second).size(), hole ? 1u : 0u) << who;
    }
}

TEST(Ended, OneThatWaitsKeepsNoOtherBack) {
  Live live;
  Exchange waiting = from_port(40001);
  waiting.set_up().send(0, fpdu(send_segment(1, 20))).fin(0).fin(1);
  live.push(waiting.frames);
  live.push(whole(40002).frames);
  const auto ended = live.after(second + second / 2);
  ASSERT_EQ(ended.size(), 1u);
  EXPECT_EQ(ended[0].initiator.port, 40002);
}

TEST(Ended, RepetitionsBehindTheEndAreNoConnection) {
  Live live;
  const Exchange x = whole(40001);
  live.push(x.frames);
  EXPECT_EQ(live.after(2 * second).size(), 1u);
  live.push(x.frames.back());
  live.push(x.frames[4]);
  EXPECT_TRUE(live.after(3600 * second).empty());
  EXPECT_EQ(live.analyzer.finish().all_connections(), 1u);
}

TEST(Ended, TheSamePortsAgainAreAnotherConnection) {
  Live live;
  live.push(whole(40001).frames);
  Address a = test::end_a(false);
  a.port = 40001;
  Exchange again(a, test::end_b(false), 5'000'000, 6'000'000);
  again.set_up().close();
  live.push(again.frames);
  EXPECT_EQ(live.after(2 * second).size(), 2u);
}

TEST(Ended, SilenceEndsAnOpenConnection) {
  Live live(AnalyzerOptions{.idle = std::chrono::minutes(10)});
  Exchange x = from_port(40001);
  x.set_up().send(0, fpdu(send_segment(1, 20)));
  live.push(x.frames);
  EXPECT_TRUE(live.after(590 * second).empty());
  const auto ended = live.after(20 * second);
  ASSERT_EQ(ended.size(), 1u);
  EXPECT_EQ(ended[0].end, "open, and silent for 600.00 s: not followed any longer");
  EXPECT_EQ(ended[0].outcome, Outcome::established);
  // It goes on after all: found by its FPDUs, since it is known no longer.
  Exchange later = x;
  later.wait(700 * second).send(0, fpdu(send_segment(2, 20))).send(0, fpdu(send_segment(3, 20))).close();
  live.push(Frames(later.frames.begin() + static_cast<std::ptrdiff_t>(x.frames.size()), later.frames.end()));
  const auto rest = live.after(4 * second);
  ASSERT_EQ(rest.size(), 1u);
  EXPECT_EQ(rest[0].outcome, Outcome::not_captured);
  EXPECT_EQ(rest[0].judgement.standing, Standing::partial);
}

TEST(Ended, AConnectionThatSaysNothingIsForgottenSoonAndStillFoundWhenItSpeaks) {
  Live live;
  Exchange x = from_port(40001);
  x.open();
  live.push(x.frames);
  EXPECT_TRUE(live.after(120 * second).empty());
  Exchange later = x;
  later.wait(120 * second)
      .send(0, startup(wire::MpaKey::req, PARLEY_MPA_FLAG_C, 1))
      .send(1, startup(wire::MpaKey::rep, PARLEY_MPA_FLAG_C, 1))
      .send(0, fpdu(send_segment(1, 20)))
      .close();
  live.push(Frames(later.frames.begin() + static_cast<std::ptrdiff_t>(x.frames.size()), later.frames.end()));
  const auto ended = live.after(4 * second);
  ASSERT_EQ(ended.size(), 1u);
  EXPECT_EQ(ended[0].outcome, Outcome::established);
}

TEST(Ended, AClockThatIsSetBackPutsNothingOffForGood) {
  Live live(AnalyzerOptions{.idle = std::chrono::minutes(10)});
  EXPECT_TRUE(live.after(10'000'000 * second).empty());
  Exchange x = from_port(40001);
  x.set_up();
  live.push(x.frames);  // long before
  EXPECT_EQ(live.after(700 * second).size(), 1u);
}

TEST(Ended, ConnectionsThatNeverSpeakTakeNoRoomFromOthers) {
  Live live;
  for (std::uint32_t i = 0; i < 66'000; ++i) {
    Address a = test::end_a(false);
    a.octets[2] = static_cast<std::uint8_t>(i / 50'000);
    a.port = static_cast<std::uint16_t>(1000 + i % 50'000);
    Exchange x(a, test::end_b(false), i, i);
    x.open();
    live.push(x.frames[0]);
  }
  EXPECT_TRUE(live.after(61 * second).empty());
  Exchange x = whole(1);
  for (Frame& f : x.frames) f.at += 62 * second;
  live.push(x.frames);
  EXPECT_EQ(live.after(2 * second).size(), 1u);
}

// More than a report has room for, each forgotten after it was handed out.
TEST(Ended, NumbersGoOnCountingWhileConnectionsAreForgotten) {
  Live live(AnalyzerOptions{.report_octets_max = 1 << 20});
  constexpr std::uint64_t rounds = 20'000;
  std::uint64_t handed_out = 0;
  Frames frames = whole(40001).frames;
  for (std::uint64_t i = 0; i < rounds; ++i) {
    for (Frame& f : frames) f.at += 10 * second;
    live.push(frames);
    handed_out += live.after(2 * second).size();
  }
  EXPECT_EQ(handed_out, rounds);
  const FileReport all = live.analyzer.finish();
  EXPECT_EQ(all.all_connections(), rounds);
  EXPECT_EQ(all.count(Standing::passed), rounds);
  EXPECT_EQ(all.unlisted.connections, 0u) << "what was handed out takes no room in the report";
  EXPECT_TRUE(all.notes.empty());
}

TEST(Dropped, AConnectionOfWhichNothingIsMissingPasses) {
  Live live;
  Exchange x = whole(40001);
  live.push(Frames(x.frames.begin(), x.frames.begin() + 4));
  live.analyzer.dropped(3);
  live.push(Frames(x.frames.begin() + 4, x.frames.end()));
  const auto ended = live.after(2 * second);
  ASSERT_EQ(ended.size(), 1u);
  EXPECT_EQ(ended[0].judgement.standing, Standing::passed);
  const FileReport all = live.analyzer.finish();
  EXPECT_EQ(all.judgement.standing, Standing::partial) << "whole connections may have been dropped";
  EXPECT_EQ(all.judgement.why, "the capture dropped 3 packets");
}

TEST(Dropped, OneThatMayLackSomethingIsPartial) {
  Live live;
  live.analyzer.dropped(0);
  Exchange x = from_port(40001);
  x.set_up().send(0, fpdu(send_segment(1, 20))).rst(0);
  live.push(x.frames);
  live.analyzer.dropped(3);
  const auto ended = live.after(4 * second);
  ASSERT_EQ(ended.size(), 1u);
  EXPECT_EQ(ended[0].judgement.standing, Standing::partial);
  EXPECT_EQ(ended[0].judgement.why, "the capture dropped 3 packets while it was followed");
}

TEST(Dropped, TheirPlaceIsKnownToOneCall) {
  const auto judged = [](int calls) {
    Live live;
    live.analyzer.dropped(3);
    for (int i = 0; i < calls; ++i) live.analyzer.dropped(0);
    Exchange x = from_port(40001);
    x.set_up().send(0, fpdu(send_segment(1, 20))).rst(0);
    live.push(x.frames);
    return live.after(4 * second).at(0).judgement.standing;
  };
  EXPECT_EQ(judged(0), Standing::partial);
  EXPECT_EQ(judged(1), Standing::passed);
}

// Without its SYNs, nobody knows where it began.
TEST(Dropped, OneThatWasNotSeenFromTheBeginningIsPartial) {
  for (const std::size_t gone : {0u, 1u, 2u}) {
    Live live;
    Exchange x = whole(40001);
    for (std::size_t i = gone; i < x.frames.size(); ++i) {
      if (i == 4) live.analyzer.dropped(3);
      live.push(x.frames[i]);
    }
    EXPECT_EQ(live.after(8 * second).at(0).judgement.standing, gone == 0 ? Standing::passed : Standing::partial)
        << gone;
  }
}

TEST(Dropped, ASetUpThatWasRejectedIsPartialUnlessAllOfItWasSeen) {
  for (const std::size_t gone : {0u, 1u, 2u}) {
    Live live;
    Exchange x = from_port(40001);
    x.open().send(0, startup(wire::MpaKey::req, PARLEY_MPA_FLAG_C, 1));
    x.send(1, startup(wire::MpaKey::rep, PARLEY_MPA_FLAG_C | PARLEY_MPA_FLAG_R, 1));
    x.send(0, startup(wire::MpaKey::req, PARLEY_MPA_FLAG_C, 1));
    x.send(1, startup(wire::MpaKey::rep, PARLEY_MPA_FLAG_C, 1)).send(0, fpdu(send_segment(1, 20))).close();
    for (std::size_t i = gone; i < x.frames.size(); ++i) {
      if (i == 4) live.analyzer.dropped(3);
      live.push(x.frames[i]);
    }
    const auto ended = live.after(8 * second);
    ASSERT_EQ(ended.size(), 2U);
    // What was dropped counts for set-ups that began since the call before as well.
    for (const ConnectionReport& c : ended) EXPECT_EQ(c.dropped, gone > 0 ? 3U : 0U) << gone << "\n" << to_text(c);
  }
}

// Whatever one packet is dropped, nobody is accused.
TEST(Dropped, NoLossAccusesAnybody) {
  const Exchange x = conversation();
  for (std::size_t lost = 0; lost < x.frames.size(); ++lost) {
    Live live;
    for (std::size_t i = 0; i < x.frames.size(); ++i) {
      if (i == lost)
        live.analyzer.dropped(1);
      else
        live.push(x.frames[i]);
    }
    auto ended = live.after(7200 * second);
    for (const ConnectionReport& c : ended) {
      EXPECT_EQ(c.count(Severity::error) + c.count(Severity::warning), 0u) << lost << "\n" << to_text(c);
      EXPECT_NE(c.judgement.standing, Standing::failed) << lost << "\n" << to_text(c);
    }
    EXPECT_NE(live.analyzer.finish().judgement.standing, Standing::passed) << lost;
  }
}

}  // namespace
}  // namespace parley::capture
