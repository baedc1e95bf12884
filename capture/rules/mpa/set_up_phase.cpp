// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "capture/rules/mpa/set_up_phase.hpp"

#include <array>

#include "capture/rules/mpa/phase_table.hpp"

namespace parley::capture {
namespace set_up_table {
namespace {

using P = SetUpPhase;
using I = SetUpInput;
using C = SetUpCheck;

using Row = PhaseRow<P, I, SetUpStep>;
constexpr std::uint32_t unanswered = phase_bits(P::nothing, P::requested);
constexpr std::uint32_t accepted = phase_bits(P::no_common_rtr, P::rtr_due, P::rtr_frame_due, P::operational);
constexpr std::uint32_t waiting =
    phase_bits(P::reply_lost, P::no_common_rtr, P::rtr_due, P::rtr_frame_due, P::rtr_frame_wrong);

constexpr Row rows[] = {
    {phase_bits(P::nothing), I::picked_up, {P::not_captured}},
    {phase_bits(P::nothing), I::request, {P::requested}},
    {phase_bits(P::requested), I::request_replaced, {P::nothing}},
    {phase_bits(P::requested), I::reply_not_seen, {P::reply_lost}},
    // RFC 5044 §7.1.2 rules 2, 3, 8.
    {unanswered, I::reply_rejects, {P::rejected}},
    {unanswered, I::reply_of_other_key, {P::failed}},
    // A Request that was captured behind its Reply changes what was agreed.
    {unanswered | accepted, I::agree_on_nothing, {P::operational}},
    {unanswered | accepted, I::agree_on_kinds, {P::rtr_due}},
    {unanswered | accepted, I::agree_on_no_kind, {P::no_common_rtr}},
    {unanswered | accepted, I::agree_on_rtr_frame, {P::rtr_frame_due}},
    // OFA 2007-10 Rtr §1.
    {phase_bits(P::reply_lost, P::rtr_frame_due, P::operational), I::rtr_frame, {P::operational, {C::rtr_frame}}},
    {phase_bits(P::no_common_rtr), I::rtr_frame, {P::no_common_rtr, {C::rtr_frame}}},
    {phase_bits(P::rtr_due), I::rtr_frame, {P::rtr_due, {C::rtr_frame}}},
    {phase_bits(P::failed), I::rtr_frame, {P::failed, {C::rtr_frame}}},
    {phase_bits(P::rtr_frame_due), I::second_startup, {P::rtr_frame_wrong, {C::second_startup}}},
    {phase_bits(P::reply_lost), I::second_startup, {P::reply_lost, {C::second_startup}}},
    {phase_bits(P::no_common_rtr), I::second_startup, {P::no_common_rtr, {C::second_startup}}},
    {phase_bits(P::rtr_due), I::second_startup, {P::rtr_due, {C::second_startup}}},
    {phase_bits(P::operational), I::second_startup, {P::operational, {C::second_startup}}},
    {phase_bits(P::failed), I::second_startup, {P::failed, {C::second_startup}}},
    // RFC 6581 §9.2: the RTR is the first FPDU.
    {phase_bits(P::reply_lost), I::first_fpdu, {P::operational, {C::unannounced_rtr}}},
    {phase_bits(P::no_common_rtr, P::rtr_due), I::first_fpdu, {P::operational, {C::rtr_kind}}},
    {phase_bits(P::rtr_frame_due), I::first_fpdu, {P::operational, {C::s_unproven, C::rtr_frame_omitted}}},
    {phase_bits(P::operational), I::first_fpdu, {P::operational, {C::unannounced_rtr}}},
    {phase_bits(P::failed), I::first_fpdu, {P::failed, {C::as_agreed}}},
    {phase_bits(P::reply_lost), I::first_fpdu_damaged, {P::reply_lost, {C::unannounced_rtr}}},
    {phase_bits(P::no_common_rtr), I::first_fpdu_damaged, {P::no_common_rtr, {C::rtr_kind}}},
    {phase_bits(P::rtr_due), I::first_fpdu_damaged, {P::rtr_due, {C::rtr_kind}}},
    {phase_bits(P::rtr_frame_due), I::first_fpdu_damaged, {P::operational, {C::s_unproven, C::rtr_frame_omitted}}},
    {phase_bits(P::operational), I::first_fpdu_damaged, {P::operational, {C::unannounced_rtr}}},
    {phase_bits(P::failed), I::first_fpdu_damaged, {P::failed, {C::as_agreed}}},
    {waiting, I::first_fpdu_behind_hole, {P::operational}},
    {phase_bits(P::reply_lost), I::first_is_terminate, {P::operational}},
    {phase_bits(P::rtr_frame_due), I::first_is_terminate, {P::rtr_frame_due, {C::s_unproven}}},
    {phase_bits(P::rtr_frame_due), I::first_is_terminate_damaged, {P::rtr_frame_due, {C::s_unproven}}},
    // RFC 5044 §8, RFC 6581 §8.
    {waiting | phase_bits(P::operational, P::failed), I::terminate_of_set_up, {P::failed, {C::terminate_cause}}},
    {waiting | phase_bits(P::operational, P::failed), I::terminate_on_frame, {P::failed, {C::rtr_frame_as_fpdu}}},
    // Until its stream ends, the initiator may still send the agreed RTR.
    {phase_bits(P::no_common_rtr, P::rtr_due, P::operational), I::refused, {P::given_up, {C::refusal}}},
    {phase_bits(P::rtr_frame_due), I::refused, {P::given_up, {C::refusal, C::s_unproven}}},
    {phase_bits(P::no_common_rtr), I::left, {P::given_up}},
    {phase_bits(P::rtr_frame_due), I::initiator_ended, {P::rtr_frame_due, {C::s_unproven}}},
    {phase_bits(P::rtr_due), I::closed, {P::rtr_due, {C::rtr_missing}}},
    {phase_bits(P::rtr_due), I::closed_all_seen, {P::rtr_due, {C::rtr_missing}}},
    {phase_bits(P::rtr_frame_due), I::closed, {P::rtr_frame_due, {C::s_unproven, C::rtr_frame_missing}}},
    {phase_bits(P::rtr_frame_due), I::closed_all_seen, {P::rtr_frame_due, {C::s_unproven, C::rtr_frame_missing}}},
    {phase_bits(P::rtr_frame_wrong), I::closed, {P::rtr_frame_wrong, {C::rtr_frame_missing}}},
    {phase_bits(P::rtr_frame_wrong), I::closed_all_seen, {P::rtr_frame_wrong, {C::rtr_frame_missing}}},
    {unanswered, I::closed_all_seen, {P::failed}},
    {phase_bits(P::not_captured), I::initiator_ended, {P::not_captured, {C::not_captured}}},
    {phase_bits(P::not_captured), I::closed, {P::not_captured, {C::not_captured}}},
    {phase_bits(P::not_captured), I::closed_all_seen, {P::not_captured, {C::not_captured}}},
    {phase_bits(P::not_captured), I::end_of_capture, {P::not_captured, {C::not_captured}}},
};

constexpr PhaseTable<SetUpStep, set_up_phases, set_up_inputs> table(rows);

struct PhaseFacts {
  std::string_view name;
  Outcome outcome;
};
constexpr std::array<PhaseFacts, set_up_phases> phases{{{"nothing", Outcome::incomplete},
                                                        {"requested", Outcome::incomplete},
                                                        {"reply_lost", Outcome::incomplete},
                                                        {"no_common_rtr", Outcome::incomplete},
                                                        {"rtr_due", Outcome::incomplete},
                                                        {"rtr_frame_due", Outcome::incomplete},
                                                        {"rtr_frame_wrong", Outcome::incomplete},
                                                        {"operational", Outcome::established},
                                                        {"rejected", Outcome::rejected},
                                                        {"given_up", Outcome::failed},
                                                        {"failed", Outcome::failed},
                                                        {"not_captured", Outcome::not_captured}}};
constexpr std::array<std::string_view, set_up_inputs> inputs{"picked up among FPDUs",
                                                             "Request",
                                                             "Reply to a later Request",
                                                             "continued without Reply",
                                                             "Reply R=1",
                                                             "Reply of another key",
                                                             "accepted, nothing else agreed",
                                                             "accepted, kinds of RTR agreed",
                                                             "accepted, no kind in common",
                                                             "accepted, Rtr frame agreed",
                                                             "Rtr frame",
                                                             "another startup frame",
                                                             "first FPDU",
                                                             "first FPDU, CRC wrong",
                                                             "first FPDU behind a hole",
                                                             "first FPDU, a Terminate",
                                                             "first FPDU, a damaged Terminate",
                                                             "Terminate 2/x/04 to 07",
                                                             "Terminate on the Rtr frame",
                                                             "initiator ends, reason to refuse",
                                                             "initiator ends, no reason",
                                                             "FIN of the initiator",
                                                             "closed",
                                                             "closed, nothing missing",
                                                             "end of the capture"};
constexpr std::array<std::string_view, 14> checks{"",
                                                  "a remark",
                                                  "mpa.rtr-frame mpa.rtr-frame-unasked",
                                                  "mpa.second-startup",
                                                  "mpa.rtr-kind",
                                                  "mpa.rtr-frame-omitted",
                                                  "a remark on an RTR form",
                                                  "what the Reply agreed on",
                                                  "mpa.rtr-match-denied mpa.ird-denied mpa.reply-called-invalid",
                                                  "mpa.rtr-frame-as-fpdu",
                                                  "mpa.markers-refused mpa.reply-refused",
                                                  "mpa.s-unproven",
                                                  "mpa.rtr-frame-missing",
                                                  "mpa.rtr-missing"};

}  // namespace
}  // namespace set_up_table

SetUpStep step_of(SetUpPhase phase, SetUpInput input) { return set_up_table::table.at(phase, input); }

Outcome outcome_of(SetUpPhase phase) { return set_up_table::phases[static_cast<std::size_t>(phase)].outcome; }
std::string_view to_string(SetUpPhase phase) { return set_up_table::phases[static_cast<std::size_t>(phase)].name; }
std::string_view to_string(SetUpInput input) { return set_up_table::inputs[static_cast<std::size_t>(input)]; }
std::string_view to_string(SetUpCheck check) { return set_up_table::checks[static_cast<std::size_t>(check)]; }

}  // namespace parley::capture
