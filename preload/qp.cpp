// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Queue pairs: create, modify, query, destroy. Also ECE and multicast groups.
#include <algorithm>
#include <cerrno>

#include "drivers/verbs/convert.hpp"
#include "preload/objects.hpp"

namespace parley::preload {

namespace {

constexpr std::uint32_t sge_octets = 16;
constexpr std::uint32_t inline_most = 1024;  // octets
constexpr int known_attributes = (IBV_QP_DEST_QPN << 1) - 1;

CompletionQueue* inner_of(ibv_cq* cq) { return cq == nullptr ? nullptr : of(cq).inner.get(); }

/// Changes the user count of a completion queue, shared receive queue or XRC domain. It cannot be destroyed while in
/// use.
void use(auto* object, int more) {
  if (object != nullptr) of(object).users += static_cast<std::uint32_t>(more);
}

/// The reason to refuse `init`; null: none.
const char* wrong_with(const ibv_qp_init_attr_ex& init) {
  constexpr std::uint32_t known = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_XRCD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
  constexpr std::uint64_t operations = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM |
                                       IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_RDMA_READ |
                                       IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD |
                                       IBV_QP_EX_WITH_SEND_WITH_INV | IBV_QP_EX_WITH_LOCAL_INV | IBV_QP_EX_WITH_BIND_MW;
  if (init.qp_type == IBV_QPT_RAW_PACKET) return "there are no raw packets: the device has no Ethernet below it";
  if ((init.comp_mask & ~known) != 0) return "comp_mask has a bit that this device does not support";
  if ((init.comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) != 0 && (init.send_ops_flags & ~operations) != 0)
    return "send_ops_flags has an operation that this device does not support";
  return nullptr;
}

/// Allocates the slots for inline data and registers them as a memory region of the queue pair's domain.
Result<void> make_ring(Device& device, Qp& qp, std::uint32_t size) {
  if (size == 0) return {};
  qp.inlined.octets.resize(std::size_t{size} * qp.cap.max_send_wr);
  const auto region = device.reg_mr(of(qp.qp_base.pd).number, qp.inlined.octets, Access::none);
  if (!region) return tl::unexpected(region.error());
  qp.inlined.lkey = region->lkey;
  qp.inlined.size = size;
  return {};
}

Result<void> make_inner(Device& device, Qp& qp, const ibv_qp_init_attr_ex& init) {
  QpInit of_parley{
      .type = static_cast<QpType>(init.qp_type), .max_send_wr = qp.cap.max_send_wr, .max_recv_wr = qp.cap.max_recv_wr};
  if (qp.xrcd != nullptr) {  // as on Linux, the queues in `init` are ignored
    of_parley.xrcd = of(qp.xrcd).inner.get();
  } else {
    of_parley.pd = qp.qp_base.pd == nullptr ? 0 : of(qp.qp_base.pd).number;
    of_parley.send_cq = inner_of(init.send_cq);
    of_parley.recv_cq = inner_of(init.recv_cq);
    of_parley.srq = init.srq == nullptr ? nullptr : of(init.srq).inner.get();
  }
  auto made = device.create_qp(of_parley);
  if (!made) return tl::unexpected(made.error());
  qp.inner = std::move(*made);
  return init.qp_type == IBV_QPT_XRC_RECV ? Result<void>() : make_ring(device, qp, qp.cap.max_inline_data);
}

void fill(ibv_qp& to, ibv_context* context, const ibv_qp_init_attr_ex& init) {
  to.context = context;
  to.qp_context = init.qp_context;
  to.pd = (init.comp_mask & IBV_QP_INIT_ATTR_PD) != 0 ? init.pd : nullptr;
  to.send_cq = init.send_cq;
  to.recv_cq = init.recv_cq;
  to.srq = init.srq;
  to.qp_type = init.qp_type;
  to.state = IBV_QPS_RESET;
}

/// Attributes that Linux removes from the mask before it calls the device: programs set them as for RC.
int ignored(ibv_qp_type type) {
  switch (type) {
    case IBV_QPT_XRC_SEND: return IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
    case IBV_QPT_XRC_RECV: return IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY;
    default: return 0;
  }
}

/// Converts the attributes that `mask` selects to Parley's structure.
Result<QpAttr> attributes(ibv_context* context, const ibv_qp_attr& attr, int mask) {
  if ((mask & IBV_QP_ALT_PATH) != 0) return fail(Errc::unsupported, "there are no alternate paths");
  if ((mask & ~known_attributes) != 0)
    return fail(Errc::unsupported, "the mask names an attribute that this device lacks");
  QpAttr out = verbs::from_ibv(attr, mask & ~(IBV_QP_CAP | IBV_QP_PATH_MIG_STATE));
  if (out.ah) out.ah = address_of(context, attr.ah_attr);
  if (out.access) out.access = static_cast<Access>(attr.qp_access_flags & rights);
  if ((mask & IBV_QP_CUR_STATE) != 0) out.cur_state = verbs::from_ibv(attr.cur_qp_state);
  if ((mask & IBV_QP_EN_SQD_ASYNC_NOTIFY) != 0) out.en_sqd_async_notify = attr.en_sqd_async_notify != 0;
  if ((mask & IBV_QP_PATH_MIG_STATE) != 0 && attr.path_mig_state != IBV_MIG_MIGRATED)
    return fail(Errc::unsupported, "there are no alternate paths");
  return out;
}

ibv_qp_attr to_ibv_qp_attr(const QpAttr& from, const Qp& qp) {
  ibv_qp_attr out = verbs::to_ibv(from).attr;
  out.cur_qp_state = out.qp_state;
  out.cap = qp.cap;
  out.path_mig_state = IBV_MIG_MIGRATED;
  out.sq_draining = from.sq_draining ? 1 : 0;
  out.port_num = 1;
  return out;
}

}  // namespace

ibv_qp* create_qp_ex(ibv_context* context, ibv_qp_init_attr_ex* init) {
  constexpr const char* call = "ibv_create_qp";
  if (const char* const why = wrong_with(*init)) return none<ibv_qp>(call, EOPNOTSUPP, why);
  if (init->cap.max_inline_data > inline_most) return none<ibv_qp>(call, EINVAL, "max_inline_data is more than 1024");
  if (init->cap.max_send_sge > sge_max || init->cap.max_recv_sge > sge_max)
    return none<ibv_qp>(call, EINVAL, "max_send_sge or max_recv_sge is more than the device's max_sge");
  auto* const qp = new Qp{};
  fill(qp->qp_base, context, *init);
  if (init->qp_type == IBV_QPT_XRC_RECV && (init->comp_mask & IBV_QP_INIT_ATTR_XRCD) != 0) qp->xrcd = init->xrcd;
  qp->cap = init->cap;
  // Parley's queues have at least one request and one SGE. Programs do not post to a queue that they created with none.
  qp->cap.max_send_wr = std::max(init->cap.max_send_wr, 1U);
  qp->cap.max_recv_wr = std::max(init->cap.max_recv_wr, 1U);
  qp->cap.max_send_sge = std::max(init->cap.max_send_sge, 1U);
  qp->cap.max_recv_sge = std::max(init->cap.max_recv_sge, 1U);
  // As Linux devices whose inline data reuses the room of the SGE descriptors: rdma_xclient depends on it.
  qp->cap.max_inline_data = std::max(init->cap.max_inline_data, sge_octets * init->cap.max_send_sge);
  qp->all_signaled = init->sq_sig_all != 0;
  const auto made = with(context, [&](Device& device) { return make_inner(device, *qp, *init); });
  if (!made) {
    with(context, [&](Device&) { qp->inner.reset(); });
    delete qp;
    return none<ibv_qp>(call, made.error());
  }
  if ((init->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) != 0) set_extended_qp(*qp);
  use(init->send_cq, 1);
  use(init->recv_cq, 1);
  use(init->srq, 1);
  use(qp->xrcd, 1);
  init->cap = qp->cap;
  return hand_over(context, qp);
}

ibv_qp* hand_over(ibv_context* context, Qp* qp) {
  qp->qp_base.handle = qp->qp_base.qp_num = qp->inner->qp_num();
  of(context).engine->with_nic([&](auto&) { of(context).qps.push_back(&qp->qp_base); });
  return &qp->qp_base;
}

}  // namespace parley::preload

using namespace parley::preload;  // NOLINT: the functions below are libibverbs' and have no namespace
using parley::Device;
using parley::QpAttr;

PARLEY_VERB ibv_qp* ibv_create_qp(ibv_pd* pd, ibv_qp_init_attr* init) {
  ibv_qp_init_attr_ex extended{};
  extended.qp_context = init->qp_context;
  extended.send_cq = init->send_cq;
  extended.recv_cq = init->recv_cq;
  extended.srq = init->srq;
  extended.cap = init->cap;
  extended.qp_type = init->qp_type;
  extended.sq_sig_all = init->sq_sig_all;
  extended.comp_mask = IBV_QP_INIT_ATTR_PD;
  extended.pd = pd;
  ibv_qp* const made = create_qp_ex(pd->context, &extended);
  if (made != nullptr) init->cap = extended.cap;
  return made;
}

/// Null: the queue pair was created without IBV_QP_INIT_ATTR_SEND_OPS_FLAGS.
PARLEY_VERB ibv_qp_ex* ibv_qp_to_qp_ex(ibv_qp* qp) { return of(qp).wr_start == nullptr ? nullptr : &of(qp); }

PARLEY_VERB int ibv_modify_qp(ibv_qp* qp, ibv_qp_attr* attr, int mask) {
  const auto asked = attributes(qp->context, *attr, mask & ~ignored(qp->qp_type));
  if (!asked) return refused("ibv_modify_qp", asked.error());
  const auto done = with(qp->context, [&](Device&) {
    const auto result = of(qp).inner->modify(*asked);
    qp->state = static_cast<ibv_qp_state>(of(qp).inner->state());
    return result;
  });
  return outcome("ibv_modify_qp", done);
}

PARLEY_VERB int ibv_query_qp(ibv_qp* qp, ibv_qp_attr* attr, int, ibv_qp_init_attr* init) {
  if (!is_own(qp->context)) return refused("ibv_query_qp", EPERM, Engine::not_own);
  const QpAttr now = with(qp->context, [&](Device&) { return of(qp).inner->query(); });
  *attr = to_ibv_qp_attr(now, of(qp));
  qp->state = attr->qp_state;
  if (init != nullptr)
    *init = {.qp_context = qp->qp_context,
             .send_cq = qp->send_cq,
             .recv_cq = qp->recv_cq,
             .srq = qp->srq,
             .cap = of(qp).cap,
             .qp_type = qp->qp_type,
             .sq_sig_all = of(qp).all_signaled ? 1 : 0};
  return 0;
}

PARLEY_VERB int ibv_query_qp_data_in_order(ibv_qp*, ibv_wr_opcode, std::uint32_t) { return 0; }

PARLEY_VERB int ibv_destroy_qp(ibv_qp* qp) {
  Context& context = of(qp->context);
  with(qp->context, [&](Device& device) {
    std::erase(context.qps, qp);
    context.forget(qp);
    of(qp).inner.reset();
    if (of(qp).inlined.lkey != 0) (void)device.dereg_mr(of(qp).inlined.lkey);
  });
  of(qp).events.wait();
  use(qp->send_cq, -1);
  use(qp->recv_cq, -1);
  use(qp->srq, -1);
  use(of(qp).xrcd, -1);
  delete &of(qp);
  return 0;
}

PARLEY_VERB int ibv_set_ece(ibv_qp*, ibv_ece* ece) {
  return ece->vendor_id == 0 ? 0 : refused("ibv_set_ece", EOPNOTSUPP, "there are no vendors' extensions");
}

PARLEY_VERB int ibv_query_ece(ibv_qp*, ibv_ece* ece) {
  *ece = {};
  return 0;
}

PARLEY_VERB int ibv_attach_mcast(ibv_qp* qp, const ibv_gid* gid, std::uint16_t) {
  return with_group("ibv_attach_mcast", qp, *gid, true);
}

PARLEY_VERB int ibv_detach_mcast(ibv_qp* qp, const ibv_gid* gid, std::uint16_t) {
  return with_group("ibv_detach_mcast", qp, *gid, false);
}
