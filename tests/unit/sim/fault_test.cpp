// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "fault_kit.hpp"
#include "mpa/deframer.hpp"

namespace parley::sim::test {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

std::size_t bits_that_differ(ConstBytes a, ConstBytes b) {
  std::size_t n = 0;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i)
    n += static_cast<std::size_t>(std::popcount(static_cast<unsigned>(a[i] ^ b[i])));
  return n;
}

TEST(SimFault, ChanceHitsAsOftenAsItSays) {
  FaultRule r = rule(FaultAction::drop);
  r.chance = {3, 100};
  Faults f({r}, 42);
  const Bytes frame = Sender{}.at(0, Bytes(10));
  int hit = 0;
  for (int i = 0; i < 100000; ++i) hit += f.dropped(frame) ? 1 : 0;
  EXPECT_NEAR(hit, 3000, 200) << "3.7 standard deviations";
  Faults again({r}, 42);
  int same = 0;
  for (int i = 0; i < 100000; ++i) same += again.dropped(frame) ? 1 : 0;
  EXPECT_EQ(hit, same);
}

TEST(SimFault, CertainAndImpossibleChanceDrawNothing) {
  FaultRule never_rule = rule(FaultAction::duplicate);
  never_rule.chance = {0, 7};
  Faults f({never_rule, rule(FaultAction::drop)});
  for (int i = 0; i < 1000; ++i) {
    EXPECT_TRUE(f.dropped(Sender{}.syn()));
    EXPECT_EQ(f.decision.copies, 0u);
  }
}

TEST(SimFault, RulesDoNotDisturbEachOthersChance) {
  FaultRule some = rule(FaultAction::duplicate);
  some.chance = {1, 3};
  FaultRule other = rule(FaultAction::delay);
  other.jitter = 1ms;
  FaultRule off = other;
  off.match.nth = 1000;
  Faults with({other, some}), without({off, some});
  for (int i = 0; i < 200; ++i) {
    with.pass(Sender{}.syn());
    without.pass(Sender{}.syn());
    EXPECT_EQ(with.decision.copies, without.decision.copies) << i;
  }
}

TEST(SimFault, AMaskHitsExactlyItsFrames) {
  FaultRule r = rule(FaultAction::drop, MessageKind::tcp_data);
  r.mask = 0x8000000000000005;
  Faults f({r});
  const Bytes data = Sender{}.at(0, Bytes(10)), ack = Sender{}.at(0, {});
  std::vector<int> hit;
  for (int i = 0; i < 200; ++i) {
    if (f.dropped(data)) hit.push_back(i);
    EXPECT_FALSE(f.dropped(ack)) << "frames that do not match are not counted";
  }
  EXPECT_EQ(hit, (std::vector<int>{0, 2, 63}));
}

TEST(SimFault, NthAndTimesCountFramesThatMatch) {
  const auto which = [](std::uint32_t nth, std::uint32_t times) {
    FaultRule r = rule(FaultAction::drop, MessageKind::tcp_data);
    r.match.nth = nth;
    r.match.times = times;
    Faults f({r});
    std::string out;
    for (int i = 0; i < 6; ++i) {
      f.dropped(Sender{}.at(0, {}));
      out += f.dropped(Sender{}.at(0, Bytes(1))) ? 'x' : '.';
    }
    return out;
  };
  EXPECT_EQ(which(1, 0), "xxxxxx");
  EXPECT_EQ(which(1, 1), "x.....");
  EXPECT_EQ(which(3, 0), "..xxxx");
  EXPECT_EQ(which(2, 3), ".xxx..");
  EXPECT_EQ(which(7, 1), "......");
}

TEST(SimFault, RulesHoldFromAndUntilTheirTimes) {
  FaultRule r = rule(FaultAction::drop);
  r.from = at_time(10ms);
  r.until = at_time(20ms);
  r.match.nth = 2;
  Faults f({r});
  const Bytes frame = Sender{}.syn();
  EXPECT_FALSE(f.dropped(frame, 10ms - 1ns));
  EXPECT_FALSE(f.dropped(frame, 10ms)) << "the first in its time";
  EXPECT_TRUE(f.dropped(frame, 20ms - 1ns));
  EXPECT_FALSE(f.dropped(frame, 20ms));
}

TEST(SimFault, TheFirstDropEnds) {
  FaultRule later = rule(FaultAction::duplicate);
  FaultRule first = rule(FaultAction::drop);
  first.match.times = 1;
  Faults f({first, later});
  f.pass(Sender{}.syn());
  EXPECT_EQ(f.decision.drop, DropReason::rule);
  EXPECT_EQ(f.decision.copies, 0u);
  EXPECT_EQ(f.decision.note, "dropped by rule 1 (drop the 1st frame)");
  f.pass(Sender{}.syn());
  EXPECT_EQ(f.decision.drop, DropReason::none);
  EXPECT_EQ(f.decision.copies, 1u);
}

TEST(SimFault, AConnectionCanBeSingledOut) {
  FaultRule r = rule(FaultAction::drop, MessageKind::tcp_data);
  r.match.connection = 2;
  FaultRule any = rule(FaultAction::duplicate);
  any.match.connection = 1;
  Faults f({r, any});
  Sender one, two;
  two.port = 9;
  f.pass(one.syn());
  EXPECT_EQ(f.decision.copies, 1u);
  f.pass(two.syn());
  EXPECT_FALSE(f.dropped(one.at(0, request())));
  EXPECT_TRUE(f.dropped(two.at(0, request())));
}

TEST(SimFault, DropsTheSecondReplyAlsoWhenItIsARetransmission) {
  FaultRule r = rule(FaultAction::drop, MessageKind::mpa_reply);
  r.match.nth = 2;
  r.match.times = 1;
  Faults f({r});
  Sender s;
  s.active = false;
  f.pass(s.syn());
  EXPECT_FALSE(f.dropped(s.at(0, reply())));
  EXPECT_TRUE(f.dropped(s.at(0, reply())));
  EXPECT_EQ(f.decision.note, "dropped by rule 1 (drop the 2nd mpa_reply)");
  EXPECT_FALSE(f.dropped(s.at(0, reply())));
}

TEST(SimFault, DelaysByItsTimeAndUpToItsJitter) {
  FaultRule r = rule(FaultAction::delay);
  r.delay = 3ms;
  r.jitter = 2ms;
  Faults f({r}, 7);
  Duration least = 1h, most{};
  for (int i = 0; i < 5000; ++i) {
    const Duration extra = f.pass(Sender{}.syn()).extra;
    least = std::min(least, extra);
    most = std::max(most, extra);
    EXPECT_FALSE(f.decision.overtakable);
  }
  EXPECT_GE(least, 3ms);
  EXPECT_LT(least, 3ms + 10us);
  EXPECT_LE(most, 5ms);
  EXPECT_GT(most, 5ms - 10us);
  r.reorder = true;
  Faults g({r});
  EXPECT_TRUE(g.pass(Sender{}.syn()).overtakable);
}

TEST(SimFault, DuplicatesAsOftenAsAsked) {
  FaultRule r = rule(FaultAction::duplicate);
  r.count = 3;
  Faults f({r});
  const Bytes frame = Sender{}.syn();
  EXPECT_EQ(f.pass(frame).copies, 3u);
  EXPECT_EQ(f.octets(), frame);
}

TEST(SimFault, CorruptFlipsThatManyBitsAnywhere) {
  FaultRule r = rule(FaultAction::corrupt);
  r.count = 5;
  Faults f({r});
  const Bytes frame = Sender{}.at(0, Bytes(40, 0xAA));
  std::set<std::size_t> places;
  int noticed = 0;
  for (int i = 0; i < 3000; ++i) {
    f.pass(frame);
    EXPECT_EQ(f.octets().size(), frame.size());
    EXPECT_EQ(bits_that_differ(frame, f.octets()), 5u);
    EXPECT_TRUE(f.frame->altered);
    for (std::size_t o = 0; o < frame.size(); ++o)
      if (frame[o] != f.octets()[o]) places.insert(o);
    noticed += sound(f.octets()) ? 0 : 1;
  }
  EXPECT_EQ(places.size(), frame.size()) << "no octet is spared";
  EXPECT_GT(noticed, 2900) << "the rest fell into the Ethernet header, or cancelled each other";
}

TEST(SimFault, TruncatesFramesThatAreLonger) {
  FaultRule r = rule(FaultAction::truncate);
  r.octets = 60;
  Faults f({r});
  const Bytes frame = Sender{}.at(0, Bytes(40, 0xAA));
  f.pass(frame);
  EXPECT_EQ(f.octets(), Bytes(frame.begin(), frame.begin() + 60));
  EXPECT_TRUE(f.frame->altered);
  Sender bare;
  bare.timestamps = false;
  f.pass(bare.at(0, {}));
  EXPECT_EQ(f.octets(), bare.at(0, {}));
  EXPECT_FALSE(f.frame->altered);
  EXPECT_EQ(f.decision.note, "");
}

// ---- corrupt_mpa ---------------------------------------------------------------------------------------------------

/// Sends a stream in segments of `size` through one rule; gives the stream as the receiver's TCP puts it together.
Bytes carry(Faults& f, const Sender& s, const Bytes& stream, std::size_t size) {
  Bytes out;
  f.pass(s.syn());
  for (std::size_t at = 0; at < stream.size(); at += size) {
    f.pass(s.at(at, ConstBytes(stream).subspan(at, std::min(size, stream.size() - at))));
    EXPECT_TRUE(sound(f.octets())) << "damage must pass TCP";
    out = out + Bytes(f.payload().begin(), f.payload().end());
  }
  return out;
}

struct FieldCase {
  MessageField field;
  std::size_t begin, end;  // octets of the message in which the bit may be
};

TEST(SimFault, CorruptsTheFieldOfAStartupFrameThatItIsTold) {
  const FieldCase cases[] = {{MessageField::key, 0, 16},
                             {MessageField::flags, 16, 17},
                             {MessageField::revision, 17, 18},
                             {MessageField::pd_length, 18, 20},
                             {MessageField::private_data, 20, 50}};
  for (const FieldCase& c : cases)
    for (const std::size_t size : {1000u, 13u, 1u})
      for (const bool ipv6 : {false, true})
        for (std::uint64_t seed = 1; seed < 20; ++seed) {
          FaultRule r = rule(FaultAction::corrupt_mpa, MessageKind::mpa_reply);
          r.field = c.field;
          r.match.times = 1;
          Faults f({r}, seed);
          Sender s;
          s.active = false;
          s.ipv6 = ipv6;
          const Bytes stream = reply(PARLEY_MPA_FLAG_C, Bytes(30, 3)) + fpdu(send_segment(1, 30));
          const Bytes got = carry(f, s, stream, size);
          ASSERT_EQ(got.size(), stream.size());
          ASSERT_EQ(bits_that_differ(got, stream), 1u) << to_string(c.field) << " in segments of " << size;
          const auto where =
              static_cast<std::size_t>(std::mismatch(got.begin(), got.end(), stream.begin()).first - got.begin());
          EXPECT_GE(where, c.begin);
          EXPECT_LT(where, c.end) << to_string(c.field);
        }
}

mpa::DeframeStatus read_second(const Bytes& octets, bool markers) {
  mpa::Deframer d({.crc = true, .markers = markers});
  d.feed(octets);
  mpa::FpduView view;
  EXPECT_EQ(d.next(view), mpa::DeframeStatus::fpdu) << "the first is not touched";
  return d.next(view);
}

TEST(SimFault, CorruptsTheFieldOfAnFpduThatItIsTold) {
  for (const bool markers : {false, true})
    for (const MessageField field :
         {MessageField::length, MessageField::payload, MessageField::marker, MessageField::crc})
      for (const std::size_t size : {5000u, 700u, 3u})
        for (std::uint64_t seed = 1; seed < 12; ++seed) {
          FaultRule r = rule(FaultAction::corrupt_mpa, MessageKind::fpdu);
          r.match.fpdu = 2;
          r.match.times = 1;
          r.field = field;
          Faults f({r}, seed);
          Sender s;
          s.active = false;
          const Bytes first = fpdu(send_segment(1, 30), 0, markers);
          const Bytes second = fpdu(send_segment(2, 1201), first.size(), markers);
          const Bytes body = first + second + fpdu(send_segment(3, 10), first.size() + second.size(), markers);
          const Bytes got = carry(f, s, reply() + body, size);
          const Bytes seen(got.begin() + 20, got.end());
          if (field == MessageField::marker && !markers) {
            EXPECT_EQ(seen, body);
            continue;
          }
          ASSERT_EQ(bits_that_differ(seen, body), 1u) << to_string(field) << " in segments of " << size;
          const auto where =
              static_cast<std::size_t>(std::mismatch(seen.begin(), seen.end(), body.begin()).first - seen.begin());
          ASSERT_GE(where, first.size());
          ASSERT_LT(where, first.size() + second.size());
          const std::size_t in = where - first.size();
          if (field == MessageField::length) {
            EXPECT_LT(in, 2u);
          }
          if (field == MessageField::crc) {
            EXPECT_GE(in, second.size() - 4);
          }
          if (field == MessageField::marker) {
            EXPECT_GE(where % 512, 2u);
          }
          if (field == MessageField::marker) {
            EXPECT_LT(where % 512, 4u);
          }
          if (field == MessageField::payload) {
            EXPECT_GE(in, 2u);
            EXPECT_LT(in, second.size() - 4);
            EXPECT_TRUE(!markers || where % 512 >= 4);
          }
          if (field != MessageField::length) {
            EXPECT_EQ(read_second(seen, markers), mpa::DeframeStatus::crc_error);
          }
        }
}

TEST(SimFault, CorruptsEveryMarkerNowAndThenAndOnlyBitsThatCount) {
  std::set<std::size_t> places;
  for (std::uint64_t seed = 1; seed < 300; ++seed) {
    FaultRule r = rule(FaultAction::corrupt_mpa, MessageKind::fpdu);
    r.field = MessageField::marker;
    Faults f({r}, seed);
    Sender s;
    s.active = false;
    const Bytes body = fpdu(send_segment(1, 1201), 0, true);
    const Bytes got = carry(f, s, reply() + body, 5000);
    const auto where =
        static_cast<std::size_t>(std::mismatch(body.begin(), body.end(), got.begin() + 20).first - body.begin());
    places.insert(where);
    if (where % 512 == 3) {
      EXPECT_EQ((body[where] ^ got[20 + where]) & 3, 0);
    }
  }
  EXPECT_EQ(places, (std::set<std::size_t>{2, 3, 514, 515, 1026, 1027}));
}

TEST(SimFault, CorruptsEachOctetOfAMarkedPayloadNowAndThenAndNothingElse) {
  const Bytes body = fpdu(send_segment(1, 1201), 0, true);
  std::set<std::size_t> expected, places;
  for (std::size_t at = 6; at < body.size() - 4; ++at)
    if (at % 512 >= 4) expected.insert(at);
  for (int pad = 0; pad < 3; ++pad) expected.erase(std::prev(expected.end()));  // 2 + 18 + 1201 + 3: a multiple of four
  for (std::uint64_t seed = 1; seed < 20000; ++seed) {
    FaultRule r = rule(FaultAction::corrupt_mpa, MessageKind::fpdu);
    r.field = MessageField::payload;
    Faults f({r}, seed);
    Sender s;
    s.active = false;
    const Bytes stream = reply() + body;
    f.pass(s.syn());
    f.pass(s.at(0, stream));
    const ConstBytes got = f.payload();
    places.insert(
        static_cast<std::size_t>(std::mismatch(body.begin(), body.end(), got.begin() + 20).first - body.begin()));
  }
  EXPECT_EQ(places, expected);
}

TEST(SimFault, AFieldThatHasPartlyPassedIsHitInTheRest) {
  // A ULPDU_Length whose first octet is 0 could as well be the beginning of a marker: it is known by its second.
  for (std::uint64_t seed = 1; seed < 30; ++seed) {
    FaultRule r = rule(FaultAction::corrupt_mpa, MessageKind::fpdu);
    r.match.fpdu = 1;
    r.field = MessageField::length;
    Faults f({r}, seed);
    Sender s;
    s.active = false;
    const Bytes stream = reply() + fpdu(send_segment(1, 30));
    const Bytes got = carry(f, s, stream, 1);
    EXPECT_EQ(bits_that_differ(got, stream), 1u);
    EXPECT_NE(got[21], stream[21]);
  }
}

TEST(SimFault, CorruptMpaSparesARetransmissionUnlessItIsHitToo) {
  FaultRule r = rule(FaultAction::corrupt_mpa, MessageKind::mpa_request);
  r.field = MessageField::key;
  r.match.times = 1;
  Faults f({r});
  Sender s;
  f.pass(s.syn());
  f.pass(s.at(0, request()));
  EXPECT_NE(f.octets(), s.at(0, request()));
  EXPECT_THAT(f.decision.note, HasSubstr("key corrupted (octet "));
  f.pass(s.at(0, request()));
  EXPECT_EQ(f.octets(), s.at(0, request()));
  r.match.times = 2;
  Faults twice({r});
  twice.pass(s.syn());
  for (int i = 0; i < 2; ++i) {
    twice.pass(s.at(0, request()));
    EXPECT_NE(twice.octets(), s.at(0, request()));
  }
}

TEST(SimFault, CorruptMpaSaysWhenThereIsNothingToCorrupt) {
  FaultRule r = rule(FaultAction::corrupt_mpa, MessageKind::mpa_request);
  r.field = MessageField::private_data;
  Faults f({r});
  Sender s;
  f.pass(s.syn());
  f.pass(s.at(0, request()));
  EXPECT_EQ(f.octets(), s.at(0, request()));
  EXPECT_THAT(f.decision.note, HasSubstr("no private_data to corrupt by rule 1"));
}

TEST(SimFault, ADroppedFrameTakesItsCorruptionWithIt) {
  FaultRule hurt = rule(FaultAction::corrupt_mpa, MessageKind::mpa_request);
  hurt.field = MessageField::flags;
  hurt.match.times = 1;
  FaultRule lose = rule(FaultAction::drop, MessageKind::mpa_request);
  lose.match.times = 1;
  Faults f({hurt, lose});
  Sender s;
  f.pass(s.syn());
  EXPECT_TRUE(f.dropped(s.at(0, request())));
  f.pass(s.at(0, request()));
  EXPECT_EQ(f.octets(), s.at(0, request()));
}

// Corruption that waits for its octet is planned for 256 messages at most: the oldest plan is forgotten.
TEST(SimFault, ADroppedFrameTakesItsCorruptionWithItThoughAllPlacesAreTaken) {
  constexpr std::uint16_t plans_max = 256;
  const Bytes first = request();
  const std::size_t cut = PARLEY_MPA_KEY_LEN;
  FaultRule hurt = rule(FaultAction::corrupt_mpa, MessageKind::mpa_request);
  hurt.field = MessageField::flags;
  hurt.match.times = plans_max + 1;
  FaultRule lose = rule(FaultAction::drop, MessageKind::mpa_request);
  lose.match.nth = plans_max + 1;
  Faults f({hurt, lose});
  const auto sender = [](std::uint16_t n) {
    Sender s;
    s.port = static_cast<std::uint16_t>(40000 + n);
    return s;
  };
  for (std::uint16_t n = 0; n <= plans_max; ++n) {
    f.pass(sender(n).syn());
    EXPECT_EQ(f.dropped(sender(n).at(0, ConstBytes(first).first(cut))), n == plans_max) << n;
  }
  // Its own plan is gone with it, and the oldest had to make room.
  f.pass(sender(plans_max).at(0, first));
  EXPECT_EQ(f.octets(), sender(plans_max).at(0, first));
  for (std::uint16_t n = 0; n < plans_max; ++n) {
    f.pass(sender(n).at(cut, ConstBytes(first).subspan(cut)));
    EXPECT_EQ(f.octets() == sender(n).at(cut, ConstBytes(first).subspan(cut)), n == 0) << n;
  }
}

TEST(SimFault, CorruptMpaLeavesAWrongChecksumWrong) {
  FaultRule bits = rule(FaultAction::corrupt);
  FaultRule hurt = rule(FaultAction::corrupt_mpa, MessageKind::mpa_request);
  hurt.field = MessageField::key;
  Sender s;
  int wrong = 0;
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    FaultRule later = bits;
    later.match.nth = 2;
    Faults f({later, hurt}, seed);
    f.pass(s.syn());
    f.pass(s.at(0, request()));
    wrong += sound(f.octets()) ? 0 : 1;
  }
  EXPECT_GT(wrong, 70) << "what is left fell into the Ethernet header";
}

// ---- cut_stream ----------------------------------------------------------------------------------------------------

TEST(SimFault, CutsTheStreamAfterSomeOctetsOfAMessageAndSetsFin) {
  for (const bool ipv6 : {false, true})
    for (const std::size_t size : {1000u, 11u, 1u})
      for (const std::uint32_t octets : {0u, 1u, 10u, 19u}) {
        FaultRule r = rule(FaultAction::cut_stream, MessageKind::fpdu);
        r.match.fpdu = 1;
        r.octets = octets;
        Faults f({r});
        Sender s;
        s.ipv6 = ipv6;
        const Bytes stream = request() + fpdus({send_segment(1, 60), send_segment(2, 60)});
        f.pass(s.syn());
        Bytes got;
        int fins = 0;
        for (std::size_t at = 0; at < stream.size(); at += size) {
          f.pass(s.at(at, ConstBytes(stream).subspan(at, std::min(size, stream.size() - at))));
          ASSERT_TRUE(sound(f.octets()));
          const auto tcp = tcp_of(f.frame->octets());
          got = got + Bytes(f.payload().begin(), f.payload().end());
          EXPECT_EQ(f.decision.fin, tcp.fin());
          if (tcp.fin()) {
            EXPECT_EQ(tcp.seq + tcp.length, s.isn + 1 + 20 + octets) << "FIN follows the octets at once";
          }
          fins += tcp.fin() ? 1 : 0;
          EXPECT_TRUE(tcp.has_ack()) << "acknowledgements go on";
        }
        EXPECT_EQ(got, Bytes(stream.begin(), stream.begin() + 20 + octets)) << "in segments of " << size;
        EXPECT_EQ(fins, 1);
      }
}

TEST(SimFault, ACutStreamStaysCut) {
  FaultRule r = rule(FaultAction::cut_stream, MessageKind::mpa_request);
  r.octets = 8;
  r.match.times = 1;
  Faults f({r});
  Sender s;
  f.pass(s.syn());
  f.pass(s.at(0, request()));
  const Bytes first = f.octets();
  EXPECT_EQ(f.payload().size(), 8u);
  EXPECT_EQ(f.decision.note,
            "payload cut to 8 octets and FIN set by rule 1 (end the stream after 8 octets of the 1st mpa_request)");
  f.pass(s.at(0, request()));
  EXPECT_EQ(f.octets(), first) << "a retransmission is cut alike";
  f.pass(s.at(20, fpdu(empty_send()), wire::tcp_flag::fin));
  EXPECT_EQ(f.octets(), s.at(20, {})) << "a bare acknowledgement is left";
  f.pass(s.at(20, {}));
  EXPECT_EQ(f.octets(), s.at(20, {}));
  f.pass(s.at(20, {}, wire::tcp_flag::rst));
  EXPECT_EQ(f.octets(), s.at(20, {}, wire::tcp_flag::rst));
  s.isn += 5000;
  f.pass(s.syn());
  f.pass(s.at(0, request()));
  EXPECT_EQ(f.octets(), s.at(0, request())) << "the next connection is another one";
}

TEST(SimFault, TheCutComesBeforeTheLastOctetOfTheMessageAtTheLatest) {
  FaultRule r = rule(FaultAction::cut_stream, MessageKind::mpa_request);
  r.octets = 500;
  Faults f({r});
  Sender s;
  f.pass(s.syn());
  f.pass(s.at(0, request()));
  EXPECT_EQ(f.payload().size(), 19u);
  EXPECT_TRUE(tcp_of(f.frame->octets()).fin());
}

// ---- reset, hosts --------------------------------------------------------------------------------------------------

TEST(SimFault, ResetsAreOnesThatBothEndsAccept) {
  for (const bool ipv6 : {false, true}) {
    FramePool pool;
    Sender s;
    s.ipv6 = ipv6;
    s.isn = 0xFFFFFFF0;
    const Bytes octets = s.at(0, request(), wire::tcp_flag::fin);
    const FramePtr frame = frame_of(pool, octets);
    const auto [onward, back] = FaultInjector::make_resets(pool, *frame);
    ASSERT_TRUE(onward && back);
    EXPECT_TRUE(sound(onward->octets()));
    EXPECT_TRUE(sound(back->octets()));
    const auto in = tcp_of(octets), there = tcp_of(onward->octets()), here = tcp_of(back->octets());
    EXPECT_TRUE(there.rst() && here.rst());
    EXPECT_EQ(there.source, in.source);
    EXPECT_EQ(there.destination, in.destination);
    EXPECT_EQ(here.source, in.destination);
    EXPECT_EQ(here.destination, in.source);
    // RFC 5961 §3.2: exactly what is expected next.
    EXPECT_EQ(there.seq, static_cast<std::uint32_t>(s.isn + 1 + 20 + 1));
    EXPECT_EQ(here.seq, s.ack);
    EXPECT_EQ(here.ack, there.seq);
    EXPECT_NE(onward->id, back->id);
    const auto macs = [](ConstBytes f) {
      return std::pair(Bytes(f.begin(), f.begin() + 6), Bytes(f.begin() + 6, f.begin() + 12));
    };
    EXPECT_EQ(macs(onward->octets()), macs(octets));
    EXPECT_EQ(macs(back->octets()).first, macs(octets).second);
    EXPECT_EQ(macs(back->octets()).second, macs(octets).first);
  }
}

TEST(SimFault, ASynIsResetAsAListenerWouldRefuseIt) {
  FramePool pool;
  Sender s;
  const FramePtr syn = frame_of(pool, s.syn());
  const auto [onward, back] = FaultInjector::make_resets(pool, *syn);
  EXPECT_EQ(tcp_of(onward->octets()).seq, s.isn + 1);
  EXPECT_EQ(tcp_of(back->octets()).seq, 0u);
  EXPECT_EQ(tcp_of(back->octets()).ack, s.isn + 1);
  EXPECT_TRUE(tcp_of(back->octets()).has_ack());
}

TEST(SimFault, OnlyLivingTcpConnectionsAreReset) {
  FramePool pool;
  const FramePtr rst = frame_of(pool, Sender{}.at(0, {}, wire::tcp_flag::rst));
  EXPECT_FALSE(FaultInjector::make_resets(pool, *rst).first);
  const FramePtr junk = frame_of(pool, Bytes(60, 1));
  EXPECT_FALSE(FaultInjector::make_resets(pool, *junk).first);
  Faults f({rule(FaultAction::reset)});
  EXPECT_FALSE(f.pass(octets_of(*rst)).reset);
  EXPECT_FALSE(f.pass(octets_of(*junk)).reset);
  const Bytes data = Sender{}.at(0, Bytes(5));
  EXPECT_TRUE(f.pass(data).reset);
  EXPECT_EQ(f.octets(), data) << "the frame itself passes";
}

TEST(SimFault, HandsHostActionsOverWithTheRule) {
  FaultRule crash = rule(FaultAction::crash, MessageKind::mpa_request);
  crash.host = 3;
  crash.delay = 5ms;
  crash.match.times = 1;
  FaultRule restart = crash;
  restart.action = FaultAction::restart;
  restart.delay = 50ms;
  Faults f({crash, restart});
  Sender s;
  EXPECT_TRUE(f.pass(s.syn()).hosts.empty());
  f.pass(s.at(0, request()));
  ASSERT_EQ(f.decision.hosts.size(), 2u);
  EXPECT_EQ(f.decision.hosts[0]->action, FaultAction::crash);
  EXPECT_EQ(f.decision.hosts[0]->host, 3u);
  EXPECT_EQ(f.decision.hosts[1]->delay, 50ms);
  EXPECT_TRUE(f.pass(s.at(0, request())).hosts.empty());
}

// ---- what is looked into -------------------------------------------------------------------------------------------

TEST(SimFault, AFrameDamagedBeforeIsNoGuideToTheStream) {
  Faults f({rule(FaultAction::drop, MessageKind::mpa_request)});
  Sender s;
  f.pass(s.syn());
  Bytes hurt = s.at(0, Bytes(20, 'x'));
  hurt.back() ^= 1;
  FramePool pool;
  FaultInjector again{Rng(1)};
  ASSERT_TRUE(again.add(rule(FaultAction::drop, MessageKind::mpa_request)));
  const auto apply = [&](const Bytes& octets, bool altered) {
    const FramePtr frame = frame_of(pool, octets);
    frame->altered = altered;
    return again.apply(Instant{}, *frame, false).drop;
  };
  EXPECT_EQ(apply(s.syn(), false), DropReason::none);
  EXPECT_EQ(apply(hurt, true), DropReason::none);
  EXPECT_EQ(apply(s.at(0, request()), true), DropReason::rule) << "altered, but its checksums are right";
}

TEST(SimFault, SaysNothingWhenNobodyListens) {
  FaultInjector i{Rng(1)};
  FramePool pool;
  EXPECT_TRUE(i.empty());
  ASSERT_TRUE(i.add(rule(FaultAction::drop)));
  EXPECT_FALSE(i.empty());
  const FramePtr frame = frame_of(pool, Sender{}.syn());
  EXPECT_EQ(i.apply(Instant{}, *frame, false).note, "");
}

TEST(SimFault, TakesAnyOctetsUnderEveryRule) {
  std::vector<FaultRule> rules;
  std::vector<MessageKind> kinds{MessageKind::any};
  for (const LayerTable* layer : layers())
    for (const KindRow& row : layer->kinds) kinds.push_back(row.kind);
  for (const MessageKind message : kinds)
    for (int a = 0; a <= static_cast<int>(FaultAction::resume); ++a)
      for (const MessageField field : {MessageField::private_data, MessageField::payload, MessageField::marker}) {
        FaultRule r = rule(static_cast<FaultAction>(a), message);
        if (r.action == FaultAction::delay) r.delay = 1ns;
        if (r.action == FaultAction::truncate) r.octets = 50;
        if (r.action == FaultAction::cut_stream) r.octets = 5;
        r.chance = {1, 8};
        r.field = field;
        if (check_rule(r) && rules.size() < FaultInjector::rules_max) rules.push_back(r);
      }
  Faults f(rules, 9);
  Rng rng(11);
  Sender s;
  const Bytes stream = request() + fpdus({empty_read(), send_segment(1, 900), terminate()}, true);
  for (int i = 0; i < 20000; ++i) {
    s.active = rng.chance({1, 2});
    s.ipv6 = rng.chance({1, 2});
    if (rng.chance({1, 50})) ++s.isn;
    const std::uint64_t at = rng.below(stream.size());
    const std::uint64_t size = rng.below(stream.size() - at);
    Bytes frame = rng.below(10) == 0 ? s.syn() : s.at(at, ConstBytes(stream).subspan(at, size));
    for (std::uint64_t n = rng.below(3); n > 0; --n) {
      const std::uint64_t where = rng.below(frame.size());
      frame[where] = static_cast<std::uint8_t>(rng.next());
    }
    if (rng.chance({1, 5})) frame.resize(rng.below(frame.size() + 1));
    f.pass(frame);
    EXPECT_LE(f.frame->size, frame.size());
    const auto resets = FaultInjector::make_resets(f.pool, *f.frame);
    EXPECT_EQ(!resets.first, !resets.second);
  }
}

}  // namespace
}  // namespace parley::sim::test
