// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Recordings against Parley's own stack: every capture of the repository in both roles, with the reviewed list of
// differences beside them; captures of the simulator itself, with losses, without any difference.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>

#include "replay/recording.hpp"
#include "tests/unit/capture/exchange.hpp"
#include "tests/unit/replay/atomics.hpp"
#include "tests/unit/tools/replay_kit.hpp"
#include "tools/replay/replay_sim.hpp"

namespace parley::tools {
namespace {

using capture::Side;
using capture::test::capture_names;
using capture::test::capture_path;
using capture::test::read_file;

struct Played {
  std::string difference;  ///< "same", or the text; "cannot: ..." when nothing was played
  replay::PlayResult result;
};

Played play(const replay::Recording& recording, Side side, const std::string& quirk = {}) {
  if (const std::string why = why_not_playable(recording, side); !why.empty()) return {"cannot: " + why, {}};
  const auto result = replay_in_simulator(recording, side, {.play = {}, .quirk = quirk, .pcapng = {}});
  if (!result) return {"cannot: " + result.error().text, {}};
  return {result->played.difference ? result->played.difference->what : "same", result->played};
}

std::string log_of(const Played& p) {
  std::string out;
  for (const auto& line : p.result.log) out += (line.played ? "played " : "live ") + line.text + "\n";
  return out;
}

TEST(ToolsReplay, EveryCaptureMeetsParleyWithTheReviewedDifferencesAndNoOther) {
  ReviewedDifferences reviewed("iwarp");
  EXPECT_GT(reviewed.size(), 50U);
  for (const std::string& name : capture_names()) {
    const Bytes file = read_file(capture_path(name));
    const std::size_t count = replay::list_connections(file).report.connections.size();
    ASSERT_GT(count, 0U) << name;
    for (std::size_t n = 1; n <= count; ++n) {
      const auto recording = replay::read_recording(file, n);
      ASSERT_TRUE(recording) << recording.error();
      for (const Side side : {Side::initiator, Side::responder}) {
        const Played p = play(*recording, side);
        reviewed.played(name, n, side, p.difference, log_of(p));
      }
    }
  }
  reviewed.finish(200, 100);
}

TEST(ToolsReplay, RpingOfLinuxGoesThroughInBothRolesToItsEnd) {
  for (const char* name : {"siw_v1", "siw_v2_crc", "siw_v2_p2p_write_rtr"}) {
    const auto recording = replay::read_recording(read_file(capture_path(name)), 1);
    ASSERT_TRUE(recording);
    for (const Side side : {Side::initiator, Side::responder}) {
      const Played p = play(*recording, side);
      EXPECT_EQ(p.difference, "same") << log_of(p);
      EXPECT_EQ(p.result.steps_played, p.result.steps) << name;
      EXPECT_EQ(p.result.compared, p.result.expected) << name;
      EXPECT_FALSE(p.result.partial);
    }
  }
}

TEST(ToolsReplay, ACaptureOfTheSimulatorMeetsParleyWithoutDifferenceLossesAmongIt) {
  for (const char* name : {"handshake_v1_classic", "handshake_v1_rtr_frame", "handshake_v1_read", "handshake_v2_read",
                           "handshake_v2_send", "handshake_v2_write", "handshake_v2_all_forms", "lossy_handshake",
                           "lossy_marker_stream", "drop_reply", "drop_rtr", "drop_fin", "rdma_writes_and_reads",
                           "reject_with_private_data", "private_data_full", "ipv6", "simultaneous_close"})
    for (std::uint64_t seed = 1; seed <= 2; ++seed) {
      const Bytes file = simulated(name, seed);
      const std::size_t count = std::min<std::size_t>(replay::list_connections(file).report.connections.size(), 3);
      ASSERT_GT(count, 0U) << name;
      for (std::size_t n = 1; n <= count; ++n) {
        const auto recording = replay::read_recording(file, n);
        ASSERT_TRUE(recording) << recording.error();
        for (const Side side : {Side::initiator, Side::responder}) {
          const Played p = play(*recording, side);
          EXPECT_EQ(p.difference, "same") << name << " seed " << seed << " connection " << n << "\n" << log_of(p);
          EXPECT_GT(p.result.compared, 0U) << name;
        }
      }
    }
}

TEST(ToolsReplay, AQuirkThatIsPlayedAnswersItsOwnRecordings) {
  for (const auto& [name, quirk] : {std::pair{"quirk_siw", "siw"}, std::pair{"quirk_no_fence", "no-fence"},
                                    std::pair{"quirk_echo_reserved", "echo-reserved"}}) {
    const auto recording = replay::read_recording(simulated(name, 1), 1);
    ASSERT_TRUE(recording) << recording.error();
    EXPECT_EQ(play(*recording, Side::initiator, quirk).difference, "same") << name;
  }
  // And Parley itself does not answer as siw does.
  const auto siw = replay::read_recording(simulated("quirk_siw", 1), 1);
  EXPECT_NE(play(*siw, Side::initiator).difference, "same");
}

TEST(ToolsReplay, AChangedOctetOfTheRecordingIsTheFirstDifference) {
  const auto clean = replay::read_recording(read_file(capture_path("siw_v2_crc")), 1);
  ASSERT_TRUE(clean);
  std::size_t found = 0;
  for (const Side side : {Side::initiator, Side::responder}) {
    const Side other = capture::other(side);
    for (std::size_t i = 0; i < clean->side(other).items.size(); ++i) {
      replay::Recording changed = *clean;
      replay::Item& victim = changed.side(other).items[i];
      if (victim.startup)
        victim.startup->flags ^= PARLEY_MPA_FLAG_M;
      else if (victim.is(wire::RdmapOpcode::read_request))
        victim.payload[15] ^= 0x40;  // the length that is asked for
      else if (!victim.payload.empty())
        victim.payload.back() ^= 0x40;
      else
        continue;
      const auto result = replay_in_simulator(changed, side, {}, &*clean);
      ASSERT_TRUE(result);
      ASSERT_TRUE(result->played.difference) << describe(victim);
      ASSERT_TRUE(result->played.difference->recorded && result->played.difference->live);
      EXPECT_EQ(result->played.difference->recorded->frame, victim.last.frame) << describe(victim);
      ++found;
    }
  }
  EXPECT_GT(found, 10U);
}

TEST(ToolsReplay, ATruncatedCaptureNeverEndsInAnythingButAResult) {
  const Bytes whole = read_file(capture_path("made_12_v2_rtr_read"));
  std::size_t played = 0;
  for (std::size_t size = 0; size < whole.size(); size += 3) {
    const auto recording = replay::read_recording(ConstBytes(whole).first(size), 0);
    if (!recording) {
      EXPECT_FALSE(recording.error().empty());
      continue;
    }
    for (const Side side : {Side::initiator, Side::responder}) {
      const Played p = play(*recording, side);
      if (p.difference.starts_with("cannot: ")) continue;
      EXPECT_EQ(p.difference, "same") << size << "\n" << log_of(p);
      ++played;
    }
  }
  EXPECT_GT(played, 100U);
}

TEST(ToolsReplay, AtomicsAndImmediateDataMeetParleyWithoutDifferenceInBothRoles) {
  Bytes file;
  wire::PcapWriter writer(file, 1);
  for (const auto& f : replay::test::atomics(0x1111, 0x10000, 1, 100).frames)
    writer.packet(f.at, f.octets, f.original_length);
  const auto recording = replay::read_recording(file, 1);
  ASSERT_TRUE(recording) << recording.error();
  for (const Side side : {Side::initiator, Side::responder}) {
    const Played p = play(*recording, side);
    EXPECT_EQ(p.difference, "same") << log_of(p);
    EXPECT_EQ(p.result.compared, p.result.expected) << log_of(p);
    EXPECT_EQ(p.result.steps_played, p.result.steps);
  }
}

/// The capture without some packets, or with their heads alone.
Bytes changed_file(ConstBytes file, const std::function<bool(wire::CapturedPacket&)>& keep) {
  Bytes out;
  wire::PcapWriter writer(out, 1);
  (void)wire::read_capture(file, [&](const wire::CapturedPacket& p) {
    wire::CapturedPacket copy = p;
    if (keep(copy)) writer.packet(copy.at, copy.octets, copy.original_length);
  });
  return out;
}

TEST(ToolsReplay, WhatACaptureOfRpingLacksIsNoDifferenceToParley) {
  const Bytes whole = read_file(capture_path("siw_v2_crc"));
  const auto full = replay::read_recording(whole, 1);
  ASSERT_TRUE(full);
  std::size_t played = 0;
  const auto same_in_both_roles = [&](ConstBytes file, const std::string& what) {
    const auto recording = replay::read_recording(file, 1);
    if (!recording) return;
    for (const Side side : {Side::initiator, Side::responder}) {
      const Played p = play(*recording, side);
      if (p.difference.starts_with("cannot: ")) continue;
      EXPECT_EQ(p.difference, "same") << what << " " << capture::to_string(side) << "\n" << log_of(p);
      EXPECT_TRUE(p.result.partial || recording->lacks.empty()) << what;
      // It goes on behind what is lost. Without a startup frame, the two sides agreed on what nobody knows.
      if (recording->report.request && recording->report.reply) {
        EXPECT_GE(p.result.compared * 2, p.result.expected) << what << " " << capture::to_string(side) << "\n"
                                                            << log_of(p);
      }
      ++played;
    }
  };
  for (std::uint64_t lost = full->report.first_frame + 5; lost <= full->report.last_frame; ++lost)
    for (const std::uint64_t many : {1U, 3U})
      same_in_both_roles(
          changed_file(whole, [&](const wire::CapturedPacket& p) { return p.frame < lost || p.frame >= lost + many; }),
          "without " + std::to_string(many) + " from " + std::to_string(lost));
  for (std::size_t octets = 80; octets < 180; octets += 3)
    same_in_both_roles(changed_file(whole,
                                    [&](wire::CapturedPacket& p) {
                                      p.octets = p.octets.first(std::min(p.octets.size(), octets));
                                      return true;
                                    }),
                       "snap length " + std::to_string(octets));
  EXPECT_GT(played, 100U);
}

TEST(ToolsReplay, MemoryThatASmallCaptureNamesIsRefusedBeforeAnyOfItIsTaken) {
  capture::test::Exchange x;
  x.set_up();
  for (std::uint32_t n = 1; n <= 8; ++n)
    x.send(0, capture::test::fpdu(capture::test::read_request(n, {0x2222, 0x7000, 200 << 20, n, ~0ULL - (300 << 20)})));
  Bytes file;
  wire::PcapWriter writer(file, 1);
  for (const auto& f : x.frames) writer.packet(f.at, f.octets, f.original_length);
  const auto recording = replay::read_recording(file, 1);
  ASSERT_TRUE(recording) << recording.error();
  const auto most = [] {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss;  // KiB
  };
  const long before = most();
  EXPECT_EQ(play(*recording, Side::initiator).difference,
            "cannot: what the recorded responder moved needs 1600 MiB of memory in the simulator; 256 are given");
  EXPECT_LT(most() - before, 200 << 10);
}

TEST(ToolsReplay, AReadRequestThatWasSentTooShortIsNotMadeUpByTheProgram) {
  capture::test::Exchange x;
  wire::DdpHeader h;
  h.opcode = wire::RdmapOpcode::read_request;
  h.qn = 1;
  h.msn = 1;
  x.set_up().send(0, capture::test::fpdu(capture::test::segment(h, Bytes(PARLEY_RDMAP_READ_REQUEST_LEN - 1, 0x11))));
  x.close();
  Bytes file;
  wire::PcapWriter writer(file, 1);
  for (const auto& f : x.frames) writer.packet(f.at, f.octets, f.original_length);
  const auto recording = replay::read_recording(file, 1);
  ASSERT_TRUE(recording) << recording.error();
  const Played p = play(*recording, Side::responder);
  ASSERT_TRUE(p.result.difference) << log_of(p);
  EXPECT_EQ(p.result.difference->recorded->words.find("RDMA Read Request"), 0U) << p.result.difference->recorded->words;
  EXPECT_TRUE(p.result.difference->live->octets.empty()) << "a Read of what nobody named: " << log_of(p);
}

}  // namespace
}  // namespace parley::tools
