// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "nic/roce/requester.hpp"

#include <algorithm>
#include <utility>

namespace parley::nic::roce {

using wire::ib::Operation;
using wire::ib::Packet;
using Kind = SendWqe::Kind;

namespace {

WcOpcode completion_opcode(Kind kind) {
  switch (kind) {
    case Kind::send: return WcOpcode::send;
    case Kind::write: return WcOpcode::rdma_write;
    case Kind::read: return WcOpcode::rdma_read;
    case Kind::cmp_swap: return WcOpcode::comp_swap;
    case Kind::fetch_add: return WcOpcode::fetch_add;
    case Kind::bind: return WcOpcode::bind_mw;
    case Kind::local_inv: return WcOpcode::local_inv;
  }
  return WcOpcode::send;
}

}  // namespace

void Requester::start(std::uint32_t sq_psn) {
  una_ = next_ = sent_end_ = first_psn(sq_psn);
  at_ = sends_.head();
  at_packet_ = 0;
  fetches_out_ = since_ack_req_ = 0;
  keepalives_ = 0;
  went_back_ = false;
  ack_deadline_ = rnr_until_ = never;
  limits_changed();
}

void Requester::limits_changed() {
  retries_left_ = qp_.attr.retry_cnt.value_or(0);
  rnr_left_ = qp_.attr.rnr_retry.value_or(0);
}

Result<SendWqe*> Requester::push() {
  if (open() >= sends_.max())
    return parley::fail(Errc::no_space, "QpInit::max_send_wr is {a}, and as many requests are posted", qp_.max_send_wr);
  sends_.make_room();
  if (!qp_.send_cq->reserve())
    return parley::fail(Errc::no_space, "the completion queue holds {a}, all of them reserved or not yet polled",
                        static_cast<std::int64_t>(qp_.send_cq->done.max()));
  SendWqe& wqe = sends_.push();
  wqe.begun = wqe.keepalive = wqe.failed = false;
  wqe.arrived = 0;
  return &wqe;
}

void Requester::cancel() {
  sends_.unpush();
  qp_.send_cq->release();
}

void Requester::undo_push() {
  unpin(qp_.tables().regions, sends_[sends_.tail() - 1].memory);
  cancel();
}

void Requester::complete(SendWqe& wqe, WcStatus status) {
  if (wqe.keepalive) {
    --keepalives_;
    return;
  }
  unpin(qp_.tables().regions, wqe.memory);
  if (!wqe.signaled && status == WcStatus::success) return qp_.send_cq->release();
  WorkCompletion& done = qp_.send_cq->push(wqe.wr_id, qp_.number, completion_opcode(wqe.kind), status);
  done.completed_at = qp_.nic->now;
  if (status == WcStatus::success && wqe.fetches()) done.byte_len = wqe.memory.length;
}

// The oldest request fails: all earlier ones are complete. The caller moves the queue pair to ERR or SQE, which flushes
// the later ones.
bool Requester::fail(WcStatus status) {
  if (sends_.front().keepalive) {
    complete(sends_.front(), status);
    sends_.pop();
    retire_local();
  }
  if (sends_.empty()) return false;
  complete(sends_.front(), status);
  sends_.pop();
  return false;
}

bool Requester::fail(WcStatus status, const QpFailure& why) {
  qp_.fails(why);
  return fail(status);
}

void Requester::give_up() {
  if (!sends_.empty()) (void)fail(WcStatus::retry_exc_err);
}

bool Requester::uses(std::uint32_t slot) const {
  for (std::uint64_t at = sends_.head(); at != sends_.tail(); ++at)
    if (nic::uses(sends_[at].memory, slot)) return true;
  return false;
}

void Requester::flush() {
  for (; !sends_.empty(); sends_.pop()) complete(sends_.front(), WcStatus::wr_flush_err);
  at_ = sends_.tail();
  at_packet_ = 0;
  fetches_out_ = 0;
  una_ = sent_end_ = next_;
  ack_deadline_ = rnr_until_ = never;
}

void Requester::drop() {
  for (; !sends_.empty(); sends_.pop()) {
    if (sends_.front().keepalive) continue;
    unpin(qp_.tables().regions, sends_.front().memory);
    qp_.send_cq->release();
  }
  keepalives_ = 0;
  flush();
}

// IBA §9.7.1: fewer than half of all PSNs are outstanding; a much smaller window keeps queues short. A Read uses the
// PSNs of its whole response, however many, so only its first one must be inside.
bool Requester::may_begin(const SendWqe& wqe) const {
  if (qp_.state == QpState::sqd) return false;  // IBA §10.3.1: the current message is finished, and no other begins
  if (wqe.fence && fetches_out_ > 0) return false;
  return !wqe.fetches() || fetches_out_ < qp_.attr.max_rd_atomic.value_or(0);
}

bool Requester::fetch_waits() const {
  for (std::uint64_t at = at_; at != sends_.tail(); ++at)
    if (!sends_[at].begun && sends_[at].fetches()) return true;
  return false;
}

bool Requester::ready() const {
  if (at_ == sends_.tail() || rnr_until_ != never) return false;
  if (qp_.state != QpState::rts && qp_.state != QpState::sqd) return false;
  const SendWqe& wqe = sends_[at_];
  if (!wqe.begun && !may_begin(wqe)) return false;
  if (wqe.local()) return !wqe.failed || at_ == sends_.head();
  const Psn psn = wqe.begun ? wqe.first + at_packet_ : next_;
  return !qp_.reliable() || psn - una_ < qp_.nic->options.window;
}

void Requester::begin(SendWqe& wqe) {
  wqe.begun = true;
  wqe.first = next_;
  if (wqe.local()) {
    wqe.end = next_;
    return;
  }
  const bool atomic = wqe.fetches() && wqe.kind != Kind::read;
  next_ = wqe.end = next_ + (atomic ? 1 : packets_of(wqe.memory.length, qp_.mtu));
  if (wqe.fetches()) ++fetches_out_;
}

// The cursor moves to the next request that is not yet executed or has packets: a local one is executed once, even if
// the requester goes back to a request before it.
void Requester::step() {
  at_packet_ = 0;
  do {
    ++at_;
  } while (at_ != sends_.tail() && sends_[at_].local() && sends_[at_].begun);
}

// Executed requests complete in the order of the send queue, after those before them (IBA §10.8.3).
void Requester::retire_local() {
  for (; !sends_.empty() && sends_.front().local() && sends_.front().begun; sends_.pop())
    complete(sends_.front(), WcStatus::success);
}

bool Requester::perform(const SendWqe& wqe) {
  MrTable& regions = qp_.tables().regions;
  const auto done = wqe.kind == Kind::bind ? regions.bind(wqe.bind, qp_.pd, qp_.number)
                                           : regions.invalidate_window(wqe.invalidate, qp_.pd, qp_.number);
  return done.has_value();
}

bool Requester::execute_local() {
  while (at_ != sends_.tail() && sends_[at_].local() && ready()) {
    SendWqe& wqe = sends_[at_];
    wqe.failed = wqe.failed || !perform(wqe);
    if (wqe.failed) return at_ != sends_.head() || fail(WcStatus::mw_bind_err, {.cause = QpFailure::Cause::local});
    begin(wqe);
    step();
    retire_local();
  }
  return true;
}

PacketRun Requester::transmit(Instant now, std::size_t most, PacketTo& to, MutBytes out) {
  SendWqe& wqe = sends_[at_];
  const Path& path = this->path();
  // The port has lost the packet's source address. Reliable queue pairs detect it by their retries.
  if (!qp_.reliable() && !qp_.nic->can_send(path)) {
    (void)fail(WcStatus::loc_qp_op_err);
    return {};
  }
  if (!wqe.begun) begin(wqe);
  set_path(to, path);
  PacketRun run = write_middles(wqe, most, out);
  if (run.count == 0) run = {.size = write(wqe, out), .count = 1};
  to.size = run.size;
  sent(now, wqe,
       wqe.fetches() ? static_cast<std::uint32_t>(wqe.end - wqe.first) - at_packet_
                     : static_cast<std::uint32_t>(run.count));
  return run;
}

std::size_t Requester::write(SendWqe& wqe, MutBytes out) {
  const bool atomic = wqe.fetches() && wqe.kind != Kind::read;
  const std::uint32_t packets = static_cast<std::uint32_t>(wqe.end - wqe.first);
  const bool last = wqe.fetches() || at_packet_ + 1 == packets;
  const Psn psn = wqe.first + at_packet_;
  Packet& head = qp_.packet(operation(wqe, at_packet_ == 0, last), psn);
  const std::size_t offset = std::size_t{at_packet_} * qp_.mtu;
  fill(wqe, head);
  const std::size_t left = wqe.memory.length - (atomic ? 0 : offset);
  if (wqe.kind == Kind::read || (wqe.kind == Kind::write && at_packet_ == 0)) {
    head.reth.va = wqe.remote_addr + offset;
    head.reth.dma_length = static_cast<std::uint32_t>(left);
  }
  head.bth.ack_req = asks_for_ack(psn, last);
  if (qp_.plays(wire::ib::Departure::sets_reserved_bit)) head.bth.reserved6 = wire::ib::bth_bit_of_hns;
  if (last && wqe.solicited) head.bth.solicited = true;
  const std::size_t length = wqe.fetches() ? 0 : std::min<std::size_t>(left, qp_.mtu);
  return write_packet(head, wqe.memory.view(), offset, length, out);
}

// IBA §9.7.5.1.2: the last packet of a message asks for an ACK; so does every n-th, and one after which the window is
// closed.
bool Requester::asks_for_ack(Psn psn, bool last) {
  if (!qp_.reliable()) return false;
  const bool full = psn + 1 - una_ >= qp_.nic->options.window;
  const bool asks = last || full || ++since_ack_req_ >= qp_.nic->options.ack_every;
  if (asks) since_ack_req_ = 0;
  return asks;
}

void Requester::fill(const SendWqe& wqe, Packet& head) const {
  head.xrceth.srqn = wqe.srqn;
  if (qp_.type == QpType::ud) {
    head.bth.dest_qpn = wqe.qpn;
    // IBA §10.2: a Q_Key with the high bit selects the queue pair's own.
    head.deth.q_key = (wqe.q_key & 0x80000000) != 0 ? qp_.attr.qkey.value_or(0) : wqe.q_key;
    head.deth.source_qpn = qp_.number;
  }
  head.reth.r_key = wqe.rkey;
  head.atomic.va = wqe.remote_addr;
  head.atomic.r_key = wqe.rkey;
  head.atomic.swap_add = wqe.swap_add;
  head.atomic.compare = wqe.compare;
  head.imm = {static_cast<std::uint8_t>(wqe.imm >> 24), static_cast<std::uint8_t>(wqe.imm >> 16),
              static_cast<std::uint8_t>(wqe.imm >> 8), static_cast<std::uint8_t>(wqe.imm)};
  head.invalidate = wqe.invalidate;
}

Operation Requester::operation(const SendWqe& wqe, bool first, bool last) const {
  switch (wqe.kind) {
    case Kind::read: return Operation::read_request;
    case Kind::cmp_swap: return Operation::cmp_swap;
    case Kind::fetch_add: return Operation::fetch_add;
    case Kind::write:
      if (!last) return first ? Operation::write_first : Operation::write_middle;
      if (wqe.with_imm) return first ? Operation::write_only_imm : Operation::write_last_imm;
      return first ? Operation::write_only : Operation::write_last;
    case Kind::send:
    case Kind::bind:
    case Kind::local_inv: break;
  }
  if (!last) return first ? Operation::send_first : Operation::send_middle;
  if (wqe.with_imm) return first ? Operation::send_only_imm : Operation::send_last_imm;
  if (wqe.invalidate != 0) return first ? Operation::send_only_inv : Operation::send_last_inv;
  return first ? Operation::send_only : Operation::send_last;
}

// `packets`: the number of PSNs that the packet uses.
void Requester::sent(Instant now, SendWqe& wqe, std::uint32_t packets) {
  if (sent_end_ == una_) waits_since_ = now;
  sent_end_ = std::max(sent_end_, wqe.first + at_packet_ + packets);
  at_packet_ += packets;
  if (wqe.first + at_packet_ == wqe.end) {
    step();
    if (!qp_.reliable()) {
      // IBA §9.8.2, §9.8.3: there are no acknowledgments; a request is complete once it is sent.
      una_ = wqe.end;
      complete(wqe, WcStatus::success);
      sends_.pop();
    }
  }
  if (qp_.reliable() && ack_deadline_ == never) arm(now);
}

}  // namespace parley::nic::roce
