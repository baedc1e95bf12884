// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// What one direction of an MPA connection holds at the place that is being read (RFC 5044 §7.1): the phases, what moves
// them, and how octets and holes are read in each. Pure tables, as those of the set-up (set_up_phase.hpp).
#pragma once
#include <cstdint>
#include <string_view>

namespace parley::capture {

enum class StreamPhase : std::uint8_t {
  startup,        // a startup frame is due
  after_request,  // behind the Request, and the Reply is not known: kept
  rtr_or_fpdu,    // behind the Request: an Rtr frame, a Request that is captured late or again, or the first FPDU
  fpdus,
  over,   // rejected: another startup frame begins another set-up, in another report
  blind,  // octets of a startup frame, or of where FPDUs begin, are missing: cannot be followed
};
inline constexpr std::size_t stream_phases = 6;

enum class StreamInput : std::uint8_t {
  octets,
  hole,               // octets that the capture lacks
  picked_up,          // among its FPDUs
  request,            // its Request, whole
  request_replaced,   // the Reply answers a Request behind it
  no_startup_frame,   // octets that are none, or not all of one
  reply,              // its accepting Reply
  reply_not_seen,     // octets behind a Reply that is not in the capture
  answered,           // the other side's accepting Reply is known, or lost; a startup frame may still come
  answered_for_good,  // it is known, and only FPDUs may come
  rejection,          // a Reply with R=1, of either side
  rtr_frame,          // or another startup frame in its place
  first_fpdu,
  position_unknown,  // where markers stand is not known (RFC 5044 §4.3)
};
inline constexpr std::size_t stream_inputs = 14;

/// How octets are read, or what a hole among them means.
enum class StreamAct : std::uint8_t {
  none,
  read_startup,     // they are of a startup frame
  keep,             // until the Reply is known
  keep_and_look,    // they tell whether an Rtr frame or FPDUs follow
  walk,             // they are of FPDUs
  look_for_key,     // another set-up may begin
  hole_in_startup,  // the frame lacks octets
  hole_in_fpdus,
};

struct StreamStep {
  StreamPhase next = StreamPhase::startup;
  StreamAct act = StreamAct::none;
};
/// What no row names leaves the phase as it is.
StreamStep step_of(StreamPhase phase, StreamInput input);

std::string_view to_string(StreamPhase phase);
std::string_view to_string(StreamInput input);
std::string_view to_string(StreamAct act);

}  // namespace parley::capture
