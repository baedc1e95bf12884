// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Finds the FPDUs of one direction (RFC 5044 §4) in a stream that may lack octets, and reports the faults of each.
// After a loss it resynchronises: by the FPDUPTR of markers, and by trying the beginnings of TCP segments. It accepts
// only an FPDU whose CRC and DDP header are correct (RFC 5044 §6).
// It is separate from mpa::Deframer on purpose: the Deframer must stop at the first fault, the walker must continue.
// Each of the two checks the other.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "capture/read/tcp/tcp_half.hpp"
#include "wire/mpa.hpp"

namespace parley::capture {

enum class Known : std::uint8_t { no, yes, unknown };

struct WalkedFpdu {
  enum class Crc : std::uint8_t { good, bad, off, not_seen };
  std::uint64_t position = 0;  ///< of the FPDU in the stream, a leading marker included
  std::uint32_t wire_octets = 0;
  ConstBytes wire;         ///< the whole FPDU as it went over the wire, markers and CRC included
  ConstBytes ulpdu;        ///< octets that the capture lacks are 0
  std::size_t known = 0;   ///< octets at the beginning of `ulpdu` that the capture holds
  SegmentRef first, last;  ///< the segments that carried its first and its last octet
  Crc crc = Crc::off;
  std::uint32_t crc_sent = 0, crc_computed = 0;
  /// Found after a loss by its header alone, without CRC or marker. Payload can look like such a header.
  bool doubtful = false;
  bool marker_missing = false;  ///< the CRC is wrong, but correct if the sender omitted the marker at `missing_marker`
  std::uint64_t missing_marker = 0;
  bool whole = true;  ///< the capture holds all of it
  bool pad_not_zero = false;
  bool starts_segment = false;
  bool spans_segments = false;
  std::string marker_fault;  ///< empty if the markers are correct
  bool marker_bits = false;  ///< a marker sets bits that must be 0 on send and are ignored on receive (RFC 5044 §4.3)
};

class FpduSink {
 public:
  virtual ~FpduSink() = default;
  virtual void fpdu(const WalkedFpdu& fpdu) = 0;
  /// A startup frame was found where an FPDU must begin. The walker continues behind it.
  virtual void startup_frame(const wire::MpaFrameView& frame, const SegmentRef& ref) {
    (void)frame;
    (void)ref;
  }
  /// A ULPDU_Length that no FPDU can have. The walker then looks for the next good FPDU.
  virtual void bad_length(std::uint32_t length, const SegmentRef& ref) = 0;
  /// The stream begins with markers although start() said without (`present`), or without although start() said with.
  /// The walker continues as the octets show.
  virtual void markers_differ(bool present, const SegmentRef& ref) {
    (void)present;
    (void)ref;
  }
  /// The FPDU boundaries were lost and found again after `octets`.
  virtual void resynchronised(std::uint64_t octets, const SegmentRef& ref) = 0;
};

class FpduWalker {
 public:
  /// Resets the walker; the next octet is position 0. CRC unknown: the first whole FPDU decides. Markers unknown: the
  /// first octets decide (a stream with markers begins with a marker of zeros, and no ULPDU_Length is 0).
  void start(Known crc, Known markers);
  /// Resets the walker; the next octet is `position`, inside a stream. It searches for an FPDU as after a loss.
  void start_inside(Known crc, bool markers, std::uint64_t position);
  /// Disables WalkedFpdu::doubtful: the sink decides which FPDUs it accepts after a loss.
  void never_doubt() { doubts_ = false; }
  void octets(ConstBytes in, const SegmentRef& ref, bool start, FpduSink& sink);
  void missing(std::uint64_t n, const SegmentRef& ref, FpduSink& sink);
  /// Assume that the stream begins as agreed (with or without a marker); hold back no octets to find out.
  void trust_agreement() { begun_ = true; }
  /// No more octets follow. Octets that were held back to see how the stream begins are walked as agreed.
  void finish(FpduSink& sink);
  /// Octets of an FPDU that never became whole.
  std::size_t left() const { return resync_ ? 0 : size(); }
  /// The walker is searching for an FPDU after a loss.
  bool lost() const { return resync_; }
  /// Where the FPDU boundaries were lost last.
  std::uint64_t lost_at() const { return lost_at_; }
  /// The current FPDU boundaries are not certain (see WalkedFpdu::doubtful).
  bool doubtful() const { return doubtful_; }
  Known crc() const { return crc_; }
  Known markers() const { return markers_; }
  std::uint64_t position() const { return base_; }

  /// FPDU octets on the wire at this position: RFC 5044 §4.1, §4.3.
  static std::uint32_t wire_size(std::uint64_t position, std::uint32_t ulpdu_length, bool markers);

 private:
  struct Mark {  // a TCP segment begins (`start`) or continues at this position
    std::uint64_t at = 0;
    SegmentRef ref;
    bool start = false;
  };
  struct Range {
    std::uint64_t begin = 0, end = 0;
  };
  static constexpr std::uint64_t none = ~0ULL;
  /// The greatest distance from the beginning of an FPDU to its marker: FPDUPTR has 16 bits, plus a leading marker.
  static constexpr std::uint64_t pointer_max = (1 << 16) + PARLEY_MPA_MARKER_LEN;

  bool unknown_in(std::uint64_t begin, std::uint64_t end) const;
  ConstBytes view(std::uint64_t at, std::size_t n) const;
  std::size_t size() const { return window_.size() - begin_; }
  std::uint64_t end() const { return base_ + size(); }
  const Mark& mark_at(std::uint64_t at) const;
  std::size_t wanted() const;
  void append(ConstBytes in);
  void walk(FpduSink& sink);
  bool step(FpduSink& sink);
  enum class MarkerCheck : std::uint8_t { as_agreed, otherwise, wait };
  MarkerCheck check_markers(std::uint32_t& total);
  bool build(std::uint64_t at, std::uint32_t length, std::uint32_t total, WalkedFpdu& out);
  void strip_markers(std::uint64_t first_marker, std::uint64_t header, std::uint64_t stop, WalkedFpdu& out);
  void consume(std::uint64_t to);
  void lose(std::uint64_t candidate);
  bool dispel(WalkedFpdu& f, Known crc_before);
  bool startup_here(FpduSink& sink, bool& wait);
  enum class LeadingMarker : std::uint8_t { there, missing, wait };
  LeadingMarker leading_marker(WalkedFpdu& out);
  static std::uint32_t size_without(std::uint64_t at, std::uint32_t length, std::uint64_t omitted);
  void find_missing_marker(std::uint64_t at, std::uint64_t header, std::uint64_t stop, WalkedFpdu& out) const;
  bool resync(FpduSink& sink);
  enum class Guess : std::uint8_t { good, bad, wait };
  bool plausible_head(std::uint64_t at, std::uint32_t ulpdu_length, bool markers) const;
  Guess judge(std::uint64_t at);
  std::uint64_t marker_to_try() const;
  std::uint64_t segment_to_try() const;
  bool next_candidate();
  void forget_tried();

  Known crc_ = Known::yes, markers_ = Known::no;
  bool resync_ = false;
  bool doubtful_ = false;  // see WalkedFpdu
  bool doubts_ = true;
  bool ended_ = false;      // no more octets follow
  bool begun_ = false;      // it is decided whether the stream begins with a marker
  std::uint64_t base_ = 0;  // stream position of window_[begin_]
  std::size_t begin_ = 0;   // octets before it are walked; walk() removes them at its end
  // Used while searching for FPDUs. Candidates are tried in stream order, so that the result does not depend on how the
  // stream was split into calls.
  std::uint64_t lost_at_ = 0;       // where the boundaries were lost
  std::uint64_t expected_ = none;   // where the next FPDU begins according to the previous length
  std::uint64_t segment_scan_ = 0;  // segments that begin before this position have been tried
  std::uint64_t marker_scan_ = 0;   // markers before this position have been tried
  std::uint64_t candidate_ = 0;     // the candidate under test
  bool have_candidate_ = false;
  Bytes buffer_;                // octets not yet walked; at most pointer_max, one FPDU and one segment
  ConstBytes window_;           // the octets to walk: buffer_, or a segment if buffer_ is empty
  std::vector<Mark> marks_;     // one per segment in window_, from first_mark_ on
  std::size_t first_mark_ = 0;  // marks before it are walked
  std::vector<Range> unknown_;  // ranges of buffer_ that the capture lacks
  Bytes scratch_;               // a ULPDU without its markers
};

}  // namespace parley::capture
