// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// What can be said of real NICs without one; tests/interop/nics has the rest.
#include <gtest/gtest.h>

#include "parley/rdma_host.hpp"
#include "parley/tcp_host.hpp"
#include "tests/unit/printing.hpp"
#if PARLEY_HAVE_RDMA
#include "drivers/rdmacm/provider.hpp"
#include "drivers/verbs/convert.hpp"
#include "drivers/verbs/device.hpp"
#endif

namespace parley::rdma_test {
namespace {

using namespace std::chrono_literals;

TEST(OpenHost, TakesTheProviderByName) {
  const auto sockets = open_host("iwarp");
  ASSERT_TRUE(sockets) << sockets.error().message();
  EXPECT_EQ((*sockets)->device().query().name, "parley");
  EXPECT_EQ((*sockets)->cm().devices().size(), 1U);
  const auto wrong = open_host("infiniband");
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error().message(),
            "an argument is out of its documented range: there is no such provider; there are iwarp, roce and rdmacm");
}

TEST(RdmaHost, RefusesOptionsByName) {
  const auto sentence = [](const RdmaHostOptions& options) {
    const auto host = RdmaHost::open(options);
    return host ? std::string("opened") : host.error().sentence();
  };
#if PARLEY_HAVE_RDMA
  EXPECT_EQ(sentence({.manager = {.resolve = {.timeout = 0s}}}), "ResolvePolicy::timeout is 0 ns; it is more than 0");
  EXPECT_EQ(sentence({.manager = {.resolve = {.searches_max = 0}}}),
            "ResolvePolicy::searches_max is 0; must be at least 1");
  EXPECT_EQ(sentence({.manager = {.resolve = {.failed_kept = -1ns}}}),
            "ResolvePolicy::found_kept is 10000000000 ns, and failed_kept -1; must be at least 0");
  EXPECT_EQ(sentence({.reply_timeout = -1ns}), "RdmaHostOptions::reply_timeout is -1 ns; it is more than 0");
  EXPECT_EQ(sentence({.linger = 0s}), "RdmaHostOptions::linger is 0 ns; it is more than 0");
  EXPECT_EQ(sentence({.manager = {.endpoints_max = cm::endpoints_limit + 1}}),
            "ManagerOptions::endpoints_max is 16777217; at most 16777216");
#else
  EXPECT_NE(sentence({}).find("built without librdmacm"), std::string::npos);
#endif
}

TEST(UserEvents, ComeInTurnWithTheirIds) {
  const auto host = open_host("iwarp");
  ASSERT_TRUE(host);
  cm::Manager& cm = (*host)->cm();
  const auto kept = cm.listen(Address::loopback(Address::Family::v4, 0));
  const auto gone = cm.listen(Address::loopback(Address::Family::v4, 0));
  ASSERT_TRUE(kept && gone);
  ASSERT_TRUE(cm.post_event(1));
  ASSERT_TRUE(cm.post_event(2, *kept));
  ASSERT_TRUE(cm.post_event(3, *gone));
  ASSERT_TRUE(cm.post_event(4));
  cm::Id destroyed = *gone;
  destroyed.destroy();
  std::vector<std::uint64_t> values;
  while (auto event = cm.poll_event())
    if (const auto* user = std::get_if<cm::UserEvent>(&*event)) values.push_back(user->value);
  EXPECT_EQ(values, (std::vector<std::uint64_t>{1, 2, 4})) << "no event of a destroyed id";
  EXPECT_EQ(cm.post_event(5, *gone).error(), Errc::wrong_state);
}

TEST(UserEvents, AreBounded) {
  const auto host = open_host("iwarp");
  ASSERT_TRUE(host);
  cm::Manager& cm = (*host)->cm();
  for (std::uint32_t i = 0; i < cm::user_events_max; ++i) ASSERT_TRUE(cm.post_event(i));
  const auto full = cm.post_event(0);
  ASSERT_FALSE(full);
  EXPECT_EQ(full.error().sentence(), "65536 events of the program's own wait; poll them first");
  ASSERT_TRUE(cm.poll_event());
  EXPECT_TRUE(cm.post_event(0));
}

TEST(Ids, NameTheirDevice) {
  const auto host = open_host("iwarp");
  ASSERT_TRUE(host);
  const auto listener = (*host)->cm().listen(Address::loopback(Address::Family::v4, 0));
  const auto id = (*host)->cm().connect(Address::loopback(Address::Family::v4, 9));
  ASSERT_TRUE(listener && id);
  EXPECT_EQ(listener->device(), nullptr);
  EXPECT_EQ(id->device(), &(*host)->device());
  EXPECT_EQ(cm::Id().device(), nullptr);
}

#if PARLEY_HAVE_RDMA
QpAttr full_attr() {
  AhAttr ah{.dlid = 7, .sl = 3, .src_path_bits = 1, .static_rate = 2, .port_num = 2};
  ah.grh = GlobalRoute{.flow_label = 0x12345, .sgid_index = 4, .hop_limit = 63, .traffic_class = 9};
  ah.grh->dgid[15] = 0xAB;
  return {.state = QpState::rtr,
          .access = Access::remote_read | Access::local_write,
          .pkey_index = std::uint16_t{5},
          .port_num = std::uint8_t{2},
          .qkey = 0x11223344,
          .ah = ah,
          .path_mtu = Mtu::octets_2048,
          .timeout = std::uint8_t{14},
          .retry_cnt = std::uint8_t{6},
          .rnr_retry = std::uint8_t{7},
          .rq_psn = 0xABCDEF,
          .max_rd_atomic = std::uint16_t{16},
          .min_rnr_timer = std::uint8_t{12},
          .sq_psn = 0x123456,
          .max_dest_rd_atomic = std::uint16_t{8},
          .path_mig_state = MigState::rearm,
          .dest_qp_num = 0x000777};
}

// To libibverbs and back: each attribute and its bit in the mask.
TEST(NicVerbs, AttributesKeepTheirMeaning) {
  const verbs::ModifyArgs args = verbs::to_ibv(full_attr());
  EXPECT_EQ(args.mask, IBV_QP_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY | IBV_QP_AV |
                           IBV_QP_PATH_MTU | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_RQ_PSN |
                           IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER | IBV_QP_SQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
                           IBV_QP_PATH_MIG_STATE | IBV_QP_DEST_QPN);
  EXPECT_EQ(args.attr.qp_state, IBV_QPS_RTR);
  EXPECT_EQ(args.attr.qp_access_flags, unsigned{IBV_ACCESS_REMOTE_READ} | unsigned{IBV_ACCESS_LOCAL_WRITE});
  EXPECT_EQ(args.attr.ah_attr.is_global, 1);
  EXPECT_EQ(args.attr.ah_attr.grh.dgid.raw[15], 0xAB);
  EXPECT_EQ(args.attr.path_mtu, IBV_MTU_2048);
  const QpAttr back = verbs::from_ibv(args.attr, args.mask);
  const verbs::ModifyArgs again = verbs::to_ibv(back);
  EXPECT_EQ(again.mask, args.mask);
  EXPECT_EQ(back.dest_qp_num, 0x777U);
  EXPECT_EQ(back.sq_psn, 0x123456U);
  EXPECT_EQ(back.rq_psn, 0xABCDEFU);
  EXPECT_EQ(back.max_rd_atomic, 16U);
  EXPECT_EQ(back.max_dest_rd_atomic, 8U);
  EXPECT_EQ(back.ah->grh->flow_label, 0x12345U);
  EXPECT_EQ(back.ah->grh->sgid_index, 4U);
  EXPECT_EQ(back.ah->grh->hop_limit, 63U);
  EXPECT_EQ(verbs::to_ibv(QpAttr{}).mask, 0);
  EXPECT_FALSE(verbs::from_ibv(args.attr, IBV_QP_STATE).ah.has_value());
}

TEST(NicVerbs, OperationsCompleteAsWhatTheyAre) {
  using Opcode = SendWr::Opcode;
  EXPECT_EQ(verbs::completes_as(Opcode::send_with_inv), WcOpcode::send);
  EXPECT_EQ(verbs::completes_as(Opcode::rdma_write_with_imm), WcOpcode::rdma_write);
  EXPECT_EQ(verbs::completes_as(Opcode::rdma_read), WcOpcode::rdma_read);
  EXPECT_EQ(verbs::completes_as(Opcode::atomic_cmp_and_swp), WcOpcode::comp_swap);
  EXPECT_EQ(verbs::completes_as(Opcode::atomic_fetch_and_add), WcOpcode::fetch_add);
  EXPECT_EQ(*verbs::to_ibv(Opcode::rdma_read), IBV_WR_RDMA_READ);
  EXPECT_EQ(*verbs::to_ibv(Opcode::send_with_inv), IBV_WR_SEND_WITH_INV);
  for (const Opcode lacking : {Opcode::masked_atomic_cmp_and_swp, Opcode::bind_mw, Opcode::local_inv})
    EXPECT_EQ(verbs::to_ibv(lacking).error(), Errc::unsupported);
  EXPECT_EQ(verbs::to_ibv(QpType::xrc_tgt), IBV_QPT_XRC_RECV);
  EXPECT_EQ(verbs::to_ibv(QpType::ud), IBV_QPT_UD);
}

TEST(NicVerbs, WhatADeviceAnswersIsGivenInWords) {
  const Error refusal = verbs::refused_by("rxe0", "ibv_open_xrcd", EOPNOTSUPP).value();
  EXPECT_EQ(refusal, Errc::unsupported);
  EXPECT_EQ(refusal.sentence(), "rxe0: ibv_open_xrcd: Operation not supported (errno 95)");
  EXPECT_EQ(verbs::refused_by("rxe0", "ibv_open_xrcd", -EACCES).value(), Errc::not_permitted);
}

TEST(NicVerbs, ErrnosBecomeErrors) {
  EXPECT_EQ(verbs::refused(EINVAL, "a call: errno {a}").value(), Errc::invalid_argument);
  EXPECT_EQ(verbs::refused(EINVAL, "a call: errno {a}").value().sentence(), "a call: errno 22");
  EXPECT_EQ(verbs::refused(ENOMEM, "x").value(), Errc::no_space);
  EXPECT_EQ(verbs::refused(EPERM, "x").value(), Errc::not_permitted);
  EXPECT_EQ(verbs::refused(ENODEV, "x").value(), Errc::unreachable);
  EXPECT_EQ(verbs::refused(EHOSTUNREACH, "x").value(), Errc::unreachable);
  EXPECT_EQ(verbs::refused(ETIMEDOUT, "x").value(), Errc::timed_out);
  EXPECT_EQ(verbs::refused(EOPNOTSUPP, "x").value(), Errc::unsupported);
  EXPECT_EQ(verbs::refused(EBUSY, "x").value(), Errc::wrong_state);
  EXPECT_EQ(verbs::refused(EIO, "x").value(), Errc::io);
}

// What ends a connection counts those as not delivered, though nothing is posted any more.
TEST(NicVerbs, FlushedRequestsAreNotConfirmed) {
  verbs::Posted posted(2);
  const std::uint32_t a = posted.put(1, WcOpcode::send, true), b = posted.put(2, WcOpcode::send, true);
  posted.complete(a, true);
  EXPECT_EQ(posted.failed(), 0U);
  posted.complete(b, false);
  EXPECT_EQ(posted.failed(), 1U);
  EXPECT_EQ(posted.open(), 0U);
}

TEST(NicVerbs, ProbesAreNoRequestsButSignsOfLife) {
  verbs::Posted posted(1);
  posted.begin_probe();
  posted.begin_probe();
  EXPECT_FALSE(posted.full()) << "the program's places stay its own";
  EXPECT_EQ(posted.open(), 0U);
  posted.end_probe(true);
  EXPECT_EQ(posted.succeeded(), 1U);
  posted.end_probe(false);
  EXPECT_EQ(posted.probes(), 0U);
  EXPECT_EQ(posted.succeeded(), 1U);
  EXPECT_EQ(posted.failed(), 0U) << "nothing of the program's was lost";
  EXPECT_EQ(posted.find(verbs::Posted::probe), nullptr);
}

TEST(NicVerbs, PostedRequestsAreFoundAgain) {
  verbs::Posted posted(2);
  const std::uint32_t a = posted.put(11, WcOpcode::send, true), b = posted.put(22, WcOpcode::recv, false);
  EXPECT_TRUE(posted.full());
  EXPECT_EQ(posted.find(b)->wr_id, 22U);
  EXPECT_FALSE(posted.find(b)->signaled);
  posted.close(a);
  EXPECT_EQ(posted.find(a), nullptr) << "it completed";
  EXPECT_EQ(posted.find(7), nullptr);
  EXPECT_EQ(posted.open(), 1U);
  EXPECT_EQ(posted.put(33, WcOpcode::send, true), a);
}
#endif

}  // namespace
}  // namespace parley::rdma_test
