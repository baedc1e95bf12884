// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The checks of a request, their order, and its execution: IBA §9.7.4.1, §9.8.2.
#include <algorithm>
#include <cstring>

#include "nic/roce/responder.hpp"

namespace parley::nic::roce {

using wire::ib::Nak;
using wire::ib::Operation;
using wire::ib::Packet;

namespace {

constexpr std::uint32_t held_max = 16;

Part part_of(Operation operation) {
  switch (operation) {
    case Operation::send_first:
    case Operation::write_first: return {.begins = true};
    case Operation::send_middle:
    case Operation::write_middle: return {};
    case Operation::send_last:
    case Operation::send_last_imm:
    case Operation::send_last_inv:
    case Operation::write_last:
    case Operation::write_last_imm: return {.ends = true};
    default: break;
  }
  return {.begins = true, .ends = true};
}

bool is_send(Operation operation) {
  return operation <= Operation::send_only_imm || operation == Operation::send_last_inv ||
         operation == Operation::send_only_inv;
}
bool has_inv(const Packet& packet) {
  const Operation operation = wire::ib::operation_of(packet.bth.opcode);
  return operation == Operation::send_last_inv || operation == Operation::send_only_inv;
}
bool is_write(Operation operation) {
  return operation >= Operation::write_first && operation <= Operation::write_only_imm;
}
bool has_imm(Operation operation) {
  return (wire::ib::rule_of(wire::ib::opcode_of(wire::ib::Service::rc, operation)).headers & PARLEY_IB_IMM) != 0;
}

// IBA §9.7.4.1: all packets of a message are full, except the last.
bool right_size(const Packet& packet, Part part, std::uint32_t mtu) {
  if (!part.ends) return packet.payload.size() == mtu && packet.bth.pad_count == 0;
  return packet.payload.size() <= mtu && (part.begins || !packet.payload.empty());
}

}  // namespace

// IBA §A14: an XRC request names a shared receive queue of the queue pair's domain; that queue's protection domain and
// completion queue are used.
bool Responder::find_receiver(const Packet& packet) {
  if (qp_.type != QpType::xrc_tgt) return true;
  const auto found = qp_.tables().xrc_srqs.find(packet.xrceth.srqn);
  if (found == qp_.tables().xrc_srqs.end() || &*found->second->xrc.domain != &*qp_.domain) return false;
  receiver_ = Receiver{.pd = found->second->pd, .srq = found->second, .cq = &*found->second->xrc.cq};
  return true;
}

bool Responder::fits_message(Operation operation) const {
  if (part_of(operation).begins) return arriving_.message == Message::none;
  if (arriving_.message != (is_send(operation) ? Message::send : Message::write)) return false;
  return qp_.type != QpType::xrc_tgt || &*arriving_.receiver.srq == &*receiver_.srq;
}

bool Responder::handle_request(const Packet& packet) {
  if (!find_receiver(packet)) {
    ++qp_.device().dropped_srqn;
    return true;
  }
  const Psn psn = nearest_psn(expected_, packet.bth.psn);
  if (!qp_.reliable()) {
    handle_unreliable(packet, psn);
    return true;
  }
  if (psn < expected_) {
    if (refuses_again(packet)) return refuse(Refusal::access, psn);
    handle_duplicate(packet, psn);
    return true;
  }
  if (replies_.full()) {
    ++qp_.device().dropped_busy;
    return true;
  }
  if (psn > expected_) {
    // IBA §9.7.5.2: one NAK until the expected packet arrives.
    ++qp_.device().dropped_sequence;
    if (nak_sent_) return true;
    nak_sent_ = true;
    ++qp_.counters.naks_sent;
    ++qp_.device().naks_sent;
    answer(PARLEY_IB_SYNDROME_NAK | static_cast<std::uint8_t>(Nak::psn_sequence_error), expected_);
    return true;
  }
  nak_sent_ = false;
  // IBA §9.5: requests are executed in their order, and a Read is executed when its answer is sent.
  if (has_inv(packet) && answers_read_of(packet.invalidate)) {
    ++qp_.device().dropped_busy;
    return true;
  }
  if (!fits_message(wire::ib::operation_of(packet.bth.opcode))) return refuse(Refusal::invalid, psn);
  const Refusal refusal = execute(packet);
  return refusal == Refusal::none || refuse(refusal, psn);
}

/// The rest of the answer is looked up under the key.
bool Responder::answers_read_of(std::uint32_t rkey) const {
  for (std::uint64_t at = replies_.head(); at != replies_.tail(); ++at)
    if (replies_[at].kind == Reply::Kind::read && replies_[at].rkey == rkey) return true;
  return false;
}

bool Responder::refuse(Refusal refusal, Psn psn) {
  if (refusal == Refusal::rnr) {
    // IBA §9.7.5.2.8: the packet is treated as not received.
    nak_sent_ = true;
    ++qp_.counters.rnr_sent;
    ++qp_.device().rnr_sent;
    answer(PARLEY_IB_SYNDROME_RNR_NAK | (qp_.attr.min_rnr_timer.value_or(0) & PARLEY_IB_SYNDROME_VALUE), psn);
    return true;
  }
  const Nak nak = refusal == Refusal::access ? Nak::remote_access_error : Nak::invalid_request;
  ++qp_.counters.naks_sent;
  ++qp_.device().naks_sent;
  answer(PARLEY_IB_SYNDROME_NAK | static_cast<std::uint8_t>(nak), psn);
  qp_.fails({.cause = QpFailure::Cause::sent_nak, .code = static_cast<std::uint8_t>(nak)});
  forget_message();
  if (!arriving_.taken) return false;
  complete(WcOpcode::recv, refusal == Refusal::access     ? WcStatus::rem_access_err
                           : refusal == Refusal::too_long ? WcStatus::loc_len_err
                                                          : WcStatus::rem_inv_req_err);
  return false;
}

// IBA §9.8.2: a packet that does not fit is dropped, with all following ones until the next message begins.
void Responder::handle_unreliable(const Packet& packet, Psn psn) {
  const Operation operation = wire::ib::operation_of(packet.bth.opcode);
  if (psn != expected_ || dropping_ || !fits_message(operation)) {
    forget_message();
    dropping_ = !part_of(operation).begins;
  }
  expected_ = psn;
  if (dropping_) {
    ++qp_.device().dropped_sequence;
    ++expected_;
    return;
  }
  const Refusal refusal = execute(packet);
  if (refusal == Refusal::none) return;
  ++(refusal == Refusal::rnr || refusal == Refusal::too_long ? qp_.device().dropped_receive
                                                             : qp_.device().dropped_request);
  forget_message();
  dropping_ = true;
  ++expected_;
}

Responder::Refusal Responder::execute(const Packet& packet) {
  const Operation operation = wire::ib::operation_of(packet.bth.opcode);
  if (is_send(operation)) return execute_send(packet);
  if (is_write(operation)) return execute_write(packet);
  return operation == Operation::read_request ? execute_read(packet) : execute_atomic(packet);
}

// The packet was executed. IBA §9.7.5.1.2: sends an ACK if one is requested.
void Responder::executed(bool ack_req, Part part) {
  if (part.ends) {
    forget_message();
    msn_ = (msn_ + 1) & psn_mask;
  }
  if (ack_req && qp_.reliable()) acknowledge(part.begins && part.ends);
  ++expected_;
}

// In messages of several packets, the sender may be waiting for room in its window.
void Responder::acknowledge(bool may_wait) {
  const std::uint32_t held = held_ + 1;
  const bool alone = replies_.empty() || holds_ack();
  answer(PARLEY_IB_SYNDROME_ACK | PARLEY_IB_CREDITS_NONE, expected_);
  if (may_wait && alone && replies_.size() == 1 && held < held_max && qp_.nic->options.ack_delay > Duration{})
    held_ = held;
}

Responder::Refusal Responder::execute_send(const Packet& packet) {
  const Part part = part_of(wire::ib::operation_of(packet.bth.opcode));
  if (part.begins && !consume_receive(receiver_)) return Refusal::rnr;
  const bool short_one = !part.ends && packet.payload.size() < qp_.mtu && packet.bth.pad_count == 0;
  if (!right_size(packet, part, qp_.mtu) && !(short_one && qp_.plays(wire::ib::Departure::takes_short_first)))
    return Refusal::invalid;
  const WrMemory& memory = receive().memory;
  if (packet.payload.size() > memory.length - arriving_.got) return Refusal::too_long;
  place(memory.view(), arriving_.got, packet.payload);
  arriving_.got += static_cast<std::uint32_t>(packet.payload.size());
  arriving_.message = Message::send;
  if (part.ends)
    if (const Refusal refusal = finish_send(packet); refusal != Refusal::none) return refusal;
  executed(packet.bth.ack_req, part);
  return Refusal::none;
}

Responder::Refusal Responder::finish_send(const Packet& packet) {
  const Operation operation = wire::ib::operation_of(packet.bth.opcode);
  const bool inv = has_inv(packet);
  // IBA §9.4.1.1: the key must be one that the peer may use here.
  if (inv && !qp_.tables().regions.invalidate_by_peer(packet.invalidate, receiver_.pd, qp_.number))
    return Refusal::access;
  const std::uint32_t length = arriving_.got;
  WorkCompletion& done = complete(WcOpcode::recv, WcStatus::success, packet.bth.solicited);
  done.byte_len = length;
  done.with_imm = has_imm(operation);
  done.imm_data = done.with_imm ? imm_of(packet) : 0;
  done.with_inv = inv;
  done.invalidated_rkey = inv ? packet.invalidate : 0;
  return Refusal::none;
}

Responder::Refusal Responder::execute_write(const Packet& packet) {
  const Operation operation = wire::ib::operation_of(packet.bth.opcode);
  const Part part = part_of(operation);
  if (!grants(Access::remote_write)) return Refusal::invalid;
  if (part.begins) {
    if (packet.reth.dma_length > message_max) return Refusal::invalid;  // IBA §9.4: a message has at most 2^31 octets
    arriving_.got = 0;
    arriving_.va = packet.reth.va;
    arriving_.rkey = packet.reth.r_key;
    arriving_.length = packet.reth.dma_length;
    if (!arriving_.taken) arriving_.receiver = receiver_;
  }
  const bool imm = has_imm(operation);
  if (imm && !consume_receive(receiver_)) return Refusal::rnr;
  const auto size = static_cast<std::uint32_t>(packet.payload.size());
  const std::uint32_t left = arriving_.length - arriving_.got;
  // IBA §9.7.4.1: the lengths of the packets add up to that of the RETH.
  if (!right_size(packet, part, qp_.mtu) || (part.ends ? size != left : size >= left)) return Refusal::invalid;
  // IBA §9.7.4.1: for a Write of no octets, neither the key nor the address is checked.
  const MrTable& regions = qp_.tables().regions;
  MrRange whole, range;
  if (part.begins && left > 0 &&
      regions.check_remote(arriving_.rkey, arriving_.va, left, receiver_.pd, qp_.number, Access::remote_write, whole) !=
          MrFault::none)
    return Refusal::access;
  if (size > 0 && regions.check_remote(arriving_.rkey, arriving_.va + arriving_.got, size, receiver_.pd, qp_.number,
                                       Access::remote_write, range) != MrFault::none)
    return Refusal::access;
  place({&range.memory, 1}, 0, packet.payload);
  arriving_.got += size;
  arriving_.message = Message::write;
  if (imm) {
    WorkCompletion& done = complete(WcOpcode::recv_rdma_with_imm, WcStatus::success, packet.bth.solicited);
    done.byte_len = arriving_.length;
    done.with_imm = true;
    done.imm_data = imm_of(packet);
  }
  executed(packet.bth.ack_req, part);
  return Refusal::none;
}

// IBA §9.7.4.1: the agreed number of requests may wait for their answers.
bool Responder::may_fetch() const { return fetches_waiting_ < qp_.attr.max_dest_rd_atomic.value_or(0); }

Responder::Refusal Responder::execute_read(const Packet& packet) {
  if (!grants(Access::remote_read) || !may_fetch()) return Refusal::invalid;
  const wire::ib::Reth& reth = packet.reth;
  // IBA §9.4: a message has at most 2^31 octets.
  if (reth.dma_length > message_max || !packet.payload.empty()) return Refusal::invalid;
  MrRange range;
  if (reth.dma_length > 0 && qp_.tables().regions.check_remote(reth.r_key, reth.va, reth.dma_length, receiver_.pd,
                                                               qp_.number, Access::remote_read, range) != MrFault::none)
    return Refusal::access;
  Fetch fetch{.first = expected_, .va = reth.va, .length = reth.dma_length, .rkey = reth.r_key, .pd = receiver_.pd};
  fetch.end = expected_ + packets_of(reth.dma_length, qp_.mtu);
  accept_fetch(fetch);
  return Refusal::none;
}

Responder::Refusal Responder::execute_atomic(const Packet& packet) {
  if (!grants(Access::remote_atomic) || !may_fetch()) return Refusal::invalid;
  const wire::ib::AtomicEth& request = packet.atomic;
  MrRange range;
  if (qp_.tables().regions.check_remote(request.r_key, request.va, sizeof(std::uint64_t), receiver_.pd, qp_.number,
                                        Access::remote_atomic, range) != MrFault::none)
    return Refusal::access;
  // IBA §9.4.5: 64 bits, aligned.
  if (request.va % sizeof(std::uint64_t) != 0 || !packet.payload.empty()) return Refusal::invalid;
  std::uint64_t original = 0;
  std::memcpy(&original, range.memory.data(), sizeof original);
  const bool add = wire::ib::operation_of(packet.bth.opcode) == Operation::fetch_add;
  const std::uint64_t swapped = original == request.compare ? request.swap_add : original;
  const std::uint64_t now = add ? original + request.swap_add : swapped;
  std::memcpy(range.memory.data(), &now, sizeof now);
  accept_fetch({.atomic = true, .first = expected_, .end = expected_ + 1, .original = original});
  return Refusal::none;
}

/// A departure: the key of a repeated Read is checked, although a Read of no octets needs none (IBA §9.7.4.1).
bool Responder::refuses_again(const Packet& packet) const {
  if (!qp_.plays(wire::ib::Departure::looks_read_up_again) || packet.reth.dma_length != 0 ||
      wire::ib::operation_of(packet.bth.opcode) != Operation::read_request)
    return false;
  MrRange range;
  return qp_.tables().regions.check_remote(packet.reth.r_key, packet.reth.va, 1, receiver_.pd, qp_.number,
                                           Access::remote_read, range) != MrFault::none;
}

// IBA §9.7.5: an executed Send or Write is acknowledged again; a Read is answered again, or a part of it; an Atomic is
// answered with its original result.
void Responder::handle_duplicate(const Packet& packet, Psn psn) {
  ++qp_.counters.duplicates;
  ++qp_.device().duplicates;
  if (replies_.full()) {
    ++qp_.device().dropped_busy;
    return;
  }
  const Operation operation = wire::ib::operation_of(packet.bth.opcode);
  if (is_send(operation) || is_write(operation))
    return answer(PARLEY_IB_SYNDROME_ACK | PARLEY_IB_CREDITS_NONE, expected_ - 1);
  for (std::uint64_t at = fetches_.head(); at != fetches_.tail(); ++at) {
    const Fetch& fetch = fetches_[at];
    if (psn < fetch.first || psn >= fetch.end || fetch.atomic != (operation != Operation::read_request)) continue;
    if (!fetch.atomic) return repeat_read(packet, psn, fetch);
    answer_fetch(fetch);
    replies_[replies_.tail() - 1].repeat = true;
    return;
  }
  ++qp_.device().dropped_duplicate;
}

// The answer at `at`, moved to the end if a later one has a PSN before `psn`: the requester went back further, and
// ignores answers ahead of that.
Responder::Reply& Responder::last_in_order(std::uint64_t at, Psn psn) {
  std::uint64_t behind = at + 1;
  while (behind != replies_.tail() && replies_[behind].psn >= psn) ++behind;
  if (behind == replies_.tail()) return replies_[at];
  const Reply moved = replies_[at];
  for (; at + 1 != replies_.tail(); ++at) replies_[at] = replies_[at + 1];
  return replies_[at] = moved;
}

void Responder::repeat_read(const Packet& packet, Psn psn, const Fetch& fetch) {
  const wire::ib::Reth& reth = packet.reth;
  const std::uint64_t offset = reth.va - fetch.va;
  if (reth.r_key != fetch.rkey || reth.va < fetch.va || offset + reth.dma_length > fetch.length ||
      psn + packets_of(reth.dma_length, qp_.mtu) > fetch.end) {
    ++qp_.device().dropped_duplicate;
    return;
  }
  Fetch part = fetch;
  part.first = psn;
  part.end = psn + packets_of(reth.dma_length, qp_.mtu);
  part.va = reth.va;
  part.length = reth.dma_length;
  for (std::uint64_t at = replies_.head(); at != replies_.tail(); ++at) {
    if (replies_[at].kind != Reply::Kind::read || replies_[at].end != fetch.end) continue;
    // Still being answered: it continues from the requested PSN.
    Reply& reply = last_in_order(at, part.first);
    reply.psn = part.first;
    reply.end = part.end;
    reply.va = part.va;
    reply.length = part.length;
    reply.begun = false;
    return;
  }
  answer_fetch(part);
  replies_[replies_.tail() - 1].repeat = true;
}

}  // namespace parley::nic::roce
