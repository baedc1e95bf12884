// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Memory windows of RoCE devices: what binds and what is refused, what the peer of a window may do, and the order of bind_mw
// and local_inv in the send queue, with loss too.
#include "nic/common/objects.hpp"
#include "roce_link.hpp"

namespace parley::nic::roce::test::roce_window_test {
namespace {

using Op = SendWr::Opcode;
constexpr Access bindable = all_rights | Access::mw_bind;

/// Host b has a region and binds windows to it; host a uses them.
struct Windows : World {
  Buffer from{*a.device, a.pd, 1024};
  Buffer region{*b.device, b.pd, 1024, bindable};

  explicit Windows(const Terms& setup = {}) {
    connect(setup);
    from.fill(1);
  }
  MemoryWindow alloc(MwType type) { return b.device->alloc_mw(b.pd, type).value(); }
  /// Of all rights, to 100 bytes from offset 50 on; the key is the next one.
  MwBind to_part(const MemoryWindow& window) const {
    return {.window = window.handle,
            .rkey = next_rkey(window.rkey),
            .lkey = region.region.lkey,
            .addr = region.region.addr + 50,
            .length = 100,
            .access = all_rights};
  }
  static Result<void> post_bind(Side& side, std::uint64_t id, const MwBind& bind) {
    return side.qp->post_send({.wr_id = id, .opcode = Op::bind_mw, .bind = &bind});
  }
  /// Binds it at b; returns the key.
  std::uint32_t bind(const MwBind& bind) {
    EXPECT_TRUE(post_bind(b, 1, bind));
    run();
    EXPECT_EQ(statuses(b.sends()), "1 success");
    return bind.rkey;
  }
  /// Host a uses a key of b; returns how that ended.
  WcStatus use(Op opcode, std::uint32_t rkey, std::uint64_t addr, std::size_t length) {
    const Sge sge = from.sge(0, length);
    EXPECT_TRUE(a.qp->post_send({.opcode = opcode, .sges = {&sge, 1}, .remote_addr = addr, .rkey = rkey}));
    run();
    const auto done = a.sends();
    EXPECT_EQ(done.size(), 1U);
    return done.empty() ? WcStatus::general_err : done[0].status;
  }
  WcStatus write(std::uint32_t rkey, std::uint64_t offset, std::size_t length = 8) {
    return use(Op::rdma_write, rkey, region.region.addr + offset, length);
  }
  /// Windows are bound to the region, which no posted request uses: only then it cannot be changed.
  static bool has_windows(Side& side, const Buffer& of) {
    return !side.device->rereg_mr(of.region.lkey, {.access = bindable});
  }
};

constexpr WcStatus fine = WcStatus::success, denied = WcStatus::rem_access_err;

TEST(NicRoceWindow, ThePeerHasTheRightsAndTheBytesOfTheWindowAlone) {
  constexpr Access read = Access::remote_read, write = Access::remote_write, atomic = Access::remote_atomic;
  const struct {
    Access access;
    Op opcode;
    std::uint64_t offset;  // in the region; the window has 50 to 149
    std::size_t length;
    WcStatus ends;
  } rows[] = {
      {write, Op::rdma_write, 50, 100, fine},
      {write, Op::rdma_write, 49, 8, denied},
      {write, Op::rdma_write, 143, 8, denied},
      {write, Op::rdma_read, 50, 8, denied},
      {read, Op::rdma_read, 142, 8, fine},
      {read, Op::rdma_read, 149, 2, denied},
      {read, Op::rdma_write, 50, 8, denied},
      {atomic, Op::atomic_fetch_and_add, 56, 8, fine},
      {read | write, Op::atomic_fetch_and_add, 56, 8, denied},
      {Access::none, Op::rdma_read, 50, 8, denied},
      {Access::local_write, Op::rdma_write, 50, 8, denied},
  };
  for (const auto& row : rows)
    for (const MwType type : {MwType::type_1, MwType::type_2}) {
      Windows w;
      MwBind bind = w.to_part(w.alloc(type));
      bind.access = row.access;
      const std::uint32_t rkey = w.bind(bind);
      EXPECT_EQ(w.use(row.opcode, rkey, w.region.region.addr + row.offset, row.length), row.ends)
          << to_string(row.opcode) << " at " << row.offset << ", type " << static_cast<int>(type);
    }
}

TEST(NicRoceWindow, TheWindowNeedsNoRemoteRightOfTheRegionAndItsKeyIsNoLocalOne) {
  Windows w;
  Buffer local(*w.b.device, w.b.pd, 64, Access::local_write | Access::mw_bind);
  const MemoryWindow window = w.alloc(MwType::type_1);
  const MwBind bind{.window = window.handle,
                    .rkey = next_rkey(window.rkey),
                    .lkey = local.region.lkey,
                    .addr = local.region.addr,
                    .length = 64,
                    .access = Access::remote_write};
  const std::uint32_t rkey = w.bind(bind);
  EXPECT_EQ(w.b.recv(1, {Sge{local.region.addr, 8, rkey}}).error(), Errc::protection);
  EXPECT_EQ(w.use(Op::rdma_write, rkey, local.region.addr, 64), fine);
  EXPECT_EQ(Bytes(local.memory), Bytes(w.from.memory.begin(), w.from.memory.begin() + 64));
  EXPECT_EQ(w.use(Op::rdma_write, local.region.rkey, local.region.addr, 8), denied);
}

TEST(NicRoceWindow, AZeroBasedWindowHasOffsetsInsteadOfAddresses) {
  Windows w;
  MwBind bind = w.to_part(w.alloc(MwType::type_2));
  bind.zero_based = true;
  const std::uint32_t rkey = w.bind(bind);
  EXPECT_EQ(w.use(Op::rdma_write, rkey, 92, 8), fine);
  EXPECT_EQ(w.region.memory[142], w.from.memory[0]);
  EXPECT_EQ(w.use(Op::rdma_write, rkey, 93, 8), denied);
}

TEST(NicRoceWindow, OfType1EachBindMovesTheWindowAndEndsTheKeysBefore) {
  for (const int end : {0, 1, 2, 3}) {
    Windows w;
    const MemoryWindow window = w.alloc(MwType::type_1);
    const std::uint32_t first = w.bind(w.to_part(window));
    EXPECT_EQ(w.write(first, 50), fine);
    MwBind next = w.to_part({.handle = window.handle, .rkey = first});
    next.addr += 500;
    const std::uint32_t second = w.bind(next);
    EXPECT_NE(first, second);
    EXPECT_EQ(w.write(second, 550), fine);
    if (end == 0) {
      EXPECT_EQ(w.write(first, 550), denied);
    }
    if (end == 1) {
      EXPECT_EQ(w.write(second, 50), denied);
    }
    next.rkey = next_rkey(second);
    next.length = next.lkey = 0;
    if (end == 2) {
      EXPECT_EQ(w.write(w.bind(next), 550), denied);
    }
    if (end == 3) {
      EXPECT_TRUE(w.b.device->dealloc_mw(window.handle));
      EXPECT_FALSE(w.b.device->dealloc_mw(window.handle));
      EXPECT_NE(w.alloc(MwType::type_1).handle, window.handle);  // of the same slot
      EXPECT_EQ(w.write(second, 550), denied);
    }
  }
}

// IBA §10.6.7: type 1 belongs to a protection domain, type 2B to a queue pair.
TEST(NicRoceWindow, OfType1EachQueuePairOfTheDomainServesItAndOfType2OnlyTheOneThatBoundIt) {
  for (const MwType type : {MwType::type_1, MwType::type_2}) {
    Windows w;
    const auto other = w.b.device->create_roce_qp(w.b.init(QpType::rc)).value();
    const MwBind bind = w.to_part(w.alloc(type));
    const Terms setup;
    Side& b = w.b;
    std::unique_ptr<RoceQp> first = std::move(b.qp);
    b.qp = b.device->create_roce_qp(b.init(QpType::rc)).value();
    auto peer = w.a.device->create_roce_qp(w.a.init(QpType::rc)).value();
    std::swap(w.a.qp, peer);
    World::up(w.a, b, setup, 5, 6);
    World::up(b, w.a, setup, 6, 5);
    const std::uint32_t rkey = w.bind(bind);
    std::swap(w.a.qp, peer);
    std::swap(b.qp, first);
    EXPECT_EQ(w.write(rkey, 50), type == MwType::type_1 ? fine : denied);
    std::swap(w.a.qp, peer);
    EXPECT_EQ(w.write(rkey, 50), fine);
    // The queue pair that bound it is gone: a window of type 2 is free, one of type 1 is not.
    first.reset();
    EXPECT_EQ(Windows::has_windows(b, w.region), type == MwType::type_1);
  }
}

TEST(NicRoceWindow, OfType2BothSidesMayInvalidateItAndThenItIsBoundAnew) {
  for (const bool by_peer : {false, true}) {
    Windows w;
    const MemoryWindow window = w.alloc(MwType::type_2);
    const MwBind bind = w.to_part(window);
    const std::uint32_t rkey = w.bind(bind);
    EXPECT_EQ(w.write(rkey, 50), fine);
    if (by_peer) {
      ASSERT_TRUE(w.b.recv(3, {}));
      ASSERT_TRUE(w.a.qp->post_send({.opcode = Op::send_with_inv, .invalidate_rkey = rkey}));
      w.run();
      const auto received = w.b.recvs();
      ASSERT_EQ(statuses(received), "3 success");
      EXPECT_TRUE(received[0].with_inv);
      EXPECT_EQ(received[0].invalidated_rkey, rkey);
      EXPECT_EQ(statuses(w.a.sends()), "0 success");
    } else {
      ASSERT_TRUE(w.b.qp->post_send({.wr_id = 2, .opcode = Op::local_inv, .invalidate_rkey = rkey}));
      w.run();
      const auto done = w.b.sends();
      ASSERT_EQ(statuses(done), "2 success");
      EXPECT_EQ(done[0].opcode, WcOpcode::local_inv);
    }
    EXPECT_FALSE(Windows::has_windows(w.b, w.region));
    MwBind again = bind;
    again.rkey = rkey ^ 0x80;
    EXPECT_EQ(w.write(w.bind(again), 149, 1), fine);
    EXPECT_EQ(w.write(rkey, 50), denied);
  }
}

TEST(NicRoceWindow, ThePeerInvalidatesNoWindowOfType1AndNoRegionWithWindows) {
  for (const bool window : {true, false}) {
    Windows w;
    const std::uint32_t rkey = w.bind(w.to_part(w.alloc(MwType::type_1)));
    ASSERT_TRUE(w.b.recv(3, {}));
    ASSERT_TRUE(
        w.a.qp->post_send({.opcode = Op::send_with_inv, .invalidate_rkey = window ? rkey : w.region.region.rkey}));
    w.run();
    EXPECT_EQ(statuses(w.a.sends()), "0 remote access error");
    EXPECT_EQ(statuses(w.b.recvs()), "3 remote access error");
    EXPECT_TRUE(Windows::has_windows(w.b, w.region));
  }
}

// IBA §10.6.7: why a bind fails, as the table of regions and windows says it.
TEST(NicRoceWindow, ABindThatDoesNotFitIsRefusedWithTheReasonAndChangesNothing) {
  MrTable table;
  constexpr PdHandle pd = 1, other_pd = 2;
  Bytes memory(100);
  const auto region = [&](PdHandle of, Access access) { return table.add(of, memory, access, 1000).value(); };
  const MemoryRegion usual = region(pd, bindable), foreign = region(other_pd, bindable), plain = region(pd, all_rights);
  const MemoryRegion sealed = region(pd, Access::remote_write | Access::mw_bind);
  const MemoryWindow one = table.add_window(pd, MwType::type_1).value(),
                     two = table.add_window(pd, MwType::type_2).value(),
                     bound = table.add_window(pd, MwType::type_2).value(),
                     distant = table.add_window(other_pd, MwType::type_1).value();
  const auto to = [&](const MemoryWindow& window, const MemoryRegion& of, std::uint64_t at, std::uint64_t length) {
    return MwBind{.window = window.handle,
                  .rkey = window.rkey,
                  .lkey = of.lkey,
                  .addr = at,
                  .length = length,
                  .access = Access::remote_write};
  };
  MwBind based = to(one, usual, 1000, 1), foreign_key = to(two, usual, 1000, 1);
  based.zero_based = true;
  foreign_key.rkey = one.rkey;
  ASSERT_TRUE(table.bind(to(bound, usual, 1000, 100), pd, 7));
  const struct {
    MwBind bind;
    Errc code;
    const char* sentence;
  } rows[] = {
      {{.window = 0x999901}, Errc::invalid_argument, "MwBind::window 10066177 names no memory window"},
      {to({.handle = usual.lkey}, usual, 1000, 1), Errc::invalid_argument, "names no memory window"},
      {to(distant, usual, 1000, 1), Errc::protection, "the memory window is of another protection domain"},
      {foreign_key, Errc::invalid_argument, "differs from the window's key in more than the low octet"},
      {based, Errc::invalid_argument, "MwBind::zero_based goes with memory windows of type 2 only"},
      {to(bound, usual, 1000, 1), Errc::wrong_state, "the memory window is bound"},
      {to(two, usual, 1000, 0), Errc::invalid_argument, "MwBind::length is 0"},
      {to(two, {.lkey = one.rkey}, 1000, 1), Errc::invalid_argument, "names no memory region"},
      {to(two, {.lkey = usual.lkey + 1}, 1000, 1), Errc::invalid_argument, "names no memory region"},
      {to(two, foreign, 1000, 1), Errc::protection, "the memory region is of another protection domain"},
      {to(two, plain, 1000, 1), Errc::protection, "the memory region lacks Access::mw_bind"},
      {to(two, sealed, 1000, 1), Errc::protection, "need a memory region with local_write"},
      {to(two, usual, 999, 1), Errc::invalid_argument, "lead out of the memory region"},
      {to(two, usual, 1000, 101), Errc::invalid_argument, "lead out of the memory region"},
      {to(two, usual, 1099, 2), Errc::invalid_argument, "lead out of the memory region"},
      {to(two, usual, 1001, ~std::uint64_t{0}), Errc::invalid_argument, "lead out of the memory region"},
  };
  for (const auto& row : rows) {
    const auto done = table.bind(row.bind, pd, 7);
    ASSERT_FALSE(done) << row.sentence;
    EXPECT_EQ(done.error(), row.code) << row.sentence;
    EXPECT_NE(done.error().sentence().find(row.sentence), std::string::npos) << done.error().sentence();
  }
  MrRange range;
  EXPECT_EQ(table.check_remote(two.rkey, 1000, 1, pd, 7, Access::none, range), MrFault::invalid_stag);
  EXPECT_EQ(table.check_remote(bound.rkey, 1000, 100, pd, 7, Access::remote_write, range), MrFault::none);
  EXPECT_TRUE(table.bind(to(two, usual, 1099, 1), pd, 7));
  for (const auto& [rkey, domain, qpn] :
       {std::tuple{one.rkey, pd, 7U}, {two.rkey, pd, 8U}, {two.rkey, other_pd, 7U}, {usual.rkey, pd, 7U}})
    EXPECT_FALSE(table.invalidate_window(rkey, domain, qpn));
  EXPECT_TRUE(table.invalidate_window(two.rkey, pd, 7));
  EXPECT_FALSE(table.invalidate_window(two.rkey, pd, 7));
}

// The program chooses a window's keys: they must open nothing else later.
TEST(NicRoceWindow, ARegionNeverGetsTheKeyOfAWindowThatIsGone) {
  MrTable table;
  constexpr PdHandle pd = 1;
  Bytes memory(100);
  const MemoryRegion region = table.add(pd, memory, bindable).value();
  const MemoryWindow window = table.add_window(pd, MwType::type_2).value();
  const std::uint32_t used = window.rkey + 1, last = window.rkey;
  for (const std::uint32_t rkey : {used, last}) {
    const MwBind bind{.window = window.handle, .rkey = rkey, .lkey = region.lkey, .addr = region.addr, .length = 1};
    ASSERT_TRUE(table.bind(bind, pd, 7));
    ASSERT_TRUE(table.invalidate_window(rkey, pd, 7));
  }
  ASSERT_TRUE(table.remove_window(window.handle));
  const MemoryRegion next = table.add(pd, memory, bindable).value();
  EXPECT_NE(next.rkey >> 8, window.rkey >> 8);
  MrRange range;
  EXPECT_EQ(table.check_remote(used, region.addr, 1, pd, 7, Access::none, range), MrFault::invalid_stag);
  EXPECT_EQ(table.add_window(pd, MwType::type_1)->rkey >> 8, window.rkey >> 8) << "its slot is used again";
}

TEST(NicRoceWindow, TheEndOfAQueuePairUnbindsItsWindowsAlone) {
  MrTable table;
  constexpr PdHandle pd = 1;
  Bytes memory(100);
  const MemoryRegion region = table.add(pd, memory, bindable).value();
  std::uint32_t rkeys[6];
  for (std::uint32_t i = 0; i < 6; ++i) {
    const MemoryWindow window = table.add_window(pd, MwType::type_2).value();
    rkeys[i] = window.rkey;
    const MwBind bind{
        .window = window.handle, .rkey = window.rkey, .lkey = region.lkey, .addr = region.addr, .length = 1};
    ASSERT_TRUE(table.bind(bind, pd, 7 + i % 3));
  }
  ASSERT_TRUE(table.invalidate_window(rkeys[4], pd, 8));
  table.unbind_all(8);
  MrRange range;
  for (std::uint32_t i = 0; i < 6; ++i)
    EXPECT_EQ(table.check_remote(rkeys[i], region.addr, 1, pd, 7 + i % 3, Access::none, range),
              i % 3 == 1 ? MrFault::invalid_stag : MrFault::none);
}

// IBA §9.5: requests are executed in their order, also if they arrive before the answer to the first is sent.
TEST(NicRoceWindow, AReadIsAnsweredBeforeTheSendBehindItInvalidatesItsKey) {
  for (const bool window : {true, false}) {
    Windows w;
    w.region.fill(2);
    MwBind whole = w.to_part(w.alloc(MwType::type_2));
    whole.addr = w.region.region.addr;
    whole.length = 1024;
    const std::uint32_t rkey = window ? w.bind(whole) : w.region.region.rkey;
    ASSERT_TRUE(w.b.recv(3, {}));
    const Sge sge = w.from.all();
    ASSERT_TRUE(w.a.qp->post_send(
        {.wr_id = 1, .opcode = Op::rdma_read, .sges = {&sge, 1}, .remote_addr = w.region.region.addr, .rkey = rkey}));
    ASSERT_TRUE(w.a.qp->post_send({.wr_id = 2, .opcode = Op::send_with_inv, .invalidate_rkey = rkey}));
    Bytes packet(8192);
    PacketTo to;
    std::size_t packets = 0;
    for (; w.a.device->poll_transmit(w.now, to, packet); ++packets)
      w.b.device->handle_packet(w.now, {.source = w.a.device->gid(0), .destination = w.b.device->gid(0)},
                                ConstBytes(packet).first(to.size + PARLEY_IB_ICRC_LEN));
    EXPECT_EQ(packets, 2U) << "both arrive at once";
    w.run();
    EXPECT_EQ(statuses(w.a.sends()), "1 success, 2 success") << window;
    EXPECT_EQ(statuses(w.b.recvs()), "3 success");
    EXPECT_EQ(w.from.memory, w.region.memory);
    EXPECT_EQ(w.write(rkey, 0), denied) << "it is invalid now";
  }
}

TEST(NicRoceWindow, AFailureCompletesAfterTheRequestsBeforeItAndEndsTheQueuePair) {
  for (const Op opcode : {Op::bind_mw, Op::local_inv})
    for (const QpType type : {QpType::rc, QpType::uc}) {
      Windows w({.type = type});
      Side& b = w.b;
      Buffer peer(*w.a.device, w.a.pd, 1024);
      const auto post = [&](std::uint64_t id) {
        const Sge sge = w.region.sge(0, 600);
        EXPECT_TRUE(b.qp->post_send({.wr_id = id,
                                     .opcode = Op::rdma_write,
                                     .sges = {&sge, 1},
                                     .remote_addr = peer.region.addr,
                                     .rkey = peer.region.rkey}));
      };
      const MemoryWindow window = w.alloc(MwType::type_2);
      const MwBind bind = w.to_part(window);
      post(1);
      ASSERT_TRUE(b.qp->post_send(
          {.wr_id = 2, .opcode = opcode, .invalidate_rkey = opcode == Op::bind_mw ? 0 : bind.rkey, .bind = &bind}));
      post(3);
      EXPECT_TRUE(b.device->dealloc_mw(window.handle));
      w.run();
      const auto done = b.sends();
      EXPECT_EQ(statuses(done), "1 success, 2 memory window bind error, 3 work request flushed");
      EXPECT_EQ(done[1].opcode, opcode == Op::bind_mw ? WcOpcode::bind_mw : WcOpcode::local_inv);
      EXPECT_EQ(b.qp->state(), type == QpType::rc ? QpState::err : QpState::sqe);
    }
}

/// b: Write, bind, Read, fenced local_inv, bind with another key, FetchAdd, Send. Executed twice, a bind or an invalidation
/// fails.
std::size_t run_with_loss(const std::function<bool(std::size_t, Frame&)>& filter, const std::string& what) {
  Windows w;
  Buffer peer(*w.a.device, w.a.pd, 1024);
  EXPECT_TRUE(w.a.recv(9, {peer.all()}));
  w.filter = filter;
  const MwBind first = w.to_part(w.alloc(MwType::type_2));
  MwBind second = first;
  second.rkey = next_rkey(first.rkey);
  std::uint64_t id = 0;
  const auto post = [&](SendWr wr, std::size_t size) {
    const Sge sge = w.region.sge(200, size);
    wr.wr_id = ++id;
    wr.sges = {&sge, 1};
    wr.remote_addr = peer.region.addr;
    wr.rkey = peer.region.rkey;
    EXPECT_TRUE(w.b.qp->post_send(wr));
  };
  post({.opcode = Op::rdma_write}, 600);
  post({.opcode = Op::bind_mw, .bind = &first}, 8);
  post({.opcode = Op::rdma_read}, 600);
  post({.opcode = Op::local_inv, .fence = true, .invalidate_rkey = first.rkey}, 8);
  post({.opcode = Op::bind_mw, .bind = &second}, 8);
  post({.opcode = Op::atomic_fetch_and_add}, 8);
  post({.opcode = Op::send}, 300);
  w.run();
  std::string order;
  for (const WorkCompletion& wc : w.b.sends())
    order +=
        std::to_string(wc.wr_id) + " " + std::string(to_string(wc.status == fine ? wc.opcode : WcOpcode::recv)) + ", ";
  EXPECT_EQ(
      order,
      "1 rdma write, 2 bind memory window, 3 rdma read, 4 local invalidate, 5 bind memory window, 6 fetch and add, "
      "7 send, ")
      << what;
  EXPECT_EQ(statuses(w.a.recvs()), "9 success") << what;
  const std::size_t sent = w.sent;
  w.filter = {};
  EXPECT_EQ(w.write(second.rkey, 50), fine) << what;
  EXPECT_EQ(w.write(first.rkey, 50), denied) << what;
  return sent;
}

TEST(NicRoceWindow, WhateverPacketIsLostEachBindAndInvalidationIsExecutedOnceInItsOrder) {
  const std::size_t packets = run_with_loss([](std::size_t, Frame&) { return true; }, "no loss");
  ASSERT_GT(packets, 8U);
  for (std::size_t lost = 0; lost < packets; ++lost)
    for (const std::size_t more : {1U, 3U})
      run_with_loss([=](std::size_t at, Frame&) { return at < lost || at >= lost + more; },
                    std::to_string(more) + " lost from " + std::to_string(lost));
}

TEST(NicRoceWindow, WhatThePeerInvalidatedIsNotBoundAgainByARequesterThatGoesBack) {
  Windows w;
  Buffer peer(*w.a.device, w.a.pd, 1024);
  const MwBind bind = w.to_part(w.alloc(MwType::type_2));
  bool lost = true;
  w.filter = [&](std::size_t, Frame& frame) {
    return !lost || frame.to_b || frame.operation() != Operation::write_only;
  };
  const Sge sge = w.region.sge(200, 8);
  ASSERT_TRUE(w.b.qp->post_send(
      {.opcode = Op::rdma_write, .sges = {&sge, 1}, .remote_addr = peer.region.addr, .rkey = peer.region.rkey}));
  ASSERT_TRUE(Windows::post_bind(w.b, 1, bind));
  ASSERT_TRUE(w.b.recv(3, {}));
  w.transmit();
  ASSERT_TRUE(w.a.qp->post_send({.opcode = Op::send_with_inv, .invalidate_rkey = bind.rkey}));
  w.run(100us);
  EXPECT_EQ(statuses(w.b.recvs()), "3 success");
  EXPECT_EQ(statuses(w.b.sends()), "-");
  lost = false;
  w.run();
  EXPECT_EQ(statuses(w.b.sends()), "0 success, 1 success");
  EXPECT_GT(w.b.qp->counters().retries, 0U);
  EXPECT_FALSE(Windows::has_windows(w.b, w.region));
}

TEST(NicRoceWindow, AFencedBindWaitsForTheReadBeforeIt) {
  for (const bool fence : {true, false}) {
    Windows w;
    const MwBind bind = w.to_part(w.alloc(MwType::type_1));
    const Buffer into(*w.b.device, w.b.pd, 8);
    const Sge sge = into.all();
    ASSERT_TRUE(w.b.qp->post_send(
        {.opcode = Op::rdma_read, .sges = {&sge, 1}, .remote_addr = w.from.region.addr, .rkey = w.from.region.rkey}));
    ASSERT_TRUE(w.b.qp->post_send({.wr_id = 1, .opcode = Op::bind_mw, .fence = fence, .bind = &bind}));
    w.transmit();
    EXPECT_EQ(Windows::has_windows(w.b, w.region), !fence);
    EXPECT_EQ(w.b.send_cq->size(), 0U);
    w.run();
    EXPECT_EQ(statuses(w.b.sends()), "0 success, 1 success");
    EXPECT_TRUE(Windows::has_windows(w.b, w.region));
  }
}

TEST(NicRoceWindow, InSqdNoBindBegins) {
  Windows w;
  const MwBind bind = w.to_part(w.alloc(MwType::type_1));
  ASSERT_TRUE(w.b.qp->modify({.state = QpState::sqd}));
  ASSERT_TRUE(Windows::post_bind(w.b, 1, bind));
  w.run();
  EXPECT_FALSE(Windows::has_windows(w.b, w.region));
  ASSERT_TRUE(w.b.qp->modify({.state = QpState::rts}));
  w.run();
  EXPECT_TRUE(Windows::has_windows(w.b, w.region));
}

TEST(NicRoceWindow, ARegionWithWindowsStaysAsItIs) {
  Windows w;
  const MemoryWindow window = w.alloc(MwType::type_2);
  const std::uint32_t rkey = w.bind(w.to_part(window)), lkey = w.region.region.lkey;
  ASSERT_TRUE(w.b.recv(1, {w.region.sge(0, 8)}));
  for (const auto& refused : {w.b.device->dereg_mr(lkey), w.b.device->withdraw_mr(lkey),
                              w.b.device->rereg_mr(lkey, {.memory = MutBytes(w.from.memory)})}) {
    EXPECT_EQ(refused.error(), Errc::wrong_state);
    EXPECT_EQ(refused.error().sentence(),
              "1 memory windows are bound to the memory region; unbind or deallocate them first");
  }
  EXPECT_FALSE(w.b.device->dealloc_pd(w.b.pd));
  EXPECT_EQ(w.b.qp->state(), QpState::rts);
  EXPECT_EQ(w.write(rkey, 50), fine);
  EXPECT_TRUE(w.b.device->dealloc_mw(window.handle));
  EXPECT_TRUE(w.b.device->withdraw_mr(lkey));
}

TEST(NicRoceWindow, WhatNoQueuePairCanExecuteIsRefusedWhenPosted) {
  Windows w;
  Side& b = w.b;
  const MwBind two = w.to_part(w.alloc(MwType::type_2));
  const auto refused = [](const Result<void>& done, Errc code, const char* sentence) {
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error(), code);
    EXPECT_NE(done.error().sentence().find(sentence), std::string::npos) << done.error().sentence();
  };
  refused(b.qp->post_send({.opcode = Op::bind_mw}), Errc::invalid_argument, "SendWr::bind is null");
  refused(b.qp->post_send({.opcode = Op::local_inv}), Errc::invalid_argument, "SendWr::invalidate_rkey is 0");
  refused(b.qp->post_send({.opcode = Op::bind_mw, .solicited = true, .bind = &two}), Errc::invalid_argument,
          "SendWr::solicited");
  for (const auto& [type, sentence] :
       {std::pair{QpType::ud, "datagrams reach no memory"}, {QpType::xrc_ini, "of type 2"}}) {
    World other;
    if (type == QpType::ud) {
      other.connect({.type = type});
    } else {
      other.b.make(type);
      ASSERT_TRUE(other.b.qp->modify(init_attr({.type = type})));
      ASSERT_TRUE(other.b.qp->modify(rtr_attr({.type = type}, 99, gid_v4(1), 0)));
      ASSERT_TRUE(other.b.qp->modify(rts_attr({.type = type}, 0)));
    }
    const auto window = other.b.device->alloc_mw(other.b.pd, MwType::type_2).value();
    const MwBind bind{.window = window.handle, .rkey = window.rkey};
    refused(Windows::post_bind(other.b, 1, bind), Errc::unsupported, sentence);
  }
  EXPECT_EQ(b.device->alloc_mw(b.pd, static_cast<MwType>(3)).error(), Errc::invalid_argument);
  EXPECT_EQ(b.device->alloc_mw(77, MwType::type_1).error(), Errc::invalid_argument);
  EXPECT_GT(b.device->query().max_mw, 1000U);
}

}  // namespace
}  // namespace parley::nic::roce::test::roce_window_test
