// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "capture/rules/mpa/stream_phase.hpp"

#include <array>

#include "capture/rules/mpa/phase_table.hpp"

namespace parley::capture {
namespace stream_table {
namespace {

using P = StreamPhase;
using I = StreamInput;
using A = StreamAct;

using Row = PhaseRow<P, I, StreamStep>;
constexpr Row rows[] = {
    {phase_bits(P::startup), I::octets, {P::startup, A::read_startup}},
    {phase_bits(P::startup), I::hole, {P::startup, A::hole_in_startup}},
    {phase_bits(P::startup), I::picked_up, {P::fpdus}},
    {phase_bits(P::startup), I::request, {P::after_request}},
    {phase_bits(P::startup), I::no_startup_frame, {P::blind}},
    {phase_bits(P::startup), I::reply, {P::fpdus}},
    // The Request is not in the capture, or was captured late.
    {phase_bits(P::startup), I::answered, {P::rtr_or_fpdu}},
    {phase_bits(P::startup), I::rejection, {P::over}},
    {phase_bits(P::after_request), I::octets, {P::after_request, A::keep}},
    {phase_bits(P::after_request), I::hole, {P::after_request, A::keep}},
    {phase_bits(P::after_request), I::request_replaced, {P::startup}},
    {phase_bits(P::after_request), I::answered, {P::rtr_or_fpdu}},
    {phase_bits(P::after_request), I::answered_for_good, {P::fpdus}},
    {phase_bits(P::after_request), I::rejection, {P::over}},
    {phase_bits(P::rtr_or_fpdu), I::octets, {P::rtr_or_fpdu, A::keep_and_look}},
    {phase_bits(P::rtr_or_fpdu), I::hole, {P::rtr_or_fpdu, A::keep_and_look}},
    {phase_bits(P::rtr_or_fpdu), I::rtr_frame, {P::fpdus}},
    {phase_bits(P::rtr_or_fpdu), I::first_fpdu, {P::fpdus}},
    {phase_bits(P::rtr_or_fpdu), I::position_unknown, {P::blind}},
    {phase_bits(P::fpdus), I::octets, {P::fpdus, A::walk}},
    {phase_bits(P::fpdus), I::hole, {P::fpdus, A::hole_in_fpdus}},
    {phase_bits(P::fpdus), I::position_unknown, {P::blind}},
    {phase_bits(P::over), I::octets, {P::over, A::look_for_key}},
    {phase_bits(P::blind), I::answered, {P::rtr_or_fpdu}},
    {phase_bits(P::blind), I::rejection, {P::over}},
    {phase_bits(P::blind), I::reply_not_seen, {P::fpdus}},
};

constexpr PhaseTable<StreamStep, stream_phases, stream_inputs> table(rows);

constexpr std::array<std::string_view, stream_phases> phases{"startup", "after_request", "rtr_or_fpdu",
                                                             "fpdus",   "over",          "blind"};
constexpr std::array<std::string_view, stream_inputs> inputs{"octets",
                                                             "hole",
                                                             "picked up among FPDUs",
                                                             "Request",
                                                             "Reply to a later Request",
                                                             "no startup frame",
                                                             "own Reply R=0",
                                                             "octets behind own lost Reply",
                                                             "peer's Reply R=0, or lost",
                                                             "peer's Reply, only FPDUs due",
                                                             "Reply R=1 of either side",
                                                             "Rtr or other startup frame",
                                                             "first FPDU",
                                                             "markers' places unknown"};
constexpr std::array<std::string_view, 8> acts{"",
                                               "read the startup frame",
                                               "keep",
                                               "keep; Rtr frame or FPDU?",
                                               "walk the FPDUs",
                                               "another set-up?",
                                               "frame lacks octets",
                                               "FPDUs lack octets"};

}  // namespace
}  // namespace stream_table

StreamStep step_of(StreamPhase phase, StreamInput input) { return stream_table::table.at(phase, input); }

std::string_view to_string(StreamPhase phase) { return stream_table::phases[static_cast<std::size_t>(phase)]; }
std::string_view to_string(StreamInput input) { return stream_table::inputs[static_cast<std::size_t>(input)]; }
std::string_view to_string(StreamAct act) { return stream_table::acts[static_cast<std::size_t>(act)]; }

}  // namespace parley::capture
