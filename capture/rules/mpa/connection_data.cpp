// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// MpaConnection: FPDUs.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/text.hpp"
#include "capture/rules/mpa/connection.hpp"
#include "capture/rules/rdmap/fields.hpp"

namespace parley::capture {

void MpaConnection::Half::fpdu(const WalkedFpdu& f) { owner->on_fpdu(*this, f); }

// RFC 5044 §7.1: each side sends one startup frame, and after it only FPDUs.
void MpaConnection::Half::startup_frame(const wire::MpaFrameView& frame, const SegmentRef& ref) {
  MpaConnection& c = *owner;
  const Side side = c.side_of(*this);
  if (c.picked_up() || c.rdmap_->faulty(side) || !c.facts_.request || !c.facts_.reply || counts.missing_octets > 0)
    return;
  if (side == Side::initiator && c.rejection_may_be_lost()) return;
  const bool reply = frame.key == wire::MpaKey::rep;
  if (frame.key == wire::MpaKey::rtr || frame.key == wire::MpaKey::rtr_hex)
    c.findings_.add(ref.frame, side, Rule::mpa_rtr_frame_unasked,
                    fmt::format("the {} sent an Rtr frame that was not agreed (S)", to_string(side)));
  else
    c.findings_.add(ref.frame, side, Rule::mpa_second_startup,
                    fmt::format("the {} sent a second {} where an FPDU is expected", to_string(side),
                                reply ? "Reply" : "startup frame"));
  c.rdmap_->record_fault(side, {.layer = PARLEY_RDMAP_LAYER_LLP,
                                .code = 3,
                                .frame = ref.frame,
                                .any_code = true,
                                .end = walker.position() + PARLEY_MPA_HEADER_LEN});
  LadderEvent* e = c.event(ref.frame, ref.at, index, LadderEvent::Kind::startup,
                           reply ? "a second MPA Reply" : "a second startup frame");
  if (e != nullptr && c.with_fields_) startup_fields(capture::read_startup(frame), e->fields);
}

void MpaConnection::Half::bad_length(std::uint32_t length, const SegmentRef& ref) {
  MpaConnection& c = *owner;
  const Side side = c.side_of(*this);
  if (c.tap_ != nullptr) c.tap_->lone_length(c.tapped(*this), fed_at + walker.position());
  if (c.doubted(*this)) return;
  // RFC 5044 §3: a ULPDU has 1 to 64768 octets. After an earlier fault, octets have no defined meaning (§8).
  if (!c.rdmap_->faulty(side))
    c.findings_.add(
        ref.frame, side, Rule::mpa_ulpdu_length,
        fmt::format("the {} sent an FPDU with ULPDU_Length {} (1 to 64768 are allowed)", to_string(side), length));
  c.event(ref.frame, ref.at, index, LadderEvent::Kind::fpdu, fmt::format("FPDU with ULPDU_Length {}", length));
  c.rdmap_->record_fault(side, {.layer = PARLEY_RDMAP_LAYER_DDP,
                                .etype = 2,
                                .code = 6,
                                .frame = ref.frame,
                                .any_code = true,
                                .end = walker.position() + PARLEY_MPA_LEN_LEN});
  c.rdmap_->lost(side);
  if (fpdus++ == 0) first_fpdu_frame = ref.frame;
}

// RFC 5044 §4.3: only the stream to a side that requested markers has them.
void MpaConnection::Half::markers_differ(bool present, const SegmentRef& ref) {
  MpaConnection& c = *owner;
  const Side side = c.side_of(*this);
  c.findings_.add(ref.frame, side, present ? Rule::mpa_markers_unasked : Rule::mpa_markers_left_out,
                  present ? fmt::format("the {} inserts markers, which the {} did not ask for (M=0)", to_string(side),
                                        to_string(other(side)))
                          : fmt::format("the {} sends FPDUs without the markers that the {} requires (M=1)",
                                        to_string(side), to_string(other(side))));
  c.rdmap_->record_fault(side, {PARLEY_RDMAP_LAYER_LLP, 0, 3, ref.frame, true});
}

void MpaConnection::Half::resynchronised(std::uint64_t octets, const SegmentRef& ref) {
  evidence.proven = evidence.plausible = 0;
  owner->rdmap_->lost(owner->side_of(*this));
  if (evidence.needed && !std::exchange(evidence.met, true)) return;  // the first FPDU found: it was not lost before
  if (octets == 0) return;
  owner->findings_.add(ref.frame, owner->side_of(*this), Rule::mpa_found_again,
                       fmt::format("the FPDUs of the {} can be followed again, {} after they were lost",
                                   to_string(owner->side_of(*this)), counted(octets, "octet")));
}

mpa::Rtr MpaConnection::rtr_form(const WalkedFpdu& f) {
  const auto h = wire::DdpHeader::parse(f.ulpdu);
  if (!h || !h->last) return mpa::Rtr::none;
  const ConstBytes body = f.ulpdu.subspan(h->size());
  if (h->opcode == wire::RdmapOpcode::send && body.empty() && !h->tagged) return mpa::Rtr::send;
  if (h->opcode == wire::RdmapOpcode::rdma_write && body.empty() && h->tagged) return mpa::Rtr::write;
  const auto q = wire::ReadRequest::parse(body);
  if (h->opcode == wire::RdmapOpcode::read_request && !h->tagged && q && q->size == 0) return mpa::Rtr::read;
  return mpa::Rtr::none;
}

void MpaConnection::on_fpdu(Half& h, const WalkedFpdu& f) {
  const Side side = side_of(h);
  Half& peer = peer_of(h);
  if (tap_ != nullptr) tap_->fpdu(tapped(h), f);
  if (h.evidence.needed && !proven_fpdu(h, f)) return;
  if (!h.evidence.needed && f.doubtful) return count_doubtful(h, f);
  const bool unread = peer.phase != StreamPhase::fpdus && f.first.peer_received > peer.startup_length;
  if (unread || f.first.peer_received > peer.tcp.position()) rdmap_->behind(other(side));
  if (++h.fpdus == 1) h.first_fpdu_frame = f.last.frame;
  check_frame(h, f);
  if (side == Side::responder) check_fence(h, f);
  if (side == Side::initiator && h.fpdus == 1 && !picked_up()) {
    check_after_reply(f);
    judge_first_fpdu(f);
  }
  if (f.crc == WalkedFpdu::Crc::bad) {
    ++h.counts.fpdus;
    remember_fpdu(h, f);
    fpdu_event(h, f, LadderEvent::Kind::fpdu, fmt::format("FPDU of {}, CRC wrong", counted(f.ulpdu.size(), "octet")));
    return rdmap_->lost(side);
  }
  rdmap_->segment(side, f);
  remember_fpdu(h, f);
  if (!picked_up()) judge_terminate(h, f);
}

void MpaConnection::fpdu_event(const Half& h, const WalkedFpdu& f, LadderEvent::Kind kind, std::string text) {
  LadderEvent* e = event(f.last.frame, f.last.at, h.index, kind, std::move(text));
  const auto header = wire::DdpHeader::parse(f.ulpdu.first(std::min(f.known, f.ulpdu.size())));
  if (e == nullptr || !header) return;
  const std::string_view name = to_string(header->opcode);
  if (e->text.starts_with(name)) e->name = name.size();
  if (!with_fields_) return;
  e->fields.emplace_back(fmt::format("FPDU {}", h.fpdus), "");
  e->fields.emplace_back("Frames", f.first.frame == f.last.frame
                                       ? fmt::format("{}", f.last.frame)
                                       : fmt::format("{} to {}", f.first.frame, f.last.frame));
  e->fields.emplace_back("Octets on the wire", fmt::format("{}", f.wire_octets));
  fpdu_fields(f, *header, e->fields);
}

void MpaConnection::check_frame(Half& h, const WalkedFpdu& f) {
  const Side side = side_of(h);
  if (f.crc == WalkedFpdu::Crc::bad && h.marker_missed) return;  // a consequence of the missing marker
  if (f.marker_missing) {
    h.marker_missed = true;
    findings_.add(f.last.frame, side, Rule::mpa_marker_missing,
                  fmt::format("the {} left out the marker at stream position {}", to_string(side), f.missing_marker));
    rdmap_->record_fault(side, {.layer = PARLEY_RDMAP_LAYER_LLP,
                                .code = 2,
                                .frame = f.last.frame,
                                .any_code = true,
                                .end = f.position + f.wire_octets});
  } else if (f.crc == WalkedFpdu::Crc::bad) {
    findings_.add(f.last.frame, side, Rule::mpa_crc,
                  fmt::format("the {} sent an FPDU with CRC {:08x}, its octets give {:08x}", to_string(side),
                              f.crc_sent, f.crc_computed));
    rdmap_->record_fault(
        side, {.layer = PARLEY_RDMAP_LAYER_LLP, .code = 2, .frame = f.last.frame, .end = f.position + f.wire_octets});
  }
  if (!f.marker_fault.empty() && f.crc != WalkedFpdu::Crc::bad) {
    findings_.add(f.last.frame, side, Rule::mpa_marker_pointer,
                  fmt::format("the {} sent wrong markers: {}", to_string(side), f.marker_fault));
    rdmap_->record_fault(
        side, {.layer = PARLEY_RDMAP_LAYER_LLP, .code = 3, .frame = f.last.frame, .end = f.position + f.wire_octets});
  }
  if (f.marker_bits && f.crc != WalkedFpdu::Crc::bad)
    // Receivers ignore these bits.
    findings_.add(f.last.frame, side, Rule::mpa_marker_bits,
                  fmt::format("the {} set bits of a marker that are 0 (its first half, or the low two of FPDUPTR)",
                              to_string(side)));
  if (f.pad_not_zero && f.crc != WalkedFpdu::Crc::bad)
    findings_.add(f.last.frame, side, Rule::mpa_pad,
                  fmt::format("the {} sent pad octets that are not 0", to_string(side)));
  const Half& peer = peer_of(h);
  if (peer.mss == 0) return;
  const std::uint32_t options = h.timestamps && peer.timestamps ? 12 : 0;
  if (f.wire_octets + options > peer.mss && ++h.noted.big_fpdus > 0 && f.wire_octets > h.noted.biggest) {
    h.noted.biggest = f.wire_octets;
    h.noted.biggest_frame = f.last.frame;
  }
}

void MpaConnection::check_fence(Half& h, const WalkedFpdu& f) {
  if (h.fpdus != 1) return;
  const Half& initiator = peer_of(h);
  // RFC 5044 §7.1.2 rule 4: the responder receives and validates an FPDU before it sends one. The Rtr frame of 2007 is
  // accepted as well. The TCP acknowledgment shows what the responder had received, even if the capture lacks it.
  const std::uint64_t received = f.first.peer_received;
  if (!facts_.request || received == 0 || received > initiator.startup_length) return;
  findings_.add(
      f.last.frame, Side::responder, Rule::mpa_fence,
      fmt::format("the responder sent an FPDU{} before it had received one (rule 4): nothing of the initiator's after "
                  "the Request was acknowledged by then",
                  facts_.reply && f.first.frame == facts_.reply->frame ? " in the segment of its Reply," : ""));
}

}  // namespace parley::capture
