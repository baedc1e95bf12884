// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Seeded chance: mixed work over a stream cut anywhere arrives once, in order, unchanged; and no octets a peer can send
// do anything but end the connection.
#include <deque>

#include "test_pair.hpp"

namespace parley::nic::iwarp::test {
namespace {

constexpr std::size_t slot_size = 4096;
constexpr std::size_t slots = 48;

/// One side's work: what it posted and what it must find at the end.
class Worker {
 public:
  Worker(Side& side, std::uint64_t seed)
      : side_(side),
        rng_(seed),
        source_(*side.device, side.pd, slots * slot_size),
        exposed_(*side.device, side.pd, slots * slot_size),
        written_(*side.device, side.pd, slots * slot_size),
        sink_(*side.device, side.pd, slots * slot_size),
        inbox_(*side.device, side.pd, slots * slot_size),
        counter_(*side.device, side.pd, 8),
        original_(*side.device, side.pd, 8 * slots) {
    source_.fill(seed);
    exposed_.fill(seed + 1);
  }
  void meet(Worker& peer) { peer_ = &peer; }

  /// Posts something now and then; false when all is posted.
  bool act() {
    while (received_posted_ < slots &&
           side_.recv(received_posted_, {inbox_.sge(received_posted_ * slot_size, slot_size)}))
      ++received_posted_;
    for (std::uint64_t n = rng_() % 4; n > 0 && posted_ < slots; --n)
      if (!post(posted_)) return true;
    return posted_ < slots;
  }

  void check() {
    const auto done = side_.sends();
    std::size_t expected = 0;
    for (const auto& completion : done) {
      EXPECT_EQ(completion.status, WcStatus::success);
      while (expected < slots && !items_[expected].signaled) ++expected;
      EXPECT_EQ(completion.wr_id, expected++);
    }
    while (expected < slots && !items_[expected].signaled) ++expected;
    EXPECT_EQ(expected, slots);
    const auto received = side_.recvs();
    ASSERT_EQ(received.size(), peer_->sends_.size());
    for (std::size_t i = 0; i < received.size(); ++i) {
      EXPECT_EQ(received[i].wr_id, i);
      const Item& item = peer_->items_[peer_->sends_[i]];
      if (item.opcode == immediate) {
        EXPECT_EQ(parley::iwarp::immediate_data(received[i]), peer_->sends_[i]);
        continue;
      }
      ASSERT_EQ(received[i].byte_len, item.length);
      EXPECT_TRUE(same(inbox_, i * slot_size, peer_->source_, peer_->sends_[i] * slot_size, item.length));
    }
    std::uint64_t adds = 0;
    for (std::size_t i = 0; i < slots; ++i) {
      const Item& item = items_[i];
      if (item.opcode == SendWr::Opcode::rdma_write) {
        EXPECT_TRUE(same(peer_->written_, i * slot_size, source_, i * slot_size, item.length));
      }
      if (item.opcode == SendWr::Opcode::rdma_read) {
        EXPECT_TRUE(same(sink_, i * slot_size, peer_->exposed_, i * slot_size, item.length));
      }
      if (item.opcode == SendWr::Opcode::atomic_fetch_and_add) {
        std::uint64_t value = 0;
        std::memcpy(&value, original_.memory.data() + 8 * i, 8);
        EXPECT_EQ(value, adds++);
      }
    }
  }

 private:
  struct Item {
    SendWr::Opcode opcode;
    std::uint32_t length;
    bool signaled;
  };
  static bool same(const Buffer& a, std::size_t at, const Buffer& b, std::size_t from, std::size_t n) {
    return n == 0 || std::memcmp(a.memory.data() + at, b.memory.data() + from, n) == 0;
  }

  static constexpr auto immediate = static_cast<SendWr::Opcode>(0xFF);  // iWARP's own

  bool post(std::size_t i) {
    static constexpr SendWr::Opcode kinds[] = {SendWr::Opcode::send,
                                               SendWr::Opcode::send,
                                               SendWr::Opcode::rdma_write,
                                               SendWr::Opcode::rdma_read,
                                               SendWr::Opcode::atomic_fetch_and_add,
                                               immediate};
    Item item{kinds[rng_() % 6], 0, rng_() % 4 != 0};
    const std::size_t limit = rng_() % 2 == 0 ? 64 : slot_size;
    item.length = static_cast<std::uint32_t>(rng_() % (limit + 1));
    SendWr wr;
    wr.wr_id = i;
    wr.opcode = item.opcode;
    wr.signaled = item.signaled;
    wr.fence = rng_() % 4 == 0;
    std::vector<Sge> sges;
    const std::size_t at = i * slot_size;
    switch (item.opcode) {
      case SendWr::Opcode::rdma_read:
        wr.rkey = peer_->exposed_.region.rkey;
        wr.remote_addr = peer_->exposed_.region.addr + at;
        sges = {sink_.sge(at, item.length)};
        break;
      case SendWr::Opcode::atomic_fetch_and_add:
        wr.rkey = peer_->counter_.region.rkey;
        wr.remote_addr = peer_->counter_.region.addr;
        wr.compare_add = 1;
        sges = {original_.sge(8 * i, 8)};
        break;
      default: {
        wr.rkey = peer_->written_.region.rkey;
        wr.remote_addr = peer_->written_.region.addr + at;
        const std::size_t first = item.length == 0 ? 0 : rng_() % item.length;
        sges = {source_.sge(at, first), source_.sge(at + first, item.length - first)};
      }
    }
    wr.sges = sges;
    const auto posted =
        item.opcode == immediate
            ? side_.qp->post_immediate({.wr_id = i, .data = i, .signaled = item.signaled, .fence = wr.fence})
            : side_.qp->post_send(wr);
    if (!posted) return false;
    items_.push_back(item);
    if (item.opcode == SendWr::Opcode::send || item.opcode == immediate) sends_.push_back(i);
    ++posted_;
    return true;
  }

  Side& side_;
  std::mt19937_64 rng_;
  Buffer source_, exposed_, written_, sink_, inbox_, counter_, original_;
  Worker* peer_ = nullptr;
  std::vector<Item> items_;
  std::vector<std::size_t> sends_;
  std::size_t posted_ = 0, received_posted_ = 0;
};

TEST(NicRandom, MixedWorkArrivesOnceInOrderUnchanged) {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 rng(seed);
    Pair p;
    Worker a(p.a, seed), b(p.b, seed + 1000);
    a.meet(b);
    b.meet(a);
    p.cut = random_cut(seed);
    p.write = random_cut(seed + 1);
    p.a.list_max = 1 + rng() % 40;
    p.b.list_max = 1 + rng() % 40;
    a.act();
    b.act();
    p.connect([&](AttachOptions& x, AttachOptions& y) {
      x.emss = static_cast<std::uint16_t>(536 + rng() % 3000);
      y.emss = static_cast<std::uint16_t>(536 + rng() % 60000);
      x.parameters.crc = y.parameters.crc = rng() % 2 == 0;
      x.parameters.tx_markers = y.parameters.rx_markers = rng() % 2 == 0;
      y.parameters.tx_markers = x.parameters.rx_markers = rng() % 2 == 0;
      x.parameters.ord = y.parameters.ird = static_cast<std::uint16_t>(1 + rng() % 4);
      y.parameters.ord = x.parameters.ird = static_cast<std::uint16_t>(1 + rng() % 4);
      x.parameters.rtr = y.parameters.rtr = x.send_rtr =
          std::array{mpa::Rtr::none, mpa::Rtr::send, mpa::Rtr::write, mpa::Rtr::read}[rng() % 4];
      x.first_msn = y.first_msn = rng() % 2 == 0 ? 1 : 0xFFFFFFF0;
    });
    bool more = true;
    for (int turn = 0; more && turn < 1000000; ++turn) {
      more = a.act();
      more = b.act() || more;
      more = p.step() || more;
    }
    p.run();
    ASSERT_EQ(p.a.qp->state(), QpState::rts);
    ASSERT_EQ(p.b.qp->state(), QpState::rts);
    EXPECT_TRUE(p.a.qp->drained());
    EXPECT_TRUE(p.b.qp->drained());
    a.check();
    b.check();
  }
}

/// A queue pair with some of everything outstanding, fed by chance. Whatever happens, each request completes once.
class Target {
 public:
  explicit Target(std::mt19937_64& rng) {
    side.list_max = 1 + rng() % 8;
    for (std::uint64_t i = 0; i < 4; ++i) {
      EXPECT_TRUE(side.recv(i, {buffer.sge(64 * i, rng() % 64)}).has_value());
      const Sge sink = buffer.sge(8 * i, 8);
      const auto opcode = i % 2 == 0 ? SendWr::Opcode::rdma_read : SendWr::Opcode::atomic_fetch_and_add;
      EXPECT_TRUE(side.qp->post_send({.wr_id = i, .opcode = opcode, .sges = {&sink, 1}}).has_value());
    }
    AttachOptions options = attach_options(rng() % 2 == 0 ? mpa::Role::initiator : mpa::Role::responder, 3);
    options.parameters.crc = false;  // so that chance gets past MPA
    options.parameters.rx_markers = rng() % 4 == 0;
    EXPECT_TRUE(side.qp->attach(options).has_value());
  }
  void finish() {
    side.transmit_all();
    side.qp->flush();
    EXPECT_EQ(side.sends().size(), 4U);
    EXPECT_EQ(side.recvs().size(), 4U);
    EXPECT_EQ(side.qp->rdmap_state(), RdmapState::error);
    EXPECT_TRUE(side.device->dereg_mr(buffer.region.lkey).has_value());  // nothing stayed pinned
  }
  Side side;
  Buffer buffer{*side.device, side.pd, 256};
};

TEST(NicRandom, RandomOctetsOnlyEndTheConnection) {
  std::mt19937_64 rng(11);
  for (int round = 0; round < 2000; ++round) {
    Target target(rng);
    for (int i = 0; i < 8; ++i) {
      Bytes in(rng() % 200);
      for (auto& octet : in) octet = static_cast<std::uint8_t>(rng() % 8 == 0 ? rng() : rng() % 3);
      target.side.qp->handle_bytes(in);
      target.side.transmit(rng() % 100);
    }
    if (rng() % 2 == 0) target.side.qp->handle_end(rng() % 2 == 0);
    target.finish();
  }
}

/// A plausible ULPDU, then perhaps a bit of it turned.
Bytes plausible(std::mt19937_64& rng, const MemoryRegion& region) {
  const std::uint64_t to = region.addr + rng() % 260;
  const auto opcode = static_cast<std::uint8_t>(rng() % 16);
  wire::DdpHeader header;
  header.opcode = static_cast<wire::RdmapOpcode>(opcode);
  const auto rule = wire::rule_of(header.opcode);
  header.tagged = rule.tagged;
  header.last = rng() % 4 != 0;
  header.qn = rule.qn;
  header.msn = 1 + static_cast<std::uint32_t>(rng() % 3);
  header.mo = rng() % 4 == 0 ? static_cast<std::uint32_t>(rng() % 64) : 0;
  header.stag = region.lkey;
  header.to = to;
  Bytes out(header.size() + 80);
  header.emit(out);
  std::size_t payload = rng() % 80;
  const MutBytes body = MutBytes(out).subspan(header.size());
  if (header.opcode == wire::RdmapOpcode::read_request) {
    wire::ReadRequest{region.lkey, to, static_cast<std::uint32_t>(rng() % 64), region.lkey, to}.emit(body);
    payload = PARLEY_RDMAP_READ_REQUEST_LEN;
  } else if (header.opcode == wire::RdmapOpcode::atomic_request) {
    wire::AtomicRequest request;
    request.aop = static_cast<std::uint8_t>(rng() % 3);
    request.stag = region.lkey;
    request.to = to & ~7ULL;
    request.emit(body);
    payload = PARLEY_RDMAP_ATOMIC_REQUEST_LEN;
  } else if (header.opcode == wire::RdmapOpcode::atomic_response) {
    payload = PARLEY_RDMAP_ATOMIC_RESPONSE_LEN;
  }
  out.resize(header.size() + payload);
  if (rng() % 4 == 0) out[rng() % out.size()] ^= static_cast<std::uint8_t>(1U << rng() % 8);
  return out;
}

TEST(NicRandom, RandomSegmentsOnlyEndTheConnection) {
  std::mt19937_64 rng(12);
  for (int round = 0; round < 5000; ++round) {
    Target target(rng);
    mpa::Framer framer({.crc = false, .markers = false, .emss = 1460});
    for (int i = 0; i < 12; ++i) {
      const Bytes ulpdu = plausible(rng, target.buffer.region);
      Bytes fpdu(framer.wire_size(ulpdu.size()));
      framer.frame(ulpdu, {}, fpdu);
      target.side.qp->handle_bytes(fpdu);
      if (rng() % 2 == 0) target.side.transmit(rng() % 300);
    }
    target.finish();
  }
}

}  // namespace
}  // namespace parley::nic::iwarp::test
