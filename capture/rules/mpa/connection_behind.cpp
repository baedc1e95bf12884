// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// MpaConnection: octets of the initiator behind its Request, and the beginning of its FPDUs.
#include <fmt/format.h>

#include <string_view>
#include <utility>

#include "base/text.hpp"
#include "capture/rules/mpa/connection.hpp"
#include "capture/rules/rdmap/fields.hpp"

namespace parley::capture {

void MpaConnection::keep_early(Half& h, ConstBytes in, std::uint64_t missing, const SegmentRef& ref, bool cut,
                               bool start) {
  h.early.keep({.data = Bytes(in.begin(), in.end()),
                .missing = missing,
                .cut = cut,
                .start = start,
                .ref = ref,
                .at = h.read_to - in.size() - missing});
}

void MpaConnection::replay(Half& h) {
  while (const auto piece = h.early.take()) {
    if (piece->missing > 0 && h.walker.markers() == Known::unknown) {
      h.early.clear();
      return h.move(StreamInput::position_unknown);
    }
    if (piece->missing > 0) {
      h.feed({}, piece->missing, piece->ref, false, piece->at);
      if (h.walker.lost()) rdmap_->lost(side_of(h));
    } else {
      h.feed(piece->data, 0, piece->ref, piece->start, piece->at);
    }
  }
}

void MpaConnection::extra_octets(Half& h, std::size_t n, const SegmentRef& ref) {
  // If the initiator had received octets of the Reply, the capture only lacks them.
  if (ref.peer_received > peer_of(h).base) return;
  if (h.extra.octets == 0) h.extra.ref = ref, h.extra.first_octets = n;
  h.extra.octets += n;
  // If the capture lacks the beginning of the other direction, the Reply may be there.
  if (peer_of(h).tcp.from_syn()) report_extra_octets(h);
}

void MpaConnection::report_extra_octets(Half& h) {
  // RFC 5044 §7.1.2 rule 3: the initiator receives and validates the Reply before it sends anything more.
  if (std::exchange(h.extra.reported, true)) return;
  findings_.add(h.extra.ref.frame, Side::initiator, Rule::mpa_octets_before_reply,
                fmt::format("the initiator sent {} after its Request before the Reply came",
                            counted(h.extra.first_octets, "octet")));
}

// FPDUs begin here, behind `skip` octets of an incomplete Rtr frame. `after_hole`: a hole follows, which may have held
// an Rtr frame.
void MpaConnection::fpdus_from(Half& h, std::size_t skip, bool after_hole) {
  // RFC 5044 §4.3: marker positions count from the end of the startup frames. They are unknown if a frame is lost.
  const bool rtr_lost =
      after_hole && (skip > 0 || facts_.agreement.rtr_frame || !facts_.request || phase_ == SetUpPhase::reply_lost);
  const bool request_lost = !facts_.request && (h.tcp.from_syn() || h.counts.missing_octets > 0);
  const bool unknown_positions = h.walker.markers() != Known::no && (rtr_lost || request_lost);
  h.early.drop(skip);
  if (unknown_positions) h.early.clear(), rdmap_->lost(side_of(h));
  h.move(unknown_positions ? StreamInput::position_unknown : StreamInput::first_fpdu);
  replay(h);
}

// A Request where FPDUs may begin: it was captured after its Reply, or it follows a rejection that the capture lacks.
void MpaConnection::request_behind(Half& h, StartupSeen seen) {
  request_seen(h, std::move(seen));
  facts_.agreement = agree(facts_.request, facts_.reply);
  h.walker.start(facts_.agreement.crc, facts_.agreement.markers_to_responder);
  if (facts_.reply) set_up(input_of_agreement());
  begin_data();
  if (!h.early.empty()) rtr_or_fpdu(h);
}

// Decides whether the kept octets of the initiator begin with a startup frame or an FPDU, once there are enough.
void MpaConnection::rtr_or_fpdu(Half& h) {
  constexpr std::string_view rtr_head = "MPA ID R";
  const auto [head, hole] = h.early.head();
  const bool may_be = begins_like(head, rtr_head);
  const auto v = wire::MpaFrameView::parse(head);
  const bool whole = may_be && v && head.size() >= v->frame_size();
  if (may_be && !whole && !hole) return;
  h.behind_lost = !whole && may_be;
  if (whole) return startup_behind(h, *v, ConstBytes(head).first(v->frame_size()));
  const bool startup_due = facts_.agreement.rtr_frame || !facts_.request || rejection_may_be_lost();
  const bool lost_one = may_be && (startup_due || head.size() >= rtr_head.size());
  if (lost_one && tap_ != nullptr) tap_->startup(tapped(h), h.early.at(), head);
  fpdus_from(h, lost_one ? head.size() : 0, may_be && hole);
}

// A whole startup frame of the initiator behind its Request.
void MpaConnection::startup_behind(Half& h, const wire::MpaFrameView& v, ConstBytes octets) {
  if (tap_ != nullptr) tap_->startup(tapped(h), h.early.at(), octets);
  h.head.last = h.early.carrier(octets.size());  // more may have been kept behind it
  h.head.known = ~std::size_t{0};
  StartupSeen seen = read_startup(h, v);
  if (v.key == wire::MpaKey::req && (!facts_.request || rejection_may_be_lost())) {
    h.startup_length = h.early.at() + octets.size();
    h.early.drop(octets.size());
    return request_behind(h, std::move(seen));
  }
  rtr_frame_seen(h, std::move(seen));
  h.early.drop(octets.size());
  h.move(StreamInput::rtr_frame);
  replay(h);
}

void MpaConnection::rtr_frame_seen(const Half& h, StartupSeen seen) {
  facts_.rtr_frame = std::move(seen);
  const StartupSeen& frame = *facts_.rtr_frame;
  const bool rtr_key = frame.key == wire::MpaKey::rtr || frame.key == wire::MpaKey::rtr_hex;
  LadderEvent* e =
      event(frame.frame, frame.at, h.index, LadderEvent::Kind::startup,
            rtr_key ? fmt::format("MPA Rtr frame ({})", to_string(frame.key).substr(7, 3)) : "a second startup frame");
  if (e != nullptr && with_fields_) startup_fields(frame, e->fields);
  set_up(rtr_key ? SetUpInput::rtr_frame : SetUpInput::second_startup, {.frame = frame.frame});
  facts_.rtr_seen = mpa::Rtr::frame;
  facts_.first_fpdu_at = frame.at;
  // A responder that does not know the Rtr frame reads it as an FPDU with RDMAP version 0.
  rdmap_->record_fault(Side::initiator, {PARLEY_RDMAP_LAYER_RDMAP, 2, 5, frame.frame}, true);
}

}  // namespace parley::capture
