// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "drivers/verbs/qp.hpp"

#include <algorithm>
#include <array>
#include <cerrno>

#include "drivers/verbs/convert.hpp"

namespace parley::verbs {
namespace {

struct Pieces {
  std::array<ibv_sge, sge_max> sges{};
  int count = 0;
};

/// Errors: invalid_argument.
Result<Pieces> pieces_of(std::span<const Sge> sges, std::uint32_t max) {
  if (sges.size() > max)
    return fail(Errc::invalid_argument, "the request has {a} pieces; the device takes {b}", std::ssize(sges), max);
  Pieces out;
  for (const Sge& sge : sges) {
    if (sge.length == 0) continue;  // a NIC would check its address and key, this does not
    out.sges[static_cast<std::size_t>(out.count++)] = {.addr = sge.addr, .length = sge.length, .lkey = sge.lkey};
  }
  return out;
}

std::uint64_t name(std::uint32_t key, std::uint32_t at) { return std::uint64_t{key} << 32 | at; }

auto queue_full(std::size_t size) {
  return fail(Errc::no_space, "{a} requests are posted and not complete, which is all that the queue holds",
              static_cast<std::int64_t>(size));
}
auto cq_full() { return fail(Errc::no_space, "the completion queue has no room for the request's completion"); }

constexpr std::uint32_t query_all = IBV_QP_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_AV |
                                    IBV_QP_PATH_MTU | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                                    IBV_QP_RQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER | IBV_QP_SQ_PSN |
                                    IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_PATH_MIG_STATE | IBV_QP_DEST_QPN;
constexpr int query_iwarp = IBV_QP_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_MAX_DEST_RD_ATOMIC;

}  // namespace

Srq::Srq(NicDevice& device, PdHandle pd, ibv_srq* srq, std::size_t capacity)
    : device_(device), pd_(pd), srq_(srq), capacity_(capacity), key_(device.next_posted_++), posted_(capacity, true) {
  device_.posted_[key_] = &posted_;
  device_.srqs_.push_back(this);
  ++device_.find_pd(pd_)->users;
}

Srq::~Srq() {
  ibv_destroy_srq(srq_);
  for (const auto& weak : reserved_)
    if (const auto cq = weak.lock())
      for (std::size_t i = 0; i < capacity_; ++i) cq->ring->release();
  device_.posted_.erase(key_);
  std::erase(device_.srqs_, this);
  std::erase_if(device_.async_, [this](const AsyncEvent& e) {
    const auto* limit = std::get_if<SrqLimitReached>(&e);
    return limit != nullptr && limit->srq == this;
  });
  --device_.find_pd(pd_)->users;
}

Result<void> Srq::reserve_at(const std::shared_ptr<HwCq>& cq) {
  std::erase_if(reserved_, [](const auto& weak) { return weak.expired(); });
  if (std::any_of(reserved_.begin(), reserved_.end(), [&](const auto& weak) { return weak.lock() == cq; })) return {};
  for (std::size_t taken = 0; taken < capacity_; ++taken) {
    if (cq->ring->reserve()) continue;
    while (taken-- > 0) cq->ring->release();
    return fail(Errc::no_space, "QpInit::recv_cq has no room for the {a} receives that QpInit::srq may hold",
                static_cast<std::int64_t>(capacity_));
  }
  reserved_.push_back(cq);
  return {};
}

Result<void> Srq::post_recv(const RecvWr& wr) {
  const auto pieces = pieces_of(wr.sges, device_.attr_.max_sge);
  if (!pieces) return tl::unexpected(pieces.error());
  if (posted_.full()) return queue_full(capacity_);
  ibv_recv_wr args{};
  const std::uint32_t at = posted_.put(wr.wr_id, WcOpcode::recv, true);
  args.wr_id = name(key_, at);
  args.sg_list = const_cast<ibv_sge*>(pieces->sges.data());
  args.num_sge = pieces->count;
  ibv_recv_wr* bad = nullptr;
  if (const int error = ibv_post_srq_recv(srq_, &args, &bad); error != 0) {
    posted_.close(at);
    return refused(error, "ibv_post_srq_recv: errno {a}");
  }
  return {};
}

Result<void> Srq::modify(const SrqAttr& attr) {
  if (attr.max_wr) return fail(Errc::unsupported, "SrqAttr::max_wr cannot be changed");
  if (!attr.srq_limit) return {};
  if (*attr.srq_limit > capacity_)
    return fail(Errc::invalid_argument, "SrqAttr::srq_limit is {a}; the queue holds {b}", *attr.srq_limit,
                static_cast<std::int64_t>(capacity_));
  ibv_srq_attr args{};
  args.srq_limit = *attr.srq_limit;
  if (const int error = ibv_modify_srq(srq_, &args, IBV_SRQ_LIMIT); error != 0)
    return refused(error, "ibv_modify_srq: errno {a}");
  return {};
}

SrqAttr Srq::query() const {
  ibv_srq_attr attr{};
  SrqAttr out{.max_wr = static_cast<std::uint32_t>(capacity_)};
  if (ibv_query_srq(srq_, &attr) == 0) out.srq_limit = attr.srq_limit;
  return out;
}

Qp::Qp(NicDevice& device, const QpInit& init, ibv_qp* qp, std::shared_ptr<HwCq> send_cq, std::shared_ptr<HwCq> recv_cq)
    : device_(device),
      type_(init.type),
      pd_(init.pd),
      qp_(qp),
      send_cq_(std::move(send_cq)),
      recv_cq_(std::move(recv_cq)),
      shared_(init.srq != nullptr),
      send_key_(device.next_posted_++),
      recv_key_(device.next_posted_++),
      sends_(std::max(init.max_send_wr, 1U)),
      receives_(shared_ || xrc() ? 0 : std::max(init.max_recv_wr, 1U)) {
  device_.posted_[send_key_] = &sends_;
  device_.posted_[recv_key_] = &receives_;
  if (pd_ != 0) ++device_.find_pd(pd_)->users;
  if (type_ == QpType::xrc_tgt) device_.targets_.push_back(this);
  ++device_.qps_;
}

Qp::~Qp() {
  // Posted requests will no longer complete; existing completions are taken before a driver forgets the queue pair.
  if (shared_ || type_ == QpType::xrc_tgt) device_.collect();
  device_.forget_target(this);
  ibv_destroy_qp(qp_);
  if (sends_.probes() != 0) send_cq_->probes -= sends_.probes();
  device_.posted_.erase(send_key_);
  device_.posted_.erase(recv_key_);
  for (std::size_t i = sends_.open(); i > 0; --i) send_cq_->ring->release();
  for (std::size_t i = receives_.open(); i > 0; --i) recv_cq_->ring->release();
  --device_.qps_;
  if (pd_ != 0) --device_.find_pd(pd_)->users;
}

QpState Qp::state() const {
  ibv_qp_attr attr{};
  ibv_qp_init_attr init{};
  if (ibv_query_qp(qp_, &attr, IBV_QP_STATE, &init) != 0) return from_ibv(qp_->state);
  return from_ibv(attr.qp_state);
}

Result<void> Qp::modify(const QpAttr& attr) {
  ModifyArgs args = to_ibv(attr);
  if (const int error = ibv_modify_qp(qp_, &args.attr, args.mask); error != 0)
    return refused(error, "ibv_modify_qp: errno {a}");
  return {};
}

QpAttr Qp::query() const {
  const bool iwarp = device_.transport() == Transport::iwarp;
  const int more = type_ == QpType::ud ? IBV_QP_QKEY : 0;
  const int mask = iwarp ? query_iwarp : static_cast<int>(query_all) | more;
  ibv_qp_attr attr{};
  ibv_qp_init_attr init{};
  if (ibv_query_qp(qp_, &attr, mask, &init) != 0) return {.state = from_ibv(qp_->state)};
  return from_ibv(attr, mask);
}

Result<void> Qp::post_send(const SendWr& wr) {
  if (type_ == QpType::xrc_tgt) return fail(Errc::unsupported, "an XRC_TGT queue pair has no send queue (IBA §A14)");
  const auto opcode = to_ibv(wr.opcode);
  if (!opcode) return tl::unexpected(opcode.error());
  const bool imm = wr.opcode == SendWr::Opcode::rdma_write_with_imm || wr.opcode == SendWr::Opcode::send_with_imm;
  if (imm && !device_.attr_.imm_data)
    return fail(Errc::unsupported, "SendWr::opcode has immediate data, which an iWARP device does not carry");
  const auto max = wr.opcode == SendWr::Opcode::rdma_read ? device_.attr_.max_sge_rd : device_.attr_.max_sge;
  const auto pieces = pieces_of(wr.sges, max);
  if (!pieces) return tl::unexpected(pieces.error());
  ibv_send_wr args{};
  args.sg_list = const_cast<ibv_sge*>(pieces->sges.data());
  args.num_sge = pieces->count;
  args.opcode = *opcode;
  args.send_flags = IBV_SEND_SIGNALED;
  if (wr.solicited) args.send_flags |= IBV_SEND_SOLICITED;
  if (wr.fence) args.send_flags |= IBV_SEND_FENCE;
  if (imm) args.imm_data = htobe32(wr.imm_data);
  if (wr.opcode == SendWr::Opcode::send_with_inv) args.invalidate_rkey = wr.invalidate_rkey;
  if (wr.opcode == SendWr::Opcode::atomic_cmp_and_swp || wr.opcode == SendWr::Opcode::atomic_fetch_and_add) {
    args.wr.atomic.remote_addr = wr.remote_addr;
    args.wr.atomic.rkey = wr.rkey;
    args.wr.atomic.compare_add = wr.compare_add;
    args.wr.atomic.swap = wr.swap;
  } else if (type_ == QpType::ud) {
    const auto* ah = static_cast<const Ah*>(wr.ah);
    if (ah == nullptr) return fail(Errc::invalid_argument, "SendWr::ah is null; a UD queue pair needs it");
    args.wr.ud.ah = ah->ah;
    args.wr.ud.remote_qpn = wr.remote_qp_num;
    args.wr.ud.remote_qkey = wr.remote_qkey;
  } else {
    args.wr.rdma.remote_addr = wr.remote_addr;
    args.wr.rdma.rkey = wr.rkey;
  }
  if (type_ == QpType::xrc_ini) args.qp_type.xrc.remote_srqn = wr.remote_srq_num;
  if (sends_.full()) device_.collect();
  if (sends_.full()) return queue_full(sends_.open());
  if (!send_cq_->ring->reserve()) return cq_full();
  const std::uint32_t at = sends_.put(wr.wr_id, completes_as(wr.opcode), wr.signaled);
  args.wr_id = name(send_key_, at);
  ibv_send_wr* bad = nullptr;
  if (const int error = ibv_post_send(qp_, &args, &bad); error != 0) {
    sends_.close(at);
    send_cq_->ring->release();
    return refused(error, "ibv_post_send: errno {a}");
  }
  return {};
}

bool Qp::probe() {
  if (!can_probe_ || sends_.probes() >= probes_max || send_cq_->probes >= send_cq_->probes_max) return false;
  ibv_send_wr args{};
  args.wr_id = name(send_key_, Posted::probe);
  args.opcode = IBV_WR_RDMA_WRITE;
  args.send_flags = IBV_SEND_SIGNALED;
  ibv_send_wr* bad = nullptr;
  if (ibv_post_send(qp_, &args, &bad) != 0) return false;
  sends_.begin_probe();
  ++send_cq_->probes;
  return true;
}

Result<void> Qp::post_recv(const RecvWr& wr) {
  if (xrc())
    return fail(Errc::unsupported,
                "XRC queue pairs have no receive queue; post to an XRC shared receive queue (IBA §A14)");
  if (shared_) return fail(Errc::wrong_state, "the queue pair takes its receives from a shared receive queue");
  const auto pieces = pieces_of(wr.sges, device_.attr_.max_sge);
  if (!pieces) return tl::unexpected(pieces.error());
  if (receives_.full()) return queue_full(receives_.open());
  if (!recv_cq_->ring->reserve()) return cq_full();
  ibv_recv_wr args{};
  const std::uint32_t at = receives_.put(wr.wr_id, WcOpcode::recv, true);
  args.wr_id = name(recv_key_, at);
  args.sg_list = const_cast<ibv_sge*>(pieces->sges.data());
  args.num_sge = pieces->count;
  ibv_recv_wr* bad = nullptr;
  if (const int error = ibv_post_recv(qp_, &args, &bad); error != 0) {
    receives_.close(at);
    recv_cq_->ring->release();
    return refused(error, "ibv_post_recv: errno {a}");
  }
  return {};
}

}  // namespace parley::verbs
