// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "capture/rules/rdmap/rdmap_check.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/bytes_io.hpp"
#include "base/text.hpp"

namespace parley::capture {

using wire::DdpHeader;
using wire::RdmapOpcode;

namespace {

bool is_send(RdmapOpcode op) {
  return op == RdmapOpcode::send || op == RdmapOpcode::send_inv || op == RdmapOpcode::send_se ||
         op == RdmapOpcode::send_se_inv;
}
bool invalidates(RdmapOpcode op) { return op == RdmapOpcode::send_inv || op == RdmapOpcode::send_se_inv; }
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

void RdmapCheck::record_fault(Side culprit, Complaint c, bool weak) {
  State& s = at(culprit);
  if (!weak && s.faults.size() < faults_max) s.faults.push_back(c);
  if (weak && s.fault && !s.fault_weak) return;
  s.fault = c;
  s.fault_weak = weak;
}

void RdmapCheck::record_fault_at(Side from, const WalkedFpdu& f, Complaint c) {
  c.frame = f.last.frame;
  c.end = f.position + f.wire_octets;
  record_fault(from, c);
}

void RdmapCheck::report_violation(Side from, const WalkedFpdu& f, Rule rule, std::string text) {
  findings_.add(f.last.frame, from, rule, fmt::format("the {} {}", to_string(from), text));
}

void RdmapCheck::lost(Side side) {
  State& s = at(side);
  s.lossy = true;
  for (auto& q : s.queues) {
    q.known = false;
    q.extent.close();
  }
  s.write.extent.close();
  s.write_under_way = true;
  s.previous_write = {};
  reads_unknown();
}

void RdmapCheck::segment(Side from, const WalkedFpdu& f) {
  State& s = at(from);
  ++s.segments;
  if (s.counts != nullptr) ++s.counts->fpdus;
  const auto h = DdpHeader::parse(f.ulpdu.first(std::min(f.known, f.ulpdu.size())));
  if (!h) {
    if (f.known < f.ulpdu.size()) return lost(from);  // the capture cut the header
    report_violation(from, f, Rule::ddp_header,
                     fmt::format("sent a ULPDU of {}, too short for a DDP header", counted(f.ulpdu.size(), "octet")));
    record_fault_at(from, f, {.layer = PARLEY_RDMAP_LAYER_LLP, .etype = 0, .code = 3, .any_code = true});
    return;
  }
  if (s.recent.empty()) s.recent.reserve(4);
  if (s.recent.size() < recent_max) s.recent.emplace_back();
  Recent& r = s.recent[s.recent_next];
  s.recent_next = (s.recent_next + 1) % recent_max;
  r.size = h->size();
  r.length = static_cast<std::uint32_t>(f.ulpdu.size());
  r.frame = f.last.frame;
  std::copy_n(f.ulpdu.begin(), r.size, r.head.begin());
  find_terminated(at(other(from)), r);
  tell(from, f, *h);
  if (s.terminated)
    // RFC 5040 §5.4: after the Terminate its sender sends no RDMAP message.
    report_violation(
        from, f, Rule::rdmap_after_terminate,
        fmt::format("sent {} after its Terminate in frame {}", with_article(name_of(*h)), s.terminate_frame));
  if (!check_controls(from, f, *h)) {
    // After a segment that cannot be decoded, the MSNs of this direction are unknown.
    for (auto& q : s.queues) q.known = false;
    reads_unknown();
  } else {
    dispatch(from, f, *h);
  }
  at(other(from)).behind = false;
}

bool RdmapCheck::check_controls(Side from, const WalkedFpdu& f, const DdpHeader& h) {
  Reader r(f.ulpdu);
  const std::uint8_t ddp = r.u8(), rdmap = r.u8();
  const std::uint8_t version_code = h.tagged ? 4 : 6, type = h.tagged ? 1 : 2;
  if (h.ddp_version != version_) {
    report_violation(from, f, Rule::ddp_version,
                     fmt::format("sent DDP version {} ({} is expected)", h.ddp_version, version_));
    record_fault_at(from, f, {PARLEY_RDMAP_LAYER_DDP, type, version_code});
    return false;
  }
  if (h.rdmap_version != version_) {
    report_violation(from, f, Rule::rdmap_version,
                     fmt::format("sent RDMAP version {} ({} is expected)", h.rdmap_version, version_));
    record_fault_at(from, f, {PARLEY_RDMAP_LAYER_RDMAP, 2, 5});
    return false;
  }
  if ((ddp & PARLEY_DDP_RSVD) != 0)
    report_violation(from, f, Rule::ddp_reserved,
                     fmt::format("set reserved bits in the DDP control field (0x{:02X})", ddp));
  if ((rdmap & 0x30) != 0)
    report_violation(from, f, Rule::rdmap_reserved,
                     fmt::format("set reserved bits in the RDMAP control field (0x{:02X})", rdmap));
  const auto rule = wire::rule_of(h.opcode);
  if (!rule.assigned) {
    report_violation(
        from, f, Rule::rdmap_opcode,
        fmt::format("sent RDMAP opcode 0x{:X}, which {}", static_cast<unsigned>(h.opcode),
                    static_cast<unsigned>(h.opcode) == 0xF ? "is for experiments (RFC 6580 §3.1)" : "is not assigned"));
    record_fault_at(from, f, {PARLEY_RDMAP_LAYER_RDMAP, 2, 6});
    return false;
  }
  // A peer without RFC 7306 answers its opcodes with "unexpected opcode". This is not a fault of the sender, but it
  // explains the Terminate.
  if (h.opcode >= RdmapOpcode::immediate) record_fault(from, {PARLEY_RDMAP_LAYER_RDMAP, 2, 6, f.last.frame}, true);
  if (rule.tagged != h.tagged) {
    report_violation(
        from, f, Rule::rdmap_tagged,
        fmt::format("sent {} in {} DDP segment", with_article(name_of(h)), h.tagged ? "a tagged" : "an untagged"));
    record_fault_at(from, f, {.layer = PARLEY_RDMAP_LAYER_RDMAP, .etype = 2, .code = 6, .any_code = true});
    return false;
  }
  if (!h.tagged && rule.qn != h.qn) {
    report_violation(
        from, f, Rule::rdmap_queue,
        fmt::format("sent {} on queue {}, it belongs on queue {}", with_article(name_of(h)), h.qn, rule.qn));
    record_fault_at(from, f, {PARLEY_RDMAP_LAYER_DDP, 2, 1});
    return false;
  }
  // RFC 5040 §4.1: only the Sends with Invalidate use this word.
  if (!h.tagged && h.stag != 0 && !invalidates(h.opcode))
    findings_.add(f.last.frame, from, Rule::rdmap_stag_word,
                  fmt::format("the {} set the Invalidate STag word of {} to 0x{:08x}", to_string(from),
                              with_article(name_of(h)), h.stag));
  return true;
}

void RdmapCheck::dispatch(Side from, const WalkedFpdu& f, const DdpHeader& h) {
  State& s = at(from);
  if (!h.tagged) check_untagged(from, f, h);
  if (h.last && s.counts != nullptr) {
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
        report_violation(from, f, Rule::rdmap_immediate_length,
                         fmt::format("sent Immediate Data of {} (8 are expected)", counted(payload_of(f, h), "octet")));
        record_fault_at(from, f, {.layer = PARLEY_RDMAP_LAYER_RDMAP, .etype = 2, .code = 6, .any_code = true});
      }
      return;
    default: return;
  }
}

void RdmapCheck::check_untagged(Side from, const WalkedFpdu& f, const DdpHeader& h) {
  State& s = at(from);
  Queue& q = s.queues[h.qn & 3];
  const std::string name = name_of(h);
  if (q.extent.open() && h.msn == q.msn) {
    // RFC 5041 §4.3: RsvdULP, which holds the opcode and the Invalidate STag, is the same in all segments of a message.
    if (h.opcode != q.opcode)
      report_violation(from, f, Rule::ddp_opcode_changed,
                       fmt::format("changed the opcode inside a message to {} (queue {}, MSN {})", name, h.qn, h.msn));
    else if (h.stag != q.word)
      report_violation(
          from, f, Rule::ddp_stag_changed,
          fmt::format("changed the Invalidate STag inside a message from 0x{:08x} to 0x{:08x} (queue {}, MSN {})",
                      q.word, h.stag, h.qn, h.msn));
  } else {
    // RFC 5041 §5.3: messages are sent in order; each is complete before the next begins.
    if (q.extent.open() && !q.extent.last_seen() && !q.extent.begin_unknown())
      report_violation(
          from, f, Rule::ddp_message_open,
          fmt::format("began message {} on queue {} before the last segment of message {}", h.msn, h.qn, q.msn));
    else
      settle_untagged(from, h.qn & 3, over_at(f));
    if (q.known && h.msn != q.next_msn) {
      // RFC 5041 §4.3: in each queue, MSN begins at 1 and grows by one per message.
      report_violation(
          from, f, Rule::ddp_msn,
          fmt::format("sent {} with MSN {}, {} was expected (queue {})", with_article(name), h.msn, q.next_msn, h.qn));
      record_fault_at(from, f, {PARLEY_RDMAP_LAYER_DDP, 2, 3});
    }
    q.known&& h.msn == q.next_msn ? q.extent.open_at(0) : q.extent.open_with(h.mo);
    q.opcode = h.opcode;
    q.word = h.stag;
  }
  q.known = true;
  q.msn = h.msn;
  q.next_msn = h.msn + 1;
  place_untagged(from, f, h, q);
  if (!h.last && !is_send(h.opcode)) {
    report_violation(from, f, Rule::rdmap_one_segment,
                     fmt::format("cut {} in several segments; it has one", with_article(name)));
    q.extent.close();
  }
}

void RdmapCheck::place_untagged(Side from, const WalkedFpdu& f, const DdpHeader& h, Queue& q) {
  using Placed = MessageExtent::Placed;
  const std::uint64_t due = q.extent.due();
  if (!is_send(h.opcode) && h.mo != 0) {
    // RFC 5040 §4.2: untagged messages other than Sends have one segment.
    report_violation(from, f, Rule::ddp_mo_begin,
                     fmt::format("began {} at MO {}, a message begins at 0 (queue {}, MSN {})",
                                 with_article(name_of(h)), h.mo, h.qn, h.msn));
    record_fault_at(from, f, {PARLEY_RDMAP_LAYER_DDP, 2, 4});
    q.extent.close();
    return;
  }
  switch (q.extent.place(h.mo, payload_of(f, h), h.last)) {
    case Placed::in_order: break;
    case Placed::out_of_order:
      record_fault(from, {PARLEY_RDMAP_LAYER_DDP, 2, 4, f.last.frame}, true);  // a peer may report it as a fault
      q.extent.note_odd({f.last.frame, h.mo, due});
      break;
    case Placed::wrong:
      report_violation(
          from, f, Rule::ddp_mo,
          q.extent.last_seen() && h.mo >= due
              ? fmt::format("sent {} segment with MO {} behind the last segment of the message (queue {}, MSN {})",
                            with_article(name_of(h)), h.mo, h.qn, h.msn)
              : fmt::format("sent {} segment with MO {}, {} was expected (queue {}, MSN {})", with_article(name_of(h)),
                            h.mo, due, h.qn, h.msn));
      record_fault_at(from, f, {PARLEY_RDMAP_LAYER_DDP, 2, 4});
      if (!h.last) q.extent.open_with(h.mo + payload_of(f, h));
      if (h.last) q.extent.close();
      return;
    case Placed::unknown:
      q.known = false;
      q.extent.close();
      return;
  }
  // If a loss ended inside the message, segments with any offset may follow (RFC 5041 §5.3).
  if (q.extent.whole() && (!q.extent.begin_unknown() || q.extent.begin() == 0))
    settle_untagged(from, h.qn & 3, over_at(f));
}

// Only a FIN shows that a message is over. Before a RST or after a Terminate, the sender may not have sent the rest. If
// there is no end, the rest may follow after the capture.
RdmapCheck::MessageEnd RdmapCheck::over_at_end(const End& end, const MessageExtent::OutOfOrderSegment& odd) const {
  const std::uint64_t frame = end.fin_frame != 0 ? end.fin_frame : end.rst_frame;
  const bool terminated = std::any_of(state_.begin(), state_.end(), [&](const State& s) {
    return s.terminate_frame != 0 && s.terminate_frame < frame;
  });
  return {frame != 0 ? frame : odd.frame, 0, end.fin_frame != 0 && !terminated};
}

/// ", from frame 7 on" if the disorder began in an earlier frame; else empty.
std::string RdmapCheck::since(const MessageExtent::OutOfOrderSegment& odd, const MessageEnd& over) {
  return odd.frame == over.frame ? std::string() : fmt::format(", from frame {} on", odd.frame);
}

void RdmapCheck::settle_untagged(Side from, std::uint32_t qn, const MessageEnd& over) {
  Queue& q = at(from).queues[qn];
  const MessageExtent::OutOfOrderSegment odd = q.extent.odd();
  const std::string name = with_article(to_string(q.opcode));
  const bool out_of_order = odd.frame != 0;
  if (out_of_order && (q.extent.contiguous() || q.extent.begin_unknown() || !over.surely)) {
    // RFC 5041 §5.3: segments SHOULD be sent in the order of their MO; a receiver accepts any order.
    findings_.add(over.frame, from, Rule::ddp_order,
                  fmt::format("the {} sent the segments of {} out of the order of their MO{} (queue {}, MSN {})",
                              to_string(from), name, since(odd, over), qn, q.msn));
  } else if (out_of_order) {
    findings_.add(over.frame, from, odd.due == 0 ? Rule::ddp_mo_begin : Rule::ddp_octets_missing,
                  odd.due == 0 ? fmt::format("the {} began {} at MO {} in frame {}, a message begins at 0 "
                                             "(queue {}, MSN {})",
                                             to_string(from), name, odd.at, odd.frame, qn, q.msn)
                               : fmt::format("the {} left out octets of {}: in frame {} it went on at MO {}, {} "
                                             "was expected (queue {}, MSN {})",
                                             to_string(from), name, odd.frame, odd.at, odd.due, qn, q.msn));
    if (over.end != 0)
      record_fault(from,
                   {.layer = PARLEY_RDMAP_LAYER_DDP, .etype = 2, .code = 4, .frame = over.frame, .end = over.end});
  }
  q.extent.close();
}

void RdmapCheck::check_write(Side from, const WalkedFpdu& f, const DdpHeader& h) {
  State& s = at(from);
  const std::size_t n = payload_of(f, h);
  if (s.write.extent.open() && (h.stag != s.write.stag || !place_write(from, f, h))) {
    const bool joined = joins_previous(s);
    if (!s.write.extent.last_seen() && !joined && s.write.extent.contiguous())
      report_violation(
          from, f, Rule::ddp_write_place,
          fmt::format("continued an RDMA Write at STag 0x{:08x} TO 0x{:x}, STag 0x{:08x} TO 0x{:x} was expected",
                      h.stag, h.to, s.write.stag, s.write.extent.due()));
    if (joined) s.write.extent.note_odd({f.last.frame, h.to, s.write.extent.due()});
    settle_write(from, over_at(f));
  }
  if (n > 0 && h.to + n < h.to) {
    report_violation(from, f, Rule::ddp_to_wrap, fmt::format("sent an RDMA Write whose TO 0x{:x} wraps", h.to));
    record_fault_at(from, f, {PARLEY_RDMAP_LAYER_DDP, 1, 3});
    s.write.extent.close();
    return;
  }
  // The wire does not show whether the STag is valid. If the peer reports an invalid STag, this is its cause.
  if (n > 0) record_fault(from, {PARLEY_RDMAP_LAYER_DDP, 1, 0, f.last.frame}, true);
  if (!s.write.extent.open() && !h.last) {
    s.write.stag = h.stag;
    s.write.extent.open_with(h.to);
    (void)place_write(from, f, h);
  } else if (!s.write.extent.open()) {
    s.previous_write = {true, h.stag, h.to};
    s.write_under_way = false;
  }
  if (s.write.extent.whole()) settle_write(from, over_at(f));
}

/// Whether the segment can belong to the open message.
bool RdmapCheck::place_write(Side from, const WalkedFpdu& f, const DdpHeader& h) {
  using Placed = MessageExtent::Placed;
  State& s = at(from);
  MessageExtent& e = s.write.extent;
  const std::uint64_t due = e.due();
  const Placed placed = e.place(h.to, payload_of(f, h), h.last);
  if (placed == Placed::out_of_order) e.note_odd({f.last.frame, h.to, due});
  if (placed == Placed::unknown) e.close();
  return placed != Placed::wrong;
}

/// Tagged segments do not identify their message. If the last segment was sent too early, the earlier ones look like
/// another message. True: the open message ends where the previous one began, so both are one.
bool RdmapCheck::joins_previous(const State& s) {
  return s.previous_write.known && s.previous_write.stag == s.write.stag && s.write.extent.contiguous() &&
         s.write.extent.due() == s.previous_write.to;
}

void RdmapCheck::settle_write(Side from, const MessageEnd& over) {
  State& s = at(from);
  MessageExtent& e = s.write.extent;
  const MessageExtent::OutOfOrderSegment odd = e.odd();
  const bool whole = e.contiguous();
  if (odd.frame != 0 && !whole && over.surely && !s.write_under_way)
    findings_.add(over.frame, from, Rule::ddp_octets_missing,
                  fmt::format("the {} left out octets of an RDMA Write: in frame {} it went on at STag 0x{:08x} TO "
                              "0x{:x}, TO 0x{:x} was expected",
                              to_string(from), odd.frame, s.write.stag, odd.at, odd.due));
  else if (odd.frame != 0)
    // RFC 5041 §5.3, as in settle_untagged(), by TO.
    findings_.add(
        over.frame, from, Rule::ddp_order,
        fmt::format("the {} sent the segments of an RDMA Write out of the order of their TO{} (STag 0x{:08x})",
                    to_string(from), since(odd, over), s.write.stag));
  s.previous_write = {true, s.write.stag, e.begin()};
  s.write_under_way = false;
  e.close();
}

void RdmapCheck::finish(std::uint64_t last_frame, End initiator, End responder) {
  for (const Side side : {Side::initiator, Side::responder}) {
    State& s = at(side);
    const End &own = side == Side::initiator ? initiator : responder,
              &answering = side == Side::initiator ? responder : initiator;
    for (std::uint32_t qn = 0; qn < s.queues.size(); ++qn)
      if (const auto& odd = s.queues[qn].extent.odd(); odd.frame != 0) settle_untagged(side, qn, over_at_end(own, odd));
    if (const auto& odd = s.write.extent.odd(); odd.frame != 0) settle_write(side, over_at_end(own, odd));
    if (const auto& odd = s.answer.odd(); odd.frame != 0) settle_answer(other(side), over_at_end(answering, odd));
  }
  for (const Side side : {Side::initiator, Side::responder}) judge_terminate(side);
  for (const Side side : {Side::initiator, Side::responder}) {
    State& s = at(side);
    const bool ended = at(other(side)).terminated || s.terminated;
    if (!s.requests.empty() && s.reads_reliable && !ended)
      findings_.add(last_frame, side, Rule::rdmap_read_unanswered,
                    fmt::format("{} of the {} (first in frame {}) got no complete answer",
                                counted(s.requests.size(), "Read Request"), to_string(side), s.requests.front().frame));
    for (std::uint32_t qn = 0; qn < s.queues.size(); ++qn)
      if (s.queues[qn].extent.open() && !s.queues[qn].extent.last_seen() && !ended)
        findings_.add(last_frame, side, Rule::ddp_no_last,
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

}  // namespace parley::capture
