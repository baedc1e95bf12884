// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// What no capture accident may do: crash the checker, or make it accuse a peer of what the capture did.
#include <gtest/gtest.h>

#include "capture/report/text.hpp"
#include "capture/report/text_ladder.hpp"
#include "tests/unit/capture/exchange.hpp"

namespace parley::capture::property_test {
namespace {

using test::Frames;

struct Variant {
  const char* name;
  bool v6, markers;
  std::uint32_t isn;
};
const Variant variants[] = {{"plain", false, false, 1000},
                            {"ipv6", true, false, 1000},
                            {"markers", false, true, 1000},
                            {"sequence numbers wrap", false, true, 0xFFFFF000}};

Frames clean(const Variant& v) { return test::conversation(v.v6, v.markers, v.isn).frames; }

void expect_no_error(const Frames& frames, const std::string& what) {
  const FileReport r = test::analyse(frames);
  EXPECT_EQ(r.count(Severity::error), 0u) << what << "\n" << test::words(r);
}

TEST(CaptureProperty, CleanConversationHasNoFinding) {
  for (const Variant& v : variants) {
    const FileReport r = test::analyse(clean(v));
    ASSERT_EQ(r.connections.size(), 1u);
    EXPECT_TRUE(r.connections[0].findings.empty()) << v.name << "\n" << test::words(r);
    EXPECT_EQ(r.connections[0].outcome, Outcome::established);
    EXPECT_EQ(r.connections[0].from_initiator.messages, 12u);
    EXPECT_EQ(r.connections[0].from_responder.messages, 18u);
  }
}

TEST(CaptureProperty, AnyOnePacketMissingAccusesNobody) {
  for (const Variant& v : variants)
    for (std::size_t i = 0; i < clean(v).size(); ++i) {
      Frames frames = clean(v);
      frames.erase(frames.begin() + static_cast<std::ptrdiff_t>(i));
      expect_no_error(frames, std::string(v.name) + ", without packet " + std::to_string(i + 1));
    }
}

TEST(CaptureProperty, AnyTwoNeighboursMissingAccuseNobody) {
  for (const Variant& v : variants)
    for (std::size_t i = 0; i + 1 < clean(v).size(); ++i) {
      Frames frames = clean(v);
      const auto at = frames.begin() + static_cast<std::ptrdiff_t>(i);
      frames.erase(at, at + 2);
      expect_no_error(frames, std::string(v.name) + ", without packets " + std::to_string(i + 1) + " and the next");
    }
}

TEST(CaptureProperty, AnyPacketRepeatedLaterAccusesNobody) {
  const Frames original = clean(variants[0]);
  for (std::size_t i = 0; i < original.size(); ++i)
    for (const std::size_t later : {1u, 2u, 7u}) {
      Frames frames = original;
      frames.insert(frames.begin() + static_cast<std::ptrdiff_t>(std::min(i + later, frames.size())), original[i]);
      expect_no_error(frames, "packet " + std::to_string(i + 1) + " again after " + std::to_string(later));
    }
}

TEST(CaptureProperty, AnyPacketCapturedLateAccusesNobody) {
  for (const Variant& v : variants) {
    const Frames original = clean(v);
    for (std::size_t i = 0; i < original.size(); ++i)
      for (const std::size_t later : {1u, 2u, 5u}) {
        if (i + later >= original.size()) continue;
        Frames frames = original;
        std::rotate(frames.begin() + static_cast<std::ptrdiff_t>(i),
                    frames.begin() + static_cast<std::ptrdiff_t>(i + 1),
                    frames.begin() + static_cast<std::ptrdiff_t>(i + later + 1));
        expect_no_error(
            frames, std::string(v.name) + ", packet " + std::to_string(i + 1) + " later by " + std::to_string(later));
      }
  }
}

TEST(CaptureProperty, AnySnapLengthAccusesNobody) {
  for (const Variant& v : variants)
    for (std::size_t snap = 0; snap < 1520; snap += snap < 220 ? 1 : 13) {
      Frames frames = clean(v);
      for (auto& f : frames) {
        f.original_length = static_cast<std::uint32_t>(f.octets.size());
        f.octets.resize(std::min(f.octets.size(), snap));
      }
      expect_no_error(frames, std::string(v.name) + ", snap length " + std::to_string(snap));
    }
}

TEST(CaptureProperty, CaptureThatBeginsOrEndsAnywhereAccusesNobody) {
  for (const Variant& v : variants) {
    const Frames original = clean(v);
    for (std::size_t i = 0; i < original.size(); ++i) {
      expect_no_error(Frames(original.begin() + static_cast<std::ptrdiff_t>(i), original.end()), "begins late");
      expect_no_error(Frames(original.begin(), original.begin() + static_cast<std::ptrdiff_t>(i)), "ends early");
    }
  }
}

TEST(CaptureProperty, AnySegmentationGivesTheSameVerdict) {
  for (std::size_t mss = 1; mss < 600; mss += mss < 60 ? 1 : 97) {
    test::Exchange x;
    x.open().send(0, test::startup(wire::MpaKey::req, PARLEY_MPA_FLAG_C, 1), mss);
    x.send(1, test::startup(wire::MpaKey::rep, PARLEY_MPA_FLAG_C, 1), mss);
    Bytes stream;
    for (std::uint32_t msn = 1; msn <= 20; ++msn) {
      const Bytes f = test::fpdu(test::send_segment(msn, msn * 11));
      stream.insert(stream.end(), f.begin(), f.end());
    }
    x.send(0, stream, mss).close();
    const FileReport r = test::analyse(x.frames);
    ASSERT_EQ(r.connections.size(), 1u);
    EXPECT_EQ(r.connections[0].from_initiator.messages, 20u) << "mss " << mss;
    EXPECT_EQ(test::words(r), "") << "mss " << mss;
  }
}

TEST(CaptureProperty, AnyTruncationOfAnyCaptureIsReadAndSaid) {
  for (const std::string& name : test::capture_names()) {
    const Bytes file = test::read_file(test::capture_path(name));
    const std::size_t step = std::max<std::size_t>(1, file.size() / 300);
    for (std::size_t n = 0; n < file.size(); n += step) {
      const FileReport r = test::analyse_file(ConstBytes(file).first(n), true);
      if (r.notes.empty()) continue;  // the cut fell between two packets
      EXPECT_FALSE(to_text(name, r).empty());
      for (const auto& c : r.connections) EXPECT_FALSE(to_ladder(c).empty());
    }
  }
}

TEST(CaptureProperty, DamagedOctetsNeverBreakTheChecker) {
  std::uint32_t state = 12345;
  const auto draw = [&] { return state = state * 1664525 + 1013904223; };
  for (const std::string& name : test::capture_names()) {
    const Bytes file = test::read_file(test::capture_path(name));
    for (int round = 0; round < 15; ++round) {
      Bytes damaged = file;
      for (int i = 0; i < 40; ++i)
        damaged[24 + draw() % (damaged.size() - 24)] = static_cast<std::uint8_t>(draw() >> 24);
      (void)test::analyse_file(damaged, true);
    }
  }
}

}  // namespace
}  // namespace parley::capture::property_test
