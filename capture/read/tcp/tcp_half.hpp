// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// One direction of a TCP connection, put back in order from captured segments (RFC 9293 §3.4, §3.10.7.4).
// Octets come out once, in sequence, each with the frame that first carried it; octets that were sent but that the
// capture does not hold come out as missing(). The first copy of an octet wins.
#pragma once
#include <cstdint>
#include <map>
#include <optional>

#include "parley/bytes.hpp"
#include "parley/time.hpp"
#include "wire/packet.hpp"

namespace parley::capture {

/// Where octets were seen.
struct SegmentRef {
  std::uint64_t frame = 0;
  Instant at{};
  /// How much of the opposite stream its sender had received by then; 0 when unknown.
  std::uint64_t peer_received = 0;
};

class HalfSink {
 public:
  virtual ~HalfSink() = default;
  /// `start`: these octets begin a TCP segment.
  virtual void octets(ConstBytes in, const SegmentRef& ref, bool start) = 0;
  /// `n` octets that the capture lacks; `cut`: by its snap length. `ref` is the segment that showed it.
  virtual void missing(std::uint64_t n, const SegmentRef& ref, bool cut) = 0;
};

enum class SegmentClass : std::uint8_t { empty, in_order, out_of_order, retransmission, keepalive, absurd };

/// Octets held back for all connections together; shared so that a file with many of them stays in bounds.
struct ReassemblyBudget {
  std::size_t used = 0;
  static constexpr std::size_t max = 64 << 20;
  std::size_t history = 0;  ///< octets kept to compare repetitions with
  static constexpr std::size_t history_max = 16 << 20;
};

class TcpHalf {
 public:
  /// The SYN of this direction: its data begins at seq + 1. One that was captured late moves no position that was told
  /// (`counted`: to the other direction) or read.
  void syn(std::uint32_t seq, bool counted = false);
  /// Whether a SYN with this number, captured late, can have begun this stream.
  bool may_begin_at(std::uint32_t seq) const;
  bool synchronised() const { return synchronised_; }
  bool from_syn() const { return from_syn_; }
  std::uint32_t syn_seq() const { return syn_seq_; }
  /// Payload of a segment (none is fine). Delivers what it can.
  SegmentClass segment(const wire::TcpSegmentView& t, const SegmentRef& ref, ReassemblyBudget& budget, HalfSink& sink);
  /// The opposite direction acknowledged up to `ack`.
  void acked(std::uint32_t ack);
  /// Called for each packet of the connection: a hole that the receiver has acknowledged is the capture's, not TCP's;
  /// after `patience` more packets it is given up, which leaves room for captures with packets slightly out of order.
  void tick(const SegmentRef& ref, ReassemblyBudget& budget, HalfSink& sink);
  /// End of the connection or of the capture: everything held back comes out, with missing() between.
  void flush(const SegmentRef& ref, ReassemblyBudget& budget, HalfSink& sink);
  /// Stops keeping anything: the connection is of no interest.
  void forget(ReassemblyBudget& budget);
  /// Later repetitions are compared with what was delivered.
  void keep_history() { keep_history_ = true; }

  /// What the sender of a segment had received is read before it, as far as it comes at all: `position` is how far that
  /// direction is. A capture may show an answer before its question.
  void heard(std::uint64_t position) { peer_position_ = position; }
  /// The position of the other direction that is waited for; 0: nothing waits.
  std::uint64_t waits_for() const;
  /// Called for each packet while something waits: whether that has lasted too long. What waits is then let go.
  bool waited_long();
  /// No longer waits, now and then.
  void never_wait() { vain_waits_ = vain_waits_max; }
  /// Delivers what waits no longer.
  void go_on(ReassemblyBudget& budget, HalfSink& sink) { drain(budget, sink); }
  /// Octets up to `position` that are not there are not in the capture.
  void concede(std::uint64_t position, const SegmentRef& ref, ReassemblyBudget& budget, HalfSink& sink);

  /// Octets delivered or missing so far.
  std::uint64_t position() const { return position_; }
  std::optional<std::uint64_t> position_of(std::uint32_t seq) const;
  std::uint64_t acked_position() const { return acked_; }
  bool holding() const { return !held_.empty(); }
  /// The last segment repeated octets with other content than before.
  bool differed() const { return differed_; }

 private:
  struct Held {
    Bytes data;
    std::uint32_t length = 0;  ///< on the wire; data may be shorter
    bool start = true;
    SegmentRef ref;
  };
  static constexpr std::uint64_t held_octets_max = 2 << 20;  // more than any window seen in practice is in flight
  static constexpr std::size_t held_segments_max = 4096;
  static constexpr std::uint32_t late_syn_max = 1 << 20;     // octets behind a SYN that is still taken for theirs
  static constexpr std::uint64_t absurd_distance = 1 << 28;  // a sequence number so far ahead belongs to nobody
  static constexpr std::uint32_t patience = 16;
  static constexpr std::uint32_t wait_max = 40;       // packets of the connection; captures shuffle less
  static constexpr std::uint32_t vain_waits_max = 8;  // a capture of one direction alone shows nothing to wait for
  static constexpr std::size_t history_min = 256, history_max = 64 << 10;  // powers of two

  void deliver(ConstBytes data, std::uint32_t length, const SegmentRef& ref, bool start, ReassemblyBudget& budget,
               HalfSink& sink);
  void hold(std::uint64_t at, const wire::TcpSegmentView& t, const SegmentRef& ref, ReassemblyBudget& budget);
  void trim(ReassemblyBudget& budget);
  void drain(ReassemblyBudget& budget, HalfSink& sink);
  void lose(std::uint64_t n, const SegmentRef& ref, HalfSink& sink);
  void skip_hole(const SegmentRef& ref, ReassemblyBudget& budget, HalfSink& sink);
  void note_sent(const wire::TcpSegmentView& t);
  bool must_wait(const SegmentRef& ref) const {
    // One octet more may be a FIN, which takes a place in the sequence.
    return ref.peer_received > peer_position_ + 1 && ref.peer_received - peer_position_ < held_octets_max &&
           vain_waits_ < vain_waits_max;
  }
  std::uint64_t held_in_a_row() const;
  void remember(ConstBytes data, ReassemblyBudget& budget);
  bool grow_history(std::size_t wanted, ReassemblyBudget& budget);
  void compare(std::uint64_t at, ConstBytes data);

  bool synchronised_ = false, from_syn_ = false, keep_history_ = false, differed_ = false;
  std::uint32_t syn_seq_ = 0;
  std::uint32_t next_seq_ = 0;
  std::uint64_t position_ = 0;
  std::uint64_t acked_ = 0;
  std::uint64_t sent_ = 0;                // by the numbers of its own segments without octets, a FIN's place included
  std::optional<std::uint64_t> ends_at_;  // by its FIN
  std::uint32_t waited_ = 0;
  std::uint64_t peer_position_ = 0;
  std::uint32_t waiting_ = 0, vain_waits_ = 0;
  std::uint64_t held_octets_ = 0;
  std::map<std::uint64_t, Held> held_;  // by position, from position_ on, without overlaps; bounded as above
  Bytes history_;                       // ring of delivered octets: position p at p modulo its size, a power of two
  std::size_t history_known_ = 0;       // how many octets before position_ it holds
};

}  // namespace parley::capture
