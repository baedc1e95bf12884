// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// State of one direction of an MPA connection in addition to its phase: facts and counts of one set-up and its FPDUs.
#pragma once
#include "capture/read/fpdu/fpdu_walker.hpp"
#include "capture/report.hpp"
#include "capture/rules/mpa/kept_octets.hpp"
#include "capture/rules/mpa/stream_phase.hpp"

namespace parley::capture {

/// A startup frame that is being collected (RFC 5044 §7.1.1).
struct StartupHead {
  Bytes octets;  // those received so far; at most 20 + 65535
  SegmentRef first, last;
  SegmentRef header;  // the segment that completed its header
  bool split = false;
  std::size_t known = ~std::size_t{0};  // how many of its octets are in the capture; the others are 0
  std::uint64_t at = 0;                 // stream position
  bool tapped = false;                  // the StreamTap has it

  void add(ConstBytes in, const SegmentRef& ref);
};

/// Octets of the initiator between its Request and the Reply, where none are allowed (RFC 5044 §7.1.2 rule 3).
struct ExtraOctets {
  std::uint64_t octets = 0;
  std::size_t first_octets = 0;  // those of the first segment
  SegmentRef ref;                // the first segment
  bool reported = false;
};

/// How far FPDUs are proven while the agreed parameters are not known (picked up, or a set-up may be lost).
struct FpduEvidence {
  bool needed = false;
  bool met = false;              // an FPDU was found
  std::uint64_t proven = 0;      // octets of good FPDUs in a row
  bool markers_settled = false;  // it is known whether there are markers
  std::uint64_t plausible = 0;   // without CRC: number of plausible FPDUs in a row
  std::uint32_t phase = 0;       // picked up: the walker's position of the first octet
};

/// Stream positions: what this side had acknowledged of the other direction, and where its own faults end.
struct Receipts {
  std::uint64_t by_fpdus = 0;       // acknowledged with its FPDUs
  std::uint64_t by_terminate = 0;   // acknowledged with its Terminate
  std::uint64_t fault_end = 0;      // behind its first fault; 0: none
  std::uint64_t terminate_end = 0;  // behind its Terminate; 0: none
};

/// Data for finish_halves(). Frame 0: none.
struct HalfNotes {
  std::uint64_t differing_frame = 0;  // the first retransmission with different octets
  std::uint64_t again_frame = 0;      // the first retransmission
  std::uint64_t cut_segments = 0;
  std::uint64_t lost_places = 0, lost_frame = 0;    // number of holes, and the frame that showed the first one
  std::uint64_t blind_octets = 0, blind_frame = 0;  // octets of a startup frame that the capture lacks
  std::uint64_t big_fpdus = 0, biggest = 0, biggest_frame = 0;
};

/// Reset when another set-up begins after a rejection.
struct HalfState {
  StreamPhase phase = StreamPhase::startup;
  void move(StreamInput input) { phase = step_of(phase, input).next; }

  std::uint64_t base = 0;  // stream position where this set-up begins
  StartupHead head;
  std::uint64_t startup_length = 0;  // stream position where the startup frame ends
  std::uint64_t request_due = 0;     // remaining octets of a Request that was answered before it was whole
  ExtraOctets extra;
  KeptOctets early;
  bool behind_lost = false;       // the octets right behind its last startup frame are not in the capture
  std::uint64_t lost_behind = 0;  // octets behind a rejection that are not in the capture
  FpduWalker walker;
  bool fed = false;
  std::uint64_t fed_at = 0;  // stream position of the walker's position 0
  FpduEvidence evidence;
  std::uint64_t data_frame = 0;
  Instant data_at{};
  std::uint64_t fpdus = 0, first_fpdu_frame = 0;
  bool marker_missed = false;  // it omitted a marker: its marker positions are no longer valid
  Receipts received;
  HalfNotes noted;
  DirectionCounts counts;
};

}  // namespace parley::capture
