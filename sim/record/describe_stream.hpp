// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// One direction of a TCP connection as text, octet by octet as its sender sent it: the startup frames (RFC 5044 §7.1,
// RFC 6581 §6, OFA 2007-10 Rtr §1) and FPDUs with their RDMAP messages. Unlike a capture, the sender's stream is
// complete, so boundaries are never lost. Octets that are not MPA are only counted.
#pragma once
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "capture/read/fpdu/fpdu_walker.hpp"
#include "capture/rules/rdmap/fields.hpp"

namespace parley::sim {

using capture::Fields;

struct DescribedMessage {
  std::uint64_t begin = 0, end = 0;  ///< octets of the stream
  std::uint32_t fpdu = 0;            ///< number in its direction, from 1; 0: a startup frame
  std::string layer, text, detail;
  Fields fields;
};

class DescribedStream final : private capture::FpduSink {
 public:
  static constexpr std::size_t messages_max = 20000;  ///< described messages; more than a ladder can show

  /// The SYN: data begins at seq + 1. True if it was seen before.
  bool syn(std::uint32_t seq);
  bool is_new(std::uint32_t seq) const { return synchronised_ && seq + 1 != first_seq_; }
  struct StreamRange {
    std::uint64_t begin = 0, end = 0;
    bool repeated = false;  ///< all of it was sent before
  };
  StreamRange segment(std::uint32_t seq, ConstBytes payload, Instant at);
  /// True if a FIN was sent before.
  bool fin();
  /// Octets of this stream that an acknowledgment covers, the SYN and FIN not counted.
  std::uint64_t acked(std::uint32_t ack) const;

  /// Messages that overlap [begin, end), in order.
  std::vector<const DescribedMessage*> messages(std::uint64_t begin, std::uint64_t end) const;
  bool is_mpa() const { return state_ != State::startup && state_ != State::other; }

 private:
  enum class State : std::uint8_t { startup, rtr_or_fpdu, fpdus, other };
  static constexpr std::uint64_t absurd_distance = 1 << 28;

  void octets(ConstBytes in, Instant at);
  void startup(ConstBytes in);
  bool handle_startup_frame();
  void fpdu(const capture::WalkedFpdu& f) override;
  void bad_length(std::uint32_t length, const capture::SegmentRef& ref) override;
  void resynchronised(std::uint64_t octets, const capture::SegmentRef& ref) override;
  void add(DescribedMessage message);

  bool synchronised_ = false, fin_ = false, initiator_ = false;
  State state_ = State::startup;
  std::uint32_t first_seq_ = 0, next_seq_ = 0;
  std::uint64_t position_ = 0;    // octets sent so far
  std::uint64_t fpdus_from_ = 0;  // position at which the walk over FPDUs began
  std::uint32_t fpdus_ = 0;
  Bytes head_;  // an incomplete startup frame; at most 20 + 65535 octets
  capture::FpduWalker walker_;
  std::vector<DescribedMessage> messages_;  // by begin
};

}  // namespace parley::sim
