// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The phases of one MPA set-up as the checker sees it (RFC 5044 §7.1, RFC 6581 §9, OFA 2007-10 Rtr): each phase with
// each input has a next phase and checks. MpaConnection runs from this table; tests/states/capture_mpa.txt prints it.
// The phase holds no fact: SetUpFacts has what the peers sent and agreed on.
#pragma once
#include <array>
#include <cstdint>
#include <string_view>

#include "capture/report.hpp"

namespace parley::capture {

enum class SetUpPhase : std::uint8_t {
  nothing,          // no whole startup frame was captured
  requested,        // the Request was captured, a Reply was not
  reply_lost,       // the capture lacks the Reply, and the peers continued without a second Request
  no_common_rtr,    // accepted with A=1 on both sides, but no RTR kind in common: the initiator must give up
  rtr_due,          // accepted; the initiator's RTR is the next FPDU
  rtr_frame_due,    // accepted with S on both sides under revision 1; the Rtr frame is next
  rtr_frame_wrong,  // the initiator sent another startup frame in place of the agreed Rtr frame
  operational,      // accepted, and the RTR was sent if one was agreed
  rejected,         // Reply with R=1
  given_up,         // the initiator closed after a Reply that it could not use
  failed,           // Terminate of the set-up, Reply with another key, or closed without a Reply
  not_captured,     // picked up among its FPDUs
};
inline constexpr std::size_t set_up_phases = 12;

enum class SetUpInput : std::uint8_t {
  picked_up,
  request,
  request_replaced,  // the Reply acknowledges a later Request than the one that was captured
  reply_not_seen,    // a peer continued as after an accepting Reply, which the capture lacks
  reply_rejects,
  reply_of_other_key,
  // What an accepting Reply agrees on with its Request; without the Request, it agrees on nothing.
  agree_on_nothing,
  agree_on_kinds,
  agree_on_no_kind,
  agree_on_rtr_frame,
  // The initiator's first octets behind the Request.
  rtr_frame,
  second_startup,  // a startup frame with another key
  first_fpdu,
  first_fpdu_damaged,      // wrong CRC
  first_fpdu_behind_hole,  // the capture lacks octets before it, and it is not an RTR of an agreed kind
  first_is_terminate,
  first_is_terminate_damaged,  // wrong CRC
  // Terminates that are the first FPDU of their sender.
  terminate_of_set_up,  // the initiator's, layer LLP and code 4 to 7, before any FPDU of the responder
  terminate_on_frame,   // the responder's, when the Rtr frame was all that the initiator had sent
  // The end of the streams. The first two are used in addition to one of the others.
  refused,          // FIN or RST of an initiator that sent nothing behind its Request; the Reply gave it a reason
  left,             // the same without a reason
  initiator_ended,  // FIN of the initiator
  closed,           // FINs of both sides, or a RST
  closed_all_seen,  // the same, and the capture lacks nothing
  end_of_capture,
};
inline constexpr std::size_t set_up_inputs = 25;

/// A check that a step runs, with the rules whose breach it can report.
enum class SetUpCheck : std::uint8_t {
  none,
  not_captured,       // a remark: the set-up is not in the capture
  rtr_frame,          // mpa.rtr-frame, mpa.rtr-frame-unasked
  second_startup,     // mpa.second-startup
  rtr_kind,           // mpa.rtr-kind
  rtr_frame_omitted,  // mpa.rtr-frame-omitted
  unannounced_rtr,    // a remark: an RTR form that was not negotiated
  as_agreed,          // one of the three above, by what an invalid Reply agreed on
  terminate_cause,    // mpa.rtr-match-denied, mpa.ird-denied, mpa.reply-called-invalid
  rtr_frame_as_fpdu,  // mpa.rtr-frame-as-fpdu
  refusal,            // mpa.markers-refused, mpa.reply-refused
  s_unproven,         // mpa.s-unproven
  rtr_frame_missing,  // mpa.rtr-frame-missing
  rtr_missing,        // mpa.rtr-missing
};

struct SetUpStep {
  SetUpPhase next = SetUpPhase::nothing;
  std::array<SetUpCheck, 2> checks{};  // run in this order
};
/// An input without a row leaves the phase unchanged and runs no check.
SetUpStep step_of(SetUpPhase phase, SetUpInput input);
Outcome outcome_of(SetUpPhase phase);

std::string_view to_string(SetUpPhase phase);
std::string_view to_string(SetUpInput input);
/// The rules, as `parley pcap rules` names them.
std::string_view to_string(SetUpCheck check);

}  // namespace parley::capture
