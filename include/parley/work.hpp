// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Work requests and completions. Names and numbers are those of libibverbs (ibv_send_wr, ibv_wc); docs/verbs.md maps one to
// the other. Lengths are in bytes.
#pragma once
#include <cstdint>
#include <span>
#include <string_view>

#include "parley/qp.hpp"
#include "parley/time.hpp"

namespace parley {

class AddressHandle;

/// A scatter/gather element: ibv_sge. A byte range in a region that is registered with local access.
struct Sge {
  std::uint64_t addr = 0;    ///< MemoryRegion::addr plus the offset of the first byte
  std::uint32_t length = 0;  ///< bytes; 0: addr and lkey are ignored
  std::uint32_t lkey = 0;    ///< MemoryRegion::lkey
};
/// Most elements of a request on any device; DeviceAttr::max_sge is the device's own limit.
inline constexpr std::size_t sge_max = 32;

/// What bind_mw gives to a memory window: ibv_mw_bind_info, with the window and its next key. The window and the region must
/// be of the queue pair's protection domain.
struct MwBind {
  std::uint32_t window = 0;  ///< MemoryWindow::handle
  /// The window's rkey from then on. Its low octet is free to choose, so that earlier keys become invalid: next_rkey().
  std::uint32_t rkey = 0;
  std::uint32_t lkey = 0;        ///< the region's; it needs Access::mw_bind. Ignored if length is 0
  std::uint64_t addr = 0;        ///< of the first byte, as in Sge
  std::uint64_t length = 0;      ///< bytes, all of them in the region. Type 1: 0 unbinds the window; type 2: not 0
  Access access = Access::none;  ///< remote rights; remote_write and remote_atomic need a region with local_write
  bool zero_based = false;       ///< type 2: the peer's remote_addr is an offset from `addr`
};
/// ibv_inc_rkey: the same window's key with the next low octet.
constexpr std::uint32_t next_rkey(std::uint32_t rkey) { return (rkey & ~0xFFU) | ((rkey + 1) & 0xFFU); }

/// A request for the send queue: ibv_send_wr. The opcode selects the fields that are used. imm_data, invalidate_rkey and
/// solicited are refused if the opcode does not carry them, and so are the fields of UD and XRC on other queue pairs. Other
/// unused fields are ignored.
struct SendWr {
  /// Not every transport supports every operation: post_send refuses the others with Errc::unsupported and a sentence that
  /// names the opcode. The values are those of ibv_wr_opcode; those of the masked atomics are the kernel's.
  enum class Opcode : std::uint8_t {
    rdma_write,
    rdma_write_with_imm,  ///< not on iWARP: see iwarp::QueuePair::post_immediate
    send,
    send_with_imm,  ///< not on iWARP: RDMAP's Send carries no immediate (RFC 5040 §4)
    rdma_read,
    atomic_cmp_and_swp,
    atomic_fetch_and_add,
    local_inv,                       ///< only on RoCE: unbinds a memory window of type 2 that this queue pair bound
    bind_mw,                         ///< only on RoCE: binds a memory window; local, as local_inv: nothing is sent
    send_with_inv = 9,               ///< RFC 5040 §4.7
    masked_atomic_cmp_and_swp = 12,  ///< RFC 7306 §5.1.2
    masked_atomic_fetch_and_add,     ///< RFC 7306 §5.1.1
  };
  std::uint64_t wr_id = 0;  ///< chosen by the caller, returned in the completion
  Opcode opcode = Opcode::send;
  std::span<const Sge> sges{};    ///< at most sge_max; rdma_read: one, or none to read 0 bytes; atomics: one of 8 bytes
  bool signaled = true;           ///< false: a completion only if the request fails
  bool solicited = false;         ///< sends, rdma_write_with_imm: raises a solicited event at the peer
  bool fence = false;             ///< wait for all earlier Reads and Atomics
  std::uint64_t remote_addr = 0;  ///< rdma_*, atomics: address in the peer's region; atomics: a multiple of 8
  std::uint32_t rkey = 0;         ///< rdma_*, atomics: the peer's MemoryRegion::rkey
  std::uint32_t imm_data = 0;     ///< *_with_imm: 32 bits, in host byte order
  std::uint32_t invalidate_rkey = 0;  ///< send_with_inv: the peer's rkey to invalidate; local_inv: this side's; not 0
  const MwBind* bind = nullptr;       ///< bind_mw; post_send copies it
  std::uint64_t compare_add = 0;      ///< atomics: the value to compare with, or to add
  std::uint64_t swap = 0;             ///< *_cmp_and_swp: the value to write if the comparison succeeds
  /// masked_atomic_cmp_and_swp: the bits to compare. masked_atomic_fetch_and_add: the top bit of each field.
  std::uint64_t compare_add_mask = 0;
  std::uint64_t swap_mask = 0;        ///< masked_atomic_cmp_and_swp: the bits to write
  const AddressHandle* ah = nullptr;  ///< UD: the datagram's destination
  std::uint32_t remote_qp_num = 0;    ///< UD: the destination queue pair, 24 bits
  std::uint32_t remote_qkey = 0;      ///< UD: its Q_Key
  std::uint32_t remote_srq_num = 0;   ///< XRC_INI: SharedReceiveQueue::srq_num of the peer, 24 bits
};
std::string_view to_string(SendWr::Opcode opcode);

/// A request for a receive queue: ibv_recv_wr.
struct RecvWr {
  std::uint64_t wr_id = 0;
  std::span<const Sge> sges{};  ///< at most sge_max; regions with local_write
};

/// How a request ended: ibv_wc_status, with the same order and values. docs/verbs.md lists the statuses that an iWARP queue
/// pair reports, and when.
enum class WcStatus : std::uint8_t {
  success,
  loc_len_err,
  loc_qp_op_err,  ///< the queue pair cannot execute the request
  loc_eec_op_err,
  loc_prot_err,
  wr_flush_err,  ///< the queue pair left RTS before the request completed
  mw_bind_err,
  bad_resp_err,  ///< the peer's response does not fit the request
  loc_access_err,
  rem_inv_req_err,
  rem_access_err,  ///< the peer refused the access to its memory
  rem_op_err,      ///< the peer could not execute the request
  retry_exc_err,
  rnr_retry_exc_err,
  loc_rdd_viol_err,
  rem_inv_rd_req_err,
  rem_abort_err,
  inv_eecn_err,
  inv_eec_state_err,
  fatal_err,
  resp_timeout_err,
  general_err,
  tm_err,
  tm_rndv_incomplete,
};
std::string_view to_string(WcStatus status);

/// The kind of request that completed: ibv_wc_opcode, with the same values. Bit 7 marks a receive. Valid for every status.
enum class WcOpcode : std::uint8_t {
  send,
  rdma_write,
  rdma_read,
  comp_swap,
  fetch_add,
  bind_mw,
  local_inv,
  recv = 128,
  recv_rdma_with_imm,
  iwarp_immediate = 0x70,       ///< iwarp::QueuePair::post_immediate (RFC 7306 §6)
  iwarp_recv_immediate = 0xF0,  ///< a receive consumed by the peer's Immediate Data: iwarp::immediate_data
};
std::string_view to_string(WcOpcode opcode);

/// ibv_wc. After a failure only wr_id, status, opcode and qp_num are valid.
struct WorkCompletion {
  std::uint64_t wr_id = 0;
  WcStatus status = WcStatus::success;
  WcOpcode opcode = WcOpcode::send;
  bool with_imm = false;   ///< receive: imm_data is valid
  bool with_inv = false;   ///< receive: invalidated_rkey is valid
  bool solicited = false;  ///< receive: the peer requested a solicited event
  std::uint32_t qp_num = 0;
  std::uint32_t byte_len = 0;          ///< receive: length of the message; Read and atomics: bytes fetched
  std::uint32_t imm_data = 0;          ///< 32 bits, in host byte order
  std::uint32_t invalidated_rkey = 0;  ///< the region or window of this side that the peer's send_with_inv invalidated
  std::uint64_t transport_data = 0;    ///< iwarp_recv_immediate: see iwarp::immediate_data
  std::uint32_t src_qp = 0;            ///< receive on UD: the sender's queue pair, 24 bits
  bool with_grh = false;               ///< receive on UD: the first 40 bytes are the network header
  bool over_ipv4 = false;  ///< receive on UD over RoCE: that header is IPv4's, in the last 20 of the 40 bytes
  Instant completed_at{};  ///< on a software RoCE device: its clock's time; the caller may poll much later
};

}  // namespace parley
