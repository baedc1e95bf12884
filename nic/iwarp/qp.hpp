// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The iWARP queue pair: DDP (RFC 5041), RDMAP (RFC 5040), Atomics and Immediate Data (RFC 7306) between posted work
// and the octets of a TCP stream. Driven by the connection provider through StreamQp and by the user through QueuePair.
// The table names a modify() by its target state.
//
//   state      event                              next       what happens
//   idle       attach                             rts        posted sends may be sent, unless fenced
//   idle       begin_close, flush, end, ERR       error      everything posted completes as flushed
//   idle       RESET, INIT                        same       RESET drops everything posted; no posts in RESET
//   rts        SQD                                same       no request begins until RTS, begin_close or FIN; refused after FIN
//   rts        begin_close                        closing    no more posts; outstanding answers are still sent
//   rts, clos. peer's error, send_terminate       terminate  flush; a Terminate is the last message (RFC 5040 §5.4)
//   rts, clos. Terminate received                 terminate  flush; nothing more is sent (RFC 5040 §6.2.1)
//   rts, clos. FIN                                same       receives, Reads and Atomics flush; sends continue
//   rts, clos. reset, flush, ERR                  error      flush; unsent octets are dropped
//   terminate  flush, reset                       error      the Terminate is dropped if still unsent
//   error      RESET, if never attached           idle       as if new
//   error      anything else                      error      nothing
//
// A posted request completes exactly once and in order per queue; unsignaled ones that succeed leave no completion.
#pragma once
#include <algorithm>
#include <memory>
#include <optional>
#include <vector>

#include "base/bytes_io.hpp"
#include "mpa/framer.hpp"
#include "nic/common/objects.hpp"
#include "nic/iwarp/atomics.hpp"
#include "nic/iwarp/cursor.hpp"
#include "nic/iwarp/device.hpp"
#include "nic/iwarp/output.hpp"
#include "nic/iwarp/placed.hpp"
#include "wire/rdmap.hpp"

namespace parley::nic::iwarp {

/// One posted send request.
struct SendWqe {
  enum class Kind : std::uint8_t { send, write, read, fetch_add, cmp_swap, immediate };
  std::uint64_t wr_id = 0;
  Kind kind = Kind::send;
  bool signaled = true, solicited = false, fence = false;
  bool framed = false;    // every segment is in the output
  bool answered = false;  // Read, Atomic: the response is complete
  WcStatus status = WcStatus::success;
  WrMemory memory;
  std::uint32_t offset = 0;  // octets framed
  std::uint64_t end = 0;     // stream position after its last octet
  std::uint32_t invalidate = 0;
  std::uint32_t remote_stag = 0;
  std::uint64_t remote_to = 0;
  std::uint32_t sink_stag = 0;
  std::uint64_t sink_to = 0;
  std::uint64_t immediate = 0;
  std::uint64_t swap_add = 0, swap_add_mask = 0, compare = 0, compare_mask = 0;
  std::uint32_t request_id = 0;
  std::uint32_t msn = 0;  // Read, Atomic: as sent

  /// Initialises as newly posted, with nothing framed; the caller assigns the rest.
  void start(Kind what, std::uint64_t id) {
    kind = what;
    wr_id = id;
    framed = answered = false;
    status = WcStatus::success;
    offset = 0;
    end = 0;
  }
  static bool fetches(Kind kind) { return kind == Kind::read || kind == Kind::fetch_add || kind == Kind::cmp_swap; }
  bool fetches() const { return fetches(kind); }
};

/// An inbound Read or Atomic Request that waits for its response to be sent.
struct Reply {
  bool atomic = false;
  bool framed = false;
  bool pinned = false;
  ConstBytes source;  // Read: the octets to send, pinned
  std::uint32_t slot = 0;
  std::size_t offset = 0;  // octets framed
  std::uint64_t end = 0;
  std::uint32_t sink_stag = 0;
  std::uint64_t sink_to = 0;
  std::uint32_t request_id = 0;
  std::uint64_t original = 0;
};

class Qp final : public StreamQp {
 public:
  explicit Qp(QpParts parts);
  ~Qp() override;
  Qp(const Qp&) = delete;
  Qp& operator=(const Qp&) = delete;

  std::uint32_t qp_num() const override { return parts_.qp_num; }
  QpState state() const override;
  Result<void> modify(const QpAttr& attr) override;
  QpAttr query() const override;
  RdmapState rdmap_state() const override { return state_; }
  Result<void> post_immediate(const parley::iwarp::ImmediateWr& wr) override;
  Result<void> post_send(const SendWr& wr) override;
  Result<void> post_recv(const RecvWr& wr) override;
  const std::optional<TerminateInfo>& terminate() const override { return terminate_; }

  Result<void> attach(const AttachOptions& options) override;
  void release_fence() override;
  void handle_bytes(ConstBytes in) override;
  void handle_end(bool reset) override;
  void end_transmit() override { transmit_ended_ = true; }
  void send_terminate(std::uint8_t layer, std::uint8_t etype, std::uint8_t code) override;
  void begin_close() override;
  bool drained() const override;
  void flush() override;
  std::size_t gather(std::span<ConstBytes> out) override;
  void sent(std::size_t n) override;
  bool has_transmit() const override;
  bool has_event() const override { return first_fpdu_event_ || !events_.empty(); }
  std::optional<QpEvent> poll_event() override;

 private:
  enum class Source : std::uint8_t { none, rtr, work, reply };
  /// A received segment: its header, parsed and as on the wire, and a cursor at its payload.
  struct Segment {
    wire::DdpHeader header;
    ConstBytes octets;  // the header's octets
    Cursor payload;
    std::size_t length = 0;  // octets of payload
    std::size_t ulpdu = 0;
    std::uint64_t position = 0;
  };
  struct TermCode {
    std::uint8_t layer, etype, code;
  };
  /// The untagged message being received on queue 0.
  struct Incoming {
    bool active = false;
    std::unique_ptr<RecvWqe> shared;  // from the SRQ, allocated on first use; our own receive stays at the head of its
                                      // queue
    wire::RdmapOpcode opcode = wire::RdmapOpcode::send;
    std::uint32_t invalidate = 0;
    Placed placed;
  };

  // modify.cpp: verbs' states and attributes
  Result<void> check_step(QpState to) const;
  void go_to(QpState to);
  void reset();

  // qp.cpp: states, posting, completions
  bool connected() const { return state_ == RdmapState::rts || state_ == RdmapState::closing; }
  void enter(RdmapState state);
  Result<void> check_posting() const;
  Result<SendWqe*> push_send(SendWqe::Kind kind);
  void mark_dirty();
  void unlink_dirty();
  void complete_sent();
  void complete(SendWqe& wqe, WcStatus status);
  RecvWqe& incoming_wqe() { return parts_.srq ? *incoming_.shared : receives_.front(); }
  WorkCompletion& complete_incoming(WcOpcode opcode, WcStatus status, bool solicited = false);
  void drop_posted();
  void flush_sends();
  void flush_receives();
  void flush_fetches();
  void flush_replies();
  void flush_all();
  void to_error();
  void push_event(QpEvent event);
  void fail_stream(Errc code, std::string_view rule, std::string received);

  // tx.cpp: what goes out next
  Source choose() const;
  bool work_ready() const;
  bool frame_next();
  bool frame_rtr();
  bool frame_work();
  bool frame_reply();
  bool frame_send_like(SendWqe& wqe);
  bool frame_write(SendWqe& wqe);
  bool frame_fetch(SendWqe& wqe);
  void work_framed(SendWqe& wqe);

  // rx.cpp, rx_tagged.cpp: what came in
  void handle_fpdu(const mpa::FpduView& view);
  bool handle_message(Segment& segment);
  bool check_headers(const Segment& segment);
  mpa::Rtr rtr_form(const Segment& segment) const;
  void first_fpdu(mpa::Rtr form);
  bool handle_send(Segment& segment);
  bool begin_or_go_on(Segment& segment);
  bool check_place(Segment& segment);
  bool finish_incoming(Segment& segment);
  bool handle_immediate(Segment& segment);
  bool consume_receive(Segment& segment);
  bool handle_read_request(Segment& segment);
  bool handle_atomic_request(Segment& segment);
  bool handle_atomic_response(Segment& segment);
  bool handle_terminate(Segment& segment);
  bool handle_write(Segment& segment);
  bool handle_read_response(Segment& segment);
  bool place_response(Segment& segment, SendWqe& wqe);
  /// Like MrTable::check, and the queue pair itself must also grant `right` (QpAttr::access).
  MrFault check_remote(std::uint32_t stag, std::uint64_t to, std::uint64_t length, Access right, MrRange& out) const {
    const MrFault fault = parts_.tables->regions.check(stag, to, length, parts_.pd, right, out);
    return fault == MrFault::none && !has(access_, right) ? MrFault::access : fault;
  }
  bool whole_untagged(Segment& segment, MutBytes out);
  bool too_scattered(Segment& segment);
  bool ird_left(const Segment& segment);
  SendWqe* oldest_fetch();
  bool awaits_response() const;
  void fetch_answered(SendWqe& wqe);

  // terminate.cpp
  /// Queues the Terminate, flushes, reports; always false, so that a check can `return refuse(...)`.
  bool refuse(TermCode code, const Segment* segment, ConstBytes read_request, std::string_view rule,
              std::string received, Errc errc = Errc::malformed);
  bool refuse(TermCode code, const Segment& segment, std::string_view rule, std::string_view what);
  void queue_terminate(TermCode code, const Segment* segment, ConstBytes read_request);
  void trace_terminate() const;
  static TermCode protection_code(MrFault fault);
  void record_read_fault(const wire::Terminate& terminate);
  void refuse_deframe(mpa::DeframeStatus status);

  /// In verbs there are no rights until INIT grants them; here a queue pair begins in INIT, with all of them.
  static constexpr Access access_default = Access::remote_write | Access::remote_read | Access::remote_atomic;

  QpParts parts_;
  RdmapState state_ = RdmapState::idle;
  const trace::Scope* trace_ = nullptr;
  bool reset_ = false;  // idle: verbs' RESET, not INIT
  bool sqd_ = false;    // rts: no new request may begin
  bool had_connection_ = false;
  Access access_ = access_default;
  mpa::Role role_ = mpa::Role::initiator;
  mpa::Rtr agreed_rtr_ = mpa::Rtr::none;
  bool rtr_stag_zero_ = false;
  bool refuses_stag_zero_ = false;
  bool terminate_nibbles_swapped_ = false;
  std::uint8_t terminate_llp_etype_ = 0;
  bool rtr_announced_ = false;
  std::optional<TerminateInfo> terminate_;
  // At most 4, because each kind occurs at most once. The one that good connections have needs no allocation.
  std::optional<mpa::Rtr> first_fpdu_event_;  // before all others
  std::vector<QpEvent> events_;

  // Dirty list link.
  bool dirty_ = false;
  Qp* dirty_previous_ = nullptr;
  Qp* dirty_next_ = nullptr;

  // Transmit.
  Output output_;
  bool fenced_ = false;
  bool transmit_ended_ = false;  // our FIN was sent
  GrowRing<SendWqe> sends_;      // at most max_send_wr
  std::uint64_t next_work_ = 0;  // the first that is not completely framed
  GrowRing<Reply> replies_;      // at most IRD
  std::uint64_t next_reply_ = 0;
  Source current_ = Source::none;  // the message that is being segmented
  bool work_had_turn_ = false;
  mpa::Rtr rtr_due_ = mpa::Rtr::none;
  std::uint32_t tx_msn_send_ = 1, tx_msn_read_ = 1, tx_msn_atomic_ = 1;

  // Reads and Atomics sent by this side.
  std::uint32_t ord_ = 0;
  std::uint32_t fetches_out_ = 0;  // at most ORD
  std::uint64_t next_fetch_ = 0;   // no earlier request awaits a response
  Placed read_placed_;             // for the Read whose response is arriving
  bool rtr_read_out_ = false;      // the 0B Read RTR awaits its response, before all others
  std::uint32_t next_request_id_ = 0;

  // Receive.
  std::optional<mpa::Deframer> deframer_;
  std::uint64_t fed_ = 0;
  bool first_seen_ = false;
  bool receive_ended_ = false;
  GrowRing<RecvWqe> receives_;  // at most max_recv_wr; unused with an SRQ
  Incoming incoming_;
  std::uint32_t rx_msn_send_ = 1, rx_msn_read_ = 1, rx_msn_atomic_ = 1;
  std::uint32_t ird_ = 0;

  friend Qp* pop_dirty(DirtyList& list);
};

Qp* pop_dirty(DirtyList& list);

}  // namespace parley::nic::iwarp
