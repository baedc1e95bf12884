// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The extended post API: ibv_wr_start(), then functions that build each request, then ibv_wr_complete().
#include <algorithm>
#include <cerrno>
#include <cstring>

#include "nic/roce/device.hpp"
#include "preload/objects.hpp"

namespace parley::preload {

namespace {

Built& last(ibv_qp_ex* qp) { return of(qp).built[of(qp).building - 1]; }

ibv_send_wr& begin(ibv_qp_ex* base, ibv_wr_opcode opcode) {
  Qp& qp = of(base);
  if (qp.building == qp.built.size()) qp.built.emplace_back();
  Built& next = qp.built[qp.building++];
  next.wr = {};
  next.wr.wr_id = base->wr_id;
  // ibv_wr_set_inline_data() alone makes a request inline: wr_flags has no such flag.
  next.wr.send_flags = base->wr_flags & ~unsigned{IBV_SEND_INLINE};
  next.wr.opcode = opcode;
  return next.wr;
}

void to_memory(ibv_send_wr& wr, std::uint32_t rkey, std::uint64_t addr) {
  wr.wr.rdma = {.remote_addr = addr, .rkey = rkey};
}

void wr_rdma_read(ibv_qp_ex* qp, std::uint32_t rkey, std::uint64_t addr) {
  to_memory(begin(qp, IBV_WR_RDMA_READ), rkey, addr);
}
void wr_rdma_write(ibv_qp_ex* qp, std::uint32_t rkey, std::uint64_t addr) {
  to_memory(begin(qp, IBV_WR_RDMA_WRITE), rkey, addr);
}
void wr_rdma_write_imm(ibv_qp_ex* qp, std::uint32_t rkey, std::uint64_t addr, __be32 imm) {
  ibv_send_wr& wr = begin(qp, IBV_WR_RDMA_WRITE_WITH_IMM);
  to_memory(wr, rkey, addr);
  wr.imm_data = imm;
}
void wr_atomic(ibv_send_wr& wr, std::uint32_t rkey, std::uint64_t addr, std::uint64_t compare_add, std::uint64_t swap) {
  wr.wr.atomic = {.remote_addr = addr, .compare_add = compare_add, .swap = swap, .rkey = rkey};
}
void wr_cmp_swp(ibv_qp_ex* qp, std::uint32_t rkey, std::uint64_t addr, std::uint64_t compare, std::uint64_t swap) {
  wr_atomic(begin(qp, IBV_WR_ATOMIC_CMP_AND_SWP), rkey, addr, compare, swap);
}
void wr_fetch_add(ibv_qp_ex* qp, std::uint32_t rkey, std::uint64_t addr, std::uint64_t add) {
  wr_atomic(begin(qp, IBV_WR_ATOMIC_FETCH_AND_ADD), rkey, addr, add, 0);
}
void wr_send(ibv_qp_ex* qp) { (void)begin(qp, IBV_WR_SEND); }
void wr_send_imm(ibv_qp_ex* qp, __be32 imm) { begin(qp, IBV_WR_SEND_WITH_IMM).imm_data = imm; }
void wr_send_inv(ibv_qp_ex* qp, std::uint32_t rkey) { begin(qp, IBV_WR_SEND_WITH_INV).invalidate_rkey = rkey; }
void wr_local_inv(ibv_qp_ex* qp, std::uint32_t rkey) { begin(qp, IBV_WR_LOCAL_INV).invalidate_rkey = rkey; }
void wr_bind_mw(ibv_qp_ex* qp, ibv_mw* mw, std::uint32_t rkey, const ibv_mw_bind_info* info) {
  begin(qp, IBV_WR_BIND_MW).bind_mw = {.mw = mw, .rkey = rkey, .bind_info = *info};
}

void wr_set_ud_addr(ibv_qp_ex* qp, ibv_ah* ah, std::uint32_t qpn, std::uint32_t qkey) {
  last(qp).wr.wr.ud = {.ah = ah, .remote_qpn = qpn, .remote_qkey = qkey};
}
void wr_set_xrc_srqn(ibv_qp_ex* qp, std::uint32_t srqn) { last(qp).wr.qp_type.xrc.remote_srqn = srqn; }

void wr_set_sge_list(ibv_qp_ex* qp, std::size_t count, const ibv_sge* list) {
  Built& built = last(qp);
  if (count > of(qp).cap.max_send_sge) of(qp).wrong = EINVAL;
  built.wr.num_sge = static_cast<int>(std::min(count, sge_max));
  std::copy_n(list, built.wr.num_sge, built.sges);
}
void wr_set_sge(ibv_qp_ex* qp, std::uint32_t lkey, std::uint64_t addr, std::uint32_t length) {
  const ibv_sge one{.addr = addr, .length = length, .lkey = lkey};
  wr_set_sge_list(qp, 1, &one);
}

// Copies the octets: the program may change them as soon as this returns.
void wr_set_inline_data_list(ibv_qp_ex* qp, std::size_t count, const ibv_data_buf* list) {
  Built& built = last(qp);
  built.carried.clear();
  for (std::size_t i = 0; i < count; ++i) {
    const auto* const from = static_cast<const std::uint8_t*>(list[i].addr);
    built.carried.insert(built.carried.end(), from, from + list[i].length);
  }
  built.wr.send_flags |= IBV_SEND_INLINE;
  built.wr.num_sge = 1;
  built.sges[0] = {.addr = 0, .length = static_cast<std::uint32_t>(built.carried.size()), .lkey = 0};
}
void wr_set_inline_data(ibv_qp_ex* qp, void* addr, std::size_t length) {
  const ibv_data_buf one{.addr = addr, .length = length};
  wr_set_inline_data_list(qp, 1, &one);
}

/// Posts all requests, or none of them.
int post_built(const char* call, Qp& qp) {
  qp.requests.assign(qp.building, {});
  for (std::size_t i = 0; i < qp.building; ++i) {
    Built& one = qp.built[i];
    one.wr.sg_list = one.sges;
    if ((one.wr.send_flags & IBV_SEND_INLINE) != 0)
      one.sges[0].addr = reinterpret_cast<std::uintptr_t>(one.carried.data());
    if (const int number = to_request(call, qp, one.wr, i, one.pieces, qp.requests[i]); number != 0) return number;
  }
  const auto done = static_cast<nic::roce::RoceQp&>(*qp.inner).post_sends(qp.requests);
  if (done) qp.inlined.posted += qp.building;
  return outcome(call, done);
}

void wr_start(ibv_qp_ex* base) {
  of(base).builds.lock();
  of(base).building = 0;
  of(base).wrong = 0;
}
void wr_abort(ibv_qp_ex* base) { of(base).builds.unlock(); }

int wr_complete(ibv_qp_ex* base) {
  Qp& qp = of(base);
  const std::unique_lock hold(qp.builds, std::adopt_lock);
  constexpr const char* call = "ibv_wr_complete";
  if (!is_own(base->qp_base.context)) return refused(call, EPERM, Engine::not_own);
  if (qp.wrong != 0) return refused(call, qp.wrong, "more pieces than max_send_sge");
  if (qp.building == 0) return 0;
  return with(base->qp_base.context, [&](Device&) { return post_built(call, qp); });
}

}  // namespace

void set_extended_qp(ibv_qp_ex& to) {
  to.wr_atomic_cmp_swp = wr_cmp_swp;
  to.wr_atomic_fetch_add = wr_fetch_add;
  to.wr_rdma_read = wr_rdma_read;
  to.wr_rdma_write = wr_rdma_write;
  to.wr_rdma_write_imm = wr_rdma_write_imm;
  to.wr_send = wr_send;
  to.wr_send_imm = wr_send_imm;
  to.wr_send_inv = wr_send_inv;
  to.wr_local_inv = wr_local_inv;
  to.wr_bind_mw = wr_bind_mw;
  to.wr_set_ud_addr = wr_set_ud_addr;
  to.wr_set_xrc_srqn = wr_set_xrc_srqn;
  to.wr_set_inline_data = wr_set_inline_data;
  to.wr_set_inline_data_list = wr_set_inline_data_list;
  to.wr_set_sge = wr_set_sge;
  to.wr_set_sge_list = wr_set_sge_list;
  to.wr_start = wr_start;
  to.wr_complete = wr_complete;
  to.wr_abort = wr_abort;
}

}  // namespace parley::preload
