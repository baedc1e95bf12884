// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// What a peer or a capture cannot make replay do: wait for ever, keep much, or compare what is not known.
#include "kit.hpp"
#include "replay/compare.hpp"

namespace parley::replay::test {
namespace {

using capture::test::fpdu;
using capture::test::segment;
using capture::test::send_segment;
using capture::test::startup;
using capture::test::tagged;
using wire::MpaKey;
using wire::RdmapOpcode;

/// The live side says `first` at once and then something more every so often, for a minute; how long the player stays.
Duration talk(Player& p, const Bytes& first, Duration every, const std::function<Bytes(std::uint32_t)>& more) {
  const Instant begin(1s);
  Instant now = begin, next = begin + every;
  p.start(now, 1460);
  p.handle_bytes(now, first);
  for (std::uint32_t n = 0; !p.done() && now - begin < 60s;) {
    while (!p.output().empty()) p.written(now, p.output().size());
    now = std::max(now, std::min(p.next_deadline(), next));
    if (now >= next) {
      p.handle_bytes(now, more(n++));
      next += every;
    }
    p.handle_deadline(now);
  }
  EXPECT_TRUE(p.done()) << words(p.result());
  return now - begin;
}

Bytes reply() { return startup(MpaKey::rep, PARLEY_MPA_FLAG_C, 1); }

Bytes joined(Bytes a, const Bytes& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

TEST(ReplayBounds, WhoTalksOnAfterAllIsSaidIsNotListenedToForLong) {
  Exchange x;
  x.set_up().send(0, fpdu(send_segment(1, 4))).send(1, fpdu(send_segment(1, 4)));
  const Recording r = record(x);
  Player p(r, Side::initiator, {});
  const Duration took = talk(p, joined(reply(), fpdu(send_segment(1, 4))), 50ms,
                             [](std::uint32_t n) { return fpdu(send_segment(2 + n, 4)); });
  EXPECT_FALSE(p.result().difference) << words(p.result());
  EXPECT_GE(took, 200ms);
  EXPECT_LT(took, 300ms);
}

TEST(ReplayBounds, WhoNeverEndsAMessageIsNotWaitedForLongerThanWhoIsSilent) {
  Exchange x;
  x.set_up().send(0, fpdu(send_segment(1, 4))).send(1, fpdu(send_segment(1, 4))).close();
  const Recording r = record(x);
  Player p(r, Side::initiator, {});
  const Duration took = talk(p, reply(), 100ms, [](std::uint32_t n) { return fpdu(send_segment(1, 4, 4 * n, false)); });
  ASSERT_TRUE(p.result().difference) << words(p.result());
  EXPECT_NE(p.result().difference->what.find("Send, QN 0, MSN 1, 4 octets did not come"), std::string::npos);
  EXPECT_NE(p.result().difference->live->words.find("octets, but not that, for 5"), std::string::npos)
      << p.result().difference->live->words;
  EXPECT_LT(took, 6s);
}

TEST(ReplayBounds, AMessageThatIsLargeAndSlowIsWaitedFor) {
  constexpr std::size_t size = 2 << 20, part = 1024;
  const auto cut = [](std::size_t at, std::size_t n) {
    return send_segment(1, n, static_cast<std::uint32_t>(at), at + n == size);
  };
  Exchange x;
  x.set_up().send(0, fpdu(send_segment(1, 4)));
  for (std::size_t at = 0; at < size; at += 8192) x.send(1, fpdu(cut(at, 8192)));
  const Recording r = record(x);
  Player p(r, Side::initiator, {});
  const Duration took = talk(p, reply(), 5ms, [&](std::uint32_t n) {
    return n * part < size ? fpdu(cut(n * part, part)) : fpdu(send_segment(2, 4));
  });
  EXPECT_FALSE(p.result().difference && p.result().difference->what.ends_with("did not come")) << words(p.result());
  EXPECT_GT(took, 10s);
}

TEST(ReplayBounds, TalkWhereTheRecordingHasAGapDoesNotHoldUpTheNextStep) {
  Exchange x;
  x.set_up();
  for (std::uint32_t msn = 1; msn <= 2; ++msn)
    x.send(0, fpdu(send_segment(msn, 4))).send(1, fpdu(send_segment(msn, 4)));
  Frames lossy = x.frames;
  lossy.erase(lossy.begin() + 6);  // the first Send of the responder
  const Recording r = record(file_of(lossy));
  Player p(r, Side::initiator, {});
  const Duration took = talk(p, reply(), 50ms, [](std::uint32_t n) { return fpdu(send_segment(100 + n, 4)); });
  EXPECT_EQ(p.result().steps_played, p.result().steps) << words(p.result());
  EXPECT_LT(took, 6s) << "the Send behind the gap did not come";
}

TEST(ReplayBounds, TalkOfASideThatTheRecordingDoesNotHoldDoesNotHoldUpTheSteps) {
  Exchange x;
  x.set_up().send(0, fpdu(send_segment(1, 4))).send(1, fpdu(send_segment(1, 40))).wait(500ms);
  x.send(0, fpdu(send_segment(2, 4)));
  Frames mine;
  for (const auto& f : x.frames)
    if (wire::parse_packet(1, f.octets, static_cast<std::uint32_t>(f.octets.size())).tcp.source ==
        capture::test::end_a(false))
      mine.push_back(f);
  const Recording r = record(file_of(mine));
  ASSERT_FALSE(r.side(Side::responder).seen);
  const auto sends = [](std::uint32_t n) { return fpdu(send_segment(2 + n, 4)); };
  const auto crumbs = [](std::uint32_t n) { return n < 10 ? Bytes(1, 0) : Bytes{}; };
  Player whole(r, Side::initiator, {}), dribbled(r, Side::initiator, {});
  const Duration took = talk(whole, joined(reply(), fpdu(send_segment(1, 40))), 50ms, sends);
  EXPECT_EQ(whole.result().steps_played, whole.result().steps) << words(whole.result());
  EXPECT_GT(took, 500ms) << "the recorded pause is kept";
  EXPECT_LT(took, 1s);
  EXPECT_LT(talk(dribbled, reply(), 300ms, crumbs), 3s);
  EXPECT_EQ(dribbled.result().steps_played, dribbled.result().steps) << words(dribbled.result());
}

/// A Send with these octets.
Item send_of(Bytes payload) {
  Item item;
  item.kind = Item::Kind::message;
  item.header.opcode = RdmapOpcode::send;
  item.length = payload.size();
  item.payload = std::move(payload);
  return item;
}

TEST(ReplayBounds, WhatIsNotKnownOrANameIsLeftOutToItsLastOctetAndNoFurther) {
  Item recorded = send_of(Bytes(64, 0));
  recorded.unknown = {{0, 3}, {3, 5}, {16, 24}, {40, 41}, {60, 64}};
  std::vector<Field> masks(3);
  masks[0].offset = 22;
  masks[1].offset = 8;
  masks[2].offset = 20;  // 20 to 27, over the first of them
  masks[2].is_to = true;
  const auto left_out = [](std::size_t at) {
    return at < 5 || (at >= 8 && at < 12) || (at >= 16 && at < 28) || at == 40 || at >= 60;
  };
  std::vector<std::size_t> told;
  for (std::size_t at = 0; at < 64; ++at) {
    // Everything that is left out differs, and one octet more.
    Bytes live(64, 0);
    for (std::size_t i = 0; i < 64; ++i)
      if (i == at || left_out(i)) live[i] = 1;
    const auto found = compare(recorded, send_of(live), masks);
    if (left_out(at))
      EXPECT_FALSE(found) << at << ": " << found->what;
    else
      EXPECT_TRUE(found && found->what.find("at octet " + std::to_string(at) + ":") != std::string::npos) << at;
  }
}

/// Segments put together, in order.
class Put {
 public:
  Put& in(const Bytes& ulpdu) {
    Step step;
    step.kind = Step::Kind::fpdu;
    step.octets = ulpdu;
    step.known = ulpdu.size();
    assembler_.add(step, at_++);
    return *this;
  }
  std::vector<Item>& out() {
    assembler_.finish();
    return assembler_.items();
  }

 private:
  Assembler assembler_;
  std::size_t at_ = 0;
};

Bytes write_part(std::uint64_t to, std::uint8_t octet, std::size_t n, bool last) {
  wire::DdpHeader h;
  h.tagged = true;
  h.opcode = RdmapOpcode::rdma_write;
  h.stag = 7;
  h.to = to;
  h.last = last;
  return segment(h, Bytes(n, octet));
}

TEST(ReplayBounds, SegmentsOfManyMessagesAtOnceFindTheirOwn) {
  constexpr std::uint32_t many = 3000;
  Put put;
  for (std::uint32_t msn = 1; msn <= many; ++msn) put.in(send_segment(msn, 4, 0, false));
  for (std::uint32_t msn = many; msn >= 1; --msn) put.in(send_segment(msn, msn % 7, 4, true));
  const auto& items = put.out();
  ASSERT_EQ(items.size(), many);
  for (std::uint32_t i = 0; i < many; ++i) {
    EXPECT_TRUE(items[i].whole);
    EXPECT_EQ(items[i].header.msn, many - i);
    EXPECT_EQ(items[i].length, 4 + (many - i) % 7);
  }
}

TEST(ReplayBounds, ATaggedSegmentGoesOnWithTheOldestMessageThatEndsThere) {
  Put put;
  put.in(write_part(0, 1, 100, false)).in(write_part(50, 2, 50, false)).in(write_part(100, 3, 10, false));
  put.in(write_part(100, 4, 10, true)).in(write_part(110, 5, 10, true));
  const auto& items = put.out();
  ASSERT_EQ(items.size(), 2U);
  EXPECT_EQ(items[0].header.to, 50U);
  EXPECT_EQ(items[0].payload.back(), 4);
  EXPECT_EQ(items[1].header.to, 0U);
  EXPECT_EQ(items[1].length, 120U);
  EXPECT_TRUE(items[1].whole);
}

TEST(ReplayBounds, MoreMessagesBegunThanAreKeptCostTheOldest) {
  Put put;
  for (std::uint32_t msn = 1; msn <= 4098; ++msn) put.in(send_segment(msn, 4, 0, false));
  const auto& items = put.out();
  ASSERT_EQ(items.size(), 4096U);
  EXPECT_EQ(items.front().header.msn, 3U);
  EXPECT_EQ(items.back().header.msn, 4098U);
}

/// What is kept of a stream in pieces of this size until the other side has spoken; the rest is lost.
std::uint64_t lost_of(std::size_t octets, std::size_t piece) {
  StepReader reader;
  reader.octets(reply(), {}, true);
  const Bytes in(piece, 0);
  for (std::size_t at = 0; at < octets; at += piece) reader.octets(in, {}, true);
  reader.no_fpdus();
  std::uint64_t lost = 0;
  for (const Step& s : reader.steps()) lost += s.lost;
  return lost;
}

TEST(ReplayBounds, WhatIsKeptBeforeTheSetUpIsOverIsBoundInMemoryHoweverSmallItsPieces) {
  EXPECT_EQ(lost_of(1 << 20, 1024), 0U);
  EXPECT_EQ(lost_of(10'000, 1), 0U);
  EXPECT_GT(lost_of(8 << 20, 1024), 3U << 20);
  EXPECT_GT(lost_of(1 << 20, 1), 900'000U) << "each piece costs more than its octet";
}

TEST(ReplayBounds, AnRtrFrameInCrumbsIsReadOnceAndNotOncePerCrumb) {
  StepReader reader;
  reader.octets(startup(MpaKey::req, PARLEY_MPA_FLAG_C, 1), {}, true);
  reader.agreed(capture::Known::yes, capture::Known::no, true);
  const Bytes frame = startup(MpaKey::rtr, PARLEY_MPA_FLAG_C, 1, {}, Bytes(512, 7));
  Bytes long_frame = frame;
  long_frame[18] = 0xF0;  // PD_Length 0xF000: the bound of a startup frame in mind, not that of RFC 5044 §7.1.1
  long_frame[19] = 0;
  long_frame.resize(20 + 0xF000, 7);
  for (std::size_t at = 0; at < long_frame.size(); at += 2)
    reader.octets(ConstBytes(long_frame).subspan(at, 2), {}, true);
  reader.octets(fpdu(send_segment(1, 4)), {}, true);
  ASSERT_EQ(reader.steps().size(), 3U);
  EXPECT_EQ(reader.steps()[1].kind, Step::Kind::rtr_frame);
  EXPECT_EQ(reader.steps()[1].octets, long_frame);
  EXPECT_EQ(reader.steps()[2].kind, Step::Kind::fpdu);
}

/// A request for memory of which the last octet was not sent.
Bytes too_short(RdmapOpcode opcode, std::uint32_t qn, std::size_t octets) {
  wire::DdpHeader h;
  h.opcode = opcode;
  h.qn = qn;
  h.msn = 1;
  return segment(h, Bytes(octets, 0x11));
}

TEST(ReplayBounds, ARequestForMemoryThatWasSentTooShortNamesNoneAndIsPlayedAsItWas) {
  for (const bool atomic : {false, true}) {
    Exchange x;
    x.set_up().send(0, fpdu(atomic ? too_short(RdmapOpcode::atomic_request, 1, PARLEY_RDMAP_ATOMIC_REQUEST_LEN - 1)
                                   : too_short(RdmapOpcode::read_request, 1, PARLEY_RDMAP_READ_REQUEST_LEN - 1)));
    if (atomic)
      x.send(1, fpdu(too_short(RdmapOpcode::atomic_response, 3, PARLEY_RDMAP_ATOMIC_RESPONSE_LEN)));
    else
      x.send(1, fpdu(tagged(RdmapOpcode::read_response, 0x11111111, 0x1111111111111111, 16)));
    x.close();
    const Recording r = record(x);
    EXPECT_FALSE(names_known(r.side(Side::initiator).items.at(1)));
    EXPECT_TRUE(pair_answers(r.side(Side::responder), r.side(Side::initiator)).request_of.empty());
    const Outcome out = play(r, r);
    EXPECT_TRUE(out.same()) << out.words();
    EXPECT_EQ(out.initiator.steps_played, out.initiator.steps) << out.words();
    EXPECT_EQ(out.responder.steps_played, out.responder.steps) << out.words();
  }
}

/// A responder of whose recording the answer to a Read is lost, and what its live peer says: a Send, Reads that are not
/// recorded, then the recorded one.
class Flooded {
 public:
  explicit Flooded(std::uint32_t reads, std::uint32_t octets, Duration patience = 5s)
      : recording_(record(file_of(lossy()))), player_(recording_, Side::responder, options(patience)) {
    player_.start(now, 1460);
    player_.handle_bytes(now, startup(MpaKey::req, PARLEY_MPA_FLAG_C, 1));
    Bytes in = fpdu(send_segment(1, 8));
    for (std::uint32_t n = 0; n < reads; ++n) in = joined(in, fpdu(read(1000 + n, octets)));
    player_.handle_bytes(now, joined(in, fpdu(read(1, 16))));
  }
  Player& player() { return player_; }
  /// The live side reads so many octets at most.
  void take(std::size_t octets) {
    said += std::min(octets, player_.output().size());
    player_.written(now, std::min(octets, player_.output().size()));
  }

  Instant now{1s};
  std::uint64_t said = 0;

 private:
  static Bytes read(std::uint32_t msn, std::uint32_t octets) {
    return capture::test::read_request(msn, {0x77, 0x100, octets, 0x88, 0x200});
  }
  static PlayOptions options(Duration patience) {
    PlayOptions o;
    o.patience = patience;
    o.speed_of = 0;
    return o;
  }
  static Frames lossy() {
    Exchange x;
    x.set_up().send(0, fpdu(send_segment(1, 8))).send(0, fpdu(read(1, 16)));
    const std::size_t lost = x.frames.size();
    x.send(1, fpdu(tagged(RdmapOpcode::read_response, 0x77, 0x100, 16))).send(1, fpdu(send_segment(1, 8))).close();
    x.frames.erase(x.frames.begin() + static_cast<std::ptrdiff_t>(lost));
    return x.frames;
  }

  Recording recording_;
  Player player_;
};

TEST(ReplayBounds, AnswersThatAreOwedAreMadeAsThereIsRoomForThem) {
  constexpr std::uint32_t reads = 64, octets = 1 << 20;
  constexpr std::size_t room = (4 << 20) + 2048;
  Flooded f(reads, octets);
  std::size_t most = 0;
  for (int turn = 0; turn < 10'000 && !f.player().output().empty(); ++turn) {
    most = std::max(most, f.player().output().size());
    f.take(1 << 20);
  }
  EXPECT_LE(most, room);
  EXPECT_GT(most, room / 2);
  EXPECT_GT(f.said, std::uint64_t{reads} * octets) << "all of them are answered:\n" << words(f.player().result());
  EXPECT_FALSE(f.player().result().difference) << words(f.player().result());
  EXPECT_NE(words(f.player().result()).find("Send, QN 0, MSN 1, 8 octets"), std::string::npos);
}

TEST(ReplayBounds, MoreReadsThatAreNotRecordedThanMayWaitAreADifference) {
  Flooded f(65, 64 << 20);
  EXPECT_TRUE(f.player().done());
  ASSERT_TRUE(f.player().result().difference) << words(f.player().result());
  EXPECT_NE(f.player().result().difference->what.find("came while 64 others that the recording does not hold wait"),
            std::string::npos)
      << f.player().result().difference->what;
}

TEST(ReplayBounds, WhoAsksForMuchAndReadsNothingEndsTheRun) {
  Flooded f(64, 64 << 20, 300ms);
  f.take(20'000);
  const Instant begin = f.now;
  while (!f.player().done() && f.player().next_deadline() != never) {
    f.now = std::max(f.now, f.player().next_deadline());
    f.player().handle_deadline(f.now);
  }
  ASSERT_TRUE(f.player().done());
  ASSERT_TRUE(f.player().result().difference) << words(f.player().result());
  EXPECT_NE(f.player().result().difference->what.find("the live side reads nothing"), std::string::npos);
  EXPECT_LE(f.now - begin, 600ms) << "from when it took octets last, or they were made";
}

}  // namespace
}  // namespace parley::replay::test
