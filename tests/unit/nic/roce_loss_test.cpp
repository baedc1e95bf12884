// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// RC under loss: each packet of each operation lost, each pair of them, each one repeated or late; and random work with
// random loss. Everything completes once, in order, with its data.
#include "roce_link.hpp"

namespace parley::nic::roce::test::roce_loss_test {
namespace {

/// One of each kind of operation, of three packets where it has that many; `to` is the peer's memory, `from` ours.
struct Work {
  const char* name;
  std::vector<SendWr::Opcode> opcodes;
  std::size_t size;
};
const Work works[] = {
    {"Send", {SendWr::Opcode::send}, 700},
    {"short Send", {SendWr::Opcode::send}, 7},
    {"Send with Immediate", {SendWr::Opcode::send_with_imm}, 700},
    {"Write", {SendWr::Opcode::rdma_write}, 700},
    {"Write with Immediate", {SendWr::Opcode::rdma_write_with_imm}, 700},
    {"Read", {SendWr::Opcode::rdma_read}, 1000},
    {"empty Read", {SendWr::Opcode::rdma_read}, 0},
    {"FetchAdd", {SendWr::Opcode::atomic_fetch_and_add}, 8},
    {"CmpSwap", {SendWr::Opcode::atomic_cmp_and_swp}, 8},
    {"two Reads", {SendWr::Opcode::rdma_read, SendWr::Opcode::rdma_read}, 700},
    {"Write, Read, Send", {SendWr::Opcode::rdma_write, SendWr::Opcode::rdma_read, SendWr::Opcode::send}, 600},
    {"FetchAdds",
     {SendWr::Opcode::atomic_fetch_and_add, SendWr::Opcode::atomic_fetch_and_add, SendWr::Opcode::atomic_fetch_and_add},
     8},
    {"Read, FetchAdd, Send with Immediate",
     {SendWr::Opcode::rdma_read, SendWr::Opcode::atomic_fetch_and_add, SendWr::Opcode::send_with_imm},
     520},
};

/// Runs the work with a filter; checks all there is to check. Returns how many packets were sent.
std::size_t run(const Work& work, const std::function<bool(std::size_t, Frame&)>& filter, const std::string& what) {
  World w;
  w.connect({.psn_a = 0xFFFFFE});
  Buffer from(*w.a.device, w.a.pd, 8192), to(*w.b.device, w.b.pd, 8192), counter(*w.b.device, w.b.pd, 8);
  from.fill(1);
  to.fill(2);
  const Bytes ours = from.memory, theirs = to.memory;
  w.filter = filter;
  std::size_t receives = 0, atomics = 0;
  for (std::size_t i = 0; i < work.opcodes.size(); ++i) {
    const auto opcode = work.opcodes[i];
    const bool atomic = opcode >= SendWr::Opcode::atomic_cmp_and_swp && opcode <= SendWr::Opcode::atomic_fetch_and_add;
    const bool takes = opcode == SendWr::Opcode::send || opcode == SendWr::Opcode::send_with_imm ||
                       opcode == SendWr::Opcode::rdma_write_with_imm;
    const std::size_t size = atomic ? 8 : work.size;
    const Sge sge = from.sge(i * 1024, size);
    if (takes) {
      EXPECT_TRUE(w.b.recv(receives++, {to.sge(i * 1024, 1024)}));
    }
    if (atomic) ++atomics;
    EXPECT_TRUE(w.a.qp->post_send({.wr_id = i,
                                   .opcode = opcode,
                                   .sges = {&sge, 1},
                                   .remote_addr = atomic ? counter.region.addr : to.region.addr + i * 1024,
                                   .rkey = atomic ? counter.region.rkey : to.region.rkey,
                                   .compare_add = opcode == SendWr::Opcode::atomic_fetch_and_add ? 1ULL : 0ULL,
                                   .swap = 77}));
  }
  w.run();
  const auto sent = w.a.sends(), received = w.b.recvs();
  EXPECT_EQ(sent.size(), work.opcodes.size()) << what;
  for (std::size_t i = 0; i < sent.size(); ++i) {
    EXPECT_EQ(sent[i].status, WcStatus::success) << what;
    EXPECT_EQ(sent[i].wr_id, i) << what;
  }
  EXPECT_EQ(received.size(), receives) << what;
  for (std::size_t i = 0; i < work.opcodes.size(); ++i) {
    const auto opcode = work.opcodes[i];
    const auto at = static_cast<std::ptrdiff_t>(i * 1024), end = at + static_cast<std::ptrdiff_t>(work.size);
    std::uint64_t original = 0;
    if (opcode == SendWr::Opcode::atomic_fetch_and_add || opcode == SendWr::Opcode::atomic_cmp_and_swp) {
      std::memcpy(&original, from.memory.data() + at, 8);
      EXPECT_EQ(original, atomics == 3 ? i : 0U) << what;
    } else if (opcode == SendWr::Opcode::rdma_read) {
      EXPECT_TRUE(std::equal(theirs.begin() + at, theirs.begin() + end, from.memory.begin() + at)) << what;
    } else {
      EXPECT_TRUE(std::equal(ours.begin() + at, ours.begin() + end, to.memory.begin() + at)) << what;
    }
  }
  std::uint64_t value = 0;
  std::memcpy(&value, counter.memory.data(), 8);
  EXPECT_EQ(value, work.opcodes[0] == SendWr::Opcode::atomic_cmp_and_swp ? 77U : atomics) << what;
  EXPECT_EQ(w.a.qp->state(), QpState::rts) << what;
  EXPECT_EQ(w.b.qp->state(), QpState::rts) << what;
  return w.sent;
}

constexpr std::size_t looked_at = 14;  // packets of an operation, the answers and some repetitions

TEST(NicRoceLoss, EverySinglePacketAndEveryPair) {
  for (const Work& work : works) {
    const std::size_t plain = run(work, {}, work.name);
    (void)plain;
    for (std::size_t i = 0; i < looked_at; ++i)
      for (std::size_t j = i; j < looked_at; ++j)
        run(
            work, [=](std::size_t n, Frame&) { return n != i && n != j; },
            std::string(work.name) + " without packets " + std::to_string(i) + ", " + std::to_string(j));
  }
}

// Each packet late behind all that follow it, and each twice, a little later or much.
TEST(NicRoceLoss, EveryPacketLateOrTwice) {
  for (const Work& work : works)
    for (std::size_t i = 0; i < looked_at; ++i)
      for (const Duration late : {Duration(2us), Duration(30us), Duration(5ms)}) {
        run(
            work,
            [=](std::size_t n, Frame& frame) {
              if (n == i) frame.at += late;
              return true;
            },
            std::string(work.name) + ", late " + std::to_string(i));
      }
}

TEST(NicRoceLoss, OnlyWhatIsMissingOfAReadIsAskedForAgain) {
  World w;
  w.connect();
  Buffer from(*w.a.device, w.a.pd, 4096), to(*w.b.device, w.b.pd, 4096);
  to.fill(3);
  std::vector<std::uint32_t> asked;
  std::vector<std::uint64_t> places;
  bool lost = false;
  w.filter = [&](std::size_t, Frame& frame) {
    const auto packet = frame.parsed();
    if (frame.operation() == Operation::read_request) {
      asked.push_back(packet.reth.dma_length);
      places.push_back(packet.reth.va - to.region.addr);
    }
    const bool drop = !lost && frame.operation() == Operation::read_response_middle && packet.bth.psn == 102;
    lost = lost || drop;
    return !drop;
  };
  const Sge sge = from.all();
  ASSERT_TRUE(w.a.qp->post_send(
      {.opcode = SendWr::Opcode::rdma_read, .sges = {&sge, 1}, .remote_addr = to.region.addr, .rkey = to.region.rkey}));
  w.run();
  EXPECT_EQ(statuses(w.a.sends()), "0 success");
  EXPECT_EQ(from.memory, to.memory);
  EXPECT_EQ(asked, (std::vector<std::uint32_t>{4096, 4096 - 512}));
  EXPECT_EQ(places, (std::vector<std::uint64_t>{0, 512}));
  EXPECT_EQ(w.a.device->counters().timeouts, 0U);  // the gap tells, not the timer
}

// A window that is shorter than the distance of ACKs: who closes it asks for one.
TEST(NicRoceLoss, AShortWindowDoesNotStall) {
  for (const std::uint32_t window : {1U, 2U, 3U, 7U}) {
    DeviceOptions options = Side::options(1);
    options.window = window;
    World w(options);
    w.connect();
    Buffer from(*w.a.device, w.a.pd, 8192), to(*w.b.device, w.b.pd, 8192);
    from.fill(1);
    std::size_t out = 0, most = 0;
    w.filter = [&](std::size_t, Frame& frame) {
      out = frame.to_b ? out + 1 : 0;
      most = std::max(most, out);
      return true;
    };
    const Sge sge = from.all();
    ASSERT_TRUE(w.a.qp->post_send({.opcode = SendWr::Opcode::rdma_write,
                                   .sges = {&sge, 1},
                                   .remote_addr = to.region.addr,
                                   .rkey = to.region.rkey}));
    w.run();
    EXPECT_EQ(from.memory, to.memory);
    EXPECT_EQ(most, window);
    EXPECT_EQ(w.a.device->counters().timeouts, 0U);
  }
}

/// One direction of random work: what `own` posts, in its memory and the peer's.
struct Half {
  struct Op {
    SendWr::Opcode opcode;
    std::size_t at, length;
    bool takes_receive() const {
      return opcode == SendWr::Opcode::send || opcode == SendWr::Opcode::send_with_imm ||
             opcode == SendWr::Opcode::rdma_write_with_imm;
    }
  };
  static constexpr std::size_t posts = 60, longest = 4096;

  Side &own, &peer;
  Buffer from{*own.device, own.pd, posts* longest};
  Buffer to{*peer.device, peer.pd, posts* longest};            // of Writes and Reads
  Buffer inbox{*peer.device, peer.pd, (posts + 1) * longest};  // of Sends
  Buffer counter{*peer.device, peer.pd, 8};
  std::uint64_t adds = 0;
  std::vector<Op> ops;
  Bytes before;

  Half(Side& x, Side& y, std::uint64_t seed) : own(x), peer(y) {
    from.fill(seed);
    to.fill(seed + 1);
    before = to.memory;
  }
  void post(Rng& rng) {
    static constexpr SendWr::Opcode kinds[] = {SendWr::Opcode::send,       SendWr::Opcode::send_with_imm,
                                               SendWr::Opcode::rdma_write, SendWr::Opcode::rdma_write_with_imm,
                                               SendWr::Opcode::rdma_read,  SendWr::Opcode::atomic_fetch_and_add};
    Op op{.opcode = kinds[rng.below(std::size(kinds))], .at = ops.size() * longest, .length = 8};
    const bool atomic = op.opcode == SendWr::Opcode::atomic_fetch_and_add;
    if (!atomic) op.length = rng.chance({1, 5}) ? rng.below(4) : rng.below(longest + 1);
    // Now and then none is there: the peer says that it is not ready.
    if (op.takes_receive() && rng.chance({9, 10})) {
      ASSERT_TRUE(peer.recv(ops.size(), {inbox.sge(op.at, longest)}));
    }
    adds += atomic ? 1 : 0;
    const Sge sge = from.sge(op.at, op.length);
    ASSERT_TRUE(own.qp->post_send({.wr_id = ops.size(),
                                   .opcode = op.opcode,
                                   .sges = {&sge, 1},
                                   .fence = rng.chance({1, 8}),
                                   .remote_addr = atomic ? counter.region.addr : to.region.addr + op.at,
                                   .rkey = atomic ? counter.region.rkey : to.region.rkey,
                                   .compare_add = atomic ? 1ULL : 0ULL}));
    ops.push_back(op);
  }
  /// The receives that were missing: all behind the memory of the others.
  void post_missing() {
    for (std::size_t i = 0; i < posts; ++i) ASSERT_TRUE(peer.recv(1000, {inbox.sge(posts * longest, longest)}));
  }
  void check(std::uint64_t seed) {
    const auto sent = own.sends(), received = peer.recvs();
    ASSERT_EQ(sent.size(), posts) << "seed " << seed;
    std::size_t next = 0;
    for (std::uint64_t i = 0; i < posts; ++i) {
      const Op& op = ops[i];
      EXPECT_EQ(sent[i].wr_id, i) << "seed " << seed;
      ASSERT_EQ(sent[i].status, WcStatus::success) << "seed " << seed;
      const auto at = static_cast<std::ptrdiff_t>(op.at), end = at + static_cast<std::ptrdiff_t>(op.length);
      const Bytes &ours = from.memory, &theirs = to.memory;
      if (op.opcode == SendWr::Opcode::rdma_read) {
        EXPECT_TRUE(std::equal(before.begin() + at, before.begin() + end, ours.begin() + at)) << seed;
      } else if (op.opcode == SendWr::Opcode::rdma_write || op.opcode == SendWr::Opcode::rdma_write_with_imm) {
        EXPECT_TRUE(std::equal(ours.begin() + at, ours.begin() + end, theirs.begin() + at)) << seed;
      }
      if (!op.takes_receive()) continue;
      ASSERT_LT(next, received.size()) << "seed " << seed;
      EXPECT_EQ(received[next].status, WcStatus::success) << "seed " << seed;
      EXPECT_EQ(received[next].byte_len, op.length) << "seed " << seed;
      // A Send's data is where the receive that it took says; those of the end share theirs.
      const std::uint64_t place = received[next].wr_id;
      if (op.opcode != SendWr::Opcode::rdma_write_with_imm && place < posts) {
        EXPECT_TRUE(std::equal(ours.begin() + at, ours.begin() + end,
                               inbox.memory.begin() + static_cast<std::ptrdiff_t>(place * longest)))
            << seed;
      }
      ++next;
    }
    EXPECT_EQ(next, received.size()) << "seed " << seed;
    std::uint64_t value = 0;
    std::memcpy(&value, counter.memory.data(), 8);
    EXPECT_EQ(value, adds) << "seed " << seed;
  }
};

/// Random work of all kinds in both directions over a bad link.
void swarm(std::uint64_t seed, const Faults& faults, Duration ack_delay = {}) {
  DeviceOptions for_a = Side::options(1), for_b = Side::options(2);
  for_a.ack_delay = for_b.ack_delay = ack_delay;
  World w(for_a, for_b);
  w.rng = Rng(seed);
  w.faults = faults;
  Rng rng(seed * 7919 + 1);
  w.a.make(QpType::rc, 256);
  w.b.make(QpType::rc, 256);
  w.connect({.mtu = rng.chance({1, 2}) ? Mtu::octets_256 : Mtu::octets_1024,
             .psn_a = static_cast<std::uint32_t>(0xFFFFF0 + rng.below(16)),
             .psn_b = static_cast<std::uint32_t>(rng.below(1 << 24)),
             .retry = 7,
             .depth = static_cast<std::uint16_t>(1 + rng.below(5))});
  Half x(w.a, w.b, seed), y(w.b, w.a, seed + 10);
  for (std::size_t i = 0; i < Half::posts; ++i) {
    x.post(rng);
    y.post(rng);
    if (rng.chance({1, 4})) w.run(Duration(rng.below(200'000)));
  }
  x.post_missing();
  y.post_missing();
  w.run(100s);
  x.check(seed);
  y.check(seed);
}

TEST(NicRoceLoss, SwarmWithoutFaults) {
  for (std::uint64_t seed = 1; seed <= 12; ++seed) swarm(seed, {});
}
TEST(NicRoceLoss, SwarmWithLoss) {
  for (std::uint64_t seed = 1; seed <= 25; ++seed) swarm(seed, {.drop = {3, 100}});
}
TEST(NicRoceLoss, SwarmWithRepetitionsAndDisorder) {
  for (std::uint64_t seed = 1; seed <= 25; ++seed) swarm(seed, {.repeat = {5, 100}, .delay = {5, 100}});
}
TEST(NicRoceLoss, SwarmWhoseAcksWait) {
  for (std::uint64_t seed = 1; seed <= 25; ++seed) {
    const Duration delay = std::chrono::microseconds(seed * 4);
    swarm(seed, seed % 2 == 0 ? Faults{} : Faults{.drop = {2, 100}, .repeat = {3, 100}, .delay = {3, 100}}, delay);
  }
}
TEST(NicRoceLoss, SwarmWithEverything) {
  for (std::uint64_t seed = 1; seed <= 25; ++seed)
    swarm(seed, {.drop = {2, 100}, .repeat = {3, 100}, .delay = {3, 100}, .mark = {1, 10}});
}

}  // namespace
}  // namespace parley::nic::roce::test::roce_loss_test
