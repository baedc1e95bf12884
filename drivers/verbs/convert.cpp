// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "drivers/verbs/convert.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace parley::verbs {

static_assert(static_cast<int>(WcStatus::general_err) == IBV_WC_GENERAL_ERR);
static_assert(static_cast<int>(WcStatus::retry_exc_err) == IBV_WC_RETRY_EXC_ERR);
static_assert(static_cast<int>(WcOpcode::recv_rdma_with_imm) == IBV_WC_RECV_RDMA_WITH_IMM);
static_assert(static_cast<int>(QpState::err) == IBV_QPS_ERR);
static_assert(static_cast<int>(QpType::ud) == IBV_QPT_UD);
static_assert(static_cast<int>(QpType::xrc_tgt) == IBV_QPT_XRC_RECV);
static_assert(static_cast<int>(Mtu::octets_4096) == IBV_MTU_4096);
static_assert(static_cast<int>(MigState::armed) == IBV_MIG_ARMED);
static_assert(static_cast<int>(SendWr::Opcode::send_with_inv) == IBV_WR_SEND_WITH_INV);
static_assert(static_cast<int>(Access::remote_atomic) == IBV_ACCESS_REMOTE_ATOMIC);
static_assert(static_cast<int>(Access::remote_read) == IBV_ACCESS_REMOTE_READ);
static_assert(static_cast<int>(Access::mw_bind) == IBV_ACCESS_MW_BIND);

int to_ibv(Access access) { return static_cast<int>(access); }

ibv_qp_type to_ibv(QpType type) { return static_cast<ibv_qp_type>(type); }

QpState from_ibv(ibv_qp_state state) { return state <= IBV_QPS_ERR ? static_cast<QpState>(state) : QpState::err; }

ibv_ah_attr to_ibv(const AhAttr& attr) {
  ibv_ah_attr out{};
  out.dlid = attr.dlid;
  out.sl = attr.sl;
  out.src_path_bits = attr.src_path_bits;
  out.static_rate = attr.static_rate;
  out.port_num = attr.port_num;
  if (!attr.grh) return out;
  out.is_global = 1;
  std::copy(attr.grh->dgid.begin(), attr.grh->dgid.end(), out.grh.dgid.raw);
  out.grh.flow_label = attr.grh->flow_label;
  out.grh.sgid_index = attr.grh->sgid_index;
  out.grh.hop_limit = attr.grh->hop_limit;
  out.grh.traffic_class = attr.grh->traffic_class;
  return out;
}

AhAttr from_ibv(const ibv_ah_attr& attr) {
  AhAttr out{.dlid = attr.dlid,
             .sl = attr.sl,
             .src_path_bits = attr.src_path_bits,
             .static_rate = attr.static_rate,
             .port_num = attr.port_num};
  if (attr.is_global == 0) return out;
  out.grh.emplace();
  std::copy(std::begin(attr.grh.dgid.raw), std::end(attr.grh.dgid.raw), out.grh->dgid.begin());
  out.grh->flow_label = attr.grh.flow_label;
  out.grh->sgid_index = attr.grh.sgid_index;
  out.grh->hop_limit = attr.grh.hop_limit;
  out.grh->traffic_class = attr.grh.traffic_class;
  return out;
}

namespace {

/// Sets a field and its bit in the mask, if the optional has a value.
template <class To, class From>
void put(To& to, const std::optional<From>& from, int bit, int& mask) {
  if (!from) return;
  to = static_cast<To>(*from);
  mask |= bit;
}

/// libibverbs has 8 bits for depths.
std::optional<std::uint16_t> in_octet(std::optional<std::uint16_t> depth) {
  if (depth) depth = std::min<std::uint16_t>(*depth, 255);
  return depth;
}

template <class To, class From>
void copy_if_set(std::optional<To>& to, const From& from, int bit, int mask) {
  if ((mask & bit) != 0) to = static_cast<To>(from);
}

}  // namespace

ModifyArgs to_ibv(const QpAttr& from) {
  ModifyArgs out;
  ibv_qp_attr& attr = out.attr;
  int& mask = out.mask;
  put(attr.qp_state, from.state, IBV_QP_STATE, mask);
  put(attr.cur_qp_state, from.cur_state, IBV_QP_CUR_STATE, mask);
  put(attr.en_sqd_async_notify, from.en_sqd_async_notify, IBV_QP_EN_SQD_ASYNC_NOTIFY, mask);
  put(attr.qp_access_flags, from.access, IBV_QP_ACCESS_FLAGS, mask);
  put(attr.pkey_index, from.pkey_index, IBV_QP_PKEY_INDEX, mask);
  put(attr.port_num, from.port_num, IBV_QP_PORT, mask);
  put(attr.qkey, from.qkey, IBV_QP_QKEY, mask);
  put(attr.path_mtu, from.path_mtu, IBV_QP_PATH_MTU, mask);
  put(attr.timeout, from.timeout, IBV_QP_TIMEOUT, mask);
  put(attr.retry_cnt, from.retry_cnt, IBV_QP_RETRY_CNT, mask);
  put(attr.rnr_retry, from.rnr_retry, IBV_QP_RNR_RETRY, mask);
  put(attr.rq_psn, from.rq_psn, IBV_QP_RQ_PSN, mask);
  put(attr.max_rd_atomic, in_octet(from.max_rd_atomic), IBV_QP_MAX_QP_RD_ATOMIC, mask);
  put(attr.min_rnr_timer, from.min_rnr_timer, IBV_QP_MIN_RNR_TIMER, mask);
  put(attr.sq_psn, from.sq_psn, IBV_QP_SQ_PSN, mask);
  put(attr.max_dest_rd_atomic, in_octet(from.max_dest_rd_atomic), IBV_QP_MAX_DEST_RD_ATOMIC, mask);
  put(attr.path_mig_state, from.path_mig_state, IBV_QP_PATH_MIG_STATE, mask);
  put(attr.dest_qp_num, from.dest_qp_num, IBV_QP_DEST_QPN, mask);
  if (from.ah) {
    attr.ah_attr = to_ibv(*from.ah);
    mask |= IBV_QP_AV;
  }
  if (from.alt_path) {
    attr.alt_ah_attr = to_ibv(from.alt_path->ah);
    attr.alt_pkey_index = from.alt_path->pkey_index;
    attr.alt_port_num = from.alt_path->port_num;
    attr.alt_timeout = from.alt_path->timeout;
    mask |= IBV_QP_ALT_PATH;
  }
  return out;
}

QpAttr from_ibv(const ibv_qp_attr& attr, int mask) {
  QpAttr out;
  if ((mask & IBV_QP_STATE) != 0) out.state = from_ibv(attr.qp_state);
  copy_if_set(out.access, attr.qp_access_flags, IBV_QP_ACCESS_FLAGS, mask);
  copy_if_set(out.pkey_index, attr.pkey_index, IBV_QP_PKEY_INDEX, mask);
  copy_if_set(out.port_num, attr.port_num, IBV_QP_PORT, mask);
  copy_if_set(out.qkey, attr.qkey, IBV_QP_QKEY, mask);
  copy_if_set(out.path_mtu, attr.path_mtu, IBV_QP_PATH_MTU, mask);
  copy_if_set(out.timeout, attr.timeout, IBV_QP_TIMEOUT, mask);
  copy_if_set(out.retry_cnt, attr.retry_cnt, IBV_QP_RETRY_CNT, mask);
  copy_if_set(out.rnr_retry, attr.rnr_retry, IBV_QP_RNR_RETRY, mask);
  copy_if_set(out.rq_psn, attr.rq_psn, IBV_QP_RQ_PSN, mask);
  copy_if_set(out.max_rd_atomic, attr.max_rd_atomic, IBV_QP_MAX_QP_RD_ATOMIC, mask);
  copy_if_set(out.min_rnr_timer, attr.min_rnr_timer, IBV_QP_MIN_RNR_TIMER, mask);
  copy_if_set(out.sq_psn, attr.sq_psn, IBV_QP_SQ_PSN, mask);
  copy_if_set(out.max_dest_rd_atomic, attr.max_dest_rd_atomic, IBV_QP_MAX_DEST_RD_ATOMIC, mask);
  copy_if_set(out.path_mig_state, attr.path_mig_state, IBV_QP_PATH_MIG_STATE, mask);
  copy_if_set(out.dest_qp_num, attr.dest_qp_num, IBV_QP_DEST_QPN, mask);
  if ((mask & IBV_QP_AV) != 0) out.ah = from_ibv(attr.ah_attr);
  out.sq_draining = attr.sq_draining != 0;
  return out;
}

Result<ibv_wr_opcode> to_ibv(SendWr::Opcode opcode) {
  using Opcode = SendWr::Opcode;
  if (opcode == Opcode::masked_atomic_cmp_and_swp || opcode == Opcode::masked_atomic_fetch_and_add)
    return fail(Errc::unsupported, "SendWr::opcode is a masked atomic, which libibverbs' post_send does not have");
  if (opcode == Opcode::bind_mw || opcode == Opcode::local_inv)
    return fail(Errc::unsupported,
                "SendWr::opcode: memory windows of RDMA hardware are not offered (DeviceAttr::max_mw)");
  return static_cast<ibv_wr_opcode>(opcode);
}

WcOpcode completes_as(SendWr::Opcode opcode) {
  using Opcode = SendWr::Opcode;
  switch (opcode) {
    case Opcode::rdma_write:
    case Opcode::rdma_write_with_imm: return WcOpcode::rdma_write;
    case Opcode::rdma_read: return WcOpcode::rdma_read;
    case Opcode::atomic_cmp_and_swp:
    case Opcode::masked_atomic_cmp_and_swp: return WcOpcode::comp_swap;
    case Opcode::atomic_fetch_and_add:
    case Opcode::masked_atomic_fetch_and_add: return WcOpcode::fetch_add;
    default: return WcOpcode::send;
  }
}

tl::unexpected<Error> refused(int error, std::string_view call) {
  // The number is reported as well: a sentence has no room for strerror's text. Some drivers return it negative.
  if (error < 0) error = -error;
  switch (error) {
    case EINVAL: return fail(Errc::invalid_argument, call, error);
    case ENOMEM:
    case ENOSPC: return fail(Errc::no_space, call, error);
    case EPERM:
    case EACCES: return fail(Errc::not_permitted, call, error);
    case EOPNOTSUPP:
    case ENOSYS: return fail(Errc::unsupported, call, error);
    case EBUSY: return fail(Errc::wrong_state, call, error);
    case ENODEV:
    case EHOSTUNREACH:
    case ENETUNREACH: return fail(Errc::unreachable, call, error);
    case ETIMEDOUT: return fail(Errc::timed_out, call, error);
    case EADDRINUSE: return fail(Errc::address_in_use, call, error);
    case EADDRNOTAVAIL: return fail(Errc::bad_address, call, error);
    default: return fail(Errc::io, call, error);
  }
}

}  // namespace parley::verbs
