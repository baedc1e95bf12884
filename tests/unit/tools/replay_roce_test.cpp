// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// RoCE recordings against Parley's own stack: every capture of Linux's rxe in both roles, with the reviewed list of differences beside
// them; captures of the simulator itself, without any; and one planted difference, found in its frame.
#include <gtest/gtest.h>

#include "replay/roce/roce_recording.hpp"
#include "tests/unit/capture/exchange.hpp"
#include "tests/unit/tools/replay_kit.hpp"
#include "tools/replay/replay_sim.hpp"

namespace parley::tools {
namespace {

using capture::Side;
using replay::RoceRecording;
using replay::RoceStep;

struct RocePlayed {
  std::string difference;  ///< "same", or the text; "cannot: ..." when nothing was played
  replay::PlayResult result;
  std::vector<std::string> events;
};

/// End-to-end flow control is left out: verbs cannot ask for it, and the captures' programs did.
replay::PlayOptions lenient() {
  replay::PlayOptions options;
  options.ignored.set(static_cast<std::size_t>(replay::Compared::flow_control));
  return options;
}

RocePlayed play(const RoceRecording& recording, Side side, const RoceRecording* program = nullptr) {
  if (const std::string why = why_not_playable(recording, side); !why.empty()) return {"cannot: " + why, {}, {}};
  const auto result = replay_in_simulator(recording, side, {.play = lenient()}, program);
  if (!result) return {"cannot: " + result.error().text, {}, {}};
  return {result->played.difference ? result->played.difference->what : "same", result->played, result->events};
}

std::string log_of(const RocePlayed& p) {
  std::string out;
  for (const auto& line : p.result.log)
    out += (line.played ? "played " : "live   ") + std::to_string(line.frame) + " " + line.text + "\n";
  for (const std::string& event : p.events) out += "Parley's side: " + event + "\n";
  return out;
}

Bytes roce_capture(const std::string& name) {
  return capture::test::read_file(std::string(PARLEY_SOURCE_DIR) + "/tests/captures/roce/" + name + ".pcap");
}

/// Those of a file whose set-up was captured.
std::vector<RoceRecording> recordings_of(const Bytes& file) {
  std::vector<RoceRecording> out;
  const replay::Contents contents = replay::list_connections(file);
  for (std::size_t n = 1; n <= contents.report.connections.size(); ++n) {
    const capture::ConnectionReport& c = contents.report.connections[n - 1];
    if (c.ib != nullptr && replay::set_up_captured(c)) out.push_back(read_roce_recording(file, contents, n));
  }
  return out;
}

TEST(ToolsReplayRoce, EveryCaptureOfRxeMeetsParleyWithTheReviewedDifferencesAndNoOther) {
  ReviewedDifferences reviewed("roce");
  for (const char* name : {"rxe61_cm", "rxe61_data", "rxe61_errors_loss", "rxe61_mra_mcast_ll",
                           "rxe61_sidr_stale_abort", "rxe61_unreachable"})
    for (const RoceRecording& recording : recordings_of(roce_capture(name)))
      for (const Side side : {Side::initiator, Side::responder}) {
        const RocePlayed p = play(recording, side);
        reviewed.played(name, recording.connection, side, p.difference, log_of(p));
      }
  reviewed.finish(60, 20);
}

TEST(ToolsReplayRoce, ACaptureOfTheSimulatorMeetsParleyWithoutDifferenceLossesAmongIt) {
  for (const char* name : {"roce_handshake", "roce_handshake_ipv6", "roce_data", "roce_lossy_set_up", "roce_lossy_data",
                           "roce_reject", "roce_jumbo"}) {
    const std::vector<RoceRecording> all = recordings_of(simulated(name, 1));
    ASSERT_FALSE(all.empty()) << name;
    for (std::size_t i = 0; i < std::min<std::size_t>(all.size(), 2); ++i)
      for (const Side side : {Side::initiator, Side::responder}) {
        const RocePlayed p = play(all[i], side);
        EXPECT_EQ(p.difference, "same") << name << " connection " << i + 1 << " " << capture::to_string(side) << "\n"
                                        << log_of(p);
        EXPECT_GT(p.result.compared, 0U) << name;
      }
  }
}

/// Changes what a packet says; false if nothing of it is compared.
bool change(RoceStep& step) {
  if (step.cm)
    return std::visit(
        [](auto& m) {
          using M = std::decay_t<decltype(m)>;
          if constexpr (std::is_same_v<M, wire::ib::CmReq>)
            m.rnr_retry_count ^= 1;
          else
            m.private_data.back() ^= 0x40;
          return true;
        },
        step.cm->body);
  wire::ib::Packet p = step.packet();
  if (p.payload.empty()) return false;
  step.octets[step.octets.size() - PARLEY_IB_ICRC_LEN - p.pad.size() - 1] ^= 0x40;
  return true;
}

TEST(ToolsReplayRoce, AChangedOctetOfTheRecordingIsTheFirstDifference) {
  const std::vector<RoceRecording> all = recordings_of(roce_capture("rxe61_cm"));
  ASSERT_FALSE(all.empty());
  const RoceRecording& clean = all.front();
  std::size_t found = 0;
  for (const Side side : {Side::initiator, Side::responder})
    for (std::size_t i = 0; i < clean.steps.size(); ++i) {
      if (clean.steps[i].from == side || clean.steps[i].again) continue;
      RoceRecording changed = clean;
      if (!change(changed.steps[i])) continue;
      const RocePlayed p = play(changed, side, &clean);
      ASSERT_TRUE(p.result.difference) << describe(clean.steps[i]) << "\n" << log_of(p);
      EXPECT_EQ(p.result.difference->recorded->frame, clean.steps[i].frame) << p.difference << "\n" << log_of(p);
      ++found;
    }
  EXPECT_GT(found, 10U);
}

TEST(ToolsReplayRoce, AFieldThatIsIgnoredIsToldAndDoesNotCount) {
  const std::vector<RoceRecording> all = recordings_of(roce_capture("rxe61_cm"));
  ASSERT_FALSE(all.empty());
  RoceRecording changed = all.front();
  for (RoceStep& step : changed.steps)
    if (step.cm && step.from == Side::responder)
      if (auto* rep = std::get_if<wire::ib::CmRep>(&step.cm->body)) rep->rnr_retry_count ^= 1;
  replay::PlayOptions options;
  options.ignored.set(static_cast<std::size_t>(replay::Compared::rnr_retry_count));
  const auto result = replay_in_simulator(changed, Side::initiator, {.play = options}, &all.front());
  ASSERT_TRUE(result);
  EXPECT_FALSE(result->played.difference) << result->played.difference->what;
  EXPECT_EQ(result->played.ignored, 1U);
}

}  // namespace
}  // namespace parley::tools
