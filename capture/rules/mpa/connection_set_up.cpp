// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// MpaConnection: runs the table of the set-up (set_up_phase.hpp): what moves it, and what is judged with a step.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "capture/rules/mpa/connection.hpp"

namespace parley::capture {

void MpaConnection::set_up(SetUpInput input, const CheckedAt& at) {
  const SetUpStep step = step_of(phase_, input);
  phase_ = step.next;
  for (const SetUpCheck what : step.checks) check(what, at);
}

SetUpInput MpaConnection::input_of_agreement() const {
  if (facts_.agreement.rtr_frame) return SetUpInput::agree_on_rtr_frame;
  if (!facts_.agreement.peer_to_peer) return SetUpInput::agree_on_no_rtr_frame_or_kind;
  return facts_.agreement.rtr.empty() ? SetUpInput::agree_on_no_kind : SetUpInput::agree_on_kinds;
}

/// None: the initiator went on, or may have, or did not end.
std::optional<SetUpInput> MpaConnection::input_of_leaving() const {
  const Half& i = halves_[initiator_];
  // One of which octets are missing may have gone on.
  const bool silent = facts_.request && i.counts.missing_octets == 0 && i.tcp.position() == i.startup_length;
  if (!silent || (i.fin_frame == 0 && i.rst_frame == 0)) return {};
  return facts_.may_refuse ? SetUpInput::refused : SetUpInput::left;
}

SetUpInput MpaConnection::input_of_end() const {
  const auto seen = [](const Half& h) { return h.tcp.from_syn() && h.counts.missing_octets == 0; };
  if (closed()) return seen(halves_[0]) && seen(halves_[1]) ? SetUpInput::closed_all_seen : SetUpInput::closed;
  return halves_[initiator_].fin_frame != 0 ? SetUpInput::initiator_ended : SetUpInput::end_of_capture;
}

Outcome MpaConnection::judge_outcome() {
  if (const auto leaving = input_of_leaving()) set_up(*leaving);
  set_up(input_of_end());
  return outcome_of(phase_);
}

void MpaConnection::check(SetUpCheck what, const CheckedAt& at) {
  switch (what) {
    case SetUpCheck::none: return;
    case SetUpCheck::not_captured:
      return findings_.remark(
          first_frame_, {},
          "the set-up is not in the capture: what was agreed is not judged, and which end was the initiator is "
          "not known (the one seen first is called so)");
    case SetUpCheck::rtr_frame: return check_rtr_frame();
    case SetUpCheck::second_startup:
      return findings_.add(at.frame, Side::initiator, Rule::mpa_second_startup,
                           "the initiator sent a second startup frame");
    case SetUpCheck::rtr_kind: return check_rtr_kind(at);
    case SetUpCheck::rtr_frame_omitted:
      return findings_.add(at.frame, Side::initiator, Rule::mpa_rtr_frame_omitted,
                           "the initiator sent an FPDU first although the Rtr frame was agreed (S on both sides)");
    case SetUpCheck::rtr_by_itself: return check_rtr_by_itself(at);
    case SetUpCheck::as_agreed: return check(check_of_agreement(), at);
    case SetUpCheck::refusal: return check_refusal();
    case SetUpCheck::s_unproven: return suspect_echo(no_more_from_initiator());
    case SetUpCheck::rtr_frame_missing: return rtr_missing(Rule::mpa_rtr_frame_missing, "Rtr frame");
    case SetUpCheck::rtr_missing: return rtr_missing(Rule::mpa_rtr_missing, "RTR");
  }
}

SetUpCheck MpaConnection::check_of_agreement() const {
  if (facts_.agreement.peer_to_peer) return SetUpCheck::rtr_kind;
  return facts_.agreement.rtr_frame && facts_.rtr_seen == mpa::Rtr::none ? SetUpCheck::rtr_frame_omitted
                                                                         : SetUpCheck::rtr_by_itself;
}

void MpaConnection::check_rtr_frame() {
  if (facts_.request && facts_.reply && !facts_.agreement.rtr_frame)
    return findings_.add(facts_.rtr_frame->frame, Side::initiator, Rule::mpa_rtr_frame_unasked,
                         "the initiator sent an Rtr frame that was not agreed (S)");
  // What a Request that is not in the capture offered is not known.
  findings_.add(facts_.rtr_frame->frame, Side::initiator, Rule::mpa_rtr_frame,
                fmt::format("the initiator sent the Rtr frame, spelt \"{}\"{}", to_string(facts_.rtr_frame->key),
                            facts_.request ? "" : "; whether it was agreed is not known without the Request"));
}

std::string MpaConnection::describe_form(mpa::Rtr form) {
  return form == mpa::Rtr::none ? "a ULP message" : fmt::format("a zero-length {}", to_string(form));
}

void MpaConnection::check_rtr_kind(const CheckedAt& at) {
  if (at.form != mpa::Rtr::none) facts_.rtr_seen = at.form;
  if (facts_.agreement.rtr.has(at.form)) return;
  findings_.add(at.frame, Side::initiator, Rule::mpa_rtr_kind,
                fmt::format("the initiator's first FPDU is {}, not an RTR of an agreed kind{}{}{}",
                            describe_form(at.form), facts_.agreement.rtr.send ? " [Send]" : "",
                            facts_.agreement.rtr.write ? " [Write]" : "", facts_.agreement.rtr.read ? " [Read]" : ""));
}

void MpaConnection::check_rtr_by_itself(const CheckedAt& at) {
  if (facts_.agreement.revision > 1 || at.form == mpa::Rtr::none || facts_.rtr_seen != mpa::Rtr::none) return;
  facts_.rtr_seen = at.form;
  findings_.remark(at.frame, Side::initiator,
                   fmt::format("the initiator's first FPDU is {}: an RTR by configuration, nothing announced it",
                               describe_form(at.form)));
}

void MpaConnection::check_refusal() {
  const Half& i = halves_[initiator_];
  const std::uint64_t frame = i.fin_frame != 0 ? i.fin_frame : i.rst_frame;
  // A Reply of another revision, or with enhanced data that nobody asked for, is reason enough to close.
  const bool other_reason = invalid_reply(*facts_.reply) || facts_.request->revision != facts_.reply->revision ||
                            (facts_.reply->s() && !facts_.request->s());
  if (facts_.reply->m() && !other_reason)
    findings_.add(frame, Side::initiator, Rule::mpa_markers_refused,
                  "the initiator closed after a Reply that requires markers; every sender must be able to insert them");
  else  // which it may, and after an invalid Reply must
    findings_.add(frame, Side::initiator, Rule::mpa_reply_refused,
                  "the initiator closed after a Reply that does not fit its Request");
}

/// The first frame after which no Rtr frame can come: the initiator's FIN or a RST of either side.
std::uint64_t MpaConnection::no_more_from_initiator() const {
  const Half &i = halves_[initiator_], &r = halves_[1 - initiator_];
  std::uint64_t first = 0;
  for (const std::uint64_t end : {i.fin_frame, i.rst_frame, r.rst_frame})
    if (end != 0 && (first == 0 || end < first)) first = end;
  return first;
}

void MpaConnection::rtr_missing(Rule rule, std::string_view what) {
  findings_.add(halves_[initiator_].fin_frame, Side::initiator, rule,
                fmt::format("the connection ended before the initiator sent the agreed {}", what));
}

// OFA 2007-10 Rtr §2: that a responder knows the Rtr frame is shown when it takes one.
void MpaConnection::suspect_echo(std::uint64_t frame) {
  if (!facts_.agreement.rtr_frame || facts_.rtr_frame || invalid_reply(*facts_.reply) ||
      (facts_.reply->flags & PARLEY_MPA_RES_V2) != 0 || half_of(Side::initiator).counts.missing_octets > 0 ||
      std::exchange(s_unproven_reported_, true))
    return;
  findings_.add(frame, Side::responder, Rule::mpa_s_unproven,
                "the responder answered S with S under revision 1, and nothing shows whether it knows the Rtr frame "
                "or echoes reserved bits, as Linux siw does");
}

}  // namespace parley::capture
