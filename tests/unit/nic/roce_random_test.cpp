// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Packets that nobody should send: what is dropped changes nothing, whatever it holds; what is near to right ends at worst in
// ERR, completes nothing twice and touches no memory but the region's.
#include "roce_link.hpp"

namespace parley::nic::roce::test::roce_random_test {
namespace {

std::uint64_t drops(const Counters& c) {
  return c.dropped_malformed + c.dropped_opcode + c.dropped_version + c.dropped_destination + c.dropped_qpn +
         c.dropped_state + c.dropped_address + c.dropped_p_key + c.dropped_q_key + c.dropped_srqn + c.dropped_response +
         c.dropped_mad;
}

TEST(NicRoceRandom, DroppedPacketsChangeNothing) {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    World w;
    Rng rng(seed);
    w.connect();
    Buffer from(*w.a.device, w.a.pd, 1024), to(*w.b.device, w.b.pd, 1024);
    ASSERT_TRUE(w.b.recv(1, {to.all()}));
    const Counters& counters = w.b.device->counters();
    for (int i = 0; i < 3000 && w.b.qp->state() == QpState::rts; ++i) {
      Bytes octets(rng.below(80));
      for (auto& octet : octets) octet = static_cast<std::uint8_t>(rng.next());
      if (octets.size() >= 12 && rng.chance({3, 4})) {
        octets[0] &= 0x1F;
        octets[1] &= 0xF0;
        octets[2] = octets[3] = 0xFF;
        octets[5] = octets[6] = 0;
        octets[7] = static_cast<std::uint8_t>(w.b.qp->qp_num());
      }
      const std::uint64_t before = drops(counters);
      const Bytes memory = to.memory;
      w.b.device->handle_packet(w.now, {.source = gid_v4(1), .destination = gid_v4(2)}, octets);
      if (drops(counters) == before) continue;
      EXPECT_EQ(w.b.qp->state(), QpState::rts);
      EXPECT_EQ(to.memory, memory);
    }
    std::array<std::uint8_t, packet_max> buffer;
    PacketTo packet;
    while (w.b.device->poll_transmit(w.now, packet, buffer)) {
    }
  }
}

// Good traffic with single octets changed on the way.
TEST(NicRoceRandom, ChangedPackets) {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    World w;
    Rng rng(seed);
    w.connect({.timeout = 6, .retry = 3, .rnr_retry = 3});
    Buffer from(*w.a.device, w.a.pd, 8192), to(*w.b.device, w.b.pd, 8192),
        aside(*w.b.device, w.b.pd, 8192, Access::none);
    aside.fill(seed);
    const Bytes untouched = aside.memory;
    w.filter = [&](std::size_t, Frame& frame) {
      if (rng.chance({1, 6}))
        frame.octets[rng.below(frame.octets.size())] ^= static_cast<std::uint8_t>(1 << rng.below(8));
      return true;
    };
    std::size_t posted = 0, received = 0;
    for (std::uint64_t id = 0; id < 30; ++id) {
      if (w.b.recv(id, {to.sge(0, 2000)})) ++received;
      const Sge sge = from.sge(0, id % 3 == 2 ? 8 : rng.below(2000));
      const auto opcode = id % 3 == 0   ? SendWr::Opcode::send
                          : id % 3 == 1 ? SendWr::Opcode::rdma_read
                                        : SendWr::Opcode::atomic_fetch_and_add;
      if (w.a.qp->post_send({.wr_id = id,
                             .opcode = opcode,
                             .sges = {&sge, 1},
                             .remote_addr = to.region.addr,
                             .rkey = to.region.rkey}))
        ++posted;
    }
    w.run(100s);
    EXPECT_EQ(w.a.sends().size(), posted) << seed;
    EXPECT_LE(w.b.recvs().size(), received) << seed;
    EXPECT_EQ(aside.memory, untouched) << seed;
  }
}

}  // namespace
}  // namespace parley::nic::roce::test::roce_random_test
