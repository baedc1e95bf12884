// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Messages from one queue pair to another: they arrive once, in order, unchanged, however TCP cuts the stream.
#include "test_pair.hpp"

namespace parley::nic::iwarp::test {
namespace {

TEST(NicTransfer, SendReachesThePostedReceive) {
  Pair p;
  Buffer from(*p.a.device, p.a.pd, 64), to(*p.b.device, p.b.pd, 100);
  from.fill(1);
  p.connect();
  ASSERT_TRUE(p.b.recv(7, {to.all()}).has_value());
  ASSERT_TRUE(p.a.send(3, {from.all()}).has_value());
  p.run();
  const auto sent = p.a.sends(), received = p.b.recvs();
  ASSERT_EQ(sent.size(), 1U);
  EXPECT_EQ(sent[0].wr_id, 3U);
  EXPECT_EQ(sent[0].status, WcStatus::success);
  ASSERT_EQ(received.size(), 1U);
  EXPECT_EQ(received[0].wr_id, 7U);
  EXPECT_EQ(received[0].opcode, WcOpcode::recv);
  EXPECT_EQ(received[0].byte_len, 64U);
  EXPECT_TRUE(std::equal(from.memory.begin(), from.memory.end(), to.memory.begin()));
}

TEST(NicTransfer, WriteThenReadBack) {
  Pair p;
  Buffer from(*p.a.device, p.a.pd, 100000), remote(*p.b.device, p.b.pd, 100000), back(*p.a.device, p.a.pd, 100000);
  from.fill(2);
  p.connect();
  const Sge source = from.all(), sink = back.all();
  ASSERT_TRUE(p.a.qp
                  ->post_send({.wr_id = 1,
                               .opcode = SendWr::Opcode::rdma_write,
                               .sges = {&source, 1},
                               .remote_addr = remote.region.addr,
                               .rkey = remote.region.rkey})
                  .has_value());
  ASSERT_TRUE(p.a.qp
                  ->post_send({.wr_id = 2,
                               .opcode = SendWr::Opcode::rdma_read,
                               .sges = {&sink, 1},
                               .remote_addr = remote.region.addr,
                               .rkey = remote.region.rkey})
                  .has_value());
  p.run();
  const auto done = p.a.sends();
  ASSERT_EQ(done.size(), 2U);
  EXPECT_EQ(done[0].status, WcStatus::success);
  EXPECT_EQ(done[1].status, WcStatus::success);
  EXPECT_EQ(done[1].byte_len, 100000U);
  EXPECT_EQ(remote.memory, from.memory);
  EXPECT_EQ(back.memory, from.memory);
}

Result<void> post(Side& side, SendWr wr, std::vector<Sge> sges = {}) {
  wr.sges = sges;
  return side.qp->post_send(wr);
}

class EverySplit : public testing::TestWithParam<bool> {};  // markers

// The stream of a mixed conversation, cut into every size, and with every size of gather list.
TEST_P(EverySplit, OfTheStreamGivesTheSameMemoryAndCompletions) {
  for (std::size_t size = 1; size <= 1600; size = size < 80 ? size + 1 : size + 97) {
    SCOPED_TRACE(size);
    Pair p;
    p.cut = p.write = pieces_of(size);
    p.a.list_max = p.b.list_max = 1 + size % 7;
    Buffer a(*p.a.device, p.a.pd, 8192), b(*p.b.device, p.b.pd, 8192);
    a.fill(size);
    p.connect([](AttachOptions& x, AttachOptions& y) {
      x.parameters.tx_markers = x.parameters.rx_markers = y.parameters.tx_markers = y.parameters.rx_markers =
          GetParam();
    });
    ASSERT_TRUE(p.b.recv(1, {b.sge(0, 100), b.sge(100, 2000)}).has_value());
    ASSERT_TRUE(p.a.send(2, {a.sge(0, 700), a.sge(700, 1), a.sge(701, 1000)}).has_value());
    ASSERT_TRUE(post(p.a,
                     {.wr_id = 3,
                      .opcode = SendWr::Opcode::rdma_write,
                      .remote_addr = b.region.addr + 3000,
                      .rkey = b.region.rkey},
                     {a.sge(2000, 2000)})
                    .has_value());
    ASSERT_TRUE(post(p.a,
                     {.wr_id = 4,
                      .opcode = SendWr::Opcode::rdma_read,
                      .fence = true,
                      .remote_addr = b.region.addr + 3000,
                      .rkey = b.region.rkey},
                     {a.sge(5000, 2000)})
                    .has_value());
    p.run();
    ASSERT_EQ(p.a.sends().size(), 3U);
    const auto received = p.b.recvs();
    ASSERT_EQ(received.size(), 1U);
    EXPECT_EQ(received[0].byte_len, 1701U);
    EXPECT_TRUE(std::equal(a.memory.begin(), a.memory.begin() + 1701, b.memory.begin()));
    EXPECT_TRUE(std::equal(a.memory.begin() + 2000, a.memory.begin() + 4000, b.memory.begin() + 3000));
    EXPECT_TRUE(std::equal(a.memory.begin() + 2000, a.memory.begin() + 4000, a.memory.begin() + 5000));
  }
}
INSTANTIATE_TEST_SUITE_P(NicTransfer, EverySplit, testing::Bool(),
                         [](const auto& markers) { return markers.param ? "markers" : "no_markers"; });

// RFC 5041 §5.2, RFC 5044 §4.5.
TEST(Conformance, Row67_SegmentsAreAtMostMulpdu) {
  for (const int mss : {536, 1220, 1428, 1440, 1448, 1460, 4096, 8948, 8960, 65483}) {
    const auto emss = static_cast<std::uint16_t>(mss);
    for (const bool markers : {false, true}) {
      Side side;
      Buffer from(*side.device, side.pd, 200000);
      AttachOptions options = attach_options(mpa::Role::initiator);
      options.emss = emss;
      options.parameters.tx_markers = markers;
      ASSERT_TRUE(side.qp->attach(options).has_value());
      ASSERT_TRUE(side.send(1, {from.all()}).has_value());
      mpa::Deframer deframer({.crc = true, .markers = markers, .emss = emss});
      const Bytes out = side.transmit_all();
      deframer.feed(out);
      mpa::FpduView view;
      std::size_t octets = 0, largest = 0;
      while (deframer.next(view) == mpa::DeframeStatus::fpdu) {
        octets += view.ulpdu_length - 18U;
        largest = std::max<std::size_t>(largest, view.ulpdu_length);
      }
      EXPECT_EQ(octets, 200000U);
      EXPECT_EQ(largest, std::min<std::size_t>(mpa::mulpdu_of(emss, markers), 16384 + 18));
    }
  }
}

// RFC 5041 §5.2: MULPDU 1498 leaves 1480 octets beside the untagged header.
// The source of a Read belongs to neither side while its Response waits for TCP: the owner does not know of the Read,
// the reader may write there. The CRC stays that of the octets sent (RFC 5044 §4.4), so the connection lives on.
TEST(NicTransfer, MemoryThatChangesUnderAWaitingReadResponseBreaksNothing) {
  for (const std::size_t size : {std::size_t{100}, std::size_t{5000}, std::size_t{400000}}) {
    Pair p;
    Buffer remote(*p.b.device, p.b.pd, size), back(*p.a.device, p.a.pd, size);
    remote.fill(9);
    p.connect();
    ASSERT_TRUE(post(p.a,
                     {.wr_id = 1,
                      .opcode = SendWr::Opcode::rdma_read,
                      .remote_addr = remote.region.addr,
                      .rkey = remote.region.rkey},
                     {back.all()})
                    .has_value());
    p.b.qp->handle_bytes(p.a.transmit_all());
    std::vector<ConstBytes> framed(64);
    ASSERT_GT(p.b.qp->gather(framed), 0U);  // TCP takes nothing yet
    remote.fill(10);
    p.run();
    const auto done = p.a.sends();
    ASSERT_EQ(done.size(), 1U) << size;
    EXPECT_EQ(done[0].status, WcStatus::success) << size;
    EXPECT_FALSE(p.a.qp->terminate().has_value()) << size;
  }
}

TEST(NicTransfer, SegmentsAreFilledToTheMulpdu) {
  Side side;
  Buffer from(*side.device, side.pd, 2048);
  AttachOptions options = attach_options(mpa::Role::initiator);
  options.emss = 1506;  // RFC 5044 §4.5: 1506 - 6 - 2
  ASSERT_EQ(mpa::mulpdu_of(options.emss, false), 1498);
  ASSERT_TRUE(side.qp->attach(options).has_value());
  ASSERT_TRUE(side.send(1, {from.all()}).has_value());
  const std::string out = hex(side.transmit_all());
  EXPECT_EQ(out.substr(0, 8), "05da0143");
  const std::size_t second = 2 * (2 + 1498 + 4);
  EXPECT_EQ(out.substr(second + 4, 4), "4143");
  EXPECT_EQ(out.substr(second + 4 + 28, 8), "000005c8");  // MO 1480
}

TEST(NicTransfer, SendVariantsSaySolicitedAndInvalidate) {
  Pair p;
  Buffer from(*p.a.device, p.a.pd, 8), to(*p.b.device, p.b.pd, 64), window(*p.b.device, p.b.pd, 16);
  p.connect();
  for (std::uint64_t i = 0; i < 4; ++i) ASSERT_TRUE(p.b.recv(i, {to.all()}).has_value());
  ASSERT_TRUE(post(p.a, {.solicited = true}, {from.all()}).has_value());
  ASSERT_TRUE(post(p.a, {.opcode = SendWr::Opcode::send_with_inv, .invalidate_rkey = window.region.rkey}, {from.all()})
                  .has_value());
  p.run();
  auto received = p.b.recvs();
  ASSERT_EQ(received.size(), 2U);
  EXPECT_TRUE(received[0].solicited);
  EXPECT_FALSE(received[0].with_inv);
  EXPECT_EQ(received[0].invalidated_rkey, 0U);
  EXPECT_FALSE(received[1].solicited);
  EXPECT_TRUE(received[1].with_inv);
  EXPECT_EQ(received[1].invalidated_rkey, window.region.rkey);
  // The region is closed to everybody now, but still has to be given back.
  EXPECT_EQ(p.b.recv(9, {window.all()}).error(), make_error_code(Errc::protection));
  EXPECT_TRUE(p.b.device->dereg_mr(window.region.lkey).has_value());
  Buffer again(*p.b.device, p.b.pd, 16);
  ASSERT_TRUE(post(p.a,
                   {.opcode = SendWr::Opcode::send_with_inv, .solicited = true, .invalidate_rkey = again.region.rkey},
                   {from.all()})
                  .has_value());
  p.run();
  received = p.b.recvs();
  ASSERT_EQ(received.size(), 1U);
  EXPECT_TRUE(received[0].solicited);
  EXPECT_EQ(received[0].invalidated_rkey, again.region.rkey);
}

// RFC 5041 §4.3: the Invalidate STag is the same in all segments of a message, and a receiver may read it in any.
TEST(NicTransfer, ALongSendWithInvalidateInvalidatesAtItsEnd) {
  Pair p;
  Buffer from(*p.a.device, p.a.pd, 8000), to(*p.b.device, p.b.pd, 8000), window(*p.b.device, p.b.pd, 16);
  p.connect();
  ASSERT_TRUE(p.b.recv(1, {to.all()}).has_value());
  ASSERT_TRUE(post(p.a, {.opcode = SendWr::Opcode::send_with_inv, .invalidate_rkey = window.region.rkey}, {from.all()})
                  .has_value());
  p.run();
  const auto received = p.b.recvs();
  ASSERT_EQ(received.size(), 1U);
  EXPECT_EQ(received[0].status, WcStatus::success);
  EXPECT_EQ(received[0].byte_len, 8000U);
  EXPECT_EQ(received[0].invalidated_rkey, window.region.rkey);
  EXPECT_EQ(p.b.recv(2, {window.all()}).error(), make_error_code(Errc::protection));
}

// RFC 5040 §4.1: in the other Sends the word is reserved: nothing is invalidated, whatever it holds.
TEST(NicTransfer, AWordInThePlaceOfTheInvalidateStagOfAPlainSendIsIgnored) {
  Solo solo;
  Buffer window(*solo.side.device, solo.side.pd, 16);
  ASSERT_TRUE(solo.side.recv(1, {solo.buffer.all()}).has_value());
  EXPECT_EQ(solo.feed("4143" + Solo::hex32(window.region.rkey) + "00000000 00000001 00000000 aabb"), "");
  const auto received = solo.side.recvs();
  ASSERT_EQ(received.size(), 1U);
  EXPECT_EQ(received[0].status, WcStatus::success);
  EXPECT_FALSE(received[0].with_inv);
  EXPECT_EQ(received[0].invalidated_rkey, 0U);
  EXPECT_TRUE(solo.side.recv(2, {window.all()}).has_value());
}

// RFC 7306 §6.
TEST(NicTransfer, ImmediateDataArrivesInTheCompletion) {
  Pair p;
  Buffer to(*p.b.device, p.b.pd, 64);
  p.connect();
  ASSERT_TRUE(p.b.recv(1, {}).has_value());
  ASSERT_TRUE(p.b.recv(2, {to.all()}).has_value());
  ASSERT_TRUE(p.a.qp->post_immediate({.data = 0x0102030405060708}).has_value());
  ASSERT_TRUE(p.a.qp->post_immediate({.data = 9, .solicited = true}).has_value());
  p.run();
  const auto received = p.b.recvs();
  ASSERT_EQ(received.size(), 2U);
  EXPECT_EQ(received[0].opcode, WcOpcode::iwarp_recv_immediate);
  EXPECT_EQ(parley::iwarp::immediate_data(received[0]), 0x0102030405060708U);
  EXPECT_FALSE(received[0].solicited);
  EXPECT_EQ(parley::iwarp::immediate_data(received[1]), 9U);
  EXPECT_TRUE(received[1].solicited);
}

TEST(NicTransfer, ImmediateDataIsRefusedLikeAnyRequest) {
  Side side(false, 1);
  const auto none = side.device->create_cq(1).value();
  ASSERT_TRUE(side.qp->post_immediate({.wr_id = 1, .signaled = false}));
  EXPECT_EQ(side.qp->post_immediate({}).error(), Errc::no_space);
  side.qp->flush();
  const auto done = side.sends();
  ASSERT_EQ(done.size(), 1U);
  EXPECT_EQ(done[0].opcode, WcOpcode::iwarp_immediate);
  EXPECT_EQ(done[0].status, WcStatus::wr_flush_err);
  EXPECT_EQ(side.qp->post_immediate({}).error(), Errc::wrong_state);
  auto narrow = side.device->create_stream_qp({.pd = side.pd, .send_cq = none.get(), .recv_cq = none.get()}).value();
  ASSERT_TRUE(narrow->post_immediate({}));
  EXPECT_EQ(narrow->post_immediate({}).error(), Errc::no_space) << "the completion queue holds one";
}

TEST(NicTransfer, ZeroLengthMessagesOfEveryKind) {
  Pair p;
  p.connect();
  ASSERT_TRUE(p.b.recv(1, {}).has_value());
  ASSERT_TRUE(post(p.a, {.wr_id = 1}).has_value());
  ASSERT_TRUE(post(p.a, {.wr_id = 2, .opcode = SendWr::Opcode::rdma_write}).has_value());
  ASSERT_TRUE(post(p.a, {.wr_id = 3, .opcode = SendWr::Opcode::rdma_read}).has_value());
  p.run();
  const auto done = p.a.sends();
  ASSERT_EQ(done.size(), 3U);
  for (const auto& completion : done) EXPECT_EQ(completion.status, WcStatus::success);
  EXPECT_EQ(p.b.recvs().at(0).byte_len, 0U);
}

TEST(NicTransfer, ReadsBeyondOrdWaitTheirTurn) {
  Pair p;
  Buffer remote(*p.b.device, p.b.pd, 4096), sink(*p.a.device, p.a.pd, 4096);
  remote.fill(5);
  p.connect([](AttachOptions& a, AttachOptions& b) { a.parameters.ord = b.parameters.ird = 3; });
  for (std::uint64_t i = 0; i < 64; ++i)
    ASSERT_TRUE(post(p.a,
                     {.wr_id = i,
                      .opcode = SendWr::Opcode::rdma_read,
                      .remote_addr = remote.region.addr + 64 * i,
                      .rkey = remote.region.rkey},
                     {sink.sge(64 * i, 64)})
                    .has_value());
  p.run();
  const auto done = p.a.sends();
  ASSERT_EQ(done.size(), 64U);
  for (std::uint64_t i = 0; i < 64; ++i) EXPECT_EQ(done[i].wr_id, i);
  EXPECT_EQ(sink.memory, remote.memory);
}

TEST(NicTransfer, AFencedRequestWaitsForEarlierReads) {
  Side side;
  Buffer buffer(*side.device, side.pd, 64);
  ASSERT_TRUE(side.qp->attach(attach_options(mpa::Role::initiator)).has_value());
  ASSERT_TRUE(post(side, {.opcode = SendWr::Opcode::rdma_read}).has_value());
  ASSERT_TRUE(post(side, {.fence = true}, {buffer.sge(0, 4)}).has_value());
  EXPECT_EQ(side.transmit_all().size(), 52U);
  EXPECT_FALSE(side.qp->has_transmit());
  side.qp->handle_bytes(unhex("000ec142 00000000 0000000000000000 6975d6ca"));
  EXPECT_EQ(side.transmit_all().size(), 28U);
}

// Responses and own work take turns, message by message.
TEST(NicTransfer, ResponsesAreNotStarvedByOwnSends) {
  Pair p;
  Buffer remote(*p.b.device, p.b.pd, 64), sink(*p.a.device, p.a.pd, 64);
  p.connect();
  for (std::uint64_t i = 0; i < 20; ++i) {
    ASSERT_TRUE(p.a.recv(i, {sink.all()}).has_value());
    ASSERT_TRUE(p.b.send(i, {remote.all()}).has_value());
  }
  ASSERT_TRUE(post(p.a, {.opcode = SendWr::Opcode::rdma_read}).has_value());
  p.b.qp->handle_bytes(p.a.transmit_all());
  p.b.list_max = 4;
  EXPECT_NE(hex(p.b.transmit_all()).substr(0, 2 * (92 + 92 + 20)).find("c142"), std::string::npos);
}

// The peer keeps as many Reads under way as it may, and asks again for each that is answered: own Sends go between.
TEST(NicTransfer, OwnSendsAreNotStarvedByAPeerThatKeepsReading) {
  Pair p;
  Buffer remote(*p.b.device, p.b.pd, 65536),
      sink(*p.a.device, p.a.pd, 65536);  // 8 of them are more than is framed ahead
  p.connect();
  const SendWr read{.opcode = SendWr::Opcode::rdma_read, .remote_addr = remote.region.addr, .rkey = remote.region.rkey};
  for (std::uint64_t i = 0; i < 10; ++i) {
    ASSERT_TRUE(p.a.recv(i, {sink.all()}).has_value());
    ASSERT_TRUE(p.b.send(i, {remote.sge(0, 64)}).has_value());
  }
  p.b.list_max = 1024;
  std::size_t answered = 0, arrived = 0;
  for (int turn = 0; turn < 40 && arrived < 10; ++turn) {
    while (post(p.a, read, {sink.all()}).has_value()) {
    }
    p.b.qp->handle_bytes(p.a.transmit_all());
    p.a.qp->handle_bytes(p.b.transmit(65536));
    answered += p.a.sends().size();
    arrived += p.a.recvs().size();
  }
  EXPECT_EQ(arrived, 10U) << answered << " Reads were answered meanwhile";
  EXPECT_GE(answered, 9U) << "and the Reads between them";
}

TEST(NicTransfer, AtomicsOnTheOtherSidesMemory) {
  Pair p;
  Buffer counter(*p.b.device, p.b.pd, 16), result(*p.a.device, p.a.pd, 32);
  const auto load = [](const Buffer& buffer, std::size_t at) {
    std::uint64_t value = 0;
    std::memcpy(&value, buffer.memory.data() + at, 8);
    return value;
  };
  p.connect();
  const SendWr add{.opcode = SendWr::Opcode::atomic_fetch_and_add,
                   .remote_addr = counter.region.addr + 8,
                   .rkey = counter.region.rkey,
                   .compare_add = 5};
  ASSERT_TRUE(post(p.a, add, {result.sge(0, 8)}).has_value());
  ASSERT_TRUE(post(p.a, add, {result.sge(8, 8)}).has_value());
  SendWr swap = add;
  swap.opcode = SendWr::Opcode::masked_atomic_cmp_and_swp;
  swap.compare_add = 10;
  swap.compare_add_mask = ~0ULL;
  swap.swap = 0xAB00;
  swap.swap_mask = 0xFF00;
  ASSERT_TRUE(post(p.a, swap, {result.sge(16, 8)}).has_value());
  ASSERT_TRUE(post(p.a, swap, {result.sge(24, 8)}).has_value());  // no longer 10
  p.run();
  const auto done = p.a.sends();
  ASSERT_EQ(done.size(), 4U);
  EXPECT_EQ(done[0].opcode, WcOpcode::fetch_add);
  EXPECT_EQ(done[2].opcode, WcOpcode::comp_swap);
  EXPECT_EQ(done[3].byte_len, 8U);
  EXPECT_EQ(load(result, 0), 0U);
  EXPECT_EQ(load(result, 8), 5U);
  EXPECT_EQ(load(result, 16), 10U);
  EXPECT_EQ(load(result, 24), 0xAB0AU);
  EXPECT_EQ(load(counter, 8), 0xAB0AU);
  EXPECT_EQ(load(counter, 0), 0U);
}

// RFC 7306 §5.1.2: without masks the whole of 64 bits is compared, and the whole of them swapped.
TEST(NicTransfer, CompareAndSwapWithoutMasksSwapsEveryBit) {
  Pair p;
  Buffer result(*p.a.device, p.a.pd, 8), counter(*p.b.device, p.b.pd, 8);
  p.connect();
  const SendWr swap{.opcode = SendWr::Opcode::atomic_cmp_and_swp,
                    .remote_addr = counter.region.addr,
                    .rkey = counter.region.rkey,
                    .compare_add = 0,
                    .swap = ~0ULL};
  ASSERT_TRUE(post(p.a, swap, {result.sge(0, 8)}).has_value());
  p.run();
  EXPECT_EQ(counter.memory, Bytes(8, 0xFF));
  SendWr back = swap;
  back.compare_add = ~0ULL ^ 1;  // one bit differs: nothing is swapped
  back.swap = 0;
  ASSERT_TRUE(post(p.a, back, {result.sge(0, 8)}).has_value());
  p.run();
  EXPECT_EQ(counter.memory, Bytes(8, 0xFF));
}

// RFC 5041 §4.3: after MSN FFFFFFFF comes 0. The queue pairs start close to it.
TEST(Conformance, Row62_MsnWrap) {
  Pair p;
  Buffer a(*p.a.device, p.a.pd, 64), b(*p.b.device, p.b.pd, 64);
  p.connect([](AttachOptions& x, AttachOptions& y) { x.first_msn = y.first_msn = 0xFFFFFFFE; });
  for (std::uint64_t i = 0; i < 6; ++i) {
    ASSERT_TRUE(p.b.recv(i, {b.all()}).has_value());
    ASSERT_TRUE(p.a.send(i, {a.sge(0, 8)}).has_value());
    ASSERT_TRUE(
        post(p.a, {.opcode = SendWr::Opcode::atomic_fetch_and_add, .remote_addr = b.region.addr, .rkey = b.region.rkey},
             {a.sge(8, 8)})
            .has_value());
  }
  p.run();
  EXPECT_EQ(p.b.recvs().size(), 6U);
  EXPECT_EQ(p.a.sends().size(), 12U);
  EXPECT_EQ(p.a.qp->state(), QpState::rts);
}

// RFC 5044 §7.2: the peer's FIN ends what it sends, not what it receives.
TEST(Conformance, Row64_HalfClose) {
  Pair p;
  Buffer a(*p.a.device, p.a.pd, 64), b(*p.b.device, p.b.pd, 64);
  p.connect();
  ASSERT_TRUE(p.a.recv(1, {a.all()}).has_value());
  ASSERT_TRUE(p.b.recv(2, {b.all()}).has_value());
  p.a.qp->begin_close();
  EXPECT_TRUE(p.a.qp->drained());
  p.b.qp->handle_end(false);
  EXPECT_EQ(p.b.qp->state(), QpState::rts);
  EXPECT_EQ(p.b.recvs().at(0).status, WcStatus::wr_flush_err);
  ASSERT_TRUE(p.b.send(3, {b.sge(0, 5)}).has_value());
  EXPECT_EQ(post(p.b, {.opcode = SendWr::Opcode::rdma_read}).error(), make_error_code(Errc::wrong_state));
  p.run();
  EXPECT_EQ(p.a.recvs().at(0).byte_len, 5U);
  EXPECT_EQ(p.b.sends().at(0).status, WcStatus::success);
  p.b.qp->begin_close();
  EXPECT_TRUE(p.b.qp->drained());
}

TEST(NicTransfer, AFinFlushesReadsInTheirTurn) {
  Side side;
  Buffer buffer(*side.device, side.pd, 64);
  ASSERT_TRUE(side.qp->attach(attach_options(mpa::Role::initiator, 1)).has_value());
  ASSERT_TRUE(post(side, {.wr_id = 1}, {buffer.sge(0, 4)}).has_value());
  ASSERT_TRUE(post(side, {.wr_id = 2, .opcode = SendWr::Opcode::rdma_read}).has_value());
  ASSERT_TRUE(post(side, {.wr_id = 3, .opcode = SendWr::Opcode::rdma_read}).has_value());
  ASSERT_TRUE(post(side, {.wr_id = 4}, {buffer.sge(0, 4)}).has_value());
  side.transmit_all();
  side.qp->handle_end(false);
  side.transmit_all();
  const auto done = side.sends();
  ASSERT_EQ(done.size(), 4U);
  for (std::uint64_t i = 0; i < 4; ++i) {
    EXPECT_EQ(done[i].wr_id, i + 1);
    EXPECT_EQ(done[i].status, i == 1 || i == 2 ? WcStatus::wr_flush_err : WcStatus::success);
  }
}

TEST(NicTransfer, AFinInsideAnFpduOrAMessageIsAFailure) {
  Solo in_fpdu, in_message;
  in_fpdu.side.qp->handle_bytes(unhex("0012 4143"));
  in_fpdu.side.qp->handle_end(false);
  EXPECT_TRUE(in_fpdu.side.saw(QpEvent::Kind::failed));
  ASSERT_TRUE(in_message.side.recv(1, {in_message.buffer.all()}).has_value());
  in_message.feed("0143 00000000 00000000 00000001 00000000 aa");
  in_message.side.qp->handle_end(false);
  EXPECT_TRUE(in_message.side.saw(QpEvent::Kind::failed));
  EXPECT_EQ(in_message.side.recvs().at(0).status, WcStatus::wr_flush_err);
}

TEST(NicTransfer, ClosingSendsWhatIsPostedAndAnswersWhatIsAsked) {
  Pair p;
  Buffer a(*p.a.device, p.a.pd, 64), b(*p.b.device, p.b.pd, 64);
  p.connect();
  ASSERT_TRUE(p.b.recv(1, {b.all()}).has_value());
  ASSERT_TRUE(post(p.a, {.wr_id = 1, .opcode = SendWr::Opcode::rdma_read}).has_value());
  ASSERT_TRUE(p.a.send(2, {a.all()}).has_value());
  p.a.qp->begin_close();
  EXPECT_EQ(p.a.send(3, {a.all()}).error(), make_error_code(Errc::wrong_state));
  EXPECT_FALSE(p.a.qp->drained());
  p.run();
  EXPECT_TRUE(p.a.qp->drained());
  EXPECT_EQ(p.a.sends().size(), 2U);
  EXPECT_EQ(p.b.recvs().size(), 1U);
}

TEST(NicTransfer, ASendCompletesWhenTcpHasItsLastOctet) {
  Side side;
  Buffer from(*side.device, side.pd, 3000);
  ASSERT_TRUE(side.qp->attach(attach_options(mpa::Role::initiator)).has_value());
  ASSERT_TRUE(side.send(1, {from.all()}).has_value());
  std::size_t octets = 0;
  while (true) {
    const std::size_t n = side.transmit(7).size();
    if (n == 0) break;
    octets += n;
    if (side.qp->has_transmit()) {
      ASSERT_TRUE(side.sends().empty()) << octets;
    }
  }
  EXPECT_EQ(side.sends().size(), 1U);
}

// Neighbours in memory go to TCP as one piece, so that a list of a few pieces carries many small messages.
TEST(NicTransfer, SmallMessagesThatFollowEachOtherLeaveInOnePiece) {
  Side side;
  Buffer from(*side.device, side.pd, 8);
  ASSERT_TRUE(side.qp->attach(attach_options(mpa::Role::initiator)).has_value());
  for (std::uint64_t i = 0; i < 3; ++i) ASSERT_TRUE(side.send(i, {from.all()}).has_value());
  std::vector<ConstBytes> list(16);
  EXPECT_EQ(side.qp->gather(list), 1U);
  EXPECT_EQ(list[0].size(), 3 * (2 + 18 + 8 + 4U));
}

TEST(NicTransfer, UnsignaledSendsLeaveNoCompletionUnlessTheyFail) {
  Side side;
  Buffer from(*side.device, side.pd, 8);
  ASSERT_TRUE(side.qp->attach(attach_options(mpa::Role::initiator)).has_value());
  ASSERT_TRUE(post(side, {.wr_id = 1, .signaled = false}, {from.all()}).has_value());
  side.transmit_all();
  EXPECT_TRUE(side.sends().empty());
  ASSERT_TRUE(post(side, {.wr_id = 2, .signaled = false}, {from.all()}).has_value());
  side.qp->flush();
  EXPECT_EQ(side.sends().at(0).wr_id, 2U);
}

TEST(NicTransfer, ASharedReceiveQueueServesItsQueuePairsInOrder) {
  Pair p(true);
  Buffer a(*p.a.device, p.a.pd, 8), b(*p.b.device, p.b.pd, 64);
  p.connect();
  for (std::uint64_t i = 0; i < 3; ++i) {
    const Sge sge = b.sge(8 * i, 8);
    ASSERT_TRUE(p.b.srq->post_recv({.wr_id = i, .sges = {&sge, 1}}).has_value());
  }
  EXPECT_EQ(p.b.recv(9, {b.all()}).error(), make_error_code(Errc::invalid_argument));
  ASSERT_TRUE(p.a.send(1, {a.all()}).has_value());
  ASSERT_TRUE(p.a.send(2, {a.all()}).has_value());
  p.run();
  EXPECT_EQ(p.b.srq->available(), 1U);
  const auto received = p.b.recvs();
  ASSERT_EQ(received.size(), 2U);
  EXPECT_EQ(received[1].wr_id, 1U);
  // What nobody took stays in the shared queue when the queue pair ends.
  p.b.qp->flush();
  EXPECT_TRUE(p.b.recvs().empty());
  EXPECT_EQ(p.b.srq->available(), 1U);
}

// A receive that a message took out of the shared queue is the queue pair's: it completes, whatever becomes of them.
TEST(NicTransfer, AMessageCutShortGivesItsSharedReceiveBackAsFlushed) {
  Pair p(true);
  Buffer from(*p.a.device, p.a.pd, 8000), to(*p.b.device, p.b.pd, 8000);
  p.connect();
  for (std::uint64_t i = 1; i <= 2; ++i) {
    const Sge sge = to.all();
    ASSERT_TRUE(p.b.srq->post_recv({.wr_id = i, .sges = {&sge, 1}}).has_value());
  }
  ASSERT_TRUE(p.a.send(7, {from.all()}).has_value());
  const Bytes all = p.a.transmit_all();
  p.b.qp->handle_bytes(ConstBytes(all).first(4000));
  EXPECT_EQ(p.b.srq->available(), 1U);
  p.b.qp->flush();
  const auto received = p.b.recvs();
  ASSERT_EQ(received.size(), 1U);
  EXPECT_EQ(received[0].wr_id, 1U);
  EXPECT_EQ(received[0].status, WcStatus::wr_flush_err);
  EXPECT_EQ(p.b.srq->available(), 1U);
  p.b.srq.reset();  // with the receive that nobody took
  EXPECT_TRUE(p.b.device->dereg_mr(to.region.lkey).has_value()) << "nothing holds the memory any more";
}

TEST(NicTransfer, ReadsPostedBeforeAConnectionWithoutOrdFailInTheirTurn) {
  Side side;
  Buffer from(*side.device, side.pd, 8);
  ASSERT_TRUE(post(side, {.wr_id = 1}, {from.all()}).has_value());
  ASSERT_TRUE(post(side, {.wr_id = 2, .opcode = SendWr::Opcode::rdma_read}).has_value());
  ASSERT_TRUE(side.qp->attach(attach_options(mpa::Role::initiator, 0)).has_value());
  EXPECT_EQ(post(side, {.opcode = SendWr::Opcode::rdma_read}).error(), make_error_code(Errc::insufficient_ird));
  side.transmit_all();
  const auto done = side.sends();
  ASSERT_EQ(done.size(), 2U);
  EXPECT_EQ(done[0].status, WcStatus::success);
  EXPECT_EQ(done[1].status, WcStatus::loc_qp_op_err);
}

}  // namespace
}  // namespace parley::nic::iwarp::test
