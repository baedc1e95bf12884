// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The data path allocates nothing once a connection has run for a while, a connection without data takes little, and where there
// is no memory nothing stays half done.
#include <cstdlib>
#include <new>

#include "roce_link.hpp"
#include "test_pair.hpp"

#if !defined(__SANITIZE_ADDRESS__)
namespace {
constexpr std::size_t unlimited = ~std::size_t{0};
std::size_t allocations = 0, allocated = 0;  // of this test program; one thread
std::size_t allowed = unlimited;             // before one fails
}  // namespace
void* operator new(std::size_t size) {
  if (allowed != unlimited && allowed-- == 0) throw std::bad_alloc();
  ++allocations;
  allocated += size;
  if (void* memory = std::malloc(size)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace parley::nic::iwarp::test {
namespace {

/// Moves everything that waits from one side to the other without allocating.
void move(StreamQp& from, StreamQp& to, MutBytes wire) {
  std::array<ConstBytes, 32> list;
  while (const std::size_t n = from.gather(list)) {
    std::size_t octets = 0;
    for (std::size_t i = 0; i < n; ++i) {
      std::memcpy(wire.data() + octets, list[i].data(), list[i].size());
      octets += list[i].size();
    }
    from.sent(octets);
    // Cut where it hurts: in the middle of an FPDU.
    to.handle_bytes(wire.first(octets / 2));
    to.handle_bytes(wire.subspan(octets / 2, octets - octets / 2));
  }
}

TEST(NicAllocation, NoneInTheDataPathAfterTheStart) {
  for (const bool markers : {false, true}) {
    Pair p;
    Buffer a(*p.a.device, p.a.pd, 100000), b(*p.b.device, p.b.pd, 100000);
    p.connect([=](AttachOptions& x, AttachOptions& y) {
      x.parameters.tx_markers = x.parameters.rx_markers = y.parameters.tx_markers = y.parameters.rx_markers = markers;
    });
    Bytes wire(2 << 20);
    std::array<WorkCompletion, 16> done;
    const Sge receive = b.all();
    std::size_t before = 0;
    for (int round = 0; round < 200; ++round) {
      if (round == 100) before = allocations;
      for (const std::uint32_t length : {8U, 5000U, 100000U}) {
        const Sge send = a.sge(0, length);
        ASSERT_TRUE(p.b.qp->post_recv({.sges = {&receive, 1}}));
        ASSERT_TRUE(p.a.qp->post_send({.sges = {&send, 1}}));
        ASSERT_TRUE(p.a.qp->post_send({.opcode = SendWr::Opcode::rdma_write,
                                       .sges = {&send, 1},
                                       .remote_addr = b.region.addr,
                                       .rkey = b.region.rkey}));
        ASSERT_TRUE(p.a.qp->post_send({.opcode = SendWr::Opcode::rdma_read,
                                       .sges = {&send, 1},
                                       .remote_addr = b.region.addr,
                                       .rkey = b.region.rkey}));
      }
      move(*p.a.qp, *p.b.qp, wire);
      move(*p.b.qp, *p.a.qp, wire);
      ASSERT_EQ(p.a.send_cq->poll(done), 9U);
      ASSERT_EQ(p.b.recv_cq->poll(done), 3U);
    }
    EXPECT_EQ(allocations - before, 0U);
  }
}

// Ten thousand idle connections are twenty thousand of these.
TEST(NicAllocation, AQueuePairWithoutWorkTakesOneKilobyte) {
  const auto device = make_device();
  const PdHandle pd = *device->alloc_pd();
  const std::size_t before = allocations, octets_before = allocated;
  auto qp = device->create_lone_qp(pd, 2);
  ASSERT_TRUE(qp && (*qp)->attach({}));
  EXPECT_LE(allocations - before, 2U);  // itself and its completions
  EXPECT_LE(allocated - octets_before, 1024U);
}

}  // namespace
}  // namespace parley::nic::iwarp::test

namespace parley::nic::roce::test {
namespace {

/// Moves all packets from one side to the other; returns whether there were any.
bool move(Side& from, Side& to, Instant now, MutBytes buffer) {
  PacketTo packet;
  bool any = false;
  while (from.device->poll_transmit(now, packet, buffer)) {
    any = true;
    to.device->handle_packet(now, {.source = packet.source, .destination = packet.destination},
                             buffer.first(packet.size + PARLEY_IB_ICRC_LEN));
  }
  return any;
}

TEST(NicRoceAllocation, NoneInTheDataPathAfterTheStart) {
  World w;
  w.connect();
  Buffer a(*w.a.device, w.a.pd, 100'000), b(*w.b.device, w.b.pd, 100'000);
  Bytes buffer(packet_max);
  std::array<WorkCompletion, 16> done;
  const Sge receive = b.all(), eight = a.sge(0, 8);
  std::size_t before = 0;
  for (int round = 0; round < 60; ++round) {
    if (round == 30) before = allocations;
    w.now += 1ms;
    for (const std::uint32_t length : {8U, 5000U, 100'000U}) {
      const Sge send = a.sge(0, length);
      ASSERT_TRUE(w.b.qp->post_recv({.sges = {&receive, 1}}));
      ASSERT_TRUE(w.a.qp->post_send({.sges = {&send, 1}}));
      for (const auto opcode : {SendWr::Opcode::rdma_write, SendWr::Opcode::rdma_read})
        ASSERT_TRUE(w.a.qp->post_send(
            {.opcode = opcode, .sges = {&send, 1}, .remote_addr = b.region.addr, .rkey = b.region.rkey}));
      ASSERT_TRUE(w.a.qp->post_send({.opcode = SendWr::Opcode::atomic_fetch_and_add,
                                     .sges = {&eight, 1},
                                     .remote_addr = b.region.addr,
                                     .rkey = b.region.rkey}));
    }
    while (move(w.a, w.b, w.now, buffer) || move(w.b, w.a, w.now, buffer)) {
    }
    ASSERT_EQ(w.a.send_cq->poll(done), 12U);
    ASSERT_EQ(w.b.recv_cq->poll(done), 3U);
    w.a.device->handle_deadline(w.now);
  }
  EXPECT_EQ(allocations, before);
}

/// `step` with memory for so many allocations; false: that was not enough.
template <class Step>
bool with_memory(std::size_t for_so_many, const Step& step) {
  allowed = for_so_many;
  bool enough = true;
  try {
    step();
  } catch (const std::bad_alloc&) {
    enough = false;
  }
  allowed = unlimited;
  return enough;
}

TEST(NicRoceAllocation, NothingStaysOfAQueuePairWithoutMemory) {
  DeviceOptions options = Side::options(1);
  options.first_qpn = 50;
  Side side(options);
  std::size_t failures = 0;
  for (bool made = false; !made;) {
    QpInit init = side.init(QpType::rc, 1);
    init.pd = side.device->alloc_pd().value();
    made = with_memory(failures, [&] { ASSERT_TRUE(side.device->create_roce_qp(init)); });
    failures += made ? 0 : 1;
    for (std::uint32_t number = 50; number <= 50 + failures; ++number)
      EXPECT_EQ(side.device->find_qp(number), nullptr) << failures;
    EXPECT_TRUE(side.device->dealloc_pd(init.pd)) << failures;
  }
  EXPECT_GE(failures, 3U);
}

TEST(NicRoceAllocation, NothingStaysOfAGroupWithoutMemory) {
  World w;
  w.connect({.type = QpType::ud});
  const Gid group{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, 239, 1, 2, 3};
  std::size_t failures = 0;
  while (!with_memory(failures, [&] { ASSERT_TRUE(w.b.qp->attach_multicast(group)); })) {
    ++failures;
    EXPECT_FALSE(w.b.qp->detach_multicast(group)) << failures;
  }
  EXPECT_GE(failures, 2U);
  EXPECT_TRUE(w.b.qp->detach_multicast(group));
}

}  // namespace
}  // namespace parley::nic::roce::test

#endif
