// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// How far one MPA set-up is, as the checker sees it (RFC 5044 §7.1, RFC 6581 §9, OFA 2007-10 Rtr): the phases, what moves
// them, and what is judged with each step. Pure tables: MpaConnection runs from them, tests/states/capture_mpa.txt
// prints them. What was said and agreed stands apart (SetUpFacts).
#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "capture/report.hpp"

namespace parley::capture {

enum class SetUpPhase : std::uint8_t {
  nothing,          // no startup frame was seen whole
  requested,        // the Request, and no Reply
  reply_lost,       // the capture lacks the Reply, and the peers went on
  no_common_rtr,    // A on both sides, and no kind of RTR in common: the initiator has to give up
  rtr_due,          // an accepting Reply; the initiator's RTR is due
  rtr_frame_due,    // an accepting Reply with S on both sides under revision 1; the Rtr frame is due
  rtr_frame_wrong,  // another startup frame stood where the Rtr frame was due
  operational,      // an accepting Reply, and the RTR if one was agreed
  rejected,         // a Reply with R=1
  given_up,         // the initiator closed after a Reply that does not suit it
  failed,           // a Terminate of the set-up, a Reply with another key, or closed without a Reply
  not_captured,     // picked up among its FPDUs
};
inline constexpr std::size_t set_up_phases = 12;

enum class SetUpInput : std::uint8_t {
  picked_up,
  request,
  request_replaced,  // the Reply answers a Request behind the one that is known
  reply_not_seen,    // octets where the Reply is due, or of the initiator behind its Request, and the capture has gaps
  reply_rejects,
  reply_of_other_key,
  // Request and Reply are known; or an accepting Reply alone, which agrees on nothing.
  agree_on_no_rtr_frame_or_kind,
  agree_on_kinds,
  agree_on_no_kind,
  agree_on_rtr_frame,
  // The initiator's first octets as Reply and Request have settled them.
  rtr_frame,
  second_startup,
  first_fpdu,
  first_fpdu_damaged,      // its CRC is wrong
  first_fpdu_behind_hole,  // the capture lacks octets before it, and it is no RTR of an agreed kind
  first_is_terminate,
  first_is_terminate_damaged,
  // A first FPDU, too.
  terminate_of_set_up,  // the initiator's, of layer LLP and code 4 to 7, before the responder sent an FPDU
  terminate_on_frame,   // the responder's, when the Rtr frame was all that the initiator had sent
  // The end of the streams.
  refused,          // the initiator ended having sent nothing behind its Request; the Reply gave a reason
  left,             // the same, and the Reply gave none but the lack of a common kind
  initiator_ended,  // or cannot go on, since the responder reset the connection
  closed,           // by both sides or a RST
  closed_all_seen,  // and the capture lacks nothing
  end_of_capture,
};
inline constexpr std::size_t set_up_inputs = 25;

/// What is judged with a step: named by the rule that it may find broken, or by what it remarks.
enum class SetUpCheck : std::uint8_t {
  none,
  not_captured,       // remarks that the set-up is not in the capture
  rtr_frame,          // mpa.rtr-frame, mpa.rtr-frame-unasked
  second_startup,     // mpa.second-startup
  rtr_kind,           // mpa.rtr-kind
  rtr_frame_omitted,  // mpa.rtr-frame-omitted
  rtr_by_itself,      // remarks an RTR form that nothing announced
  as_agreed,          // the one of the three before that an invalid Reply would have called for
  terminate_cause,    // mpa.rtr-match-denied, mpa.ird-denied, mpa.reply-called-invalid
  rtr_frame_as_fpdu,  // mpa.rtr-frame-as-fpdu
  refusal,            // mpa.markers-refused, mpa.reply-refused
  s_unproven,         // mpa.s-unproven
  rtr_frame_missing,  // mpa.rtr-frame-missing
  rtr_missing,        // mpa.rtr-missing
};

struct SetUpStep {
  SetUpPhase next = SetUpPhase::nothing;
  std::array<SetUpCheck, 2> checks{};  // in this order
};
/// What no row names leaves the phase as it is and is not judged.
SetUpStep step_of(SetUpPhase phase, SetUpInput input);
Outcome outcome_of(SetUpPhase phase);

std::string_view to_string(SetUpPhase phase);
std::string_view to_string(SetUpInput input);
/// The rules, as `parley pcap rules` names them.
std::string_view to_string(SetUpCheck check);

}  // namespace parley::capture
