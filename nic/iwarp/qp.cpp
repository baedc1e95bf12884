// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "nic/iwarp/qp.hpp"

#include <utility>

#include "base/assert.hpp"

namespace parley::nic::iwarp {
namespace {

using Kind = SendWqe::Kind;

WcOpcode completion_opcode(Kind kind) {
  switch (kind) {
    case Kind::send: return WcOpcode::send;
    case Kind::write: return WcOpcode::rdma_write;
    case Kind::read: return WcOpcode::rdma_read;
    case Kind::fetch_add: return WcOpcode::fetch_add;
    case Kind::cmp_swap: return WcOpcode::comp_swap;
    case Kind::immediate: return WcOpcode::iwarp_immediate;
  }
  return WcOpcode::send;
}

Kind kind_of(SendWr::Opcode opcode) {
  switch (opcode) {
    case SendWr::Opcode::rdma_write: return Kind::write;
    case SendWr::Opcode::rdma_read: return Kind::read;
    case SendWr::Opcode::atomic_cmp_and_swp:
    case SendWr::Opcode::masked_atomic_cmp_and_swp: return Kind::cmp_swap;
    case SendWr::Opcode::atomic_fetch_and_add:
    case SendWr::Opcode::masked_atomic_fetch_and_add: return Kind::fetch_add;
    default: return Kind::send;
  }
}

auto cq_is_full(const CqRing& ring) {
  return fail(Errc::no_space, "the completion queue holds {a}, all of them reserved or not yet polled",
              static_cast<std::int64_t>(ring.done.max()));
}

Result<void> check_atomic(const SendWr& wr) {
  // RFC 7306 §5.1: 64 bits, aligned.
  if (wr.sges.size() != 1)
    return fail(Errc::invalid_argument, "SendWr::sges has {a} pieces; an atomic takes one of 8 octets",
                std::ssize(wr.sges));
  if (wr.sges[0].length != 8)
    return fail(Errc::invalid_argument, "SendWr::sges[0] has {a} octets; an atomic takes 8", wr.sges[0].length);
  if (wr.remote_addr % 8 != 0)
    return fail(Errc::invalid_argument, "SendWr::remote_addr of an atomic is {a} octets behind a multiple of 8",
                static_cast<std::int64_t>(wr.remote_addr % 8));
  return {};
}

// Checks fields for queue pair types that iWARP does not have.
Result<void> not_connected(const SendWr& wr) {
  if (wr.remote_srq_num != 0)
    return fail(Errc::unsupported, "SendWr::remote_srq_num is {a}, but iWARP has no XRC", wr.remote_srq_num);
  return fail(Errc::unsupported,
              "SendWr::ah, remote_qp_num and remote_qkey are for datagrams, which iWARP lacks; the peer is the "
              "connection's");
}

bool completes_a_receive(SendWr::Opcode opcode) {
  switch (opcode) {
    case SendWr::Opcode::rdma_write:
    case SendWr::Opcode::rdma_read:
    case SendWr::Opcode::atomic_cmp_and_swp:
    case SendWr::Opcode::atomic_fetch_and_add:
    case SendWr::Opcode::masked_atomic_cmp_and_swp:
    case SendWr::Opcode::masked_atomic_fetch_and_add:
    case SendWr::Opcode::local_inv:
    case SendWr::Opcode::bind_mw: return false;
    default: return true;
  }
}

Result<void> check_shape(const SendWr& wr) {
  using Opcode = SendWr::Opcode;
  if (wr.invalidate_rkey != 0 && wr.opcode != Opcode::send_with_inv && wr.opcode != Opcode::local_inv)
    return fail(Errc::invalid_argument, "SendWr::invalidate_rkey goes with send_with_inv only (RFC 5040 §4.7)");
  if (wr.imm_data != 0 && wr.opcode != Opcode::send_with_imm && wr.opcode != Opcode::rdma_write_with_imm)
    return fail(Errc::invalid_argument, "SendWr::imm_data is allowed only with send_with_imm and rdma_write_with_imm");
  if (wr.solicited && !completes_a_receive(wr.opcode))
    return fail(Errc::invalid_argument,
                "SendWr::solicited goes with the sends only; nothing else completes a receive at the peer (RFC 5040 "
                "§4.6)");
  if (wr.ah != nullptr || (wr.remote_qp_num | wr.remote_qkey | wr.remote_srq_num) != 0) return not_connected(wr);
  switch (wr.opcode) {
    case Opcode::send:
    case Opcode::rdma_write: return {};
    case Opcode::send_with_inv:
      if (wr.invalidate_rkey != 0) return {};
      return fail(Errc::invalid_argument, "SendWr::invalidate_rkey is 0, which names no region to invalidate");
    case Opcode::rdma_read:
      // RFC 5040 §4.4: a Read Request names one sink buffer.
      if (wr.sges.size() <= 1) return {};
      return fail(Errc::invalid_argument, "SendWr::sges has {a} pieces; an RDMA Read takes one", std::ssize(wr.sges));
    case Opcode::atomic_cmp_and_swp:
    case Opcode::atomic_fetch_and_add:
    case Opcode::masked_atomic_cmp_and_swp:
    case Opcode::masked_atomic_fetch_and_add: return check_atomic(wr);
    case Opcode::send_with_imm:
      return fail(Errc::unsupported,
                  "SendWr::opcode is send_with_imm, but an iWARP Send carries no immediate data (RFC 5040 §4); "
                  "iwarp::QueuePair::post_immediate sends 64 bits");
    case Opcode::rdma_write_with_imm:
      return fail(Errc::unsupported,
                  "SendWr::opcode is rdma_write_with_imm, which iWARP lacks (RFC 5040 §4); post rdma_write, then "
                  "iwarp::QueuePair::post_immediate (RFC 7306 §6)");
    case Opcode::local_inv:
    case Opcode::bind_mw:
      return fail(Errc::unsupported,
                  "SendWr::opcode: Parley's iWARP devices have no memory windows (DeviceAttr::max_mw)");
  }
  return fail(Errc::invalid_argument, "SendWr::opcode: {a} is not an opcode", static_cast<int>(wr.opcode));
}

// RFC 7306 §5.1: every Atomic has masks on the wire. Those of a plain one: FetchAdd adds all 64 bits (no mask bit ends
// a field), CmpSwap compares and writes all of them.
void set_atomic(SendWqe& wqe, const SendWr& wr) {
  using Opcode = SendWr::Opcode;
  const bool masked =
      wr.opcode == Opcode::masked_atomic_cmp_and_swp || wr.opcode == Opcode::masked_atomic_fetch_and_add;
  if (wqe.kind == Kind::fetch_add) {
    wqe.swap_add = wr.compare_add;
    wqe.swap_add_mask = masked ? wr.compare_add_mask : 0;
    // RFC 7306 §5.1.1: FetchAdd sends compare data 0 and a compare mask of ones.
    wqe.compare = 0;
    wqe.compare_mask = ~0ULL;
  } else {
    wqe.compare = wr.compare_add;
    wqe.compare_mask = masked ? wr.compare_add_mask : ~0ULL;
    wqe.swap_add = wr.swap;
    wqe.swap_add_mask = masked ? wr.swap_mask : ~0ULL;
  }
}

}  // namespace

Qp::Qp(QpParts parts)
    : parts_(std::move(parts)), sends_(parts_.max_send_wr), replies_(0), receives_(parts_.max_recv_wr) {
  parts_.tables->pds.use(parts_.pd);
}

Qp::~Qp() {
  unlink_dirty();
  drop_posted();  // completions of a destroyed queue pair would refer to nothing
  if (incoming_.active && parts_.srq) {
    unpin(parts_.tables->regions, incoming_.shared->memory);
    parts_.recv_cq->release();
  }
  flush_replies();
  parts_.tables->pds.release(parts_.pd);
}

// Without completions: the requests silently release their resources.
void Qp::drop_posted() {
  for (; !sends_.empty(); sends_.pop()) {
    unpin(parts_.tables->regions, sends_.front().memory);
    parts_.send_cq->release();
  }
  for (; !receives_.empty(); receives_.pop()) {
    unpin(parts_.tables->regions, receives_.front().memory);
    parts_.recv_cq->release();
  }
  next_work_ = next_fetch_ = sends_.tail();
}

Result<void> Qp::check_posting() const {
  if (state_ == RdmapState::idle && reset_)
    return fail(Errc::wrong_state, "the queue pair is in RESET; it takes requests from INIT on");
  if (state_ == RdmapState::idle || state_ == RdmapState::rts) return {};
  if (!had_connection_)
    return fail(Errc::wrong_state, "the queue pair is in ERR; it takes requests again from INIT on, after RESET");
  if (state_ == RdmapState::closing)
    return fail(Errc::wrong_state, "the connection of this queue pair is closing; nothing more can be posted");
  return fail(Errc::wrong_state, "the connection of this queue pair is over; nothing more can be posted");
}

// Reserves a place in the send queue and one in its CQ.
Result<SendWqe*> Qp::push_send(Kind kind) {
  if (SendWqe::fetches(kind)) {
    if (receive_ended_) return fail(Errc::wrong_state, "the peer has closed its half and no longer answers");
    if (state_ == RdmapState::rts && ord_ == 0)
      return fail(Errc::insufficient_ird, "the ORD of this connection is 0; a Read or Atomic needs 1");
  }
  if (sends_.full())
    return fail(Errc::no_space, "QpInit::max_send_wr is {a}, and as many requests are posted", parts_.max_send_wr);
  sends_.make_room();
  if (!parts_.send_cq->reserve()) return cq_is_full(*parts_.send_cq);
  return &sends_.push();
}

Result<void> Qp::post_send(const SendWr& wr) {
  if (auto posting = check_posting(); !posting) return posting;
  if (auto shape = check_shape(wr); !shape) return shape;
  const Kind kind = kind_of(wr.opcode);
  const Result<SendWqe*> place = push_send(kind);
  if (!place) return tl::unexpected(place.error());
  SendWqe& wqe = **place;
  const Access needed = SendWqe::fetches(kind) ? Access::local_write : Access::none;
  const Errc fault = resolve(parts_.tables->regions, parts_.pd, wr.sges, needed, wqe.memory);
  if (fault != Errc::ok) {
    sends_.unpush();
    parts_.send_cq->release();
    return tl::unexpected(refusal(parts_.tables->regions, parts_.pd, wr.sges, needed, fault));
  }
  wqe.start(kind, wr.wr_id);
  wqe.signaled = wr.signaled;
  wqe.solicited = wr.solicited;
  wqe.fence = wr.fence;
  wqe.invalidate = wr.invalidate_rkey;
  wqe.remote_stag = wr.rkey;
  wqe.remote_to = wr.remote_addr;
  wqe.sink_stag = wr.sges.empty() ? 0 : wr.sges[0].lkey;
  wqe.sink_to = wr.sges.empty() ? 0 : wr.sges[0].addr;
  set_atomic(wqe, wr);
  if (state_ == RdmapState::rts) mark_dirty();
  return {};
}

Result<void> Qp::post_immediate(const parley::iwarp::ImmediateWr& wr) {
  if (auto posting = check_posting(); !posting) return posting;
  const Result<SendWqe*> place = push_send(Kind::immediate);
  if (!place) return tl::unexpected(place.error());
  SendWqe& wqe = **place;
  wqe.memory.count = wqe.memory.length = 0;
  wqe.start(Kind::immediate, wr.wr_id);
  wqe.signaled = wr.signaled;
  wqe.solicited = wr.solicited;
  wqe.fence = wr.fence;
  wqe.invalidate = 0;
  wqe.immediate = wr.data;
  if (state_ == RdmapState::rts) mark_dirty();
  return {};
}

Result<void> Qp::post_recv(const RecvWr& wr) {
  if (auto posting = check_posting(); !posting) return posting;
  if (receive_ended_) return fail(Errc::wrong_state, "the peer has closed its half and sends nothing any more");
  if (parts_.srq) return fail(Errc::invalid_argument, "the queue pair has QpInit::srq; post there");
  if (receives_.full())
    return fail(Errc::no_space, "QpInit::max_recv_wr is {a}, and as many requests are posted", parts_.max_recv_wr);
  receives_.make_room();
  if (!parts_.recv_cq->reserve()) return cq_is_full(*parts_.recv_cq);
  RecvWqe& wqe = receives_.push();
  wqe.wr_id = wr.wr_id;
  const Errc fault = resolve(parts_.tables->regions, parts_.pd, wr.sges, Access::local_write, wqe.memory);
  if (fault == Errc::ok) return {};
  receives_.unpush();
  parts_.recv_cq->release();
  return tl::unexpected(refusal(parts_.tables->regions, parts_.pd, wr.sges, Access::local_write, fault));
}

Result<void> Qp::attach(const AttachOptions& options) {
  if (state_ == RdmapState::error) return fail(Errc::wrong_state, "the queue pair is in ERR");
  if (state_ != RdmapState::idle) return fail(Errc::wrong_state, "the queue pair had a connection already");
  reset_ = false;
  had_connection_ = true;
  role_ = options.role;
  agreed_rtr_ = options.parameters.rtr;
  rtr_stag_zero_ = options.rtr_stag_zero;
  refuses_stag_zero_ = options.refuses_stag_zero;
  terminate_nibbles_swapped_ = options.terminate_nibbles_swapped;
  terminate_llp_etype_ = options.terminate_llp_etype;
  rtr_announced_ = options.parameters.announced;
  const mpa::Parameters& agreed = options.parameters;
  trace_ = options.trace;
  output_.start({.crc = agreed.crc, .markers = agreed.tx_markers, .emss = options.emss}, trace_);
  deframer_.emplace(mpa::FramerOptions{.crc = agreed.crc, .markers = agreed.rx_markers, .emss = options.emss});
  fenced_ = options.fenced;
  rtr_due_ = options.send_rtr == mpa::Rtr::frame ? mpa::Rtr::none : options.send_rtr;
  // RFC 6581 §9.2: a Read as RTR needs one slot on each side, whatever the depths say.
  ord_ = std::max<std::uint32_t>(agreed.ord, rtr_due_ == mpa::Rtr::read ? 1 : 0);
  ird_ = std::max<std::uint32_t>(agreed.ird, agreed.rtr == mpa::Rtr::read ? 1 : 0);
  replies_ = GrowRing<Reply>(ird_);
  tx_msn_send_ = tx_msn_read_ = tx_msn_atomic_ = options.first_msn;
  rx_msn_send_ = rx_msn_read_ = rx_msn_atomic_ = options.first_msn;
  enter(RdmapState::rts);
  if (agreed.ord == 0) {
    // Reads posted while idle can now never be sent; they fail in order instead of blocking later requests.
    for (std::uint64_t at = sends_.head(); at != sends_.tail(); ++at) {
      SendWqe& wqe = sends_[at];
      if (!wqe.fetches()) continue;
      wqe.framed = wqe.answered = true;
      wqe.status = WcStatus::loc_qp_op_err;
    }
    ord_ = rtr_due_ == mpa::Rtr::read ? 1 : 0;
    complete_sent();
  }
  if (has_transmit()) mark_dirty();
  return {};
}

void Qp::release_fence() {
  fenced_ = false;
  if (has_transmit()) mark_dirty();
}

void Qp::handle_end(bool reset) {
  if (state_ == RdmapState::error) return;
  if (state_ == RdmapState::idle) return to_error();
  if (state_ == RdmapState::terminate) {
    if (reset) to_error();
    return;
  }
  if (reset) return fail_stream(Errc::peer_reset, "", "RST");
  if (receive_ended_) return;
  receive_ended_ = true;
  sqd_ = false;  // our half ends once everything posted is sent
  // RFC 5044 §7.2: this half connection ends with its half of TCP; an incomplete message can never be delivered.
  if (incoming_.active || deframer_->carried() != 0)
    return fail_stream(Errc::peer_closed, "RFC 5044 §7.2", "FIN in the middle of a message");
  flush_receives();
  flush_fetches();
}

void Qp::begin_close() {
  if (state_ == RdmapState::idle) return to_error();
  if (state_ == RdmapState::rts) enter(RdmapState::closing);
  sqd_ = false;  // posted requests are still sent
}

bool Qp::drained() const {
  if (state_ == RdmapState::terminate) return output_.empty();
  if (!connected()) return true;
  return sends_.empty() && replies_.empty() && output_.empty() && rtr_due_ == mpa::Rtr::none;
}

void Qp::flush() {
  if (state_ != RdmapState::error) to_error();
}

void Qp::enter(RdmapState state) {
  if (state != state_) trace::record(trace_, trace::QpState{.from = to_string(state_), .to = to_string(state)});
  state_ = state;
}

void Qp::to_error() {
  enter(RdmapState::error);
  output_.clear();
  flush_all();
}

void Qp::fail_stream(Errc code, std::string_view rule, std::string received) {
  QpEvent event;
  event.kind = QpEvent::Kind::failed;
  event.failure.code = code;
  event.failure.rule = rule;
  event.failure.received = std::move(received);
  event.failure.offset = fed_;
  to_error();
  push_event(std::move(event));
}

void Qp::flush_all() {
  flush_sends();
  flush_receives();
  flush_replies();
}

void Qp::flush_sends() {
  for (; !sends_.empty(); sends_.pop()) {
    SendWqe& wqe = sends_.front();
    complete(wqe, wqe.status == WcStatus::success ? WcStatus::wr_flush_err : wqe.status);
  }
  next_work_ = next_fetch_ = sends_.tail();
  current_ = Source::none;
  rtr_due_ = mpa::Rtr::none;
  fetches_out_ = 0;
  rtr_read_out_ = false;
}

void Qp::flush_receives() {
  if (incoming_.active) complete_incoming(WcOpcode::recv, WcStatus::wr_flush_err);
  for (; !receives_.empty(); receives_.pop()) {
    unpin(parts_.tables->regions, receives_.front().memory);
    parts_.recv_cq->push(receives_.front().wr_id, parts_.qp_num, WcOpcode::recv, WcStatus::wr_flush_err);
  }
}

// No more responses can arrive: Reads and Atomics are flushed, in order with the sends around them.
void Qp::flush_fetches() {
  for (std::uint64_t at = sends_.head(); at != sends_.tail(); ++at) {
    SendWqe& wqe = sends_[at];
    if (!wqe.fetches() || wqe.answered) continue;
    wqe.framed = wqe.answered = true;
    wqe.status = WcStatus::wr_flush_err;
  }
  fetches_out_ = 0;
  rtr_read_out_ = false;
  if (current_ == Source::work && (next_work_ == sends_.tail() || sends_[next_work_].framed)) current_ = Source::none;
  complete_sent();
  if (has_transmit()) mark_dirty();
}

void Qp::flush_replies() {
  for (; !replies_.empty(); replies_.pop())
    if (replies_.front().pinned) parts_.tables->regions.unpin(replies_.front().slot);
  next_reply_ = replies_.tail();
}

// RFC 5040 §5.3: requests complete in the order in which they were posted; a send is complete once TCP has accepted its
// last octet.
void Qp::complete_sent() {
  const std::uint64_t sent = output_.sent_total();
  while (!sends_.empty()) {
    SendWqe& wqe = sends_.front();
    if (!wqe.framed || wqe.end > sent || (wqe.fetches() && !wqe.answered)) break;
    complete(wqe, wqe.status);
    sends_.pop();
  }
  next_work_ = std::max(next_work_, sends_.head());
}

void Qp::complete(SendWqe& wqe, WcStatus status) {
  unpin(parts_.tables->regions, wqe.memory);
  if (status == WcStatus::success && !wqe.signaled) return parts_.send_cq->release();
  WorkCompletion& completion = parts_.send_cq->push(wqe.wr_id, parts_.qp_num, completion_opcode(wqe.kind), status);
  if (status == WcStatus::success && wqe.fetches()) completion.byte_len = wqe.memory.length;
}

WorkCompletion& Qp::complete_incoming(WcOpcode opcode, WcStatus status, bool solicited) {
  const RecvWqe& wqe = incoming_wqe();
  unpin(parts_.tables->regions, wqe.memory);
  WorkCompletion& completion = parts_.recv_cq->push(wqe.wr_id, parts_.qp_num, opcode, status, solicited);
  if (!parts_.srq) receives_.pop();
  incoming_.active = false;
  return completion;
}

void Qp::push_event(QpEvent event) {
  if (event.kind == QpEvent::Kind::first_fpdu && events_.empty())
    first_fpdu_event_ = event.form;
  else
    events_.push_back(std::move(event));
  PARLEY_ASSERT(events_.size() <= 4);
  mark_dirty();
}

std::optional<QpEvent> Qp::poll_event() {
  if (first_fpdu_event_)
    return QpEvent{.kind = QpEvent::Kind::first_fpdu, .form = *std::exchange(first_fpdu_event_, std::nullopt)};
  if (events_.empty()) return std::nullopt;
  std::optional<QpEvent> event = std::move(events_.front());
  events_.erase(events_.begin());
  return event;
}

void Qp::mark_dirty() {
  if (dirty_) return;
  dirty_ = true;
  dirty_previous_ = parts_.dirty->last;
  dirty_next_ = nullptr;
  (parts_.dirty->last ? parts_.dirty->last->dirty_next_ : parts_.dirty->first) = this;
  parts_.dirty->last = this;
}

void Qp::unlink_dirty() {
  if (!dirty_) return;
  dirty_ = false;
  (dirty_previous_ ? dirty_previous_->dirty_next_ : parts_.dirty->first) = dirty_next_;
  (dirty_next_ ? dirty_next_->dirty_previous_ : parts_.dirty->last) = dirty_previous_;
}

Qp* pop_dirty(DirtyList& list) {
  Qp* qp = list.first;
  if (qp) qp->unlink_dirty();
  return qp;
}

}  // namespace parley::nic::iwarp
