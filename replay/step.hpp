// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// A step of one side of an MPA connection, and the reader that extracts steps from a TCP stream: a startup frame
// (RFC 5044 §7.1.1), an FPDU (§4.1), octets that are neither, FIN, RST. The same reader handles recorded streams, which
// may lack octets, and live ones.
#pragma once
#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "capture/read/fpdu/fpdu_walker.hpp"
#include "capture/report.hpp"
#include "capture/rules/mpa/startup_check.hpp"

namespace parley::replay {

struct Step {
  enum class Kind : std::uint8_t {
    startup,    ///< Request or Reply, with any fields
    rtr_frame,  ///< OFA 2007-10 Rtr §1
    fpdu,
    raw,  ///< octets that are neither startup frame nor FPDU
    gap,  ///< octets that the recording lacks, or in which no FPDU can be found
    fin,
    rst,
  };
  Kind kind = Kind::raw;
  capture::SegmentRef first, last;  ///< the segments with its first and last octet; frames are 0 when live
  std::uint64_t end = 0;            ///< its end in its TCP stream; a FIN counts as one octet
  Bytes octets;                     ///< startup, rtr_frame: the frame; fpdu: the ULPDU; raw: as on the wire
  std::size_t known = 0;            ///< length of the head of `octets` that the recording holds; zeros follow
  bool bad_crc = false;
  std::uint32_t crc_error = 0;  ///< the CRC that was sent XOR the correct one
  bool bad_pad = false, bad_marker = false;
  bool begun = false;      ///< raw: an FPDU that was never completed
  std::uint64_t lost = 0;  ///< gap: octets
};
std::string_view to_string(Step::Kind kind);

/// The fields of a startup frame; nullopt for fewer than 20 octets.
std::optional<capture::StartupSeen> decode_startup(ConstBytes frame);

/// States: startup; waiting, until agreed() sets the format of FPDUs; FPDUs; raw, once the octets cannot be parsed.
class StepReader final : private capture::FpduSink {
 public:
  void octets(ConstBytes in, const capture::SegmentRef& ref, bool start);
  void missing(std::uint64_t n, const capture::SegmentRef& ref, bool cut);
  /// The stream lacks its beginning: octets that are not a startup frame may be FPDUs after one.
  void not_from_beginning() { mid_stream_ = true; }
  /// FPDUs follow the startup frame; `rtr_frame`: the Rtr frame may come before them.
  void agreed(capture::Known crc, capture::Known markers, bool rtr_frame);
  /// FPDU mode is never reached; the octets after the startup frame are raw.
  void no_fpdus();
  /// The stream is over. `closed`: it ended with FIN or RST, so that incomplete frames are raw; else the recording
  /// ended, and they are a gap.
  void finish(const capture::SegmentRef& ref, bool closed);

  /// Describes an incomplete frame: "11 of the 20 octets of a startup frame"; empty if there is none.
  std::string begun() const;

  bool startup_done() const { return phase_ != Phase::startup; }
  std::uint64_t position() const { return position_; }
  /// The size of the startup frame, once it is complete.
  std::uint64_t startup_length() const { return startup_length_; }
  /// The steps found so far; the caller removes those that it has handled.
  std::vector<Step>& steps() { return steps_; }

 private:
  enum class Phase : std::uint8_t { startup, waiting, rtr_frame, fpdus, raw };
  struct Chunk {
    Bytes data;
    std::uint64_t missing = 0;
    bool cut = false, start = false;
    capture::SegmentRef ref;
  };
  // Memory for octets that arrive before agreed(), including the chunks themselves; further octets are a gap.
  static constexpr std::size_t kept_max = 4 << 20;

  void read(ConstBytes in, const capture::SegmentRef& ref, bool start);
  void skip_missing(std::uint64_t n, const capture::SegmentRef& ref, bool cut);
  void startup_octets(ConstBytes in, const capture::SegmentRef& ref);
  void head_is_raw();
  void keep(Chunk chunk);
  void rtr_or_fpdus();
  void begin_fpdus();
  void flush_kept();
  void walk(ConstBytes in, const capture::SegmentRef& ref, bool start);
  void note_loss(const capture::SegmentRef& ref);
  void after_walk();
  void raw(ConstBytes in, const capture::SegmentRef& ref);
  void raw_pending();
  void gap(std::uint64_t n, const capture::SegmentRef& ref);
  Step& add(Step::Kind kind, const capture::SegmentRef& first, const capture::SegmentRef& last);

  void fpdu(const capture::WalkedFpdu& f) override;
  void bad_length(std::uint32_t length, const capture::SegmentRef& ref) override;
  void resynchronised(std::uint64_t octets, const capture::SegmentRef& ref) override;

  Phase phase_ = Phase::startup;
  capture::FpduWalker walker_;
  capture::Known crc_ = capture::Known::unknown, markers_ = capture::Known::unknown;
  std::uint64_t position_ = 0;        // octets of the stream so far
  std::uint64_t taken_ = 0;           // the same, without kept_
  std::uint64_t startup_length_ = 0;  // size of its startup frame
  std::uint64_t fpdu_base_ = 0;       // position of the first FPDU
  Bytes head_;                        // the startup frame so far; at most 20 + 65535
  std::size_t head_known_ = 0;
  std::vector<std::pair<std::size_t, capture::SegmentRef>> head_parts_;  // the beginning of each part of it
  bool mid_stream_ = false, without_startup_ = false;
  std::deque<Chunk> kept_;  // at most kept_max, and the chunk that exceeds it
  std::size_t kept_octets_ = 0, kept_memory_ = 0;
  Bytes rtr_head_;                  // head of kept_, while an Rtr frame may come: at most the frame and a chunk more
  std::size_t rtr_chunks_ = 0;      // chunks of kept_ that it includes
  bool rtr_cut_ = false;            // octets after it are missing
  Bytes pending_;                   // the octets that the walker holds, in case they turn out not to be an FPDU
  std::uint64_t pending_base_ = 0;  // stream position, counted from fpdu_base_
  std::deque<std::pair<std::uint64_t, capture::SegmentRef>> pending_parts_;  // the beginning of each part of it
  bool broken_ = false;  // an impossible ULPDU_Length, at broken_at_
  std::uint64_t broken_at_ = 0;
  std::optional<capture::SegmentRef> lost_ref_;  // the segment at which the FPDU boundaries were lost
  std::vector<Step> steps_;
};

}  // namespace parley::replay
