// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Recordings with holes: what is played of them is a correct stream, and what they do not hold is not compared.
#include <map>

#include "kit.hpp"

namespace parley::replay::test {
namespace {

using capture::test::conversation;
using capture::test::fpdu;
using capture::test::read_request;
using capture::test::segment;
using capture::test::send_segment;
using capture::test::tagged;
using wire::RdmapOpcode;

/// Everything that is wrong with what a player said: MSN out of sequence (RFC 5041 §5.3), a message that does not begin
/// at MO 0 or has no end (§4.3, §5.2), a wrong CRC (RFC 5044 §4.4).
std::string faults_of(ConstBytes stream, capture::Known markers = capture::Known::no) {
  StepReader reader;
  reader.octets(stream, {}, true);
  reader.agreed(capture::Known::yes, markers, false);
  reader.finish({}, true);
  Assembler assembler;
  std::size_t n = 0;
  for (const Step& s : reader.steps()) assembler.add(s, n++);
  assembler.finish();
  std::string out;
  std::map<std::uint32_t, std::uint32_t> next;
  for (const Item& item : assembler.items()) {
    if (item.kind == Item::Kind::startup) continue;
    if (item.kind != Item::Kind::message || !item.whole) {
      out += describe(item) + " is not a whole message\n";
      continue;
    }
    if (item.header.tagged) continue;
    const std::uint32_t expected = ++next[item.header.qn];
    if (item.header.msn != expected) out += describe(item) + ": MSN " + std::to_string(expected) + " is next\n";
    if (item.header.mo != 0) out += describe(item) + ": MO " + std::to_string(item.header.mo) + "\n";
  }
  return out;
}

std::size_t answers_in(ConstBytes stream, RdmapOpcode opcode) {
  StepReader reader;
  reader.octets(stream, {}, true);
  reader.agreed(capture::Known::yes, capture::Known::no, false);
  Assembler assembler;
  std::size_t n = 0, found = 0;
  for (const Step& s : reader.steps()) assembler.add(s, n++);
  for (const Item& item : assembler.items()) found += item.is(opcode) ? 1 : 0;
  return found;
}

/// One side of `lossy` against the other side of `full`, which plays on whatever it is told.
struct OneSided {
  PlayResult result, peer;
  Bytes said;
  bool over = false;
};
OneSided play_lossy(const Recording& lossy, const Recording& full, Side side) {
  PlayOptions on;
  on.keep_going = true;
  Player a(side == Side::initiator ? lossy : full, Side::initiator, side == Side::initiator ? PlayOptions{} : on);
  Player b(side == Side::initiator ? full : lossy, Side::responder, side == Side::initiator ? on : PlayOptions{});
  Duel duel(a, b);
  OneSided out;
  out.over = duel.run();
  out.result = side == Side::initiator ? a.result() : b.result();
  out.peer = side == Side::initiator ? b.result() : a.result();
  out.said = duel.said[side == Side::initiator ? 0 : 1];
  return out;
}

TEST(ReplayGaps, WhicheverPacketsAreLostWhatIsPlayedIsACorrectStreamAndNothingThatIsMissingIsADifference) {
  for (const bool markers : {false, true}) {
    const Exchange x = conversation(false, markers);
    const Recording full = record(x);
    std::size_t played = 0;
    for (std::size_t lost = 5; lost + 3 < x.frames.size(); ++lost)
      for (std::size_t many = 1; many <= 7; many += 2) {
        Frames frames = x.frames;
        const std::size_t end = std::min(lost + many, frames.size() - 3);
        frames.erase(frames.begin() + static_cast<std::ptrdiff_t>(lost),
                     frames.begin() + static_cast<std::ptrdiff_t>(end));
        const Recording lossy = record(file_of(frames));
        for (const Side side : {Side::initiator, Side::responder}) {
          const OneSided out = play_lossy(lossy, full, side);
          const std::string where = (markers ? "markers, " : "") + std::to_string(lost) + "+" + std::to_string(many) +
                                    " " + std::string(capture::to_string(side)) + "\n";
          ASSERT_TRUE(out.over) << where;
          EXPECT_FALSE(out.result.difference) << where << words(out.result) << "peer:\n" << words(out.peer);
          EXPECT_EQ(faults_of(out.said, markers ? capture::Known::yes : capture::Known::no), "") << where;
          EXPECT_TRUE(out.result.partial) << where;
          ++played;
        }
      }
    EXPECT_GT(played, 200U);
  }
}

TEST(ReplayGaps, MessagesBehindALostOneAreNumberedWithoutIt) {
  Exchange x;
  x.set_up();
  for (std::uint32_t msn = 1; msn <= 4; ++msn)
    x.send(0, fpdu(send_segment(msn, 40))).send(1, fpdu(send_segment(msn, 40)));
  x.close();
  Frames frames = x.frames;
  frames.erase(frames.begin() + 7);  // the second Send of the initiator
  const Recording lossy = record(file_of(frames));
  const OneSided out = play_lossy(lossy, record(x), Side::initiator);
  EXPECT_EQ(faults_of(out.said), "");
  EXPECT_EQ(answers_in(out.said, RdmapOpcode::send), 3U);
  EXPECT_NE(words(out.result).find("are not in the recording and are not played"), std::string::npos);
}

/// A live responder that echoes Sends, however many come.
PlayResult against_echo(const Recording& r, const std::function<void(std::uint32_t msn, Bytes& ulpdu)>& spoil = {}) {
  Player p(r, Side::initiator, {});
  StepReader reader;
  Instant now(1s);
  p.start(now, 1460);
  bool agreed = false, ended = false;
  for (int turn = 0; turn < 100'000 && !p.done(); ++turn) {
    const Bytes said(p.output().begin(), p.output().end());
    if (!said.empty()) {
      reader.octets(said, {}, true);
      p.written(now, said.size());
    }
    if (!agreed && reader.startup_done()) {
      agreed = true;
      reader.agreed(capture::Known::yes, capture::Known::no, false);
      p.handle_bytes(now, capture::test::startup(wire::MpaKey::rep, PARLEY_MPA_FLAG_C, 1));
    }
    for (const Step& s : std::exchange(reader.steps(), {})) {
      if (s.kind != Step::Kind::fpdu) continue;
      Bytes ulpdu = s.octets;
      if (spoil) spoil(wire::DdpHeader::parse(ulpdu)->msn, ulpdu);
      p.handle_bytes(now, fpdu(ulpdu));
    }
    if (p.take_close() != Player::Close::none && !std::exchange(ended, true)) p.handle_end(now, StreamEnd::fin);
    if (p.done() || !p.output().empty()) continue;
    if (p.next_deadline() == never) break;
    p.handle_deadline(now = std::max(now, p.next_deadline()));
  }
  EXPECT_TRUE(p.done()) << words(p.result());
  return p.result();
}

Recording echoes_without(std::size_t lost) {
  Exchange x;
  x.set_up();
  for (std::uint32_t msn = 1; msn <= 4; ++msn)
    x.send(0, fpdu(send_segment(msn, 40))).send(1, fpdu(send_segment(msn, 40)));
  x.close();
  Frames frames = x.frames;
  if (lost != 0) frames.erase(frames.begin() + static_cast<std::ptrdiff_t>(lost));
  return record(file_of(frames));
}

TEST(ReplayGaps, AnAnswerToWhatWasNotPlayedIsNotMissedAndTheOthersAreCompared) {
  const PlayResult whole = against_echo(echoes_without(0));
  EXPECT_FALSE(whole.difference) << words(whole);
  EXPECT_EQ(whole.compared, whole.expected);
  EXPECT_FALSE(whole.partial);
  for (const std::size_t lost : {5U, 7U, 9U}) {
    const PlayResult r = against_echo(echoes_without(lost));
    EXPECT_FALSE(r.difference) << lost << "\n" << words(r);
    EXPECT_EQ(r.compared, r.expected - 1) << lost << "\n" << words(r);
    EXPECT_NE(words(r).find("1 recorded answers did not come"), std::string::npos) << words(r);
    EXPECT_TRUE(r.partial);
  }
}

TEST(ReplayGaps, AnObjectionIsADifferenceAlsoBehindAGap) {
  const auto terminate = [](std::uint32_t msn, Bytes& ulpdu) {
    if (msn != 3) return;
    wire::DdpHeader h;
    h.opcode = RdmapOpcode::terminate;
    h.qn = PARLEY_DDP_QN_TERMINATE;
    h.msn = 1;
    ulpdu = segment(h, Bytes{0x12, 3, 0, 0});
  };
  const PlayResult r = against_echo(echoes_without(7), terminate);
  ASSERT_TRUE(r.difference) << words(r);
  EXPECT_NE(r.difference->what.find("Terminate"), std::string::npos) << r.difference->what;
}

TEST(ReplayGaps, AProgramThatEndsForWantOfWhatWasNotPlayedIsNoDifference) {
  for (const std::size_t lost : {0U, 7U}) {
    const Recording r = echoes_without(lost);
    Player p(r, Side::initiator, {});
    Instant now(1s);
    p.start(now, 1460);
    p.handle_bytes(now, capture::test::startup(wire::MpaKey::rep, PARLEY_MPA_FLAG_C, 1));
    for (int turn = 0; turn < 100 && p.result().steps_played < 2; ++turn) p.handle_deadline(now = p.next_deadline());
    p.handle_bytes(now, fpdu(send_segment(1, 40)));
    p.handle_deadline(now += 1ms);
    p.handle_end(now, StreamEnd::rst);
    EXPECT_TRUE(p.done());
    EXPECT_EQ(p.result().difference.has_value(), lost == 0) << words(p.result());
    EXPECT_EQ(p.result().partial, lost != 0);
  }
}

TEST(ReplayGaps, AReadWhoseAnswerWasLostIsAnsweredWithZeros) {
  Exchange x;
  x.set_up().send(0, fpdu(send_segment(1, 16)));
  for (std::uint32_t n = 1; n <= 3; ++n)
    x.send(1, fpdu(read_request(n, {0x11, 0x1000, 300, 0x22, 0x2000})))
        .send(0, fpdu(tagged(RdmapOpcode::read_response, 0x11, 0x1000, 300)));
  x.send(1, fpdu(send_segment(1, 16))).close();
  const Recording full = record(x);
  for (const std::size_t lost : {7U, 9U, 11U}) {
    Frames frames = x.frames;
    frames.erase(frames.begin() + static_cast<std::ptrdiff_t>(lost));
    const OneSided out = play_lossy(record(file_of(frames)), full, Side::initiator);
    ASSERT_TRUE(out.over);
    EXPECT_FALSE(out.result.difference) << words(out.result);
    EXPECT_EQ(faults_of(out.said), "");
    EXPECT_EQ(answers_in(out.said, RdmapOpcode::read_response), 3U) << lost << "\n" << words(out.result);
    EXPECT_NE(words(out.result).find("the answer to a Read of 300 octets is not in the recording"), std::string::npos)
        << words(out.result);
    EXPECT_EQ(out.peer.differences, 1U) << "only the zeros are seen:\n" << words(out.peer);
  }
}

/// Reads one after another, of which the answers come in two segments each, and of the last one the first segment alone.
Exchange broken_off(std::uint32_t reads) {
  Exchange x;
  x.set_up().send(0, fpdu(send_segment(1, 4)));
  for (std::uint32_t n = 1; n <= reads; ++n) {
    x.send(1, fpdu(read_request(n, {0x11, 0x1000 * n, 120, 0x22, 0x2000})));
    x.send(0, fpdu(tagged(RdmapOpcode::read_response, 0x11, 0x1000 * n, 60, false)));
    if (n < reads) x.send(0, fpdu(tagged(RdmapOpcode::read_response, 0x11, 0x1000 * n + 60, 60)));
  }
  x.close();
  return x;
}

TEST(ReplayGaps, AnAnswerThatTheRecordedSideBrokeOffGoesToItsOwnRead) {
  for (const std::uint32_t reads : {1U, 2U, 4U}) {
    const Recording full = record(broken_off(reads));
    const OneSided out = play_lossy(full, full, Side::initiator);
    ASSERT_TRUE(out.over);
    EXPECT_FALSE(out.result.difference) << words(out.result);
    EXPECT_FALSE(out.peer.difference) << words(out.peer);
    EXPECT_EQ(out.peer.compared, out.peer.expected) << words(out.peer);
  }
}

TEST(ReplayGaps, ALostAnswerIsGivenBeforeOneThatTheRecordedSideBrokeOff) {
  const Exchange x = broken_off(4);
  Frames frames = x.frames;
  frames.erase(frames.begin() + 11);  // the end of the second answer,
  frames.erase(frames.begin() + 9);   // the second Read; of the third answer the capture has all
  const OneSided out = play_lossy(record(file_of(frames)), record(x), Side::initiator);
  ASSERT_TRUE(out.over);
  EXPECT_EQ(answers_in(out.said, RdmapOpcode::read_response), 3U) << "whole ones\n" << words(out.result);
}

/// Each packet's head only, as tcpdump -s keeps it.
Recording snapped(const Exchange& x, std::size_t octets) {
  Frames frames = x.frames;
  for (auto& f : frames) {
    f.original_length = static_cast<std::uint32_t>(f.octets.size());
    f.octets.resize(std::min(f.octets.size(), octets));
  }
  const auto r = read_recording(file_of(frames), 0);
  return r ? *r : Recording{};
}

TEST(ReplayGaps, NoSnapLengthMakesADifferenceOrAWrongStream) {
  for (const bool markers : {false, true}) {
    const Exchange x = conversation(false, markers);
    const Recording full = record(x);
    std::size_t played = 0;
    for (std::size_t octets = 54; octets < 140; ++octets) {
      const Recording cut = snapped(x, octets);
      for (const Side side : {Side::initiator, Side::responder}) {
        if (cut.connection == 0 || !why_not_playable(cut, side).empty()) continue;
        const OneSided out = play_lossy(cut, full, side);
        const std::string where = std::to_string(octets) + " " + std::string(capture::to_string(side)) + "\n";
        ASSERT_TRUE(out.over) << where;
        EXPECT_FALSE(out.result.difference) << where << words(out.result) << "peer:\n" << words(out.peer);
        EXPECT_EQ(faults_of(out.said, markers ? capture::Known::yes : capture::Known::no), "") << where;
        EXPECT_TRUE(out.result.partial) << where;
        ++played;
      }
    }
    EXPECT_GT(played, 100U);
  }
}

TEST(ReplayGaps, WhatTheRecordingLacksIsToldAndTheResultIsPartial) {
  const Exchange x = conversation();
  EXPECT_TRUE(record(x).lacks.empty());
  const auto lacks = [](const Frames& frames) {
    const Recording r = record(file_of(frames));
    std::string out;
    for (const std::string& what : r.lacks) out += what + ";";
    if (why_not_playable(r, Side::initiator).empty()) {
      Player p(r, Side::initiator, {});
      EXPECT_TRUE(p.result().partial) << out;
    }
    return out;
  };
  const Frames cut(x.frames.begin(), x.frames.end() - 3);
  EXPECT_EQ(lacks(cut), "the end of the connection;");
  EXPECT_EQ(lacks(Frames(x.frames.begin(), x.frames.end() - 2)), "the FIN of the responder;");
  Frames gap = x.frames;
  gap.erase(gap.begin() + 5);
  EXPECT_EQ(lacks(gap), "40 octets of the initiator;");
  Frames one;
  for (const auto& f : x.frames)
    if (wire::parse_packet(1, f.octets, static_cast<std::uint32_t>(f.octets.size())).tcp.source ==
        capture::test::end_a(false))
      one.push_back(f);
  EXPECT_EQ(lacks(one), "everything of the responder;");
  Bytes truncated = file_of(x.frames);
  truncated.resize(truncated.size() - 10);
  const Recording r = record(truncated);
  ASSERT_FALSE(r.lacks.empty());
  EXPECT_EQ(r.lacks.back(), "the rest of the file");
}

/// What is behind an FPDU with a wrong CRC and in which no FPDU is found is a gap, however TCP cut it.
TEST(ReplayGaps, OctetsBehindAWrongFpduAreCountedInAnyCut) {
  Bytes stream = capture::test::startup(wire::MpaKey::req, PARLEY_MPA_FLAG_C, 1);
  const std::size_t startup = stream.size();
  Bytes wrong = fpdu(send_segment(1, 4));
  wrong.back() ^= 1;
  stream.insert(stream.end(), wrong.begin(), wrong.end());
  stream.insert(stream.end(), 1000, 0xEE);
  for (const std::size_t cut : {std::size_t{1}, std::size_t{7}, std::size_t{100}, stream.size()}) {
    StepReader reader;
    for (std::size_t at = 0; at < stream.size(); at += cut) {
      reader.octets(ConstBytes(stream).subspan(at, std::min(cut, stream.size() - at)), {}, at == 0);
      if (at < startup && at + cut >= startup) reader.agreed(capture::Known::yes, capture::Known::no, false);
    }
    reader.finish({}, true);
    ASSERT_FALSE(reader.steps().empty());
    const Step& last = reader.steps().back();
    EXPECT_EQ(last.kind, Step::Kind::gap) << "cut " << cut;
    EXPECT_EQ(last.lost, 1000u) << "cut " << cut;
  }
}

/// Two Reads of 180 octets into neighbouring places, asked at once. Of the first answer one segment has a wrong CRC, and a wrong header too
/// if wanted.
Exchange answered_in_three(std::size_t wrong, bool header_too) {
  Exchange x;
  x.set_up().send(0, fpdu(send_segment(1, 4)));
  for (const std::uint32_t msn : {1U, 2U}) x.send(1, fpdu(read_request(msn, {0x11, 180 * msn, 180, 0x22, 0x2000})));
  for (std::size_t n = 0; n < 6; ++n) {
    Bytes f =
        fpdu(tagged(RdmapOpcode::read_response, n == wrong && header_too ? 0x77 : 0x11, 180 + 60 * n, 60, n % 3 == 2));
    if (n == wrong) f.back() ^= 1;
    x.send(0, f);
  }
  x.send(0, fpdu(send_segment(2, 4))).send(1, fpdu(send_segment(1, 4))).close();
  return x;
}

// What follows an FPDU with a wrong CRC goes on with the message that it was of, and answers nothing by itself.
TEST(ReplayGaps, TheRestOfAnAnswerWithAWrongCrcInItIsNoAnswerOfItsOwn) {
  for (const auto& [wrong, header_too] :
       {std::pair(0, false), std::pair(1, false), std::pair(1, true), std::pair(2, false)}) {
    const Exchange x = answered_in_three(static_cast<std::size_t>(wrong), header_too);
    const Recording r = record(x);
    const Answers answers = pair_answers(r.side(Side::initiator), r.side(Side::responder));
    std::string pairs;
    for (const auto& [answer, request] : answers.request_of)
      pairs += describe(r.side(Side::initiator).items[answer]) + " for " +
               std::to_string(r.side(Side::responder).items[request].header.msn) + "\n";
    EXPECT_EQ(pairs,
              "RDMA Read Response, STag 0x00000011, TO 0xb4, 180 octets for 1\n"
              "RDMA Read Response, STag 0x00000011, TO 0x168, 180 octets for 2\n")
        << wrong;
    const OneSided out = play_lossy(r, r, Side::initiator);
    ASSERT_TRUE(out.over);
    EXPECT_FALSE(out.result.difference) << words(out.result);
    EXPECT_EQ(out.result.steps_played, out.result.steps) << words(out.result);
    EXPECT_FALSE(out.peer.difference) << words(out.peer);
    EXPECT_EQ(out.peer.compared, out.peer.expected) << words(out.peer);
  }
}

// Two Reads into one place, with one part of the first answer lost: the first whole answer that comes looks like the
// second one, until another comes.
TEST(ReplayGaps, AnswersThatLookAlikeAreEachFoundAgain) {
  Exchange x;
  x.set_up().send(0, fpdu(send_segment(1, 4)));
  for (const std::uint32_t msn : {1U, 2U}) x.send(1, fpdu(read_request(msn, {0x11, 0x1000, 120, 0x22, 0x2000})));
  x.send(1, fpdu(read_request(3, {0x11, 0x5000, 90, 0x22, 0x2000})));
  for (int i = 0; i < 2; ++i) {
    x.send(0, fpdu(tagged(RdmapOpcode::read_response, 0x11, 0x1000, 60, false)));
    x.send(0, fpdu(tagged(RdmapOpcode::read_response, 0x11, 0x1000 + 60, 60)));
  }
  x.send(1, fpdu(send_segment(1, 4))).send(0, fpdu(tagged(RdmapOpcode::read_response, 0x11, 0x5000, 90)));
  x.send(1, fpdu(send_segment(2, 4))).send(0, fpdu(send_segment(2, 4))).close();
  Exchange lossy = x;
  lossy.frames.erase(lossy.frames.begin() + 9);  // the first segment of the first answer
  const OneSided out = play_lossy(record(lossy), record(x), Side::responder);
  EXPECT_FALSE(out.result.difference) << out.result.difference->what;
  EXPECT_EQ(out.result.steps_played, out.result.steps);
  EXPECT_FALSE(out.peer.difference) << out.peer.difference->what;
}

// What the recording of the other side stops amid may have gone on in any way, though our side has more to say.
TEST(ReplayGaps, WhatComesAfterTheRecordingOfTheOtherSideStopsIsNoDifference) {
  const auto exchange = [](bool lost, bool half) {
    Exchange x;
    x.set_up().send(0, fpdu(send_segment(1, 4))).send(1, fpdu(send_segment(1, 8)));
    if (half) {
      x.send(1, fpdu(send_segment(2, 8, 0, false))).send(0, fpdu(send_segment(2, 4)));
    } else {
      x.send(1, fpdu(send_segment(2, 8))).send(0, fpdu(send_segment(2, 4)));
    }
    if (lost) x.frames.erase(x.frames.end() - 2);
    return x;
  };
  Exchange whole = exchange(false, false), halves = exchange(false, true);
  halves.send(1, fpdu(send_segment(2, 8, 8)));
  whole.close();
  halves.close();
  for (const auto& [lossy, full] :
       {std::pair(exchange(true, false), whole), std::pair(exchange(false, true), halves)}) {
    const OneSided out = play_lossy(record(lossy), record(full), Side::initiator);
    EXPECT_FALSE(out.result.difference) << out.result.difference->what;
    EXPECT_GE(out.result.not_compared, 1U);
  }
  Exchange more = exchange(false, false);
  const Recording recorded = record(more);
  more.send(1, fpdu(send_segment(3, 1))).send(0, fpdu(send_segment(3, 1))).close();
  EXPECT_FALSE(play_lossy(recorded, record(more), Side::initiator).result.difference) << "it may have come later";
}

/// The gap begins with the FPDU whose end is missing, which is played no more than what is missing.
TEST(ReplayGaps, AnFpduBegunBeforeTheMissingOctetsIsPartOfTheGap) {
  const Bytes startup = capture::test::startup(wire::MpaKey::req, PARLEY_MPA_FLAG_C, 1);
  const Bytes whole = fpdu(send_segment(1, 40));
  StepReader reader;
  reader.octets(startup, {}, true);
  reader.agreed(capture::Known::yes, capture::Known::no, false);
  reader.octets(ConstBytes(whole).first(20), {}, true);
  reader.missing(500, {}, false);
  reader.finish({}, true);
  const Step& last = reader.steps().back();
  EXPECT_EQ(last.kind, Step::Kind::gap);
  EXPECT_EQ(last.lost, 520u);
}

}  // namespace
}  // namespace parley::replay::test
