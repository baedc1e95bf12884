// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Work requests and completions: what is posted to a queue pair, and what becomes of it. Names and numbers are those of
// libibverbs (ibv_send_wr, ibv_wc); docs/verbs.md puts them side by side. Lengths are octets.
#pragma once
#include <cstdint>
#include <span>
#include <string_view>

namespace parley {

class AddressHandle;

/// A piece of local memory: ibv_sge. An octet range inside a region that was registered with local access.
struct Sge {
  std::uint64_t addr = 0;    ///< MemoryRegion::addr plus the offset of the first octet
  std::uint32_t length = 0;  ///< 0: neither addr nor lkey is looked at
  std::uint32_t lkey = 0;    ///< MemoryRegion::lkey
};
inline constexpr std::size_t sge_max = 4;

/// A request for the send queue: ibv_send_wr. Which fields count depends on the opcode. imm_data, invalidate_rkey and
/// solicited are refused where the opcode does not carry them, as are the fields of UD and XRC on other queue pairs; the
/// remaining fields are ignored there.
struct SendWr {
  /// Not every transport has every operation: post_send refuses what it cannot do with Errc::unsupported and a sentence
  /// that names the opcode. The numbers are ibv_wr_opcode's, those of the masked atomics the kernel's.
  enum class Opcode : std::uint8_t {
    rdma_write,
    rdma_write_with_imm,  ///< not on iWARP: see iwarp::QueuePair::post_immediate
    send,
    send_with_imm,  ///< not on iWARP: RDMAP's Send carries no immediate (RFC 5040 §4)
    rdma_read,
    atomic_cmp_and_swp,
    atomic_fetch_and_add,
    send_with_inv = 9,               ///< RFC 5040 §4.7
    masked_atomic_cmp_and_swp = 12,  ///< RFC 7306 §5.1.2
    masked_atomic_fetch_and_add,     ///< RFC 7306 §5.1.1
  };
  std::uint64_t wr_id = 0;  ///< the caller's own, returned in the completion
  Opcode opcode = Opcode::send;
  std::span<const Sge> sges{};  ///< at most sge_max; rdma_read: one, or none to read 0 octets; atomics: one of 8 octets
  bool signaled = true;         ///< false: only a failure leaves a completion
  bool solicited = false;       ///< sends, rdma_write_with_imm: raises a solicited event at the peer
  bool fence = false;           ///< wait for all earlier Reads and Atomics
  std::uint64_t remote_addr = 0;      ///< rdma_*, atomics: in the peer's region; of an atomic, a multiple of 8
  std::uint32_t rkey = 0;             ///< rdma_*, atomics: the peer's MemoryRegion::rkey
  std::uint32_t imm_data = 0;         ///< *_with_imm: 32 bits, as a number
  std::uint32_t invalidate_rkey = 0;  ///< send_with_inv: the rkey that the peer gave and that becomes invalid; not 0
  std::uint64_t compare_add = 0;      ///< what is compared with, or what is added
  std::uint64_t swap = 0;             ///< *_cmp_and_swp: what is written if the comparison holds
  /// masked_atomic_cmp_and_swp: the bits that are compared. masked_atomic_fetch_and_add: the top bit of each field.
  std::uint64_t compare_add_mask = 0;
  std::uint64_t swap_mask = 0;        ///< masked_atomic_cmp_and_swp: the bits that are written
  const AddressHandle* ah = nullptr;  ///< UD: where the datagram goes
  std::uint32_t remote_qp_num = 0;    ///< UD: the queue pair there, 24 bits
  std::uint32_t remote_qkey = 0;      ///< UD: its Q_Key
  std::uint32_t remote_srq_num = 0;   ///< XRC_INI: SharedReceiveQueue::srq_num of the peer's, 24 bits
};
std::string_view to_string(SendWr::Opcode opcode);

/// A request for a receive queue: ibv_recv_wr.
struct RecvWr {
  std::uint64_t wr_id = 0;
  std::span<const Sge> sges{};  ///< at most sge_max; regions with local_write
};

/// How a request ended: the values of ibv_wc_status, in its order and with its numbers. docs/verbs.md says which of
/// them an iWARP queue pair reports, and when.
enum class WcStatus : std::uint8_t {
  success,
  loc_len_err,
  loc_qp_op_err,  ///< the queue pair cannot carry the request out
  loc_eec_op_err,
  loc_prot_err,
  wr_flush_err,  ///< the queue pair left RTS before the request was done
  mw_bind_err,
  bad_resp_err,  ///< the peer's response does not fit the request
  loc_access_err,
  rem_inv_req_err,
  rem_access_err,  ///< the peer refused the access to its memory
  rem_op_err,      ///< the peer could not carry the request out
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

/// What kind of request a completion is of: ibv_wc_opcode, with its numbers. Bit 7 says that it is a receive. Meaningful
/// whatever the status is.
enum class WcOpcode : std::uint8_t {
  send,
  rdma_write,
  rdma_read,
  comp_swap,
  fetch_add,
  recv = 128,
  recv_rdma_with_imm,
  iwarp_immediate = 0x70,       ///< iwarp::QueuePair::post_immediate (RFC 7306 §6)
  iwarp_recv_immediate = 0xF0,  ///< a receive used up by the peer's Immediate Data: iwarp::immediate_data
};
std::string_view to_string(WcOpcode opcode);

/// ibv_wc. After a failure only wr_id, status, opcode and qp_num say anything.
struct WorkCompletion {
  std::uint64_t wr_id = 0;
  WcStatus status = WcStatus::success;
  WcOpcode opcode = WcOpcode::send;
  bool with_imm = false;   ///< receive: imm_data counts
  bool with_inv = false;   ///< receive: invalidated_rkey counts
  bool solicited = false;  ///< receive: the peer asked for a solicited event
  std::uint32_t qp_num = 0;
  std::uint32_t byte_len = 0;          ///< receive: octets of the message; read and atomics: octets fetched
  std::uint32_t imm_data = 0;          ///< 32 bits, as a number
  std::uint32_t invalidated_rkey = 0;  ///< the region of this side that the peer's send_with_inv made invalid
  std::uint64_t transport_data = 0;    ///< iwarp_recv_immediate: see iwarp::immediate_data
  std::uint32_t src_qp = 0;            ///< receive on UD: who sent it
  bool with_grh = false;               ///< receive on UD: the first 40 octets are the network header
};

}  // namespace parley
