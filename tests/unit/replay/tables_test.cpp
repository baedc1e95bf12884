// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Tables for a reviewer, in tests/states: what is played of recordings that lack this or that, what is compared, and
// how differences are told.
#include <fmt/format.h>

#include "atomics.hpp"
#include "medley.hpp"
#include "told_kit.hpp"

namespace parley::replay::test {
namespace {

using capture::test::conversation;
using capture::test::fpdu;
using capture::test::segment;
using capture::test::startup;

/// One side of `lossy` against the other side of `live`.
std::string one_side(const Recording& lossy, const Recording& live, Side side, bool recorded_only = false) {
  if (const std::string why = why_not_playable(lossy, side); !why.empty()) return "  " + why + "\n";
  const bool first = side == Side::initiator;
  if (!why_not_playable(live, capture::other(side)).empty()) return "";
  Player a(first ? lossy : live, Side::initiator, going_on(recorded_only && first));
  Player b(first ? live : lossy, Side::responder, going_on(recorded_only && !first));
  Duel duel(a, b);
  if (!duel.run()) return "  it never ended\n";
  const PlayResult &played = first ? a.result() : b.result(), &other = first ? b.result() : a.result();
  std::string out = told(played);
  if (other.differences > 0) out += fmt::format("  the live side: {}\n", other.difference->what);
  if (played.steps_played < played.steps) out += items_text(duel.said[first ? 0 : 1]);
  return out;
}

/// Without that frame, counted from 0.
Frames without(const Frames& frames, std::size_t lost) {
  Frames out = frames;
  out.erase(out.begin() + static_cast<std::ptrdiff_t>(lost));
  return out;
}

std::string frame_words(const capture::test::Frame& f) {
  const auto v = wire::parse_packet(1, f.octets, static_cast<std::uint32_t>(f.octets.size()));
  return fmt::format("{} {} octets", v.tcp.source.port == 9001 ? "responder's" : "initiator's", v.tcp.payload.size());
}

TEST(ReplayTables, WhatIsSaidAndComparedOfAWholeRecording) {
  const Recording one = record(medley());
  const Recording other = record(medley({0xA1, 0xA2, 0xA3, 0x7F0000010000, 0x7F0000020000, 0x7F0000030000, 0x55}));
  std::string out;
  for (const bool swap : {false, true}) {
    Player a(swap ? other : one, Side::initiator, {}), b(swap ? one : other, Side::responder, {});
    Duel duel(a, b);
    EXPECT_TRUE(duel.run());
    for (const Player* p : {&a, &b})
      out += (p == &a ? "initiator\n" : "responder\n") + told(p->result()) + lines_of(p->result());
    out += "said by the initiator\n" + items_text(duel.said[0]) + "said by the responder\n" + items_text(duel.said[1]);
  }
  expect_as_reviewed("replay_whole.txt", out);
}

TEST(ReplayTables, WhatIsPlayedOfARecordingWithoutOneFrame) {
  std::string out;
  for (const auto& [name, x] : {std::pair("a medley", medley()), std::pair("many answers", many_answers()),
                                std::pair("cut by TCP", cut_by_tcp())}) {
    const Recording full = record(x);
    for (std::size_t lost = 3; lost < x.frames.size(); ++lost) {
      const auto r = read_recording(file_of(without(x.frames, lost)), 0);
      out += fmt::format("{} without frame {}, the {}\n", name, lost + 1, frame_words(x.frames[lost]));
      if (!r) {
        out += "  " + r.error() + "\n";
        continue;
      }
      for (const std::string& what : r->lacks) out += fmt::format("  lacks {}\n", what);
      for (const Side side : {Side::initiator, Side::responder})
        out += fmt::format(" {}\n", capture::to_string(side)) + one_side(*r, full, side);
    }
  }
  expect_as_reviewed("replay_losses.txt", out);
}

// Both are the same recording: a program that is given the lossy one to say, as in `parley replay --sim`.
TEST(ReplayTables, WhatIsPlayedToAPeerThatSaysWhatIsRecordedAlone) {
  std::string out;
  for (const auto& [name, x] :
       {std::pair("a medley", medley()), std::pair("Atomics", atomics(0x1111, 0x10000, 1, 100)),
        std::pair("many answers", many_answers()), std::pair("a conversation", conversation())}) {
    const std::size_t step = x.frames.size() > 40 ? 3 : 1;
    for (std::size_t lost = 5; lost < x.frames.size(); lost += step) {
      const auto r = read_recording(file_of(without(x.frames, lost)), 0);
      if (!r || !why_not_playable(*r, Side::initiator).empty() || !why_not_playable(*r, Side::responder).empty())
        continue;
      out += fmt::format("{} without frame {}, the {}\n", name, lost + 1, frame_words(x.frames[lost]));
      Player a(*r, Side::initiator, going_on(true)), b(*r, Side::responder, going_on(true));
      Duel duel(a, b);
      EXPECT_TRUE(duel.run());
      for (const Player* p : {&a, &b}) {
        out += "  " + numbers(p->result());
        if (p->result().difference) out += "    " + p->result().difference->what + "\n";
      }
      out += fmt::format("  said CRC32c {:08x}, {:08x}\n", mpa::crc32c(duel.said[0]), mpa::crc32c(duel.said[1]));
    }
  }
  expect_as_reviewed("replay_recorded_alone.txt", out);
}

TEST(ReplayTables, WhatIsPlayedOfARecordingThatTheSnapLengthCut) {
  const Exchange x = medley();
  const Recording full = record(x);
  std::string out;
  for (const std::size_t snap : {58U, 74U, 78U, 80U, 86U, 90U, 94U, 98U, 102U, 110U, 130U}) {
    Frames cut = x.frames;
    for (auto& f : cut) {
      f.original_length = static_cast<std::uint32_t>(f.octets.size());
      if (f.octets.size() > snap) f.octets.resize(snap);
    }
    out += fmt::format("{} octets of each frame\n", snap);
    const auto r = read_recording(file_of(cut), 0);
    if (!r) {
      out += "  " + r.error() + "\n";
      continue;
    }
    for (const std::string& what : r->lacks) out += fmt::format("  lacks {}\n", what);
    for (const Side side : {Side::initiator, Side::responder})
      out += fmt::format(" {}\n", capture::to_string(side)) + one_side(*r, full, side);
  }
  expect_as_reviewed("replay_cut.txt", out);
}

/// The recording against the whole one, both sides, in a few words.
std::string in_short(const std::string& name, const Frames& frames, const Recording& full) {
  const auto r = read_recording(file_of(frames), 0);
  if (!r) return name + ": " + r.error() + "\n";
  std::string out = name + "\n";
  for (const std::string& what : r->lacks) out += "  lacks " + what + "\n";
  for (const Side side : {Side::initiator, Side::responder}) {
    out += fmt::format(" {}\n", capture::to_string(side));
    const std::string text = one_side(*r, full, side);
    out += text.substr(0, text.find("\n    "));
    if (out.back() != '\n') out += '\n';
  }
  return out;
}

TEST(ReplayTables, WhatIsPlayedOfARecordingThatStopsOrBeginsLate) {
  std::string out;
  for (const auto& [name, x] : {std::pair("a medley", medley()), std::pair("many answers", many_answers()),
                                std::pair("cut by TCP", cut_by_tcp())}) {
    const Recording full = record(x);
    for (std::size_t end = 5; end < x.frames.size(); end += 2) {
      const Frames head(x.frames.begin(), x.frames.begin() + static_cast<std::ptrdiff_t>(end));
      out += in_short(fmt::format("{}, {} frames", name, end), head, full);
      if (end > 7)
        out += in_short(fmt::format("{}, {} frames without the one before the last", name, end), without(head, end - 2),
                        full);
    }
    for (std::size_t begin = 1; begin < 6; ++begin)
      out += in_short(fmt::format("{} from frame {} on", name, begin + 1),
                      Frames(x.frames.begin() + static_cast<std::ptrdiff_t>(begin), x.frames.end()), full);
  }
  Exchange half;
  half.set_up().send(0, fpdu(capture::test::send_segment(1, 4)));
  const Bytes next = fpdu(capture::test::send_segment(2, 40));
  half.send(0, Bytes(next.begin(), next.begin() + 30));
  Exchange whole;
  whole.set_up().send(0, fpdu(capture::test::send_segment(1, 4))).send(0, next).close();
  out += in_short("half an FPDU at the end", half.frames, record(whole));
  expect_as_reviewed("replay_stops.txt", out);
}

// Any two frames at once: a line for each side, and the CRC32c of what it said and of all that it told.
TEST(ReplayTables, WhatIsPlayedOfARecordingWithoutTwoFrames) {
  const Exchange x = many_answers();
  const Recording full = record(x);
  std::string out;
  for (std::size_t one = 5; one < x.frames.size(); ++one)
    for (std::size_t two = one + 1; two < x.frames.size(); ++two) {
      const auto r = read_recording(file_of(without(without(x.frames, two), one)), 0);
      if (!r) continue;
      for (const Side side : {Side::initiator, Side::responder}) {
        const bool first = side == Side::initiator;
        Player a(first ? *r : full, Side::initiator, going_on()), b(first ? full : *r, Side::responder, going_on());
        Duel duel(a, b);
        EXPECT_TRUE(duel.run());
        const PlayResult& played = first ? a.result() : b.result();
        const std::string all = told(played) + lines_of(played);
        out += fmt::format("without {} and {}, {}: {}", one + 1, two + 1, capture::to_string(side), numbers(played));
        out.back() = ';';
        out += fmt::format(" {:08x} {:08x}\n", mpa::crc32c(duel.said[first ? 0 : 1]),
                           mpa::crc32c(ConstBytes(reinterpret_cast<const std::uint8_t*>(all.data()), all.size())));
      }
    }
  expect_as_reviewed("replay_two_losses.txt", out);
}

}  // namespace
}  // namespace parley::replay::test
