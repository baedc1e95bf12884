// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Events for requests: acknowledgments, responses, NAKs and time-outs (IBA §9.7.5, §9.7.6).
#include <algorithm>
#include <bit>
#include <cstring>

#include "base/bytes_io.hpp"
#include "nic/roce/requester.hpp"

namespace parley::nic::roce {
namespace {

// Between unanswered keepalives: short enough for a second ICMP error within 1 s of the first.
constexpr Duration keepalive_interval = std::chrono::milliseconds(500);

}  // namespace

using wire::ib::Nak;
using wire::ib::Operation;
using wire::ib::Packet;

// IBA §9.7.6.1: the timer runs while something is unacknowledged, from its transmission or from the last progress; not
// while the peer is not ready.
void Requester::arm(Instant now) {
  const std::uint8_t code = qp_.attr.timeout.value_or(0);
  const bool alone = only_keepalive();
  const bool runs = (code != 0 || alone) && sent_end_ != una_ && rnr_until_ == never;
  ack_deadline_ = runs ? now + (alone ? keepalive_interval : wire::ib::timeout_of(code)) : never;
}

void Requester::ask(Instant now) {
  if (sends_.empty()) {
    sends_.make_room();
    SendWqe& wqe = sends_.push();
    wqe = SendWqe{};
    wqe.kind = SendWqe::Kind::write;
    wqe.keepalive = true;
    ++keepalives_;
  } else if (sent_end_ != una_ && rnr_until_ == never) {
    at_ = sends_.head();
    at_packet_ = static_cast<std::uint32_t>(una_ - sends_.front().first);
    arm(now);
  }
}

// IBA §9.7.6.1: any acknowledgment resets the retry counters.
void Requester::progress(Instant now) {
  waits_since_ = now;
  limits_changed();
  went_back_ = false;
  move_cursor_up();
  arm(now);
}

// Acknowledged packets are not retransmitted.
void Requester::move_cursor_up() {
  if (at_ < sends_.head()) {
    at_ = sends_.head();
    at_packet_ = 0;
  }
  if (at_ == sends_.head() && at_ != sends_.tail() && sends_.front().begun && una_ > sends_.front().first)
    at_packet_ = std::max(at_packet_, static_cast<std::uint32_t>(una_ - sends_.front().first));
}

// All PSNs before `upto` are acknowledged, unless the response of a Read or Atomic is missing: then false, and una_ is
// the missing PSN.
bool Requester::acknowledge(Instant now, Psn upto) {
  const Psn before = una_;
  bool whole = true;
  while (una_ < upto) {
    SendWqe& wqe = sends_.front();
    if (wqe.fetches()) {
      whole = false;
      break;
    }
    una_ = std::min(wqe.end, upto);
    if (una_ != wqe.end) break;
    complete(wqe, WcStatus::success);
    sends_.pop();
    retire_local();
  }
  if (una_ != before) progress(now);
  return whole;
}

// IBA §9.7.6.1: retransmits from the first unacknowledged PSN.
bool Requester::go_back(Instant now) {
  const SendWqe& oldest = sends_.front();
  const auto packet = static_cast<std::uint32_t>(una_ - oldest.first);
  if (at_ == sends_.head() && at_packet_ == packet) return true;  // already at that packet
  // While only a keepalive is unacknowledged, QpWatch::dead_after is the limit.
  const bool endless = (qp_.attr.retry_cnt == 7 && qp_.plays(wire::ib::Departure::retries_for_ever)) ||
                       (only_keepalive() && qp_.watch.dead_after > Duration{});
  if (retries_left_ == 0 && !endless)
    return fail(
        WcStatus::retry_exc_err,
        {.cause = QpFailure::Cause::no_ack, .retries = qp_.attr.retry_cnt.value_or(0), .elapsed = now - waits_since_});
  if (!endless) --retries_left_;
  went_back_ = true;
  at_ = sends_.head();
  at_packet_ = packet;
  ++qp_.counters.retries;
  ++qp_.device().retries;
  arm(now);
  return true;
}

// IBA §9.7.6: a later response than expected implies that the expected one is lost. It is requested again once; then
// the timer applies.
bool Requester::implied_nak(Instant now) { return went_back_ || rnr_until_ != never || go_back(now); }

bool Requester::handle_response(Instant now, const Packet& packet) {
  const Psn psn = nearest_psn(una_, packet.bth.psn);
  // IBA §9.7.6: duplicates of acknowledged packets, and unrequested answers, are ignored.
  if (psn < una_ || psn >= sent_end_) {
    ++qp_.device().dropped_response;
    return true;
  }
  switch (wire::ib::operation_of(packet.bth.opcode)) {
    case Operation::acknowledge: return handle_ack(now, psn, packet.aeth.syndrome);
    case Operation::atomic_acknowledge: return handle_atomic_ack(now, psn, packet);
    default: return handle_read_response(now, psn, packet);
  }
}

bool Requester::handle_ack(Instant now, Psn psn, std::uint8_t syndrome) {
  const std::uint8_t value = syndrome & PARLEY_IB_SYNDROME_VALUE;
  switch (syndrome & ~PARLEY_IB_SYNDROME_VALUE) {
    case PARLEY_IB_SYNDROME_ACK: return acknowledge(now, psn + 1) || implied_nak(now);
    case PARLEY_IB_SYNDROME_RNR_NAK: return handle_rnr(now, psn, value);
    case PARLEY_IB_SYNDROME_NAK: return handle_nak(now, psn, value);
    default: break;
  }
  ++qp_.device().dropped_response;  // IBA §9.7.5.2: reserved
  return true;
}

// IBA §9.7.5.2.8: everything before is acknowledged, and this request is retransmitted after the time in the NAK.
bool Requester::handle_rnr(Instant now, Psn psn, std::uint8_t code) {
  ++qp_.counters.rnr_received;
  ++qp_.device().rnr_received;
  if (!acknowledge(now, psn)) return implied_nak(now);
  if (rnr_until_ != never) return true;
  const std::uint8_t limit = qp_.attr.rnr_retry.value_or(0);
  if (limit != 7) {  // 7: without limit
    if (rnr_left_ == 0)
      return fail(WcStatus::rnr_retry_exc_err,
                  {.cause = QpFailure::Cause::not_ready, .retries = limit, .elapsed = now - waits_since_});
    --rnr_left_;
  }
  at_ = sends_.head();
  at_packet_ = static_cast<std::uint32_t>(una_ - sends_.front().first);
  rnr_until_ = now + wire::ib::rnr_timer(code);
  ack_deadline_ = never;
  return true;
}

bool Requester::handle_nak(Instant now, Psn psn, std::uint8_t code) {
  const auto status = [code] {
    switch (static_cast<Nak>(code)) {
      case Nak::invalid_request: return WcStatus::rem_inv_req_err;
      case Nak::remote_access_error: return WcStatus::rem_access_err;
      case Nak::remote_operational_error: return WcStatus::rem_op_err;
      default: return WcStatus::success;
    }
  }();
  if (status == WcStatus::success && static_cast<Nak>(code) != Nak::psn_sequence_error) {
    ++qp_.device().dropped_response;  // reserved, or for RD
    return true;
  }
  ++qp_.counters.naks_received;
  ++qp_.device().naks_received;
  if (!acknowledge(now, psn)) return implied_nak(now);
  if (status != WcStatus::success) return fail(status, {.cause = QpFailure::Cause::nak, .code = code});
  return rnr_until_ != never || go_back(now);
}

/// The Read or Atomic that was sent and whose response includes that PSN.
SendWqe* Requester::fetch_at(Psn psn) {
  for (std::uint64_t at = sends_.head(); at != sends_.tail() && sends_[at].begun; ++at)
    if (psn < sends_[at].end) return sends_[at].fetches() && psn >= sends_[at].first ? &sends_[at] : nullptr;
  return nullptr;
}

bool Requester::handle_read_response(Instant now, Psn psn, const Packet& packet) {
  const SendWqe* wqe = fetch_at(psn);
  if (wqe == nullptr || wqe->kind != SendWqe::Kind::read) {
    ++qp_.device().dropped_response;
    return true;
  }
  if (!acknowledge(now, psn)) return implied_nak(now);
  SendWqe& read = sends_.front();
  const auto packets = static_cast<std::uint32_t>(read.end - read.first);
  const bool last = read.arrived + 1 == packets;
  const std::uint64_t offset = std::uint64_t{read.arrived} * qp_.mtu;
  const Operation operation = wire::ib::operation_of(packet.bth.opcode);
  const bool ends = operation == Operation::read_response_last || operation == Operation::read_response_only;
  const bool begins = operation == Operation::read_response_first || operation == Operation::read_response_only;
  // IBA §9.7.5: in order, each full except the last. A response to a repeated request begins again in the middle.
  if (ends != last || (read.arrived == 0 && !begins) ||
      packet.payload.size() != (last ? read.memory.length - offset : qp_.mtu))
    return fail(WcStatus::bad_resp_err);
  place(read.memory.view(), static_cast<std::size_t>(offset), packet.payload);
  ++read.arrived;
  ++una_;
  if (last) {
    --fetches_out_;
    complete(read, WcStatus::success);
    sends_.pop();
    retire_local();
  }
  progress(now);
  return true;
}

bool Requester::handle_atomic_ack(Instant now, Psn psn, const Packet& packet) {
  const SendWqe* wqe = fetch_at(psn);
  if (wqe == nullptr || wqe->kind == SendWqe::Kind::read) {
    ++qp_.device().dropped_response;
    return true;
  }
  if (!acknowledge(now, psn)) return implied_nak(now);
  SendWqe& atomic = sends_.front();
  // The number in host byte order.
  const auto octets = std::bit_cast<std::array<std::uint8_t, sizeof(std::uint64_t)>>(packet.atomic_original);
  place(atomic.memory.view(), 0, octets);
  ++una_;
  --fetches_out_;
  complete(atomic, WcStatus::success);
  sends_.pop();
  retire_local();
  progress(now);
  return true;
}

bool Requester::handle_deadline(Instant now) {
  if (rnr_until_ <= now) {
    rnr_until_ = never;
    arm(now);
  }
  if (ack_deadline_ > now) return true;
  ++qp_.counters.timeouts;
  ++qp_.device().timeouts;
  arm(now);
  return go_back(now);
}

}  // namespace parley::nic::roce
