// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// State of one direction of an MPA connection in addition to its phase: facts and counts of one set-up and its FPDUs.
#pragma once
#include "capture/read/fpdu/fpdu_walker.hpp"
#include "capture/report.hpp"
#include "capture/rules/mpa/kept_octets.hpp"
#include "capture/rules/mpa/stream_phase.hpp"

namespace parley::capture {

/// A startup frame as it is collected (RFC 5044 §7.1.1).
struct StartupHead {
  Bytes octets;  // as far as it came; at most 20 + 65535
  SegmentRef first, last;
  SegmentRef header;  // the segment that completed its header
  bool split = false;
  std::size_t known = ~std::size_t{0};  // so many octets of it are in the capture, the others read 0
  std::uint64_t at = 0;                 // stream position
  bool tapped = false;                  // the StreamTap has it

  void add(ConstBytes in, const SegmentRef& ref);
};

/// Octets of the initiator between its Request and the Reply, where none are allowed (RFC 5044 §7.1.2 rule 3).
struct ExtraOctets {
  std::uint64_t octets = 0;
  std::size_t first_octets = 0;  // those of the first segment,
  SegmentRef ref;                // which is this one
  bool reported = false;
};

/// How far FPDUs prove themselves where the agreed parameters are not known (picked up, or a set-up may be lost).
struct FpduEvidence {
  bool needed = false;
  bool met = false;              // an FPDU was found
  std::uint64_t proven = 0;      // octets of good FPDUs in a row
  bool markers_settled = false;  // whether there are markers is known
  std::uint64_t plausible = 0;   // without CRC: FPDUs in a row that have nothing amiss
  std::uint32_t phase = 0;       // picked up: the walker's position of the first octet
};

/// Stream positions: what this direction had acknowledged of the other, and where its own faults end.
struct Receipts {
  std::uint64_t by_fpdus = 0;       // acknowledged with its FPDUs
  std::uint64_t by_terminate = 0;   // acknowledged with its Terminate
  std::uint64_t fault_end = 0;      // behind its first fault; 0: none
  std::uint64_t terminate_end = 0;  // behind its Terminate; 0: none
};

/// What finish_halves() reports. Frames of 0: none.
struct HalfNotes {
  std::uint64_t differing_frame = 0;  // the first retransmission with other octets
  std::uint64_t again_frame = 0;      // the first retransmission
  std::uint64_t cut_segments = 0;
  std::uint64_t lost_places = 0, lost_frame = 0;    // holes, and where the first one showed
  std::uint64_t blind_octets = 0, blind_frame = 0;  // of a startup frame that the capture lacks
  std::uint64_t big_fpdus = 0, biggest = 0, biggest_frame = 0;
};

/// Reset when another set-up begins after a rejection.
struct HalfState {
  StreamPhase phase = StreamPhase::startup;
  void move(StreamInput input) { phase = step_of(phase, input).next; }

  std::uint64_t base = 0;  // where it begins in the stream
  StartupHead head;
  std::uint64_t startup_length = 0;  // where its startup frame ends in the stream
  std::uint64_t request_due = 0;     // octets of a Request that was answered before they came
  ExtraOctets extra;
  KeptOctets early;
  bool behind_lost = false;       // what stood right behind its last startup frame is not in the capture
  std::uint64_t lost_behind = 0;  // octets behind a rejection that are not in the capture
  FpduWalker walker;
  bool fed = false;
  std::uint64_t fed_at = 0;  // stream position of the walker's position 0
  FpduEvidence evidence;
  std::uint64_t data_frame = 0;
  Instant data_at{};
  std::uint64_t fpdus = 0, first_fpdu_frame = 0;
  bool marker_missed = false;  // its positions mean nothing any more
  Receipts received;
  HalfNotes noted;
  DirectionCounts counts;
};

}  // namespace parley::capture
