// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Verbs objects of a NIC: protection domains, memory regions, completion queues, shared receive queues and queue pairs. The
// terms are those of the RDMA verbs (docs/verbs.md). The classes are interfaces; nic/iwarp, nic/roce and drivers/rdmacm
// implement them. Work requests and completions: parley/work.hpp. States and attributes of a queue pair: parley/qp.hpp.
// What is specific to one transport: parley/iwarp.hpp, parley/roce.hpp. One thread uses a device.
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

/// A registered region: ibv_mr. This side uses lkey and the peer uses rkey; both address octets in [addr, addr + length). On
/// iWARP both keys are the STag, and an address is a tagged offset (RFC 5041 §4.2).
struct MemoryRegion {
  std::uint32_t lkey = 0;  ///< for Sge; not 0
  std::uint32_t rkey = 0;  ///< for the peer's SendWr; not 0 (some iWARP hardware refuses STag 0)
  std::uint64_t addr = 0;  ///< of the first octet: the memory's address, unless the device assigns addresses itself
  std::uint64_t length = 0;
  PdHandle pd = 0;
  Access access = Access::none;
};

/// ibv_mw_type. A window of type 1 may be used by peers of every queue pair of its protection domain. One of type 2 may be used
/// by the peer of one queue pair, which is the one that bound it (type 2B in IBA §10.6.7).
enum class MwType : std::uint8_t { type_1 = 1, type_2 = 2 };
/// A memory window: ibv_mw. SendWr::Opcode::bind_mw gives it a part of a region, with a key and rights of its own.
struct MemoryWindow {
  std::uint32_t handle = 0;  ///< for MwBind and dealloc_mw; does not change; not 0
  std::uint32_t rkey = 0;    ///< before the first bind; each bind chooses the next one (MwBind::rkey)
  PdHandle pd = 0;
  MwType type = MwType::type_1;
};

class CompletionQueue;

/// ibv_comp_channel: reports which completion queues have a new completion, for programs that wait instead of polling. It
/// has no descriptor: Host::fd() is readable when a request may have completed, and Host::next_deadline() is in the past
/// while an event waits here. docs/verbs.md shows the loop.
class CompletionChannel {
 public:
  virtual ~CompletionChannel() = default;
  /// ibv_get_cq_event without waiting: the completion queue whose notification fired first; null if none has. Events need
  /// no acknowledgement: destroying a queue removes its event.
  virtual CompletionQueue* poll_event() = 0;
  /// Number of events. At most one event of each completion queue waits; a second one merges with it.
  virtual std::size_t waiting() const = 0;
};

/// The argument of CompletionQueue::req_notify: ibv_req_notify_cq's solicited_only.
enum class Notify : std::uint8_t {
  next_comp,  ///< the next completion
  solicited,  ///< the next receive that the peer marked as solicited, or the next failure
};

/// A completion queue. It never overruns: posting to a QP reserves an entry here, and is refused if none is free.
class CompletionQueue {
 public:
  virtual ~CompletionQueue() = default;
  /// Takes up to out.size() completions in order; returns the number taken.
  virtual std::size_t poll(std::span<WorkCompletion> out) = 0;
  /// Completions that poll() would return.
  virtual std::size_t size() const = 0;
  virtual std::size_t capacity() const = 0;
  /// Arms the queue for one event in its channel, for the next completion that is added from now on. Completions that are
  /// already queued cause no event, so poll once more after arming. An armed next_comp stays until it fires; a later call
  /// does not change it. Errors: wrong_state (created without a channel, or the channel is gone).
  virtual Result<void> req_notify(Notify which) = 0;
};

/// Arguments of ibv_create_cq.
struct CqInit {
  std::size_t capacity = 256;            ///< completions and posted requests in total: ibv_create_cq's cqe; 1 to 2^20
  CompletionChannel* channel = nullptr;  ///< for req_notify; null: polling only
};

/// ibv_srq_attr. To modify: fields with a value are changed.
struct SrqAttr {
  std::optional<std::uint32_t> max_wr{};     ///< query: the capacity; modify refuses it
  std::optional<std::uint32_t> srq_limit{};  ///< SrqLimitReached if fewer receives than this are posted; 0: never
};

/// A receive queue that several queue pairs share: ibv_srq.
class SharedReceiveQueue {
 public:
  virtual ~SharedReceiveQueue() = default;
  /// Errors: no_space (the queue is full), protection, invalid_argument.
  virtual Result<void> post_recv(const RecvWr& wr) = 0;
  virtual std::size_t available() const = 0;
  /// Arms the limit for one event, which is raised at once if fewer receives are already posted. Errors: unsupported
  /// (max_wr), invalid_argument (a limit above the capacity).
  virtual Result<void> modify(const SrqAttr& attr) = 0;
  virtual SrqAttr query() const = 0;
  /// The number that a peer's XRC_INI names, 24 bits; only an XRC shared receive queue has one.
  virtual std::optional<std::uint32_t> srq_num() const = 0;
};

/// Fewer receives are posted than the armed limit: IBV_EVENT_SRQ_LIMIT_REACHED. The limit is now 0.
struct SrqLimitReached {
  SharedReceiveQueue* srq = nullptr;
};
/// An event of a queue pair: IBV_EVENT_*, with the values of ibv_event_type. Only RoCE has them. At most one event of each
/// kind waits per queue pair; destroying a queue pair removes its events.
struct QueuePairEvent {
  enum class Kind : std::uint8_t {
    qp_fatal = 1,    ///< the queue pair entered ERR or SQE on its own: a request of this side or of the peer failed
    comm_est = 4,    ///< the peer's first packet arrived in RTR: the connection is up, even without an RTU
    sq_drained = 5,  ///< in SQD, all started requests are complete (QpAttr::en_sqd_async_notify)
    qp_last_wqe_reached = 16,  ///< in ERR, it takes no more receives from its shared receive queue
  };
  Kind kind = Kind::qp_fatal;
  class QueuePair* qp = nullptr;
};
/// ibv_async_event. Events of connections are cm::Event.
using AsyncEvent = std::variant<SrqLimitReached, QueuePairEvent>;

/// ibv_xrcd: groups XRC shared receive queues and the XRC_TGT queue pairs that may deliver to them.
class XrcDomain {
 public:
  virtual ~XrcDomain() = default;
};

/// ibv_xrcd_init_attr.
struct XrcdInit {
  int fd = -1;             ///< all callers with a descriptor of the same file share the domain; -1: a private domain
  bool create = true;      ///< create the domain if it is not open (O_CREAT)
  bool exclusive = false;  ///< refuse a domain that is already open (O_EXCL)
};

/// ibv_ah: the destination of a datagram.
class AddressHandle {
 public:
  virtual ~AddressHandle() = default;
};

/// ibv_srq_init_attr_ex; modify arms the limit.
struct SrqInit {
  PdHandle pd = 0;
  std::size_t capacity = 256;     ///< receives: ibv_srq_attr's max_wr; 1 to 2^20
  XrcDomain* xrcd = nullptr;      ///< if not null: an XRC shared receive queue of this domain
  CompletionQueue* cq = nullptr;  ///< with xrcd: the queue for completions of its receives
};

/// ibv_qp_init_attr.
struct QpInit {
  QpType type = QpType::rc;
  PdHandle pd = 0;
  CompletionQueue* send_cq = nullptr;  ///< must outlive the queue pair
  CompletionQueue* recv_cq = nullptr;
  SharedReceiveQueue* srq = nullptr;  ///< used instead of a receive queue of the queue pair
  std::uint32_t max_send_wr = 64;     ///< requests posted and not complete; at most DeviceAttr::max_qp_wr
  std::uint32_t max_recv_wr = 64;     ///< like max_send_wr; ignored with srq
  XrcDomain* xrcd = nullptr;          ///< xrc_tgt: its domain; used instead of pd, queues and srq
};

/// The transport of a device: MPA on TCP (RFC 5044), or InfiniBand's transport over UDP.
enum class Transport : std::uint8_t { iwarp, roce };
std::string_view to_string(Transport transport);  ///< "iWARP", "RoCE"

/// ibv_device_attr: capabilities and limits of a device. A call that needs a missing capability is refused.
struct DeviceAttr {
  std::string name;  ///< "rxe0"; a software NIC: "parley"
  Transport transport = Transport::iwarp;
  std::vector<QpType> qp_types;  ///< types that create_qp supports
  bool imm_data = false;         ///< send_with_imm, rdma_write_with_imm
  bool xrc = false;              ///< open_xrcd, XRC shared receive queues
  bool address_handles = false;  ///< create_ah
  std::uint32_t max_pd = 0, max_mr = 0;
  std::uint32_t max_mw = 0;               ///< memory windows; 0: none, and bind_mw and local_inv are refused
  std::uint32_t max_cqe = 0;              ///< CqInit::capacity
  std::uint32_t max_qp_wr = 0;            ///< QpInit::max_send_wr, max_recv_wr
  std::uint32_t max_srq_wr = 0;           ///< SrqInit::capacity
  std::uint32_t max_sge = 0;              ///< scatter/gather elements of a request
  std::uint32_t max_sge_rd = 0;           ///< scatter/gather elements of an RDMA Read
  std::uint32_t max_inline_data = 0;      ///< bytes that a request can carry inline
  std::uint32_t max_qp_rd_atom = 0;       ///< most Reads and Atomics of the peer at once; iWARP: IRD
  std::uint32_t max_qp_init_rd_atom = 0;  ///< most outstanding Reads and Atomics; iWARP: ORD
};

/// A queue pair of one of the types above.
class QueuePair {
 public:
  virtual ~QueuePair() = default;
  virtual std::uint32_t qp_num() const = 0;
  virtual QpState state() const = 0;
  /// ibv_modify_qp: changes the state, attributes, or both. A call that fails changes nothing. An iWARP queue pair supports
  /// INIT and RESET before the connection, SQD and back, ERR, and changes of its access rights (docs/verbs.md); the
  /// connection manager makes the transitions to RTR and RTS.
  /// Errors, each with a sentence: unsupported (the transport lacks the attribute or the transition), wrong_state (no such
  /// transition, or cur_state is not the current state), invalid_argument.
  virtual Result<void> modify(const QpAttr& attr) = 0;
  /// ibv_query_qp: the state and all attributes of the transport; attributes that it lacks have no value.
  virtual QpAttr query() const = 0;
  /// iWARP: allowed in init, rts and sqd; requests posted in init are sent once connected. RoCE: allowed from rts on, and
  /// flushed at once in sqe and err. The call copies the list of scatter/gather elements; the memory belongs to the queue
  /// pair until the completion. Errors: unsupported (the transport lacks the operation), invalid_argument, no_space (the
  /// send queue or the completion queue is full), protection (an lkey), wrong_state, insufficient_ird (a Read or Atomic with
  /// an ORD of 0).
  virtual Result<void> post_send(const SendWr& wr) = 0;
  /// iWARP: allowed in init, rts and sqd. RoCE: allowed in all states except reset, and flushed at once in err. Errors:
  /// invalid_argument, no_space, protection, wrong_state, unsupported (XRC queue pairs receive through an XRC shared receive
  /// queue).
  virtual Result<void> post_recv(const RecvWr& wr) = 0;
};

/// A NIC, in software or hardware. Handles are checked: a stale or foreign one is an error, never undefined behaviour.
class Device {
 public:
  virtual ~Device() = default;
  /// Errors: no_space.
  virtual Result<PdHandle> alloc_pd() = 0;
  /// Errors: invalid_argument (no such domain), wrong_state (objects use it).
  virtual Result<void> dealloc_pd(PdHandle pd) = 0;
  /// Registers `memory`, which must stay mapped until dereg_mr: a software NIC copies, and pins no pages. Errors:
  /// invalid_argument (no such domain, or no memory), no_space (DeviceAttr::max_mr, or no tagged offsets are left).
  virtual Result<MemoryRegion> reg_mr(PdHandle pd, MutBytes memory, Access access) = 0;
  /// Errors: invalid_argument (no such region), wrong_state (a posted request uses it, or a memory window is bound to it).
  virtual Result<void> dereg_mr(std::uint32_t lkey) = 0;
  /// ibv_alloc_mw: a window that is bound to nothing. Errors: unsupported (DeviceAttr::max_mw is 0), invalid_argument (no such
  /// domain or type), no_space.
  virtual Result<MemoryWindow> alloc_mw(PdHandle, MwType) {
    return fail(Errc::unsupported, "this device has no memory windows");
  }
  /// Unbinds the window first, if it is bound: its peers lose access at once. Errors: unsupported, invalid_argument.
  virtual Result<void> dealloc_mw(std::uint32_t) {
    return fail(Errc::unsupported, "this device has no memory windows");
  }
  virtual Result<std::unique_ptr<CompletionChannel>> create_comp_channel() = 0;
  /// Errors: invalid_argument.
  virtual Result<std::unique_ptr<CompletionQueue>> create_cq(const CqInit& init) = 0;
  Result<std::unique_ptr<CompletionQueue>> create_cq(std::size_t capacity) {
    return create_cq(CqInit{.capacity = capacity});
  }
  /// Errors: invalid_argument, unsupported (an XRC queue on a device without XRC).
  virtual Result<std::unique_ptr<SharedReceiveQueue>> create_srq(const SrqInit& init) = 0;
  Result<std::unique_ptr<SharedReceiveQueue>> create_srq(PdHandle pd, std::size_t capacity) {
    return create_srq(SrqInit{.pd = pd, .capacity = capacity});
  }
  /// Errors: unsupported (a type that the device lacks), invalid_argument, no_space.
  virtual Result<std::unique_ptr<QueuePair>> create_qp(const QpInit& init) = 0;
  /// Errors: unsupported (a device without XRC; a descriptor on a software NIC, which serves one process),
  /// invalid_argument.
  virtual Result<std::unique_ptr<XrcDomain>> open_xrcd(const XrcdInit& init) = 0;
  /// A private domain.
  Result<std::unique_ptr<XrcDomain>> open_xrcd() { return open_xrcd(XrcdInit{}); }
  /// ibv_open_qp: another handle to an XRC_TGT queue pair of the domain. The queue pair ends with the last of its handles.
  /// Each handle reports its events. Errors: unsupported, invalid_argument (no such XRC_TGT queue pair in this domain).
  virtual Result<std::unique_ptr<QueuePair>> open_qp(XrcDomain& domain, std::uint32_t qp_num) = 0;
  /// Errors: unsupported (on iWARP), invalid_argument.
  virtual Result<std::unique_ptr<AddressHandle>> create_ah(PdHandle pd, const AhAttr& attr) = 0;
  /// ibv_get_async_event without waiting. At most one event of each kind waits per object.
  virtual std::optional<AsyncEvent> poll_async_event() = 0;
  virtual DeviceAttr query() const = 0;
};

}  // namespace parley
