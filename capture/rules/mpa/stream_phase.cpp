// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "capture/rules/mpa/stream_phase.hpp"

#include <array>

namespace parley::capture {
namespace stream_table {
namespace {

using P = StreamPhase;
using I = StreamInput;
using A = StreamAct;

struct Row {
  P from;
  I on;
  StreamStep step;
};

constexpr Row rows[] = {
    {P::startup, I::octets, {P::startup, A::read_startup}},
    {P::startup, I::hole, {P::startup, A::hole_in_startup}},
    {P::startup, I::picked_up, {P::fpdus}},
    {P::startup, I::request, {P::after_request}},
    {P::startup, I::no_startup_frame, {P::blind}},
    {P::startup, I::reply, {P::fpdus}},
    // The Request is not in the capture, or comes late.
    {P::startup, I::answered, {P::rtr_or_fpdu}},
    {P::startup, I::rejection, {P::over}},
    {P::after_request, I::octets, {P::after_request, A::keep}},
    {P::after_request, I::hole, {P::after_request, A::keep}},
    {P::after_request, I::request_replaced, {P::startup}},
    {P::after_request, I::answered, {P::rtr_or_fpdu}},
    {P::after_request, I::answered_for_good, {P::fpdus}},
    {P::after_request, I::rejection, {P::over}},
    {P::rtr_or_fpdu, I::octets, {P::rtr_or_fpdu, A::keep_and_look}},
    {P::rtr_or_fpdu, I::hole, {P::rtr_or_fpdu, A::keep_and_look}},
    {P::rtr_or_fpdu, I::rtr_frame, {P::fpdus}},
    {P::rtr_or_fpdu, I::first_fpdu, {P::fpdus}},
    {P::rtr_or_fpdu, I::position_unknown, {P::blind}},
    {P::fpdus, I::octets, {P::fpdus, A::walk}},
    {P::fpdus, I::hole, {P::fpdus, A::hole_in_fpdus}},
    {P::fpdus, I::position_unknown, {P::blind}},
    {P::over, I::octets, {P::over, A::look_for_key}},
    {P::blind, I::answered, {P::rtr_or_fpdu}},
    {P::blind, I::rejection, {P::over}},
    {P::blind, I::reply_not_seen, {P::fpdus}},
};

/// A row for a cell that has one already does not compile.
consteval auto filled() {
  std::array<std::array<StreamStep, stream_inputs>, stream_phases> cells{};
  std::array<std::array<bool, stream_inputs>, stream_phases> set{};
  for (std::size_t p = 0; p < stream_phases; ++p)
    for (StreamStep& cell : cells[p]) cell.next = static_cast<P>(p);
  for (const Row& row : rows) {
    const auto p = static_cast<std::size_t>(row.from), i = static_cast<std::size_t>(row.on);
    if (set[p][i]) throw "two rows for one cell";
    set[p][i] = true;
    cells[p][i] = row.step;
  }
  return cells;
}
constexpr auto table = filled();

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

StreamStep step_of(StreamPhase phase, StreamInput input) {
  return stream_table::table[static_cast<std::size_t>(phase)][static_cast<std::size_t>(input)];
}

std::string_view to_string(StreamPhase phase) { return stream_table::phases[static_cast<std::size_t>(phase)]; }
std::string_view to_string(StreamInput input) { return stream_table::inputs[static_cast<std::size_t>(input)]; }
std::string_view to_string(StreamAct act) { return stream_table::acts[static_cast<std::size_t>(act)]; }

}  // namespace parley::capture
