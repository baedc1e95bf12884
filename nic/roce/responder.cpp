// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "nic/roce/responder.hpp"

#include <algorithm>

#include "wire/ib/roce.hpp"

namespace parley::nic::roce {

using wire::ib::Nak;
using wire::ib::Operation;
using wire::ib::Packet;

Responder::Responder(QpContext& qp) : qp_(qp), receives_(qp.max_recv_wr), replies_(0), fetches_(0) {
  if (qp.type == QpType::xrc_tgt) return;
  receiver_.pd = qp.pd;
  receiver_.srq = qp.srq;
  receiver_.cq = qp.recv_cq ? &*qp.recv_cq : nullptr;
}

void Responder::start(std::uint32_t rq_psn) {
  expected_ = first_psn(rq_psn);
  msn_ = 0;
  nak_sent_ = dropping_ = false;
  drop_replies();
  while (!fetches_.empty()) fetches_.pop();
  depth_changed();
}

void Responder::depth_changed() {
  const std::size_t depth = qp_.attr.max_dest_rd_atomic.value_or(0);
  // ACKs that are not merged need additional room: as many as rxe may have unacknowledged packets.
  const std::size_t acks = qp_.plays(wire::ib::Departure::acks_one_by_one) ? 128 : 0;
  replies_.set_max(2 * depth + 4 + acks);
  fetches_.set_max(depth);
  while (fetches_.size() > depth) fetches_.pop();
}

Result<void> Responder::post(const RecvWr& wr) {
  if (receives_.full())
    return fail(Errc::no_space, "QpInit::max_recv_wr is {a}, and as many requests are posted", qp_.max_recv_wr);
  receives_.make_room();
  if (!qp_.recv_cq->reserve())
    return fail(Errc::no_space, "the completion queue holds {a}, all of them reserved or not yet polled",
                static_cast<std::int64_t>(qp_.recv_cq->done.max()));
  RecvWqe& wqe = receives_.push();
  wqe.wr_id = wr.wr_id;
  MrTable& regions = qp_.tables().regions;
  const Errc fault = resolve(regions, qp_.pd, wr.sges, Access::local_write, wqe.memory);
  if (fault == Errc::ok) return {};
  receives_.unpush();
  qp_.recv_cq->release();
  return tl::unexpected(refusal(regions, qp_.pd, wr.sges, Access::local_write, fault));
}

// A receive for the current message, which keeps it until it is complete. The receive of a lost UC message is reused
// for the next one.
bool Responder::consume_receive(Receiver& from) {
  if (arriving_.taken) return true;
  if (from.srq) {
    if (from.srq->posted.empty() || !from.cq->reserve()) return false;
    arriving_.shared = from.srq->posted.front();
    qp_.tables().pop_shared(*from.srq);
  } else if (receives_.empty()) {
    return false;
  }
  arriving_.receiver = from;
  return arriving_.taken = true;
}

WorkCompletion& Responder::complete(WcOpcode opcode, WcStatus status, bool solicited) {
  RecvWqe& wqe = receive();
  unpin(qp_.tables().regions, wqe.memory);
  WorkCompletion& done = arriving_.receiver.cq->push(wqe.wr_id, qp_.number, opcode, status, solicited);
  done.completed_at = qp_.nic->now;
  if (!arriving_.receiver.srq) receives_.pop();
  arriving_.taken = false;
  return done;
}

void Responder::forget_message() {
  arriving_.message = Message::none;
  arriving_.got = 0;
}

void Responder::flush() {
  release_ack();
  forget_message();
  if (arriving_.taken) complete(WcOpcode::recv, WcStatus::wr_flush_err);
  for (; !receives_.empty(); receives_.pop()) {
    unpin(qp_.tables().regions, receives_.front().memory);
    qp_.recv_cq->push(receives_.front().wr_id, qp_.number, WcOpcode::recv, WcStatus::wr_flush_err).completed_at =
        qp_.nic->now;
  }
}

void Responder::drop() {
  forget_message();
  if (arriving_.taken && arriving_.receiver.srq) {
    unpin(qp_.tables().regions, arriving_.shared.memory);
    arriving_.receiver.cq->release();
  }
  arriving_.taken = false;
  for (; !receives_.empty(); receives_.pop()) {
    unpin(qp_.tables().regions, receives_.front().memory);
    qp_.recv_cq->release();
  }
  drop_replies();
}

void Responder::drop_replies() {
  while (!replies_.empty()) replies_.pop();
  release_ack();
  fetches_waiting_ = 0;
}

// Consecutive waiting ACKs are merged (IBA §9.7.5.1.2): the last one implies the earlier ones.
void Responder::answer(std::uint8_t syndrome, Psn psn) {
  release_ack();
  constexpr std::uint8_t ack = PARLEY_IB_SYNDROME_ACK | PARLEY_IB_CREDITS_NONE;
  const bool merges = syndrome == ack && !qp_.plays(wire::ib::Departure::acks_one_by_one) && !replies_.empty() &&
                      replies_[replies_.tail() - 1].syndrome == ack &&
                      replies_[replies_.tail() - 1].kind == Reply::Kind::acknowledge;
  Reply& reply = merges ? replies_[replies_.tail() - 1] : replies_.push();
  reply = Reply{.syndrome = syndrome, .msn = msn_, .psn = psn};
}

// Drops the oldest if necessary.
void Responder::accept_fetch(const Fetch& fetch) {
  msn_ = (msn_ + 1) & psn_mask;
  if (fetches_.full() && !fetches_.empty()) fetches_.pop();
  fetches_.push() = fetch;
  ++fetches_waiting_;
  answer_fetch(fetch);
  expected_ = fetch.end;
}

void Responder::answer_fetch(const Fetch& fetch) {
  release_ack();
  Reply& reply = replies_.push();
  reply = Reply{.kind = fetch.atomic ? Reply::Kind::atomic : Reply::Kind::read,
                .msn = msn_,
                .psn = fetch.first,
                .end = fetch.end,
                .original = fetch.original,
                .va = fetch.va,
                .length = fetch.length,
                .rkey = fetch.rkey,
                .pd = fetch.pd};
}

Responder::Sent Responder::transmit(std::size_t most, PacketTo& to, MutBytes out, PacketRun& run) {
  Reply& reply = replies_.front();
  set_path(to, qp_.path);
  if (reply.kind == Reply::Kind::read) {
    const Sent sent = send_read(reply, most, out, run);
    to.size = run.size;
    return sent;
  }
  const bool atomic = reply.kind == Reply::Kind::atomic;
  Packet& head = qp_.packet(atomic ? Operation::atomic_acknowledge : Operation::acknowledge, reply.psn);
  head.aeth.syndrome = atomic ? PARLEY_IB_SYNDROME_ACK | PARLEY_IB_CREDITS_NONE : reply.syndrome;
  head.aeth.msn = reply.msn;
  head.atomic_original = reply.original;
  to.size = write_packet(head, {}, 0, 0, out);
  run = {.size = to.size, .count = 1};
  if (atomic && !reply.repeat) --fetches_waiting_;
  replies_.pop();
  return Sent::packet;
}

// The region is gone. The answer to a new request ends with a NAK. The answer to a repeated request is dropped, because
// it adds nothing, and later requests are still answered.
Responder::Sent Responder::refuse_read(const Reply& reply) {
  if (reply.repeat) {
    ++qp_.device().dropped_duplicate;
    replies_.pop();
    return Sent::nothing;
  }
  const Psn psn = reply.psn;
  drop_replies();
  ++qp_.counters.naks_sent;
  ++qp_.device().naks_sent;
  answer(PARLEY_IB_SYNDROME_NAK | static_cast<std::uint8_t>(Nak::remote_access_error), psn);
  qp_.fails({.cause = QpFailure::Cause::sent_nak, .code = static_cast<std::uint8_t>(Nak::remote_access_error)});
  return Sent::failed;
}

// IBA §9.7.5. The region is looked up each time, because it may be gone.
Responder::Sent Responder::send_read(Reply& reply, std::size_t most, MutBytes out, PacketRun& run) {
  run = write_middles(reply, most, out);
  if (run.count > 0) return Sent::packet;
  const std::uint32_t length = std::min(reply.length, qp_.mtu);
  MrRange range;
  if (length > 0 && qp_.tables().regions.check_remote(reply.rkey, reply.va, length, reply.pd, qp_.number,
                                                      Access::remote_read, range) != MrFault::none)
    return refuse_read(reply);
  const bool last = length == reply.length;
  const Operation operation = reply.begun ? last ? Operation::read_response_last : Operation::read_response_middle
                              : last      ? Operation::read_response_only
                                          : Operation::read_response_first;
  Packet& head = qp_.packet(operation, reply.psn);
  head.aeth.syndrome = PARLEY_IB_SYNDROME_ACK | PARLEY_IB_CREDITS_NONE;
  head.aeth.msn = reply.msn;
  run = {.size = write_packet(head, {&range.memory, 1}, 0, length, out), .count = 1};
  reply.begun = true;
  ++reply.psn;
  reply.va += length;
  reply.length -= length;
  if (last) {
    if (!reply.repeat) --fetches_waiting_;
    replies_.pop();
  }
  return Sent::packet;
}

// IBA §9.8.3: a datagram that cannot be received is dropped, and the receive stays. The network header, or its
// replacement, is in the first 40 octets (IBA §11.4); an IPv4 header is in their second half (IBA §A17).
void Responder::handle_datagram(const PacketFrom& from, const Packet& packet) {
  std::array<std::uint8_t, PARLEY_ROCE_GRH_LEN> network{};
  const std::size_t length = network.size() + packet.payload.size();
  const GrowRing<RecvWqe>& posted = receiver_.srq ? receiver_.srq->posted : receives_;
  if (posted.empty() || posted.front().memory.length < length || !consume_receive(receiver_)) {
    ++qp_.device().dropped_receive;
    return;
  }
  if (from.network.size() == 20 || from.network.size() == network.size()) {
    std::copy(from.network.begin(), from.network.end(), network.end() - std::ssize(from.network));
  } else {
    const wire::ib::RoceHeader header{.source = from.source,
                                      .destination = from.destination,
                                      .traffic_class = from.traffic_class,
                                      .hop_limit = from.hop_limit,
                                      .flow_label = from.flow_label};
    std::array<std::uint8_t, PARLEY_ROCE_GRH_LEN + 8> made;
    header.emit(made, packet.size());
    const std::size_t size = header.size() - 8;
    std::copy_n(made.begin(), size, network.end() - static_cast<std::ptrdiff_t>(size));
  }
  const auto memory = receive().memory.view();
  place(memory, 0, network);
  place(memory, network.size(), packet.payload);
  WorkCompletion& done = complete(WcOpcode::recv, WcStatus::success, packet.bth.solicited);
  done.byte_len = static_cast<std::uint32_t>(length);
  done.src_qp = packet.deth.source_qpn;
  done.with_grh = true;
  done.over_ipv4 = from.network.size() == 20 || (from.network.empty() && is_v4_gid(from.destination));
  done.with_imm = wire::ib::operation_of(packet.bth.opcode) == Operation::send_only_imm;
  done.imm_data = done.with_imm ? imm_of(packet) : 0;
}

}  // namespace parley::nic::roce
