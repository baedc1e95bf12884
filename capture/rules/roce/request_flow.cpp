// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// RequestFlow: requests. response_flow.cpp has the responses.
#include "capture/rules/roce/request_flow.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/bytes_io.hpp"
#include "base/text.hpp"
#include "capture/rules/roce/operations.hpp"
#include "wire/ib/crc32.hpp"

namespace parley::capture {

using wire::ib::Operation;

namespace {

constexpr std::uint64_t psn_begin = std::uint64_t{1} << 40;  // a place far from 0, with PSN 0
constexpr std::int64_t psn_half = 1 << 23;
constexpr std::uint64_t far_away = 1 << 16;
constexpr std::uint32_t mtu_min = 256;
constexpr std::uint64_t near_psns = 128;

/// IBA §9.7.3: a Read uses one PSN for each packet of its response.
std::uint32_t span_of(std::uint32_t octets, std::uint16_t mtu) {
  return std::max<std::uint32_t>(1, octets / mtu + (octets % mtu != 0 ? 1 : 0));
}

/// A digest of the fields that a retransmission must not change. AckReq and the congestion bits may differ.
std::uint32_t digest_of_headers(const RocePacket& p) {
  std::array<std::uint8_t, 64> octets{};
  Writer w(octets);
  const wire::ib::Packet& k = p.packet;
  w.u8(k.bth.opcode);
  w.be32(k.xrceth.srqn);
  w.be64(k.reth.va);
  w.be32(k.reth.r_key);
  w.be32(k.reth.dma_length);
  w.be64(k.atomic.va);
  w.be32(k.atomic.r_key);
  w.be64(k.atomic.swap_add);
  w.be64(k.atomic.compare);
  w.bytes(k.imm);
  w.be32(k.invalidate);
  w.be16(static_cast<std::uint16_t>(k.payload.size()));
  return wire::ib::crc32(0, octets);
}

}  // namespace

RequestFlow::ExtendedPsn RequestFlow::place_of(std::uint32_t psn) const {
  const ExtendedPsn near = any_ ? high_ : start_ != 0 ? start_ : psn_begin + psn;
  std::int64_t ahead = static_cast<std::int64_t>(psn) - static_cast<std::int64_t>(psn_of(near));
  if (ahead >= psn_half) ahead -= 2 * psn_half;
  if (ahead < -psn_half) ahead += 2 * psn_half;
  return near + static_cast<std::uint64_t>(ahead);
}

bool RequestFlow::may_answer(std::uint32_t psn) const {
  if (!any_) return false;
  const ExtendedPsn place = place_of(psn);
  return place >= first_ && (place <= high_ ? high_ - place < far_away : of_a_read(place));
}

/// The distance from the last PSN in use, in either direction.
std::uint64_t RequestFlow::distance(std::uint32_t psn) const {
  const ExtendedPsn place = place_of(psn);
  const ExtendedPsn high = std::max(high_, read_end_);
  return place > high ? place - high : high - place;
}

bool RequestFlow::far(std::uint32_t psn) const { return any_ && distance(psn) > far_away; }

bool RequestFlow::goes_on(std::uint32_t psn) const { return any_ && place_of(psn) > high_ && is_near(psn); }

bool RequestFlow::is_near(std::uint32_t psn) const { return any_ && distance(psn) <= near_psns; }

bool RequestFlow::is_near(std::uint32_t psn, std::optional<std::uint32_t> start) const {
  return any_ ? is_near(psn) : start && ((psn - *start) & 0xFFFFFF) <= near_psns;
}

RequestFlow::Request RequestFlow::read(const RocePacket& p, const FlowTerms& terms) const {
  Request r;
  r.operation = p.operation();
  r.payload = static_cast<std::uint16_t>(std::min<std::size_t>(p.packet.payload.size(), 0xFFFF));
  r.dma_length = p.packet.reth.dma_length;
  r.frame = p.frame;
  r.at = p.at;
  r.headers = digest_of_headers(p);
  if (p.whole()) r.octets = wire::ib::crc32(0, p.packet.payload);
  r.span_unknown = terms.path_mtu == 0;
  r.is_short = expects_more(r.operation) && is_send(r.operation) && r.payload < terms.path_mtu;
  if (r.operation == Operation::read_request && terms.path_mtu != 0) r.span = span_of(r.dma_length, terms.path_mtu);
  return r;
}

/// Applies a path MTU that became known late: the REQ was captured after data.
void RequestFlow::apply_mtu(const FlowTerms& terms) {
  if (!unsized_ || terms.path_mtu == 0) return;
  unsized_ = false;
  for (auto& [place, r] : seen_) {
    r.completed.reset();
    if (!std::exchange(r.span_unknown, false)) continue;
    r.is_short = expects_more(r.operation) && is_send(r.operation) && r.payload < terms.path_mtu;
    if (r.operation == Operation::read_request) r.span = span_of(r.dma_length, terms.path_mtu);
    high_ = std::max(high_, place + r.span - 1);
  }
  if (!seen_.empty()) count_messages(seen_.begin());
}

/// Whether the place may belong to a Read's responses while the path MTU is not known. The length of the Read gives the
/// maximum number of responses.
bool RequestFlow::of_a_read(ExtendedPsn place) const {
  const auto after = seen_.upper_bound(place);
  if (after == seen_.begin()) return false;
  const auto& [first, r] = *std::prev(after);
  if (r.operation != Operation::read_request || !r.span_unknown) return false;
  return place - first < std::max<std::uint64_t>(1, (std::uint64_t{r.dma_length} + mtu_min - 1) / mtu_min);
}

/// The request whose PSNs include this place.
RequestFlow::Requests::iterator RequestFlow::covering(ExtendedPsn place) {
  auto it = seen_.upper_bound(place);
  if (it == seen_.begin()) return seen_.end();
  --it;
  return place - it->first < it->second.span ? it : seen_.end();
}

void RequestFlow::request(const RocePacket& p, const FlowTerms& terms) {
  check_packet(p, terms);
  if (terms.qp == IbQp::ud || p.service() == wire::ib::Service::ud) {
    any_ = true;
    ++messages;
    return;
  }
  if (!any_ && terms.starting_psn) start_ = psn_begin + *terms.starting_psn;
  const ExtendedPsn place = place_of(p.packet.bth.psn);
  if (!any_) first_request_ = {p.frame, p.at};
  if (start_ != 0 && place < start_) {
    // IBA §9.7.3: the first PSN is the starting PSN that the peer requested.
    findings_.report(
        IbRule::ib_psn_start, p.frame, requester_,
        fmt::format(" sent PSN {:#08x}, before the starting PSN {:#08x}", p.packet.bth.psn, psn_of(start_)));
    return;
  }
  apply_mtu(terms);
  if (sequence_nak_ && place <= sequence_nak_->high) sequence_nak_.reset();
  const Request r = read(p, terms);
  if (any_ && place < forgotten_) {
    ++retransmissions;
    last_again_ = p.at;
    return;
  }
  const auto seen_before = [&] { return any_ && place <= high_; };  // most requests are new, which saves the look-up
  if (seen_before() && !terms.set_up_seen && is_another_use(place, r)) restart();
  if (seen_before() && (repeated(p, place, r) || inside_a_read(p, place, r))) {
    last_again_ = p.at;
    return count_retries(p, place, true, terms);
  }
  settle_ahead(place, p, terms);
  count_retries(p, place, false, terms);
  const auto it = seen_.insert(place, r);
  ++budget_.requests;
  unsized_ = unsized_ || r.span_unknown;
  const bool begins = start_ != 0 && place == start_;
  check_neighbours(it, begins);
  if (ends_message(r.operation)) {
    ++messages;
    check_total(it, terms.path_mtu);
  }
  count_on(it, terms);
  check_credits(p, it->second, terms);
  count_outstanding(p, place, it->second, terms);
  trim();
}

/// Without CM messages, a different packet with the same PSN shows that the queue pair is used again.
bool RequestFlow::is_another_use(ExtendedPsn place, const Request& r) const {
  const auto it = seen_.find(place);
  return it != seen_.end() && it->second.headers != r.headers && r.operation != Operation::read_request;
}

void RequestFlow::restart() {
  budget_.requests -= seen_.size();
  seen_.clear();
  any_ = false;
  start_ = forgotten_ = acknowledged_ = read_end_ = 0;
  ahead_.reset();
  most_.reset();
  credits_ = {};
  excess_.reset();
  outstanding_.clear();
  rnr_ = {};
  retry_ = {};
  gap_.reset();
  dropped_.clear();
  sequence_nak_.reset();
  answers_ = 0;
  last_again_ = {};
}

/// Handles a PSN that was seen before. True: it is a retransmission, or was reported.
bool RequestFlow::repeated(const RocePacket& p, ExtendedPsn place, const Request& r) {
  const auto it = seen_.find(place);
  if (it == seen_.end()) return false;
  it->second.again = true;
  const Request& before = it->second;
  ++retransmissions;
  if (first_again_frame == 0) first_again_frame = p.frame;
  if (ahead_) ahead_->repeated = true;
  // A retransmitted Read may skip the data that has already arrived (IBA §9.7.3).
  const bool reads = before.operation == Operation::read_request && r.operation == Operation::read_request;
  if (before.headers != r.headers && !reads)
    findings_.report(IbRule::ib_psn_reused, p.frame, requester_,
                     fmt::format(" sent {} with PSN {:#08x}; that of frame {} with the same PSN was another: {}",
                                 with_article(operation_text(r.operation)), psn_of(place), before.frame,
                                 operation_text(before.operation)));
  else if (!reads && before.octets && r.octets && *before.octets != *r.octets)
    findings_.report(
        IbRule::ib_payload_changed, p.frame, requester_,
        fmt::format(" sent PSN {:#08x} again with another payload than in frame {}", psn_of(place), before.frame));
  return true;
}

/// Handles a PSN inside those of a Read's responses. A Read may be retransmitted from there; any other request reuses a
/// PSN. True: it was handled.
bool RequestFlow::inside_a_read(const RocePacket& p, ExtendedPsn place, const Request& r) {
  const auto it = covering(place);
  if (it == seen_.end()) return false;
  const ExtendedPsn end = it->first + it->second.span;
  if (r.operation == Operation::read_request && place + r.span <= end) {
    ++retransmissions;
    if (first_again_frame == 0) first_again_frame = p.frame;
    if (ahead_) ahead_->repeated = true;
    return true;
  }
  findings_.report(
      IbRule::ib_read_psn, p.frame, requester_,
      fmt::format(" sent {} with PSN {:#08x}, which is one of the {} that the Read of frame {} takes",
                  with_article(operation_text(r.operation)), psn_of(place), it->second.span, it->second.frame));
  return true;
}

void RequestFlow::check_packet(const RocePacket& p, const FlowTerms& terms) const {
  const std::size_t payload = p.packet.payload.size();
  const auto tell = [&](const std::string& text) {
    findings_.report(IbRule::ib_length, p.frame, requester_,
                     fmt::format("'s {} has {}; {}", operation_text(p.operation()), counted(payload, "octet"), text));
  };
  const Operation operation = p.operation();
  const std::uint16_t mtu = terms.path_mtu;
  if (carries_no_payload(operation)) {
    if (payload > 0) tell("it has no payload");
  } else if (expects_more(operation)) {
    // IBA §9.7.4: all packets but the last have path MTU octets of payload.
    if (mtu != 0 && payload != mtu)
      tell(fmt::format("the path MTU is {}, and only the last packet may be shorter", mtu));
  } else if (payload > (mtu != 0 ? mtu : PARLEY_IB_MTU_MAX)) {
    tell(fmt::format("the path MTU is {}", mtu != 0 ? mtu : PARLEY_IB_MTU_MAX));
  } else if (payload == 0 && continues_message(operation)) {
    tell("a message of several packets ends with one octet at least");
  }
  if (operation == Operation::cmp_swap || operation == Operation::fetch_add)
    if (p.packet.atomic.va % 8 != 0)
      findings_.report(IbRule::ib_atomic_address, p.frame, requester_,
                       fmt::format("'s {} is at {:#x}, which is not a multiple of 8", operation_text(operation),
                                   p.packet.atomic.va));
  check_size(p);
  const bool write_only = operation == Operation::write_only || operation == Operation::write_only_imm;
  if (write_only && p.packet.reth.dma_length != payload)
    findings_.report(IbRule::ib_dma_length, p.frame, requester_,
                     fmt::format("'s {} announces {} and has {}", operation_text(operation),
                                 counted(p.packet.reth.dma_length, "octet"), payload));
}

// IBA §9.7.4: First, Middle and Last of one message have consecutive PSNs.
void RequestFlow::check_neighbours(Requests::iterator it, bool begins) {
  if (begins && continues_message(it->second.operation))
    findings_.report(IbRule::ib_sequence, it->second.frame, requester_,
                     fmt::format(" begins with {}", with_article(operation_text(it->second.operation))));
  if (it != seen_.begin())
    if (const auto before = std::prev(it); before->first + before->second.span == it->first) check_pair(before, it);
  if (const auto after = std::next(it); after != seen_.end()) {
    if (it->first + it->second.span == after->first) check_pair(it, after);
    if (after->first - it->first < it->second.span && after->second.operation != Operation::read_request)
      findings_.report(IbRule::ib_read_psn, after->second.frame, requester_,
                       fmt::format(" sent {} with PSN {:#08x}, which is one of the {} that the Read of frame {} takes",
                                   with_article(operation_text(after->second.operation)), psn_of(after->first),
                                   it->second.span, it->second.frame));
  }
}

void RequestFlow::check_pair(Requests::const_iterator first, Requests::const_iterator second) {
  const Operation a = first->second.operation, b = second->second.operation;
  const bool more = expects_more(a);
  if (more ? continues_message(b) && is_send(a) == is_send(b) : !continues_message(b)) return;
  findings_.report(IbRule::ib_sequence, second->second.frame, requester_,
                   fmt::format(" sent {} right behind {} (frame {})", with_article(operation_text(b)),
                               with_article(operation_text(a)), first->second.frame));
}

// A Write of several packets has as many octets as its First announces (IBA §9.7.4). Checked only if all were seen.
void RequestFlow::check_total(Requests::const_iterator last, std::uint16_t mtu) {
  const Operation operation = last->second.operation;
  if (mtu == 0 || (operation != Operation::write_last && operation != Operation::write_last_imm)) return;
  std::uint64_t octets = last->second.payload;
  auto it = last;
  while (it != seen_.begin()) {
    const auto before = std::prev(it);
    if (before->first + 1 != it->first) return;
    if (before->second.payload != mtu) return;
    octets += before->second.payload;
    it = before;
    if (it->second.operation == Operation::write_middle) continue;
    if (it->second.operation != Operation::write_first || it->second.dma_length == octets) return;
    findings_.report(IbRule::ib_dma_length, last->second.frame, requester_,
                     fmt::format("'s RDMA WRITE announces {} (frame {}) and has {}",
                                 counted(it->second.dma_length, "octet"), it->second.frame, octets));
    return;
  }
}

// Updates the PSNs in use, and the number of those that the capture lacks.
void RequestFlow::count_on(Requests::iterator it, const FlowTerms& terms) {
  const ExtendedPsn place = it->first, last = place + it->second.span - 1;
  if (!any_) {
    any_ = true;
    first_ = start_ != 0 ? start_ : place;
    missing += place - first_;
    high_ = last;
  } else if (place > high_) {
    // Without the path MTU, the number of PSNs of a Read is not known.
    const bool after_read =
        terms.path_mtu == 0 && it != seen_.begin() && std::prev(it)->second.operation == Operation::read_request;
    if (!after_read) missing += place - high_ - 1;
    high_ = last;
  } else {
    // One of those counted as missing. PSNs before the first one were not counted.
    if (place >= first_) missing -= std::min<std::uint64_t>(missing, std::min(last, high_) - place + 1);
    high_ = std::max(high_, last);
  }
  count_messages(it);
}

// IBA §9.7.7.1: the MSN counts messages from the beginning of the connection.
void RequestFlow::count_messages(Requests::iterator it) {
  for (; it != seen_.end(); ++it) {
    std::optional<std::uint32_t> before;
    std::uint32_t receives = 0;
    if (start_ != 0 && it->first == start_) before = 0;
    if (it != seen_.begin())
      if (const auto prior = std::prev(it); prior->first + prior->second.span == it->first) {
        before = prior->second.completed;
        receives = prior->second.receives;
      }
    if (!before) return;
    const std::uint32_t now = (*before + (ends_message(it->second.operation) ? 1 : 0)) & 0xFFFFFF;
    if (it->second.completed == now) return;
    it->second.completed = now;
    it->second.receives = receives + (consumes_receive(it->second.operation) ? 1 : 0);
  }
}

void RequestFlow::trim() {
  while (seen_.size() > budget_.flow_max()) {
    forgotten_ = seen_.begin()->first + seen_.begin()->second.span;
    seen_.forget_first();
    --budget_.requests;
  }
}

// Reports an answer to a request that is sent only now. The time between excludes a late capture of the request (at
// least paths_apart) and a retransmission (at most half of the ACK timeout).
void RequestFlow::settle_ahead(ExtendedPsn place, const RocePacket& p, const FlowTerms& terms) {
  if (!ahead_ || place <= ahead_->high) return;
  const EarlyAnswer a = *ahead_;
  ahead_.reset();
  const Duration since = p.at - a.ref.at;
  const bool next = place == a.high + 1 && high_ == a.high;
  // IBA §9.7.5.1.4: the answer to a request that came again has the PSN of the last one that was executed, which the
  // capture may lack.
  const bool came_again = last_again_ >= newest_.at || a.ref.at - newest_.at > terms.ack_timeout / 2;
  if (!next || a.repeated || came_again || since < paths_apart || terms.ack_timeout == Duration{0} ||
      since > terms.ack_timeout / 2)
    return;
  const Side responder = other(requester_);
  if (a.of_psn)
    findings_.report(IbRule::ib_ack_unsent, a.ref.frame, responder,
                     fmt::format(" answered PSN {:#08x}; the {} sends PSN {:#08x} only in frame {}", a.psn,
                                 to_string(requester_), psn_of(place), p.frame));
  else
    report_msn(a);
}

void RequestFlow::report_msn(const EarlyAnswer& a) {
  most_.reset();
  findings_.report(IbRule::ib_msn, a.ref.frame, other(requester_),
                   fmt::format(" gave MSN {} with PSN {:#08x}, more messages than the {} had sent", a.msn, a.psn,
                               to_string(requester_)));
}

void RequestFlow::finish(bool ended) {
  const ExtendedPsn known = std::max(high_, read_end_);
  if (acknowledged_ > known && any_) missing += acknowledged_ - known;
  // If all packets were seen and none was retransmitted, no ACK may count more messages than there are.
  if (!most_ || !ended || missing > 0 || retransmissions > 0 || seen_.empty()) return;
  const Request& last = std::prev(seen_.end())->second;
  if (last.completed && is_behind(*last.completed, most_->msn)) report_msn(*most_);
}

}  // namespace parley::capture
