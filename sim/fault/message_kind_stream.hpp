// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// One direction of one TCP connection as a series of MPA messages: the startup frames (RFC 5044 §7.1.1, OFA 2007-10 Rtr
// §1), then FPDUs (RFC 5044 §4). The kind of a message depends only on its stream position, so a retransmission
// contains the same messages. Unlike mpa::Deframer and capture::FpduWalker it keeps no bodies and checks nothing: it
// reads the first octets of a message and skips the rest.
//
// Positions count octets of the stream; 0 is the first after the SYN. Whether FPDUs carry markers is known without the
// other direction: a stream with markers begins with one, whose first two octets are zero, and no ULPDU_Length is zero
// (RFC 5044 §3, §4.3).
#pragma once
#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "parley/bytes.hpp"
#include "parley/sim.hpp"

namespace parley::sim {

struct StreamMessage {
  std::uint64_t start = 0;
  std::uint32_t whole = 0;                 ///< octets on the wire; 0: its length field has not passed yet, or is
                                           ///< invalid
  std::uint32_t fpdu = 0;                  ///< number in its direction; 0: a startup frame
  MessageKind message = MessageKind::any;  ///< mpa_request, mpa_reply, mpa_rtr, fpdu
  MessageKind named = MessageKind::any;    ///< for an FPDU: terminate, or mpa_rtr
  std::uint8_t named_at = 0;               ///< the octet of the message that shows it
  std::uint16_t ulpdu_length = 0;          ///< of an FPDU whose length is known
};

/// Shared by all streams of a tracker, so that their total is bounded.
struct StreamBudget {
  static constexpr std::size_t held_max = 16 << 20;  // octets ahead of holes
  static constexpr std::size_t log_max = 1 << 20;    // messages remembered for retransmissions
  std::size_t held = 0, log = 0;
};

enum class StreamDepth : std::uint8_t { startup, fpdus };

class MessageStream {
 public:
  /// `active`: it began with a SYN without ACK; such a stream should open with a Request.
  MessageStream(std::uint32_t isn, bool active, StreamDepth depth);

  std::uint32_t isn() const { return isn_; }
  /// Position of an octet with this sequence number; below 0 if it is before the stream or implausibly far off.
  std::int64_t position_of(std::uint32_t seq) const;

  enum class Seen : std::uint8_t { fresh, repeated, ahead };
  /// Octets at a position. Octets ahead of a hole are kept until it is filled, within the bounds.
  Seen offer(std::uint64_t at, ConstBytes octets, StreamBudget& budget);

  /// Calls `take(message)` for each message known to begin in [begin, end), and for the preceding one if an octet in
  /// that range shows its kind.
  template <class Take>
  void each(std::uint64_t begin, std::uint64_t end, Take take) const {
    for (std::size_t i = 0; i < startup_size_; ++i)
      if (reaches(startup_[i], begin, end)) take(startup_[i]);
    for (std::size_t i = first_reaching(begin); i < log_.size() && logged(i).start < end; ++i)
      if (reaches(logged(i), begin, end)) take(logged(i));
  }
  std::optional<StreamMessage> at(std::uint64_t start) const;

  /// Octets of a field in a message; 0 if it has no such field or its length is unknown. Markers: only the FPDUPTRs
  /// (the rest is reserved). Payload: only the ULPDU (no pad).
  std::uint32_t field_size(const StreamMessage& message, MessageField field) const;
  /// The position of an octet of the field; `octet` is below field_size().
  std::uint64_t field_octet(const StreamMessage& message, MessageField field, std::uint32_t octet) const;

  /// Returns its share of the budget.
  void release(StreamBudget& budget);

 private:
  enum class State : std::uint8_t {
    startup,  // before the first message
    second,   // after a Request: a Rtr startup frame or the first FPDU
    fpdus,
    beyond,  // past the startup frames, and no more is needed
    foreign  // not MPA, or an invalid ULPDU_Length: nothing more is known
  };
  struct OutOfOrderOctets {
    std::map<std::uint64_t, Bytes> pieces;
    std::size_t octets = 0;
  };
  static constexpr std::size_t head_max = 40;              // marker, ULPDU_Length, and a Read Request up to its size
  static constexpr std::size_t log_max = 4096;             // FPDUs of one direction; older ones are forgotten
  static constexpr std::size_t held_octets_max = 1 << 20;  // per direction: the largest window of the simulator's TCP
  static constexpr std::size_t held_pieces_max = 1024;
  static constexpr std::int64_t absurd_distance = 1 << 28;  // no window is that large

  static bool reaches(const StreamMessage& m, std::uint64_t begin, std::uint64_t end) {
    return m.start < end && (m.start >= begin || (m.named != MessageKind::any && m.start + m.named_at >= begin));
  }
  std::size_t first_reaching(std::uint64_t begin) const;
  const StreamMessage& logged(std::size_t i) const { return log_[(oldest_ + i) % log_.size()]; }
  std::uint32_t lead(std::uint64_t start) const;
  std::uint32_t markers_in(const StreamMessage& m) const;
  void open_message(StreamBudget& budget);
  StreamMessage& current() { return in_log_ ? log_[newest_] : startup_[startup_size_ - 1]; }
  void log_message(const StreamMessage& m, StreamBudget& budget);
  void walk(ConstBytes in, StreamBudget& budget);
  void examine(StreamBudget& budget);
  void examine_startup(StreamBudget& budget);
  void become_fpdu(StreamBudget& budget);
  void examine_fpdu();
  void close_head(std::uint64_t next_start);
  void hold(std::uint64_t at, ConstBytes octets, StreamBudget& budget);
  void drain(StreamBudget& budget);

  std::uint32_t isn_;
  bool active_;
  StreamDepth depth_;
  State state_ = State::startup;
  bool requested_ = false;  // this direction carried the Request
  bool markers_known_ = false, markers_ = false;
  bool in_log_ = false;  // the message being read is the newest in the log
  bool ring_ = false;    // the log is full: the oldest entry is overwritten
  std::uint8_t head_size_ = 0, head_need_ = 1;
  std::uint8_t startup_size_ = 0;
  std::uint32_t fpdus_ = 0;
  std::uint64_t next_ = 0;     // all octets before it have passed
  std::uint64_t skip_to_ = 0;  // the next message begins here
  std::uint64_t base_ = 0;     // the end of the startup frames: markers count from here
  std::size_t oldest_ = 0, newest_ = 0;
  std::array<std::uint8_t, head_max> head_{};
  std::array<StreamMessage, 2> startup_{};  // never dropped: most rules select these
  std::vector<StreamMessage> log_;          // becomes a ring once it is full
  std::unique_ptr<OutOfOrderOctets> held_;
};

}  // namespace parley::sim
