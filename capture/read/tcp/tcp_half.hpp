// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// One direction of a TCP connection, reassembled from captured segments (RFC 9293 §3.4, §3.10.7.4). It delivers each
// octet once, in sequence, with the frame that carried it first. It reports octets that were sent but not captured as
// missing(). The first copy of an octet is used.
#pragma once
#include <cstdint>
#include <map>
#include <optional>

#include "parley/bytes.hpp"
#include "parley/time.hpp"
#include "wire/packet.hpp"

namespace parley::capture {

/// The segment that carried octets.
struct SegmentRef {
  std::uint64_t frame = 0;
  Instant at{};
  /// The position in the opposite stream up to which its sender had received (by its ACK); 0: unknown.
  std::uint64_t peer_received = 0;
};

class HalfSink {
 public:
  virtual ~HalfSink() = default;
  /// `start`: these octets begin a TCP segment.
  virtual void octets(ConstBytes in, const SegmentRef& ref, bool start) = 0;
  /// `n` octets that the capture lacks. `cut`: because of its snap length. `ref`: the segment that shows the gap.
  virtual void missing(std::uint64_t n, const SegmentRef& ref, bool cut) = 0;
};

enum class SegmentClass : std::uint8_t { empty, in_order, out_of_order, retransmission, keepalive, absurd };

/// Octets held back, shared by all connections to bound the memory.
struct ReassemblyBudget {
  std::size_t used = 0;
  static constexpr std::size_t max = 64 << 20;
  std::size_t history = 0;  ///< delivered octets kept to compare retransmissions with
  static constexpr std::size_t history_max = 16 << 20;
};

class TcpHalf {
 public:
  /// The SYN of this direction: its data begins at seq + 1. A SYN that was captured late does not change the positions
  /// if octets were already read, or if the other direction already uses them (`counted`).
  void syn(std::uint32_t seq, bool counted = false);
  /// Whether a late-captured SYN with this number can be the one of this stream.
  bool may_begin_at(std::uint32_t seq) const;
  bool synchronised() const { return synchronised_; }
  bool from_syn() const { return from_syn_; }
  std::uint32_t syn_seq() const { return syn_seq_; }
  /// Takes a segment, also one without payload, and delivers the octets that are in order.
  SegmentClass segment(const wire::TcpSegmentView& t, const SegmentRef& ref, ReassemblyBudget& budget, HalfSink& sink);
  /// The opposite direction acknowledged up to `ack`.
  void acked(std::uint32_t ack);
  /// Call for each packet of the connection. A hole that the receiver has acknowledged is a loss of the capture, not of
  /// TCP. It is reported as missing() after `patience` more packets, because the capture may be slightly out of order.
  void tick(const SegmentRef& ref, ReassemblyBudget& budget, HalfSink& sink);
  /// End of the connection or of the capture: delivers all octets held back, with missing() between them.
  void flush(const SegmentRef& ref, ReassemblyBudget& budget, HalfSink& sink);
  /// Releases all memory: the connection is not of interest.
  void forget(ReassemblyBudget& budget);
  /// From now on, compare retransmissions with the delivered octets.
  void keep_history() { keep_history_ = true; }

  /// The opposite direction was read up to `position`. A segment waits until the octets that its sender had received
  /// were read, because a capture may show an answer before its request.
  void heard(std::uint64_t position) { peer_position_ = position; }
  /// The position of the opposite direction that the next segment waits for; 0: no segment waits.
  std::uint64_t waits_for() const;
  /// Call for each packet while a segment waits. True: it waited too long; call concede() on the opposite direction.
  bool waited_long();
  /// Do not wait for the opposite direction any more, now or later.
  void never_wait() { vain_waits_ = vain_waits_max; }
  /// Delivers segments that need not wait any longer.
  void deliver_buffered(ReassemblyBudget& budget, HalfSink& sink) { drain(budget, sink); }
  /// Reports the octets up to `position` that were not captured as missing.
  void concede(std::uint64_t position, const SegmentRef& ref, ReassemblyBudget& budget, HalfSink& sink);

  /// Octets delivered or missing so far.
  std::uint64_t position() const { return position_; }
  std::optional<std::uint64_t> position_of(std::uint32_t seq) const;
  std::uint64_t acked_position() const { return acked_; }
  bool holding() const { return !held_.empty(); }
  /// The last segment repeated octets with different content.
  bool differed() const { return differed_; }

 private:
  struct BufferedSegment {
    Bytes data;
    std::uint32_t length = 0;  ///< on the wire; data may be shorter
    bool start = true;
    SegmentRef ref;
  };
  static constexpr std::uint64_t held_octets_max = 2 << 20;  // larger than TCP windows seen in practice
  static constexpr std::size_t held_segments_max = 4096;
  static constexpr std::uint32_t late_syn_max = 1 << 20;     // octets read before their SYN was captured, at most
  static constexpr std::uint64_t absurd_distance = 1 << 28;  // such a sequence number belongs to another connection
  static constexpr std::uint32_t patience = 16;              // packets; see tick()
  static constexpr std::uint32_t wait_max = 40;       // packets of the connection; reordering in captures is smaller
  static constexpr std::uint32_t vain_waits_max = 8;  // after this many, assume a capture of one direction only
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
    // One octet more may be the sequence number of a FIN.
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
  std::uint64_t sent_ = 0;                // by the sequence numbers of its empty segments; may include a FIN's number
  std::optional<std::uint64_t> ends_at_;  // by its FIN
  std::uint32_t waited_ = 0;
  std::uint64_t peer_position_ = 0;
  std::uint32_t waiting_ = 0, vain_waits_ = 0;
  std::uint64_t held_octets_ = 0;
  std::map<std::uint64_t, BufferedSegment>
      held_;                       // by position, from position_ on, disjoint; bounded by held_octets_max
  Bytes history_;                  // ring of delivered octets: position p at p modulo its size, a power of two
  std::size_t history_known_ = 0;  // octets before position_ that it holds
};

}  // namespace parley::capture
