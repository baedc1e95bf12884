// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// RoCE recordings played in virtual time: two players that face each other, and one that nobody answers.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <set>

#include "replay/roce/roce_player.hpp"
#include "tests/unit/capture/exchange.hpp"

namespace parley::replay::roce_player_test {
namespace {

using namespace std::chrono_literals;
using capture::Side;
using wire::ib::CmMessage;

const Address initiator_at = Address::v4(192, 0, 2, 1, 0), responder_at = Address::v4(192, 0, 2, 2, 7471);

/// The first connection of a capture of Linux's rxe, of its CM alone.
RoceRecording recorded() {
  const Bytes file = capture::test::read_file(std::string(PARLEY_SOURCE_DIR) + "/tests/captures/roce/rxe61_cm.pcap");
  const Contents contents = list_connections(file);
  for (std::size_t n = 1; n <= contents.report.connections.size(); ++n) {
    const capture::ConnectionReport& c = contents.report.connections[n - 1];
    if (c.ib != nullptr && set_up_captured(c)) return read_roce_recording(file, contents, n);
  }
  ADD_FAILURE() << "it has no connection";
  return {};
}

struct Sent {
  Instant at{};
  Bytes octets;
  CmMessage message() const {
    Bytes whole = octets;
    whole.resize(octets.size() + PARLEY_IB_ICRC_LEN);
    return *CmMessage::parse(wire::ib::Packet::parse(whole)->payload);
  }
};

/// Players and what is between them.
class Duel {
 public:
  Duel(RocePlayer* initiator, RocePlayer* responder) : ends_{initiator, responder} {}

  /// Until all are done; false if that never happens.
  bool run() {
    for (RocePlayer* p : ends_)
      if (p != nullptr) p->start(now_);
    for (int turns = 0; turns < 1'000'000; ++turns) {
      const bool there = carry(0), back = carry(1);
      bool over = true;
      Instant next = never;
      for (RocePlayer* p : ends_) {
        if (p == nullptr) continue;
        over = over && p->done();
        next = std::min(next, p->machine().next_deadline());
      }
      if (over) return true;
      if (there || back) continue;
      if (next == never) return false;
      now_ = std::max(now_, next);
      for (RocePlayer* p : ends_)
        if (p != nullptr) p->machine().handle_deadline(now_);
    }
    return false;
  }
  std::vector<Sent> sent;  ///< by the initiator

 private:
  bool carry(std::size_t from) {
    if (ends_[from] == nullptr) return false;
    tester::PacketPeer& peer = ends_[from]->machine();
    const Address own = from == 0 ? initiator_at : responder_at, other = from == 0 ? responder_at : initiator_at;
    bool any = false;
    for (PacketCommand command; peer.poll_command(command); any = true)
      if (command.kind == PacketCommand::Kind::bind) peer.handle_bound(now_, command.id, own);
    std::array<std::uint8_t, PacketMachine::packet_max + PARLEY_IB_ICRC_LEN> out{};
    PacketPath path;
    while (const std::size_t size = peer.poll_packet(now_, path, out)) {
      any = true;
      if (from == 0) sent.push_back({now_, Bytes(out.begin(), out.begin() + static_cast<std::ptrdiff_t>(size))});
      now_ += 10us;
      if (RocePlayer* to = ends_[1 - from])
        to->machine().handle_packet(now_, {.local = other, .peer = own},
                                    ConstBytes(out).first(size + PARLEY_IB_ICRC_LEN));
    }
    return any;
  }

  std::array<RocePlayer*, 2> ends_;
  Instant now_{1s};
};

std::string log_of(const PlayResult& result) {
  std::string out;
  for (const LogLine& line : result.log)
    out += fmt::format("{} {}: {}\n", line.played ? "played" : "live", line.frame, line.text);
  if (result.difference) out += "DIFFERENCE: " + result.difference->what + "\n";
  return out;
}

TEST(ReplayRocePlayer, BothSidesOfARecordingMeetWithoutDifference) {
  const RoceRecording recording = recorded();
  RocePlayer a(recording, Side::initiator, {}, {.where = responder_at, .seed = 1}),
      b(recording, Side::responder, {}, {.where = responder_at, .seed = 2});
  ASSERT_TRUE(Duel(&a, &b).run());
  EXPECT_FALSE(a.result().difference) << log_of(a.result());
  EXPECT_FALSE(b.result().difference) << log_of(b.result());
  EXPECT_GT(a.result().compared, 1U);
  EXPECT_GT(b.result().compared, 1U);
}

TEST(ReplayRocePlayer, WhatComesBehindTheLastRecordedPacketIsADifference) {
  const RoceRecording whole = recorded();
  RoceRecording shorter = whole;
  while (shorter.steps.back().from == Side::initiator || shorter.steps.back().again) shorter.steps.pop_back();
  const std::string last = describe(shorter.steps.back());
  shorter.steps.pop_back();
  RocePlayer a(shorter, Side::initiator, {}, {.where = responder_at, .seed = 1}),
      b(whole, Side::responder, {}, {.where = responder_at, .seed = 2});
  ASSERT_TRUE(Duel(&a, &b).run());
  ASSERT_TRUE(a.result().difference) << log_of(a.result());
  EXPECT_EQ(a.result().difference->what.find("the live side sent " + last.substr(0, last.find(' '))), 0U)
      << a.result().difference->what;
  EXPECT_NE(a.result().difference->what.find("which is not in the recording"), std::string::npos);
}

// A capture may have lost the REQ, or have it behind its answer.
TEST(ReplayRocePlayer, AResponderIsNotPlayedWithoutTheReqThatItAnswers) {
  const RoceRecording whole = recorded();
  ASSERT_EQ(why_not_playable(whole, Side::responder), "");
  ASSERT_EQ(whole.steps[0].from, Side::initiator);
  ASSERT_EQ(whole.steps[1].from, Side::responder);
  RoceRecording lacking = whole, late = whole;
  lacking.steps.erase(lacking.steps.begin());
  std::swap(late.steps[0], late.steps[1]);
  for (const RoceRecording* recording : {&lacking, &late})
    EXPECT_NE(why_not_playable(*recording, Side::responder).find("the REQ is not in the recording before its answer"),
              std::string::npos);
}

// A peer remembers the IDs of a connection that is over.
TEST(ReplayRocePlayer, EachRunHasIdsOfItsOwn) {
  const RoceRecording recording = recorded();
  std::set<std::uint32_t> ids;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    RocePlayer a(recording, Side::initiator, {}, {.where = responder_at, .seed = seed});
    Duel duel(&a, nullptr);
    ASSERT_TRUE(duel.run());
    ASSERT_FALSE(duel.sent.empty());
    const CmMessage first = duel.sent.front().message();
    const auto* req = std::get_if<wire::ib::CmReq>(&first.body);
    ASSERT_NE(req, nullptr);
    EXPECT_NE(req->local_comm_id, 0U);
    ids.insert(req->local_comm_id);
  }
  EXPECT_EQ(ids.size(), 20U);
}

// IBA §12.9: a peer has seconds to answer a REQ.
TEST(ReplayRocePlayer, ARequestWithoutAnswerGoesAgainAfterSeconds) {
  const RoceRecording recording = recorded();
  PlayOptions options;
  options.patience = 60s;
  RocePlayer a(recording, Side::initiator, options, {.where = responder_at, .seed = 1});
  Duel duel(&a, nullptr);
  ASSERT_TRUE(duel.run());
  ASSERT_TRUE(a.result().difference);
  ASSERT_EQ(duel.sent.size(), 2U) << "the one that is played, and one more";
  EXPECT_EQ(duel.sent[1].octets, duel.sent[0].octets);
  const Duration between = duel.sent[1].at - duel.sent[0].at;
  EXPECT_GE(between, 4s);
  EXPECT_LT(between, 5s);
}

}  // namespace
}  // namespace parley::replay::roce_player_test
