// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Connections that were set up before the capture began: they are found by their FPDUs, counted, judged by what does
// not need the set-up, and accused of nothing that the capture lacks. Other traffic is not taken for MPA.
#include "capture/read/fpdu/pick_up.hpp"

#include <gtest/gtest.h>

#include <array>
#include <random>

#include "bench/capture_mix.hpp"
#include "capture/report/csv.hpp"
#include "capture/report/json.hpp"
#include "capture/report/matrix.hpp"
#include "capture/report/text.hpp"
#include "tests/unit/capture/exchange.hpp"

namespace parley::capture::pick_up_test {
namespace {

using test::Exchange;
using test::Frames;

constexpr std::size_t set_up_frames = 5;  // SYN, SYN ACK, ACK, Request, Reply

Frames without_first(Frames frames, std::size_t n) {
  frames.erase(frames.begin(), frames.begin() + static_cast<std::ptrdiff_t>(n));
  return frames;
}

TEST(PickUp, ListsAConnectionOfWhichOnlyFpdusWereCaptured) {
  const FileReport r = test::analyse(without_first(test::conversation().frames, set_up_frames), 1, true);
  ASSERT_EQ(r.connections.size(), 1u);
  const ConnectionReport& c = r.connections[0];
  EXPECT_EQ(c.outcome, Outcome::not_captured);
  EXPECT_EQ(c.first_frame, 1u);
  EXPECT_TRUE(c.crc);
  EXPECT_FALSE(c.markers_to_initiator || c.markers_to_responder);
  EXPECT_EQ(c.initiator.to_string(), "192.0.2.1:40000");
  EXPECT_EQ(c.from_initiator.fpdus, 18u);
  EXPECT_EQ(c.from_initiator.messages, 12u);
  EXPECT_EQ(c.from_responder.fpdus, 24u);
  EXPECT_EQ(c.from_responder.messages, 18u);
  EXPECT_EQ(r.count(Severity::error) + r.count(Severity::warning), 0u) << test::words(r);
  ASSERT_EQ(c.findings.size(), 1u) << test::words(r);
  EXPECT_NE(c.findings[0].text.find("the set-up is not in the capture"), std::string::npos);
  EXPECT_EQ(c.judgement.standing, Standing::partial);
  EXPECT_EQ(form_of(c), "handshake not captured");
  const std::string text = to_text(c);
  EXPECT_NE(
      text.find(
          "192.0.2.1:40000 -> 192.0.2.2:9001  handshake not captured, partial: the set-up is not in the capture\n"),
      std::string::npos)
      << text;
  EXPECT_NE(text.find("  agreed     not captured; CRC on, no markers\n"), std::string::npos) << text;
  EXPECT_NE(to_json("a", r).find(R"("revision":null,"crc":true)"), std::string::npos) << to_json("a", r);
  EXPECT_NE(to_csv("a", r).find(",handshake_not_captured,"), std::string::npos);
  EXPECT_GT(c.events.size(), 40u);
}

TEST(PickUp, AccusesNobodyWhereverTheCaptureBegins) {
  for (const bool markers : {false, true})
    for (const bool v6 : {false, true}) {
      const Frames all = test::conversation(v6, markers, 0xFFFFF000).frames;
      for (std::size_t n = set_up_frames; n < all.size(); ++n) {
        const FileReport r = test::analyse(without_first(all, n));
        EXPECT_EQ(r.count(Severity::error) + r.count(Severity::warning), 0u)
            << n << " packets lost, markers " << markers << "\n"
            << test::words(r);
        if (all.size() - n > 20) {
          EXPECT_EQ(r.connections.size(), 1u) << n << " packets lost, markers " << markers;
        }
      }
    }
}

TEST(PickUp, CallsTheEndThatIsSeenFirstTheInitiator) {
  Exchange x;
  for (std::uint32_t msn = 4; msn < 9; ++msn) x.send(1, test::fpdu(test::send_segment(msn, 400)));
  x.send(0, test::fpdu(test::tagged(wire::RdmapOpcode::rdma_write, 1, 0, 300)));
  const FileReport r = test::analyse(x.frames);
  ASSERT_EQ(r.connections.size(), 1u);
  EXPECT_EQ(r.connections[0].initiator.to_string(), "192.0.2.2:9001");
  EXPECT_EQ(r.connections[0].from_initiator.messages_by_opcode[3], 5u);
  EXPECT_EQ(r.connections[0].from_responder.messages_by_opcode[0], 1u);
}

TEST(PickUp, FindsTheMarkersOfBothDirections) {
  const FileReport r = test::analyse(without_first(test::conversation(false, true).frames, set_up_frames));
  ASSERT_EQ(r.connections.size(), 1u);
  EXPECT_TRUE(r.connections[0].markers_to_initiator);
  EXPECT_TRUE(r.connections[0].markers_to_responder);
  EXPECT_GT(r.connections[0].from_initiator.fpdus + r.connections[0].from_responder.fpdus, 30u);
}

TEST(PickUp, FindsWhatFollowsAHoleThatHoldsTheSetUp) {
  Frames frames = test::conversation().frames;
  frames.erase(frames.begin() + 3, frames.begin() + 5);
  const FileReport r = test::analyse(frames);
  ASSERT_EQ(r.connections.size(), 1u);
  EXPECT_EQ(r.connections[0].outcome, Outcome::not_captured);
  EXPECT_EQ(r.count(Severity::error), 0u) << test::words(r);
}

/// Three good FPDUs, what a test adds, and no set-up; `bad` goes through as it is.
FileReport after_three(const Bytes& bad, const Bytes& next = {}) {
  Exchange x;
  for (std::uint32_t msn = 4; msn < 7; ++msn) x.send(0, test::fpdu(test::send_segment(msn, 400)));
  x.send(0, bad);
  if (!next.empty()) x.send(0, next);
  return test::analyse(x.frames);
}

TEST(PickUp, JudgesWhatNeedsNoSetUp) {
  Bytes broken = test::fpdu(test::send_segment(7, 100));
  broken.back() ^= 1;
  EXPECT_TRUE(test::has(after_three(broken), Severity::error, "sent an FPDU with CRC"));
  const Bytes skipped = test::fpdu(test::send_segment(9, 100));
  EXPECT_TRUE(test::has(after_three(skipped), Severity::error, "sent a Send with MSN 9, 7 was expected"));
  wire::DdpHeader h;
  h.opcode = static_cast<wire::RdmapOpcode>(0xF);
  h.msn = 7;
  EXPECT_TRUE(test::has(after_three(test::fpdu(test::segment(h))), Severity::error, "sent RDMAP opcode 0xF"));
  wire::DdpHeader t;
  t.opcode = wire::RdmapOpcode::terminate;
  t.qn = 2;
  t.msn = 1;
  const Bytes terminate = test::fpdu(test::segment(t, Bytes{0x02, 0x06, 0, 0}));
  EXPECT_TRUE(test::has(after_three(terminate, test::fpdu(test::send_segment(7, 10))), Severity::error,
                        "after its Terminate in frame 4"));
}

TEST(PickUp, DoesNotTakeOneFpduForAConnection) {
  Exchange x;
  x.send(0, test::fpdu(test::send_segment(4, 400))).send(0, Bytes(300, 0x42)).send(1, Bytes(300, 0x42));
  EXPECT_TRUE(test::analyse(x.frames).connections.empty());
}

TEST(PickUp, DoesNotLookIntoConnectionsThatBeginWithSomethingElse) {
  Exchange x;
  x.open().send(0, Bytes{'G', 'E', 'T', ' ', '/', ' ', 'H', 'T', 'T', 'P'});
  for (std::uint32_t msn = 1; msn < 9; ++msn) x.send(1, test::fpdu(test::send_segment(msn, 400)));
  EXPECT_TRUE(test::analyse(x.frames).connections.empty());
}

TEST(PickUp, ListsNothingForLatePacketsOfAConnectionThatIsOver) {
  Exchange x = test::conversation();
  const Frames again = without_first(x.frames, set_up_frames);
  for (std::uint16_t i = 0; i < 200; ++i) {  // the first one is judged before these are over
    Exchange other(test::end_a(false), Address::v4(192, 0, 2, 9, static_cast<std::uint16_t>(2000 + i)), 5, 9);
    other.wait(std::chrono::seconds(60)).set_up().close();
    x.frames.insert(x.frames.end(), other.frames.begin(), other.frames.end());
  }
  x.frames.insert(x.frames.end(), again.begin(), again.end());
  const FileReport r = test::analyse(x.frames);
  EXPECT_EQ(r.connections.size(), 201u);
  for (const ConnectionReport& c : r.connections) EXPECT_NE(c.outcome, Outcome::not_captured);
}

FileReport analyse_told(const Frames& frames, std::uint16_t port = 9001) {
  Analyzer analyzer({.mpa_ports = {7, port}});
  wire::CapturedPacket p;
  p.link_type = 1;
  for (const test::Frame& f : frames) {
    ++p.frame;
    p.octets = f.octets;
    p.original_length = static_cast<std::uint32_t>(f.octets.size());
    analyzer.push(p);
  }
  return analyzer.finish();
}

TEST(PickUp, TakesFpdusWithoutCrcOnlyOfPortsThatAreNamed) {
  Exchange x;
  for (std::uint32_t msn = 4; msn < 9; ++msn) x.send(0, test::fpdu(test::send_segment(msn, 400), 0, false, false));
  EXPECT_TRUE(test::analyse(x.frames).connections.empty());
  for (const std::uint16_t port : {std::uint16_t{9001}, std::uint16_t{9002}}) {
    const FileReport r = analyse_told(x.frames, port);
    ASSERT_EQ(r.connections.size(), port == 9001 ? 1u : 0u);
    if (port != 9001) continue;
    EXPECT_EQ(r.connections[0].from_initiator.fpdus, 5u);
    EXPECT_FALSE(r.connections[0].crc);
    EXPECT_EQ(r.count(Severity::error), 0u) << test::words(r);
  }
}

/// One direction of a connection that was set up before: FPDUs where they stand in the stream.
struct Stream {
  bool markers = false, crc = true;
  std::uint64_t at = 0;
  Bytes next(ConstBytes ulpdu) {
    Bytes f = test::fpdu(ulpdu, at, markers, crc);
    at += f.size();
    return f;
  }
};

// RFC 5044 §3: a ULPDU has 64768 octets at most; a right CRC behind more of them proves nothing.
TEST(PickUp, TakesAnFpduForOneUpToTheLongestThatThereIs) {
  for (const std::size_t length : {64768u, 64769u}) {
    Exchange x;
    for (std::uint32_t msn = 4; msn < 7; ++msn)
      x.send(0, test::fpdu(test::send_segment(msn, length - PARLEY_DDP_UNTAGGED_LEN)));
    const FileReport r = test::analyse(x.frames);
    ASSERT_EQ(r.connections.size(), length == 64768 ? 1u : 0u) << length;
    if (length == 64768) {
      EXPECT_EQ(r.connections[0].from_initiator.fpdus, 3u);
    }
  }
}

// RFC 5044 §4.3: FPDUs of 128 octets each; the fifth in a row that fits ends where a marker could have stood and none
// did, so that the one behind the next is held to its number.
TEST(PickUp, JudgesWithoutCrcNotBeforeAWholeMarkerIntervalHeldNone) {
  for (std::uint32_t skip_at = 2; skip_at < 12; ++skip_at) {
    Exchange x;
    Stream s{false, false, 0};
    for (std::uint32_t msn = 1; msn < 14; ++msn)
      x.send(0, s.next(test::send_segment(msn < skip_at ? msn : msn + 1, 104)));
    EXPECT_EQ(analyse_told(x.frames).count(Severity::error), skip_at >= 8 ? 1u : 0u) << skip_at;
  }
}

TEST(PickUp, TakesNoMarkerForAFaultWhereNoCrcTells) {  // RFC 5044 §4.3
  for (const std::size_t payload : {100u, 300u, 331u, 1400u})
    for (const std::uint64_t at : {0u, 4u, 200u, 496u}) {
      Exchange x;
      Stream s{true, false, at};
      for (std::uint32_t msn = 4; msn < 40; ++msn) x.send(0, s.next(test::send_segment(msn, payload)));
      const FileReport r = analyse_told(x.frames);
      ASSERT_EQ(r.connections.size(), 1u);
      EXPECT_GT(r.connections[0].from_initiator.fpdus, 0u);
      EXPECT_EQ(r.count(Severity::error) + r.count(Severity::warning), 0u) << payload << " octets from " << at << "\n"
                                                                           << test::words(r);
    }
}

TEST(PickUp, JudgesWithoutCrcOnceAMarkerIntervalHeldNone) {
  for (const std::uint32_t skip_at : {21u, 39u}) {
    Exchange x;
    Stream s{false, false, 0};
    for (std::uint32_t msn = 20; msn < 40; ++msn)
      x.send(0, s.next(test::send_segment(msn < skip_at ? msn : msn + 1, 100)));
    const FileReport r = analyse_told(x.frames);
    ASSERT_EQ(r.connections.size(), 1u);
    EXPECT_EQ(r.connections[0].from_initiator.fpdus, 20u);
    EXPECT_EQ(r.connections[0].from_initiator.messages, 20u);
    EXPECT_EQ(test::has(r, Severity::error, "sent a Send with MSN 40, 39 was expected"), skip_at == 39)
        << test::words(r);
    EXPECT_EQ(r.count(Severity::error), skip_at == 39 ? 1u : 0u) << test::words(r);
  }
}

TEST(PickUp, ReadsNoMarkerAsPartOfAHeaderWhereOctetsAreMissing) {  // RFC 5044 §4.3
  for (const std::uint64_t into : {4u, 8u, 12u, 16u}) {
    // Three FPDUs of 48 octets, then one with the marker inside its DDP header.
    Exchange x;
    Stream s{true, true, 512 - into - 144};
    for (std::uint32_t msn = 1; msn < 4; ++msn) x.send(0, s.next(test::send_segment(msn, 24)));
    x.send(0, s.next(test::send_segment(4, 2400)), 1000);
    x.frames.erase(x.frames.end() - 2);
    for (std::uint32_t i = 0; i < 20; ++i) x.acknowledge(1);
    const FileReport r = test::analyse(x.frames);
    ASSERT_EQ(r.connections.size(), 1u);
    EXPECT_EQ(r.connections[0].from_initiator.fpdus, 4u);
    EXPECT_EQ(r.count(Severity::error) + r.count(Severity::warning), 0u) << into << "\n" << test::words(r);
  }
}

/// What two correct peers say, both in streams of their own making, over segments that need not fit the FPDUs.
Frames some_conversation(std::mt19937_64& random, bool crc) {
  const auto below = [&random](std::uint64_t n) { return static_cast<std::size_t>(random() % n); };
  Exchange x(false, static_cast<std::uint32_t>(random()), static_cast<std::uint32_t>(random()));
  std::array<Stream, 2> streams{Stream{below(2) == 0, crc, 0}, Stream{below(2) == 0, crc, 0}};
  std::array<Bytes, 2> waiting;
  std::array<std::uint32_t, 2> msn{1, 1};
  constexpr std::array<std::size_t, 4> sizes{1460, 1448, 536, 200};
  const std::size_t mss = sizes[below(4)], largest = below(3) == 0 ? 64 : 1200;
  const bool aligned = below(5) < 3;
  std::uint32_t reads = 0;
  const auto say = [&](std::size_t from, const Bytes& ulpdu) {
    const Bytes f = streams[from].next(ulpdu);
    waiting[from].insert(waiting[from].end(), f.begin(), f.end());
    const bool all = aligned || below(4) == 0;
    const std::size_t n = all ? waiting[from].size() : waiting[from].size() / mss * mss;
    x.send(static_cast<unsigned>(from), ConstBytes(waiting[from]).first(n), mss);
    waiting[from].erase(waiting[from].begin(), waiting[from].begin() + static_cast<std::ptrdiff_t>(n));
  };
  for (std::size_t i = 0, n = 6 + below(20); i < n; ++i) {
    const std::size_t from = below(2), length = below(largest);
    switch (below(4)) {
      case 0: say(from, test::send_segment(msn[from]++, length)); break;
      case 1:
        say(from, test::send_segment(msn[from], length, 0, false));
        say(from, test::send_segment(msn[from]++, 9, static_cast<std::uint32_t>(length)));
        break;
      case 2: say(from, test::tagged(wire::RdmapOpcode::rdma_write, 0x33, 0x3000, length)); break;
      default:
        say(0, test::read_request(++reads, {0x11, 0x1000, static_cast<std::uint32_t>(length), 0x22, 0x2000}));
        say(1, test::tagged(wire::RdmapOpcode::read_response, 0x11, 0x1000, length));
    }
  }
  return x.frames;
}

TEST(PickUp, AccusesNobodyInHundredsOfCorrectConversationsOfWhichPacketsAreMissing) {
  constexpr std::array<std::uint64_t, 3> lost_in_100{0, 4, 12};
  std::uint64_t listed = 0, fpdus = 0;
  for (std::uint64_t seed = 0; seed < 480; ++seed) {
    std::mt19937_64 random(seed);
    const bool crc = seed % 2 == 0, told = !crc || seed % 4 == 0;
    const std::uint64_t lost = lost_in_100[seed / 4 % 3];
    const Frames all = some_conversation(random, crc);
    Frames frames;
    const std::size_t begin = static_cast<std::size_t>(random() % (all.size() / 2 + 1));
    for (std::size_t i = begin; i < all.size(); ++i)
      if (random() % 100 >= lost) frames.push_back(all[i]);
    const FileReport r = told ? analyse_told(frames) : test::analyse(frames);
    EXPECT_EQ(r.count(Severity::error) + r.count(Severity::warning), 0u) << "seed " << seed << "\n" << test::words(r);
    listed += r.connections.size();
    for (const ConnectionReport& c : r.connections) fpdus += c.from_initiator.fpdus + c.from_responder.fpdus;
  }
  EXPECT_GT(listed, 400u);
  EXPECT_GT(fpdus, 5000u);
}

TEST(PickUp, TakesNoRandomStreamForMpa) {
  std::mt19937_64 random(5);
  Exchange x;
  for (int i = 0; i < 20'000; ++i) {
    Bytes octets(static_cast<std::size_t>(40 + random() % 300));
    for (std::uint8_t& o : octets) o = static_cast<std::uint8_t>(random());
    // Half of them with the head of an FPDU, which other octets then contradict.
    if (i % 2 == 0) {
      const Bytes head = test::send_segment(static_cast<std::uint32_t>(i), 20);
      octets[0] = static_cast<std::uint8_t>(random() % 8);
      std::copy(head.begin(), head.begin() + PARLEY_DDP_UNTAGGED_LEN, octets.begin() + 2);
    }
    x.send(static_cast<unsigned>(random() % 2), octets);
  }
  const FileReport r = test::analyse(x.frames);
  EXPECT_TRUE(r.connections.empty()) << test::words(r);
  EXPECT_EQ(r.tcp_connections, 1u);
}

class PickUpOfEveryMix : public testing::TestWithParam<std::pair<bench::Mix, std::string_view>> {};

TEST_P(PickUpOfEveryMix, FindsNearlyAllFpdusAndAccusesNobody) {
  constexpr std::uint64_t lost = 400;
  Analyzer analyzer;
  wire::CapturedPacket p;
  p.link_type = 1;
  std::uint64_t seen = 0;
  const bench::MixTotals made = bench::CaptureMix(GetParam().first, 6000, [&](Instant at, ConstBytes frame) {
                                  if (++seen <= lost) return;
                                  ++p.frame;
                                  p.at = at;
                                  p.octets = frame;
                                  p.original_length = static_cast<std::uint32_t>(frame.size());
                                  analyzer.push(p);
                                }).run();
  const FileReport r = analyzer.finish();
  EXPECT_EQ(r.count(Severity::error) + r.count(Severity::warning), 0u) << test::words(r);
  std::uint64_t fpdus = 0, picked_up = 0;
  for (const ConnectionReport& c : r.connections) {
    fpdus += c.from_initiator.fpdus + c.from_responder.fpdus;
    if (c.outcome == Outcome::not_captured) ++picked_up;
  }
  // FPDUs are looked for where segments begin: the more FPDUs begin there, the sooner a connection is picked up. Those
  // of 16 KiB over full segments do so too seldom.
  switch (GetParam().first) {
    case bench::Mix::straddling: return;
    case bench::Mix::markers: EXPECT_GT(picked_up, 4u); return;
    case bench::Mix::lossy: EXPECT_GT(fpdus * 100, made.fpdus * 55) << fpdus << " of " << made.fpdus; return;
    default: break;
  }
  EXPECT_GT(picked_up, 10u);
  EXPECT_GT(fpdus * 100, made.fpdus * 90) << fpdus << " of " << made.fpdus;
}

INSTANTIATE_TEST_SUITE_P(Verdict, PickUpOfEveryMix, testing::ValuesIn(bench::mixes), [](const auto& mix) {
  std::string name(mix.param.second);
  std::erase(name, ' ');
  return name;
});

}  // namespace
}  // namespace parley::capture::pick_up_test
