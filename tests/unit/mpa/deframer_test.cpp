// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include <gtest/gtest.h>

#include <utility>

#include "mpa/framer.hpp"
#include "tests/unit/mpa/fpdu_reference.hpp"

namespace parley::mpa {
namespace {

using reference::deframe_whole;
using reference::octets;
using reference::Received;

struct Stream {
  FramerOptions options;
  Bytes wire;
  std::vector<Bytes> ulpdus;
  std::vector<std::size_t> begins;  ///< where each FPDU begins, its leading marker included
};

Stream stream_of(const std::vector<std::size_t>& sizes, bool markers, bool crc = true) {
  Stream s;
  s.options = {.crc = crc, .markers = markers};
  for (const std::size_t size : sizes) {
    s.begins.push_back(s.wire.size());
    s.ulpdus.push_back(octets(size, size + s.wire.size()));
    const Bytes one = reference::fpdu(s.wire.size(), s.ulpdus.back(), markers, crc);
    s.wire.insert(s.wire.end(), one.begin(), one.end());
  }
  return s;
}

/// Short and long FPDUs, markers before ULPDU_Length, in the header, in the ULPDU, between PAD and CRC and between
/// FPDUs.
Stream marker_stream() { return stream_of({502, 506, 34, 1318, 1, 2, 3, 498, 18, 1024, 506, 44}, true); }

class DeframerInEverySplit : public testing::TestWithParam<bool> {
 protected:
  static Stream stream() {
    return GetParam() ? marker_stream() : stream_of({502, 506, 34, 1318, 1, 2, 3, 498, 18}, false);
  }
};
INSTANTIATE_TEST_SUITE_P(Markers, DeframerInEverySplit, testing::Bool(),
                         [](const auto& test) { return test.param ? "on" : "off"; });

// RFC 5044 §5: a receiver copes with any segmentation.
TEST_P(DeframerInEverySplit, FindsTheSameInTwoParts) {
  const Stream s = stream();
  const Received whole = deframe_whole(s.options, s.wire);
  ASSERT_EQ(whole.ulpdus, s.ulpdus);
  for (std::size_t cut = 0; cut <= s.wire.size(); ++cut) {
    bool first = true;
    const auto size = [&] { return std::exchange(first, false) && cut != 0 ? cut : s.wire.size(); };
    ASSERT_EQ(reference::deframe(Deframer(s.options), s.wire, size), whole) << "cut at " << cut;
  }
}

TEST_P(DeframerInEverySplit, FindsTheSameInChunksOfEverySize) {
  const Stream s = stream();
  for (std::size_t chunk = 1; chunk <= 1600; ++chunk)
    ASSERT_EQ(reference::deframe(Deframer(s.options), s.wire, [&] { return chunk; }).ulpdus, s.ulpdus) << chunk;
}

TEST_P(DeframerInEverySplit, FindsTheSameInRandomChunks) {
  const Stream s = stream();
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    std::mt19937_64 random(seed);
    const std::size_t longest = 1 + random() % 2000;
    const auto found = reference::deframe(Deframer(s.options), s.wire, [&] { return 1 + random() % longest; });
    ASSERT_EQ(found.ulpdus, s.ulpdus) << "seed " << seed;
  }
}

TEST(Conformance, Row24_AnySegmentation) {
  const Stream s = marker_stream();
  const Received found = reference::deframe(Deframer(s.options), s.wire, [] { return 1; });
  EXPECT_EQ(found.ulpdus, s.ulpdus);
  EXPECT_EQ(found.status, DeframeStatus::need_more);
  EXPECT_EQ(deframe_whole(s.options, s.wire).ulpdus, s.ulpdus);  // all FPDUs in one segment
}

TEST(Deframer, GivesBackWhatTheFramerMade) {
  for (std::uint64_t seed = 0; seed < 120; ++seed) {
    std::mt19937_64 random(seed);
    const FramerOptions options{.crc = seed % 2 == 0, .markers = seed % 3 != 0};
    const std::uint64_t start = seed % 5 == 0 ? (std::uint64_t{1} << 32) - 4 * (random() % 900) : 4 * (random() % 4000);
    Framer framer(options, start);
    Bytes wire;
    std::vector<Bytes> ulpdus;
    for (std::size_t i = 0; i < 1 + random() % 20; ++i) {
      ulpdus.push_back(octets(1 + random() % (i == 7 ? PARLEY_MPA_ULPDU_MAX : 3000), random()));
      const std::size_t at = wire.size();
      wire.resize(at + framer.wire_size(ulpdus.back().size()));
      ASSERT_NE(framer.frame({}, ulpdus.back(), MutBytes(wire).subspan(at)), 0U);
    }
    Deframer deframer(options, start);
    Received found;
    reference::drain(deframer, wire, found);
    ASSERT_EQ(found.ulpdus, ulpdus) << "seed " << seed;
    ASSERT_EQ(deframer.position(), framer.position());
    ASSERT_EQ(deframer.carried(), 0U);
    const auto cut = reference::deframe(Deframer(options, start), wire, [&] { return 1 + random() % 5000; });
    ASSERT_EQ(cut, found) << "seed " << seed;
  }
}

TEST(Deframer, HandsOutViewsOfTheInputForFpdusThatLieWholeInIt) {
  for (const bool markers : {false, true}) {
    const Stream s = stream_of({1318, 700, 64}, markers);
    Deframer deframer(s.options);
    FpduView view;
    deframer.feed(s.wire);
    while (deframer.next(view) == DeframeStatus::fpdu)
      for (const ConstBytes piece : view.pieces) {
        EXPECT_GE(piece.data(), s.wire.data());
        EXPECT_LE(piece.data() + piece.size(), s.wire.data() + s.wire.size());
      }
    EXPECT_EQ(deframer.position(), s.wire.size());
  }
}

TEST(Deframer, KeepsAtMostTheFpduThatTheInputCuts) {
  const Stream s = stream_of({PARLEY_MPA_ULPDU_MAX, 100}, true);
  Deframer deframer(s.options);
  Received found;
  for (std::size_t at = 0; at < s.wire.size(); at += 1460) {
    reference::drain(deframer, ConstBytes(s.wire).subspan(at, std::min<std::size_t>(1460, s.wire.size() - at)), found);
    ASSERT_LE(deframer.carried(), fpdu::wire_max);
  }
  EXPECT_EQ(found.ulpdus, s.ulpdus);
  EXPECT_EQ(deframer.carried(), 0U);
}

TEST(Deframer, TellsPositionLengthAndCrcAsReceived) {
  const Stream s = stream_of({508, 20}, true);
  Deframer deframer(s.options);
  FpduView view;
  deframer.feed(s.wire);
  ASSERT_EQ(deframer.next(view), DeframeStatus::fpdu);
  EXPECT_EQ(view.position, 4U);  // behind the leading marker
  EXPECT_EQ(view.ulpdu_length, 508);
  ASSERT_EQ(deframer.next(view), DeframeStatus::fpdu);
  EXPECT_EQ(view.position, s.begins[1]);
  const auto end = ConstBytes(s.wire).last(4);
  EXPECT_EQ(view.crc, std::uint32_t{end[0]} | end[1] << 8 | end[2] << 16 | std::uint32_t{end[3]} << 24);
}

TEST(Deframer, AcceptsEmptyInput) {
  Deframer deframer({});
  Received found;
  reference::drain(deframer, {}, found);
  EXPECT_EQ(found, Received{});
}

// RFC 5044 §A.2, Figure 5: the CRC covers the leading marker.
TEST(Conformance, Row25_LeadingMarker) {
  Stream s = stream_of({42}, true);
  EXPECT_EQ(Bytes(s.wire.begin(), s.wire.begin() + 4), Bytes(4));
  EXPECT_EQ(deframe_whole(s.options, s.wire).ulpdus, s.ulpdus);
  s.wire[0] = 1;  // the reserved half, under the CRC
  EXPECT_EQ(deframe_whole(s.options, s.wire).status, DeframeStatus::crc_error);
  reference::seal(s.wire);  // with a CRC over it, the reserved half is not looked at (RFC 5044 §4.3)
  EXPECT_EQ(deframe_whole(s.options, s.wire).ulpdus, s.ulpdus);
}

TEST(Conformance, Row26_MarkerBeforeCrc) {
  const auto vectors = reference::read_vectors();
  ASSERT_EQ(vectors.size(), 4U);
  const auto& second = vectors[1];
  ASSERT_EQ(second.offset + second.octets.size(), 1032U);  // marker at 1024, CRC at 1028
  const auto found = reference::deframe(Deframer({.markers = true}, 512), second.octets, [] { return 600; });
  ASSERT_EQ(found.ulpdus.size(), 1U);
  EXPECT_EQ(found.ulpdus[0].size(), 506U);
  Bytes broken = second.octets;
  broken[512] ^= 0x80;  // the marker's reserved half: only the CRC can tell
  const auto refused = reference::deframe(Deframer({.markers = true}, 512), broken, [] { return 600; });
  EXPECT_EQ(refused.status, DeframeStatus::crc_error);
}

TEST(Conformance, Row27_MarkerBetweenFpdus) {
  const auto vectors = reference::read_vectors();
  ASSERT_EQ(vectors.size(), 4U);
  Bytes wire;
  for (const auto& vector : vectors) wire.insert(wire.end(), vector.octets.begin(), vector.octets.end());
  const auto found = deframe_whole({.markers = true}, wire);
  ASSERT_EQ(found.ulpdus.size(), 4U);
  EXPECT_EQ(found.positions, (std::vector<std::uint64_t>{4, 516, 1032, 1072}));
  EXPECT_EQ(found.ulpdus[3].size(), 1318U);
}

/// The stream of one FPDU with the marker at `marker` changed and the CRC made good again.
Stream with_pointer(std::size_t size, std::size_t marker, int change) {
  Stream s = stream_of({size}, true);
  s.wire[marker + 3] = static_cast<std::uint8_t>(s.wire[marker + 3] + change);
  reference::seal(s.wire);
  return s;
}

// RFC 5044 §8, error 3: CRC good, marker and ULPDU_Length do not agree.
TEST(Conformance, Row28_WrongFpduptr) {
  for (const std::size_t marker : {0U, 512U, 1024U}) {
    const Stream s = with_pointer(1200, marker, 4);
    Deframer deframer(s.options);
    Received found;
    reference::drain(deframer, s.wire, found);
    EXPECT_EQ(found.status, DeframeStatus::marker_error);
    EXPECT_TRUE(found.ulpdus.empty());
    EXPECT_EQ(deframer.error_position(), marker);
    EXPECT_EQ(deframer.position(), 0U);
    EXPECT_EQ(mpa_error_code(found.status), 3);
  }
}

TEST(Deframer, ReportsACrcErrorRatherThanTheMarkerUnderIt) {
  Stream s = with_pointer(1200, 512, 4);
  s.wire.back() ^= 1;
  EXPECT_EQ(deframe_whole(s.options, s.wire).status, DeframeStatus::crc_error);
}

TEST(Deframer, ChecksMarkersWithCrcOffToo) {
  Stream s = with_pointer(1200, 1024, 8);
  s.options.crc = false;
  EXPECT_EQ(deframe_whole(s.options, s.wire).status, DeframeStatus::marker_error);
}

TEST(Deframer, ChecksTheMarkerBetweenPadAndCrc) {
  Stream s = stream_of({502, 506}, true);
  Bytes second(s.wire.begin() + 512, s.wire.end());
  second[515] ^= 4;
  reference::seal(second);
  std::copy(second.begin(), second.end(), s.wire.begin() + 512);
  Deframer deframer(s.options);
  Received found;
  reference::drain(deframer, s.wire, found);
  EXPECT_EQ(found.status, DeframeStatus::marker_error);
  EXPECT_EQ(found.ulpdus.size(), 1U);
  EXPECT_EQ(deframer.error_position(), 1024U);
}

// RFC 5044 §4.3: the two low bits are treated as zero.
TEST(Conformance, Row29_FpduptrLowBits) {
  for (const std::size_t marker : {0U, 512U, 1024U})
    for (const int low : {1, 2, 3}) {
      const Stream s = with_pointer(1200, marker, low);
      EXPECT_EQ(deframe_whole(s.options, s.wire).ulpdus, s.ulpdus) << marker << " + " << low;
    }
}

// RFC 5044 §8, error 2: nothing of that FPDU or after it is delivered.
TEST(Conformance, Row30_BadCrc) {
  for (const bool markers : {false, true}) {
    Stream s = stream_of({40, 600, 40}, markers);
    s.wire[s.begins[1] + 30] ^= 0x10;
    Deframer deframer(s.options);
    Received found;
    reference::drain(deframer, s.wire, found);
    EXPECT_EQ(found.status, DeframeStatus::crc_error);
    EXPECT_EQ(found.ulpdus, std::vector<Bytes>{s.ulpdus[0]});
    EXPECT_EQ(deframer.position(), s.begins[1]);
    EXPECT_EQ(deframer.error_position(), s.begins[2] - 4);
    EXPECT_EQ(mpa_error_code(found.status), 2);
  }
}

TEST(Deframer, StaysDeadAfterAnError) {
  Stream s = stream_of({40, 40}, false);
  s.wire[10] ^= 1;
  Deframer deframer(s.options);
  Received found;
  reference::drain(deframer, s.wire, found);
  const Stream good = stream_of({40, 40}, false);
  for (int i = 0; i < 3; ++i) {
    reference::drain(deframer, good.wire, found);
    EXPECT_EQ(found.status, DeframeStatus::crc_error);
  }
  EXPECT_TRUE(found.ulpdus.empty());
}

// RFC 5044 §4.1: the receiver does not look at PAD, but the CRC covers it.
TEST(Conformance, Row31_NonZeroPad) {
  Stream s = stream_of({35}, false);  // 2 + 35 + 3 of PAD
  for (std::size_t i = 37; i < 40; ++i) s.wire[i] = 0xFF;
  EXPECT_EQ(deframe_whole(s.options, s.wire).status, DeframeStatus::crc_error);
  reference::seal(s.wire);
  EXPECT_EQ(deframe_whole(s.options, s.wire).ulpdus, s.ulpdus);
}

// RFC 5044 §4.4: a burst as short as one bit never passes.
TEST(Deframer, DeliversNoFpduWithOneBitWrong) {
  for (const bool markers : {false, true}) {
    const Stream s = stream_of({642, 30}, markers);
    for (std::size_t bit = 0; bit < s.begins[1] * 8; ++bit) {
      Bytes broken = s.wire;
      broken[bit / 8] ^= static_cast<std::uint8_t>(1U << bit % 8);
      const Received found = deframe_whole(s.options, broken);
      ASSERT_TRUE(found.ulpdus.empty()) << "bit " << bit;
    }
  }
}

TEST(Deframer, DoesNotLookAtTheCrcWhenCrcIsOff) {
  for (const unsigned value : {0x00U, 0xFFU, 0x5AU}) {
    Stream s = stream_of({40, 41}, false, false);
    for (std::size_t i = 0; i < 4; ++i) s.wire[s.begins[1] - 4 + i] = static_cast<std::uint8_t>(value);
    EXPECT_EQ(deframe_whole(s.options, s.wire).ulpdus, s.ulpdus);
  }
}

// RFC 5044 §3: a ULPDU has 1 to 64768 octets.
TEST(Deframer, RefusesLengthsNoUlpduHasAsSoonAsItSeesThem) {
  for (const bool markers : {false, true})
    for (const std::size_t length : {0U, 64769U, 65535U}) {
      Stream s = stream_of({40}, markers);
      for (const std::size_t octet : {length >> 8, length}) s.wire.push_back(static_cast<std::uint8_t>(octet));
      for (const std::size_t chunk : {std::size_t{1}, s.wire.size()}) {
        const Received found = reference::deframe(Deframer(s.options), s.wire, [&] { return chunk; });
        EXPECT_EQ(found.status, DeframeStatus::length_error) << length;
        EXPECT_EQ(found.ulpdus, s.ulpdus);
      }
      Deframer deframer(s.options);
      Received found;
      reference::drain(deframer, s.wire, found);
      EXPECT_EQ(deframer.error_position(), s.wire.size() - 2);
      EXPECT_EQ(mpa_error_code(found.status), 3);
    }
}

TEST(Deframer, RefusesABadLengthBehindALeadingMarker) {
  const Bytes wire = {0, 0, 0, 0, 0, 0};
  Deframer deframer({.markers = true});
  Received found;
  reference::drain(deframer, wire, found);
  EXPECT_EQ(found.status, DeframeStatus::length_error);
  EXPECT_EQ(deframer.error_position(), 4U);
}

TEST(Deframer, TakesTheLongestUlpdu) {
  for (const bool markers : {false, true}) {
    const Stream s = stream_of({PARLEY_MPA_ULPDU_MAX, 1}, markers);
    EXPECT_EQ(deframe_whole(s.options, s.wire).ulpdus, s.ulpdus);
  }
}

TEST(Deframer, MayBeCopiedInTheMiddleOfAnFpdu) {
  const Stream s = marker_stream();
  Deframer first(s.options);
  Received found;
  reference::drain(first, ConstBytes(s.wire).first(700), found);
  Deframer second = first;
  Received other = found;
  reference::drain(first, ConstBytes(s.wire).subspan(700), found);
  reference::drain(second, ConstBytes(s.wire).subspan(700), other);
  EXPECT_EQ(found.ulpdus, s.ulpdus);
  EXPECT_EQ(other, found);
}

}  // namespace
}  // namespace parley::mpa
