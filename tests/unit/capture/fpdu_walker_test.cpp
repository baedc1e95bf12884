// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// FPDUs out of a stream of octets: however it is cut into segments the same ones come out, and with each octet of it
// altered, left out or lost, those that tests/states/capture_walker_*.txt say (RFC 5044 §4, §6).
#include <gtest/gtest.h>

#include <fmt/format.h>

#include "base/rng.hpp"
#include "capture/read/fpdu/fpdu_walker.hpp"
#include "mpa/crc32c.hpp"
#include "tests/unit/capture/runs.hpp"
#include "tests/unit/reviewed.hpp"

namespace parley::capture {
namespace {

using test::fpdu;
using test::Runs;
using test::send_segment;
using test::tagged;

/// One line of all that came out, FPDUs by the letter of what they hold.
class Transcript final : public FpduSink {
 public:
  explicit Transcript(std::vector<Bytes> known) : known_(std::move(known)) {}
  std::string said;

  void fpdu(const WalkedFpdu& f) override {
    const auto it = std::find_if(known_.begin(), known_.end(), [&](const Bytes& u) {
      return u.size() == f.ulpdu.size() &&
             std::equal(u.begin(), u.begin() + static_cast<std::ptrdiff_t>(f.known), f.ulpdu.begin());
    });
    said +=
        fmt::format(" {}@{}", it == known_.end() ? "?" : std::string(1, static_cast<char>('a' + (it - known_.begin()))),
                    f.position);
    constexpr std::string_view crc[] = {"", " bad", " off", " unseen"};
    said += crc[static_cast<std::size_t>(f.crc)];
    if (it == known_.end()) said += fmt::format(" of {}", f.ulpdu.size());
    if (f.known < f.ulpdu.size()) said += fmt::format(" known {}", f.known);
    if (!f.whole) said += " in part";
    if (f.wire_octets != f.wire.size()) said += " WIRE";
    if (f.crc == WalkedFpdu::Crc::good && f.crc_sent != f.crc_computed) said += " CRC";
    said +=
        fmt::format(" ({}{}{})", f.first.frame, f.first.frame == f.last.frame ? "" : fmt::format("-{}", f.last.frame),
                    f.starts_segment ? "" : "+");
    if (f.spans_segments != (f.first.frame != f.last.frame)) said += " SPANS";
    if (f.doubtful) said += " doubtful";
    if (f.pad_not_zero) said += " pad";
    if (f.marker_bits) said += " marker bits";
    if (f.marker_missing) said += fmt::format(" no marker at {}, {} octets", f.missing_marker, f.wire_octets);
    if (!f.marker_fault.empty()) said += " [" + f.marker_fault + "]";
    said += ";";
  }
  void startup_frame(const wire::MpaFrameView& frame, const SegmentRef& ref) override {
    said += fmt::format(" {} in {};", to_string(frame.key), ref.frame);
  }
  void bad_length(std::uint32_t length, const SegmentRef& ref) override {
    said += fmt::format(" length {} in {};", length, ref.frame);
  }
  void markers_differ(bool present, const SegmentRef& ref) override {
    said += fmt::format(" {} in {};", present ? "markers" : "no markers", ref.frame);
  }
  void resynchronised(std::uint64_t octets, const SegmentRef& ref) override {
    said += fmt::format(" found after {} in {};", octets, ref.frame);
  }

 private:
  std::vector<Bytes> known_;
};

struct Stream {
  Bytes octets;
  std::vector<Bytes> ulpdus;
  std::vector<std::size_t> begins;
  Stream(const std::vector<std::size_t>& payloads, bool markers, bool crc) {
    std::uint32_t msn = 1;
    for (const std::size_t n : payloads) {
      ulpdus.push_back(msn % 2 == 0 ? tagged(wire::RdmapOpcode::rdma_write, msn, 0, n) : send_segment(msn, n));
      ++msn;
      begins.push_back(octets.size());
      const Bytes f = fpdu(ulpdus.back(), octets.size(), markers, crc);
      octets.insert(octets.end(), f.begin(), f.end());
    }
  }
};

/// Segments as they come: octets, or how many of them are missing.
struct Piece {
  ConstBytes octets;
  std::uint64_t missing = 0;
};
std::string walked(const Stream& s, const std::vector<Piece>& pieces, Known crc, Known markers, bool inside = false) {
  FpduWalker w;
  inside ? w.start_inside(crc, markers == Known::yes, 0) : w.start(crc, markers);
  Transcript t(s.ulpdus);
  std::uint64_t frame = 0;
  for (const Piece& p : pieces) {
    const SegmentRef ref{++frame, Instant{}, 0};
    p.missing > 0 ? w.missing(p.missing, ref, t) : w.octets(p.octets, ref, true, t);
  }
  w.finish(t);
  return fmt::format("{} | left {}{}{}", t.said, w.left(), w.lost() ? fmt::format(", lost at {}", w.lost_at()) : "",
                     w.doubtful() ? ", doubtful" : "");
}
std::vector<Piece> cut(ConstBytes in, std::size_t step) {
  std::vector<Piece> out;
  for (; !in.empty(); in = in.subspan(std::min(step, in.size()))) out.push_back({in.first(std::min(step, in.size()))});
  return out;
}

struct Reading {
  std::string name;
  Known crc, markers;
  bool has_crc, has_markers;
};
const std::vector<Reading>& readings() {
  static const std::vector<Reading> all{{"CRC", Known::yes, Known::no, true, false},
                                        {"no CRC", Known::no, Known::no, false, false},
                                        {"CRC not known, there", Known::unknown, Known::no, true, false},
                                        {"CRC not known, not there", Known::unknown, Known::no, false, false},
                                        {"CRC, markers", Known::yes, Known::yes, true, true},
                                        {"no CRC, markers", Known::no, Known::yes, false, true},
                                        {"CRC, markers not known, there", Known::yes, Known::unknown, true, true},
                                        {"CRC, markers not known, not there", Known::yes, Known::unknown, true, false},
                                        {"CRC, markers not agreed, there", Known::yes, Known::no, true, true},
                                        {"CRC, markers agreed, not there", Known::yes, Known::yes, true, false}};
  return all;
}

// What is told of each FPDU, by the layout of the stream: position, segments, and that nothing is wrong.
TEST(FpduWalkerWhole, AnySegmentsGiveTheFpdusOfTheStream) {
  for (const Reading& r : readings()) {
    const bool otherwise = (r.markers == Known::yes && !r.has_markers) || (r.markers == Known::no && r.has_markers);
    const Stream s({0, 1, 2, 3, 460, 470, 472, 480, 500, 1100, 4}, r.has_markers, r.has_crc);
    for (std::size_t step = 1; step < s.octets.size() + 100; step += step < 40 ? 1 : step / 3) {
      std::string want;
      const bool has_crc = r.crc != Known::no && r.has_crc;
      for (std::size_t i = 0; i < s.begins.size(); ++i) {
        const std::size_t end = i + 1 < s.begins.size() ? s.begins[i + 1] : s.octets.size();
        const std::size_t first = s.begins[i] / step + 1, last = (end - 1) / step + 1;
        if (i == 0 && otherwise) want += fmt::format(" {} in {};", r.has_markers ? "markers" : "no markers", last);
        want += fmt::format(" {}@{}{} ({}{}{});", static_cast<char>('a' + i), s.begins[i], has_crc ? "" : " off", first,
                            first == last ? "" : fmt::format("-{}", last), s.begins[i] % step == 0 ? "" : "+");
      }
      EXPECT_EQ(walked(s, cut(s.octets, step), r.crc, r.markers), want + " | left 0") << r.name << ", " << step;
    }
  }
}

/// Every octet of a small FPDU and around a marker; elsewhere some.
bool worth_losing(std::size_t at, std::size_t n, bool markers) {
  if (n == 1) return at < 36 || (markers && at > 505 && at < 524);
  return at % 41 == 0;
}

TEST(FpduWalkerWhole, EachOctetLost) {
  std::string out;
  for (const Reading& r : readings()) {
    const Stream s({2, 9, 440, 5, 3}, r.has_markers, r.has_crc);
    for (const std::size_t n : {1u, 70u}) {
      Runs runs;
      for (std::size_t at = 0; at + n < s.octets.size(); ++at) {
        if (!worth_losing(at, n, r.has_markers)) continue;
        const ConstBytes all = s.octets;
        const std::size_t next = at + n;
        // The last two FPDUs are segments of their own.
        std::vector<Piece> pieces{{all.first(at)}, {{}, n}};
        if (at == 0) pieces.erase(pieces.begin());
        for (const std::size_t to : {s.begins[3], s.begins[4], s.octets.size()}) {
          const std::size_t from = std::max(next, to == s.begins[3]   ? next
                                                  : to == s.begins[4] ? s.begins[3]
                                                                      : s.begins[4]);
          if (to > from) pieces.push_back({all.subspan(from, to - from)});
        }
        runs.add(fmt::format("{} from {}", n, at), walked(s, pieces, r.crc, r.markers));
      }
      out += fmt::format("== {}, {} octets lost ==\n", r.name, n) + runs.text();
    }
  }
  expect_as_reviewed("capture_walker_lost.txt", out);
}

TEST(FpduWalkerWhole, EachOctetAltered) {
  std::string out;
  for (const Reading& r : readings()) {
    const Stream s({2, 9, 440, 5, 3}, r.has_markers, r.has_crc);
    for (const std::uint8_t bits : {std::uint8_t{0x01}, std::uint8_t{0xC0}}) {
      Runs runs;
      for (std::size_t at = 0; at<s.octets.size(); at += at> 130 && at + 130 < s.octets.size() ? 31 : 1) {
        Stream altered = s;
        altered.octets[at] ^= bits;
        const ConstBytes all = altered.octets;
        runs.add(fmt::format("{} at {}", bits, at), walked(s,
                                                           {{all.first(s.begins[1])},
                                                            {all.subspan(s.begins[1], s.begins[3] - s.begins[1])},
                                                            {all.subspan(s.begins[3])}},
                                                           r.crc, r.markers));
      }
      out += fmt::format("== {}, bits {:02x} turned ==\n", r.name, bits) + runs.text();
    }
  }
  expect_as_reviewed("capture_walker_altered.txt", out);
}

TEST(FpduWalkerWhole, OctetsLeftOutOrPutIn) {
  std::string out;
  for (const Reading& r : readings()) {
    const Stream s({2, 9, 440, 900, 3}, r.has_markers, r.has_crc);
    Runs left_out;
    for (std::size_t at = 0; at + 4 < s.octets.size(); at += 4) {  // a marker, perhaps
      Bytes all = s.octets;
      all.erase(all.begin() + static_cast<std::ptrdiff_t>(at), all.begin() + static_cast<std::ptrdiff_t>(at + 4));
      if (at > 100 && (at + 40) % 512 > 60 && at % 64 != 0) continue;
      left_out.add(fmt::format("4 from {}", at), walked(s, cut(all, 300), r.crc, r.markers));
    }
    out += fmt::format("== {}, octets left out ==\n", r.name) + left_out.text();
    Runs put_in;
    for (std::size_t i = 0; i < s.begins.size(); ++i)
      for (const wire::MpaKey key : {wire::MpaKey::req, wire::MpaKey::rtr}) {
        Bytes all = s.octets;
        const Bytes frame = test::startup(key, 0, 1);
        all.insert(all.begin() + static_cast<std::ptrdiff_t>(s.begins[i]), frame.begin(), frame.end());
        put_in.add(fmt::format("{} before FPDU {}", to_string(key), i + 1), walked(s, cut(all, 7), r.crc, r.markers));
      }
    out += fmt::format("== {}, a startup frame put in ==\n", r.name) + put_in.text();
  }
  expect_as_reviewed("capture_walker_left_out.txt", out);
}

TEST(FpduWalkerWhole, BegunInside) {
  std::string out;
  for (const Reading& r : readings()) {
    if (r.markers == Known::unknown) continue;
    const Stream s({30, 9, 440, 5, 3}, r.has_markers, r.has_crc);
    Runs runs;
    for (std::size_t at = 0; at < 60; at += at < 10 || at > 46 ? 1 : 4) {
      const ConstBytes all = ConstBytes(s.octets).subspan(at);
      std::vector<Piece> pieces{{all.first(s.begins[2] - at)}, {all.subspan(s.begins[2] - at)}};
      runs.add(fmt::format("from {}", at), walked(s, pieces, r.crc, r.markers, true));
    }
    out += fmt::format("== {} ==\n", r.name) + runs.text();
  }
  expect_as_reviewed("capture_walker_inside.txt", out);
}

/// What the wire and the capture do to a stream: octets altered, left out, put in, or lost.
std::vector<Piece> drawn_pieces(Stream& s, Rng& rng) {
  Bytes& all = s.octets;
  for (std::uint64_t n = rng.below(3); n > 0; --n) {
    std::size_t near = s.begins[rng.below(s.begins.size())];
    near += rng.below(12);
    const std::size_t at = std::min(rng.below(2) == 0 ? near : rng.below(all.size()), all.size() - 1);
    const auto place = all.begin() + static_cast<std::ptrdiff_t>(at);
    switch (rng.below(6)) {
      case 0:
      case 1: all[at] ^= static_cast<std::uint8_t>(1U << rng.below(8)); break;
      case 2: all.erase(place, place + static_cast<std::ptrdiff_t>(std::min<std::size_t>(all.size() - at, 4))); break;
      case 3: all.insert(place, 4, std::uint8_t{0}); break;
      case 4: {
        const Bytes frame = test::startup(wire::MpaKey::rep, 0, 1);
        all.insert(all.begin() + static_cast<std::ptrdiff_t>(s.begins[rng.below(s.begins.size())]), frame.begin(),
                   frame.end());
        break;
      }
      default: all.erase(place, all.end()); break;
    }
  }
  std::vector<Piece> out;
  const std::size_t longest = rng.below(2) == 0 ? 60 : 900;
  std::vector<std::size_t> begins = s.begins;
  for (std::size_t at = 0; at < all.size();) {
    std::size_t n = std::min<std::size_t>(rng.between(1, longest), all.size() - at);
    const auto next = std::upper_bound(begins.begin(), begins.end(), at);
    if (next != begins.end() && rng.below(2) == 0) n = std::min(n, *next - at);  // as a sender aligns them
    if (rng.below(9) == 0)
      out.push_back({{}, n});
    else
      out.push_back({ConstBytes(all).subspan(at, n)});
    at += n;
  }
  return out;
}

TEST(FpduWalkerWhole, DrawnStreams) {
  std::string out;
  for (std::uint64_t seed = 1; seed <= 500; ++seed) {
    Rng rng(seed);
    const Reading& r = readings()[rng.below(readings().size())];
    const std::size_t longest = rng.below(3) == 0 ? 900 : 120;
    std::vector<std::size_t> payloads;
    for (std::uint64_t n = rng.between(2, 9); n > 0; --n) payloads.push_back(rng.below(longest));
    Stream s(payloads, r.has_markers, r.has_crc);
    const std::size_t whole = s.octets.size();
    const std::vector<Piece> pieces = drawn_pieces(s, rng);
    const bool inside = r.markers != Known::unknown && rng.below(8) == 0;
    out += fmt::format("{}: {}, {} of {} octets in {} segments{}:{}\n", seed, r.name, s.octets.size(), whole,
                       pieces.size(), inside ? ", begun inside" : "", walked(s, pieces, r.crc, r.markers, inside));
  }
  expect_as_reviewed("capture_walker_drawn.txt", out);
}

// RFC 5044 §4.3: a marker may stand between any two words of an FPDU, in the middle of its header too.
TEST(FpduWalkerWhole, AnFpduWhoseHeaderAMarkerSplitsIsFoundAgain) {
  for (const std::uint64_t at : {0u, 4u, 480u, 484u, 488u, 492u, 496u, 500u, 504u, 508u, 512u, 516u})
    for (const bool whole : {true, false}) {
      const Bytes f = fpdu(send_segment(1, 40), at, true);
      FpduWalker w;
      w.start_inside(Known::yes, true, at);
      Transcript t({send_segment(1, 40)});
      const std::size_t first = whole ? f.size() : 10;
      w.octets(ConstBytes(f).first(first), {1, Instant{}, 0}, true, t);
      if (!whole) w.octets(ConstBytes(f).subspan(first), {2, Instant{}, 0}, true, t);
      w.finish(t);
      EXPECT_EQ(t.said, fmt::format(" found after 0 in 1; a@{} ({});", at, whole ? "1" : "1-2"));
    }
}

// RFC 5044 §7.1.1: a startup frame where an FPDU is due is told if all of its header is there, and not by what is made up
// for octets that the capture lacks.
TEST(FpduWalkerWhole, AStartupFrameOfWhichOctetsAreMissingIsNotTold) {
  const Bytes frame = test::startup(wire::MpaKey::rep, 0, 1), more = fpdu(send_segment(1, 400));
  for (std::size_t n = 0; n <= 4; ++n)
    for (std::size_t at = 2; at + n <= frame.size(); ++at) {
      Bytes all = frame;
      all.insert(all.end(), more.begin(), more.end());
      FpduWalker w;
      w.start(Known::yes, Known::no);
      Transcript t({send_segment(1, 400)});
      w.octets(ConstBytes(all).first(at), {1, Instant{}, 0}, true, t);
      if (n > 0) w.missing(n, {2, Instant{}, 0}, t);
      w.octets(ConstBytes(all).subspan(at + n), {3, Instant{}, 0}, true, t);
      w.finish(t);
      EXPECT_EQ(t.said.find("MPA ID Rep") != std::string::npos, n == 0) << at << ", " << n << t.said;
    }
}

// A sender that leaves out the marker before an FPDU has its ULPDU_Length stand there, whatever it is.
TEST(FpduWalkerWhole, AMarkerLeftOutBeforeAnFpduOfAnyLengthIsTold) {
  for (const std::size_t length : {18u, 19u, 500u, 64767u, 64768u}) {
    const Bytes ulpdu = send_segment(1, length - 18);
    const Bytes plain = fpdu(ulpdu);
    Bytes f;
    for (std::size_t i = 0; i + 4 <= plain.size(); i += 4) {  // the last word is the CRC
      if (f.size() % 512 == 0 && !f.empty())
        f.insert(f.end(), {0, 0, static_cast<std::uint8_t>(f.size() >> 8), static_cast<std::uint8_t>(f.size())});
      f.insert(f.end(), plain.begin() + static_cast<std::ptrdiff_t>(i),
               plain.begin() + static_cast<std::ptrdiff_t>(i + 4));
    }
    std::uint32_t crc = mpa::crc32c(ConstBytes(f).first(f.size() - 4));
    for (std::size_t i = f.size() - 4; i < f.size(); ++i, crc >>= 8) f[i] = static_cast<std::uint8_t>(crc);
    FpduWalker w;
    w.start_inside(Known::yes, true, 0);
    Transcript t({ulpdu});
    const Bytes before = fpdu(send_segment(9, 484), 0, true);
    ASSERT_EQ(before.size() % 512, 0U);
    w.octets(before, {1, Instant{}, 0}, true, t);
    w.octets(f, {2, Instant{}, 0}, true, t);
    w.finish(t);
    EXPECT_NE(t.said.find("no marker at 512"), std::string::npos) << length << t.said.substr(0, 200);
  }
}

}  // namespace
}  // namespace parley::capture
