// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// What verbs have and iWARP lacks: refused at the call, each with a sentence that names the argument.
#include "test_pair.hpp"

namespace parley::nic::iwarp::test {
namespace {

class SomeDomain final : public XrcDomain {};
class SomeAddress final : public AddressHandle {};

template <class T>
void refused(const Result<T>& result, std::string_view words, Errc code = Errc::unsupported) {
  ASSERT_FALSE(result) << words;
  EXPECT_EQ(result.error(), code) << words;
  EXPECT_NE(result.error().sentence().find(words), std::string::npos) << result.error().sentence();
}

TEST(NicRefusals, QueuePairsOfOtherTypes) {
  Side side;
  QpInit init{.pd = side.pd, .send_cq = side.send_cq.get(), .recv_cq = side.recv_cq.get()};
  const auto make = [&](QpType type) {
    init.type = type;
    return side.device->create_qp(init);
  };
  EXPECT_TRUE(make(QpType::rc));
  refused(make(QpType::uc), "QpInit::type is UC");
  refused(make(QpType::ud), "QpInit::type is UD");
  refused(make(QpType::xrc_ini), "QpInit::type is XRC_INI");
  refused(make(QpType::xrc_tgt), "QpInit::type is XRC_TGT");
  refused(make(static_cast<QpType>(8)), "QpInit::type: 8 is not a type of queue pair", Errc::invalid_argument);
  SomeDomain domain;
  init.xrcd = &domain;
  refused(make(QpType::rc), "QpInit::xrcd");
}

TEST(NicRefusals, XrcAndAddressHandles) {
  Side side;
  refused(side.device->open_xrcd(), "iWARP has no XRC");
  SomeDomain domain;
  refused(side.device->create_srq({.pd = side.pd, .xrcd = &domain}), "SrqInit::xrcd");
  refused(side.device->create_srq({.pd = side.pd, .cq = side.recv_cq.get()}), "SrqInit::cq", Errc::invalid_argument);
  refused(side.device->create_ah(side.pd, {}), "iWARP has no address handles");
}

TEST(NicRefusals, RequestsForOtherTypes) {
  Side side;
  const SomeAddress there;
  refused(side.qp->post_send({.ah = &there}), "SendWr::ah");
  refused(side.qp->post_send({.remote_qp_num = 1}), "remote_qp_num");
  refused(side.qp->post_send({.remote_qkey = 1}), "remote_qkey");
  refused(side.qp->post_send({.remote_srq_num = 7}), "SendWr::remote_srq_num is 7");
  refused(side.qp->post_send({.opcode = SendWr::Opcode::send_with_imm, .imm_data = 1}), "send_with_imm");
  refused(side.qp->post_send({.opcode = SendWr::Opcode::rdma_write_with_imm, .imm_data = 1}), "post_immediate");
  refused(side.qp->post_send({.opcode = SendWr::Opcode::bind_mw}), "iWARP devices have no memory windows");
  refused(side.qp->post_send({.opcode = SendWr::Opcode::local_inv, .invalidate_rkey = 256}), "no memory windows");
  EXPECT_EQ(side.device->alloc_mw(side.pd, MwType::type_1).error(), Errc::unsupported);
  EXPECT_EQ(side.device->dealloc_mw(256).error(), Errc::unsupported);
  EXPECT_EQ(side.device->query().max_mw, 0U);
}

// Nothing is left out silently: what the opcode has no use for would be lost.
TEST(NicRefusals, FieldsThatTheOpcodeDoesNotCarry) {
  using enum SendWr::Opcode;
  Side side;
  for (const auto opcode : {send, send_with_inv, rdma_write, rdma_read, atomic_fetch_and_add}) {
    refused(side.qp->post_send({.opcode = opcode, .imm_data = 1, .invalidate_rkey = opcode == send_with_inv ? 1U : 0U}),
            "SendWr::imm_data is allowed only with send_with_imm and rdma_write_with_imm", Errc::invalid_argument);
  }
  for (const auto opcode : {rdma_write, rdma_read, atomic_cmp_and_swp, masked_atomic_fetch_and_add}) {
    refused(side.qp->post_send({.opcode = opcode, .solicited = true}), "SendWr::solicited", Errc::invalid_argument);
  }
  for (const auto opcode : {send, rdma_write, rdma_read}) {
    refused(side.qp->post_send({.opcode = opcode, .invalidate_rkey = 1}),
            "SendWr::invalidate_rkey goes with send_with_inv only (RFC 5040 §4.7)", Errc::invalid_argument);
  }
  refused(side.qp->post_send({.opcode = static_cast<SendWr::Opcode>(99)}), "SendWr::opcode: 99 is not an opcode",
          Errc::invalid_argument);
}

// A device says beforehand what it would refuse.
TEST(NicRefusals, QueryTellsThem) {
  Side side;
  const DeviceAttr attr = side.device->query();
  EXPECT_EQ(to_string(attr.transport), "iWARP");
  EXPECT_EQ(attr.qp_types, std::vector{QpType::rc});
  EXPECT_FALSE(attr.imm_data || attr.xrc || attr.address_handles);
  EXPECT_EQ(attr.max_sge, 4U);
  EXPECT_EQ(attr.max_sge_rd, 1U);
  EXPECT_EQ(attr.max_inline_data, 0U);
  EXPECT_TRUE(side.device->create_cq(attr.max_cqe));
  refused(side.device->create_cq(attr.max_cqe + 1), "capacity", Errc::invalid_argument);
  EXPECT_TRUE(side.device->create_srq(side.pd, attr.max_srq_wr));
  refused(side.device->create_srq(side.pd, attr.max_srq_wr + 1), "capacity", Errc::invalid_argument);
  QpInit init{.pd = side.pd, .send_cq = side.send_cq.get(), .recv_cq = side.recv_cq.get()};
  init.max_send_wr = init.max_recv_wr = attr.max_qp_wr;
  EXPECT_TRUE(side.device->create_qp(init));
  ++init.max_send_wr;
  refused(side.device->create_qp(init), "QpInit::max_send_wr", Errc::invalid_argument);
}

TEST(NicRefusals, OnlyAnIwarpQueuePairIsFoundBehindOne) {
  Side side;
  EXPECT_EQ(parley::iwarp::queue_pair(side.qp.get()), side.qp.get());
  EXPECT_EQ(parley::iwarp::queue_pair(nullptr), nullptr);
  EXPECT_EQ(parley::iwarp::immediate_data({.opcode = WcOpcode::recv, .transport_data = 5}), 0U);
}

}  // namespace
}  // namespace parley::nic::iwarp::test
