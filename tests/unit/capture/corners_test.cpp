// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Corners where a set-up, a fault and the edges of TCP meet: who sends a Terminate when, faults of FPDUs that go over two
// packets, FINs with octets, answers to Reads whose requests are lost (tests/states/capture_corners_*.txt).
#include <gtest/gtest.h>

#include <fmt/format.h>

#include "tests/unit/capture/roce_kit.hpp"
#include "tests/unit/capture/runs.hpp"
#include "tests/unit/capture/stories.hpp"
#include "tests/unit/reviewed.hpp"

namespace parley::capture::corners_test {
namespace {

using test::brief;
using test::Exchange;
using test::expect_ids_as_reviewed;
using test::fpdu;
using test::send_segment;
using test::startup;
using wire::MpaKey;

constexpr std::uint8_t C = PARLEY_MPA_FLAG_C, M = PARLEY_MPA_FLAG_M, S = PARLEY_MPA_FLAG_S, R = PARLEY_MPA_FLAG_R;

// RFC 5044 §8, RFC 6581 §8: the initiator may give up the set-up with a Terminate of the LLP; of another error, or behind
// other FPDUs, it is one of the connection. RFC 5040 §4.8: layer and type in either order.
TEST(CaptureCorners, TerminatesOfTheSetUpByTheirError) {
  const wire::MpaEnhanced q{.a = true, .b = true, .ird = 4, .ord = 9}, r{.a = true, .b = true, .ird = 9, .ord = 4},
      none{.a = true, .b = true, .ird = PARLEY_MPA_ENH_NOT_NEGOTIATED, .ord = 4};
  const auto terminated = [&](std::uint8_t kind, std::uint8_t code, unsigned before, const wire::MpaEnhanced& reply) {
    Exchange x;
    x.open().send(0, startup(MpaKey::req, C | S, 2, q)).send(1, startup(MpaKey::rep, C | S, 2, reply));
    if (before == 1) x.send(0, fpdu(send_segment(1, 0)));
    if (before == 2) x.send(1, fpdu(send_segment(1, 0)));
    return brief(x.send(0, fpdu(test::terminate(kind, code, 0))).fin(0).fin(1).frames);
  };
  std::string out = terminated(0x20, 3, 0, r) + "\n";
  for (const unsigned before : {0u, 1u, 2u}) {
    out += std::string("== ") + (before == 0 ? "first" : before == 1 ? "behind an RTR" : "behind an answer") + " ==\n";
    test::Runs runs(terminated(0x20, 3, before, r), false);
    for (unsigned layer = 0; layer < 3; ++layer)
      for (const unsigned type : {0u, 2u})
        for (std::uint8_t code = 3; code <= 8; ++code)
          runs.add(fmt::format("{}/{}/{}", layer, type, code),
                   terminated(static_cast<std::uint8_t>(layer << 4 | type), code, before, r));
    out += runs.text();
  }
  out += "== 0x3fff as IRD ==\n" + terminated(0x20, 6, 0, none) + "\n";
  expect_ids_as_reviewed("capture_corners_terminates.txt", out);
}

// OFA 2007-10 Rtr §2: the responder's first FPDU may show that it took the Rtr frame for one.
TEST(CaptureCorners, TerminatesBehindTheRtrFrame) {
  std::string out;
  for (const bool agreed : {true, false})
    for (const unsigned before : {0u, 1u, 2u}) {
      test::Runs runs;
      for (const int error : {0x0000, 0x0005, 0x0100, 0x0205, 0x0206, 0x1006, 0x1206, 0x2000, 0x2005}) {
        const auto kind = static_cast<std::uint8_t>(error >> 8), code = static_cast<std::uint8_t>(error);
        Exchange x;
        x.open().send(0, startup(MpaKey::req, C | S, 1));
        x.send(1, startup(MpaKey::rep, static_cast<std::uint8_t>(agreed ? C | S : C), 1));
        x.send(0, startup(MpaKey::rtr, 0, 1));
        if (before == 1) x.send(0, fpdu(send_segment(1, 4)));
        if (before == 2) x.send(1, fpdu(send_segment(1, 4)));
        runs.add(fmt::format("{:02x}/{}", kind, code),
                 brief(x.send(1, fpdu(test::terminate(kind, code, 0))).fin(1).fin(0).frames));
      }
      out += fmt::format("== {}, {} ==\n", agreed ? "agreed" : "not agreed",
                         before == 0   ? "at once"
                         : before == 1 ? "behind an FPDU of the initiator"
                                       : "behind another FPDU") +
             runs.text();
    }
  expect_ids_as_reviewed("capture_corners_rtr.txt", out);
}

/// An FPDU with something wrong, behind a good one and before another.
struct Fault {
  std::string name;
  bool markers = false;
  void (*alter)(Bytes& fpdu, std::uint64_t at);
};
void resum(Bytes& f) {
  std::uint32_t crc = mpa::crc32c(ConstBytes(f).first(f.size() - 4));
  for (std::size_t i = f.size() - 4; i < f.size(); ++i, crc >>= 8) f[i] = static_cast<std::uint8_t>(crc);
}
std::size_t marker_in(std::uint64_t at) { return (512 - at % 512) % 512; }
const std::vector<Fault>& faults() {
  static const std::vector<Fault> all{
      {"nothing wrong", false, [](Bytes&, std::uint64_t) {}},
      {"a wrong CRC", false, [](Bytes& f, std::uint64_t) { f.back() ^= 1; }},
      {"pad octets", false, [](Bytes& f, std::uint64_t) { f[f.size() - 5] = 7, resum(f); }},
      {"DDP version 0", false, [](Bytes& f, std::uint64_t) { f[2] &= 0xFC, resum(f); }},
      {"a reserved bit", false, [](Bytes& f, std::uint64_t) { f[2] |= 0x20, resum(f); }},
      {"opcode 0xF", false, [](Bytes& f, std::uint64_t) { f[3] |= 0x0F, resum(f); }},
      {"another queue", false, [](Bytes& f, std::uint64_t) { f[11] ^= 1, resum(f); }},
      {"ULPDU_Length 0", false, [](Bytes& f, std::uint64_t) { f[0] = f[1] = 0; }},
      {"nothing wrong, markers", true, [](Bytes&, std::uint64_t) {}},
      {"a wrong FPDUPTR", true, [](Bytes& f, std::uint64_t at) { f[marker_in(at) + 2] ^= 4, resum(f); }},
      {"bits of a marker", true, [](Bytes& f, std::uint64_t at) { f[marker_in(at) + 3] |= 1, resum(f); }},
      {"a marker left out", true,
       [](Bytes& f, std::uint64_t at) {
         const auto marker = f.begin() + static_cast<std::ptrdiff_t>(marker_in(at));
         f.erase(marker, marker + 4), resum(f);
       }},
      {"a wrong CRC, markers", true, [](Bytes& f, std::uint64_t) { f.back() ^= 1; }}};
  return all;
}

// The packet that completes an FPDU shows what is wrong with it; what it acknowledges is known from there on. RFC 5040
// §7.2: the other side answers with a Terminate, or goes on, or closes.
TEST(CaptureCorners, FaultsOfFpdusInOneOrTwoPacketsAndWhatTheOtherSideDoes) {
  std::string out;
  for (const unsigned from : {0u, 1u})
    for (const Fault& fault : faults()) {
      const auto flags = static_cast<std::uint8_t>(C | (fault.markers ? M : 0));
      const std::string usual = [&] {
        Exchange x;
        x.open().send(0, startup(MpaKey::req, flags, 1)).send(1, startup(MpaKey::rep, flags, 1));
        return brief(x.frames);
      }();
      test::Runs runs(usual, false);
      for (const std::size_t first : {0u, 1u, 200u})
        for (const unsigned then : {0u, 1u, 2u, 3u, 4u}) {
          Exchange x;
          x.open().send(0, startup(MpaKey::req, flags, 1)).send(1, startup(MpaKey::rep, flags, 1));
          std::uint64_t at[2] = {0, 0};
          std::uint32_t msn[2] = {1, 1};
          const auto say = [&](unsigned who, std::size_t payload, void (*alter)(Bytes&, std::uint64_t),
                               std::size_t piece = 0) {
            Bytes f = fpdu(send_segment(msn[who]++, payload), at[who], fault.markers);
            alter(f, at[who]);
            at[who] += f.size();
            x.send(who, ConstBytes(f).first(piece)).send(who, ConstBytes(f).subspan(piece));
          };
          const auto right = [](Bytes&, std::uint64_t) {};
          say(0, 300, right);
          if (from == 1) say(1, 300, right);
          say(from, 401, fault.alter, first);
          if (then == 1) say(1 - from, 4, right);
          if (then == 2) x.send(1 - from, fpdu(test::terminate(0x20, 2, 0), at[1 - from], fault.markers));
          if (then == 3) x.fin(1 - from);
          if (then == 4) x.rst(1 - from);
          if (then < 3) say(from, 3, right), x.fin(from).fin(1 - from);
          runs.add(fmt::format("{}, then {}", first == 0 ? "one packet" : fmt::format("{} octets first", first),
                               then == 0   ? "nothing"
                               : then == 1 ? "an FPDU"
                               : then == 2 ? "a Terminate"
                               : then == 3 ? "a FIN"
                                           : "an RST"),
                   brief(x.frames));
        }
      out += fmt::format("== {} of the {} ==\n", fault.name, from == 0 ? "initiator" : "responder") + runs.text();
    }
  expect_ids_as_reviewed("capture_corners_faults.txt", out);
}

// RFC 5044 §7.1.1: PD_Length is what follows; a FIN may stand in the packet of the last octets.
TEST(CaptureCorners, FinsInThePacketOfAStartupFrame) {
  const Bytes request = startup(MpaKey::req, C, 1, {}, Bytes(9, 'p')),
              reply = startup(MpaKey::rep, C, 1, {}, Bytes(9, 'p'));
  std::string out;
  for (const unsigned from : {0u, 1u}) {
    test::Runs runs;
    for (const std::size_t n : {1u, 7u, 15u, 16u, 19u, 20u, 21u, 28u, 29u})
      for (const bool syn : {true, false}) {
        Exchange x;
        x.open();
        if (from == 1) x.send(0, request);
        x.add(from, wire::tcp_flag::fin | wire::tcp_flag::ack, ConstBytes(from == 0 ? request : reply).first(n));
        x.seq(from) += static_cast<std::uint32_t>(n) + 1;
        x.fin(1 - from);
        if (!syn) x.frames.erase(x.frames.begin(), x.frames.begin() + 3);
        runs.add(fmt::format("{} octets{}", n, syn ? "" : ", without the SYNs"), brief(x.frames));
      }
    out += fmt::format("== {} ==\n", from == 0 ? "Request" : "Reply") + runs.text();
  }
  expect_ids_as_reviewed("capture_corners_fins.txt", out);
}

// An old SYN ACK that was captured late moves nothing once octets have come (RFC 9293 §3.4).
TEST(CaptureCorners, AStraySynAckExcusesNobody) {
  for (const bool stray : {false, true}) {
    Exchange x;
    x.open().send(0, startup(MpaKey::req, C, 1)).send(1, Bytes{'M', 'P', 'A', ' '});
    if (stray) {
      const std::uint32_t now = x.seq(1);
      x.seq(1) = 77;
      x.add(1, wire::tcp_flag::syn | wire::tcp_flag::ack, {});
      x.seq(1) = now;
    }
    x.send(1, Bytes{'x', 'y', 'z'}).close();
    EXPECT_EQ(test::errors(x), "octets that are not a startup frame where one is expected [RFC 5044 §7.1.1]\n");
  }
}

// RFC 5044 §7.1: a second Reply is one too many, whatever the capture lacks of the initiator.
TEST(CaptureCorners, ASecondReplyAlthoughTheInitiatorLacksOctets) {
  for (const bool lost : {false, true}) {
    Exchange x;
    x.set_up().send(0, fpdu(send_segment(1, 8))).send(0, fpdu(send_segment(2, 8))).send(1, fpdu(send_segment(1, 8)));
    x.send(1, startup(MpaKey::rep, C, 1)).close();
    if (lost) x.frames.erase(x.frames.begin() + 6);
    const FileReport r = test::analyse(x.frames);
    EXPECT_TRUE(test::has(r, Severity::error, "the responder sent a second Reply where an FPDU is expected"))
        << test::words(r);
  }
}

// RFC 5044 §7.1.2 rule 3, where the capture has no SYN ACK: that nothing came from the responder before shows only with
// the Reply.
TEST(CaptureCorners, AFewOctetsBehindTheRequest) {
  std::string out;
  for (const std::size_t n : {0u, 1u, 2u})
    for (const std::size_t gone : {0u, 1u, 2u, 3u}) {
      Exchange x;
      x.open().send(0, startup(MpaKey::req, C, 1)).send(0, Bytes(n, 'x')).send(1, startup(MpaKey::rep, C, 1)).close();
      x.frames.erase(x.frames.begin(), x.frames.begin() + static_cast<std::ptrdiff_t>(gone));
      out += fmt::format("{} octets, without the first {} packets: {}\n", n, gone, brief(x.frames));
    }
  expect_ids_as_reviewed("capture_corners_extra.txt", out);
}

// RFC 5040 §5.2: an answer fits a Read by its STag, where it begins and how long it is. Behind a loss that is all there is
// to know which Reads were answered: those that seem not to be are no more than can be kept.
TEST(CaptureCorners, ReadsBehindALossAreAnsweredByWhatFits) {
  struct Answer {
    std::string_view what;
    std::uint32_t stag;
    std::uint64_t to;
    std::size_t octets;
    bool last = true, fits = true;
  };
  for (const Answer& a :
       {Answer{"its end", 11, 0x1001, 1}, Answer{"none of it, at its end", 11, 0x1002, 0},
        Answer{"from before its sink", 11, 0xFFF, 2, true, false}, Answer{"an octet more", 11, 0x1001, 2, true, false},
        Answer{"not its last", 11, 0x1000, 2, false, false}}) {
    Exchange x;
    x.set_up().send(0, fpdu(send_segment(1, 4))).send(1, fpdu(send_segment(1, 40))).send(1, fpdu(send_segment(2, 4)));
    const Bytes answer = fpdu(test::tagged(wire::RdmapOpcode::read_response, a.stag, a.to, a.octets, a.last));
    std::uint32_t msn = 1;
    for (int packet = 0; packet < 657; ++packet) {
      Bytes asked, answered;
      for (int i = 0; i < 25; ++i) {
        const Bytes q = fpdu(test::read_request(msn++, {11, 0x1000, 2, 20, 0x2000}));
        asked.insert(asked.end(), q.begin(), q.end());
        answered.insert(answered.end(), answer.begin(), answer.end());
      }
      x.send(0, asked).send(1, answered);
    }
    x.close();
    x.frames.erase(x.frames.begin() + 6);  // perhaps a Read Response
    EXPECT_EQ(test::has(test::analyse(x.frames), Severity::note, "more than 16384 requests outstanding"), !a.fits)
        << a.what;
  }
}

// RFC 5044 §4.3: of a port that is said to carry MPA, FPDUs without CRC are judged once a marker interval held no marker
// and three in a row fit.
TEST(CaptureCorners, WhichFpduIsTheFirstToBeJudgedWithoutCrc) {
  std::string out;
  for (const std::size_t payload : {40u, 150u, 240u, 600u, 1200u}) {
    out += fmt::format("{} octets each:", payload);
    for (std::uint32_t wrong = 2; wrong < 20; ++wrong) {
      Exchange x;
      for (std::uint32_t n = 1; n < 21; ++n)
        x.send(0, fpdu(send_segment(n < wrong ? n : n + 1, payload), 0, false, false));
      const FileReport r = test::analyse(x.frames, AnalyzerOptions{.mpa_ports = {9001}});
      out += r.count(Severity::error) > 0 ? fmt::format(" {}", wrong) : " -";
    }
    out += "\n";
  }
  expect_as_reviewed("capture_corners_first_judged.txt", out);
}

// Of two set-ups on one TCP connection, the first rejected: one packet lost, anywhere.
TEST(CaptureCorners, TwoRejectionsOfWhichAPacketIsLostOrLate) {
  std::string out;
  for (const bool words : {false, true}) {
    const auto some = [&](char c) { return words ? Bytes(5, static_cast<std::uint8_t>(c)) : Bytes{}; };
    Exchange x;
    x.open();
    for (const char c : {'1', '2'})
      x.send(0, startup(MpaKey::req, C, 1, {}, some(c))).send(1, startup(MpaKey::rep, C | R, 1, {}, some(c)));
    x.send(0, startup(MpaKey::req, C, 1)).send(1, startup(MpaKey::rep, C, 1, {}, some('3')));
    x.send(0, fpdu(send_segment(1, 8))).send(1, fpdu(send_segment(1, 8))).close();
    const std::string usual = brief(x.frames);
    out += fmt::format("== {} private data ==\n{}\n", words ? "with" : "without", usual);
    test::Runs runs(usual);
    for (std::size_t i = 0; i < x.frames.size(); ++i) {
      test::Frames lost = x.frames;
      lost.erase(lost.begin() + static_cast<std::ptrdiff_t>(i));
      runs.add(fmt::format("without frame {}", i + 1), brief(lost));
      for (const std::size_t to : {i + 1, i + 2, i + 3}) {
        if (to >= x.frames.size()) continue;
        test::Frames late = x.frames;
        std::rotate(late.begin() + static_cast<std::ptrdiff_t>(i), late.begin() + static_cast<std::ptrdiff_t>(i + 1),
                    late.begin() + static_cast<std::ptrdiff_t>(to + 1));
        runs.add(fmt::format("frame {} behind {}", i + 1, to + 1), brief(late));
      }
      test::Frames two = x.frames;
      if (i + 2 < x.frames.size())
        two.erase(two.begin() + static_cast<std::ptrdiff_t>(i), two.begin() + static_cast<std::ptrdiff_t>(i + 2));
      runs.add(fmt::format("without frames {} and {}", i + 1, i + 2), brief(two));
    }
    out += runs.text();
  }
  expect_ids_as_reviewed("capture_corners_rejections.txt", out);
}

// OFA 2007-10 Rtr §2: the Rtr frame is there with the packet of its last octet.
TEST(CaptureCorners, AnRtrFrameInManyPackets) {
  for (const std::size_t piece : {1u, 3u, 6u, 7u, 10u, 19u, 20u}) {
    Exchange x;
    x.open().send(0, startup(MpaKey::req, C | S, 1)).send(1, startup(MpaKey::rep, C | S, 1));
    x.send(0, startup(MpaKey::rtr, 0, 1), piece);
    const std::size_t last = x.frames.size();
    x.send(0, fpdu(send_segment(1, 8))).send(1, fpdu(send_segment(1, 8))).close();
    const FileReport r = test::analyse(x.frames);
    ASSERT_TRUE(r.connections.at(0).rtr_frame) << piece;
    EXPECT_EQ(r.connections[0].rtr_frame->frame, last) << piece;
    EXPECT_EQ(r.connections[0].outcome, Outcome::established);
    EXPECT_EQ(r.count(Severity::error), 0U) << test::words(r);
  }
}

// RFC 5044 §7.1.2 rule 2: behind a rejection that the capture lacks, a second Request alone establishes nothing.
TEST(CaptureCorners, ASecondRequestBehindALostRejectionIsNotAnswered) {
  Exchange x;
  x.open().send(0, startup(MpaKey::req, C, 1)).send(1, startup(MpaKey::rep, C | R, 1));
  x.send(0, startup(MpaKey::req, C, 1)).acknowledge(1);
  x.frames.erase(x.frames.begin() + 4);
  const FileReport r = test::analyse(x.frames);
  ASSERT_FALSE(r.connections.empty());
  EXPECT_EQ(r.connections.back().outcome, Outcome::incomplete) << brief(r);
}

// What was handed out makes room for as much.
TEST(CaptureCorners, WhatWasHandedOutTakesNoRoom) {
  const auto listed = [](std::size_t room, bool handed_out) {
    Analyzer analyzer({.report_octets_max = room});
    for (const std::uint32_t isn : {1000u, 5'000'000u}) {
      std::size_t n = 0;  // the same numbers, so that both take the same room
      Exchange x(false, isn, isn + 77);
      x.set_up().send(0, fpdu(send_segment(1, 20))).close();
      for (const test::Frame& f : x.frames) {
        wire::CapturedPacket p;
        p.frame = ++n;
        p.at = f.at;
        p.link_type = 1;
        p.octets = f.octets;
        p.original_length = static_cast<std::uint32_t>(f.octets.size());
        analyzer.push(p);
      }
      if (handed_out && isn == 1000 && analyzer.take_ended(x.frames.back().at + std::chrono::hours(2)).size() != 1)
        return std::size_t{99};
    }
    return analyzer.finish().connections.size();
  };
  std::size_t room = 1;
  while (room < 100'000 && listed(room, false) == 0) ++room;
  ASSERT_EQ(listed(room, false), 1U) << "room for one";
  EXPECT_EQ(listed(room, true), 1U) << "and again for one";
}

// What a REJ carries takes room, too. A report without errors and warnings may use three quarters of it.
TEST(CaptureCorners, ThePrivateDataOfARejectTakesRoom) {
  const auto report = [](std::size_t data, std::size_t room) {
    test::RoceTalk t;
    wire::ib::CmRej rej = test::RoceTalk::rej(1, wire::ib::CmSubject::req, wire::ib::CmReject::consumer);
    std::fill_n(rej.private_data.begin(), data, std::uint8_t{0x5A});
    t.cm(0, t.req());
    t.cm(1, rej);
    return test::analyse(t.frames, {.report_octets_max = room});
  };
  const auto room_for = [&](std::size_t data) {
    std::size_t small = 0, enough = 1 << 20;
    while (small + 1 < enough) {
      const std::size_t room = (small + enough) / 2;
      (report(data, room).connections.empty() ? small : enough) = room;
    }
    return enough / 4 * 3;
  };
  const auto text_of = [&](std::size_t data) {
    return report(data, 1 << 20).connections.at(0).findings.at(0).text.size();
  };
  EXPECT_GE(room_for(148) + 16, room_for(20) + text_of(148) - text_of(20) + 128);
}

}  // namespace
}  // namespace parley::capture::corners_test
