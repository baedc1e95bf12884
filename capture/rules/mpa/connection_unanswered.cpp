// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// MpaConnection: set-ups that end with an incomplete startup frame, or with a Request without a Reply.
#include <fmt/format.h>

#include <utility>

#include "base/text.hpp"
#include "capture/rules/mpa/connection.hpp"

namespace parley::capture {

void MpaConnection::finish_startup() {
  for (Half* each : {&halves_[initiator_], &halves_[1 - initiator_]})
    if (each->phase == StreamPhase::startup && !each->head.octets.empty()) finish_head(*each);
  const Half& r = halves_[1 - initiator_];
  if (facts_.request && !facts_.reply && r.phase == StreamPhase::startup && r.head.octets.empty()) finish_unanswered();
}

// Judges a startup frame that is not whole.
void MpaConnection::finish_head(Half& h) {
  settle_roles(h);
  const auto v = wire::MpaFrameView::parse(h.head.octets);
  const Side who = side_of(h);
  // A part of a Reply whose Request was sent before the capture is not evidence against any side.
  const bool earlier = v && v->key == wire::MpaKey::rep && !h.tcp.from_syn();
  if (v && who == Side::initiator && !earlier) {
    StartupSeen seen = read_startup(h, *v);
    check_request(seen, findings_);
    facts_.request = std::move(seen);
  }
  if (v) check_cut_length(h, *v);
  const std::size_t due = v ? v->frame_size() : std::size_t{PARLEY_MPA_HEADER_LEN};
  findings_.add(h.head.last.frame, who, Rule::mpa_startup_cut,
                fmt::format("the {}'s startup frame is not whole: {} of {} octets came", to_string(who),
                            h.head.octets.size(), due));
}

void MpaConnection::check_cut_length(const Half& h, const wire::MpaFrameView& v) {
  const Side who = side_of(h);
  if (v.pd_length > PARLEY_MPA_PD_MAX) {
    // For a Request, check_request() has reported this.
    if (who == Side::responder)
      findings_.add(h.head.header.frame, who, Rule::mpa_pd_length,
                    fmt::format("the responder announced {} octets of private data (at most 512)", v.pd_length));
    return;
  }
  const Half& peer = halves_[1 - h.index];
  const bool ended_it =
      h.fin_frame != 0 && (peer.fin_frame == 0 || h.fin_frame < peer.fin_frame) && peer.rst_frame == 0;
  const bool all_seen = h.tcp.from_syn() && h.counts.missing_octets == 0 && h.fin_position == h.tcp.position();
  // RFC 5044 §7.1.1: PD_Length octets follow the header. A FIN ends the stream before.
  if (ended_it && all_seen)
    findings_.add(h.fin_frame, who, Rule::mpa_pd_missing,
                  fmt::format("the {} announced {} of private data and closed after {} of them", to_string(who),
                              counted(v.pd_length, "octet"), h.head.octets.size() - PARLEY_MPA_HEADER_LEN));
}

// Judges a Request without a Reply.
void MpaConnection::finish_unanswered() {
  const Half& i = halves_[initiator_];
  const Half& r = halves_[1 - initiator_];
  if (r.counts.missing_octets > 0) return;
  const std::uint64_t closed = r.rst_frame != 0 ? r.rst_frame : r.fin_frame;
  const std::uint64_t given_up = i.fin_frame != 0 ? i.fin_frame : i.rst_frame;
  if (given_up != 0 && (closed == 0 || given_up < closed)) return initiator_gave_up(given_up);
  if (closed != 0 && i.phase != StreamPhase::startup && i.extra.octets == 0 && proper_request(*facts_.request))
    responder_closed(closed);
}

// RFC 5044 §7.1.2 rule 10 requires a timeout but gives no value.
void MpaConnection::initiator_gave_up(std::uint64_t frame) {
  const Half& i = halves_[initiator_];
  const bool timed = i.fin_frame != 0 && i.fin_at >= facts_.request->at;
  findings_.add(
      frame, Side::initiator, Rule::mpa_no_reply,
      fmt::format("no Reply came; the initiator {} {}", i.fin_frame != 0 ? "closed" : "reset the connection",
                  timed ? decimal_seconds(i.fin_at - facts_.request->at + half_a_hundredth, 2) + " s after its Request"
                        : "then"));
}

void MpaConnection::responder_closed(std::uint64_t frame) {
  const StartupSeen& q = *facts_.request;
  const bool reset = halves_[1 - initiator_].rst_frame != 0;
  if (q.revision == 2)
    // This is the expected reaction of a responder that knows only revision 1.
    return findings_.add(frame, Side::responder, Rule::mpa_revision_2_unanswered,
                         fmt::format("the responder {} instead of answering; it may not know revision 2{}",
                                     reset ? "reset the connection" : "closed the connection",
                                     reset ? "" : " (Linux's initiators try revision 1 only after a reset)"));
  // RFC 5044 §7.1.2 rule 2: a proper Request is answered, at least with R=1.
  findings_.add(
      frame, Side::responder, Rule::mpa_request_unanswered,
      fmt::format(
          "the responder closed without a Reply to a valid Request{}{}",
          q.pd_length > 256 ? fmt::format(" with {} octets of private data (up to 512 are allowed)", q.pd_length) : "",
          halves_[initiator_].head.split ? " that came in several segments, as it may" : ""));
}

}  // namespace parley::capture
