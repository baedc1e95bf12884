// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The Terminate message: RFC 5040 §4.8. Linux siw exchanges the nibbles of octet 0 of the control word and puts M, D
// and R into the low bits, because it uses host bit-fields. Most of its Terminates show this by themselves. For the
// others, the earlier faults of the peer decide which reading is meant.
#include <fmt/format.h>

#include <algorithm>

#include "base/bytes_io.hpp"
#include "base/text.hpp"
#include "capture/rules/rdmap/rdmap_check.hpp"

namespace parley::capture {

using wire::DdpHeader;
using wire::RdmapOpcode;
using wire::Terminate;

std::string describe_terminate(std::uint8_t layer, std::uint8_t etype, std::uint8_t code) {
  const auto text = wire::terminate_text(layer, etype, code);
  return fmt::format("{} ({}/{}/{:02x})", text.empty() ? std::string_view("no registered meaning") : text, layer, etype,
                     code);
}

namespace {

constexpr std::size_t segment_length_len = 2;      // DDP Segment Length
constexpr std::uint8_t rdmap_version_code = 0x05;  // of layer 0, type 2: RFC 5040 §4.8

/// The first four octets of a Terminate, not interpreted.
struct RawControl {
  std::uint8_t octet0 = 0, code = 0, bits = 0, reserved = 0;
};
RawControl raw_control(ConstBytes body) {
  Reader r(body);
  RawControl c;
  c.octet0 = r.u8();
  c.code = r.u8();
  c.bits = r.u8();
  c.reserved = r.u8();
  return c;
}

}  // namespace

void RdmapCheck::check_terminate(Side from, const WalkedFpdu& f, const DdpHeader& h) {
  State& s = at(from);
  if (s.terminated) return;  // segment() has reported the extra Terminate
  s.terminated = true;
  s.terminate_frame = f.last.frame;
  const State& peer = at(other(from));
  s.held = std::make_unique<HeldTerminate>();
  HeldTerminate& held = *s.held;
  held.frame = f.last.frame;
  held.size = f.ulpdu.size();
  held.known = std::min(f.known, held.size);
  const ConstBytes kept = Reader(f.ulpdu).bytes(std::min(held.size, held_max));
  held.ulpdu.assign(kept.begin(), kept.end());
  held.before = peer.segments;
  held.cause = peer.fault;
  held.cause_weak = peer.fault_weak;
  held.behind = peer.behind || peer.lossy;
  const ConstBytes body = f.ulpdu.first(held.known).subspan(std::min(held.known, h.size()));
  if (const auto t = Terminate::parse(body)) s.terminate = Complaint{t->layer, t->etype, t->code, f.last.frame};
  for (std::size_t i = peer.recent.size(); i > 0; --i)
    find_terminated(s, peer.recent[(peer.recent_next + i - 1) % peer.recent.size()]);
}

/// Sets `quoted` to the last segment before the Terminate with the quoted header, else to the first such segment after
/// it.
void RdmapCheck::find_terminated(State& terminator, const Recent& segment) {
  if (!terminator.held) return;
  HeldTerminate& held = *terminator.held;
  const auto t = Terminate::parse(ConstBytes(held.ulpdu).subspan(PARLEY_DDP_UNTAGGED_LEN));
  if (!t || t->ddp_header.size() != segment.size) return;
  if (!std::equal(t->ddp_header.begin(), t->ddp_header.end(), segment.head.begin())) return;
  // If several segments have this header, the quoted length decides.
  if (!held.quoted || (t->m && held.quoted->length != t->ddp_segment_length && segment.length == t->ddp_segment_length))
    held.quoted = segment;
}

void RdmapCheck::judge_terminate(Side from) {
  State& s = at(from);
  if (!s.held) return;
  WalkedFpdu f;
  f.last.frame = s.held->frame;
  f.known = s.held->known;
  f.ulpdu = s.held->ulpdu;
  const bool whole = f.known == s.held->size;
  const ConstBytes body = f.ulpdu.first(std::min(f.known, f.ulpdu.size())).subspan(PARLEY_DDP_UNTAGGED_LEN);
  const auto t = Terminate::parse(body);
  s.terminate.reset();
  if (!t) {
    if (whole)
      report_violation(from, f, Rule::rdmap_terminate_length,
                       fmt::format("sent a Terminate of {} (at least 4 are expected)", counted(body.size(), "octet")));
    return;
  }
  check_terminate_order(from, f, *t, body);
  if (t->layer == PARLEY_RDMAP_LAYER_LLP && t->etype == 3 && !t->nibbles_swapped)
    // RFC 6580 §3.3 registers type 0 for MPA's errors.
    findings_.add(f.last.frame, from, Rule::rdmap_terminate_type,
                  fmt::format("the {} sent an MPA error with error type 3, it is type 0 (hardware of Chelsio and Intel "
                              "does so)",
                              to_string(from)));
  check_terminate_form(from, f, body, *t);
  if (!whole) return;
  check_terminate_parts(from, f, *t);
  check_terminate_header(from, f, *t);
}

// RFC 5040 §4.8: M, D and R say what follows the control word. The other bits are 0.
void RdmapCheck::check_terminate_form(Side from, const WalkedFpdu& f, ConstBytes body, const Terminate& t) {
  const HeldTerminate& held = *at(from).held;
  const RawControl raw = raw_control(body);
  const std::uint8_t used = t.nibbles_swapped ? 0x07 : PARLEY_RDMAP_TERM_M | PARLEY_RDMAP_TERM_D | PARLEY_RDMAP_TERM_R;
  if ((raw.bits & ~used) != 0 || raw.reserved != 0)
    report_violation(
        from, f, Rule::rdmap_terminate_reserved,
        fmt::format("set reserved bits in its Terminate (0x{:02x}{:02x})", raw.bits & ~used & 0xFF, raw.reserved));
  if (t.m != t.d)
    report_violation(from, f, Rule::rdmap_terminate_bits,
                     t.m ? "set M without D in its Terminate: a length without the header that it belongs to"
                         : "set D without M in its Terminate: a header without the length of its segment");
  else if (t.r && !t.d)
    report_violation(from, f, Rule::rdmap_terminate_bits,
                     "set R without D in its Terminate: a Read Request without its DDP header");
  const std::size_t came = held.size - PARLEY_DDP_UNTAGGED_LEN;
  std::size_t due = PARLEY_RDMAP_TERM_CTRL_LEN + (t.m || t.d ? segment_length_len : 0);
  if (t.d) {
    if (body.size() <= due && held.known < held.size) return;
    const bool tagged = body.size() > due && (body[due] & PARLEY_DDP_T) != 0;
    due += tagged ? PARLEY_DDP_TAGGED_LEN : PARLEY_DDP_UNTAGGED_LEN;
  }
  if (t.r) due += PARLEY_RDMAP_READ_REQUEST_LEN;
  if (came < due)
    report_violation(from, f, Rule::rdmap_terminate_length,
                     fmt::format("cut its Terminate: it has {}, M, D and R ask for {}", counted(came, "octet"), due));
  else if (came > due)
    report_violation(from, f, Rule::rdmap_terminate_length,
                     fmt::format("sent {} after the end of its Terminate", counted(came - due, "octet")));
}

void RdmapCheck::check_terminate_order(Side from, const WalkedFpdu& f, const Terminate& t, ConstBytes body) {
  const RawControl raw = raw_control(body);
  const std::uint8_t octet0 = raw.octet0, bits = raw.bits;
  const auto hi = static_cast<std::uint8_t>(octet0 >> 4), lo = static_cast<std::uint8_t>(octet0 & 0xF);
  const std::string sent = describe_terminate(hi, lo, t.code), exchanged = describe_terminate(lo, hi, t.code);
  const State& peer = at(other(from));
  const HeldTerminate& held = *at(from).held;
  const auto cause = [&](std::uint8_t layer, std::uint8_t etype) -> const Complaint* {
    const auto is = [&](const Complaint& c) { return c.layer == layer && c.etype == etype && c.code == t.code; };
    // A peer that accepted FPDUs after an Rtr frame has understood that frame.
    const bool outdated = held.cause_weak && (held.before > 0 || held.behind) && held.cause->code == rdmap_version_code;
    if (held.cause && is(*held.cause) && !outdated) return &*held.cause;
    const auto it = std::find_if(peer.faults.begin(), peer.faults.end(), is);
    return it == peer.faults.end() ? nullptr : &*it;
  };
  bool swapped = t.nibbles_swapped;
  std::string why;
  // Both readings are registered, and the bits do not decide: earlier faults decide, if the set-up is known.
  const bool either = hi != lo && (bits & 0xE7) == 0 && !wire::terminate_text(hi, lo, t.code).empty() &&
                      !wire::terminate_text(lo, hi, t.code).empty();
  if (either && !set_up_known_) {
    swapped = false;
  } else if (either) {
    const bool heard_nothing = held.before == 0 && !held.behind;
    const Complaint *as_sent = cause(hi, lo), *as_meant = cause(lo, hi);
    if ((as_sent == nullptr) != (as_meant == nullptr)) {
      swapped = as_meant != nullptr;
      if (swapped) why = fmt::format("; frame {} gives cause for the second", as_meant->frame);
    } else if (heard_nothing && hi != PARLEY_RDMAP_LAYER_LLP && lo == PARLEY_RDMAP_LAYER_LLP) {
      swapped = true;
      why = "; it had received no FPDU to which the first could apply";
    } else if (swapped) {
      why = "; the first would come with the DDP header of the faulty segment";
    }
  }
  at(from).terminate = swapped ? Complaint{lo, hi, t.code, f.last.frame} : Complaint{hi, lo, t.code, f.last.frame};
  if (swapped) {
    report_violation(
        from, f, Rule::rdmap_terminate_order,
        fmt::format("wrote the Terminate control word in the wrong order (0x{:02x}{:02x}{:02x}): as sent it reads {}, "
                    "meant is {}{}",
                    octet0, t.code, bits, sent, hi == lo ? sent + " with M, D and R in the low bits" : exchanged, why));
  } else if (wire::terminate_text(t.layer, t.etype, t.code).empty()) {
    findings_.add(f.last.frame, from, Rule::rdmap_terminate_meaning,
                  fmt::format("the {} sent a Terminate with {}", to_string(from), sent));
    return;
  }
  findings_.add(f.last.frame, from, Rule::rdmap_terminated,
                fmt::format("the {} terminated the stream: {}", to_string(from), swapped ? exchanged : sent));
}

// RFC 5040 §4.8 specifies which headers are sent with which error.
void RdmapCheck::check_terminate_parts(Side from, const WalkedFpdu& f, const Terminate& t) {
  const auto warn = [&](std::string_view text) {
    findings_.add(f.last.frame, from, Rule::rdmap_terminate_parts, fmt::format("the {} {}", to_string(from), text));
  };
  const Complaint meant = at(from).terminate.value_or(Complaint{t.layer, t.etype, t.code});
  if (meant.layer == PARLEY_RDMAP_LAYER_LLP) {
    if (t.m || t.d || t.r) warn("sent headers with the Terminate of an MPA error, which has none");
    return;
  }
  if (meant.layer == PARLEY_RDMAP_LAYER_RDMAP && meant.etype == 0) {
    if (t.m && t.d) warn("sent headers with the Terminate of a local error, which concerns no segment");
    return;
  }
  const bool of_segment = (meant.layer == PARLEY_RDMAP_LAYER_DDP && meant.etype != 0) ||
                          (meant.layer == PARLEY_RDMAP_LAYER_RDMAP && meant.etype == 2 && meant.code <= 6);
  if (of_segment && !t.d) return warn("left the DDP header of the faulty segment out of its Terminate (D)");
  const auto h = DdpHeader::parse(t.ddp_header);
  const bool of_read = meant.layer == PARLEY_RDMAP_LAYER_RDMAP && meant.etype == 1 && t.d && h && !h->tagged &&
                       h->opcode == RdmapOpcode::read_request;
  if (of_read && !t.r) warn("left the Read Request that it refuses out of its Terminate (R)");
}

// RFC 5041 §5.1, RFC 5040 §5.2: STag and TO of a zero-length message are not checked.
void RdmapCheck::check_terminate_of_nothing(Side from, const WalkedFpdu& f, const Terminate& t, const DdpHeader& h) {
  const Complaint meant = at(from).terminate.value_or(Complaint{t.layer, t.etype, t.code});
  const bool of_stag =
      meant.etype == 1 && meant.code <= 4 &&
      (meant.layer == PARLEY_RDMAP_LAYER_RDMAP || (meant.layer == PARLEY_RDMAP_LAYER_DDP && meant.code <= 3));
  if (!of_stag) return;
  if (h.tagged)
    return report_violation(from, f, Rule::ddp_empty_refused, "refused STag or TO of a message without octets");
  // The quoted Read Request may have the size that is still unanswered. Only the request itself shows the whole size.
  const auto& requests = at(other(from)).requests;
  const bool empty = std::any_of(requests.begin(), requests.end(), [&](const Outstanding& o) {
    return o.msn == h.msn && !o.atomic && o.request.size == 0;
  });
  if (h.opcode == RdmapOpcode::read_request && empty)
    report_violation(from, f, Rule::rdmap_empty_read_refused, "refused the source of a Read of no octets");
}

void RdmapCheck::check_terminate_header(Side from, const WalkedFpdu& f, const Terminate& t) {
  if (!t.d || t.ddp_header.empty()) return;
  const State& peer = at(other(from));
  const auto h = DdpHeader::parse(t.ddp_header);
  if (t.r && h && h->opcode != RdmapOpcode::read_request && !t.read_request.empty())
    report_violation(from, f, Rule::rdmap_terminate_read, "set R in a Terminate that concerns no Read Request");
  const std::optional<Recent>& match = at(from).held->quoted;
  if (!match) {
    // No report if the capture lacks octets of the stream, or if older segments are no longer remembered.
    if (!peer.lossy && at(from).held->before <= recent_max)
      report_violation(from, f, Rule::rdmap_terminate_header,
                       "copied into its Terminate a DDP header that the other side never sent");
    return;
  }
  const bool nothing_in_it = h && (!h->tagged || (match->length == match->size && h->last));
  if (nothing_in_it) check_terminate_of_nothing(from, f, t, *h);
  // RFC 5040 §4.8: the length of the terminated DDP segment with its header. A segment that the capture lacks may have
  // had the same header.
  const bool all_seen = !peer.lossy && !at(from).held->behind;
  if (t.m && t.ddp_segment_length != match->length && all_seen)
    report_violation(
        from, f, Rule::rdmap_terminate_segment,
        fmt::format("gave the terminated DDP segment of frame {} a length of {}, it had {}{}", match->frame,
                    counted(t.ddp_segment_length, "octet"), match->length,
                    t.ddp_segment_length + match->size == match->length ? " (the payload alone is not meant)" : ""));
}

}  // namespace parley::capture
