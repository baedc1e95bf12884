// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Verbs objects of a software NIC: protection domains, memory regions, completion queues, shared receive queues and
// queue pairs. The terms are those of the RDMA verbs (docs/verbs.md); the classes are seams, of nic/iwarp and nic/roce.
// What is posted and how it completes: parley/work.hpp. States and attributes of a queue pair: parley/qp.hpp. What only
// one transport has: parley/iwarp.hpp, parley/roce.hpp. One device belongs to one thread.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

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

class CompletionQueue;

/// ibv_comp_channel: says which completion queues have something new, for programs that wait instead of polling. It
/// has no descriptor of its own: TcpHost::fd() is readable when something may have completed, and
/// TcpHost::next_deadline() is past while an event waits here. docs/verbs.md has the loop.
class CompletionChannel {
 public:
  virtual ~CompletionChannel() = default;
  /// ibv_get_cq_event without waiting: the next completion queue whose request came true, in that order; null if there
  /// is none. Nothing need be acknowledged: a queue that is destroyed takes its event along.
  virtual CompletionQueue* poll_event() = 0;
  /// At most one event of each completion queue waits; a second merges with it.
  virtual std::size_t waiting() const = 0;
};

/// What CompletionQueue::req_notify asks for: ibv_req_notify_cq's solicited_only.
enum class Notify : std::uint8_t {
  next_comp,  ///< the next completion
  solicited,  ///< the next receive that the peer marked as solicited, or the next failure
};

/// A completion queue. It never overruns: posting to a QP reserves room here and is refused when there is none.
class CompletionQueue {
 public:
  virtual ~CompletionQueue() = default;
  /// Takes up to out.size() completions in order; returns the number taken.
  virtual std::size_t poll(std::span<WorkCompletion> out) = 0;
  virtual std::size_t capacity() const = 0;
  /// Arms the queue for one event in its channel: of the next completion that is added from now on. Those that are
  /// there already make none, so poll once more after arming. next_comp holds until it comes true, whatever is asked
  /// for after it. Errors: wrong_state (made without a channel, or the channel is gone).
  virtual Result<void> req_notify(Notify which) = 0;
};

/// Arguments of ibv_create_cq.
struct CqInit {
  std::size_t capacity = 256;            ///< completions and posted requests together: ibv_create_cq's cqe; 1 to 2^20
  CompletionChannel* channel = nullptr;  ///< for req_notify; none: the queue is only polled
};

/// ibv_srq_attr. To modify: what is set is changed.
struct SrqAttr {
  std::optional<std::uint32_t> max_wr{};     ///< query: the capacity; setting it is refused
  std::optional<std::uint32_t> srq_limit{};  ///< fewer posted receives than this cause SrqLimitReached; 0: never
};

/// Receives that several queue pairs take from: ibv_srq.
class SharedReceiveQueue {
 public:
  virtual ~SharedReceiveQueue() = default;
  /// Errors: no_space, protection, invalid_argument.
  virtual Result<void> post_recv(const RecvWr& wr) = 0;
  virtual std::size_t available() const = 0;
  /// Arms the limit, for one event; if fewer are posted already, at once. Errors: unsupported (max_wr),
  /// invalid_argument (a limit above the capacity).
  virtual Result<void> modify(const SrqAttr& attr) = 0;
  virtual SrqAttr query() const = 0;
  /// The number by which a peer's XRC_INI names it, 24 bits; none but of an XRC shared receive queue.
  virtual std::optional<std::uint32_t> srq_num() const = 0;
};

/// Fewer receives are posted than the limit that was armed: IBV_EVENT_SRQ_LIMIT_REACHED. The limit is 0 now.
struct SrqLimitReached {
  SharedReceiveQueue* srq = nullptr;
};
/// What happened to a queue pair: IBV_EVENT_*, with ibv_event_type's numbers. Only RoCE has them. At most one of each
/// kind of each queue pair waits; a queue pair that is destroyed takes its own along.
struct QueuePairEvent {
  enum class Kind : std::uint8_t {
    qp_fatal = 1,              ///< it came to ERR or SQE by itself: a request failed, or the peer's did
    comm_est = 4,              ///< in RTR, the first packet of the peer came: the connection is up, RTU or not
    sq_drained = 5,            ///< in SQD, and what was begun is complete (QpAttr::en_sqd_async_notify)
    qp_last_wqe_reached = 16,  ///< in ERR, it takes nothing more from its shared receive queue
  };
  Kind kind = Kind::qp_fatal;
  class QueuePair* qp = nullptr;
};
/// ibv_async_event. Those of connections are cm::Event.
using AsyncEvent = std::variant<SrqLimitReached, QueuePairEvent>;

/// ibv_xrcd: what XRC shared receive queues and the XRC_TGT queue pairs that may reach them have in common.
class XrcDomain {
 public:
  virtual ~XrcDomain() = default;
};

/// ibv_xrcd_init_attr.
struct XrcdInit {
  int fd = -1;         ///< whoever opens with a descriptor of the same file gets the same domain; -1: nobody else does
  bool create = true;  ///< a domain that nobody has open is made (O_CREAT)
  bool exclusive = false;  ///< one that somebody has open is refused (O_EXCL)
};

/// ibv_ah: where a datagram goes.
class AddressHandle {
 public:
  virtual ~AddressHandle() = default;
};

/// ibv_srq_init_attr_ex; the limit is armed by modify.
struct SrqInit {
  PdHandle pd = 0;
  std::size_t capacity = 256;     ///< receives: ibv_srq_attr's max_wr; 1 to 2^20
  XrcDomain* xrcd = nullptr;      ///< if not null: an XRC shared receive queue of this domain
  CompletionQueue* cq = nullptr;  ///< with xrcd: where its receives complete
};

/// ibv_qp_init_attr.
struct QpInit {
  QpType type = QpType::rc;
  PdHandle pd = 0;
  CompletionQueue* send_cq = nullptr;  ///< must outlive the QP
  CompletionQueue* recv_cq = nullptr;
  SharedReceiveQueue* srq = nullptr;  ///< instead of a receive queue of its own
  std::uint32_t max_send_wr = 64;     ///< requests posted and not complete; at most DeviceAttr::max_qp_wr
  std::uint32_t max_recv_wr = 64;     ///< as max_send_wr; unused with srq
  XrcDomain* xrcd = nullptr;          ///< xrc_tgt: the domain that it belongs to, in place of pd, queues and srq
};

/// What carries a device's messages: TCP with MPA (RFC 5044), or InfiniBand's transport over UDP.
enum class Transport : std::uint8_t { iwarp, roce };
std::string_view to_string(Transport transport);  ///< "iWARP", "RoCE"

/// ibv_device_attr: what a device can do, and its limits. What is false is refused at the call.
struct DeviceAttr {
  std::string name;  ///< "rxe0"; of a software NIC "parley"
  Transport transport = Transport::iwarp;
  std::vector<QpType> qp_types;  ///< what create_qp makes
  bool imm_data = false;         ///< send_with_imm, rdma_write_with_imm
  bool xrc = false;              ///< open_xrcd, XRC shared receive queues
  bool address_handles = false;  ///< create_ah
  std::uint32_t max_pd = 0, max_mr = 0;
  std::uint32_t max_cqe = 0;              ///< CqInit::capacity
  std::uint32_t max_qp_wr = 0;            ///< QpInit::max_send_wr, max_recv_wr
  std::uint32_t max_srq_wr = 0;           ///< SrqInit::capacity
  std::uint32_t max_sge = 0;              ///< pieces of a request
  std::uint32_t max_sge_rd = 0;           ///< pieces of an RDMA Read
  std::uint32_t max_inline_data = 0;      ///< octets that a request can carry itself
  std::uint32_t max_qp_rd_atom = 0;       ///< Reads and Atomics of the peer answered at once; iWARP: IRD
  std::uint32_t max_qp_init_rd_atom = 0;  ///< Reads and Atomics outstanding; iWARP: ORD
};

/// A queue pair of one of the types above.
class QueuePair {
 public:
  virtual ~QueuePair() = default;
  virtual std::uint32_t qp_num() const = 0;
  virtual QpState state() const = 0;
  /// ibv_modify_qp: goes to another state, changes attributes, or both; nothing is changed by a call that fails. What
  /// an iWARP queue pair can do is in docs/verbs.md: INIT and RESET before the connection, SQD and back, ERR, and
  /// changes of its access rights. RTR and RTS are the connection manager's.
  /// Errors, each with a sentence: unsupported (the transport lacks the attribute or the transition), wrong_state (there
  /// is no such transition, or cur_state is not the state), invalid_argument.
  virtual Result<void> modify(const QpAttr& attr) = 0;
  /// ibv_query_qp: the state and what else the transport has; what it lacks is not set.
  virtual QpAttr query() const = 0;
  /// Allowed in init, rts and sqd; on iWARP what is posted in init is sent once connected. On RoCE it is allowed from rts
  /// on, and flushed at once in sqe and err. The list of pieces is copied;
  /// the memory is the queue pair's until the completion. Errors: unsupported (the transport lacks the operation),
  /// invalid_argument, no_space (the queue, or the completion queue), protection (an lkey), wrong_state,
  /// insufficient_ird (a Read or Atomic while ORD is 0).
  virtual Result<void> post_send(const SendWr& wr) = 0;
  /// Allowed in init, rts and sqd; on RoCE in all states but reset, and flushed at once in err. Errors: invalid_argument,
  /// no_space, protection, wrong_state, unsupported (XRC queue pairs receive by an XRC shared receive queue).
  virtual Result<void> post_recv(const RecvWr& wr) = 0;
};

/// A software NIC. Handles are checked: a stale or foreign one is an error, never undefined behaviour.
class Device {
 public:
  virtual ~Device() = default;
  /// Errors: no_space.
  virtual Result<PdHandle> alloc_pd() = 0;
  /// Errors: wrong_state while objects use it.
  virtual Result<void> dealloc_pd(PdHandle pd) = 0;
  /// Registers [memory], which must stay mapped for as long as the registration: a software NIC copies, and pins nothing.
  virtual Result<MemoryRegion> reg_mr(PdHandle pd, MutBytes memory, Access access) = 0;
  /// Errors: invalid_argument (no such region), wrong_state (posted work uses it).
  virtual Result<void> dereg_mr(std::uint32_t lkey) = 0;
  virtual Result<std::unique_ptr<CompletionChannel>> create_comp_channel() = 0;
  /// Errors: invalid_argument.
  virtual Result<std::unique_ptr<CompletionQueue>> create_cq(const CqInit& init) = 0;
  Result<std::unique_ptr<CompletionQueue>> create_cq(std::size_t capacity) {
    return create_cq(CqInit{.capacity = capacity});
  }
  /// Errors: invalid_argument, unsupported (an XRC one on a device without XRC).
  virtual Result<std::unique_ptr<SharedReceiveQueue>> create_srq(const SrqInit& init) = 0;
  Result<std::unique_ptr<SharedReceiveQueue>> create_srq(PdHandle pd, std::size_t capacity) {
    return create_srq(SrqInit{.pd = pd, .capacity = capacity});
  }
  /// Errors: unsupported (a type that the device lacks), invalid_argument.
  virtual Result<std::unique_ptr<QueuePair>> create_qp(const QpInit& init) = 0;
  /// Errors: unsupported (a device without XRC; a descriptor on a software NIC, which is one process's), invalid_argument.
  virtual Result<std::unique_ptr<XrcDomain>> open_xrcd(const XrcdInit& init) = 0;
  /// A domain that nobody else opens.
  Result<std::unique_ptr<XrcDomain>> open_xrcd() { return open_xrcd(XrcdInit{}); }
  /// ibv_open_qp: another handle on an XRC_TGT queue pair of the domain, which ends with the last of its handles. What befalls
  /// it is told to each of them. Errors: unsupported, invalid_argument (no such XRC_TGT queue pair in this domain).
  virtual Result<std::unique_ptr<QueuePair>> open_qp(XrcDomain& domain, std::uint32_t qp_num) = 0;
  /// Errors: unsupported (on iWARP), invalid_argument.
  virtual Result<std::unique_ptr<AddressHandle>> create_ah(PdHandle pd, const AhAttr& attr) = 0;
  /// ibv_get_async_event without waiting. At most one of each object waits.
  virtual std::optional<AsyncEvent> poll_async_event() = 0;
  virtual DeviceAttr query() const = 0;
};

}  // namespace parley
