// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The receiving half of the queue pair. Every FPDU from MPA is checked here, first as a DDP segment (RFC 5041 §7.1),
// then as part of an RDMAP message (RFC 5040 §7). Untagged messages; for tagged ones see rx_tagged.cpp.
#include <fmt/format.h>

#include "nic/iwarp/fpdu_event.hpp"
#include "nic/iwarp/qp.hpp"

namespace parley::nic::iwarp {

void Qp::handle_bytes(ConstBytes in) {
  if (!connected() || receive_ended_ || in.empty()) return;
  fed_ += in.size();
  deframer_->feed(in);
  mpa::FpduView view;
  while (connected()) {
    const mpa::DeframeStatus status = deframer_->next(view);
    if (status == mpa::DeframeStatus::need_more) break;
    if (status != mpa::DeframeStatus::fpdu) return refuse_deframe(status);
    handle_fpdu(view);
  }
}

void Qp::handle_fpdu(const mpa::FpduView& view) {
  // The header is in one piece, unless a marker or the end of the input splits it.
  std::array<std::uint8_t, PARLEY_DDP_UNTAGGED_LEN> copy;
  ConstBytes head = view.pieces.empty() ? ConstBytes{} : view.pieces.front();
  const std::size_t wanted = std::min<std::size_t>(copy.size(), view.ulpdu_length);
  if (head.size() < wanted) head = ConstBytes(copy).first(Cursor(view.pieces).copy(MutBytes(copy).first(wanted)));
  const auto header = wire::DdpHeader::parse(head);
  if (!header) {
    // No layer has a code for a ULPDU shorter than its header; DDP cannot continue with this stream.
    refuse({PARLEY_RDMAP_LAYER_DDP, 0, 0}, nullptr, {}, "RFC 5041 §4",
           fmt::format("ULPDU_Length {}, shorter than a DDP header", view.ulpdu_length));
    return;
  }
  Segment segment{.header = *header,
                  .octets = head.first(header->size()),
                  .payload = Cursor(view.pieces),
                  .length = view.ulpdu_length - header->size(),
                  .ulpdu = view.ulpdu_length,
                  .position = view.position};
  segment.payload.skip(header->size());
  if (trace_ != nullptr) [[unlikely]]
    trace_->record(fpdu_event(false, *header, segment.length));
  if (!check_headers(segment)) return;
  const bool first = !first_seen_;
  first_seen_ = true;
  const mpa::Rtr form = first ? rtr_form(segment) : mpa::Rtr::none;
  // RFC 6581 §9.2: the agreed Send is consumed below the ULP: it uses an MSN, but no receive and no completion. The
  // same applies to a Send in place of an RTR of any form that S promised (the fence shows that none has arrived yet).
  const bool agreed_send = form == mpa::Rtr::send && (agreed_rtr_ == mpa::Rtr::send || (rtr_announced_ && fenced_));
  if (agreed_send) ++rx_msn_send_;
  if (!agreed_send && !handle_message(segment)) return;
  if (first) first_fpdu(form);
}

bool Qp::handle_message(Segment& segment) {
  const wire::RdmapOpcode opcode = segment.header.opcode;
  // RFC 5044 §7.2: a closing half that waits for nothing sends its outstanding answers. A peer that keeps sending
  // requests must not delay the FIN, which flushes its requests. While this side waits, both may be closing: then both
  // answer.
  const bool asks = opcode == wire::RdmapOpcode::read_request || opcode == wire::RdmapOpcode::atomic_request;
  if (asks && state_ == RdmapState::closing && !awaits_response()) return true;
  switch (opcode) {
    case wire::RdmapOpcode::rdma_write: return handle_write(segment);
    case wire::RdmapOpcode::read_request: return handle_read_request(segment);
    case wire::RdmapOpcode::read_response: return handle_read_response(segment);
    case wire::RdmapOpcode::send:
    case wire::RdmapOpcode::send_inv:
    case wire::RdmapOpcode::send_se:
    case wire::RdmapOpcode::send_se_inv: return handle_send(segment);
    case wire::RdmapOpcode::terminate: return handle_terminate(segment);
    case wire::RdmapOpcode::immediate:
    case wire::RdmapOpcode::immediate_se: return handle_immediate(segment);
    case wire::RdmapOpcode::atomic_request: return handle_atomic_request(segment);
    case wire::RdmapOpcode::atomic_response: return handle_atomic_response(segment);
  }
  return false;
}

// RFC 5041 §7.1 and RFC 5040 §7.2: checks that are independent of the message. The first error found decides the
// Terminate (RFC 5040 §7.1).
bool Qp::check_headers(const Segment& segment) {
  const wire::DdpHeader& h = segment.header;
  if (h.ddp_version != PARLEY_DDP_DV) {
    const TermCode code = h.tagged ? TermCode{1, 1, 0x04} : TermCode{1, 2, 0x06};
    return refuse(code, segment, "RFC 5041 §4.1", fmt::format("DDP version {}", h.ddp_version));
  }
  if (h.rdmap_version != PARLEY_RDMAP_RV >> 6)
    return refuse({0, 2, 0x05}, segment, "RFC 5040 §4.1", fmt::format("RDMAP version {}", h.rdmap_version));
  const wire::RdmapOpcodeRule rule = wire::rule_of(h.opcode);
  if (!rule.assigned)
    return refuse({0, 2, 0x06}, segment, "RFC 5040 §4.1", fmt::format("opcode {:X}", static_cast<unsigned>(h.opcode)));
  if (rule.tagged != h.tagged)
    return refuse({0, 2, 0x06}, segment, "RFC 5040 §4.1",
                  fmt::format("{} as {} message", to_string(h.opcode), h.tagged ? "a tagged" : "an untagged"));
  if (!h.tagged && h.qn != rule.qn)
    return refuse({1, 2, 0x01}, segment, "RFC 5040 §4.1", fmt::format("{} on queue {}", to_string(h.opcode), h.qn));
  return true;
}

// The forms of RFC 6581 §9.2: zero-length messages.
mpa::Rtr Qp::rtr_form(const Segment& segment) const {
  const wire::DdpHeader& h = segment.header;
  if (role_ != mpa::Role::responder || !h.last) return mpa::Rtr::none;
  if (h.opcode == wire::RdmapOpcode::rdma_write && segment.length == 0) return mpa::Rtr::write;
  if (h.opcode == wire::RdmapOpcode::send && segment.length == 0 && h.msn == rx_msn_send_ && h.mo == 0)
    return mpa::Rtr::send;
  if (h.opcode != wire::RdmapOpcode::read_request || segment.length != PARLEY_RDMAP_READ_REQUEST_LEN)
    return mpa::Rtr::none;
  std::array<std::uint8_t, PARLEY_RDMAP_READ_REQUEST_LEN> octets;
  Cursor payload = segment.payload;
  const auto request = wire::ReadRequest::parse(ConstBytes(octets).first(payload.copy(octets)));
  return request && request->size == 0 ? mpa::Rtr::read : mpa::Rtr::none;
}

void Qp::first_fpdu(mpa::Rtr form) {
  QpEvent event;
  event.kind = QpEvent::Kind::first_fpdu;
  event.form = form;
  push_event(std::move(event));
}

// RFC 5041 §5.3: sending the segments of a message in increasing MO order is only a SHOULD, so each segment is placed
// at its MO, in any order. The one with the L bit MUST come last and have the highest MO (§4.1): with it the message is
// complete, or never will be.
bool Qp::handle_send(Segment& segment) {
  const wire::DdpHeader& h = segment.header;
  if (!begin_or_go_on(segment) || !check_place(segment)) return false;
  std::size_t skip = h.mo, left = segment.length;
  for (const MutBytes piece : incoming_wqe().memory.view()) {
    if (skip >= piece.size()) {
      skip -= piece.size();
      continue;
    }
    if (left == 0) break;
    const std::size_t n = std::min(left, piece.size() - skip);
    segment.payload.copy(piece.subspan(skip, n));
    left -= n;
    skip = 0;
  }
  return !h.last || finish_incoming(segment);
}

bool Qp::begin_or_go_on(Segment& segment) {
  const wire::DdpHeader& h = segment.header;
  const bool invalidates = h.opcode == wire::RdmapOpcode::send_inv || h.opcode == wire::RdmapOpcode::send_se_inv;
  if (h.msn != rx_msn_send_)
    return refuse({1, 2, 0x03}, segment, "RFC 5041 §4.3", fmt::format("MSN {} for {}", h.msn, rx_msn_send_));
  if (!incoming_.active) {
    if (!consume_receive(segment)) return false;
    incoming_.opcode = h.opcode;
    incoming_.invalidate = invalidates ? h.stag : 0;
    incoming_.placed.start();
  } else if (h.opcode != incoming_.opcode || (invalidates && h.stag != incoming_.invalidate)) {
    // RFC 5041 §4.3: RsvdULP is the same in all segments of a message.
    return refuse({0, 2, 0x06}, segment, "RFC 5041 §4.3",
                  fmt::format("{} inside another message", to_string(h.opcode)));
  }
  return true;
}

// RFC 5041 §7.1: MO, and MO plus the payload, lie within the buffer. §5.2: no two segments share an octet.
bool Qp::check_place(Segment& segment) {
  const wire::DdpHeader& h = segment.header;
  const std::uint32_t room = incoming_wqe().memory.length;
  if (h.mo > room)
    return refuse({1, 2, 0x04}, segment, "RFC 5041 §7.1", fmt::format("MO {} in a receive of {}", h.mo, room));
  if (segment.length > room - h.mo)
    return refuse({1, 2, 0x05}, segment, "RFC 5041 §7.1",
                  fmt::format("at least {} octets for a receive of {}", h.mo + segment.length, room));
  switch (incoming_.placed.add(h.mo, static_cast<std::uint32_t>(segment.length))) {
    case Placed::Result::ok: break;
    case Placed::Result::again:
      return refuse({1, 2, 0x04}, segment, "RFC 5041 §5.2",
                    fmt::format("{} octets at MO {}, where some were placed before", segment.length, h.mo));
    case Placed::Result::full: return too_scattered(segment);
  }
  if (!h.last || incoming_.placed.exactly(h.mo + static_cast<std::uint32_t>(segment.length))) return true;
  return refuse(
      {1, 2, 0x04}, segment, "RFC 5041 §4.1",
      fmt::format("the last segment at MO {}; the message is whole up to {}", h.mo, incoming_.placed.without_hole()));
}

// A limit of this implementation, not an error of the peer.
bool Qp::too_scattered(Segment& segment) {
  return refuse({1, 0, 0x00}, segment, "RFC 5041 §7.2",
                fmt::format("more than {} runs of octets of one message", Placed::runs_max));
}

bool Qp::finish_incoming(Segment& segment) {
  if (incoming_.opcode == wire::RdmapOpcode::send_inv || incoming_.opcode == wire::RdmapOpcode::send_se_inv) {
    // RFC 5040 §7.2: forbidden invalidation is a protection error; siw reports remote operation with the same code.
    if (!parts_.tables->regions.invalidate_by_peer(incoming_.invalidate, parts_.pd))
      return refuse({0, 1, 0x09}, segment, "RFC 5040 §5.3",
                    fmt::format("STag 0x{:08x} to invalidate", incoming_.invalidate));
  }
  ++rx_msn_send_;
  const bool solicited =
      incoming_.opcode == wire::RdmapOpcode::send_se || incoming_.opcode == wire::RdmapOpcode::send_se_inv;
  WorkCompletion& completion = complete_incoming(WcOpcode::recv, WcStatus::success, solicited);
  completion.byte_len = incoming_.placed.without_hole();
  completion.with_inv = incoming_.invalidate != 0;
  completion.invalidated_rkey = incoming_.invalidate;
  return true;
}

// RFC 5041 §7.1: an untagged message needs a posted buffer. From an SRQ it also needs room for its completion.
bool Qp::consume_receive(Segment& segment) {
  if (parts_.srq ? parts_.srq->posted.empty() : receives_.empty())
    return refuse({1, 2, 0x02}, segment, "RFC 5041 §7.1", "a message without a posted receive");
  if (parts_.srq) {
    if (!parts_.recv_cq->reserve())
      return refuse({1, 2, 0x02}, segment, "RFC 5041 §7.1", "a message while the receive completion queue is full");
    if (!incoming_.shared) incoming_.shared = std::make_unique<RecvWqe>();
    *incoming_.shared = parts_.srq->posted.front();
    parts_.tables->pop_shared(*parts_.srq);
  }
  incoming_.active = true;
  return true;
}

// RFC 7306 §6: 8 octets that the ULP gets in the completion; the memory of the consumed receive stays unchanged.
bool Qp::handle_immediate(Segment& segment) {
  const wire::DdpHeader& h = segment.header;
  if (h.msn != rx_msn_send_)
    return refuse({1, 2, 0x03}, segment, "RFC 5041 §4.3", fmt::format("MSN {} for {}", h.msn, rx_msn_send_));
  if (incoming_.active) return refuse({0, 2, 0x06}, segment, "RFC 5041 §4.3", "Immediate Data inside another message");
  std::array<std::uint8_t, PARLEY_RDMAP_IMMEDIATE_LEN> octets;
  if (!whole_untagged(segment, octets) || !consume_receive(segment)) return false;
  ++rx_msn_send_;
  WorkCompletion& completion =
      complete_incoming(WcOpcode::iwarp_recv_immediate, WcStatus::success, h.opcode == wire::RdmapOpcode::immediate_se);
  completion.byte_len = PARLEY_RDMAP_IMMEDIATE_LEN;
  completion.transport_data = Reader(octets).be64();
  return true;
}

// Messages of a fixed size, always one segment: `out` has that size.
bool Qp::whole_untagged(Segment& segment, MutBytes out) {
  const wire::DdpHeader& h = segment.header;
  if (h.mo != 0) return refuse({1, 2, 0x04}, segment, "RFC 5041 §5.1", fmt::format("MO {} for 0", h.mo));
  if (!h.last || segment.length > out.size())
    return refuse({1, 2, 0x05}, segment, "RFC 5041 §7.1",
                  fmt::format("{} longer than {} octets", to_string(h.opcode), out.size()));
  // No code is assigned to a message that is too short; the stream is unusable after it.
  if (segment.length < out.size())
    return refuse({0, 2, 0x07}, segment, h.opcode < wire::RdmapOpcode::immediate ? "RFC 5040 §4" : "RFC 7306 §6.3",
                  fmt::format("{} of {} octets, not {}", to_string(h.opcode), segment.length, out.size()));
  segment.payload.copy(out);
  return true;
}

// RFC 5040 §5.2.1: a Data Source sizes queue 1 by its IRD. RFC 5041 §7.1 calls an MSN beyond the buffers of a queue out
// of range, so the code is 12 03, as Chelsio's hardware sends; no RFC names a code for this case.
bool Qp::ird_left(const Segment& segment) {
  const std::uint32_t msn = segment.header.msn;
  if (msn != rx_msn_read_)
    return refuse({1, 2, 0x03}, segment, "RFC 5041 §4.3", fmt::format("MSN {} for {}", msn, rx_msn_read_));
  if (replies_.full())
    return refuse({1, 2, 0x03}, segment, "RFC 5040 §5.2.1", fmt::format("more than {} Reads at once (IRD)", ird_));
  return true;
}

bool Qp::handle_read_request(Segment& segment) {
  std::array<std::uint8_t, PARLEY_RDMAP_READ_REQUEST_LEN> octets;
  if (!ird_left(segment) || !whole_untagged(segment, octets)) return false;
  const auto request = wire::ReadRequest::parse(octets);
  if (!request) return false;
  MrRange range;
  if (request->size > 0) {  // RFC 5040 §5.2: nothing is checked for a zero-length Read
    const MrFault fault =
        check_remote(request->source_stag, request->source_to, request->size, Access::remote_read, range);
    if (fault != MrFault::none)
      return refuse(protection_code(fault), &segment, octets, "RFC 5040 §7.2",
                    fmt::format("RDMA Read of {} octets at STag 0x{:08x} TO 0x{:x}", request->size,
                                request->source_stag, request->source_to),
                    Errc::protection);
    parts_.tables->regions.pin(range.slot);
  }
  Reply& reply = replies_.push() = Reply{};
  reply.pinned = request->size > 0;
  reply.source = range.memory;
  reply.slot = range.slot;
  reply.sink_stag = request->sink_stag;
  reply.sink_to = request->sink_to;
  ++rx_msn_read_;
  mark_dirty();
  return true;
}

// RFC 7306 §5: executed on arrival, so that it precedes the delivery of every later message; the response is queued
// with the Read Responses.
bool Qp::handle_atomic_request(Segment& segment) {
  std::array<std::uint8_t, PARLEY_RDMAP_ATOMIC_REQUEST_LEN> octets;
  if (!ird_left(segment) || !whole_untagged(segment, octets)) return false;
  const auto request = wire::AtomicRequest::parse(octets);
  if (!request) return false;
  const bool add = request->aop == PARLEY_RDMAP_ATOMIC_FETCH_ADD;
  if (!add && request->aop != PARLEY_RDMAP_ATOMIC_CMP_SWAP)
    return refuse({0, 2, 0x06}, segment, "RFC 7306 §5.2.1", fmt::format("Atomic operation {}", request->aop));
  if (request->to % 8 != 0)
    return refuse({0, 2, 0x07}, segment, "RFC 7306 §5.1", fmt::format("Atomic at TO 0x{:x}, not aligned", request->to));
  MrRange range;
  const MrFault fault = check_remote(request->stag, request->to, 8, Access::remote_atomic, range);
  if (fault != MrFault::none)
    return refuse(protection_code(fault), &segment, {}, "RFC 5040 §7.2",
                  fmt::format("Atomic at STag 0x{:08x} TO 0x{:x}", request->stag, request->to), Errc::protection);
  std::uint64_t value = 0;  // in host byte order in memory, as for the program that shares it
  std::memcpy(&value, range.memory.data(), sizeof value);
  Reply& reply = replies_.push() = Reply{};
  reply.atomic = true;
  reply.request_id = request->request_id;
  reply.original = value;
  value = add ? masked_add(value, request->add_swap, request->add_swap_mask)
              : masked_swap(value, request->compare, request->compare_mask, request->add_swap, request->add_swap_mask);
  std::memcpy(range.memory.data(), &value, sizeof value);
  ++rx_msn_read_;
  mark_dirty();
  return true;
}

// Our oldest Read or Atomic that was sent and has no response yet; responses arrive in that order (RFC 5040 §5.5).
SendWqe* Qp::oldest_fetch() {
  next_fetch_ = std::max(next_fetch_, sends_.head());
  for (; next_fetch_ != sends_.tail(); ++next_fetch_) {
    SendWqe& wqe = sends_[next_fetch_];
    if (!wqe.framed) return nullptr;
    if (wqe.fetches() && !wqe.answered) return &wqe;
  }
  return nullptr;
}

bool Qp::awaits_response() const {
  for (std::uint64_t at = sends_.head(); at != sends_.tail(); ++at)
    if (sends_[at].fetches() && !sends_[at].answered) return true;
  return rtr_read_out_;
}

void Qp::fetch_answered(SendWqe& wqe) {
  wqe.answered = true;
  --fetches_out_;
  complete_sent();
  if (has_transmit()) mark_dirty();
}

bool Qp::handle_atomic_response(Segment& segment) {
  std::array<std::uint8_t, PARLEY_RDMAP_ATOMIC_RESPONSE_LEN> octets;
  const std::uint32_t msn = segment.header.msn;
  if (msn != rx_msn_atomic_)
    return refuse({1, 2, 0x03}, segment, "RFC 5041 §4.3", fmt::format("MSN {} for {}", msn, rx_msn_atomic_));
  if (!whole_untagged(segment, octets)) return false;
  const auto response = wire::AtomicResponse::parse(octets);
  if (!response) return false;
  SendWqe* wqe = rtr_read_out_ ? nullptr : oldest_fetch();
  if (!wqe || wqe->kind == SendWqe::Kind::read)
    return refuse({0, 2, 0x06}, segment, "RFC 7306 §5.2", "an Atomic Response that nothing asked for");
  if (response->request_id != wqe->request_id) {
    wqe->status = WcStatus::bad_resp_err;
    return refuse({0, 2, 0x07}, segment, "RFC 7306 §5.2",
                  fmt::format("Atomic Response to request {}, not {}", response->request_id, wqe->request_id));
  }
  std::memcpy(wqe->memory.pieces[0].data(), &response->original, sizeof response->original);
  ++rx_msn_atomic_;
  fetch_answered(*wqe);
  return true;
}

}  // namespace parley::nic::iwarp
