// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Names of the verbs enumerators, for output and logs.
#include "parley/verbs.hpp"

namespace parley {

std::string_view to_string(WcStatus status) {
  switch (status) {
    case WcStatus::success: return "success";
    case WcStatus::loc_len_err: return "local length error";
    case WcStatus::loc_qp_op_err: return "local queue pair operation error";
    case WcStatus::loc_eec_op_err: return "local end-to-end context operation error";
    case WcStatus::loc_prot_err: return "local protection error";
    case WcStatus::wr_flush_err: return "work request flushed";
    case WcStatus::mw_bind_err: return "memory window bind error";
    case WcStatus::bad_resp_err: return "bad response";
    case WcStatus::loc_access_err: return "local access error";
    case WcStatus::rem_inv_req_err: return "remote invalid request error";
    case WcStatus::rem_access_err: return "remote access error";
    case WcStatus::rem_op_err: return "remote operation error";
    case WcStatus::retry_exc_err: return "transport retries exceeded";
    case WcStatus::rnr_retry_exc_err: return "receiver-not-ready retries exceeded";
    case WcStatus::loc_rdd_viol_err: return "local reliable datagram domain violation";
    case WcStatus::rem_inv_rd_req_err: return "remote invalid reliable datagram request";
    case WcStatus::rem_abort_err: return "aborted by the remote side";
    case WcStatus::inv_eecn_err: return "invalid end-to-end context number";
    case WcStatus::inv_eec_state_err: return "invalid end-to-end context state";
    case WcStatus::fatal_err: return "fatal error";
    case WcStatus::resp_timeout_err: return "response timed out";
    case WcStatus::general_err: return "general error";
    case WcStatus::tm_err: return "tag matching error";
    case WcStatus::tm_rndv_incomplete: return "tag matching rendezvous incomplete";
  }
  return "unknown status";
}

std::string_view to_string(WcOpcode opcode) {
  switch (opcode) {
    case WcOpcode::send: return "send";
    case WcOpcode::rdma_write: return "rdma write";
    case WcOpcode::rdma_read: return "rdma read";
    case WcOpcode::comp_swap: return "compare and swap";
    case WcOpcode::fetch_add: return "fetch and add";
    case WcOpcode::bind_mw: return "bind memory window";
    case WcOpcode::local_inv: return "local invalidate";
    case WcOpcode::recv: return "recv";
    case WcOpcode::recv_rdma_with_imm: return "recv rdma with immediate";
    case WcOpcode::iwarp_immediate: return "immediate";
    case WcOpcode::iwarp_recv_immediate: return "recv immediate";
  }
  return "unknown opcode";
}

std::string_view to_string(SendWr::Opcode opcode) {
  switch (opcode) {
    case SendWr::Opcode::rdma_write: return "rdma_write";
    case SendWr::Opcode::rdma_write_with_imm: return "rdma_write_with_imm";
    case SendWr::Opcode::send: return "send";
    case SendWr::Opcode::send_with_imm: return "send_with_imm";
    case SendWr::Opcode::rdma_read: return "rdma_read";
    case SendWr::Opcode::atomic_cmp_and_swp: return "atomic_cmp_and_swp";
    case SendWr::Opcode::atomic_fetch_and_add: return "atomic_fetch_and_add";
    case SendWr::Opcode::local_inv: return "local_inv";
    case SendWr::Opcode::bind_mw: return "bind_mw";
    case SendWr::Opcode::send_with_inv: return "send_with_inv";
    case SendWr::Opcode::masked_atomic_cmp_and_swp: return "masked_atomic_cmp_and_swp";
    case SendWr::Opcode::masked_atomic_fetch_and_add: return "masked_atomic_fetch_and_add";
  }
  return "unknown opcode";
}

std::string_view to_string(Transport transport) {
  switch (transport) {
    case Transport::iwarp: return "iWARP";
    case Transport::roce: return "RoCE";
  }
  return "unknown transport";
}

std::string_view to_string(QpType type) {
  switch (type) {
    case QpType::rc: return "RC";
    case QpType::uc: return "UC";
    case QpType::ud: return "UD";
    case QpType::xrc_ini: return "XRC_INI";
    case QpType::xrc_tgt: return "XRC_TGT";
  }
  return "unknown type";
}

std::string_view to_string(QpState state) {
  switch (state) {
    case QpState::reset: return "RESET";
    case QpState::init: return "INIT";
    case QpState::rtr: return "RTR";
    case QpState::rts: return "RTS";
    case QpState::sqd: return "SQD";
    case QpState::sqe: return "SQE";
    case QpState::err: return "ERR";
  }
  return "unknown state";
}

}  // namespace parley
