// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Verbs objects of a software NIC: protection domains, memory regions, completion queues, shared receive queues and
// queue pairs. The terms are those of the RDMA verbs (docs/verbs.md); the classes are seams, implemented by nic/iwarp.
// What is posted and how it completes: parley/work.hpp. States and attributes of a queue pair: parley/qp.hpp. What only
// iWARP has: parley/iwarp.hpp. One device belongs to one thread.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "parley/bytes.hpp"
#include "parley/qp.hpp"
#include "parley/result.hpp"
#include "parley/work.hpp"

namespace parley {

using PdHandle = std::uint32_t;  ///< 0 is none

/// A registered region: ibv_mr. This side names octets of it by lkey and addresses [addr, addr + length), a peer by rkey
/// and the same addresses. On iWARP both keys are the STag, and an address is a tagged offset (RFC 5041 §4.2).
struct MemoryRegion {
  std::uint32_t lkey = 0;  ///< for Sge; not 0
  std::uint32_t rkey = 0;  ///< for the peer's SendWr; not 0 (some iWARP hardware refuses STag 0)
  std::uint64_t addr = 0;  ///< of the first octet: where the memory lies, unless the device numbers regions itself
  std::uint64_t length = 0;
  PdHandle pd = 0;
  Access access = Access::none;
};

/// A completion queue. It never overruns: posting to a QP reserves room here and is refused when there is none.
class CompletionQueue {
 public:
  virtual ~CompletionQueue() = default;
  /// Takes up to out.size() completions in order; returns the number taken.
  virtual std::size_t poll(std::span<WorkCompletion> out) = 0;
  virtual std::size_t capacity() const = 0;
};

class SharedReceiveQueue {
 public:
  virtual ~SharedReceiveQueue() = default;
  /// Errors: no_space, protection, invalid_argument.
  virtual Result<void> post_recv(const RecvWr& wr) = 0;
  virtual std::size_t available() const = 0;
};

struct QpInit {
  PdHandle pd = 0;
  CompletionQueue* send_cq = nullptr;  ///< must outlive the QP
  CompletionQueue* recv_cq = nullptr;
  SharedReceiveQueue* srq = nullptr;  ///< instead of a receive queue of its own
  std::uint32_t max_send_wr = 64;
  std::uint32_t max_recv_wr = 64;
};

/// A reliable connected queue pair.
class QueuePair {
 public:
  virtual ~QueuePair() = default;
  virtual std::uint32_t qp_num() const = 0;
  virtual QpState state() const = 0;
  /// ibv_modify_qp: goes to another state, changes attributes, or both; nothing is changed by a call that fails. What
  /// an iWARP queue pair can do is in docs/verbs.md: INIT and RESET before the connection, SQD and back, ERR, and its
  /// rights. RTR and RTS are the connection manager's.
  /// Errors, each with a sentence: unsupported (the transport lacks the attribute or the transition), wrong_state (there
  /// is no such transition, or cur_state is not the state), invalid_argument.
  virtual Result<void> modify(const QpAttr& attr) = 0;
  /// ibv_query_qp: the state and what else the transport has; what it lacks is not set.
  virtual QpAttr query() const = 0;
  /// Allowed in init and rts; on iWARP what is posted in init is sent once connected. The list of pieces is copied; the
  /// memory is the queue pair's until the completion. Errors: unsupported (the transport lacks the operation),
  /// invalid_argument, no_space (the queue, or the completion queue), protection (an lkey), wrong_state,
  /// insufficient_ird (a Read or Atomic while ORD is 0).
  virtual Result<void> post_send(const SendWr& wr) = 0;
  /// Allowed in init and rts. Errors: invalid_argument, no_space, protection, wrong_state.
  virtual Result<void> post_recv(const RecvWr& wr) = 0;
};

/// A software NIC. Handles are checked: a stale or foreign one is an error, never undefined behaviour.
class Device {
 public:
  virtual ~Device() = default;
  virtual Result<PdHandle> alloc_pd() = 0;
  /// Errors: wrong_state while objects use it.
  virtual Result<void> dealloc_pd(PdHandle pd) = 0;
  /// Registers [memory], which must outlive the registration.
  virtual Result<MemoryRegion> reg_mr(PdHandle pd, MutBytes memory, Access access) = 0;
  /// Errors: invalid_argument (no such region), wrong_state (posted work uses it).
  virtual Result<void> dereg_mr(std::uint32_t lkey) = 0;
  virtual Result<std::unique_ptr<CompletionQueue>> create_cq(std::size_t capacity) = 0;
  virtual Result<std::unique_ptr<SharedReceiveQueue>> create_srq(PdHandle pd, std::size_t capacity) = 0;
  virtual Result<std::unique_ptr<QueuePair>> create_qp(const QpInit& init) = 0;
};

}  // namespace parley
