// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The data path: posting requests and polling completions.
#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <span>

#include "nic/roce/device.hpp"
#include "preload/objects.hpp"

namespace parley::preload {

namespace {

/// Converts `count` SGEs into `to`; `out` is a view of them. False: there are more than `most`.
bool take(const ibv_sge* from, int count, std::uint32_t most, Pieces& to, std::span<const Sge>& out) {
  if (count < 0 || static_cast<std::uint32_t>(count) > most) return false;
  auto* const pieces = reinterpret_cast<Sge*>(to.room.data());
  for (int i = 0; i < count; ++i) std::construct_at(pieces + i, Sge{from[i].addr, from[i].length, from[i].lkey});
  out = std::span(pieces, static_cast<std::size_t>(count));
  return true;
}

// mlx5 sets wc.sl of a RoCE datagram to the type of its network header. UCX uses it to find the GIDs.
constexpr std::uint8_t network_ipv6 = 1, network_ipv4 = 2;

bool is_local(ibv_wr_opcode opcode) { return opcode == IBV_WR_BIND_MW || opcode == IBV_WR_LOCAL_INV; }

bool carries_solicited(ibv_wr_opcode opcode) {
  return !is_local(opcode) && opcode != IBV_WR_RDMA_WRITE && opcode != IBV_WR_RDMA_READ &&
         opcode != IBV_WR_ATOMIC_CMP_AND_SWP && opcode != IBV_WR_ATOMIC_FETCH_AND_ADD;
}

/// Sets the opcode, its parameters and the destination. False: the opcode is not supported.
bool translate(const ibv_qp& qp, const ibv_send_wr& from, SendWr& to) {
  switch (from.opcode) {
    case IBV_WR_RDMA_WRITE_WITH_IMM: to.imm_data = ntohl(from.imm_data); [[fallthrough]];
    case IBV_WR_RDMA_WRITE:
    case IBV_WR_RDMA_READ: to.remote_addr = from.wr.rdma.remote_addr, to.rkey = from.wr.rdma.rkey; break;
    case IBV_WR_SEND_WITH_IMM: to.imm_data = ntohl(from.imm_data); break;
    case IBV_WR_LOCAL_INV:
    case IBV_WR_SEND_WITH_INV: to.invalidate_rkey = from.invalidate_rkey; break;
    case IBV_WR_BIND_MW:
    case IBV_WR_SEND: break;
    case IBV_WR_ATOMIC_CMP_AND_SWP: to.swap = from.wr.atomic.swap; [[fallthrough]];
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
      to.remote_addr = from.wr.atomic.remote_addr, to.rkey = from.wr.atomic.rkey;
      to.compare_add = from.wr.atomic.compare_add;
      break;
    default: return false;
  }
  to.opcode = static_cast<SendWr::Opcode>(from.opcode);
  if (qp.qp_type == IBV_QPT_XRC_SEND) to.remote_srq_num = from.qp_type.xrc.remote_srqn;
  if (qp.qp_type != IBV_QPT_UD) return true;
  to.ah = from.wr.ud.ah == nullptr ? nullptr : of(from.wr.ud.ah).inner.get();
  to.remote_qp_num = from.wr.ud.remote_qpn;
  to.remote_qkey = from.wr.ud.remote_qkey;
  return true;
}

/// Copies the inline data of a request into a slot of the ring; `out` is its one SGE. False: it exceeds the slot.
bool carry(InlineRing& ring, std::uint64_t slot, std::span<const ibv_sge> from, Pieces& to, std::span<const Sge>& out) {
  const std::size_t begin = slot * ring.size;
  std::size_t used = 0;
  for (const ibv_sge& piece : from) {
    if (piece.length > ring.size - used) return false;
    std::memcpy(ring.octets.data() + begin + used, reinterpret_cast<const void*>(piece.addr), piece.length);
    used += piece.length;
  }
  const ibv_sge all{.addr = reinterpret_cast<std::uintptr_t>(ring.octets.data() + begin),
                    .length = static_cast<std::uint32_t>(used),
                    .lkey = ring.lkey};
  return take(&all, used > 0 ? 1 : 0, 1, to, out);
}

/// Converts what a window is bound to; `pieces` has room for it. Returns 0, or the errno after refused().
int bind_of(const char* call, const ibv_send_wr& from, Pieces& pieces, SendWr& to) {
  const ibv_mw_bind_info& info = from.bind_mw.bind_info;
  if (from.bind_mw.mw == nullptr) return refused(call, EINVAL, "the memory window is missing");
  if (info.mr == nullptr && info.length > 0) return refused(call, EINVAL, "the memory region is missing");
  if ((info.mw_access_flags & ~(rights | harmless_rights | IBV_ACCESS_ZERO_BASED)) != 0)
    return refused(call, EOPNOTSUPP, "a memory window has remote rights and IBV_ACCESS_ZERO_BASED alone");
  static_assert(sizeof(MwBind) <= sizeof pieces.room && alignof(MwBind) <= alignof(Pieces));
  to.bind = std::construct_at(reinterpret_cast<MwBind*>(pieces.room.data()),
                              MwBind{.window = from.bind_mw.mw->handle,
                                     .rkey = from.bind_mw.rkey,
                                     .lkey = info.mr == nullptr ? 0 : info.mr->lkey,
                                     .addr = info.addr,
                                     .length = info.length,
                                     .access = static_cast<Access>(info.mw_access_flags & rights),
                                     .zero_based = (info.mw_access_flags & IBV_ACCESS_ZERO_BASED) != 0});
  return 0;
}

int post_one(const char* call, Qp& qp, const ibv_send_wr& from) {
  SendWr wr;
  Pieces pieces;
  if (const int number = to_request(call, qp, from, 0, pieces, wr); number != 0) return number;
  const auto done = qp.inner->post_send(wr);
  if (done) ++qp.inlined.posted;
  return outcome(call, done);
}
int post_recv_list(ibv_recv_wr* wr, ibv_recv_wr** bad, const char* call, std::uint32_t most, auto& queue) {
  for (; wr != nullptr; wr = wr->next) {
    Pieces pieces;
    RecvWr asked{.wr_id = wr->wr_id};
    const int number = take(wr->sg_list, wr->num_sge, most, pieces, asked.sges)
                           ? outcome(call, queue.post_recv(asked))
                           : refused(call, EINVAL, "more pieces than the queue's max_sge");
    if (number == 0) continue;
    *bad = wr;
    return number;
  }
  return 0;
}

int post_recv(ibv_qp* qp, ibv_recv_wr* wr, ibv_recv_wr** bad) {
  if (!is_own(qp->context)) return *bad = wr, refused("ibv_post_recv", EPERM, Engine::not_own);
  return of(qp->context).engine->with_nic([&](auto&) {
    return post_recv_list(wr, bad, "ibv_post_recv", of(qp).cap.max_recv_sge, *of(qp).inner);
  });
}

int post_srq_recv(ibv_srq* srq, ibv_recv_wr* wr, ibv_recv_wr** bad) {
  if (!is_own(srq->context)) return *bad = wr, refused("ibv_post_srq_recv", EPERM, Engine::not_own);
  return of(srq->context).engine->with_nic([&](auto&) {
    return post_recv_list(wr, bad, "ibv_post_srq_recv", of(srq).max_sge, *of(srq).inner);
  });
}

int poll_completions(CompletionQueue& queue, int most, ibv_wc* out) {
  std::array<WorkCompletion, 16> some;
  int taken = 0;
  while (taken < most) {
    const auto room = std::min(some.size(), static_cast<std::size_t>(most - taken));
    const std::size_t n = queue.poll(std::span(some).first(room));
    std::transform(some.begin(), some.begin() + static_cast<std::ptrdiff_t>(n), out + taken, to_ibv_wc);
    taken += static_cast<int>(n);
    if (n < room) break;
  }
  return taken;
}

int poll_cq(ibv_cq* cq, int most, ibv_wc* out) {
  return of(cq->context).engine->polling([&] { return poll_completions(*of(cq).inner, most, out); });
}

int req_notify_cq(ibv_cq* cq, int solicited_only) {
  const auto done = with(cq->context, [&](Device&) {
    return of(cq).inner->req_notify(solicited_only != 0 ? Notify::solicited : Notify::next_comp);
  });
  return outcome("ibv_req_notify_cq", done);
}

int post_send(ibv_qp* qp, ibv_send_wr* wr, ibv_send_wr** bad) {
  if (!is_own(qp->context)) return *bad = wr, refused("ibv_post_send", EPERM, Engine::not_own);
  return with(qp->context, [&](Device&) {
    for (; wr != nullptr; wr = wr->next) {
      const int number = post_one("ibv_post_send", of(qp), *wr);
      if (number == 0) continue;
      *bad = wr;
      return number;
    }
    return 0;
  });
}

/// Windows of type 1 are bound by this call and not by ibv_post_send(). It advances the key.
int bind_mw(ibv_qp* qp, ibv_mw* mw, ibv_mw_bind* bind) {
  constexpr const char* call = "ibv_bind_mw";
  if (!is_own(qp->context)) return refused(call, EPERM, Engine::not_own);
  ibv_send_wr wr{};
  wr.wr_id = bind->wr_id;
  wr.opcode = IBV_WR_BIND_MW;
  wr.send_flags = bind->send_flags;
  wr.bind_mw = {.mw = mw, .rkey = ibv_inc_rkey(mw->rkey), .bind_info = bind->bind_info};
  const int number = with(qp->context, [&](Device&) { return post_one(call, of(qp), wr); });
  if (number == 0) mw->rkey = wr.bind_mw.rkey;
  return number;
}

}  // namespace

ibv_wc to_ibv_wc(const WorkCompletion& from) {
  ibv_wc to{};
  to.wr_id = from.wr_id;
  to.status = static_cast<ibv_wc_status>(from.status);
  to.opcode = static_cast<ibv_wc_opcode>(from.opcode);
  to.byte_len = from.byte_len;
  to.qp_num = from.qp_num;
  to.src_qp = from.src_qp;
  if (from.with_grh) {
    to.wc_flags |= IBV_WC_GRH;
    to.sl = from.over_ipv4 ? network_ipv4 : network_ipv6;
  }
  if (from.with_imm) {
    to.wc_flags |= IBV_WC_WITH_IMM;
    to.imm_data = htonl(from.imm_data);
  } else if (from.with_inv) {
    to.wc_flags |= IBV_WC_WITH_INV;
    to.invalidated_rkey = from.invalidated_rkey;
  }
  return to;
}

int to_request(const char* call, Qp& qp, const ibv_send_wr& from, std::size_t ahead, Pieces& pieces, SendWr& to) {
  to = {.wr_id = from.wr_id};
  if (!translate(qp.qp_base, from, to)) return refused(call, EOPNOTSUPP, "the opcode is none that this device has");
  to.signaled = qp.all_signaled || (from.send_flags & IBV_SEND_SIGNALED) != 0;
  to.solicited = (from.send_flags & IBV_SEND_SOLICITED) != 0 && carries_solicited(from.opcode);
  to.fence = (from.send_flags & IBV_SEND_FENCE) != 0;
  if (from.opcode == IBV_WR_BIND_MW) return bind_of(call, from, pieces, to);
  if (is_local(from.opcode)) return 0;
  if ((from.send_flags & IBV_SEND_INLINE) == 0) {
    if (take(from.sg_list, from.num_sge, qp.cap.max_send_sge, pieces, to.sges)) return 0;
    return refused(call, EINVAL, "more pieces than the queue pair's max_send_sge");
  }
  const auto& inner = static_cast<const nic::roce::RoceQp&>(*qp.inner);
  if (inner.sends_open() + ahead >= qp.cap.max_send_wr) return refused(call, ENOMEM, "the send queue is full");
  const std::span all(from.sg_list, from.num_sge > 0 ? static_cast<std::size_t>(from.num_sge) : 0);
  const std::uint64_t slot = (qp.inlined.posted + ahead) % qp.cap.max_send_wr;
  if (carry(qp.inlined, slot, all, pieces, to.sges)) return 0;
  return refused(call, EINVAL, "more inline octets than max_inline_data");
}

void set_data_path(verbs_context& to) {
  ibv_context_ops& ops = to.context.ops;
  ops.post_send = post_send;
  ops.post_recv = post_recv;
  ops.post_srq_recv = post_srq_recv;
  ops.poll_cq = poll_cq;
  ops.req_notify_cq = req_notify_cq;
  ops.bind_mw = bind_mw;
}

}  // namespace parley::preload
