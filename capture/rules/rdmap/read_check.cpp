// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// RDMA Reads and Atomics: requests, their answers, and the number of outstanding ones. RFC 5040 §4.4, §4.5, §5.2,
// RFC 7306 §5.
#include <fmt/format.h>

#include <algorithm>

#include "base/bytes_io.hpp"
#include "base/text.hpp"
#include "capture/rules/rdmap/rdmap_check.hpp"

namespace parley::capture {

using wire::DdpHeader;

void RdmapCheck::check_outstanding(Side from, const WalkedFpdu& f) {
  State& s = at(from);
  if (!s.reads_reliable || !s.read_limit || s.requests.size() <= *s.read_limit) return;
  // RFC 6581 §9.1: a Read as RTR needs no ORD from the ULP.
  if (s.read_rtr && s.segments == 1 && s.requests.back().request.size == 0 && !s.requests.back().atomic) return;
  // RFC 6581 §9.1: ORD is at most the peer's IRD. RFC 5040 §5.2.1: at most that many are outstanding.
  report_violation(from, f, Rule::rdmap_read_limit,
                   fmt::format("has {} RDMA Reads outstanding, {} were agreed", s.requests.size(), *s.read_limit));
}

bool RdmapCheck::room_for_request(Side from, const WalkedFpdu& f) {
  State& s = at(from);
  if (s.requests.size() < outstanding_max) return true;
  if (!s.reads_too_many)
    findings_.remark(f.last.frame, from,
                     fmt::format("the {} has more than {} requests outstanding: from here on its Reads and Atomics are "
                                 "not matched with their answers",
                                 to_string(from), outstanding_max));
  s.reads_too_many = true;
  return false;
}

/// Whether `size` octets from `to` on exceed 64 bits.
static bool wraps(std::uint64_t to, std::uint32_t size) { return size > 0 && to + (size - 1) < to; }

void RdmapCheck::check_read_request(Side from, const WalkedFpdu& f, const DdpHeader& h) {
  State& s = at(from);
  if (payload_of(f, h) != PARLEY_RDMAP_READ_REQUEST_LEN) {
    report_violation(from, f, Rule::rdmap_read_request_length,
                     fmt::format("sent a Read Request of {} (28 are expected)", counted(payload_of(f, h), "octet")));
    s.reads_reliable = false;  // it is not defined how a peer answers it
    return;
  }
  const auto q = f.known < f.ulpdu.size() ? Result<wire::ReadRequest>(fail(Errc::truncated))
                                          : wire::ReadRequest::parse(f.ulpdu.subspan(h.size()));
  if (q && (wraps(q->source_to, q->size) || wraps(q->sink_to, q->size))) {
    // The RFC defines an error for this, but no MUST for the requester.
    findings_.add(f.last.frame, from, Rule::rdmap_read_wrap,
                  fmt::format("the {} sent a Read Request of {} from TO 0x{:x} to TO 0x{:x}, which wraps",
                              to_string(from), counted(q->size, "octet"), q->source_to, q->sink_to));
    record_fault(from, {PARLEY_RDMAP_LAYER_RDMAP, 1, 4, f.last.frame}, true);
  }
  if (!q || !room_for_request(from, f)) {
    s.reads_reliable = false;
    return;
  }
  s.requests.push_back({.request = *q, .msn = h.msn, .frame = f.last.frame});
  check_outstanding(from, f);
}

/// The Read that this response answers; null: none is outstanding. Requires that all requests and answers are known.
RdmapCheck::Outstanding* RdmapCheck::answered_read(Side from, const WalkedFpdu& f) {
  State& requester = at(other(from));
  auto& requests = requester.requests;
  const auto it = std::find_if(requests.begin(), requests.end(), [](const Outstanding& o) { return !o.atomic; });
  if (it == requests.end()) {
    report_violation(from, f, Rule::rdmap_read_unasked, "sent a Read Response although no Read is outstanding");
    record_fault_at(from, f, {.layer = PARLEY_RDMAP_LAYER_RDMAP, .etype = 2, .code = 6, .any_code = true});
    return nullptr;
  }
  if (it != requests.begin() && !requester.order_told) {
    report_violation(from, f, Rule::rdmap_answer_order,
                     fmt::format("answered the Read Request of frame {} before the Atomic Request of frame {}",
                                 it->frame, requests.front().frame));
    requester.order_told = true;
  }
  return &*it;
}

void RdmapCheck::check_read_response(Side from, const WalkedFpdu& f, const DdpHeader& h) {
  State& requester = at(other(from));
  if (!requester.reads_reliable) return guess_answered(requester, h, payload_of(f, h));
  const Outstanding* o = answered_read(from, f);
  if (o == nullptr) return;
  // If the last answer lacks octets and this segment is outside of it, it belongs to the next answer.
  const auto inside = [&](const Outstanding& r) {
    return h.stag == r.request.sink_stag && h.to - r.request.sink_to <= r.request.size;
  };
  if (requester.answer.open() && requester.answer.last_seen() && !inside(*o)) {
    settle_answer(from, over_at(f));
    o = answered_read(from, f);
    if (o == nullptr) return;
  }
  if (!requester.answer_wrong) place_answer(from, f, h, *o);
  // A wrong answer is reported once. It ends with its last segment.
  if (requester.answer_wrong ? h.last : requester.answer.whole()) settle_answer(from, over_at(f));
}

void RdmapCheck::place_answer(Side from, const WalkedFpdu& f, const DdpHeader& h, const Outstanding& o) {
  using Placed = MessageExtent::Placed;
  MessageExtent& e = at(other(from)).answer;
  const std::uint64_t size = o.request.size, n = payload_of(f, h);
  if (!e.open()) e.open_at(0);
  const std::uint64_t offset = h.to - o.request.sink_to, due = e.due();
  const bool fits = h.stag == o.request.sink_stag && offset <= size && n <= size - offset;
  const Placed placed = fits ? e.place(offset, n, h.last) : Placed::wrong;
  if (placed == Placed::out_of_order) e.note_odd({f.last.frame, h.to, o.request.sink_to + due});
  if (placed == Placed::wrong) {
    if (h.stag == o.request.sink_stag && offset == due)
      report_violation(from, f, Rule::rdmap_read_length,
                       fmt::format("sent {} for the Read Request of frame {}, which asked for {}",
                                   counted(due + n, "octet"), o.frame, size));
    else
      report_violation(
          from, f, Rule::rdmap_read_sink,
          fmt::format("answered the Read Request of frame {} at STag 0x{:08x} TO 0x{:x}, its sink is STag 0x{:08x} "
                      "TO 0x{:x}",
                      o.frame, h.stag, h.to, o.request.sink_stag, o.request.sink_to + due));
  }
  if (placed == Placed::in_order || placed == Placed::out_of_order) {
    if (h.last && offset + n < size)
      report_violation(from, f, Rule::rdmap_read_length,
                       fmt::format("ended the Read Response after {}, the request of frame {} asked for {}",
                                   counted(offset + n, "octet"), o.frame, size));
    return;
  }
  at(other(from)).answer_wrong = true;
}

// Ends the answer to the first Read.
void RdmapCheck::settle_answer(Side from, const MessageEnd& over) {
  State& requester = at(other(from));
  const MessageExtent::OutOfOrderSegment odd = requester.answer.odd();
  auto& requests = requester.requests;
  const auto it = std::find_if(requests.begin(), requests.end(), [](const Outstanding& o) { return !o.atomic; });
  const std::uint64_t frame = it == requests.end() ? 0 : it->frame;
  const bool out_of_order = odd.frame != 0 && !requester.answer_wrong;
  if (out_of_order && !requester.answer.contiguous() && over.surely)
    findings_.add(
        over.frame, from, Rule::rdmap_read_gap,
        fmt::format("the {} left out octets of its answer to the Read Request of frame {}: in frame {} it went on at "
                    "TO 0x{:x}, 0x{:x} was expected",
                    to_string(from), frame, odd.frame, odd.at, odd.due));
  else if (out_of_order)
    findings_.add(
        over.frame, from, Rule::ddp_order,
        fmt::format("the {} sent the segments of a Read Response out of the order of their TO{} (the request is "
                    "in frame {})",
                    to_string(from), since(odd, over), frame));
  requester.answer.close();
  requester.order_told = requester.answer_wrong = false;
  if (it != requests.end()) requests.erase(it);
}

/// Some requests or answers are not known: search for a request that fits.
void RdmapCheck::guess_answered(State& requester, const DdpHeader& h, std::size_t payload) {
  auto& requests = requester.requests;
  const auto fits = [&](const Outstanding& o) {
    return !o.atomic && o.request.sink_stag == h.stag && h.to >= o.request.sink_to &&
           h.to - o.request.sink_to + payload <= o.request.size;
  };
  const auto it = std::find_if(requests.begin(), requests.end(), fits);
  if (it != requests.end()) requests.erase(requests.begin(), h.last ? it + 1 : it);
}

void RdmapCheck::check_atomic_request(Side from, const WalkedFpdu& f, const DdpHeader& h) {
  State& s = at(from);
  if (payload_of(f, h) != PARLEY_RDMAP_ATOMIC_REQUEST_LEN) {
    report_violation(from, f, Rule::rdmap_atomic_length,
                     fmt::format("sent an Atomic Request of {} (52 are expected)", counted(payload_of(f, h), "octet")));
    s.reads_reliable = false;
    return;
  }
  const ConstBytes body = f.ulpdu.subspan(h.size());
  const auto q =
      f.known < f.ulpdu.size() ? Result<wire::AtomicRequest>(fail(Errc::truncated)) : wire::AtomicRequest::parse(body);
  if (!q || !room_for_request(from, f)) {
    s.reads_reliable = false;
    return;
  }
  Reader r(body);
  if (const std::uint32_t word = r.be32(); word >> 4 != 0)
    // RFC 7306 §5.2.1: the AOpCode is in the low four bits of its word; the others are 0.
    report_violation(from, f, Rule::rdmap_atomic_reserved,
                     fmt::format("set reserved bits next to the AOpCode of an Atomic Request (0x{:08x})", word));
  if (q->aop != PARLEY_RDMAP_ATOMIC_FETCH_ADD && q->aop != PARLEY_RDMAP_ATOMIC_CMP_SWAP)
    report_violation(from, f, Rule::rdmap_atomic_opcode,
                     fmt::format("sent an Atomic Request with AOpCode {}, not assigned", q->aop));
  if (q->to % 8 != 0) {
    report_violation(from, f, Rule::rdmap_atomic_address,
                     fmt::format("asked for an Atomic at TO 0x{:x}, not a multiple of 8", q->to));
    record_fault_at(from, f, {PARLEY_RDMAP_LAYER_RDMAP, 2, 7});
  }
  s.requests.push_back(
      {.request = {}, .atomic = true, .request_id = q->request_id, .msn = h.msn, .frame = f.last.frame});
  check_outstanding(from, f);
}

void RdmapCheck::check_atomic_response(Side from, const WalkedFpdu& f, const DdpHeader& h) {
  State& requester = at(other(from));
  if (payload_of(f, h) != PARLEY_RDMAP_ATOMIC_RESPONSE_LEN) {
    report_violation(
        from, f, Rule::rdmap_atomic_length,
        fmt::format("sent an Atomic Response of {} (12 are expected)", counted(payload_of(f, h), "octet")));
    requester.reads_reliable = false;
    return;
  }
  if (f.known < f.ulpdu.size()) {
    requester.reads_reliable = false;
    return;
  }
  const auto a = wire::AtomicResponse::parse(f.ulpdu.subspan(h.size()));
  if (!a) return;
  auto& requests = requester.requests;
  const auto it = std::find_if(requests.begin(), requests.end(),
                               [&](const Outstanding& o) { return o.atomic && o.request_id == a->request_id; });
  if (it == requests.end()) {
    if (requester.reads_reliable)
      report_violation(
          from, f, Rule::rdmap_atomic_unasked,
          fmt::format("sent an Atomic Response for request 0x{:x}, which is not outstanding", a->request_id));
    return;
  }
  if (!requester.reads_reliable) {
    requests.erase(requests.begin(), it + 1);
    return;
  }
  const Outstanding& first = requests.front();
  if (it != requests.begin() && first.atomic)
    report_violation(from, f, Rule::rdmap_atomic_order,
                     fmt::format("answered Atomic request 0x{:x} before 0x{:x}", a->request_id, first.request_id));
  else if (it != requests.begin())
    // RFC 7306 §5.1: Atomics and Reads are answered in the order of the requests.
    report_violation(
        from, f, Rule::rdmap_answer_order,
        fmt::format("answered Atomic request 0x{:x} before the Read Request of frame {}", a->request_id, first.frame));
  requests.erase(it);
}

}  // namespace parley::capture
