// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Verbs objects of a software NIC: protection domains, memory regions, completion queues, shared receive queues and
// queue pairs. The terms are those of the RDMA verbs; the classes are seams, implemented by nic/iwarp (and more to
// come). One device belongs to one thread.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "parley/bytes.hpp"
#include "parley/mpa.hpp"
#include "parley/result.hpp"

namespace parley {

enum class Access : std::uint32_t {
  none = 0,
  local_write = 1,
  remote_write = 2,
  remote_read = 4,
  remote_atomic = 8,
};
constexpr Access operator|(Access a, Access b) {
  return static_cast<Access>(static_cast<std::uint32_t>(a) | static_cast<std::uint32_t>(b));
}
constexpr bool has(Access set, Access bit) {
  return (static_cast<std::uint32_t>(set) & static_cast<std::uint32_t>(bit)) != 0;
}

using PdHandle = std::uint32_t;  ///< 0 is none

/// A registered region. Remote peers address it by `stag` and tagged offsets [to, to + length).
struct MemoryRegion {
  std::uint32_t stag = 0;  ///< never 0 (one vendor's hardware refuses STag 0)
  std::uint64_t to = 0;    ///< tagged offset of the first octet: the address of the memory, as in verbs
  std::uint64_t length = 0;
  PdHandle pd = 0;
  Access access = Access::none;
};

enum class WcStatus : std::uint8_t {
  success,
  local_length_error,
  local_protection_error,
  remote_access_error,
  remote_operation_error,
  flushed,  ///< the QP left RTS before the request was done
  bad_response,
  general_error,
};
std::string_view to_string(WcStatus status);

enum class WcOpcode : std::uint8_t {
  send,
  rdma_write,
  rdma_read,
  fetch_add,
  cmp_swap,
  immediate,
  recv,
  recv_immediate
};
std::string_view to_string(WcOpcode opcode);

struct WorkCompletion {
  std::uint64_t wr_id = 0;
  WcStatus status = WcStatus::success;
  WcOpcode opcode = WcOpcode::send;
  std::uint32_t qp_num = 0;
  std::uint32_t byte_len = 0;          ///< receive: octets of the message; read and atomics: octets fetched
  std::uint32_t invalidated_stag = 0;  ///< receive: STag invalidated by the peer, 0 if none
  std::uint64_t immediate = 0;         ///< recv_immediate: the 8 octets as a big-endian number (RFC 7306 §6.1)
  bool solicited = false;
};

/// A piece of local memory: an octet range inside a region registered with local access.
struct Sge {
  std::uint32_t stag = 0;  ///< lkey
  std::uint64_t to = 0;
  std::uint32_t length = 0;
};
inline constexpr std::size_t sge_max = 4;

struct SendWr {
  enum class Opcode : std::uint8_t { send, rdma_write, rdma_read, fetch_add, cmp_swap, immediate };
  std::uint64_t wr_id = 0;
  Opcode opcode = Opcode::send;
  std::span<const Sge> sges{};  ///< at most sge_max; rdma_read and atomics: one (or none for a zero-length read)
  bool signaled = true;
  bool solicited = false;        ///< send, immediate: raises a solicited event at the peer
  std::uint32_t invalidate = 0;  ///< send: peer's STag to invalidate, 0 for none (RFC 5040 §4.4)
  bool fence = false;            ///< wait for all earlier Reads and Atomics
  std::uint32_t remote_stag = 0;
  std::uint64_t remote_to = 0;
  std::uint64_t immediate = 0;
  std::uint64_t swap_add = 0, swap_add_mask = 0;  ///< atomics (RFC 7306 §5.1)
  std::uint64_t compare = 0, compare_mask = ~0ULL;
};

struct RecvWr {
  std::uint64_t wr_id = 0;
  std::span<const Sge> sges{};  ///< at most sge_max
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

enum class QpState : std::uint8_t { idle, rts, closing, terminate, error };
std::string_view to_string(QpState state);

struct QpInit {
  PdHandle pd = 0;
  CompletionQueue* send_cq = nullptr;  ///< must outlive the QP
  CompletionQueue* recv_cq = nullptr;
  SharedReceiveQueue* srq = nullptr;  ///< instead of a receive queue of its own
  std::uint32_t max_send_wr = 64;
  std::uint32_t max_recv_wr = 64;
};

/// Where in the stream the QP's life ended, for events and tools.
struct TerminateInfo {
  std::uint8_t layer = 0, etype = 0, code = 0;
  bool sent = false;             ///< we sent it; false: the peer did
  bool nibbles_swapped = false;  ///< the peer wrote octet 0 in Linux siw's order
  std::string text;              ///< the registered meaning, and both readings if swapped
};

/// A reliable connected queue pair.
class QueuePair {
 public:
  virtual ~QueuePair() = default;
  virtual std::uint32_t qp_num() const = 0;
  virtual QpState state() const = 0;
  /// Allowed in idle and rts (idle: sent once connected). Errors: no_space, protection, invalid_argument,
  /// wrong_state, insufficient_ird (a Read or Atomic while ORD is 0).
  virtual Result<void> post_send(const SendWr& wr) = 0;
  virtual Result<void> post_recv(const RecvWr& wr) = 0;
  virtual const std::optional<TerminateInfo>& terminate() const = 0;
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
  virtual Result<void> dereg_mr(std::uint32_t stag) = 0;
  virtual Result<std::unique_ptr<CompletionQueue>> create_cq(std::size_t capacity) = 0;
  virtual Result<std::unique_ptr<SharedReceiveQueue>> create_srq(PdHandle pd, std::size_t capacity) = 0;
  virtual Result<std::unique_ptr<QueuePair>> create_qp(const QpInit& init) = 0;
};

}  // namespace parley
