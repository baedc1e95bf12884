// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Finds the FPDUs of one direction (RFC 5044 §4) in a stream of which octets may be missing, says what is wrong with
// each, and finds its way back after a loss: with markers by their FPDUPTR, and in any case by trying the beginnings of
// TCP segments, trusting only an FPDU whose CRC and DDP header are right (RFC 5044 §6).
// It is separate from mpa::Deframer on purpose: that one must stop at the first fault, this one must go on, and each
// checks the other.
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
  ConstBytes ulpdu;        ///< octets that the capture lacks read 0
  std::size_t known = 0;   ///< length of the head of `ulpdu` that the capture holds
  SegmentRef first, last;  ///< the segments that carried its first and its last octet
  Crc crc = Crc::off;
  std::uint32_t crc_sent = 0, crc_computed = 0;
  /// Found after a loss by its header alone, without CRC or marker: payload can look so.
  bool doubtful = false;
  bool marker_missing = false;  ///< CRC bad, but right if the marker at `missing_marker` is not there
  std::uint64_t missing_marker = 0;
  bool whole = true;  ///< the capture holds all of it
  bool pad_not_zero = false;
  bool starts_segment = false;
  bool spans_segments = false;
  std::string marker_fault;  ///< empty when markers are right
  bool marker_bits = false;  ///< a marker has bits that are 0 on send and ignored on receive (RFC 5044 §4.3)
};

class FpduSink {
 public:
  virtual ~FpduSink() = default;
  virtual void fpdu(const WalkedFpdu& fpdu) = 0;
  /// Where an FPDU is due stands a startup frame; the walker goes on behind it.
  virtual void startup_frame(const wire::MpaFrameView& frame, const SegmentRef& ref) {
    (void)frame;
    (void)ref;
  }
  /// A ULPDU_Length that no FPDU can have. The walker then looks for the next good FPDU.
  virtual void bad_length(std::uint32_t length, const SegmentRef& ref) = 0;
  /// The stream began with markers although it was started without (`present`), or the other way round; the walker goes
  /// on as the octets are.
  virtual void markers_differ(bool present, const SegmentRef& ref) {
    (void)present;
    (void)ref;
  }
  /// The boundaries were lost and found again `octets` further on.
  virtual void resynchronised(std::uint64_t octets, const SegmentRef& ref) = 0;
};

class FpduWalker {
 public:
  /// Forgets everything; the next octet is position 0. CRC unknown: decided by the first whole FPDU. Markers unknown:
  /// decided by the first octets (a stream with markers begins with one that is all zero, which no length is).
  void start(Known crc, Known markers);
  /// Forgets everything; the next octet is `position`, somewhere inside a stream: as after a loss, an FPDU is looked
  /// for.
  void start_inside(Known crc, bool markers, std::uint64_t position);
  /// Whoever listens decides what to believe after a loss.
  void never_doubt() { doubts_ = false; }
  void octets(ConstBytes in, const SegmentRef& ref, bool start, FpduSink& sink);
  void missing(std::uint64_t n, const SegmentRef& ref, FpduSink& sink);
  /// The stream begins as agreed; nothing is kept back to see how it does.
  void trust_agreement() { begun_ = true; }
  /// No more octets come: what was kept back to see how the stream begins is walked as agreed.
  void finish(FpduSink& sink);
  /// Octets of an FPDU that never became whole.
  std::size_t left() const { return resync_ ? 0 : size(); }
  bool lost() const { return resync_; }
  /// Where the boundaries were lost that are looked for now.
  std::uint64_t lost_at() const { return lost_at_; }
  /// It is no longer sure where FPDUs begin.
  bool doubtful() const { return doubtful_; }
  Known crc() const { return crc_; }
  Known markers() const { return markers_; }
  std::uint64_t position() const { return base_; }

  /// FPDU octets on the wire at this position: RFC 5044 §4.1, §4.3.
  static std::uint32_t wire_size(std::uint64_t position, std::uint32_t ulpdu_length, bool markers);

 private:
  struct Mark {  // a TCP segment begins (or goes on) at this position
    std::uint64_t at = 0;
    SegmentRef ref;
    bool start = false;
  };
  struct Range {
    std::uint64_t begin = 0, end = 0;
  };
  static constexpr std::uint64_t none = ~0ULL;
  /// As far before a marker its FPDU can begin: FPDUPTR has 16 bits, and another marker may stand there.
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
  enum class Beginning : std::uint8_t { as_agreed, otherwise, wait };
  Beginning beginning(std::uint32_t& total);
  bool build(std::uint64_t at, std::uint32_t length, std::uint32_t total, WalkedFpdu& out);
  void strip_markers(std::uint64_t first_marker, std::uint64_t header, std::uint64_t stop, WalkedFpdu& out);
  void consume(std::uint64_t to);
  void lose(std::uint64_t candidate);
  bool dispel(WalkedFpdu& f, Known crc_before);
  bool startup_here(FpduSink& sink, bool& wait);
  enum class Lead : std::uint8_t { there, missing, wait };
  Lead leading_marker(WalkedFpdu& out);
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
  bool ended_ = false;      // no more octets come
  bool begun_ = false;      // whether the stream begins with a marker is settled
  std::uint64_t base_ = 0;  // stream position of window_[begin_]
  std::size_t begin_ = 0;   // what lies before is walked; dropped at the end of each turn
  // While FPDUs are looked for. Candidates are tried in the order in which the stream tells of them, so that it does not
  // matter how it was cut.
  std::uint64_t lost_at_ = 0;       // where boundaries were lost
  std::uint64_t expected_ = none;   // where the FPDU is due, by the length of the one before
  std::uint64_t segment_scan_ = 0;  // segments that begin before it have been tried
  std::uint64_t marker_scan_ = 0;   // so have been markers
  std::uint64_t candidate_ = 0;     // the one that is looked at
  bool have_candidate_ = false;
  Bytes buffer_;                // octets not yet walked; at most pointer_max, one FPDU and one segment
  ConstBytes window_;           // what is walked: buffer_, or a segment that needs nothing of it
  std::vector<Mark> marks_;     // one per segment in window_, from first_mark_ on
  std::size_t first_mark_ = 0;  // what lies before is walked
  std::vector<Range> unknown_;  // what of buffer_ is not in the capture
  Bytes scratch_;               // a ULPDU without its markers
};

}  // namespace parley::capture
