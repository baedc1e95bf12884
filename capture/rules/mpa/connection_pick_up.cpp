// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// MpaConnection: streams whose set-up, or the last one of several, is not in the capture. Without any set-up, the
// connection is taken for MPA when two FPDUs are proven. Until a marker, or a marker interval without a marker, was
// seen, octets that do not fit are attributed to a wrong reading, not to a fault.
#include "capture/rules/mpa/connection.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/bytes_io.hpp"

namespace parley::capture {
namespace {

constexpr std::uint64_t believed_after = 3;  // plausible FPDUs in a row that are accepted without CRC
// RFC 5044 §4.3: this many octets of a stream with markers contain at least one marker.
constexpr std::uint64_t unmarked_min = PARLEY_MPA_MARKER_INTERVAL + PARLEY_MPA_MARKER_LEN;

/// Whether octets that were read as an FPDU without markers may hold a marker. A marker has its distance from the
/// ULPDU_Length in FPDUPTR (RFC 5044 §4.3; the first half and the low two bits are ignored).
bool may_hold_marker(ConstBytes fpdu) {
  Reader r(fpdu.subspan(std::min<std::size_t>(fpdu.size(), PARLEY_MPA_MARKER_LEN)));
  for (std::uint32_t at = PARLEY_MPA_MARKER_LEN; r.left() >= PARLEY_MPA_MARKER_LEN; at += PARLEY_MPA_MARKER_LEN)
    if ((r.be32() & 0xFFFC) == at) return true;
  return false;
}

}  // namespace

void MpaConnection::pick_up(unsigned from, const ProvenFpdu& fpdu) {
  set_up(SetUpInput::picked_up);
  roles_known_ = true;  // assumed: the remark of SetUpCheck::not_captured says so
  initiator_ = from;
  halves_[1].index = 1;
  crc_ = fpdu.crc ? Known::yes : Known::unknown;
  rdmap_.emplace(findings_);
  begin_data();
  for (unsigned i = 0; i < 2; ++i) {
    Half& h = halves_[i];
    h.move(StreamInput::picked_up);
    h.evidence.needed = true;
    h.tcp.never_wait();  // do not hold back octets while the protocol is undecided
    const bool marked = i == from && fpdu.markers;
    h.evidence.markers_settled = marked;
    h.evidence.phase = marked ? fpdu.phase : 0;
    h.walker.start_inside(crc_, marked, h.evidence.phase);
    h.walker.never_doubt();
  }
  // MSNs continue from the first FPDU seen; earlier requests of the other side are not known.
  rdmap_->lost(Side::initiator);
  rdmap_->lost(Side::responder);
}

bool MpaConnection::may_lack_set_up() const {
  for (const Half& h : halves_)
    if (h.tcp.from_syn() && h.tcp.position() > 0 && h.counts.missing_octets == 0) return false;
  return true;
}

/// Checks whether the segment begins with an FPDU with markers. The first FPDUs may have been too short for a marker.
void MpaConnection::look_for_markers(Half& h, ConstBytes in, std::uint64_t at) {
  if (h.evidence.markers_settled) return;
  const FpduProof proof = prove_fpdu(in);
  if (proof.is != FpduProof::Outcome::proven || !proof.fpdu.markers) return;
  crc_ = Known::yes;
  h.evidence.markers_settled = true;
  h.walker.start_inside(crc_, true, proof.fpdu.phase);
  h.walker.never_doubt();
  h.fed = true;
  h.fed_at = at - proof.fpdu.phase;
  rdmap_->lost(side_of(h));  // the octets that the walker held back are lost
}

/// Whether the present reading of the stream (CRC, markers, boundaries) is certain.
bool MpaConnection::trusted(const Half& h) const {
  return h.evidence.markers_settled && (h.walker.crc() == Known::yes || h.evidence.plausible >= believed_after);
}

/// Handles octets that are not a valid FPDU. True: they may be the result of a wrong reading, so they are not a fault.
bool MpaConnection::doubted(Half& h) {
  if (!h.evidence.needed || (protocol_ == Protocol::mpa && trusted(h))) return false;
  if (protocol_ != Protocol::mpa) protocol_ = Protocol::other;
  h.evidence.proven = h.evidence.plausible = 0;
  rdmap_->lost(side_of(h));
  return true;
}

/// Counts an FPDU without a CRC as evidence. Several plausible FPDUs in a row make the reading likely. It is right if a
/// whole marker interval holds no marker.
void MpaConnection::believe(Half& h, const WalkedFpdu& f) {
  if (trusted(h)) return;
  const bool fits = f.whole && plausible_fpdu(f.wire) && !f.pad_not_zero;
  if (!fits || (!h.evidence.markers_settled && may_hold_marker(f.wire))) {
    h.evidence.proven = h.evidence.plausible = 0;
    return;
  }
  // The first ones may be payload that looks like FPDUs.
  if (++h.evidence.plausible < believed_after || h.evidence.markers_settled) return;
  h.evidence.proven += f.wire_octets;
  if (h.evidence.proven >= unmarked_min) h.evidence.markers_settled = true;
}

/// An FPDU found after a loss by its header alone: it is counted but not judged.
void MpaConnection::count_doubtful(Half& h, const WalkedFpdu& f) {
  count_unjudged(h, f);
  rdmap_->lost(side_of(h));
}

/// Counts an FPDU that may be misread, without judging it. Uses only its control octets: no marker can be inside the
/// first four octets of an FPDU (RFC 5044 §4.3).
void MpaConnection::count_unjudged(Half& h, const WalkedFpdu& f) {
  ++h.counts.fpdus;
  if (++h.fpdus == 1) h.first_fpdu_frame = f.first.frame;
  const auto header = wire::DdpHeader::parse(f.ulpdu.first(std::min(f.known, f.ulpdu.size())));
  if (!header) return;
  const auto rule = wire::rule_of(header->opcode);
  if (!rule.assigned || rule.tagged != header->tagged) return;
  if (header->last) {
    ++h.counts.messages;
    ++h.counts.messages_by_opcode[static_cast<std::size_t>(header->opcode) & 0xF];
  }
  const std::string_view name = to_string(header->opcode);
  LadderEvent* e = event(f.last.frame, f.last.at, h.index, LadderEvent::Kind::fpdu,
                         fmt::format("{} in an FPDU of {} octets, not judged", name, f.wire_octets));
  if (e != nullptr) e->name = name.size();
}

/// Whether the FPDU is certain enough to be judged.
bool MpaConnection::proven_fpdu(Half& h, const WalkedFpdu& f) {
  using Crc = WalkedFpdu::Crc;
  if (protocol_ == Protocol::other || (f.crc == Crc::bad && doubted(h))) return false;
  if (f.crc == Crc::not_seen) h.evidence.proven = 0;
  if (f.crc == Crc::off) believe(h, f);
  if (f.crc == Crc::good) {
    ++good_fpdus_;
    h.evidence.proven += f.wire_octets;
    if (h.evidence.proven >= unmarked_min) h.evidence.markers_settled = true;
  }
  if (protocol_ == Protocol::undecided && (good_fpdus_ >= 2 || f.crc == Crc::off)) {
    protocol_ = Protocol::mpa;
    for (Half& each : halves_) each.tcp.keep_history();
  }
  // A good CRC also proves the markers. Without it, an undetected marker may be in the header or move the FPDU's end.
  if (f.crc == Crc::good || trusted(h)) return true;
  count_unjudged(h, f);
  rdmap_->lost(side_of(h));
  return false;
}

}  // namespace parley::capture
