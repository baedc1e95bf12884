// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Where numbers have an edge: lengths, silences, how many are kept and listed (tests/states/capture_edges*.txt).
#include <gtest/gtest.h>

#include "tests/unit/capture/runs.hpp"
#include "tests/unit/capture/stories.hpp"
#include "tests/unit/reviewed.hpp"

namespace parley::capture::edges_test {
namespace {

using std::chrono::milliseconds;
using test::brief;
using test::Exchange;
using test::expect_ids_as_reviewed;
using test::fpdu;
using test::Frames;
using test::Runs;
using test::send_segment;
using test::startup;
using wire::MpaKey;

constexpr std::uint8_t C = PARLEY_MPA_FLAG_C, M = PARLEY_MPA_FLAG_M, S = PARLEY_MPA_FLAG_S;

TEST(CaptureEdges, RequestsWithoutReply) {
  const std::pair<std::string, Bytes> requests[] = {
      {"revision 1", startup(MpaKey::req, C, 1)},
      {"256 octets of private data", startup(MpaKey::req, C, 1, {}, Bytes(256))},
      {"257 octets of private data", startup(MpaKey::req, C, 1, {}, Bytes(257))},
      {"revision 2", startup(MpaKey::req, C | S, 2, wire::MpaEnhanced{.ird = 1, .ord = 1})},
      {"revision 2, no enhanced data", startup(MpaKey::req, C | S, 2)},
      {"revision 0", startup(MpaKey::req, C | M, 0)},
      {"revision 3", startup(MpaKey::req, C, 3)},
      {"a Reply", startup(MpaKey::rep, C, 1)}};
  std::string out;
  for (const auto& [name, request] : requests)
    for (const std::size_t mss : {1460u, 30u}) {
      Runs runs;
      for (const std::string_view end : {"nothing", "FIN 0", "RST 0", "FIN 1", "RST 1", "FIN 0, FIN 1", "FIN 1, FIN 0",
                                         "RST 0, FIN 1", "FIN 1, RST 0"}) {
        Exchange x;
        x.open().send(0, request, mss).wait(milliseconds(1234));
        for (std::size_t at = 0; at + 4 < end.size(); at += 7) {
          const unsigned from = end[at + 4] == '0' ? 0 : 1;
          if (end != "nothing") end[at] == 'F' ? x.fin(from) : x.rst(from);
        }
        runs.add(std::string(end), brief(x.frames));
      }
      out += fmt::format("== {}, segments of {} ==\n", name, mss) + runs.text();
    }
  expect_ids_as_reviewed("capture_edges_unanswered.txt", out);
}

TEST(CaptureEdges, LengthsAndSilences) {
  std::string out;
  Runs big;
  for (std::size_t payload = 1410; payload < 1450; ++payload) {
    Exchange x;
    x.set_up()
        .send(0, fpdu(send_segment(1, payload)), 9000)
        .send(0, fpdu(send_segment(2, 1500)), 9000)
        .send(0, fpdu(send_segment(3, payload)), 9000);
    big.add(fmt::format("payload {}", payload),
            test::by_letters(brief(x.close().frames), {{'A', 20 + 1528 + 2 * fpdu(send_segment(1, payload)).size()},
                                                       {'N', fpdu(send_segment(1, payload)).size()}}));
  }
  out += "== FPDUs as long as a segment ==\n" + big.text();
  Runs silence;
  for (const int ms : {4990, 4994, 4996, 4998, 4999, 5000, 5001, 6000})
    for (const std::string_view end : {"nothing more", "FIN of the initiator", "FIN of the responder",
                                       "RST of the responder", "acknowledged late"}) {
      Exchange x;
      x.set_up().send(0, fpdu(send_segment(1, 4)));
      if (end != "acknowledged late") x.acknowledge(1);
      x.wait(milliseconds(ms));
      if (end.starts_with("FIN")) x.fin(end == "FIN of the initiator" ? 0 : 1);
      if (end.starts_with("RST")) x.rst(1);
      if (end.ends_with("late")) x.acknowledge(1);
      if (end == "nothing more") x.acknowledge(0);
      x.wait(milliseconds(9000)).acknowledge(0);
      silence.add(fmt::format("{} ms, {}", ms, end), brief(x.frames));
    }
  out += "== silence behind the first FPDU ==\n" + silence.text();
  Runs lengths;
  for (const std::uint32_t n : {0u, 1u, 13u, 14u, 17u, 18u, 64767u, 64768u, 64769u, 65535u}) {
    Bytes ulpdu = send_segment(1, 70000);
    ulpdu.resize(n);
    Bytes octets = fpdu(ulpdu);
    Exchange x;
    x.set_up().send(0, octets, 1460).send(0, fpdu(send_segment(2, 4)));
    lengths.add(fmt::format("ULPDU of {}", n), brief(x.close().frames));
  }
  out += "== lengths of a ULPDU ==\n" + lengths.text();
  expect_ids_as_reviewed("capture_edges.txt", out);
}

/// The frame with a timestamps option (RFC 7323 §3.2) behind its other options.
test::Frame with_timestamps(test::Frame f) {
  const std::size_t header = static_cast<std::size_t>(f.octets[46] >> 4) * 4;
  const Bytes option{1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2};
  f.octets.insert(f.octets.begin() + static_cast<std::ptrdiff_t>(34 + header), option.begin(), option.end());
  f.octets[46] = static_cast<std::uint8_t>(f.octets[46] + 0x30);
  const std::size_t total = f.octets.size() - 14;
  f.octets[16] = static_cast<std::uint8_t>(total >> 8), f.octets[17] = static_cast<std::uint8_t>(total);
  return f;
}

TEST(CaptureEdges, TimestampsLeaveTwelveOctetsLessInASegmentIfBothSidesSendThem) {  // RFC 7323 §3.2
  for (const unsigned who : {0u, 1u, 2u, 3u})
    for (std::size_t payload = 1420; payload < 1440; ++payload) {
      const Bytes f = fpdu(send_segment(1, payload));
      Exchange x;
      x.set_up().send(0, f, 9000).acknowledge(1).close();
      for (test::Frame& frame : x.frames) {
        const bool of_initiator = frame.octets[29] == 1;
        if ((who & (of_initiator ? 1u : 2u)) != 0) frame = with_timestamps(frame);
      }
      const bool too_long = f.size() + (who == 3 ? 12 : 0) > 1460;
      EXPECT_EQ(brief(x.frames).find("mpa.fpdu-size") != std::string::npos, too_long) << who << " " << f.size();
    }
}

// The first FPDUs that wait for a Reply are kept up to 256 KiB.
TEST(CaptureEdges, WhatWaitsForAReply) {
  Runs runs;
  for (const std::size_t fpdus : {1u, 2u, 150u, 170u, 171u, 172u, 173u, 174u, 200u}) {
    Exchange x;
    x.open().send(0, startup(MpaKey::req, C, 1));
    for (std::uint32_t i = 1; i <= fpdus; ++i) x.send(0, fpdu(send_segment(i, 1434)));
    x.send(1, startup(MpaKey::rep, C, 1)).send(0, fpdu(send_segment(static_cast<std::uint32_t>(fpdus) + 1, 8))).close();
    runs.add(fmt::format("{} FPDUs", fpdus), brief(x.frames));
  }
  expect_ids_as_reviewed("capture_edges_early.txt", runs.text());
}

TEST(CaptureEdges, APortThatCarriesMpaMayBeThatOfEitherEnd) {
  for (const bool swapped : {false, true})
    for (const std::uint16_t port : {std::uint16_t{40000}, std::uint16_t{9001}, std::uint16_t{9002}}) {
      Exchange x(swapped ? test::end_b(false) : test::end_a(false), swapped ? test::end_a(false) : test::end_b(false),
                 5, 6);
      x.open().send(0, startup(MpaKey::req, 0, 1)).send(1, startup(MpaKey::rep, 0, 1));
      for (std::uint32_t msn = 1; msn < 9; ++msn) x.send(0, fpdu(send_segment(msn, 200), 0, false, false));
      Frames late(x.frames.begin() + 5, x.frames.end());
      EXPECT_EQ(test::analyse(late, AnalyzerOptions{.mpa_ports = {port}}).connections.size(), port == 9002 ? 0u : 1u)
          << port;
    }
}

// What a packet was called is remembered for 65536 others.
TEST(CaptureEdges, OldIdentifiersOfPacketsAreForgotten) {
  constexpr std::uint64_t many = 1 << 16;
  Analyzer analyzer;
  const Bytes octets{1, 2, 3};
  std::uint64_t number = 0;
  const auto push = [&](std::uint64_t id, const Bytes& in, std::uint32_t interface = 0) {
    wire::CapturedPacket p;
    p.frame = ++number;
    p.interface = interface;
    p.link_type = 1;
    p.octets = in;
    p.original_length = 3;
    p.packet_id = id;
    analyzer.push(p);
  };
  for (std::uint64_t id = 0; id < many + 2; ++id) push(id, octets);  // 0 and 1 are forgotten
  push(2, octets);
  push(many + 1, Bytes{1, 2, 4}, 1);
  push(0, octets);  // takes the place of 2
  push(2, octets);
  push(5, octets);
  const FileReport r = analyzer.finish();
  EXPECT_EQ(r.copies, 3u);
  ASSERT_EQ(r.notes.size(), 2u);
  EXPECT_EQ(
      r.notes[0],
      "3 of 65543 packets show one again that was captured elsewhere (the same epb_packetid): each is judged once, as "
      "it was captured first");
  EXPECT_EQ(
      r.notes[1],
      "1 of those holds other octets than before: altered on the way, so that what answers them may look like a fault "
      "here");
}

TEST(CaptureEdges, WhatIsNotListedIsCounted) {
  std::string out;
  for (const std::size_t room : {0u, 30'000u, 60'000u, 1'000'000u}) {
    Analyzer analyzer({.report_octets_max = room});
    std::uint64_t number = 0;
    for (std::uint16_t i = 0; i < 30; ++i) {
      Address a = test::end_a(false);
      a.port = static_cast<std::uint16_t>(1000 + i);
      Exchange x(a, test::end_b(false), 5, 6);
      if (i % 5 == 0)
        x.open().send(0, startup(MpaKey::req, C, 1)).send(1, startup(MpaKey::rep, C | PARLEY_MPA_FLAG_R, 1)).close();
      if (i % 5 == 1) x.open().send(0, startup(MpaKey::req, C, 1)).rst(0);
      if (i % 5 == 2) x.open().send(0, startup(MpaKey::req, C, 1));
      if (i % 5 > 2) x.set_up().send(0, fpdu(send_segment(i % 5 == 3 ? 1 : 2, 8))).close();
      for (const test::Frame& f : x.frames) {
        wire::CapturedPacket p;
        p.frame = ++number;
        p.at = f.at;
        p.link_type = 1;
        p.octets = f.octets;
        p.original_length = static_cast<std::uint32_t>(f.octets.size());
        analyzer.push(p);
      }
    }
    const FileReport r = analyzer.finish();
    const bool none = r.connections.empty();
    out +=
        fmt::format("room for {}: {} of {} listed, {} errors, {} warnings, {} notes\n", room, none ? "none" : "some",
                    r.all_connections(), r.count(Severity::error), r.count(Severity::warning), r.count(Severity::note));
    if (none || room == 1'000'000)
      for (const std::string& n : r.notes) out += "  " + n + "\n";
  }
  expect_as_reviewed("capture_edges_listed.txt", out);
}

}  // namespace
}  // namespace parley::capture::edges_test
