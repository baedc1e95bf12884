// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The sending half of the queue pair: which message is next, and its segments. RFC 5041 §5.2, RFC 5040 §5.
//
// The segments of one message stay together. RFC 5041 would allow interleaved tagged messages, but receivers with one
// reassembly state per kind (Linux siw) treat that as an error. Our own work and responses alternate by message.
#include "base/bytes_io.hpp"
#include "nic/iwarp/qp.hpp"

namespace parley::nic::iwarp {
namespace {

constexpr std::size_t untagged_len = PARLEY_DDP_UNTAGGED_LEN, tagged_len = PARLEY_DDP_TAGGED_LEN;

/// The pieces of [offset, offset + length) of the memory.
std::size_t slice(std::span<const MutBytes> memory, std::size_t offset, std::size_t length,
                  std::array<ConstBytes, sge_max>& out) {
  std::size_t n = 0;
  for (const MutBytes piece : memory) {
    if (offset >= piece.size()) {
      offset -= piece.size();
      continue;
    }
    const std::size_t take = std::min(length, piece.size() - offset);
    if (take == 0) break;
    out[n++] = piece.subspan(offset, take);
    length -= take;
    offset = 0;
  }
  return n;
}

wire::DdpHeader untagged(wire::RdmapOpcode opcode, std::uint32_t qn, std::uint32_t msn) {
  wire::DdpHeader header;
  header.opcode = opcode;
  header.qn = qn;
  header.msn = msn;
  return header;
}

wire::RdmapOpcode send_opcode(const SendWqe& wqe) {
  if (wqe.invalidate != 0) return wqe.solicited ? wire::RdmapOpcode::send_se_inv : wire::RdmapOpcode::send_inv;
  return wqe.solicited ? wire::RdmapOpcode::send_se : wire::RdmapOpcode::send;
}

}  // namespace

std::size_t Qp::gather(std::span<ConstBytes> out) {
  if (fenced_ || out.empty()) return 0;  // RFC 5044 §7.1.2 rule 4
  if (connected())
    while (output_.pieces() < out.size() && output_.octets() < Output::ahead_max && frame_next()) {
    }
  return output_.gather(out);
}

void Qp::sent(std::size_t n) {
  output_.sent(n);
  complete_sent();
  const std::uint64_t sent = output_.sent_total();
  for (; !replies_.empty() && replies_.front().framed && replies_.front().end <= sent; replies_.pop())
    if (replies_.front().pinned) parts_.tables->regions.unpin(replies_.front().slot);
}

bool Qp::has_transmit() const {
  if (fenced_) return false;
  if (!output_.empty()) return true;
  return connected() && (current_ != Source::none || choose() != Source::none);
}

bool Qp::work_ready() const {
  if (sqd_) return false;  // IBA 1.x §10.3.1: in SQD the current message is finished, and no other begins
  std::uint64_t at = next_work_;
  while (at != sends_.tail() && sends_[at].framed) ++at;
  if (at == sends_.tail()) return false;
  const SendWqe& wqe = sends_[at];
  // RFC 5040 §5.2: the fence holds a request until all earlier Reads and Atomics are complete; ORD limits those.
  if (wqe.fence && fetches_out_ > 0) return false;
  return !wqe.fetches() || fetches_out_ < ord_;
}

Qp::Source Qp::choose() const {
  if (rtr_due_ != mpa::Rtr::none) return Source::rtr;
  const bool work = work_ready(), reply = next_reply_ != replies_.tail();
  if (work && reply) return work_had_turn_ ? Source::reply : Source::work;
  return work ? Source::work : reply ? Source::reply : Source::none;
}

bool Qp::frame_next() {
  if (current_ == Source::none) current_ = choose();
  switch (current_) {
    case Source::rtr: return frame_rtr();
    case Source::work: return frame_work();
    case Source::reply: return frame_reply();
    case Source::none: break;
  }
  return false;
}

// RFC 6581 §9.2: the ready-to-receive indication is the first FPDU, zero octets long. STag 1 where a form has one,
// because some hardware refuses tagged STag 0 even then.
bool Qp::frame_rtr() {
  std::array<std::uint8_t, untagged_len + PARLEY_RDMAP_READ_REQUEST_LEN> octets{};
  std::size_t size = 0;
  const std::uint32_t stag = rtr_stag_zero_ ? 0 : 1;
  wire::DdpHeader header;
  if (rtr_due_ == mpa::Rtr::send) {
    size = untagged(wire::RdmapOpcode::send, PARLEY_DDP_QN_SEND, tx_msn_send_).emit(octets);
  } else if (rtr_due_ == mpa::Rtr::write) {
    header.tagged = true;
    header.opcode = wire::RdmapOpcode::rdma_write;
    header.stag = stag;
    size = header.emit(octets);
  } else {
    header = untagged(wire::RdmapOpcode::read_request, PARLEY_DDP_QN_READ, tx_msn_read_);
    size = header.emit(octets) + PARLEY_RDMAP_READ_REQUEST_LEN;
    wire::ReadRequest request;
    request.source_stag = stag;
    request.emit(MutBytes(octets).subspan(untagged_len));
  }
  if (!output_.add(ConstBytes(octets).first(size), {}, 0)) return false;
  if (rtr_due_ == mpa::Rtr::send) ++tx_msn_send_;
  if (rtr_due_ == mpa::Rtr::read) {
    ++tx_msn_read_;
    ++fetches_out_;
    rtr_read_out_ = true;
  }
  rtr_due_ = mpa::Rtr::none;
  current_ = Source::none;
  return true;
}

bool Qp::frame_work() {
  while (sends_[next_work_].framed) ++next_work_;  // flushed, in order
  SendWqe& wqe = sends_[next_work_];
  switch (wqe.kind) {
    case SendWqe::Kind::send:
    case SendWqe::Kind::immediate: return frame_send_like(wqe);
    case SendWqe::Kind::write: return frame_write(wqe);
    case SendWqe::Kind::read:
    case SendWqe::Kind::fetch_add:
    case SendWqe::Kind::cmp_swap: return frame_fetch(wqe);
  }
  return false;
}

void Qp::work_framed(SendWqe& wqe) {
  wqe.framed = true;
  wqe.end = output_.framed_total();
  ++next_work_;
  current_ = Source::none;
  work_had_turn_ = true;
}

bool Qp::frame_send_like(SendWqe& wqe) {
  std::array<std::uint8_t, untagged_len + PARLEY_RDMAP_IMMEDIATE_LEN> octets;
  wire::DdpHeader header = untagged(send_opcode(wqe), PARLEY_DDP_QN_SEND, tx_msn_send_);
  if (wqe.kind == SendWqe::Kind::immediate) {
    // RFC 7306 §6.1: 8 octets, always one segment.
    header.opcode = wqe.solicited ? wire::RdmapOpcode::immediate_se : wire::RdmapOpcode::immediate;
    header.emit(octets);
    Writer writer(MutBytes(octets).subspan(untagged_len));
    writer.be64(wqe.immediate);
    if (!output_.add(octets, {}, 0)) return false;
    ++tx_msn_send_;
    work_framed(wqe);
    return true;
  }
  const std::size_t left = wqe.memory.length - wqe.offset;
  const std::size_t length = std::min(left, output_.mulpdu() - untagged_len);
  std::array<ConstBytes, sge_max> payload;
  const std::size_t pieces = slice(wqe.memory.view(), wqe.offset, length, payload);
  header.stag = wqe.invalidate;  // RFC 5040 §4.1, §4.7: every segment carries the STag to invalidate
  header.mo = wqe.offset;
  header.last = length == left;
  header.emit(octets);
  if (!output_.add(ConstBytes(octets).first(untagged_len), std::span(payload).first(pieces), length)) return false;
  wqe.offset += static_cast<std::uint32_t>(length);
  if (!header.last) return true;
  ++tx_msn_send_;
  work_framed(wqe);
  return true;
}

bool Qp::frame_write(SendWqe& wqe) {
  std::array<std::uint8_t, tagged_len> octets;
  const std::size_t left = wqe.memory.length - wqe.offset;
  const std::size_t length = std::min(left, output_.mulpdu() - tagged_len);
  std::array<ConstBytes, sge_max> payload;
  const std::size_t pieces = slice(wqe.memory.view(), wqe.offset, length, payload);
  wire::DdpHeader header;
  header.tagged = true;
  header.last = length == left;
  header.opcode = wire::RdmapOpcode::rdma_write;
  header.stag = wqe.remote_stag;
  header.to = wqe.remote_to + wqe.offset;
  header.emit(octets);
  if (!output_.add(octets, std::span(payload).first(pieces), length)) return false;
  wqe.offset += static_cast<std::uint32_t>(length);
  if (header.last) work_framed(wqe);
  return true;
}

bool Qp::frame_fetch(SendWqe& wqe) {
  std::array<std::uint8_t, untagged_len + PARLEY_RDMAP_ATOMIC_REQUEST_LEN> octets;
  const bool read = wqe.kind == SendWqe::Kind::read;
  const auto opcode = read ? wire::RdmapOpcode::read_request : wire::RdmapOpcode::atomic_request;
  untagged(opcode, PARLEY_DDP_QN_READ, tx_msn_read_).emit(octets);
  const MutBytes body = MutBytes(octets).subspan(untagged_len);
  if (read) {
    wire::ReadRequest{.sink_stag = wqe.sink_stag,
                      .sink_to = wqe.sink_to,
                      .size = wqe.memory.length,
                      .source_stag = wqe.remote_stag,
                      .source_to = wqe.remote_to}
        .emit(body);
  } else {
    wire::AtomicRequest request;
    request.aop = wqe.kind == SendWqe::Kind::fetch_add ? PARLEY_RDMAP_ATOMIC_FETCH_ADD : PARLEY_RDMAP_ATOMIC_CMP_SWAP;
    request.request_id = next_request_id_;
    request.stag = wqe.remote_stag;
    request.to = wqe.remote_to;
    request.add_swap = wqe.swap_add;
    request.add_swap_mask = wqe.swap_add_mask;
    request.compare = wqe.compare;
    request.compare_mask = wqe.compare_mask;
    request.emit(body);
  }
  const std::size_t size = untagged_len + (read ? PARLEY_RDMAP_READ_REQUEST_LEN : PARLEY_RDMAP_ATOMIC_REQUEST_LEN);
  if (!output_.add(ConstBytes(octets).first(size), {}, 0)) return false;
  wqe.request_id = read ? 0 : next_request_id_++;
  wqe.msn = tx_msn_read_++;
  ++fetches_out_;
  work_framed(wqe);
  return true;
}

bool Qp::frame_reply() {
  Reply& reply = replies_[next_reply_];
  bool last = true;
  if (reply.atomic) {
    std::array<std::uint8_t, untagged_len + PARLEY_RDMAP_ATOMIC_RESPONSE_LEN> octets;
    untagged(wire::RdmapOpcode::atomic_response, PARLEY_DDP_QN_ATOMIC_RESPONSE, tx_msn_atomic_).emit(octets);
    wire::AtomicResponse{.request_id = reply.request_id, .original = reply.original}.emit(
        MutBytes(octets).subspan(untagged_len));
    if (!output_.add(octets, {}, 0)) return false;
    ++tx_msn_atomic_;
  } else {
    std::array<std::uint8_t, tagged_len> octets;
    const std::size_t left = reply.source.size() - reply.offset;
    const std::size_t length = std::min(left, output_.mulpdu() - tagged_len);
    wire::DdpHeader header;
    header.tagged = true;
    header.last = last = length == left;
    header.opcode = wire::RdmapOpcode::read_response;
    header.stag = reply.sink_stag;  // RFC 5040 §4.5: as named in the Request
    header.to = reply.sink_to + reply.offset;
    header.emit(octets);
    // The peer does not know when its Read is answered, and may write there; so may the user, who is not aware of the
    // Read. RFC 5044 §4.4: the CRC must match the octets sent.
    if (!output_.add_copy(octets, reply.source.subspan(reply.offset, length))) return false;
    reply.offset += length;
  }
  if (!last) return true;
  reply.framed = true;
  reply.end = output_.framed_total();
  ++next_reply_;
  current_ = Source::none;
  work_had_turn_ = false;
  return true;
}

}  // namespace parley::nic::iwarp
