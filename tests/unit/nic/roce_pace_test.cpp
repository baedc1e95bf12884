// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Back-pressure on unreliable services: packets wait while the driver says that their receiver has no room.
#include "roce_link.hpp"

namespace parley::nic::roce::test::roce_pace_test {
namespace {

struct Gate final : PacketPace {
  Instant may_send(Instant now, const Gid& peer) override {
    asked = peer;
    return room > 0 ? now : std::max(now, open_at);
  }
  void sent(const Gid&, std::size_t count, std::size_t size) noexcept override {
    EXPECT_GT(size, 0U);
    EXPECT_LE(count, run_max);
    packets += count;
    room -= std::min(room, count);
  }
  std::size_t room = 0, packets = 0;
  Instant open_at = never;
  Gid asked{};
};

struct Paced : World {
  Buffer from{*a.device, a.pd, 1 << 16};
  Gate gate;

  explicit Paced(QpType type) {
    connect({.type = type, .mtu = Mtu::octets_4096});
    a.device->set_pace(&gate);
  }
  ~Paced() { a.device->set_pace(nullptr); }
  /// The next packet of this side.
  bool transmits(Instant at) {
    PacketTo to;
    Bytes out(packet_max);
    return a.device->poll_transmit(at, to, out);
  }
};

TEST(NicRocePace, UnreliablePacketsWaitUntilTheirReceiverHasRoom) {
  Paced w(QpType::uc);
  w.gate.open_at = Instant(std::chrono::seconds(2));
  ASSERT_TRUE(w.a.send(1, {w.from.sge(0, 3 * 4096)}));
  ASSERT_TRUE(w.a.device->has_transmit());
  const Instant now(std::chrono::seconds(1));
  EXPECT_FALSE(w.transmits(now));
  EXPECT_EQ(w.gate.asked, gid_v4(2));
  EXPECT_FALSE(w.a.device->has_transmit());
  EXPECT_LE(w.a.device->next_deadline(), w.gate.open_at);
  EXPECT_GT(w.a.device->next_deadline(), now);
  ASSERT_TRUE(w.a.send(2, {w.from.sge(0, 10)}));  // and what is posted meanwhile
  EXPECT_FALSE(w.transmits(now));
  w.gate.room = 3;
  w.a.device->handle_deadline(w.gate.open_at);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(w.transmits(w.gate.open_at));
  EXPECT_EQ(statuses(w.a.sends()), "1 success");
  EXPECT_EQ(w.gate.packets, 3U);
  w.gate.open_at = never;
  EXPECT_FALSE(w.transmits(Instant(std::chrono::seconds(2))));
  EXPECT_EQ(statuses(w.a.sends()), "-");
}

TEST(NicRocePace, ReliableOnesAreNotAskedAbout) {
  Paced w(QpType::rc);
  ASSERT_TRUE(w.a.send(1, {w.from.sge(0, 10)}));
  EXPECT_TRUE(w.transmits(Instant(std::chrono::seconds(1))));
  EXPECT_EQ(w.gate.asked, Gid{});
}

}  // namespace
}  // namespace parley::nic::roce::test::roce_pace_test
