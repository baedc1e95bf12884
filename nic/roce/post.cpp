// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Checks of posted requests of a RoCE queue pair: the operations of IBA §11.4.1.
#include "nic/roce/qp.hpp"

namespace parley::nic::roce {
namespace {

using Opcode = SendWr::Opcode;
using Kind = SendWqe::Kind;

Kind kind_of(Opcode opcode) {
  switch (opcode) {
    case Opcode::rdma_write:
    case Opcode::rdma_write_with_imm: return Kind::write;
    case Opcode::rdma_read: return Kind::read;
    case Opcode::atomic_cmp_and_swp: return Kind::cmp_swap;
    case Opcode::atomic_fetch_and_add: return Kind::fetch_add;
    case Opcode::bind_mw: return Kind::bind;
    case Opcode::local_inv: return Kind::local_inv;
    default: return Kind::send;
  }
}
bool is_local(Opcode opcode) { return opcode == Opcode::bind_mw || opcode == Opcode::local_inv; }
bool has_imm(Opcode opcode) { return opcode == Opcode::send_with_imm || opcode == Opcode::rdma_write_with_imm; }
bool completes_a_receive(Opcode opcode) {
  return opcode == Opcode::send || opcode == Opcode::send_with_inv || has_imm(opcode);
}

Result<void> check_atomic(const SendWr& wr) {
  if (wr.sges.size() != 1)
    return fail(Errc::invalid_argument, "SendWr::sges has {a} pieces; an atomic takes one of 8 octets",
                std::ssize(wr.sges));
  if (wr.sges[0].length != 8)
    return fail(Errc::invalid_argument, "SendWr::sges[0] has {a} octets; an atomic takes 8", wr.sges[0].length);
  if (wr.remote_addr % 8 != 0)
    return fail(Errc::invalid_argument, "SendWr::remote_addr of an atomic is {a} octets behind a multiple of 8",
                static_cast<std::int64_t>(wr.remote_addr % 8));
  return {};
}

Result<void> check_operation(QpType type, Opcode opcode) {
  const bool reliable = type == QpType::rc || type == QpType::xrc_ini;
  switch (opcode) {
    case Opcode::send:
    case Opcode::send_with_imm: return {};
    case Opcode::rdma_write:
    case Opcode::rdma_write_with_imm:
      if (type != QpType::ud) return {};
      return fail(Errc::unsupported, "SendWr::opcode is an RDMA Write, which datagrams are not (IBA §9.2.1)");
    case Opcode::rdma_read:
    case Opcode::atomic_cmp_and_swp:
    case Opcode::atomic_fetch_and_add:
    case Opcode::send_with_inv:
      if (reliable) return {};
      return fail(
          Errc::unsupported,
          "SendWr::opcode: Reads, Atomics and send_with_inv need RC or XRC, where the peer answers (IBA §9.2.1)");
    case Opcode::bind_mw:
    case Opcode::local_inv:
      if (type != QpType::ud) return {};
      return fail(Errc::unsupported,
                  "SendWr::opcode: bind_mw and local_inv need RC, UC or XRC; datagrams reach no memory (IBA §11.4.1)");
    case Opcode::masked_atomic_cmp_and_swp:
    case Opcode::masked_atomic_fetch_and_add:
      return fail(Errc::unsupported, "SendWr::opcode: InfiniBand's Atomics have no masks (IBA §9.4.5)");
  }
  return fail(Errc::invalid_argument, "SendWr::opcode: {a} is not an opcode", static_cast<int>(opcode));
}

}  // namespace

Result<void> Qp::check_posting_send() const {
  switch (qp_.state) {
    case QpState::reset:
    case QpState::init:
    case QpState::rtr:
      return fail(Errc::wrong_state, "the queue pair is not in RTS yet; it takes sends from there on (IBA §10.3.1)");
    default: return {};
  }
}

Result<void> Qp::check_target(const SendWr& wr) const {
  if (qp_.type != QpType::xrc_ini && wr.remote_srq_num != 0)
    return fail(Errc::invalid_argument, "SendWr::remote_srq_num goes with XRC_INI queue pairs only");
  if (qp_.type == QpType::xrc_ini && wr.remote_srq_num > PARLEY_IB_QPN_MAX)
    return fail(Errc::invalid_argument, "SendWr::remote_srq_num is {a}; it has 24 bits", wr.remote_srq_num);
  if (qp_.type != QpType::ud) {
    if (wr.ah == nullptr && (wr.remote_qp_num | wr.remote_qkey) == 0) return {};
    return fail(Errc::invalid_argument,
                "SendWr::ah, remote_qp_num and remote_qkey go with UD queue pairs; the peer is the connection's");
  }
  if (qp_.nic->handles.find(wr.ah) == qp_.nic->handles.end())
    return fail(Errc::invalid_argument, "SendWr::ah is not an address handle of this device");
  if (wr.remote_qp_num > PARLEY_IB_QPN_MAX)
    return fail(Errc::invalid_argument, "SendWr::remote_qp_num is {a}; it has 24 bits", wr.remote_qp_num);
  return {};
}

Result<void> Qp::check_bind(const SendWr& wr) const {
  if (wr.opcode != Opcode::bind_mw) return {};
  if (wr.bind == nullptr) return fail(Errc::invalid_argument, "SendWr::bind is null; bind_mw needs it");
  if (qp_.type != QpType::xrc_ini || qp_.tables().regions.window_type(wr.bind->window) != MwType::type_2) return {};
  return fail(Errc::unsupported,
              "SendWr::bind: an XRC_INI queue pair receives no requests that could use a window of type 2");
}

Result<void> Qp::check_shape(const SendWr& wr) const {
  if (auto operation = check_operation(qp_.type, wr.opcode); !operation) return operation;
  const bool invalidates = wr.opcode == Opcode::send_with_inv || wr.opcode == Opcode::local_inv;
  if (wr.invalidate_rkey != 0 && !invalidates)
    return fail(Errc::invalid_argument,
                "SendWr::invalidate_rkey goes with send_with_inv and local_inv only (IBA §9.4.1.1)");
  if (wr.imm_data != 0 && !has_imm(wr.opcode))
    return fail(Errc::invalid_argument, "SendWr::imm_data is allowed only with send_with_imm and rdma_write_with_imm");
  if (wr.solicited && !completes_a_receive(wr.opcode))
    return fail(Errc::invalid_argument,
                "SendWr::solicited goes with sends and rdma_write_with_imm; nothing else completes a receive at the "
                "peer (IBA §9.2.3)");
  if (invalidates && wr.invalidate_rkey == 0)
    return fail(Errc::invalid_argument, "SendWr::invalidate_rkey is 0, which names no region or window to invalidate");
  if (auto bind = check_bind(wr); !bind) return bind;
  if (auto target = check_target(wr); !target) return target;
  const Kind kind = kind_of(wr.opcode);
  if (kind == Kind::cmp_swap || kind == Kind::fetch_add) {
    if (auto atomic = check_atomic(wr); !atomic) return atomic;
  }
  if ((kind == Kind::read || kind == Kind::cmp_swap || kind == Kind::fetch_add) &&
      (qp_.state == QpState::rts || qp_.state == QpState::sqd) && qp_.attr.max_rd_atomic.value_or(0) == 0)
    return fail(Errc::insufficient_ird, "QpAttr::max_rd_atomic of this queue pair is 0; a Read or Atomic needs 1");
  return {};
}

Result<void> Qp::fill(SendWqe& wqe, const SendWr& wr) const {
  if (wqe.memory.length > message_max)
    return fail(Errc::invalid_argument, "sges together have more than 2^31 octets (IBA §9.4)");
  if (qp_.type == QpType::ud && wqe.memory.length > qp_.nic->port_mtu)
    return fail(Errc::invalid_argument, "sges together have {a} octets; a datagram has at most {b}, the port's MTU",
                wqe.memory.length, qp_.nic->port_mtu);
  wqe.wr_id = wr.wr_id;
  wqe.kind = kind_of(wr.opcode);
  wqe.signaled = wr.signaled;
  wqe.solicited = wr.solicited;
  wqe.fence = wr.fence;
  wqe.with_imm = has_imm(wr.opcode);
  wqe.imm = wr.imm_data;
  wqe.invalidate = wr.invalidate_rkey;
  if (wqe.kind == Kind::bind) wqe.bind = *wr.bind;
  wqe.rkey = wr.rkey;
  wqe.remote_addr = wr.remote_addr;
  wqe.swap_add = wqe.kind == Kind::cmp_swap ? wr.swap : wr.compare_add;
  wqe.compare = wqe.kind == Kind::cmp_swap ? wr.compare_add : 0;
  wqe.srqn = wr.remote_srq_num;
  if (qp_.type != QpType::ud) return {};
  wqe.path = qp_.nic->handles.find(wr.ah)->second;
  wqe.path.source_port = qp_.path.source_port;
  wqe.qpn = wr.remote_qp_num;
  wqe.q_key = wr.remote_qkey;
  return {};
}

/// Puts the request into the send queue.
Result<void> Qp::accept(const SendWr& wr) {
  if (auto shape = check_shape(wr); !shape) return shape;
  const Result<SendWqe*> place = requester_.push();
  if (!place) return tl::unexpected(place.error());
  SendWqe& wqe = **place;
  const Kind kind = kind_of(wr.opcode);
  const Access needed = kind == Kind::send || kind == Kind::write ? Access::none : Access::local_write;
  MrTable& regions = qp_.tables().regions;
  const std::span<const Sge> sges = is_local(wr.opcode) ? std::span<const Sge>{} : wr.sges;
  const Errc fault = resolve(regions, qp_.pd, sges, needed, wqe.memory);
  if (fault != Errc::ok) {
    requester_.cancel();
    return tl::unexpected(refusal(regions, qp_.pd, sges, needed, fault));
  }
  if (auto filled = fill(wqe, wr); !filled) {
    unpin(regions, wqe.memory);
    requester_.cancel();
    return filled;
  }
  return {};
}

Result<void> Qp::post_sends(std::span<const SendWr> all) {
  if (!qp_.sends()) return fail(Errc::unsupported, "an XRC_TGT queue pair has no send queue (IBA §A14)");
  if (auto posting = check_posting_send(); !posting) return posting;
  for (std::size_t n = 0; n < all.size(); ++n) {
    auto accepted = accept(all[n]);
    if (accepted) continue;
    while (n-- > 0) requester_.undo_push();
    return accepted;
  }
  // IBA §10.3.1: accepted, and flushed at once.
  if (qp_.state == QpState::sqe || qp_.state == QpState::err) requester_.flush();
  if (!dirty && ready()) qp_.nic->mark_dirty(*this);
  return {};
}

Result<void> Qp::post_recv(const RecvWr& wr) {
  if (!qp_.receives() || qp_.type == QpType::xrc_tgt)
    return fail(Errc::unsupported,
                "XRC queue pairs have no receive queue; post to an XRC shared receive queue (IBA §A14)");
  if (qp_.srq) return fail(Errc::invalid_argument, "the queue pair has QpInit::srq; post there");
  if (qp_.state == QpState::reset)
    return fail(Errc::wrong_state, "the queue pair is in RESET; it takes receives from INIT on");
  if (auto posted = responder_.post(wr); !posted) return posted;
  if (qp_.state == QpState::err) responder_.flush();
  return {};
}

}  // namespace parley::nic::roce
