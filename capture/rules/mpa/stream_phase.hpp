// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The phases of one direction of an MPA connection (RFC 5044 §7.1): each phase with each input has a next phase, and
// the phase says how octets and holes are read. It is a table like that of the set-up (set_up_phase.hpp).
#pragma once
#include <cstdint>
#include <string_view>

namespace parley::capture {

enum class StreamPhase : std::uint8_t {
  startup,        // the next octets are a startup frame
  after_request,  // behind the Request, before the Reply is known: octets are kept
  rtr_or_fpdu,    // behind the Request: an Rtr frame, a late-captured or second Request, or the first FPDU
  fpdus,
  over,   // rejected: another startup frame begins another set-up with its own report
  blind,  // cannot be followed: a startup frame, or the place where FPDUs begin, is not (whole) in the capture
};
inline constexpr std::size_t stream_phases = 6;

enum class StreamInput : std::uint8_t {
  octets,
  hole,               // octets that the capture lacks
  picked_up,          // among its FPDUs
  request,            // its whole Request
  request_replaced,   // the Reply acknowledges a later Request
  no_startup_frame,   // octets that are not a startup frame, or a hole in one
  reply,              // its accepting Reply
  reply_not_seen,     // octets behind its Reply, which is not in the capture
  answered,           // the peer accepted, or its Reply is lost; a startup frame may still follow
  answered_for_good,  // the peer accepted, and only FPDUs may follow
  rejection,          // a Reply with R=1, of either side
  rtr_frame,          // or another startup frame in its place
  first_fpdu,
  position_unknown,  // the positions of markers are not known (RFC 5044 §4.3)
};
inline constexpr std::size_t stream_inputs = 14;

/// How octets, or a hole, are read.
enum class StreamAct : std::uint8_t {
  none,
  read_startup,     // as part of a startup frame
  keep,             // keep them until the Reply is known
  keep_and_look,    // keep them until they show whether an Rtr frame or an FPDU follows
  walk,             // as FPDUs
  look_for_key,     // search the key of another startup frame
  hole_in_startup,  // the startup frame lacks octets
  hole_in_fpdus,
};

struct StreamStep {
  StreamPhase next = StreamPhase::startup;
  StreamAct act = StreamAct::none;
};
/// An input without a row leaves the phase unchanged.
StreamStep step_of(StreamPhase phase, StreamInput input);

std::string_view to_string(StreamPhase phase);
std::string_view to_string(StreamInput input);
std::string_view to_string(StreamAct act);

}  // namespace parley::capture
