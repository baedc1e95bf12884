// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Captures as they come: truncated, cut by the snap length, with packets lost, of one direction alone, foreign.
#include <fmt/format.h>

#include "capture/link_type.hpp"
#include "kit.hpp"

namespace parley::replay::test {
namespace {

using capture::test::capture_path;
using capture::test::conversation;
using capture::test::fpdu;
using capture::test::read_file;
using capture::test::send_segment;

Frames only(const Frames& frames, const Address& source) {
  Frames out;
  for (const auto& f : frames) {
    const auto v = wire::parse_packet(1, f.octets, static_cast<std::uint32_t>(f.octets.size()));
    if (v.tcp.source == source) out.push_back(f);
  }
  return out;
}

TEST(ReplayRecording, ACaptureTruncatedAnywhereIsPlayedAsFarAsItGoesOrRefusedInWords) {
  const Bytes whole = read_file(capture_path("made_01_v1_nomarker"));
  const Recording full = record(whole);
  std::size_t refused = 0, played = 0;
  for (std::size_t size = 0; size < whole.size(); ++size) {
    const auto r = read_recording(ConstBytes(whole).first(size), 0);
    if (!r) {
      EXPECT_FALSE(r.error().empty());
      ++refused;
      continue;
    }
    for (const Side side : {Side::initiator, Side::responder}) {
      if (const std::string why = why_not_playable(*r, side); !why.empty()) {
        ++refused;
        continue;
      }
      const Outcome out = side == Side::initiator ? play(*r, full) : play(full, *r);
      ASSERT_TRUE(out.over) << size << " " << out.words();
      const PlayResult& result = side == Side::initiator ? out.initiator : out.responder;
      EXPECT_FALSE(result.difference) << size << "\n" << out.words();
      ++played;
    }
  }
  EXPECT_GT(refused, 100U);
  EXPECT_GT(played, 1000U);
}

TEST(ReplayRecording, ADamagedCaptureIsPlayedOrRefusedAndAlwaysEnds) {
  std::uint64_t state = 0x9E3779B97F4A7C15ULL;
  const auto next = [&state] {
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return state;
  };
  std::size_t played = 0;
  for (const char* name : {"made_02_markers_both_one_per_seg", "made_12_v2_rtr_read", "siw_v1"}) {
    const Bytes whole = read_file(capture_path(name));
    const Recording full = record(whole, 1);
    for (int round = 0; round < 300; ++round) {
      Bytes damaged = whole;
      for (std::uint64_t flips = 1 + next() % 8; flips > 0; --flips)
        damaged[24 + next() % (damaged.size() - 24)] ^= static_cast<std::uint8_t>(1 + next() % 255);
      const auto r = read_recording(damaged, 1);
      if (!r) continue;
      for (const Side side : {Side::initiator, Side::responder}) {
        if (!why_not_playable(*r, side).empty()) continue;
        const Outcome out = side == Side::initiator ? play(*r, full) : play(full, *r);
        ASSERT_TRUE(out.over) << name << " round " << round << "\n" << out.words();
        ++played;
      }
    }
  }
  EXPECT_GT(played, 500U);
}

TEST(ReplayRecording, OneDirectionAloneIsPlayedAndItsPeerShown) {
  for (const bool markers : {false, true}) {
    const Exchange x = conversation(false, markers);
    const Recording full = record(x);
    for (const Side side : {Side::initiator, Side::responder}) {
      const Address& source = full.side(side).address;
      const Recording half = record(file_of(only(x.frames, source)));
      ASSERT_TRUE(half.side(side).seen);
      EXPECT_FALSE(half.side(capture::other(side)).seen);
      EXPECT_EQ(why_not_playable(half, side), "");
      EXPECT_NE(why_not_playable(half, capture::other(side)).find("nothing of the"), std::string::npos);
      EXPECT_EQ(half.side(side).steps.size(), full.side(side).steps.size());
      const Outcome out = side == Side::initiator ? play(half, full) : play(full, half);
      EXPECT_TRUE(out.same()) << out.words();
      const PlayResult& result = side == Side::initiator ? out.initiator : out.responder;
      EXPECT_EQ(result.compared, 0U);
      EXPECT_GT(result.not_compared, 5U);
      EXPECT_EQ(result.steps_played, result.steps);
    }
  }
}

TEST(ReplayRecording, OctetsCutByTheSnapLengthArePlayedAsZerosAndTold) {
  Exchange x;
  x.set_up().send(0, fpdu(send_segment(1, 700))).send(1, fpdu(send_segment(1, 700))).close();
  Frames cut = x.frames;
  for (auto& f : cut) {
    f.original_length = static_cast<std::uint32_t>(f.octets.size());
    if (f.octets.size() > 128) f.octets.resize(128);
  }
  const Recording full = record(x), part = record(file_of(cut));
  PlayOptions on;
  on.keep_going = true;
  Player a(part, Side::initiator, {}), b(full, Side::responder, on);
  Duel duel(a, b);
  ASSERT_TRUE(duel.run());
  EXPECT_TRUE(a.result().partial);
  EXPECT_NE(words(a.result()).find("are not in the recording; zeros are played"), std::string::npos)
      << words(a.result());
  EXPECT_FALSE(a.result().difference) << "what was cut is not compared: " << words(a.result());
  ASSERT_TRUE(b.result().difference) << "the zeros are seen by whoever knows better";
  EXPECT_NE(b.result().difference->what.find("live 00"), std::string::npos) << b.result().difference->what;
}

TEST(ReplayRecording, APacketThatTheCaptureLacksIsLeftOutAndWhatFollowsIsNumberedAnew) {
  Exchange x;
  x.set_up();
  for (std::uint32_t msn = 1; msn <= 3; ++msn)
    x.send(0, fpdu(send_segment(msn, 40))).send(1, fpdu(send_segment(msn, 40)));
  x.close();
  Frames lossy = x.frames;
  lossy.erase(lossy.begin() + 7);  // the second Send of the initiator
  const Recording r = record(file_of(lossy));
  Player a(r, Side::initiator, {}), b(r, Side::responder, {});
  Duel duel(a, b);
  ASSERT_TRUE(duel.run());
  EXPECT_TRUE(a.result().partial);
  EXPECT_NE(words(a.result()).find("are not in the recording and are not played"), std::string::npos)
      << words(a.result());
}

TEST(ReplayRecording, RetransmissionsAndDisorderAreNoStepsOfTheirOwn) {
  Exchange x = conversation();
  Frames f = x.frames;
  f.insert(f.begin() + 8, f[6]);
  std::swap(f[10], f[11]);
  const Recording straight = record(x), crooked = record(file_of(f));
  EXPECT_EQ(straight.side(Side::initiator).steps.size(), crooked.side(Side::initiator).steps.size());
  EXPECT_EQ(straight.side(Side::responder).items.size(), crooked.side(Side::responder).items.size());
  const Outcome out = play(crooked, straight);
  EXPECT_TRUE(out.same()) << out.words();
}

TEST(ReplayRecording, WhatIsNoRecordingIsRefusedInOneLine) {
  EXPECT_NE(read_recording({}, 0).error(), "");
  const Bytes text{'n', 'o', ' ', 'c', 'a', 'p', 't', 'u', 'r', 'e'};
  EXPECT_NE(read_recording(text, 0).error(), "");
  Exchange http;
  http.open().send(0, Bytes{'G', 'E', 'T', ' ', '/', '\r', '\n'}).close();
  EXPECT_NE(read_recording(file_of(http.frames), 0).error().find("no MPA connection"), std::string::npos);
  const Bytes many = read_file(capture_path("siw_probe_startup"));
  EXPECT_NE(read_recording(many, 0).error().find("choose one with --connection"), std::string::npos);
  EXPECT_NE(read_recording(many, 1000).error().find("there is no connection 1000"), std::string::npos);
}

TEST(ReplayRecording, OfSeveralConnectionsTheOnlyPlayableOneIsChosenOtherwiseTheUserChooses) {
  Frames frames;
  auto add = [&frames, port = std::uint16_t{40000}](bool with_reply) mutable {
    Address from = capture::test::end_a(false);
    from.port = port++;
    Exchange x(from, capture::test::end_b(false), 1000, 2000);
    x.open();
    const Bytes octets = fpdu(send_segment(1, 40));
    if (with_reply)
      x.send(0, capture::test::startup(wire::MpaKey::req, PARLEY_MPA_FLAG_C, 1))
          .send(1, capture::test::startup(wire::MpaKey::rep, PARLEY_MPA_FLAG_C, 1));
    for (std::uint32_t msn = 1; msn < 4; ++msn) x.send(0, fpdu(send_segment(msn, 40))).send(1, octets);
    x.close();
    if (!with_reply) x.frames.erase(x.frames.begin(), x.frames.begin() + 3);
    frames.insert(frames.end(), x.frames.begin(), x.frames.end());
  };
  const auto why = [&frames] {
    const auto r = read_recording(file_of(frames), 0);
    return r ? "connection " + std::to_string(r->connection) : r.error();
  };
  add(true);
  EXPECT_EQ(why(), "connection 1");
  add(true);
  EXPECT_EQ(why(), "2 MPA connections in it: choose one with --connection 1 to 2");
  add(false);
  EXPECT_EQ(why(),
            "3 MPA connections in it, 2 of which can be played (see --list): choose one with --connection 1 to 3");
  frames.clear();
  add(false);
  add(false);
  EXPECT_EQ(why(), "2 MPA connections in it, none with a captured handshake: none can be played");
  add(true);
  EXPECT_EQ(why(), "connection 3");
}

TEST(ReplayRecording, ConnectionsAreCountedByWhatTheyAre) {
  const Bytes of_roce = read_file(std::string(PARLEY_SOURCE_DIR) + "/tests/captures/roce/rxe61_cm.pcap");
  const std::size_t all = list_connections(of_roce).report.connections.size();
  ASSERT_GT(all, 1U);
  const auto file = [&](std::size_t mpa, bool roce) {
    Bytes out;
    wire::PcapWriter writer(out, 1);
    for (std::size_t i = 0; i < mpa; ++i) {
      Address from = capture::test::end_a(false);
      from.port = static_cast<std::uint16_t>(40000 + i);
      Exchange x(from, capture::test::end_b(false), 1000, 2000);
      x.set_up().send(0, fpdu(send_segment(1, 40))).close();
      for (const auto& f : x.frames) writer.packet(f.at, f.octets, f.original_length);
    }
    if (roce)
      (void)wire::read_capture(
          of_roce, [&](const wire::CapturedPacket& p) { writer.packet(p.at, p.octets, p.original_length); });
    return out;
  };
  const auto refusal = [](const Bytes& of, std::size_t number) {
    const auto r = read_recording(of, number);
    return r ? "none" : r.error();
  };
  EXPECT_EQ(refusal(file(1, false), 2), "there is no connection 2: 1 MPA connection in it");
  EXPECT_EQ(refusal(file(2, false), 3), "there is no connection 3: 2 MPA connections in it");
  EXPECT_EQ(refusal(of_roce, 1000), fmt::format("there is no connection 1000: {} RoCE connections in it", all));
  EXPECT_EQ(refusal(file(2, true), 1000),
            fmt::format("there is no connection 1000: {} connections of MPA and RoCE in it", all + 2));
  EXPECT_EQ(refusal(of_roce, all), fmt::format("connection {} is one of RoCE", all));
}

TEST(ReplayRecording, WhatACaptureHoldsInPlaceOfAConnectionIsSaid) {
  const auto why = [](std::uint16_t link_type, std::size_t snap) {
    Exchange x;
    x.open().send(0, Bytes{'G', 'E', 'T', ' ', '/', '\r', '\n'});
    Bytes file;
    wire::PcapWriter writer(file, link_type);
    for (const auto& f : x.frames)
      writer.packet(f.at, ConstBytes(f.octets).first(std::min(snap, f.octets.size())),
                    static_cast<std::uint32_t>(f.octets.size()));
    return list_connections(file).why_empty();
  };
  EXPECT_EQ(why(1, 2000),
            "no MPA connection in it (4 packets, 4 of TCP): its Request or Reply has to be in the recording");
  EXPECT_EQ(
      why(1, 56),
      "no MPA connection in it (4 packets, 4 of TCP, 3 cut by the snap length): its Request or Reply has to be in "
      "the recording");
  EXPECT_EQ(why(999, 2000), capture::link_type_refusal(999));
  Bytes none;
  const wire::PcapWriter empty(none, 1);
  EXPECT_EQ(list_connections(none).why_empty(),
            "no MPA connection in it (0 packets, 0 of TCP): its Request or Reply has to be in the recording");
  Bytes one;
  wire::PcapWriter writer(one, 999);
  writer.packet(Instant(1s), Bytes(60, 0), 60);
  EXPECT_EQ(list_connections(one).why_empty(), capture::link_type_refusal(999)) << "a single packet";
  EXPECT_EQ(list_connections(file_of(conversation().frames)).why_empty(), "");
}

TEST(ReplayRecording, ACaptureWithoutTheSetUpCannotBePlayed) {
  const Exchange x = conversation();
  Frames late(x.frames.begin() + 4, x.frames.end());  // without Request
  const auto r = read_recording(file_of(late), 0);
  ASSERT_TRUE(r) << r.error();
  EXPECT_NE(why_not_playable(*r, Side::initiator).find("the Request is not in the recording"), std::string::npos);
}

/// Only its beginning is not known: what it said later is compared.
TEST(ReplayRecording, OfASideWhoseSetUpTheCaptureLacksTheMessagesAreFound) {
  Exchange x;
  x.set_up();
  for (std::uint32_t msn = 1; msn <= 3; ++msn)
    x.send(0, fpdu(send_segment(msn, 40))).send(1, fpdu(send_segment(msn, 40)));
  x.close();
  const Frames late(x.frames.begin() + 4, x.frames.end());  // without Request
  const Recording part = record(file_of(late));
  std::string kinds;
  for (const Step& step : part.side(Side::initiator).steps) kinds += std::string(to_string(step.kind)) + "; ";
  EXPECT_EQ(kinds, "octets that are not in the recording; FPDU; FPDU; FPDU; FIN; ");
  const Outcome out = play(record(x), part);
  EXPECT_TRUE(out.same()) << out.words();
  EXPECT_GE(out.responder.compared, 3U) << out.words();
}

}  // namespace
}  // namespace parley::replay::test
