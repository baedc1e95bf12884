// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "verdict/rdmap_check.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/bytes_io.hpp"

namespace parley::verdict {

using wire::DdpHeader;
using wire::RdmapOpcode;

namespace {

bool is_send(RdmapOpcode op) {
  return op == RdmapOpcode::send || op == RdmapOpcode::send_inv || op == RdmapOpcode::send_se ||
         op == RdmapOpcode::send_se_inv;
}
bool invalidates(RdmapOpcode op) { return op == RdmapOpcode::send_inv || op == RdmapOpcode::send_se_inv; }
std::size_t payload_of(const WalkedFpdu& f, const DdpHeader& h) { return f.ulpdu.size() - h.size(); }
std::string name_of(const DdpHeader& h) {
  const auto text = to_string(h.opcode);
  return wire::rule_of(h.opcode).assigned ? std::string(text)
                                          : fmt::format("opcode 0x{:X}", static_cast<unsigned>(h.opcode));
}

}  // namespace

void RdmapCheck::count_into(DirectionCounts& from_initiator, DirectionCounts& from_responder) {
  at(Side::initiator).counts = &from_initiator;
  at(Side::responder).counts = &from_responder;
}

void RdmapCheck::complaint(Side culprit, Complaint c, bool weak) {
  State& s = at(culprit);
  if (!weak && s.faults.size() < faults_max) s.faults.push_back(c);
  if (weak && s.fault && !s.fault_weak) return;
  s.fault = c;
  s.fault_weak = weak;
}

void RdmapCheck::accuse(Side from, const WalkedFpdu& f, std::string_view rule, std::string text) {
  findings_.error(f.first.frame, from, rule, fmt::format("the {} {}", to_string(from), text));
}

void RdmapCheck::lost(Side side) {
  State& s = at(side);
  s.lossy = true;
  for (auto& q : s.queues) q.known = q.open = false;
  s.write.open = s.response.open = false;
  s.reads_reliable = at(other(side)).reads_reliable = false;
}

void RdmapCheck::segment(Side from, const WalkedFpdu& f) {
  State& s = at(from);
  ++s.segments;
  if (s.counts != nullptr) ++s.counts->fpdus;
  const auto h = DdpHeader::parse(f.ulpdu.first(std::min(f.known, f.ulpdu.size())));
  if (!h) {
    if (f.known < f.ulpdu.size()) return lost(from);  // the capture cut the header
    accuse(from, f, "RFC 5041 §4",
           fmt::format("sent an ULPDU of {} octets, too short for a DDP header", f.ulpdu.size()));
    complaint(from, {PARLEY_RDMAP_LAYER_LLP, 0, 3, f.first.frame, true});
    return;
  }
  if (s.recent.empty()) s.recent.reserve(4);
  if (s.recent.size() < recent_max) s.recent.emplace_back();
  Recent& r = s.recent[s.recent_next];
  s.recent_next = (s.recent_next + 1) % recent_max;
  r.size = h->size();
  r.length = static_cast<std::uint32_t>(f.ulpdu.size());
  r.frame = f.first.frame;
  std::copy_n(f.ulpdu.begin(), r.size, r.head.begin());
  tell(from, f, *h);
  if (s.terminated)
    // RFC 5040 §5.4: after the Terminate its sender sends no RDMAP message.
    accuse(from, f, "RFC 5040 §5.4",
           fmt::format("sent a {} after its Terminate in frame {}", name_of(*h), s.terminate_frame));
  if (!check_controls(from, f, *h)) {
    // What cannot be decoded leaves the numbering of this direction unknown.
    for (auto& q : s.queues) q.known = false;
    s.reads_reliable = at(other(from)).reads_reliable = false;
    return;
  }
  dispatch(from, f, *h);
}

bool RdmapCheck::check_controls(Side from, const WalkedFpdu& f, const DdpHeader& h) {
  Reader r(f.ulpdu);
  const std::uint8_t ddp = r.u8(), rdmap = r.u8();
  const std::uint8_t version_code = h.tagged ? 4 : 6, type = h.tagged ? 1 : 2;
  if (h.ddp_version != version_) {
    accuse(from, f, "RFC 5041 §4.1", fmt::format("sent DDP version {} ({} is due)", h.ddp_version, version_));
    complaint(from, {PARLEY_RDMAP_LAYER_DDP, type, version_code, f.first.frame});
    return false;
  }
  if (h.rdmap_version != version_) {
    accuse(from, f, "RFC 5040 §4.1", fmt::format("sent RDMAP version {} ({} is due)", h.rdmap_version, version_));
    complaint(from, {PARLEY_RDMAP_LAYER_RDMAP, 2, 5, f.first.frame});
    return false;
  }
  if ((ddp & PARLEY_DDP_RSVD) != 0)
    accuse(from, f, "RFC 5041 §4.1", fmt::format("set reserved bits in the DDP control field (0x{:02X})", ddp));
  if ((rdmap & 0x30) != 0)
    accuse(from, f, "RFC 5040 §4.1", fmt::format("set reserved bits in the RDMAP control field (0x{:02X})", rdmap));
  const auto rule = wire::rule_of(h.opcode);
  if (!rule.assigned) {
    accuse(
        from, f, "RFC 5040 §4.1",
        fmt::format("sent RDMAP opcode 0x{:X}, which {}", static_cast<unsigned>(h.opcode),
                    static_cast<unsigned>(h.opcode) == 0xF ? "is for experiments (RFC 6580 §3.1)" : "is not assigned"));
    complaint(from, {PARLEY_RDMAP_LAYER_RDMAP, 2, 6, f.first.frame});
    return false;
  }
  // Peers that know RFC 5040 only answer the opcodes of RFC 7306 with "unexpected opcode"; that is no fault of the
  // sender, yet it explains the Terminate.
  if (h.opcode >= RdmapOpcode::immediate) complaint(from, {PARLEY_RDMAP_LAYER_RDMAP, 2, 6, f.first.frame}, true);
  if (rule.tagged != h.tagged) {
    accuse(from, f, "RFC 5040 §4.2",
           fmt::format("sent a {} in {} DDP segment", name_of(h), h.tagged ? "a tagged" : "an untagged"));
    complaint(from, {PARLEY_RDMAP_LAYER_RDMAP, 2, 6, f.first.frame, true});
    return false;
  }
  if (!h.tagged && rule.qn != h.qn) {
    accuse(from, f, "RFC 5040 §4.2",
           fmt::format("sent a {} on queue {}, it belongs on queue {}", name_of(h), h.qn, rule.qn));
    complaint(from, {PARLEY_RDMAP_LAYER_DDP, 2, 1, f.first.frame});
    return false;
  }
  // RFC 5040 §4.1: only the Sends with Invalidate have a use for this word.
  if (!h.tagged && h.stag != 0 && !invalidates(h.opcode))
    findings_.warn(
        f.first.frame, from, "RFC 5040 §4.1",
        fmt::format("the {} set the Invalidate STag word of a {} to 0x{:08x}", to_string(from), name_of(h), h.stag));
  return true;
}

void RdmapCheck::dispatch(Side from, const WalkedFpdu& f, const DdpHeader& h) {
  State& s = at(from);
  bool count = h.last;
  if (!h.tagged && !check_untagged(from, f, h)) count = h.last;
  if (count && s.counts != nullptr) {
    ++s.counts->messages;
    ++s.counts->messages_by_opcode[static_cast<std::size_t>(h.opcode) & 0xF];
  }
  switch (h.opcode) {
    case RdmapOpcode::rdma_write: return check_write(from, f, h);
    case RdmapOpcode::read_request: return check_read_request(from, f, h);
    case RdmapOpcode::read_response: return check_read_response(from, f, h);
    case RdmapOpcode::atomic_request: return check_atomic_request(from, f, h);
    case RdmapOpcode::atomic_response: return check_atomic_response(from, f, h);
    case RdmapOpcode::terminate: return check_terminate(from, f, h);
    case RdmapOpcode::immediate:
    case RdmapOpcode::immediate_se:
      if (payload_of(f, h) != PARLEY_RDMAP_IMMEDIATE_LEN) {
        accuse(from, f, "RFC 7306 §6.3", fmt::format("sent Immediate Data of {} octets (8 is due)", payload_of(f, h)));
        complaint(from, {PARLEY_RDMAP_LAYER_RDMAP, 2, 6, f.first.frame, true});
      }
      return;
    default: return;
  }
}

bool RdmapCheck::check_untagged(Side from, const WalkedFpdu& f, const DdpHeader& h) {
  State& s = at(from);
  Queue& q = s.queues[h.qn & 3];
  const std::string name = name_of(h);
  bool good = true;
  if (q.open && h.msn == q.msn) {
    if (h.mo != q.mo) {
      accuse(from, f, "RFC 5041 §5.2",
             fmt::format("sent a {} segment with MO {}, {} was due (queue {}, MSN {})", name, h.mo, q.mo, h.qn, h.msn));
      complaint(from, {PARLEY_RDMAP_LAYER_DDP, 2, 4, f.first.frame});
      good = false;
    }
    if (h.opcode != q.opcode)
      accuse(from, f, "RFC 5040 §4.1",
             fmt::format("changed the opcode inside a message to {} (queue {}, MSN {})", name, h.qn, h.msn));
  } else {
    if (q.open)
      accuse(from, f, "RFC 5041 §5.2",
             fmt::format("began message {} on queue {} before the last segment of message {}", h.msn, h.qn, q.msn));
    if (q.known && h.msn != q.next_msn) {
      // RFC 5041 §4.3: MSN begins at 1 and grows by one per message and queue.
      accuse(from, f, "RFC 5041 §4.3",
             fmt::format("sent a {} with MSN {}, {} was due (queue {})", name, h.msn, q.next_msn, h.qn));
      complaint(from, {PARLEY_RDMAP_LAYER_DDP, 2, 3, f.first.frame});
      good = false;
    }
    if (q.known && h.mo != 0) {
      accuse(from, f, "RFC 5041 §5.2",
             fmt::format("began a {} at MO {}, a message begins at 0 (queue {}, MSN {})", name, h.mo, h.qn, h.msn));
      complaint(from, {PARLEY_RDMAP_LAYER_DDP, 2, 4, f.first.frame});
      good = false;
    }
  }
  q.known = true;
  q.msn = h.msn;
  q.next_msn = h.msn + 1;
  q.mo = h.mo + static_cast<std::uint32_t>(payload_of(f, h));
  q.open = !h.last;
  q.opcode = h.opcode;
  if (!h.last && !is_send(h.opcode))
    accuse(from, f, "RFC 5040 §4.2", fmt::format("cut a {} in several segments; it has one", name));
  return good;
}

void RdmapCheck::check_write(Side from, const WalkedFpdu& f, const DdpHeader& h) {
  Tagged& w = at(from).write;
  if (w.open && (h.stag != w.stag || h.to != w.to))
    accuse(from, f, "RFC 5041 §5.2",
           fmt::format("continued an RDMA Write at STag 0x{:08x} TO 0x{:x}, STag 0x{:08x} TO 0x{:x} was due", h.stag,
                       h.to, w.stag, w.to));
  if (payload_of(f, h) > 0 && h.to + payload_of(f, h) < h.to) {
    accuse(from, f, "RFC 5041 §7.1", fmt::format("sent an RDMA Write whose TO 0x{:x} wraps", h.to));
    complaint(from, {PARLEY_RDMAP_LAYER_DDP, 1, 3, f.first.frame});
  } else if (payload_of(f, h) > 0) {
    // Whether the STag is valid cannot be seen; if the peer says it is not, this is what it speaks of.
    complaint(from, {PARLEY_RDMAP_LAYER_DDP, 1, 0, f.first.frame}, true);
  }
  w = {!h.last, h.stag, h.to + payload_of(f, h)};
}

void RdmapCheck::check_outstanding(Side from, const WalkedFpdu& f) {
  State& s = at(from);
  const std::size_t n = s.reads.size() + s.atomics.size();
  if (!s.reads_reliable || !s.read_limit || n <= *s.read_limit) return;
  // RFC 6581 §9.1: ORD is at most the peer's IRD; RFC 5040 §5.2.1: never more outstanding than that.
  accuse(from, f, "RFC 5040 §5.2.1", fmt::format("has {} RDMA Reads outstanding, {} were agreed", n, *s.read_limit));
}

bool RdmapCheck::room_for_request(Side from, const WalkedFpdu& f, std::size_t outstanding) {
  if (outstanding < outstanding_max) return true;
  State& s = at(from);
  if (!s.reads_too_many)
    findings_.note(f.first.frame, from, "",
                   fmt::format("the {} has more than {} requests outstanding: from here on its Reads and Atomics are "
                               "not matched with their answers",
                               to_string(from), outstanding_max));
  s.reads_too_many = true;
  return false;
}

void RdmapCheck::check_read_request(Side from, const WalkedFpdu& f, const DdpHeader& h) {
  State& s = at(from);
  if (payload_of(f, h) != PARLEY_RDMAP_READ_REQUEST_LEN) {
    accuse(from, f, "RFC 5040 §4.4", fmt::format("sent a Read Request of {} octets (28 is due)", payload_of(f, h)));
    return;
  }
  const auto q = f.known < f.ulpdu.size() ? Result<wire::ReadRequest>(fail(Errc::truncated))
                                          : wire::ReadRequest::parse(f.ulpdu.subspan(h.size()));
  if (!q || !room_for_request(from, f, s.reads.size())) {
    s.reads_reliable = false;
    return;
  }
  s.reads.push_back({*q, f.first.frame, 0, h.msn});
  check_outstanding(from, f);
}

void RdmapCheck::check_read_response(Side from, const WalkedFpdu& f, const DdpHeader& h) {
  State& requester = at(other(from));
  auto& reads = requester.reads;
  if (!requester.reads_reliable) {  // some requests or answers are not known: look for one that fits
    const auto fits = [&](const Outstanding& o) {
      return o.request.sink_stag == h.stag && h.to >= o.request.sink_to &&
             h.to - o.request.sink_to + payload_of(f, h) <= o.request.size;
    };
    const auto it = std::find_if(reads.begin(), reads.end(), fits);
    if (it == reads.end()) return;
    reads.erase(reads.begin(), h.last ? it + 1 : it);
    return;
  }
  if (reads.empty()) {
    accuse(from, f, "RFC 5040 §5.2", "sent a Read Response although no Read is outstanding");
    complaint(from, {PARLEY_RDMAP_LAYER_RDMAP, 2, 6, f.first.frame, true});
    return;
  }
  Outstanding& o = reads.front();
  const std::uint64_t due = o.request.sink_to + o.done;
  if (h.stag != o.request.sink_stag || h.to != due)
    accuse(from, f, "RFC 5040 §4.5",
           fmt::format("answered the Read Request of frame {} at STag 0x{:08x} TO 0x{:x}, its sink is STag 0x{:08x} "
                       "TO 0x{:x}",
                       o.frame, h.stag, h.to, o.request.sink_stag, due));
  o.done += payload_of(f, h);
  if (o.done > o.request.size)
    accuse(from, f, "RFC 5040 §5.2",
           fmt::format("sent {} octets for the Read Request of frame {}, which asked for {}", o.done, o.frame,
                       o.request.size));
  if (!h.last) return;
  if (o.done < o.request.size)
    accuse(from, f, "RFC 5040 §5.2",
           fmt::format("ended the Read Response after {} octets, the request of frame {} asked for {}", o.done, o.frame,
                       o.request.size));
  reads.pop_front();
}

void RdmapCheck::check_atomic_request(Side from, const WalkedFpdu& f, const DdpHeader& h) {
  State& s = at(from);
  if (payload_of(f, h) != PARLEY_RDMAP_ATOMIC_REQUEST_LEN) {
    accuse(from, f, "RFC 7306 §5.2", fmt::format("sent an Atomic Request of {} octets (52 is due)", payload_of(f, h)));
    return;
  }
  const auto q = f.known < f.ulpdu.size() ? Result<wire::AtomicRequest>(fail(Errc::truncated))
                                          : wire::AtomicRequest::parse(f.ulpdu.subspan(h.size()));
  if (!q || !room_for_request(from, f, s.atomics.size())) {
    s.reads_reliable = false;
    return;
  }
  if (q->aop != PARLEY_RDMAP_ATOMIC_FETCH_ADD && q->aop != PARLEY_RDMAP_ATOMIC_CMP_SWAP)
    accuse(from, f, "RFC 7306 §5.2.1", fmt::format("sent an Atomic Request with AOpCode {}, not assigned", q->aop));
  if (q->to % 8 != 0) {
    accuse(from, f, "RFC 7306 §5.1", fmt::format("asked for an Atomic at TO 0x{:x}, not a multiple of 8", q->to));
    complaint(from, {PARLEY_RDMAP_LAYER_RDMAP, 2, 7, f.first.frame});
  }
  s.atomics.push_back(q->request_id);
  check_outstanding(from, f);
}

void RdmapCheck::check_atomic_response(Side from, const WalkedFpdu& f, const DdpHeader& h) {
  State& requester = at(other(from));
  if (payload_of(f, h) != PARLEY_RDMAP_ATOMIC_RESPONSE_LEN) {
    accuse(from, f, "RFC 7306 §5.2", fmt::format("sent an Atomic Response of {} octets (12 is due)", payload_of(f, h)));
    return;
  }
  if (f.known < f.ulpdu.size()) {
    requester.reads_reliable = false;
    return;
  }
  const auto a = wire::AtomicResponse::parse(f.ulpdu.subspan(h.size()));
  const auto it = std::find(requester.atomics.begin(), requester.atomics.end(), a ? a->request_id : 0);
  if (it == requester.atomics.end()) {
    if (requester.reads_reliable && a)
      accuse(from, f, "RFC 7306 §5.2.2",
             fmt::format("sent an Atomic Response for request 0x{:x}, which is not outstanding", a->request_id));
    return;
  }
  if (requester.reads_reliable && it != requester.atomics.begin())
    accuse(from, f, "RFC 7306 §5.2.2",
           fmt::format("answered Atomic request 0x{:x} before 0x{:x}", a->request_id, requester.atomics.front()));
  requester.atomics.erase(it);
}

void RdmapCheck::finish(std::uint64_t last_frame) {
  for (const Side side : {Side::initiator, Side::responder}) {
    State& s = at(side);
    const bool ended = at(other(side)).terminated || s.terminated;
    if (!s.reads.empty() && s.reads_reliable && !ended)
      findings_.note(
          last_frame, side, "RFC 5040 §5.2",
          fmt::format("{} Read Request{} of the {} (first in frame {}) got no complete answer", s.reads.size(),
                      s.reads.size() == 1 ? "" : "s", to_string(side), s.reads.front().frame));
    for (std::uint32_t qn = 0; qn < s.queues.size(); ++qn)
      if (s.queues[qn].open && !ended)
        findings_.note(last_frame, side, "RFC 5041 §5.2",
                       fmt::format("the last message of the {} on queue {} (MSN {}) has no last segment",
                                   to_string(side), qn, s.queues[qn].msn));
  }
}

std::string describe_segment(const WalkedFpdu& f, const DdpHeader& h) {
  std::string text = name_of(h);
  const std::size_t payload = payload_of(f, h);
  const std::string more = h.last ? "" : " more";
  const ConstBytes body = f.ulpdu.subspan(h.size());
  if (h.opcode == RdmapOpcode::terminate && !h.tagged) {
    if (const auto t = wire::Terminate::parse(body))
      text += fmt::format(" {}{}", describe_terminate(t->layer, t->etype, t->code),
                          t->nibbles_swapped ? ", nibbles swapped" : "");
  } else if (h.tagged) {
    text += fmt::format(" stag=0x{:x} to=0x{:x} len={}{}", h.stag, h.to, payload, more);
  } else {
    text += fmt::format(" msn={}", h.msn);
    if (h.mo != 0 || !h.last) text += fmt::format(" mo={}", h.mo);
    const auto q = wire::ReadRequest::parse(body);
    if (h.opcode == RdmapOpcode::read_request && q) {
      text += fmt::format(" size={} from 0x{:x}:0x{:x}", q->size, q->source_stag, q->source_to);
    } else {
      text += fmt::format(" len={}{}", payload, more);
    }
    if (invalidates(h.opcode)) text += fmt::format(" inv=0x{:x}", h.stag);
  }
  if (f.crc == WalkedFpdu::Crc::bad) text += " BAD CRC";
  return text;
}

void RdmapCheck::tell(Side from, const WalkedFpdu& f, const DdpHeader& h) {
  if (!event_) return;
  const bool terminates = h.opcode == RdmapOpcode::terminate && !h.tagged;
  event_(f, from, terminates ? LadderEvent::Kind::terminate : LadderEvent::Kind::fpdu, describe_segment(f, h));
}

}  // namespace parley::verdict
