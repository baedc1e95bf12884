// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Where FPDUs begin again behind octets that the capture lacks, that are no FPDU, or that came before it began: to the
// octet, and no FPDU behind is missed (RFC 5044 §6).
#include <gtest/gtest.h>

#include "tests/unit/capture/exchange.hpp"

namespace parley::capture::resync_test {
namespace {

using test::errors;
using test::Exchange;
using test::fpdu;
using test::send_segment;
using test::startup;
using wire::MpaKey;
using wire::RdmapOpcode;

constexpr std::uint8_t M = PARLEY_MPA_FLAG_M, C = PARLEY_MPA_FLAG_C;

/// The initiator's FPDUs, and where each begins in their stream.
struct Story {
  bool markers;
  Bytes octets = {};
  std::vector<std::uint64_t> begins = {};
  std::uint32_t msn = 1;
  Story& add(std::size_t payload) {
    begins.push_back(octets.size());
    const Bytes f = fpdu(send_segment(msn++, payload), octets.size(), markers);
    octets.insert(octets.end(), f.begin(), f.end());
    return *this;
  }
};

Exchange set_up(bool markers) {
  Exchange x;
  return x.open()
      .send(0, startup(MpaKey::req, C, 1))
      .send(1, startup(MpaKey::rep, static_cast<std::uint8_t>(markers ? C | M : C), 1));
}
constexpr std::size_t set_up_frames = 5;

ConnectionReport one(const Exchange& x) {
  FileReport r = test::analyse(x.frames);
  EXPECT_EQ(r.connections.size(), 1u) << test::words(r);
  EXPECT_EQ(r.count(Severity::error), 0u) << test::words(r);
  return r.connections.empty() ? ConnectionReport{} : std::move(r.connections[0]);
}
std::string found_again(const ConnectionReport& c) {
  for (const Finding& f : c.findings)
    if (f.text.find("can be followed again") != std::string::npos) return std::to_string(f.frame) + ": " + f.text;
  return "";
}

TEST(CaptureResync, BehindALossTheNextFpduIsFoundByItsMarkers) {
  for (const std::size_t mss : {333u, 700u, 1000u, 1460u})
    for (std::size_t lost = 1; lost < 8; ++lost) {
      Story s{true};
      for (int i = 0; i < 14; ++i) s.add(700);  // each holds a marker, which tells where it began
      const std::uint64_t hole = lost * mss, behind = hole + mss;
      if (behind + 1500 > s.octets.size()) break;
      Exchange x = set_up(true).send(0, s.octets, mss);
      x.frames.erase(x.frames.begin() + static_cast<std::ptrdiff_t>(set_up_frames + lost));
      x.close();
      const std::size_t in =
          static_cast<std::size_t>(std::upper_bound(s.begins.begin(), s.begins.end(), hole) - s.begins.begin() - 1);
      const std::string what = std::to_string(mss) + ", segment " + std::to_string(lost);
      const ConnectionReport c = one(x);
      EXPECT_EQ(c.from_initiator.missing_octets, mss) << what;
      const bool header_seen = hole - s.begins[in] >= 6;
      if (s.begins[in + 1] >= behind && header_seen) {  // the boundaries survive
        EXPECT_EQ(c.from_initiator.fpdus, 14u) << what;
        EXPECT_EQ(found_again(c), "") << what;
        continue;
      }
      const auto next = std::lower_bound(s.begins.begin(), s.begins.end(), behind);
      const auto fpdus_lost = static_cast<std::uint64_t>(next - s.begins.begin()) - in;
      EXPECT_EQ(c.from_initiator.fpdus, 14u - fpdus_lost) << what;
      EXPECT_NE(found_again(c).find(std::to_string(*next - s.begins[in]) + " octets after they were lost"),
                std::string::npos)
          << what << ": " << found_again(c);
    }
}

TEST(CaptureResync, BehindALossTheNextFpduIsFoundWhereASegmentBegins) {
  // Of the last FPDU before the hole so many octets came; the hole goes beyond it.
  for (const bool markers : {false, true})
    for (const std::size_t came : {1u, 2u, 3u, 20u, 61u}) {
      Story s{markers};
      s.add(40).add(40);
      const std::size_t second = s.begins[1];
      s.add(30);
      const std::size_t end = s.octets.size();
      s.add(50).add(60);
      const ConstBytes all = s.octets;
      Exchange x = set_up(markers).send(0, all.first(second + came));
      const std::size_t hole = x.frames.size();
      x.send(0, all.subspan(second + came, end - second - came)).send(0, all.subspan(end)).close();
      x.frames.erase(x.frames.begin() + static_cast<std::ptrdiff_t>(hole));
      const ConnectionReport c = one(x);
      EXPECT_EQ(c.from_initiator.fpdus, 3u) << came;
      EXPECT_EQ(found_again(c), "7: the FPDUs of the initiator can be followed again, " + std::to_string(end - second) +
                                    " octets after they were lost")
          << came << markers;
    }
}

// The octets behind a fault arrive with some of it once more: no segment begins where the next FPDU does.
TEST(CaptureResync, BehindABadCrcTheNextFpduIsFoundInARetransmission) {
  for (const std::size_t again : {0u, 1u, 30u}) {
    const Bytes second = fpdu(send_segment(2, 50));
    Bytes bad = fpdu(send_segment(1, 50));
    bad[40] ^= 1;
    Exchange x = set_up(false).send(0, bad);
    x.seq(0) -= static_cast<std::uint32_t>(again);
    Bytes more(bad.end() - static_cast<std::ptrdiff_t>(again), bad.end());
    more.insert(more.end(), second.begin(), second.end());
    const FileReport r = test::analyse(x.send(0, more).close().frames);
    ASSERT_EQ(r.connections.size(), 1u);
    EXPECT_EQ(r.connections[0].from_initiator.fpdus, 2u) << again;
    EXPECT_EQ(r.connections[0].from_initiator.messages, 1u) << again << "\n" << test::words(r);
    EXPECT_EQ(r.count(Severity::error), 1u) << test::words(r);
  }
}

TEST(CaptureResync, BehindAnEmptyUlpduTheNextFpduIsFoundInsideASegment) {  // RFC 5044 §4.1: 1 octet at least
  const Bytes empty = fpdu({});
  const Bytes next = fpdu(send_segment(2, 50));
  for (std::size_t cut = 1; cut < empty.size(); ++cut) {
    Bytes first = fpdu(send_segment(1, 50)), second(empty.begin() + static_cast<std::ptrdiff_t>(cut), empty.end());
    first.insert(first.end(), empty.begin(), empty.begin() + static_cast<std::ptrdiff_t>(cut));
    second.insert(second.end(), next.begin(), next.end());
    const FileReport r = test::analyse(set_up(false).send(0, first).send(0, second).close().frames);
    EXPECT_TRUE(test::has(r, Severity::error, "the initiator sent an FPDU with ULPDU_Length 0")) << cut;
    ASSERT_EQ(r.connections.size(), 1u);
    EXPECT_EQ(r.connections[0].from_initiator.messages, 2u) << cut << "\n" << test::words(r);
  }
}

TEST(CaptureResync, AMarkerWithBitsSetKeepsNoFpduWaiting) {  // RFC 5044 §4.3
  for (const unsigned first_half : {0x0080u, 0x0400u, 0xFF00u})
    for (const bool at_begin : {true, false}) {  // or right behind 512 octets, where it looks like a ULPDU_Length
      Exchange x = set_up(true);
      const std::uint64_t at = at_begin ? 0 : 512;
      if (!at_begin) x.send(0, fpdu(send_segment(1, 484), 0, true)).send(1, fpdu(send_segment(1, 4)));
      Bytes ask = fpdu(test::read_request(1, {0x11, 0x1000, 8, 0x22, 0x2000}), at, true);
      ask[0] = static_cast<std::uint8_t>(first_half >> 8), ask[1] = static_cast<std::uint8_t>(first_half);
      const std::uint32_t crc = mpa::crc32c(ConstBytes(ask).first(ask.size() - 4));
      for (std::size_t i = 0; i < 4; ++i) ask[ask.size() - 4 + i] = static_cast<std::uint8_t>(crc >> (8 * i));
      x.send(0, ask).send(1, fpdu(test::tagged(RdmapOpcode::read_response, 0x11, 0x1000, 8))).close();
      EXPECT_TRUE(test::has(test::analyse(x.frames), Severity::warning, "set bits of a marker that are 0"));
      EXPECT_EQ(errors(x), "") << first_half << " at " << at;
    }
}

TEST(CaptureResync, BehindASecondReplyFpdusGoOn) {  // RFC 5044 §7.1.2
  for (const std::size_t private_data : {0u, 16u})
    for (const std::size_t mss : {1u, 7u, 20u, 1460u}) {
      Exchange x = set_up(false);
      x.send(0, fpdu(send_segment(1, 8)));
      Bytes glued = startup(MpaKey::rep, C, 1, {}, Bytes(private_data, 'x'));
      const Bytes ask = fpdu(test::read_request(1, {0x11, 0x1000, 8, 0x22, 0x2000}));
      glued.insert(glued.end(), ask.begin(), ask.end());
      x.send(1, glued, mss).send(0, fpdu(test::tagged(RdmapOpcode::read_response, 0x11, 0x1000, 8))).close();
      EXPECT_EQ(errors(x), "the responder sent a second Reply where an FPDU is expected [RFC 5044 §7.1.2]\n") << mss;
      EXPECT_EQ(test::analyse(x.frames).connections.at(0).from_responder.fpdus, 1u) << mss;
    }
}

TEST(CaptureResync, AConnectionIsPickedUpAtItsFirstFpduWithOrWithoutMarkers) {
  // The first FPDU begins with a marker, holds one at several places, or none.
  for (const bool markers : {false, true})
    for (const std::uint64_t at : {0u, 512u, 256u, 128u, 460u, 5120u}) {
      Exchange x;
      std::uint64_t position = at;
      for (std::uint32_t msn = 1; msn <= 4; ++msn) {
        const Bytes f = fpdu(send_segment(msn, 420), position, markers);
        position += f.size();
        x.send(0, f);
      }
      const FileReport r = test::analyse(x.frames);
      ASSERT_EQ(r.connections.size(), 1u) << at;
      EXPECT_EQ(r.connections[0].first_frame, 1u) << at << markers;
      EXPECT_EQ(r.connections[0].from_initiator.fpdus, 4u) << at << markers;
      EXPECT_EQ(r.connections[0].markers_to_responder, markers) << at;
      EXPECT_EQ(r.count(Severity::error) + r.count(Severity::warning), 0u) << test::words(r);
    }
}

TEST(CaptureResync, OneFpduWithMarkersIsNoConnectionYet) {
  // What follows it is no FPDU; two behind that are a connection of their own.
  Exchange x;
  const Bytes first = fpdu(send_segment(1, 600), 0, true);
  Bytes bad = fpdu(send_segment(2, 600), first.size(), true);
  bad[100] ^= 1;
  x.send(0, first).send(0, bad);
  for (std::uint32_t msn = 7; msn < 12; ++msn) x.send(0, fpdu(send_segment(msn, 600), 0, true));
  const FileReport r = test::analyse(x.frames);
  EXPECT_EQ(r.count(Severity::error) + r.count(Severity::warning), 0u) << test::words(r);
  for (const ConnectionReport& c : r.connections) EXPECT_GE(c.first_frame, 3u);
}

TEST(CaptureResync, WhereTheSetUpIsNotCapturedAPeerThatSentNothingIsNotAccused) {
  Exchange x;
  for (std::uint32_t msn = 4; msn < 7; ++msn) x.send(0, fpdu(send_segment(msn, 400)));
  Bytes bad = fpdu(send_segment(7, 400));
  bad[40] ^= 1;
  x.send(0, bad).acknowledge(1).fin(1).fin(0);
  const FileReport r = test::analyse(x.frames);
  ASSERT_EQ(r.connections.size(), 1u);
  EXPECT_EQ(r.count(Severity::error), 1u) << test::words(r);
  EXPECT_EQ(r.count(Severity::warning), 0u) << test::words(r);
}

TEST(CaptureResync, ASynOnPortsThatWereInUseBeginsAnotherConnection) {
  for (const bool acknowledged : {false, true})  // by a number far from that of the SYN
    for (std::size_t before = 1; before < 4; ++before) {
      Exchange old(false, 0x70000000, 700000);
      for (std::size_t i = 0; i < before; ++i) {
        old.add(1, acknowledged ? wire::tcp_flag::ack : wire::tcp_flag::psh,
                Bytes{static_cast<std::uint8_t>("MPA"[i])});
        ++old.seq(1);
      }
      Exchange x = set_up(false);
      x.send(0, fpdu(send_segment(1, 8))).send(1, fpdu(send_segment(1, 8))).close();
      test::Frames all = old.frames;
      all.insert(all.end(), x.frames.begin(), x.frames.end());
      const FileReport r = test::analyse(all);
      ASSERT_EQ(r.connections.size(), 1u) << before;
      EXPECT_EQ(r.connections[0].outcome, Outcome::established) << before;
      EXPECT_EQ(r.connections[0].first_frame, before + 1) << test::words(r);
      EXPECT_EQ(r.tcp_connections, 2u) << before;
      EXPECT_EQ(r.count(Severity::error), 0u) << test::words(r);
    }
}

}  // namespace
}  // namespace parley::capture::resync_test
