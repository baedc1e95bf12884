// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// What is played and what is compared: a recording against itself, against another one, against nonsense.
#include <set>

#include "atomics.hpp"
#include "base/bytes_io.hpp"
#include "kit.hpp"

namespace parley::replay::test {
namespace {

using capture::test::capture_names;
using capture::test::capture_path;
using capture::test::fpdu;
using capture::test::read_file;
using capture::test::read_request;
using capture::test::segment;
using capture::test::send_segment;
using capture::test::startup;
using capture::test::tagged;
using wire::MpaKey;
using wire::RdmapOpcode;

PlayOptions fast() {
  PlayOptions o;
  o.speed_of = 0;
  return o;
}

/// A Send of these octets.
Bytes send_of(std::uint32_t msn, ConstBytes payload) {
  wire::DdpHeader h;
  h.msn = msn;
  return segment(h, payload);
}

/// rping's announcement: TO, STag, length.
Bytes announcement(std::uint64_t to, std::uint32_t stag, std::uint32_t length) {
  Bytes out(16);
  Writer w(out);
  w.be64(to);
  w.be32(stag);
  w.be32(length);
  return out;
}

/// The initiator announces memory; the responder reads it, writes to it, and says so: a round of rping.
Exchange rping_round(std::uint32_t stag, std::uint64_t to, std::uint32_t sink, bool markers = false,
                     std::uint32_t octets = 600, std::uint8_t fill = 0x5A) {
  Exchange x;
  const std::uint8_t flags = PARLEY_MPA_FLAG_C | (markers ? PARLEY_MPA_FLAG_M : 0);
  x.open().send(0, startup(MpaKey::req, flags, 1)).send(1, startup(MpaKey::rep, flags, 1));
  std::array<std::uint64_t, 2> at{};
  const auto say = [&](unsigned from, const Bytes& ulpdu) {
    const Bytes f = fpdu(ulpdu, at[from], markers);
    at[from] += f.size();
    x.send(from, f);
  };
  say(0, send_of(1, announcement(to, stag, octets)));
  say(1, read_request(1, {sink, 0x7000, octets, stag, to}));
  wire::DdpHeader h;
  h.tagged = true;
  h.opcode = RdmapOpcode::read_response;
  h.stag = sink;
  h.to = 0x7000;
  say(0, segment(h, Bytes(octets, fill)));
  say(1, send_of(1, Bytes(4, 1)));
  say(0, send_of(2, announcement(to, stag, octets)));
  say(1, tagged(RdmapOpcode::rdma_write, stag, to, octets));
  say(1, send_of(2, Bytes(4, 2)));
  x.close();
  return x;
}

/// The ULPDUs of what a player said, found the same way as everything else is.
std::vector<Item> items_of(ConstBytes stream, capture::Known crc = capture::Known::yes,
                           capture::Known markers = capture::Known::no) {
  StepReader reader;
  reader.octets(stream, {}, true);
  reader.agreed(crc, markers, false);
  Assembler assembler;
  std::size_t n = 0;
  for (const Step& s : reader.steps()) assembler.add(s, n++);
  assembler.finish();
  return assembler.items();
}

TEST(ReplayPlayer, EveryRecordedConnectionPlaysAgainstItselfWithoutDifference) {
  std::size_t played = 0;
  for (const std::string& name : capture_names()) {
    const Bytes file = read_file(capture_path(name));
    const std::size_t count = list_connections(file).report.connections.size();
    for (std::size_t n = 1; n <= count; ++n) {
      const Recording r = record(file, n);
      if (!why_not_playable(r, Side::initiator).empty() || !why_not_playable(r, Side::responder).empty()) continue;
      for (const PlayOptions& options : {PlayOptions{}, fast()}) {
        const Outcome out = play(r, r, options);
        EXPECT_TRUE(out.same()) << name << " connection " << n << (options.speed_of == 0 ? " fast" : "") << "\n"
                                << out.words();
        ++played;
      }
    }
  }
  EXPECT_GT(played, 150U);
}

TEST(ReplayPlayer, PausesAreKeptScaledOrLeftOut) {
  Exchange x;
  x.set_up().wait(10s).send(0, fpdu(send_segment(1, 10))).wait(10s).send(1, fpdu(send_segment(1, 10))).close();
  const Recording r = record(x);
  const auto length = [&](std::uint32_t of, std::uint32_t in) {
    PlayOptions o;
    o.speed_of = of;
    o.speed_in = in;
    o.patience = 60s;
    Player a(r, Side::initiator, o), b(r, Side::responder, o);
    Duel duel(a, b);
    EXPECT_TRUE(duel.run());
    EXPECT_FALSE(a.result().difference || b.result().difference);
    return duel.now() - Instant(1s);
  };
  EXPECT_GT(length(1, 1), 20s);
  EXPECT_LT(length(1, 1), 21s);
  EXPECT_GT(length(10, 1), 2s);
  EXPECT_LT(length(10, 1), 3s);
  EXPECT_GT(length(1, 2), 40s);
  EXPECT_LT(length(0, 1), 10ms);
}

TEST(ReplayPlayer, StagsAndOffsetsOfTheLivePeerTakeThePlaceOfTheRecordedOnes) {
  const Recording recorded = record(rping_round(0x1111, 0x10000, 0x2222));
  const Recording live = record(rping_round(0xABCD0001, 0x7F0000001000, 0x9999));
  for (const bool swap : {false, true}) {
    const Recording &of_initiator = swap ? recorded : live, &of_responder = swap ? live : recorded;
    Player a(of_initiator, Side::initiator, {}), b(of_responder, Side::responder, {});
    Duel duel(a, b);
    ASSERT_TRUE(duel.run());
    EXPECT_FALSE(a.result().difference) << words(a.result());
    EXPECT_FALSE(b.result().difference) << words(b.result());
    // The responder's headers name what the live initiator announced; the answer goes where the live one asks.
    const std::uint32_t stag = swap ? 0x1111 : 0xABCD0001;
    const std::uint64_t to = swap ? 0x10000 : 0x7F0000001000;
    bool read = false, wrote = false;
    for (const Item& item : items_of(duel.said[1])) {
      if (item.is(RdmapOpcode::read_request)) {
        const auto q = wire::ReadRequest::parse(item.payload);
        EXPECT_EQ(q->source_stag, stag);
        EXPECT_EQ(q->source_to, to);
        read = true;
      }
      if (item.is(RdmapOpcode::rdma_write)) {
        EXPECT_EQ(item.header.stag, stag);
        EXPECT_EQ(item.header.to, to);
        wrote = true;
      }
    }
    EXPECT_TRUE(read && wrote);
    for (const Item& item : items_of(duel.said[0])) {
      if (!item.is(RdmapOpcode::read_response)) continue;
      EXPECT_EQ(item.header.stag, swap ? 0x9999U : 0x2222U);
    }
  }
}

/// The initiator announces two buffers under one STag; the responder writes to each, at its begin and behind that.
Exchange two_buffers(std::uint32_t stag, std::uint64_t first, std::uint64_t second) {
  Exchange x;
  x.set_up();
  x.send(0, fpdu(send_of(1, announcement(first, stag, 256))))
      .send(0, fpdu(send_of(2, announcement(second, stag, 256))));
  for (const std::uint64_t to : {first, first + 64, second, second + 64})
    x.send(1, fpdu(tagged(RdmapOpcode::rdma_write, stag, to, 64)));
  x.send(1, fpdu(send_of(1, Bytes(4, 1)))).close();
  return x;
}

// Of two live buffers the second may lie before the first: each TO goes with the buffer in which it was recorded.
TEST(ReplayPlayer, OffsetsInTwoBuffersOfOneStagFollowTheBufferTheyLieIn) {
  const Recording recorded = record(two_buffers(0x1111, 0x10000, 0x20000));
  const Recording live = record(two_buffers(0x9999, 0x7F0000, 0x5000));
  Player a(live, Side::initiator, {}), b(recorded, Side::responder, {});
  Duel duel(a, b);
  ASSERT_TRUE(duel.run());
  EXPECT_FALSE(a.result().difference) << words(a.result());
  EXPECT_FALSE(b.result().difference) << words(b.result());
  std::vector<std::uint64_t> written;
  for (const Item& item : items_of(duel.said[1]))
    if (item.is(RdmapOpcode::rdma_write)) written.push_back(item.header.to);
  EXPECT_EQ(written, (std::vector<std::uint64_t>{0x7F0000, 0x7F0040, 0x5000, 0x5040}));
}

TEST(ReplayPlayer, FpdusAreFramedAnewForTheLiveCrcAndMarkers) {
  const Recording plain = record(rping_round(0x1111, 0x10000, 0x2222));
  const Recording marked = record(rping_round(0x1111, 0x10000, 0x2222, true));
  PlayOptions on;
  on.keep_going = true;  // the M flag differs, and is told
  const Outcome out = play(plain, marked, on);
  ASSERT_TRUE(out.over);
  ASSERT_TRUE(out.initiator.difference);
  EXPECT_EQ(out.initiator.difference->rule, "RFC 5044 §4.3");
  EXPECT_EQ(out.initiator.differences, 1U) << out.words();
  EXPECT_EQ(out.responder.differences, 1U) << out.words();
  EXPECT_EQ(out.initiator.steps_played, out.initiator.steps);
}

TEST(ReplayPlayer, TheFirstDifferenceIsReportedWithBothFrames) {
  const Recording one = record(rping_round(0x1111, 0x10000, 0x2222));
  const Recording other = record(rping_round(0x1111, 0x10000, 0x2222, false, 600, 0x5B));
  // The initiator's Read Response carries other octets: the responder's recording knows them otherwise.
  const Outcome out = play(one, other);
  ASSERT_TRUE(out.over);
  ASSERT_TRUE(out.responder.difference) << out.words();
  const Difference& d = *out.responder.difference;
  EXPECT_EQ(d.what, "the payload differs at octet 0: recorded 5b, live 5a");
  ASSERT_TRUE(d.recorded && d.live);
  EXPECT_EQ(d.recorded->frame, 8U);
  EXPECT_EQ(d.recorded->octets.back(), 0x5B);
  EXPECT_EQ(d.live->octets.back(), 0x5A);
  EXPECT_NE(d.recorded->words.find("RDMA Read Response"), std::string::npos) << d.recorded->words;
}

TEST(ReplayPlayer, EveryFieldThatMeansSomethingIsCompared) {
  const auto with = [](std::uint8_t flags, std::uint8_t rev, std::optional<wire::MpaEnhanced> e, Bytes pd, Bytes said) {
    Exchange x;
    const wire::MpaEnhanced asked{.a = true, .b = true, .c = false, .d = false, .ird = 4, .ord = 4};
    x.open().send(0, startup(MpaKey::req, PARLEY_MPA_FLAG_C | PARLEY_MPA_FLAG_S, 2, asked, {}));
    x.send(1, startup(MpaKey::rep, flags, rev, e, pd)).send(0, fpdu(send_segment(1, 4))).send(1, fpdu(said)).close();
    return record(x);
  };
  const wire::MpaEnhanced e{.a = true, .b = true, .c = false, .d = false, .ird = 4, .ord = 4};
  wire::MpaEnhanced rtr = e, depth = e;
  rtr.c = true;
  depth.ord = 3;
  const std::uint8_t s = PARLEY_MPA_FLAG_C | PARLEY_MPA_FLAG_S;
  const Bytes said = send_of(1, Bytes(8, 7));
  const Recording base = with(s, 2, e, {1, 2, 3}, said);
  wire::DdpHeader h;
  h.msn = 1;
  h.opcode = RdmapOpcode::send_se;
  const struct {
    Recording live;
    std::string what, rule;
  } cases[] = {
      {with(s | PARLEY_MPA_FLAG_M, 2, e, {1, 2, 3}, said), "M (markers required): flags are 0xd0, recorded were 0x50",
       "RFC 5044 §4.3"},
      {with(PARLEY_MPA_FLAG_S, 2, e, {1, 2, 3}, said), "C (CRC preferred): flags are 0x10, recorded were 0x50",
       "RFC 5044 §4.4"},
      {with(s | 1, 2, e, {1, 2, 3}, said), "bits that are reserved: flags are 0x51, recorded were 0x50",
       "RFC 5044 §7.1.1"},
      {with(s, 2, rtr, {1, 2, 3}, said), "the enhanced data differ", "RFC 6581 §9.2"},
      {with(s, 2, depth, {1, 2, 3}, said), "the enhanced data differ", "RFC 6581 §9.1"},
      {with(s, 2, e, {1, 2}, said), "PD_Length is 6, recorded was 7", "RFC 5044 §7.1.1"},
      {with(s, 2, e, {1, 2, 4}, said), "the private data differs at octet 2: recorded 03, live 04", ""},
      {with(s, 2, e, {1, 2, 3}, send_of(2, Bytes(8, 7))), "MSN 2, recorded was 1", "RFC 5041 §5.3"},
      {with(s, 2, e, {1, 2, 3}, send_of(1, Bytes(9, 7))), "9 octets, recorded were 8", ""},
      {with(s, 2, e, {1, 2, 3}, segment(h, Bytes(8, 7))), "Send with Solicited Event, recorded was Send",
       "RFC 5040 §4.1"},
  };
  for (const auto& c : cases) {
    // Only the responder's Reply may differ: each side answers what it was asked.
    const Outcome out = play(base, c.live);
    ASSERT_TRUE(out.initiator.difference) << c.what << "\n" << out.words();
    EXPECT_NE(out.initiator.difference->what.find(c.what), std::string::npos) << out.initiator.difference->what;
    EXPECT_EQ(out.initiator.difference->rule, c.rule) << c.what;
  }
  EXPECT_TRUE(play(base, base).same());
}

TEST(ReplayPlayer, HowTcpAndDdpCutAMessageIsNoDifference) {
  const auto cut = [](std::size_t size) {
    Exchange x;
    x.set_up().send(0, fpdu(send_segment(1, 4)));
    Bytes payload(3000);
    for (std::size_t i = 0; i < payload.size(); ++i) payload[i] = static_cast<std::uint8_t>(i * 3);
    for (std::size_t at = 0; at < payload.size(); at += size) {
      const std::size_t n = std::min(size, payload.size() - at);
      wire::DdpHeader h;
      h.msn = 1;
      h.mo = static_cast<std::uint32_t>(at);
      h.last = at + n == payload.size();
      x.send(1, fpdu(segment(h, ConstBytes(payload).subspan(at, n))), 700);
    }
    x.close();
    return record(x);
  };
  const Outcome out = play(cut(3000), cut(800));
  EXPECT_TRUE(out.same()) << out.words();
}

TEST(ReplayPlayer, IrdAndOrdOfTheReplyFollowTheLiveRequest) {
  const auto with = [](std::uint16_t ird, std::uint16_t ord, std::uint16_t answer_ird, std::uint16_t answer_ord) {
    Exchange x;
    const wire::MpaEnhanced q{.a = false, .b = false, .c = false, .d = false, .ird = ird, .ord = ord};
    const wire::MpaEnhanced a{.a = false, .b = false, .c = false, .d = false, .ird = answer_ird, .ord = answer_ord};
    const std::uint8_t s = PARLEY_MPA_FLAG_C | PARLEY_MPA_FLAG_S;
    x.open().send(0, startup(MpaKey::req, s, 2, q)).send(1, startup(MpaKey::rep, s, 2, a));
    x.send(0, fpdu(send_segment(1, 4))).close();
    return record(x);
  };
  PlayOptions on;
  on.keep_going = true;  // the Request differs from the recorded one, and is told
  const Recording live = with(8, 6, 6, 8), recorded = with(4, 2, 2, 4);
  Player a(live, Side::initiator, on), b(recorded, Side::responder, on);
  Duel duel(a, b);
  ASSERT_TRUE(duel.run());
  EXPECT_FALSE(a.result().difference) << words(a.result());
  ASSERT_TRUE(b.result().difference);
  EXPECT_EQ(b.result().differences, 1U);
}

TEST(ReplayPlayer, AReadOfAnotherLengthIsAnsweredInFull) {
  const Recording recorded = record(rping_round(0x1111, 0x10000, 0x2222, false, 600));
  for (const std::uint32_t asked : {100U, 5000U}) {
    const Recording live = record(rping_round(0x1111, 0x10000, 0x2222, false, asked));
    PlayOptions on;
    on.keep_going = true;
    Player a(recorded, Side::initiator, on), b(live, Side::responder, on);
    Duel duel(a, b);
    ASSERT_TRUE(duel.run());
    ASSERT_TRUE(a.result().difference);
    EXPECT_EQ(a.result().difference->what, std::to_string(asked) + " octets are asked for, recorded were 600");
    std::uint64_t answered = 0;
    for (const Item& item : items_of(duel.said[0]))
      if (item.is(RdmapOpcode::read_response)) answered = item.length;
    EXPECT_EQ(answered, asked);
    EXPECT_NE(words(a.result()).find(asked < 600 ? "are cut" : "are repeated"), std::string::npos);
  }
}

TEST(ReplayPlayer, AtomicsAndImmediateDataGoThroughInBothRolesUnderOtherNamesAndIdentifiers) {
  const Recording one = record(atomics(0x1111, 0x10000, 1, 100)), two = record(atomics(0x9999, 0x7F0000, 70, 100));
  for (const bool swap : {false, true}) {
    const Outcome out = play(swap ? two : one, swap ? one : two);
    EXPECT_TRUE(out.same()) << out.words();
    EXPECT_EQ(out.initiator.compared, out.initiator.expected);
    EXPECT_EQ(out.responder.compared, out.responder.expected);
    EXPECT_EQ(out.initiator.steps_played, out.initiator.steps);
  }
  const Outcome other = play(one, record(atomics(0x1111, 0x10000, 1, 101)));
  ASSERT_TRUE(other.initiator.difference) << other.words();
  EXPECT_EQ(other.initiator.difference->what, "the response differs at octet 11: recorded 64, live 65");
  EXPECT_EQ(other.initiator.difference->rule, "RFC 7306 §5.2.2");
}

TEST(ReplayPlayer, AnAtomicWhoseAnswerWasLostIsAnsweredAllTheSame) {
  const Exchange x = atomics(0x1111, 0x10000, 1, 100);
  for (const std::size_t lost : {8U, 10U, 12U}) {
    Frames frames = x.frames;
    frames.erase(frames.begin() + static_cast<std::ptrdiff_t>(lost));
    PlayOptions on;
    on.keep_going = true;
    const Recording lossy = record(file_of(frames)), whole = record(x);
    Player initiator(whole, Side::initiator, on), responder(lossy, Side::responder, {});
    Duel duel(initiator, responder);
    ASSERT_TRUE(duel.run());
    EXPECT_FALSE(responder.result().difference) << lost << "\n" << words(responder.result());
    EXPECT_EQ(initiator.result().differences, 1U) << lost << "\n" << words(initiator.result());
    std::uint32_t next = 1;
    for (const Item& item : items_of(duel.said[1]))
      if (item.is(RdmapOpcode::atomic_response)) {
        EXPECT_EQ(item.header.msn, next);
        EXPECT_EQ(wire::AtomicResponse::parse(item.payload)->request_id, next++);
      }
    EXPECT_EQ(next, 4U);
  }
}

TEST(ReplayPlayer, AWrongCrcStaysWrongHoweverTheLiveConnectionIsFramed) {
  for (const bool markers : {false, true}) {
    Exchange x;
    const std::uint8_t flags = PARLEY_MPA_FLAG_C | (markers ? PARLEY_MPA_FLAG_M : 0);
    x.open().send(0, startup(MpaKey::req, flags, 1)).send(1, startup(MpaKey::rep, flags, 1));
    Bytes bad = fpdu(send_segment(1, 40), 0, markers);
    bad.back() ^= 0x10;
    x.send(0, bad).rst(1);
    const Recording r = record(x);
    Player a(r, Side::initiator, {}), b(r, Side::responder, {});
    Duel duel(a, b);
    ASSERT_TRUE(duel.run());
    const Bytes frame = startup(MpaKey::req, flags, 1);
    EXPECT_EQ(Bytes(duel.said[0].begin() + static_cast<std::ptrdiff_t>(frame.size()), duel.said[0].end()), bad);
    EXPECT_FALSE(b.result().difference) << words(b.result());
  }
}

TEST(ReplayPlayer, APeerThatSaysNothingEndsTheRunWithWhatDidNotCome) {
  const Recording r = record(rping_round(0x1111, 0x10000, 0x2222));
  Player a(r, Side::initiator, {});
  Instant now(1s);
  a.start(now, 1460);
  a.written(now, a.output().size());
  while (!a.done() && a.next_deadline() != never) a.handle_deadline(now = a.next_deadline());
  ASSERT_TRUE(a.done());
  ASSERT_TRUE(a.result().difference);
  EXPECT_NE(a.result().difference->what.find("MPA Reply"), std::string::npos) << a.result().difference->what;
  EXPECT_NE(a.result().difference->what.find("did not come"), std::string::npos);
  EXPECT_EQ(a.result().difference->live->words, "nothing for 5001 ms");
  EXPECT_LT(now - Instant(1s), 6s);
  EXPECT_EQ(a.take_close(), Player::Close::reset);
}

TEST(ReplayPlayer, NonsenseFromThePeerIsADifferenceAndNeverMore) {
  const Recording r = record(rping_round(0x1111, 0x10000, 0x2222));
  std::uint64_t state = 88172645463325252ULL;
  const auto next = [&state] {
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return state;
  };
  for (int round = 0; round < 400; ++round) {
    const std::uint64_t where = next() % 900;
    const auto flip = static_cast<std::uint8_t>(1 + next() % 255);
    std::array<std::uint64_t, 2> at{};
    const unsigned victim = round % 2 == 0 ? 0 : 1;
    const Outcome out = play(r, r, fast(), [&](unsigned from, Bytes& octets) {
      if (from == victim && where >= at[from] && where < at[from] + octets.size()) octets[where - at[from]] ^= flip;
      at[from] += octets.size();
    });
    ASSERT_TRUE(out.over) << round;
    if (where < at[victim]) {
      EXPECT_TRUE(out.initiator.difference || out.responder.difference) << round << " " << where << " " << out.words();
    }
  }
}

TEST(ReplayPlayer, AnswersThatTheRecordedSideNeverGaveAreADifference) {
  const Recording one = record(rping_round(0x1111, 0x10000, 0x2222));
  Exchange x;
  x.set_up().send(0, fpdu(send_segment(1, 4))).send(1, fpdu(send_segment(1, 4))).close();
  Exchange y;
  y.set_up()
      .send(0, fpdu(send_segment(1, 4)))
      .send(1, fpdu(send_segment(1, 4)))
      .send(1, fpdu(send_segment(2, 4)))
      .close();
  const Outcome out = play(record(x), record(y));
  ASSERT_TRUE(out.initiator.difference) << out.words();
  EXPECT_NE(out.initiator.difference->what.find("came where FIN was recorded"), std::string::npos)
      << out.initiator.difference->what;
}

}  // namespace
}  // namespace parley::replay::test
