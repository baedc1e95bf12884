// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Connection: what it makes of a stream whose set-up is not in the capture. Until two FPDUs were proven it is not taken
// for MPA; until a marker, or a marker interval without one, was seen, what does not fit is put down to the reading.
#include "verdict/connection.hpp"

namespace parley::verdict {

void Connection::pick_up(unsigned from, const ProvenFpdu& fpdu) {
  picked_up_ = true;
  roles_known_ = true;  // as far as they can be: see judge_outcome()
  initiator_ = from;
  for (unsigned i = 0; i < 2; ++i) halves_[i].index = i;
  crc_ = fpdu.crc ? Known::yes : Known::unknown;
  rdmap_.emplace(findings_);
  begin_data();
  for (unsigned i = 0; i < 2; ++i) {
    Half& h = halves_[i];
    h.phase = Phase::fpdus;
    const bool marked = i == from && fpdu.markers;
    h.markers_settled = marked;
    h.pick_up_phase = marked ? fpdu.phase : 0;
    h.walker.start_inside(crc_, marked, h.pick_up_phase);
  }
  // Numbers go on from those of the first FPDU that is seen; what the other side asked for before is not known.
  rdmap_->lost(Side::initiator);
  rdmap_->lost(Side::responder);
}

bool Connection::may_lack_set_up() const {
  for (const Half& h : halves_)
    if (h.tcp.from_syn() && h.tcp.position() > 0 && h.counts.missing_octets == 0) return false;
  return true;
}

/// Beside the FPDUs' own order: a stream whose first FPDUs were too short to hold a marker may have them.
void Connection::look_for_markers(Half& h, ConstBytes in, std::uint64_t at) {
  if (h.markers_settled || crc_ == Known::unknown) return;
  const FpduProof proof = prove_fpdu(in);
  if (proof.is != FpduProof::Is::proven || !proof.fpdu.markers) return;
  h.markers_settled = true;
  h.walker.start_inside(crc_, true, proof.fpdu.phase);
  h.fed = true;
  h.fed_at = at - proof.fpdu.phase;
}

/// Something that is no FPDU stands where one is due, and may be due to a wrong reading.
bool Connection::doubted(Half& h) {
  if (!picked_up_ || (protocol_ == Protocol::mpa && h.markers_settled)) return false;
  if (protocol_ != Protocol::mpa) protocol_ = Protocol::other;
  h.proven = 0;
  rdmap_->lost(side_of(h));
  return true;
}

/// Whether the FPDU is one to be judged.
bool Connection::picked_up_fpdu(Half& h, const WalkedFpdu& f) {
  using Crc = WalkedFpdu::Crc;
  if (protocol_ == Protocol::other || (f.crc == Crc::bad && doubted(h))) return false;
  if (f.crc == Crc::not_seen) h.proven = 0;
  if (f.crc == Crc::good) {
    ++good_fpdus_;
    h.proven += f.wire_octets;
    // RFC 5044 §4.3: with markers, one would have stood there.
    if (h.proven >= PARLEY_MPA_MARKER_INTERVAL + PARLEY_MPA_MARKER_LEN) h.markers_settled = true;
  }
  if (protocol_ == Protocol::undecided && (good_fpdus_ >= 2 || f.crc == Crc::off)) {
    protocol_ = Protocol::mpa;
    for (Half& each : halves_) each.tcp.keep_history();
  }
  return true;
}

}  // namespace parley::verdict
