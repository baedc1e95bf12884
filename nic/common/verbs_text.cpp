// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Names of the verbs enumerators, as users read them in output and logs.
#include "parley/verbs.hpp"

namespace parley {

std::string_view to_string(WcStatus status) {
  switch (status) {
    case WcStatus::success: return "success";
    case WcStatus::local_length_error: return "local length error";
    case WcStatus::local_protection_error: return "local protection error";
    case WcStatus::remote_access_error: return "remote access error";
    case WcStatus::remote_operation_error: return "remote operation error";
    case WcStatus::flushed: return "flushed";
    case WcStatus::bad_response: return "bad response";
    case WcStatus::general_error: return "general error";
  }
  return "unknown status";
}

std::string_view to_string(WcOpcode opcode) {
  switch (opcode) {
    case WcOpcode::send: return "send";
    case WcOpcode::rdma_write: return "rdma write";
    case WcOpcode::rdma_read: return "rdma read";
    case WcOpcode::fetch_add: return "fetch and add";
    case WcOpcode::cmp_swap: return "compare and swap";
    case WcOpcode::immediate: return "immediate";
    case WcOpcode::recv: return "recv";
    case WcOpcode::recv_immediate: return "recv immediate";
  }
  return "unknown opcode";
}

std::string_view to_string(QpState state) {
  switch (state) {
    case QpState::idle: return "idle";
    case QpState::rts: return "rts";
    case QpState::closing: return "closing";
    case QpState::terminate: return "terminate";
    case QpState::error: return "error";
  }
  return "unknown state";
}

}  // namespace parley
