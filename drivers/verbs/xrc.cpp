// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// XRC on a real NIC: domains, shared receive queues, both ends, and handles on TGT queue pairs that other processes
// created.
#include <fcntl.h>

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <mutex>
#include <set>
#include <system_error>

#include "drivers/verbs/convert.hpp"
#include "drivers/verbs/qp.hpp"

namespace parley::verbs {
namespace {

/// None: not an event of a TGT queue pair.
std::optional<QueuePairEvent::Kind> kind_of(ibv_event_type type) {
  switch (type) {
    case IBV_EVENT_COMM_EST: return QueuePairEvent::Kind::comm_est;
    case IBV_EVENT_QP_LAST_WQE_REACHED: return QueuePairEvent::Kind::qp_last_wqe_reached;
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR: return QueuePairEvent::Kind::qp_fatal;
    default: return std::nullopt;
  }
}

}  // namespace

// An Error's sentence is kept for ever: there is one per device, call and number.
tl::unexpected<Error> refused_by(const std::string& device, std::string_view call, int error) {
  error = std::abs(error);  // some drivers return it negative
  static std::mutex mutex;
  static std::set<std::string> sentences;
  const std::lock_guard lock(mutex);
  const std::string why = std::generic_category().message(error);
  return refused(error, *sentences.insert(fmt::format("{}: {}: {} (errno {})", device, call, why, error)).first);
}

Xrcd::Xrcd(NicDevice& device, ibv_xrcd* handle) : xrcd(handle), device_(device) { device_.xrcds_.push_back(this); }

Xrcd::~Xrcd() {
  ibv_close_xrcd(xrcd);
  std::erase(device_.xrcds_, this);
}

Xrcd* NicDevice::find_xrcd(const XrcDomain* domain) const {
  const auto at = std::find_if(xrcds_.begin(), xrcds_.end(), [domain](const Xrcd* known) { return known == domain; });
  return at == xrcds_.end() ? nullptr : *at;
}

Result<std::unique_ptr<XrcDomain>> NicDevice::open_xrcd(const XrcdInit& init) {
  if (released()) return removed();
  ibv_xrcd_init_attr attr{};
  attr.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
  attr.fd = init.fd;
  attr.oflags = (init.create ? O_CREAT : 0) | (init.exclusive ? O_EXCL : 0);
  ibv_xrcd* xrcd = ibv_open_xrcd(context_, &attr);
  if (xrcd == nullptr) return refused_by(attr_.name, "ibv_open_xrcd", errno);
  return std::make_unique<Xrcd>(*this, xrcd);
}

Result<std::unique_ptr<SharedReceiveQueue>> NicDevice::create_xrc_srq(const SrqInit& init) {
  if (released()) return removed();
  const Xrcd* domain = find_xrcd(init.xrcd);
  if (domain == nullptr) return fail(Errc::invalid_argument, "SrqInit::xrcd is not an XRC domain of this device");
  auto cq = find_cq(init.cq);
  if (!cq)
    return fail(Errc::invalid_argument,
                "SrqInit::cq is not a completion queue of this device; an XRC shared receive queue needs one");
  ibv_srq_init_attr_ex attr{};
  attr.attr.max_wr = static_cast<std::uint32_t>(init.capacity);
  attr.attr.max_sge = std::max(attr_.max_sge, 1U);
  attr.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;
  attr.srq_type = IBV_SRQT_XRC;
  attr.pd = find_pd(init.pd)->pd;
  attr.xrcd = domain->xrcd;
  attr.cq = cq->cq;
  ibv_srq* made = ibv_create_srq_ex(context_, &attr);
  if (made == nullptr) return refused_by(attr_.name, "ibv_create_srq_ex", errno);
  auto srq = std::make_unique<Srq>(*this, init.pd, made, init.capacity);
  std::uint32_t number = 0;
  if (const int error = ibv_get_srq_num(made, &number); error != 0)
    return refused_by(attr_.name, "ibv_get_srq_num", error);
  srq->set_number(number);
  if (auto room = srq->reserve_at(cq); !room) return tl::unexpected(room.error());
  return srq;
}

Result<std::unique_ptr<Qp>> NicDevice::make_xrc_qp(const QpInit& init) {
  if (released()) return removed();
  ibv_qp_init_attr_ex attr{};
  std::shared_ptr<HwCq> send_cq;
  QpInit parts = init;
  if (init.type == QpType::xrc_tgt) {
    const Xrcd* domain = find_xrcd(init.xrcd);
    if (domain == nullptr)
      return fail(Errc::invalid_argument,
                  "QpInit::xrcd is not an XRC domain of this device; an XRC_TGT queue pair needs one");
    attr.comp_mask = IBV_QP_INIT_ATTR_XRCD;
    attr.xrcd = domain->xrcd;
    attr.qp_type = IBV_QPT_XRC_RECV;
    parts.pd = 0;
  } else {
    Pd* pd = find_pd(init.pd);
    if (pd == nullptr)
      return fail(Errc::invalid_argument, "QpInit::pd is {a}, no protection domain of the device", init.pd);
    send_cq = find_cq(init.send_cq);
    if (!send_cq) return fail(Errc::invalid_argument, "QpInit::send_cq is not a completion queue of the device");
    if (init.max_send_wr > attr_.max_qp_wr)
      return fail(Errc::invalid_argument, "QpInit::max_send_wr is at most {a}", attr_.max_qp_wr);
    attr.comp_mask = IBV_QP_INIT_ATTR_PD;
    attr.pd = pd->pd;
    attr.qp_type = IBV_QPT_XRC_SEND;
    attr.send_cq = send_cq->cq;
    attr.sq_sig_all = 1;
    attr.cap.max_send_wr = std::max(init.max_send_wr, 1U);
    attr.cap.max_send_sge = std::max(attr_.max_sge, 1U);
  }
  ibv_qp* qp = ibv_create_qp_ex(context_, &attr);
  if (qp == nullptr) return refused_by(attr_.name, "ibv_create_qp_ex", errno);
  return std::make_unique<Qp>(*this, parts, qp, std::move(send_cq), nullptr);
}

Result<std::unique_ptr<QueuePair>> NicDevice::open_qp(XrcDomain& domain, std::uint32_t qp_num) {
  if (released()) return removed();
  const Xrcd* known = find_xrcd(&domain);
  if (known == nullptr) return fail(Errc::invalid_argument, "the domain is none of this device");
  ibv_qp_open_attr attr{};
  attr.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE;
  attr.qp_num = qp_num;
  attr.xrcd = known->xrcd;
  attr.qp_type = IBV_QPT_XRC_RECV;
  ibv_qp* qp = ibv_open_qp(context_, &attr);
  if (qp == nullptr)
    return errno == EINVAL ? fail(Errc::invalid_argument, "there is no XRC_TGT queue pair {a} in this domain", qp_num)
                           : refused_by(attr_.name, "ibv_open_qp", errno);
  return std::make_unique<Qp>(*this, QpInit{.type = QpType::xrc_tgt}, qp, nullptr, nullptr);
}

/// A system event for a handle on a TGT queue pair; each process that has it open gets the event.
void NicDevice::notify_target(const ibv_async_event& event) {
  const auto kind = kind_of(event.event_type);
  if (!kind) return;
  const auto at =
      std::find_if(targets_.begin(), targets_.end(), [&event](const Qp* qp) { return qp->qp() == event.element.qp; });
  if (at == targets_.end()) return;
  const QueuePairEvent told{.kind = *kind, .qp = *at};
  for (const AsyncEvent& waiting : async_)
    if (const auto* same = std::get_if<QueuePairEvent>(&waiting);
        same != nullptr && same->qp == told.qp && same->kind == told.kind)
      return;
  async_.push_back(told);
}

void NicDevice::forget_target(const Qp* qp) {
  std::erase(targets_, qp);
  std::erase_if(async_, [qp](const AsyncEvent& waiting) {
    const auto* told = std::get_if<QueuePairEvent>(&waiting);
    return told != nullptr && told->qp == qp;
  });
}

}  // namespace parley::verbs
