// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// ACKs of short messages that wait for one another (DeviceOptions::ack_delay): what leaves when, and what does not wait.
#include "roce_solo.hpp"

namespace parley::nic::roce::test::roce_ack_delay_test {
namespace {

DeviceOptions waiting(std::uint8_t last) {
  DeviceOptions options = Side::options(last);
  options.ack_delay = 50us;
  return options;
}

/// A sends; what B says is told, with the time that it has waited behind the first packet's arrival.
struct Waiting : World {
  Waiting() : World(Side::options(1), waiting(2)) {
    connect();
    from.fill(1);
    filter = [this](std::size_t, const Frame& frame) {
      if (!frame.to_b) tell(frame.parsed());
      return true;
    };
  }
  void tell(const wire::ib::Packet& packet) {
    const auto waited = std::chrono::duration_cast<std::chrono::microseconds>(now - Instant{} - latency);
    said.push_back(fmt::format("{} after {} us", answer_text(packet), waited.count()));
  }
  void send(std::size_t size = 64, bool received = true) {
    if (received) {
      ASSERT_TRUE(b.recv(posted, {to.sge(0, 1024)}));
    }
    ASSERT_TRUE(a.send(posted++, {from.sge(0, size)}));
  }
  void read() {
    const Sge sge = from.sge(0, 64);
    ASSERT_TRUE(a.qp->post_send({.wr_id = posted++,
                                 .opcode = SendWr::Opcode::rdma_read,
                                 .sges = {&sge, 1},
                                 .remote_addr = to.region.addr,
                                 .rkey = to.region.rkey}));
  }
  /// All that was posted has completed.
  void expect_done() {
    const auto done = a.sends();
    EXPECT_EQ(done.size(), posted);
    for (const WorkCompletion& wc : done) EXPECT_EQ(wc.status, WcStatus::success);
  }

  Buffer from{*a.device, a.pd, 8192}, to{*b.device, b.pd, 8192};
  std::size_t posted = 0;
  std::vector<std::string> said;
};
using Said = std::vector<std::string>;

TEST(NicRoceAckDelay, OnePacketAcknowledgesThoseThatCameMeanwhile) {
  Waiting w;
  for (int i = 0; i < 3; ++i) w.send();
  w.run();
  EXPECT_EQ(w.said, (Said{"ACK 102 after 50 us"}));
  w.expect_done();
}

TEST(NicRoceAckDelay, TheNextOneWaitsAsLong) {
  Waiting w;
  w.send();
  w.run(1ms);
  w.send();
  w.run();
  EXPECT_EQ(w.said, (Said{"ACK 100 after 50 us", "ACK 101 after 110 us"}));  // it has come after 60
  w.expect_done();
}

TEST(NicRoceAckDelay, TheSixteenthGoesAtOnce) {
  Waiting w;
  for (int i = 0; i < 18; ++i) w.send();
  w.run();
  EXPECT_EQ(w.said, (Said{"ACK 115 after 0 us", "ACK 117 after 50 us"}));
  w.expect_done();
}

TEST(NicRoceAckDelay, AMessageOfSeveralPacketsDoesNotWait) {
  Waiting w;
  w.send(64);
  w.send(700);
  w.run();
  EXPECT_EQ(w.said, (Said{"ACK 103 after 0 us"}));
  w.expect_done();
}

TEST(NicRoceAckDelay, AResponseTakesTheAckAlong) {
  Waiting w;
  w.send();
  w.read();
  w.run();
  EXPECT_EQ(w.said, (Said{"ACK 100 after 0 us", "data 101 after 0 us"}));
  w.expect_done();
}

TEST(NicRoceAckDelay, SoDoesANak) {
  Waiting w;
  w.send();
  w.send(64, false);
  w.run(9us);
  EXPECT_EQ(w.said, (Said{"ACK 100 after 0 us", "NAK 101 after 0 us"}));
  ASSERT_TRUE(w.b.recv(9, {w.to.sge(0, 1024)}));
  w.run();
  w.expect_done();
}

// Whoever sends again has waited for long enough.
TEST(NicRoceAckDelay, ARepeatedMessageIsAnsweredAtOnce) {
  Waiting w;
  w.send();
  std::size_t acks = 0;
  Instant arrives{};
  w.filter = [&](std::size_t, const Frame& frame) {
    if (frame.to_b) {
      arrives = frame.at;
      return true;
    }
    if (++acks == 1) return false;
    EXPECT_EQ(w.now, arrives);
    return true;
  };
  w.run();
  EXPECT_EQ(acks, 2U);
  w.expect_done();
}

TEST(NicRoceAckDelay, WhatWaitsLeavesWithTheConnection) {
  Waiting w;
  w.send();
  w.run(9us);
  EXPECT_EQ(w.said, Said{});
  ASSERT_TRUE(w.b.qp->modify({.state = QpState::err}));
  w.run(1us);
  EXPECT_EQ(w.said, (Said{"ACK 100 after 0 us"}));
}

}  // namespace
}  // namespace parley::nic::roce::test::roce_ack_delay_test
