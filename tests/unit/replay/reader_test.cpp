// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// What a stream holds, octet by octet: steps, and what is begun and not whole; names of memory; the machine on streams.
#include <fmt/format.h>

#include "atomics.hpp"
#include "base/bytes_io.hpp"
#include "kit.hpp"
#include "medley.hpp"
#include "replay/machine.hpp"
#include "tests/unit/reviewed.hpp"

namespace parley::replay::test {
namespace {

using capture::Known;
using capture::test::fpdu;
using capture::test::send_segment;
using capture::test::startup;
using wire::MpaKey;

std::string steps_text(const std::vector<Step>& steps) {
  std::string out;
  for (const Step& s : steps)
    out += fmt::format("    {} of {} octets, {} known, {} lost, frames {} to {}, ends at {}{}{}{}{}\n",
                       to_string(s.kind), s.octets.size(), s.known, s.lost, s.first.frame, s.last.frame, s.end,
                       s.bad_crc ? fmt::format(", CRC wrong by {:08x}", s.crc_error) : "", s.bad_pad ? ", bad pad" : "",
                       s.bad_marker ? ", bad marker" : "", s.begun ? ", begun" : "");
  return out;
}

Bytes joined(std::initializer_list<Bytes> parts) {
  Bytes out;
  for (const Bytes& p : parts) out.insert(out.end(), p.begin(), p.end());
  return out;
}

/// How a stream begins, and what follows it.
struct Stream {
  std::string name;
  Bytes octets;
  Known markers = Known::no;
  bool rtr = false, accepted = true;
};

std::vector<Stream> streams() {
  const Bytes frame = startup(MpaKey::rep, PARLEY_MPA_FLAG_C, 1, {}, Bytes{1, 2, 3});
  const Bytes marked_frame = startup(MpaKey::rep, PARLEY_MPA_FLAG_C | PARLEY_MPA_FLAG_M, 1);
  const Bytes one = fpdu(send_segment(1, 5)), two = fpdu(send_segment(2, 0));
  const Bytes big = fpdu(send_segment(1, 600), 0, true), after = fpdu(send_segment(2, 5), big.size(), true);
  Bytes bad_crc = one, bad_pad = one, bad_marker = big;
  bad_crc.back() ^= 0x80;
  bad_pad[bad_pad.size() - 5] = 1;
  bad_marker[3] = 8;
  constexpr std::string_view key(PARLEY_MPA_KEY_RTR, 16);
  Bytes rtr(key.begin(), key.end());
  rtr.insert(rtr.end(), {0, 1, 0, 0});
  return {
      {"a startup frame and two FPDUs", joined({frame, one, two})},
      {"with markers", joined({marked_frame, big, after}), Known::yes},
      {"a wrong CRC", joined({frame, bad_crc, two})},
      {"a pad octet that is not 0", joined({frame, bad_pad, two})},
      {"a wrong marker", joined({marked_frame, bad_marker, after}), Known::yes},
      {"an impossible length", joined({frame, one, Bytes{0, 3, 9, 9, 9}})},
      {"an Rtr frame and an FPDU", joined({frame, rtr, one}), Known::no, true},
      {"an FPDU where the Rtr frame may come", joined({frame, one}), Known::no, true},
      {"half an Rtr frame", joined({frame, Bytes(rtr.begin(), rtr.begin() + 9)}), Known::no, true},
      {"a rejection and octets", joined({frame, Bytes{1, 2, 3}}), Known::no, false, false},
      {"no startup frame", Bytes{'H', 'T', 'T', 'P', '/', '1', '.', '1'}},
      {"nearly a startup frame", Bytes{'M', 'P', 'A', ' ', 'I', 'T', 'D'}},
      {"half a startup frame", Bytes(frame.begin(), frame.begin() + 21)},
      {"half an FPDU", joined({frame, Bytes(one.begin(), one.begin() + 11)})},
      {"an octet of an FPDU", joined({frame, one, Bytes{0}})},
      {"half an FPDU with markers", joined({marked_frame, Bytes(big.begin(), big.begin() + 11)}), Known::yes},
      {"half of the second FPDU with markers", joined({marked_frame, big, Bytes(after.begin(), after.begin() + 3)}),
       Known::yes},
  };
}

void agree(StepReader& reader, const Stream& s) {
  if (s.accepted)
    reader.agreed(Known::yes, s.markers, s.rtr);
  else
    reader.no_fpdus();
}

// TCP cuts a stream anywhere; the agreement may be known before or after the octets are there.
TEST(ReplayReader, StepsDoNotDependOnHowTcpCutTheStream) {
  std::string out;
  for (const Stream& s : streams())
    for (const bool closed : {true, false}) {
      std::string first;
      for (const std::size_t piece : {std::size_t{1}, std::size_t{7}, s.octets.size()})
        for (const bool late : {false, true}) {
          StepReader reader;
          bool agreed = false;
          for (std::size_t at = 0; at < s.octets.size(); at += piece) {
            const std::size_t n = std::min(piece, s.octets.size() - at);
            reader.octets(ConstBytes(s.octets).subspan(at, n), {1, Instant(1s), 0}, true);
            if (!late && !agreed && reader.startup_done()) agree(reader, s), agreed = true;
          }
          if (!agreed) agree(reader, s);
          const std::string begun = reader.begun();
          reader.finish({2, Instant(2s), 0}, closed);
          EXPECT_EQ(reader.position(), s.octets.size());
          // Octets that are no FPDU come as they were cut: they are compared as a whole.
          Bytes raw;
          std::vector<Step> steps;
          for (Step& step : reader.steps()) {
            const bool joins = step.kind == Step::Kind::raw && !steps.empty() && steps.back().kind == Step::Kind::raw;
            if (!joins) {
              steps.push_back(std::move(step));
              continue;
            }
            Step& last = steps.back();
            last.octets.insert(last.octets.end(), step.octets.begin(), step.octets.end());
            last.known = last.octets.size();
            last.last = step.last;
            last.end = step.end;
          }
          const std::string now =
              fmt::format("  {}, the frame has {} octets\n{}", begun, reader.startup_length(), steps_text(steps));
          if (first.empty()) first = now;
          EXPECT_EQ(now, first) << s.name << " in pieces of " << piece << (late ? ", agreed late" : "");
        }
      out += fmt::format("{}{}\n{}", s.name, closed ? ", closed" : ", the recording stops", first);
    }
  expect_as_reviewed("replay_steps.txt", out);
}

TEST(ReplayReader, HalfAnRtrFrameComesAfterTheStartupFrame) {
  Exchange x;
  x.open().send(0, startup(MpaKey::req, PARLEY_MPA_FLAG_C, 1)).send(1, startup(MpaKey::rep, PARLEY_MPA_FLAG_C, 1));
  x.send(0, Bytes{'M', 'P', 'A', ' ', 'I', 'D', ' ', 'R', 't'}).rst(0);
  const Recording r = record(x);
  const auto& items = r.side(Side::initiator).items;
  ASSERT_EQ(items.size(), 3U);
  EXPECT_EQ(items[0].kind, Item::Kind::startup);
  EXPECT_EQ(items[1].kind, Item::Kind::raw);
  EXPECT_EQ(items[1].end, items[0].end + 9);
  const Outcome out = play(r, r);
  EXPECT_TRUE(out.same()) << out.words();
}

TEST(ReplayReader, WhatIsBegunIsToldWithItsLength) {
  std::string out;
  for (const Stream& s : streams()) {
    StepReader reader;
    bool agreed = false;
    out += s.name + "\n";
    std::string last;
    for (std::size_t at = 0; at < std::min<std::size_t>(s.octets.size(), 60); ++at) {
      reader.octets(ConstBytes(s.octets).subspan(at, 1), {}, true);
      if (!agreed && reader.startup_done()) agree(reader, s), agreed = true;
      const std::string now = reader.begun();
      // The number of octets that are there grows by one each time.
      const std::string kind = now.substr(std::min(now.find(' '), now.size()));
      if (kind != last) out += fmt::format("  after {}: {}\n", at + 1, now.empty() ? "nothing" : now);
      last = kind;
    }
  }
  expect_as_reviewed("replay_begun.txt", out);
}

// Octets that a recording lacks, at each place of a stream.
TEST(ReplayReader, WhatIsLackingIsAGapAndFpdusAreFoundBehindIt) {
  std::string out;
  for (const Stream& s : {streams()[0], streams()[1], streams()[6]}) {
    for (std::size_t from = 0; from + 8 < s.octets.size(); from += s.octets.size() > 200 ? 41 : 9) {
      StepReader reader;
      const ConstBytes all = s.octets;
      reader.octets(all.first(from), {1, Instant(1s), 0}, true);
      reader.missing(8, {2, Instant(2s), 0}, false);
      reader.octets(all.subspan(from + 8), {3, Instant(3s), 0}, true);
      agree(reader, s);
      reader.finish({4, Instant(4s), 0}, true);
      out += fmt::format("{} without octets {} to {}\n{}", s.name, from, from + 7, steps_text(reader.steps()));
    }
  }
  expect_as_reviewed("replay_lacking.txt", out);
}

std::string names_text(const SideRecord& peer, const SideRecord& played) {
  const Names names = find_names(peer, played);
  std::string out;
  for (const Field& f : names.fields)
    out += fmt::format("  {} at {} of {}, {}: STag 0x{:x}{}\n", f.is_to ? "TO" : "STag", f.offset,
                       describe(peer.items[f.item]), f.little ? "least octet first" : "most octet first", f.stag,
                       f.is_to ? fmt::format(", TO 0x{:x}", f.to) : "");
  for (const Use& u : names.uses)
    out += fmt::format("  used: STag 0x{:x}, TO 0x{:x} to 0x{:x}{}{}\n", u.stag, u.begin, u.end,
                       u.advertised ? ", announced" : "", u.moved ? "" : ", nothing moved");
  return out;
}

/// One announcement of the initiator's, then that STag and TO used by the responder.
Exchange announced_as(const Bytes& words, std::uint32_t stag, std::uint64_t to, std::uint32_t octets) {
  Exchange x;
  wire::DdpHeader h;
  h.msn = 1;
  x.set_up().send(0, fpdu(capture::test::segment(h, words)));
  x.send(1, fpdu(capture::test::tagged(wire::RdmapOpcode::rdma_write, stag, to, octets)));
  x.send(1, fpdu(capture::test::tagged(wire::RdmapOpcode::rdma_write, stag, to + 64, octets)));
  x.send(1, fpdu(send_segment(1, 4))).close();
  return x;
}

TEST(ReplayNames, AreFoundWhereverAndHoweverAPeerAnnouncesThem) {
  std::string out;
  const auto say = [&](const std::string& name, const Exchange& x) {
    const Recording r = record(x);
    for (const Side side : {Side::initiator, Side::responder})
      out += fmt::format("{}, memory of the {}\n{}", name, capture::to_string(side),
                         names_text(r.side(side), r.side(capture::other(side))));
  };
  say("a medley", medley());
  say("Atomics", atomics(0x1111, 0x10000, 1, 100));
  constexpr std::uint32_t stag = 0xABCD0102;
  constexpr std::uint64_t to = 0x7F0012345678;
  for (const bool little : {false, true}) {
    const auto stag_words = [&](Writer& w) { little ? w.le32(stag) : w.be32(stag); };
    const auto to_words = [&](Writer& w) { little ? w.le64(to) : w.be64(to); };
    const auto made = [&](auto fill) {
      Bytes b(30, 0xEE);
      Writer w(b);
      fill(w);
      return b;
    };
    const std::string order = little ? ", least octet first" : "";
    say("TO, STag" + order, announced_as(made([&](Writer& w) { w.u8(1), to_words(w), stag_words(w); }), stag, to, 8));
    say("STag, TO" + order, announced_as(made([&](Writer& w) { stag_words(w), to_words(w); }), stag, to, 8));
    say("STag, length, TO" + order,
        announced_as(made([&](Writer& w) { stag_words(w), w.be32(64), to_words(w); }), stag, to, 8));
    say("TO, length, STag" + order,
        announced_as(made([&](Writer& w) { to_words(w), w.be32(64), stag_words(w); }), stag, to, 8));
    say("STag alone" + order, announced_as(made([&](Writer& w) { stag_words(w); }), stag, to, 0));
    say("TO in the other order" + order,
        announced_as(made([&](Writer& w) { stag_words(w), little ? w.be64(to) : w.le64(to); }), stag, to, 8));
    say("twice" + order,
        announced_as(made([&](Writer& w) { stag_words(w), stag_words(w), to_words(w); }), stag, to, 8));
  }
  say("an STag that reads the same both ways",
      announced_as(Bytes{1, 2, 2, 1, 0, 0, 0, 0, 0, 0, 0x10, 0}, 0x01020201, 0x1000, 8));
  for (const auto opcode : {wire::RdmapOpcode::send_inv, wire::RdmapOpcode::send_se_inv})
    for (const std::uint32_t named : {stag, 0U}) {
      Exchange x;
      wire::DdpHeader h;
      h.msn = 1;
      Bytes words(9, 0xEE);
      Writer(words).be32(stag);
      x.set_up().send(0, fpdu(capture::test::segment(h, words)));
      h.opcode = opcode;
      h.stag = named;
      x.send(1, fpdu(capture::test::segment(h))).close();
      say(fmt::format("an STag that is invalidated by {}{}", wire::to_string(opcode), named == 0 ? ", but 0" : ""), x);
    }
  Exchange tagged_read;
  tagged_read.set_up().send(0, fpdu(send_segment(1, 8)));
  tagged_read.send(1, fpdu(capture::test::tagged(wire::RdmapOpcode::read_request, 5, 6, 3)));
  tagged_read.send(1, fpdu(capture::test::tagged(wire::RdmapOpcode::atomic_request, 5, 6, 3))).close();
  say("a tagged Read Request", tagged_read);
  say("rping's form, used by nobody",
      announced_as(Bytes{0, 0, 0, 0, 0, 0, 0x10, 0, 0, 0, 0, 5, 0, 0, 0, 64}, 9, 0x99, 8));
  say("rping's form without a length",
      announced_as(Bytes{0, 0, 0, 0, 0, 0, 0x10, 0, 0, 0, 0, 5, 0, 0, 0, 0}, 5, 0x1000, 8));
  expect_as_reviewed("replay_names.txt", out);
}

TEST(ReplayNames, AreWrittenAsTheyAreRead) {
  for (const bool is_to : {false, true})
    for (const bool little : {false, true})
      for (const std::size_t offset : {0U, 3U, 12U, 13U, 16U, 17U, 40U}) {
        Bytes octets(20, 0xEE);
        Field f;
        f.offset = offset;
        f.is_to = is_to;
        f.little = little;
        const std::uint64_t value = is_to ? 0x0102030405060708 : 0x05060708;
        write_field(octets, f, 0x0102030405060708);
        const bool fits = offset + f.size() <= octets.size();
        EXPECT_EQ(read_field(octets, f), fits ? value : 0U) << offset;
        for (std::size_t i = 0; i < octets.size(); ++i) {
          if (!fits || i < offset || i >= offset + f.size()) {
            EXPECT_EQ(octets[i], 0xEE) << i;
          }
        }
        if (!fits) continue;
        EXPECT_EQ(octets[offset], little ? 8 : is_to ? 1 : 5);
        EXPECT_EQ(octets[offset + f.size() - 1], little ? (is_to ? 1 : 5) : 8);
      }
}

TEST(ReplayNames, OffsetsFollowTheNearestNameBeforeThem) {
  NameMap map;
  EXPECT_FALSE(map.knows(5));
  EXPECT_EQ(map.stag(5), 5U);
  EXPECT_EQ(map.to(5, 77), 77U);
  map.learn_stag(5, 50);
  EXPECT_TRUE(map.knows(5));
  EXPECT_EQ(map.stag(5), 50U);
  EXPECT_EQ(map.to(5, 77), 77U) << "no TO is known";
  map.learn_to(5, 100, 1000);
  map.learn_to(5, 200, 5000);
  EXPECT_EQ(map.stag(5), 50U) << "a TO does not forget the STag";
  for (const auto& [recorded, live] : {std::pair(100U, 1000U), std::pair(199U, 1099U), std::pair(200U, 5000U),
                                       std::pair(300U, 5100U), std::pair(90U, 990U)})
    EXPECT_EQ(map.to(5, recorded), live);
  map.learn_to(6, 1, 2);
  EXPECT_EQ(map.stag(6), 6U) << "one whose STag is not known keeps it";
}

}  // namespace
}  // namespace parley::replay::test
