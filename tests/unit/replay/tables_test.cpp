// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Tables for a reviewer, in tests/states: what is played of recordings that lack this or that, what is compared, and
// how differences are told.
#include <fmt/format.h>

#include "atomics.hpp"
#include "medley.hpp"
#include "result_text_kit.hpp"

namespace parley::replay::test {
namespace {

using capture::test::conversation;
using capture::test::fpdu;
using capture::test::segment;
using capture::test::startup;

/// One side of `lossy` against the other side of `live`.
std::string one_side(const Recording& lossy, const Recording& live, Side side, Legend& legend) {
  if (const std::string why = why_not_playable(lossy, side); !why.empty())
    return fmt::format("[{}]", legend.letter_of_form(why));
  const bool first = side == Side::initiator;
  if (!why_not_playable(live, capture::other(side)).empty()) return "";
  Player a(first ? lossy : live, Side::initiator, going_on());
  Player b(first ? live : lossy, Side::responder, going_on());
  Duel duel(a, b);
  if (!duel.run()) return "it never ended";
  const PlayResult &played = first ? a.result() : b.result(), &other = first ? b.result() : a.result();
  std::string out = in_short(played, legend) + fmt::format(", {} octets said", duel.said[first ? 0 : 1].size());
  if (other.differences > 0)
    out += fmt::format(", live: {} [{}]", other.differences, legend.letter_of_form(other.difference->what));
  return out;
}

/// What a recording lacks, and what is played of either side against the whole one.
std::string both_sides(const Frames& frames, const Recording& full, Legend& legend) {
  const auto r = read_recording(file_of(frames), 0);
  if (!r) return fmt::format(" [{}]\n", legend.letter_of_form(r.error()));
  std::string out;
  for (const std::string& what : r->lacks) out += fmt::format(" lacks [{}]", legend.letter(what));
  for (const Side side : {Side::initiator, Side::responder})
    out += fmt::format("\n  {}: {}", capture::to_string(side), one_side(*r, full, side, legend));
  return out + "\n";
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
      out += (p == &a ? "initiator\n" : "responder\n") + result_text(p->result()) + lines_of(p->result());
    out += "said by the initiator\n" + items_text(duel.said[0]) + "said by the responder\n" + items_text(duel.said[1]);
  }
  expect_as_reviewed("replay_whole.txt", out);
}

TEST(ReplayTables, WhatIsPlayedOfARecordingWithoutOneFrame) {
  std::string out;
  Legend legend;
  for (const auto& [name, x] : {std::pair("a medley", medley()), std::pair("many answers", many_answers()),
                                std::pair("cut by TCP", cut_by_tcp())}) {
    const Recording full = record(x);
    for (std::size_t lost = 3; lost < x.frames.size(); ++lost)
      out += fmt::format("{} without frame {}, the {}:", name, lost + 1, frame_words(x.frames[lost])) +
             both_sides(without(x.frames, lost), full, legend);
  }
  expect_as_reviewed("replay_losses.txt", out + legend.text());
}

// Both are the same recording: a program that is given the lossy one to say, as in `parley replay --sim`.
TEST(ReplayTables, WhatIsPlayedToAPeerThatSaysWhatIsRecordedAlone) {
  std::string out;
  Legend legend;
  for (const auto& [name, x] :
       {std::pair("a medley", medley()), std::pair("Atomics", atomics(0x1111, 0x10000, 1, 100)),
        std::pair("many answers", many_answers()), std::pair("a conversation", conversation())}) {
    const std::size_t step = x.frames.size() > 40 ? 3 : 1;
    for (std::size_t lost = 5; lost < x.frames.size(); lost += step) {
      const auto r = read_recording(file_of(without(x.frames, lost)), 0);
      if (!r || !why_not_playable(*r, Side::initiator).empty() || !why_not_playable(*r, Side::responder).empty())
        continue;
      out += fmt::format("{} without frame {}, the {}:", name, lost + 1, frame_words(x.frames[lost]));
      Player a(*r, Side::initiator, going_on(true)), b(*r, Side::responder, going_on(true));
      Duel duel(a, b);
      EXPECT_TRUE(duel.run());
      for (const Player* p : {&a, &b})
        out += fmt::format(" {}, {} octets said;", in_short(p->result(), legend), duel.said[p == &a ? 0 : 1].size());
      out.back() = '\n';
    }
  }
  expect_as_reviewed("replay_recorded_alone.txt", out + legend.text());
}

TEST(ReplayTables, WhatIsPlayedOfARecordingThatTheSnapLengthCut) {
  const Exchange x = medley();
  const Recording full = record(x);
  std::string out;
  Legend legend;
  for (const std::size_t snap : {58U, 74U, 78U, 80U, 86U, 90U, 94U, 98U, 102U, 110U, 130U}) {
    Frames cut = x.frames;
    for (auto& f : cut) {
      f.original_length = static_cast<std::uint32_t>(f.octets.size());
      if (f.octets.size() > snap) f.octets.resize(snap);
    }
    out += fmt::format("{} octets of each frame:", snap) + both_sides(cut, full, legend);
  }
  expect_as_reviewed("replay_cut.txt", out + legend.text());
}

TEST(ReplayTables, WhatIsPlayedOfARecordingThatStopsOrBeginsLate) {
  std::string out;
  Legend legend;
  for (const auto& [name, x] : {std::pair("a medley", medley()), std::pair("many answers", many_answers()),
                                std::pair("cut by TCP", cut_by_tcp())}) {
    const Recording full = record(x);
    for (std::size_t end = 5; end < x.frames.size(); end += 2) {
      const Frames head(x.frames.begin(), x.frames.begin() + static_cast<std::ptrdiff_t>(end));
      out += fmt::format("{}, {} frames:", name, end) + both_sides(head, full, legend);
      if (end > 7)
        out += fmt::format("{}, {} frames without the one before the last:", name, end) +
               both_sides(without(head, end - 2), full, legend);
    }
    for (std::size_t begin = 1; begin < 6; ++begin)
      out += fmt::format("{} from frame {} on:", name, begin + 1) +
             both_sides(Frames(x.frames.begin() + static_cast<std::ptrdiff_t>(begin), x.frames.end()), full, legend);
  }
  Exchange half;
  half.set_up().send(0, fpdu(capture::test::send_segment(1, 4)));
  const Bytes next = fpdu(capture::test::send_segment(2, 40));
  half.send(0, Bytes(next.begin(), next.begin() + 30));
  Exchange whole;
  whole.set_up().send(0, fpdu(capture::test::send_segment(1, 4))).send(0, next).close();
  out += "half an FPDU at the end:" + both_sides(half.frames, record(whole), legend);
  expect_as_reviewed("replay_stops.txt", out + legend.text());
}

// Any two frames at once: a line for what becomes of a side, with the pairs of frames; and what was told in all.
TEST(ReplayTables, WhatIsPlayedOfARecordingWithoutTwoFrames) {
  const Exchange x = many_answers();
  const Recording full = record(x);
  Runs runs[2];
  Tally tally;
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
        runs[first ? 0 : 1].add(fmt::format("{}+{}", one + 1, two + 1),
                                numbers(played) + fmt::format("{} octets said", duel.said[first ? 0 : 1].size()));
        add_result(tally, played);
      }
    }
  expect_as_reviewed("replay_two_losses.txt",
                     "initiator\n" + runs[0].text() + "responder\n" + runs[1].text() + tally.text());
}

}  // namespace
}  // namespace parley::replay::test
