// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Shared receive queues. XRC: domains, their shared receive queues, and handles of XRC_TGT queue pairs.
#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>

#include "preload/objects.hpp"

namespace parley::preload {

namespace {

ibv_srq* create(const char* call, ibv_context* context, const ibv_srq_init_attr_ex& init) {
  const bool xrc = (init.comp_mask & IBV_SRQ_INIT_ATTR_TYPE) != 0 && init.srq_type == IBV_SRQT_XRC;
  if ((init.comp_mask & IBV_SRQ_INIT_ATTR_TYPE) != 0 && !xrc && init.srq_type != IBV_SRQT_BASIC)
    return none<ibv_srq>(call, EOPNOTSUPP, "there is no tag matching");
  if ((init.comp_mask & IBV_SRQ_INIT_ATTR_PD) == 0)
    return none<ibv_srq>(call, EINVAL, "the protection domain is missing");
  if (init.attr.max_sge > sge_max) return none<ibv_srq>(call, EINVAL, "max_sge is more than the device's");
  SrqInit asked{.pd = of(init.pd).number, .capacity = init.attr.max_wr};
  if (xrc && (init.xrcd == nullptr || init.cq == nullptr)) return none<ibv_srq>(call, EINVAL, "XRC needs xrcd and cq");
  if (xrc) asked.xrcd = of(init.xrcd).inner.get();
  if (xrc) asked.cq = of(init.cq).inner.get();
  auto made = with(context, [&](Device& device) { return device.create_srq(asked); });
  if (!made) return none<ibv_srq>(call, made.error());
  auto* const srq = new Srq{};
  srq->context = context;
  srq->srq_context = init.srq_context;
  srq->pd = init.pd;
  srq->inner = std::move(*made);
  srq->max_sge = std::max(init.attr.max_sge, 1U);
  srq->cq = xrc ? init.cq : nullptr;
  srq->xrcd = xrc ? init.xrcd : nullptr;
  if (srq->cq != nullptr) ++of(srq->cq).users;
  if (srq->xrcd != nullptr) ++of(srq->xrcd).users;
  of(context).engine->with_nic([&](auto&) { of(context).srqs.push_back(srq); });
  return srq;
}

ibv_srq* create_srq_ex(ibv_context* context, ibv_srq_init_attr_ex* init) {
  return create("ibv_create_srq_ex", context, *init);
}

/// The XRC domain of this context that the file identifies. Other processes do not share it: each has its own HCA.
Result<std::shared_ptr<XrcDomain>> domain_of(Context& context, Device& device, int fd, int flags) {
  struct stat file {};
  if (fd >= 0 && ::fstat(fd, &file) != 0) return fail(Errc::invalid_argument, "fd is not an open file");
  auto* const known = fd >= 0 ? &context.domains[{file.st_dev, file.st_ino}] : nullptr;
  if (auto there = known != nullptr ? known->lock() : nullptr) {
    if ((flags & O_EXCL) != 0) return fail(Errc::invalid_argument, "O_EXCL, and the file has a domain already");
    return there;
  }
  if ((flags & O_CREAT) == 0) return fail(Errc::invalid_argument, "no O_CREAT, and the file has no domain");
  auto made = device.open_xrcd();
  if (!made) return tl::unexpected(made.error());
  std::shared_ptr<XrcDomain> domain(std::move(*made));
  if (known != nullptr) *known = domain;
  return domain;
}

ibv_xrcd* open_xrcd(ibv_context* context, ibv_xrcd_init_attr* init) {
  constexpr std::uint32_t both = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
  if (init->comp_mask != both) return none<ibv_xrcd>("ibv_open_xrcd", EINVAL, "it needs fd, or -1, and oflags");
  auto made = with(context, [&](Device& device) { return domain_of(of(context), device, init->fd, init->oflags); });
  if (!made) return none<ibv_xrcd>("ibv_open_xrcd", made.error());
  auto* const xrcd = new Xrcd{};
  xrcd->context = context;
  xrcd->inner = std::move(*made);
  return xrcd;
}

int close_xrcd(ibv_xrcd* xrcd) {
  if (of(xrcd).users > 0) return refused("ibv_close_xrcd", EBUSY, "shared receive queues or queue pairs use it");
  with(xrcd->context, [&](Device&) {
    of(xrcd).inner.reset();
    std::erase_if(of(xrcd->context).domains, [](const auto& file) { return file.second.expired(); });
  });
  delete &of(xrcd);
  return 0;
}

int get_srq_num(ibv_srq* srq, std::uint32_t* out) {
  const auto number = with(srq->context, [&](Device&) { return of(srq).inner->srq_num(); });
  if (!number) return refused("ibv_get_srq_num", EINVAL, "it is not an XRC shared receive queue");
  *out = *number;
  return 0;
}

ibv_qp* open_qp(ibv_context* context, ibv_qp_open_attr* init) {
  if (init->xrcd == nullptr) return none<ibv_qp>("ibv_open_qp", EINVAL, "the XRC domain is missing");
  auto made = with(context, [&](Device& device) { return device.open_qp(*of(init->xrcd).inner, init->qp_num); });
  if (!made) return none<ibv_qp>("ibv_open_qp", made.error());
  auto* const qp = new Qp{};
  qp->qp_base.context = context;
  qp->qp_base.qp_context = init->qp_context;
  qp->qp_base.qp_type = IBV_QPT_XRC_RECV;
  qp->xrcd = init->xrcd;
  ++of(qp->xrcd).users;
  qp->inner = std::move(*made);
  qp->qp_base.state = static_cast<ibv_qp_state>(qp->inner->state());
  return hand_over(context, qp);
}

}  // namespace

void set_xrc(verbs_context& to) {
  to.open_xrcd = open_xrcd;
  to.close_xrcd = close_xrcd;
  to.create_srq_ex = create_srq_ex;
  to.get_srq_num = get_srq_num;
  to.open_qp = open_qp;
}

}  // namespace parley::preload

using namespace parley::preload;  // NOLINT: the functions below are libibverbs' and have no namespace
using parley::Device;
using parley::SrqAttr;

PARLEY_VERB ibv_srq* ibv_create_srq(ibv_pd* pd, ibv_srq_init_attr* init) {
  ibv_srq_init_attr_ex extended{};
  extended.srq_context = init->srq_context;
  extended.attr = init->attr;
  extended.comp_mask = IBV_SRQ_INIT_ATTR_PD;
  extended.pd = pd;
  return create("ibv_create_srq", pd->context, extended);
}

PARLEY_VERB int ibv_modify_srq(ibv_srq* srq, ibv_srq_attr* attr, int mask) {
  SrqAttr asked;
  if ((mask & IBV_SRQ_MAX_WR) != 0) asked.max_wr = attr->max_wr;
  if ((mask & IBV_SRQ_LIMIT) != 0) asked.srq_limit = attr->srq_limit;
  return outcome("ibv_modify_srq", with(srq->context, [&](Device&) { return of(srq).inner->modify(asked); }));
}

PARLEY_VERB int ibv_query_srq(ibv_srq* srq, ibv_srq_attr* out) {
  if (!is_own(srq->context)) return refused("ibv_query_srq", EPERM, Engine::not_own);
  const SrqAttr now = with(srq->context, [&](Device&) { return of(srq).inner->query(); });
  *out = {.max_wr = now.max_wr.value_or(0), .max_sge = of(srq).max_sge, .srq_limit = now.srq_limit.value_or(0)};
  return 0;
}

PARLEY_VERB int ibv_destroy_srq(ibv_srq* srq) {
  if (of(srq).users > 0) return refused("ibv_destroy_srq", EBUSY, "queue pairs use it");
  Context& context = of(srq->context);
  with(srq->context, [&](Device&) {
    std::erase(context.srqs, srq);
    context.forget(srq);
    of(srq).inner.reset();
  });
  of(srq).events.wait();
  if (of(srq).cq != nullptr) --of(of(srq).cq).users;
  if (of(srq).xrcd != nullptr) --of(of(srq).xrcd).users;
  delete &of(srq);
  return 0;
}
