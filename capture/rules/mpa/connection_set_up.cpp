// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// MpaConnection: runs the table of the set-up (set_up_phase.hpp): its inputs, and the checks of each step.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/text.hpp"
#include "capture/rules/mpa/connection.hpp"

namespace parley::capture {
namespace {

/// RFC 5040 §4.8, RFC 6581 §8: a local catastrophic error is not an answer to received octets. 2/0/05 is not included,
/// because Linux siw writes 0/2/05 ("invalid RDMAP version") like this. 2/3/05 has no other reading, because there is
/// no layer 3.
bool is_local_error(const wire::Terminate& t) {
  constexpr std::uint8_t hardware_type = 3, local = 5;
  return (t.layer == PARLEY_RDMAP_LAYER_RDMAP && t.etype == 0) ||
         (t.layer == PARLEY_RDMAP_LAYER_LLP && t.etype == hardware_type && t.code == local);
}

}  // namespace

void MpaConnection::set_up(SetUpInput input, const CheckedAt& at) {
  const SetUpStep step = step_of(phase_, input);
  phase_ = step.next;
  for (const SetUpCheck what : step.checks) check(what, at);
}

SetUpInput MpaConnection::input_of_agreement() const {
  if (facts_.agreement.rtr_frame) return SetUpInput::agree_on_rtr_frame;
  if (!facts_.agreement.peer_to_peer) return SetUpInput::agree_on_nothing;
  return facts_.agreement.rtr.empty() ? SetUpInput::agree_on_no_kind : SetUpInput::agree_on_kinds;
}

/// Whether the initiator closed after its Request. None: it continued, may have continued, or did not close.
std::optional<SetUpInput> MpaConnection::input_of_leaving() const {
  const Half& i = halves_[initiator_];
  // If octets of the initiator are missing, it may have continued.
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
    case SetUpCheck::unannounced_rtr: return check_unannounced_rtr(at);
    case SetUpCheck::as_agreed: return check(check_of_agreement(), at);
    case SetUpCheck::terminate_cause: return check_terminate_cause(at);
    case SetUpCheck::rtr_frame_as_fpdu:
      if (!facts_.agreement.rtr_frame) return;  // the responder need not know the Rtr frame
      return findings_.add(
          at.frame, Side::responder, Rule::mpa_rtr_frame_as_fpdu,
          "the responder took the agreed Rtr frame for an FPDU: the S of its Reply was an echo of reserved bits");
    case SetUpCheck::refusal: return check_refusal();
    case SetUpCheck::s_unproven: return suspect_echo(at.frame != 0 ? at.frame : no_more_from_initiator());
    case SetUpCheck::rtr_frame_missing: return rtr_missing(Rule::mpa_rtr_frame_missing, "Rtr frame");
    case SetUpCheck::rtr_missing: return rtr_missing(Rule::mpa_rtr_missing, "RTR");
  }
}

SetUpCheck MpaConnection::check_of_agreement() const {
  if (facts_.agreement.peer_to_peer) return SetUpCheck::rtr_kind;
  return facts_.agreement.rtr_frame && facts_.rtr_seen == mpa::Rtr::none ? SetUpCheck::rtr_frame_omitted
                                                                         : SetUpCheck::unannounced_rtr;
}

void MpaConnection::check_rtr_frame() {
  if (facts_.request && facts_.reply && !facts_.agreement.rtr_frame)
    return findings_.add(facts_.rtr_frame->frame, Side::initiator, Rule::mpa_rtr_frame_unasked,
                         "the initiator sent an Rtr frame that was not agreed (S)");
  // If the Request is not in the capture, it is not known whether it offered the Rtr frame.
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

void MpaConnection::check_unannounced_rtr(const CheckedAt& at) {
  if (facts_.agreement.revision > 1 || at.form == mpa::Rtr::none || facts_.rtr_seen != mpa::Rtr::none) return;
  facts_.rtr_seen = at.form;
  findings_.remark(at.frame, Side::initiator,
                   fmt::format("the initiator's first FPDU is {}: an RTR by configuration, nothing announced it",
                               describe_form(at.form)));
}

void MpaConnection::check_refusal() {
  const Half& i = halves_[initiator_];
  const std::uint64_t frame = i.fin_frame != 0 ? i.fin_frame : i.rst_frame;
  // A Reply with another revision, or with unrequested enhanced data, is another reason to close.
  const bool other_reason = invalid_reply(*facts_.reply) || facts_.request->revision != facts_.reply->revision ||
                            (facts_.reply->s() && !facts_.request->s());
  if (facts_.reply->m() && !other_reason)
    findings_.add(frame, Side::initiator, Rule::mpa_markers_refused,
                  "the initiator closed after a Reply that requires markers; every sender must be able to insert them");
  else  // it may close, and after an invalid Reply it must
    findings_.add(frame, Side::initiator, Rule::mpa_reply_refused,
                  "the initiator closed after a Reply that does not fit its Request");
}

/// The first frame after which no Rtr frame can follow: the initiator's FIN or a RST of either side.
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

/// Evaluates the initiator's first FPDU for the set-up.
void MpaConnection::judge_first_fpdu(const WalkedFpdu& f) {
  if (facts_.rtr_seen == mpa::Rtr::none) facts_.first_fpdu_at = f.last.at;
  const mpa::Rtr form = f.known == f.ulpdu.size() || f.known >= PARLEY_DDP_UNTAGGED_LEN ? rtr_form(f) : mpa::Rtr::none;
  if (const auto input = input_of_first(f, form)) set_up(*input, {.frame = f.last.frame, .form = form});
}

/// None: it is damaged and behind a hole.
std::optional<SetUpInput> MpaConnection::input_of_first(const WalkedFpdu& f, mpa::Rtr form) {
  const auto header = wire::DdpHeader::parse(f.ulpdu);
  const bool damaged = f.crc == WalkedFpdu::Crc::bad;
  if (header && header->opcode == wire::RdmapOpcode::terminate && !header->tagged)
    return damaged ? SetUpInput::first_is_terminate_damaged : SetUpInput::first_is_terminate;
  // Missing octets may have held the RTR. It is not proven that this FPDU was the first.
  const bool behind_hole = half_of(Side::initiator).counts.missing_octets > 0 && !facts_.agreement.rtr.has(form);
  if (behind_hole) return damaged ? std::nullopt : std::optional(SetUpInput::first_fpdu_behind_hole);
  return damaged ? SetUpInput::first_fpdu_damaged : SetUpInput::first_fpdu;
}

/// Evaluates a Terminate for the set-up.
void MpaConnection::judge_terminate(const Half& h, const WalkedFpdu& f) {
  const auto header = wire::DdpHeader::parse(f.ulpdu);
  if (!header || header->opcode != wire::RdmapOpcode::terminate || header->tagged || f.known < header->size() + 4)
    return;
  const auto t = wire::Terminate::parse(f.ulpdu.subspan(header->size()));
  if (!t) return;
  const CheckedAt at{.frame = f.last.frame, .code = t->code};
  const bool initiators = side_of(h) == Side::initiator;
  if (initiators && speaks_of_set_up(h, f, *t)) set_up(SetUpInput::terminate_of_set_up, at);
  if (!initiators && answers_rtr_frame(h, f, *t)) set_up(SetUpInput::terminate_on_frame, at);
  if (initiators && facts_.reply && facts_.reply->key != wire::MpaKey::rep)
    // RFC 5044 §8: after an invalid startup frame TCP is closed at once; there is no FPDU mode to send one in.
    findings_.add(f.last.frame, Side::initiator, Rule::mpa_invalid_reply_terminate,
                  "the initiator sent a Terminate after an invalid Reply");
}

/// Whether a Terminate is about the set-up: layer LLP and code 4 to 7 (RFC 5044 §8, RFC 6581 §8), before any FPDU of
/// the responder.
bool MpaConnection::speaks_of_set_up(const Half& initiator, const WalkedFpdu& f, const wire::Terminate& t) const {
  const Half& responder = halves_[1 - initiator.index];
  const bool all_seen = initiator.counts.missing_octets == 0 && responder.counts.missing_octets == 0 &&
                        f.first.peer_received <= responder.tcp.position();
  const bool llp = t.layer == PARLEY_RDMAP_LAYER_LLP || (t.layer == 0 && t.etype == PARLEY_RDMAP_LAYER_LLP);
  return all_seen && initiator.fpdus == 1 && responder.fpdus == 0 && llp && t.code >= 4 && t.code <= 7;
}

/// Whether the responder's Terminate can only be about the Rtr frame.
bool MpaConnection::answers_rtr_frame(const Half& responder, const WalkedFpdu& f, const wire::Terminate& t) const {
  if (facts_.agreement.rtr_frame && is_local_error(t)) return false;
  const Half& initiator = halves_[1 - responder.index];
  const bool all_read = f.first.peer_received <= initiator.tcp.position() && initiator.counts.missing_octets == 0;
  return facts_.rtr_frame && initiator.fpdus == 0 && responder.fpdus == 1 && responder.counts.missing_octets == 0 &&
         all_read;
}

/// Checks the cause of a Terminate with which the initiator gave up the set-up.
void MpaConnection::check_terminate_cause(const CheckedAt& at) {
  const bool known = facts_.request && facts_.reply && !invalid_reply(*facts_.reply);
  const auto* r = facts_.reply && facts_.reply->enhanced ? &*facts_.reply->enhanced : nullptr;
  const auto* q = known && facts_.request->enhanced ? &*facts_.request->enhanced : nullptr;
  if (at.code == 4 && known)
    findings_.add(at.frame, Side::initiator, Rule::mpa_reply_called_invalid,
                  "the initiator calls the Reply invalid, and nothing in the capture shows why");
  if (at.code == 6 && r != nullptr) check_ird_denied(q, *r, at.frame);
  if (at.code == 7 && known) check_rtr_match_denied(at.frame);
}

void MpaConnection::check_rtr_match_denied(std::uint64_t frame) {
  const mpa::RtrSet& rtr = facts_.agreement.rtr;
  if (!facts_.agreement.peer_to_peer || rtr.empty()) return;
  findings_.add(frame, Side::initiator, Rule::mpa_rtr_match_denied,
                fmt::format("the initiator found no matching RTR although Request and Reply have{}{}{} in common",
                            rtr.send ? " Send" : "", rtr.write ? " Write" : "", rtr.read ? " Read" : ""));
}

/// `q`: none if the Request is not known, or the Reply invalid.
void MpaConnection::check_ird_denied(const wire::MpaEnhanced* q, const wire::MpaEnhanced& r, std::uint64_t frame) {
  if (r.ird == PARLEY_MPA_ENH_NOT_NEGOTIATED || r.ord == PARLEY_MPA_ENH_NOT_NEGOTIATED)
    return findings_.add(frame, Side::initiator, Rule::mpa_ird_denied,
                         "the initiator terminates for lack of IRD although the Reply asks not to negotiate (0x3fff)");
  if (q != nullptr && depths_fit(*q, r))
    findings_.add(frame, Side::initiator, Rule::mpa_ird_denied,
                  fmt::format("the initiator terminates for lack of IRD, yet the Reply (IRD {}, ORD {}) asks for no "
                              "more than its Request (IRD {}, ORD {}) offers",
                              r.ird, r.ord, q->ird, q->ord));
}

// Checks of the set-up at the end of the connection, in addition to its outcome.
void MpaConnection::finish_set_up() {
  check_extra_accepted();
  check_no_rtr_terminate();
  check_rtr_frame_reset();
}

// RFC 5044 §7.1.2 rule 3: the initiator sends nothing between Request and Reply, so a responder must not accept after
// such octets.
void MpaConnection::check_extra_accepted() {
  const Half &i = halves_[initiator_], &r = halves_[1 - initiator_];
  const std::uint64_t reply_heard = r.head.last.peer_received;
  if (!facts_.reply || facts_.reply->r() || i.extra.octets == 0 || i.startup_length == 0 ||
      reply_heard < i.startup_length + i.extra.octets)
    return;
  findings_.add(facts_.reply->frame, Side::responder, Rule::mpa_extra_accepted,
                fmt::format("the responder accepted although {} had followed the Request by then",
                            counted(i.extra.octets, "octet")));
}

// RFC 6581 §9.2.
void MpaConnection::check_no_rtr_terminate() {
  const Half& i = halves_[initiator_];
  const bool no_kind = facts_.agreement.peer_to_peer && facts_.agreement.rtr.empty();
  const std::uint64_t end = i.fin_frame != 0 ? i.fin_frame : i.rst_frame;
  if (!no_kind || i.fpdus != 0 || i.counts.missing_octets > 0 || end == 0) return;
  findings_.add(end, Side::initiator, Rule::mpa_no_rtr_terminate,
                "the initiator closed without the Terminate (layer 2, code 7) that a Reply without a common RTR "
                "kind asks for");
}

void MpaConnection::check_rtr_frame_reset() {
  const Half &i = halves_[initiator_], &r = halves_[1 - initiator_];
  if (!facts_.rtr_frame || !facts_.agreement.rtr_frame || phase_ == SetUpPhase::failed) return;
  const bool only_the_frame = r.fpdus == 0 && i.fpdus == 0 && r.counts.missing_octets == 0;
  if (!only_the_frame || r.rst_frame <= facts_.rtr_frame->frame) return;
  findings_.add(r.rst_frame, Side::responder, Rule::mpa_rtr_frame_reset,
                "the responder reset the connection on the agreed Rtr frame: the S of its Reply may be an echo of "
                "reserved bits");
}

// OFA 2007-10 Rtr §2: a responder proves that it knows the Rtr frame only when it accepts one.
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
