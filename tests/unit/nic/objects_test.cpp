// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Verbs objects: every handle is checked, every queue bounded, and no order of destruction reaches freed memory.
#include <set>

#include "nic/common/objects.hpp"
#include "nic/iwarp/atomics.hpp"
#include "test_pair.hpp"

namespace parley::nic::iwarp::test {
namespace {

std::error_code code(Errc e) { return make_error_code(e); }

TEST(NicObjects, StagsAreNeverZeroAndTheKeyTellsAStaleOne) {
  auto device = make_device();
  const PdHandle pd = device->alloc_pd().value();
  Bytes memory(16);
  const std::uint32_t first = device->reg_mr(pd, memory, Access::local_write)->rkey;
  EXPECT_GT(first, 0xFFU);
  for (int i = 0; i < 600; ++i) {
    const std::uint32_t stag = device->reg_mr(pd, memory, Access::local_write)->rkey;
    EXPECT_NE(stag, 0U);
    ASSERT_TRUE(device->dereg_mr(stag).has_value());
    EXPECT_EQ(device->dereg_mr(stag).error(), code(Errc::invalid_argument));
  }
  EXPECT_TRUE(device->dereg_mr(first).has_value());
}

TEST(NicObjects, TaggedOffsetsFromABaseDoNotDependOnAddressesAndLeaveGaps) {
  std::vector<std::pair<std::uint32_t, std::uint64_t>> given[2];
  Bytes one(100), two(200'000), three(1);
  for (auto& names : given) {
    auto device = make_device(0x10000);
    const PdHandle pd = device->alloc_pd().value();
    std::uint64_t end = 0;
    // The second device sees the memory in the other order of addresses.
    const bool swapped = &names == &given[1];
    for (Bytes* memory : {swapped ? &three : &one, &two, swapped ? &one : &three}) {
      const MemoryRegion region =
          device->reg_mr(pd, MutBytes(*memory).first(memory == &two ? 200'000 : 1), Access::remote_write).value();
      names.emplace_back(region.lkey, region.addr);
      EXPECT_GE(region.addr, end + (end == 0 ? 0 : offset_gap));
      end = region.addr + region.length;
    }
  }
  EXPECT_EQ(given[0].front().second, 0x10000U);
  EXPECT_EQ(given[0], given[1]);
}

TEST(NicObjects, AnOverrunOfARegionWithAGivenOffsetIsFoundOut) {
  const Ref<Tables> tables(new Tables);
  tables->regions.set_offset_base(0x10000);
  const PdHandle pd = tables->pds.add().value();
  Bytes memory(64), next(64);
  const MemoryRegion region = tables->regions.add(pd, memory, Access::remote_write).value();
  (void)tables->regions.add(pd, next, Access::remote_write);
  MrRange range;
  EXPECT_EQ(tables->regions.check(region.lkey, region.addr, 64, pd, Access::remote_write, range), MrFault::none);
  EXPECT_EQ(range.memory.data(), memory.data());
  EXPECT_EQ(tables->regions.check(region.lkey, region.addr + 1, 64, pd, Access::remote_write, range), MrFault::bounds);
  EXPECT_EQ(tables->regions.check(region.lkey, region.addr - 1, 1, pd, Access::remote_write, range), MrFault::bounds);
}

TEST(NicObjects, OffsetsThatWouldWrapAreRefused) {
  const Ref<Tables> tables(new Tables);
  tables->regions.set_offset_base(~std::uint64_t{0} - 100);
  Bytes memory(64);
  EXPECT_EQ(tables->regions.add(tables->pds.add().value(), memory, Access::none).error(), code(Errc::no_space));
  // The last offset that there is: the region, and a gap behind it wherever it ends in its own.
  for (const std::size_t size : {1u, 64u, 5000u})
    for (const std::uint64_t less : {0u, 1u, 2u}) {
      const Ref<Tables> full(new Tables);
      full->regions.set_offset_base(~std::uint64_t{0} - size - 2 * offset_gap + 1 - less);
      Bytes some(size);
      EXPECT_EQ(full->regions.add(full->pds.add().value(), some, Access::none).has_value(), less > 0) << size << less;
    }
}

TEST(NicObjects, UnknownHandlesAreErrors) {
  auto device = make_device();
  const PdHandle pd = device->alloc_pd().value();
  Bytes memory(16);
  EXPECT_EQ(device->dealloc_pd(0).error(), code(Errc::invalid_argument));
  EXPECT_EQ(device->dealloc_pd(pd + 1).error(), code(Errc::invalid_argument));
  EXPECT_EQ(device->reg_mr(0, memory, Access::none).error(), code(Errc::invalid_argument));
  EXPECT_EQ(device->reg_mr(pd, {}, Access::none).error(), code(Errc::invalid_argument));
  for (const std::uint32_t stag : {0U, 1U, 0x100U, 0xFFFFFFFFU})
    EXPECT_EQ(device->dereg_mr(stag).error(), code(Errc::invalid_argument));
  EXPECT_EQ(device->create_cq(0).error(), code(Errc::invalid_argument));
  EXPECT_EQ(device->create_srq(pd, 0).error(), code(Errc::invalid_argument));
  EXPECT_EQ(device->create_srq(0, 1).error(), code(Errc::invalid_argument));
}

TEST(NicObjects, AQueuePairTakesOnlyLiveObjectsOfItsDevice) {
  auto device = make_device(), other = make_device();
  const PdHandle pd = device->alloc_pd().value();
  auto cq = device->create_cq(8).value(), foreign = other->create_cq(8).value();
  const auto make = [&](PdHandle p, CompletionQueue* s, CompletionQueue* r, SharedReceiveQueue* srq = nullptr) {
    return device->create_qp({.pd = p, .send_cq = s, .recv_cq = r, .srq = srq});
  };
  EXPECT_TRUE(make(pd, cq.get(), cq.get()).has_value());
  EXPECT_EQ(make(0, cq.get(), cq.get()).error(), code(Errc::invalid_argument));
  EXPECT_EQ(make(pd, nullptr, cq.get()).error(), code(Errc::invalid_argument));
  EXPECT_EQ(make(pd, cq.get(), foreign.get()).error(), code(Errc::invalid_argument));
  auto srq = other->create_srq(other->alloc_pd().value(), 4).value();
  EXPECT_EQ(make(pd, cq.get(), cq.get(), srq.get()).error(), code(Errc::invalid_argument));
  CompletionQueue* const stale = cq.get();
  cq.reset();
  EXPECT_EQ(make(pd, stale, stale).error(), code(Errc::invalid_argument));
}

TEST(NicObjects, APdStaysWhileSomethingUsesIt) {
  auto device = make_device();
  const PdHandle pd = device->alloc_pd().value();
  Bytes memory(16);
  const std::uint32_t stag = device->reg_mr(pd, memory, Access::none)->rkey;
  auto cq = device->create_cq(8).value();
  auto srq = device->create_srq(pd, 8).value();
  auto qp = device->create_qp({.pd = pd, .send_cq = cq.get(), .recv_cq = cq.get()}).value();
  EXPECT_EQ(device->dealloc_pd(pd).error(), code(Errc::wrong_state));
  ASSERT_TRUE(device->dereg_mr(stag).has_value());
  EXPECT_EQ(device->dealloc_pd(pd).error(), code(Errc::wrong_state));
  qp.reset();
  EXPECT_EQ(device->dealloc_pd(pd).error(), code(Errc::wrong_state));
  srq.reset();
  EXPECT_TRUE(device->dealloc_pd(pd).has_value());
  EXPECT_EQ(device->dealloc_pd(pd).error(), code(Errc::invalid_argument));
}

TEST(NicObjects, MemoryStaysWhileWorkIsPostedOnIt) {
  Side side(true);
  Buffer sent(*side.device, side.pd, 8), shared(*side.device, side.pd, 8);
  ASSERT_TRUE(side.send(1, {sent.all()}).has_value());
  const Sge sge = shared.all();
  ASSERT_TRUE(side.srq->post_recv({.wr_id = 2, .sges = {&sge, 1}}).has_value());
  EXPECT_EQ(side.device->dereg_mr(sent.region.lkey).error(), code(Errc::wrong_state));
  EXPECT_EQ(side.device->dereg_mr(shared.region.lkey).error(), code(Errc::wrong_state));
  side.qp.reset();
  EXPECT_TRUE(side.device->dereg_mr(sent.region.lkey).has_value());
  side.srq.reset();
  EXPECT_TRUE(side.device->dereg_mr(shared.region.lkey).has_value());
}

TEST(NicObjects, MemoryStaysWhileAPeersReadIsAnswered) {
  Solo solo;
  solo.side.qp->handle_bytes(solo.fpdu(unhex("4141 00000000 00000001 00000001 00000000 00000011 0000000000000000" +
                                             Solo::hex32(16) + solo.stag() + solo.to())));
  EXPECT_EQ(solo.side.device->dereg_mr(solo.buffer.region.lkey).error(), code(Errc::wrong_state));
  EXPECT_FALSE(solo.side.transmit_all().empty());
  EXPECT_TRUE(solo.side.device->dereg_mr(solo.buffer.region.lkey).has_value());
}

TEST(NicObjects, MemoryIsFreeOnceThePeerThatReadsItIsGone) {
  for (const bool reset : {false, true}) {
    Solo solo;
    solo.side.qp->handle_bytes(solo.fpdu(unhex("4141 00000000 00000001 00000001 00000000 00000011 0000000000000000" +
                                               Solo::hex32(16) + solo.stag() + solo.to())));
    EXPECT_EQ(solo.side.device->dereg_mr(solo.buffer.region.lkey).error(), code(Errc::wrong_state));
    reset ? solo.side.qp->handle_end(true) : solo.side.qp->flush();
    EXPECT_TRUE(solo.side.device->dereg_mr(solo.buffer.region.lkey).has_value());
  }
}

TEST(NicObjects, AQueuePairDestroyedInsideAMessageGivesUpItsSharedReceive) {
  auto device = make_device();
  const PdHandle pd = device->alloc_pd().value();
  auto cq = device->create_cq(1).value();
  auto srq = device->create_srq(pd, 4).value();
  const QpInit init{.pd = pd, .send_cq = cq.get(), .recv_cq = cq.get(), .max_send_wr = 1, .max_recv_wr = 1};
  QpInit sharing = init;
  sharing.srq = srq.get();
  auto qp = device->create_stream_qp(sharing).value();
  Buffer to(*device, pd, 16);
  const Sge sge = to.all();
  ASSERT_TRUE(srq->post_recv({.sges = {&sge, 1}}).has_value());
  ASSERT_TRUE(qp->attach(attach_options(mpa::Role::responder)).has_value());
  mpa::Framer framer({.crc = true, .markers = false, .emss = 1460});
  const Bytes begin = unhex("0143 00000000 00000000 00000001 00000000 aabb");
  Bytes fpdu(framer.wire_size(begin.size()));
  framer.frame(begin, {}, fpdu);
  qp->handle_bytes(fpdu);
  EXPECT_EQ(srq->available(), 0U);
  qp.reset();
  std::array<WorkCompletion, 1> done;
  EXPECT_EQ(cq->poll(done), 0U) << "a completion would name a queue pair that is gone";
  EXPECT_TRUE(device->dereg_mr(to.region.lkey).has_value());
  auto other = device->create_stream_qp(init).value();
  EXPECT_TRUE(other->post_recv({}).has_value()) << "its place in the completion queue is free";
}

TEST(NicObjects, AnyOrderOfDestructionIsSafe) {
  for (int order = 0; order < 24; ++order) {
    auto side = std::make_unique<Side>(true);
    auto buffer = std::make_unique<Buffer>(*side->device, side->pd, 8);
    ASSERT_TRUE(side->qp->attach(attach_options(mpa::Role::initiator)).has_value());
    ASSERT_TRUE(side->send(1, {buffer->all()}).has_value());
    const Sge sge = buffer->all();
    ASSERT_TRUE(side->srq->post_recv({.wr_id = 2, .sges = {&sge, 1}}).has_value());
    std::vector<int> objects{0, 1, 2, 3};
    for (int i = 0; i < order; ++i) std::next_permutation(objects.begin(), objects.end());
    for (const int object : objects) {
      if (side->qp && object != 3)
        side->qp->handle_bytes(unhex("0012 4143 00000000 00000000 00000001 00000000 587be8c4"));
      switch (object) {
        case 0: side->device.reset(); break;
        case 1: side->send_cq.reset(), side->recv_cq.reset(); break;
        case 2: side->srq.reset(); break;
        case 3:
          side->transmit_all();
          side->qp.reset();
          break;
      }
    }
  }
}

TEST(NicObjects, QueuesRefuseWhatWouldOverrunThem) {
  auto device = make_device();
  const PdHandle pd = device->alloc_pd().value();
  auto cq = device->create_cq(5).value();
  EXPECT_EQ(cq->capacity(), 5U);
  auto qp =
      device->create_stream_qp({.pd = pd, .send_cq = cq.get(), .recv_cq = cq.get(), .max_send_wr = 3, .max_recv_wr = 4})
          .value();
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(qp->post_send({}).has_value());
  EXPECT_EQ(qp->post_send({}).error(), code(Errc::no_space));  // the send queue
  EXPECT_TRUE(qp->post_recv({}).has_value());
  EXPECT_TRUE(qp->post_recv({}).has_value());
  EXPECT_EQ(qp->post_recv({}).error(), code(Errc::no_space));  // the completion queue
  qp->flush();
  std::array<WorkCompletion, 8> done;
  EXPECT_EQ(cq->poll(std::span(done).first(2)), 2U);
  EXPECT_EQ(cq->poll(done), 3U);
  EXPECT_EQ(cq->poll(done), 0U);
  auto srq = device->create_srq(pd, 1).value();
  EXPECT_TRUE(srq->post_recv({}).has_value());
  EXPECT_EQ(srq->post_recv({}).error(), code(Errc::no_space));
}

TEST(NicObjects, ARefusedRequestTakesNoPlaceInAnyQueue) {
  auto device = make_device();
  const PdHandle pd = device->alloc_pd().value();
  auto send_cq = device->create_cq(2).value(), recv_cq = device->create_cq(2).value();
  auto qp = device
                ->create_stream_qp(
                    {.pd = pd, .send_cq = send_cq.get(), .recv_cq = recv_cq.get(), .max_send_wr = 2, .max_recv_wr = 2})
                .value();
  auto srq = device->create_srq(pd, 2).value();
  const Sge nowhere{.addr = 0, .length = 4, .lkey = 0x12345678};
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(qp->post_send({.sges = {&nowhere, 1}}).error(), code(Errc::protection));
    EXPECT_EQ(qp->post_recv({.sges = {&nowhere, 1}}).error(), code(Errc::protection));
    EXPECT_EQ(srq->post_recv({.sges = {&nowhere, 1}}).error(), code(Errc::protection));
  }
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(qp->post_send({}).has_value());
    EXPECT_TRUE(qp->post_recv({}).has_value());
    EXPECT_TRUE(srq->post_recv({}).has_value());
  }
  EXPECT_EQ(srq->available(), 2U);
  qp->flush();
  std::array<WorkCompletion, 4> done;
  EXPECT_EQ(send_cq->poll(done), 2U);
  EXPECT_EQ(recv_cq->poll(done), 2U);
}

TEST(NicObjects, UnsignaledSuccessGivesItsPlaceBack) {
  auto device = make_device();
  const PdHandle pd = device->alloc_pd().value();
  auto cq = device->create_cq(1).value();
  auto qp = device->create_stream_qp({.pd = pd, .send_cq = cq.get(), .recv_cq = cq.get()}).value();
  ASSERT_TRUE(qp->attach(attach_options(mpa::Role::initiator)).has_value());
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(qp->post_send({.signaled = false}).has_value());
    EXPECT_EQ(qp->post_send({.signaled = false}).error(), code(Errc::no_space));
    std::array<ConstBytes, 4> list;
    const std::size_t n = qp->gather(list);
    std::size_t octets = 0;
    for (std::size_t p = 0; p < n; ++p) octets += list[p].size();
    qp->sent(octets);
  }
}

TEST(NicObjects, PostingChecksTheMemory) {
  Side side;
  Buffer buffer(*side.device, side.pd, 16), fixed(*side.device, side.pd, 16, Access::remote_read);
  Buffer foreign(*side.device, side.device->alloc_pd().value(), 16);
  const auto refused = [&](Sge sge) { return side.recv(1, {sge}).error() == code(Errc::protection); };
  EXPECT_TRUE(refused({.addr = buffer.region.addr, .length = 1, .lkey = 0}));
  EXPECT_TRUE(refused(buffer.sge(16, 1)));
  EXPECT_TRUE(refused(buffer.sge(0, 17)));
  EXPECT_TRUE(refused(buffer.sge(static_cast<std::size_t>(-1), 1)));
  EXPECT_TRUE(refused({~0ULL, 2, buffer.region.lkey}));
  EXPECT_TRUE(refused(foreign.all()));
  EXPECT_TRUE(refused(fixed.all()));                          // no local write
  EXPECT_TRUE(side.send(1, {fixed.all()}).has_value());       // reading is always allowed
  EXPECT_TRUE(side.recv(1, {Sge{.length = 0}}).has_value());  // no memory, no check
  EXPECT_TRUE(side.recv(1, {buffer.sge(0, 4), buffer.sge(4, 4), buffer.sge(8, 4), buffer.sge(12, 4)}).has_value());
  const std::vector<Sge> five(5, buffer.sge(0, 1));
  EXPECT_EQ(side.recv(1, five).error(), code(Errc::invalid_argument));
}

TEST(NicObjects, PostingChecksTheShape) {
  Side side;
  Buffer buffer(*side.device, side.pd, 16);
  const auto refused = [&](SendWr wr, std::vector<Sge> sges) {
    wr.sges = sges;
    const auto result = side.qp->post_send(wr);
    return !result && result.error() == code(Errc::invalid_argument);
  };
  using enum SendWr::Opcode;
  EXPECT_TRUE(refused({.opcode = rdma_read}, {buffer.sge(0, 4), buffer.sge(4, 4)}));
  EXPECT_TRUE(refused({.opcode = atomic_fetch_and_add}, {}));
  EXPECT_TRUE(refused({.opcode = atomic_fetch_and_add}, {buffer.sge(0, 4)}));
  EXPECT_TRUE(refused({.opcode = atomic_cmp_and_swp, .remote_addr = 4}, {buffer.sge(0, 8)}));
  EXPECT_TRUE(refused({.opcode = rdma_write, .invalidate_rkey = 7}, {}));
  EXPECT_TRUE(refused({.opcode = send_with_inv}, {buffer.sge(0, 8)}));
  EXPECT_TRUE(refused({.opcode = static_cast<SendWr::Opcode>(99)}, {}));
}

TEST(NicObjects, DirtyQueuePairsComeOnceAndInOrder) {
  auto device = make_device();
  const PdHandle pd = device->alloc_pd().value();
  auto cq = device->create_cq(64).value();
  std::vector<std::unique_ptr<StreamQp>> qps;
  for (int i = 0; i < 4; ++i) {
    qps.push_back(device->create_stream_qp({.pd = pd, .send_cq = cq.get(), .recv_cq = cq.get()}).value());
    ASSERT_TRUE(qps.back()->attach(attach_options(mpa::Role::initiator)).has_value());
  }
  EXPECT_EQ(device->poll_dirty(), nullptr);
  for (const int i : {2, 0, 2, 3, 1}) ASSERT_TRUE(qps[static_cast<std::size_t>(i)]->post_send({}).has_value());
  qps[0].reset();
  EXPECT_EQ(device->poll_dirty(), qps[2].get());
  EXPECT_EQ(device->poll_dirty(), qps[3].get());
  EXPECT_EQ(device->poll_dirty(), qps[1].get());
  EXPECT_EQ(device->poll_dirty(), nullptr);
}

// RFC 7306 §5.1.1: independent fields, each closed by a bit of the mask.
TEST(NicAtomics, MaskedAddKeepsCarriesInsideTheirFields) {
  EXPECT_EQ(masked_add(~0ULL, 1, 0), 0U);
  EXPECT_EQ(masked_add(0x00000000FFFFFFFF, 1, 0x0000000080000000), 0U);
  EXPECT_EQ(masked_add(0x00FF00FF00FF00FF, 0x0001000100010001, 0x0080008000800080), 0U);
  EXPECT_EQ(masked_add(0x7F, 1, 0x80), 0x80U);
  std::mt19937_64 rng(7);
  for (int i = 0; i < 1000; ++i) {
    const std::uint64_t value = rng(), add = rng(), mask = rng() & rng();
    std::uint64_t expected = 0;
    unsigned carry = 0;
    for (unsigned bit = 0; bit < 64; ++bit) {
      const unsigned sum = static_cast<unsigned>(value >> bit & 1) + static_cast<unsigned>(add >> bit & 1) + carry;
      expected |= static_cast<std::uint64_t>(sum & 1) << bit;
      carry = (mask >> bit & 1) != 0 ? 0 : sum >> 1;
    }
    EXPECT_EQ(masked_add(value, add, mask), expected);
  }
}

// RFC 7306 §5.1.2.
TEST(NicAtomics, MaskedSwapLooksAndWritesThroughItsMasks) {
  EXPECT_EQ(masked_swap(0x1234, 0x1234, ~0ULL, 0xABCD, ~0ULL), 0xABCDU);
  EXPECT_EQ(masked_swap(0x1234, 0x1235, ~0ULL, 0xABCD, ~0ULL), 0x1234U);
  EXPECT_EQ(masked_swap(0x1234, 0xFF34, 0xFF, 0xABCD, 0xFF00), 0xAB34U);
}

/// Every enumerator has a name, all differ, and every other number says that it is none.
template <class E>
void expect_names(std::size_t enumerators, std::string_view none) {
  std::set<std::string_view> names;
  for (int value = 0; value < 256; ++value) names.insert(to_string(static_cast<E>(value)));
  EXPECT_EQ(names.erase(none), 1U) << none;
  EXPECT_EQ(names.size(), enumerators) << none;
}

TEST(NicVerbsText, EveryEnumeratorHasAName) {
  expect_names<WcStatus>(24, "unknown status");
  expect_names<WcOpcode>(11, "unknown opcode");
  expect_names<SendWr::Opcode>(12, "unknown opcode");
  expect_names<QpType>(5, "unknown type");
  expect_names<Transport>(2, "unknown transport");
  expect_names<QpState>(7, "unknown state");
  expect_names<RdmapState>(5, "unknown state");
}

// Programs that speak of completions by number, and those who read their logs, know ibv_wc_status.
TEST(NicVerbsText, StatusesHaveTheNumbersOfVerbs) {
  EXPECT_EQ(static_cast<int>(WcStatus::wr_flush_err), 5);
  EXPECT_EQ(static_cast<int>(WcStatus::rem_access_err), 10);
  EXPECT_EQ(static_cast<int>(WcStatus::retry_exc_err), 12);
  EXPECT_EQ(static_cast<int>(WcStatus::general_err), 21);
  EXPECT_EQ(static_cast<int>(WcStatus::tm_rndv_incomplete), 23);
}

}  // namespace
}  // namespace parley::nic::iwarp::test
