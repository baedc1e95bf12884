// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// RMPP (IBA §13.6): messages that are longer than a datagram, in segments that are acknowledged by windows. A Sender
// sends one message, a Receiver receives one; a caller with several messages distinguishes them by transaction ID,
// class, method and peer. Both are machines as defined in base/machine.hpp. Each segment has the header of the
// message's class in front of its data: that of subnet administration, or that of vendors with an OUI.
#pragma once
#include <optional>
#include <utility>
#include <vector>

#include "parley/bytes.hpp"
#include "parley/result.hpp"
#include "parley/time.hpp"
#include "wire/mad/rpc.hpp"

namespace parley::mad::rmpp {

using wire::mad::Datagram;
using wire::mad::RmppStatus;

inline constexpr std::size_t header_octets = 56;    ///< in front of the data of a segment of subnet administration
inline constexpr std::size_t segment_data = 200;    ///< octets of data in a segment of subnet administration
inline constexpr std::size_t segment_octets = 220;  ///< the same with the class's header, as in PayloadLength
/// Whether datagrams of the class have RMPP's header (IBA §13.6.2).
constexpr bool has_rmpp(std::uint8_t mgmt_class) {
  const wire::mad::ClassFacts* facts = wire::mad::facts_of_class(mgmt_class);
  return facts != nullptr && facts->rmpp;
}
/// `header_octets` of a class that has_rmpp(): 40 for vendors.
constexpr std::size_t header_octets_of(std::uint8_t mgmt_class) {
  return has_rmpp(mgmt_class) ? wire::mad::facts_of_class(mgmt_class)->data : header_octets;
}
/// Whether RMPP carries it, according to its header: a segment, an ACK, STOP or ABORT, or a whole message.
inline bool is_rmpp(ConstBytes mad) {
  return mad.size() >= 2 && has_rmpp(mad[1]) && mad.size() >= header_octets_of(mad[1]) &&
         (mad[26] & wire::mad::rmpp_flags::active) != 0;
}
inline constexpr std::size_t message_max = 64 << 20;  ///< octets of a sent message, with its headers

struct Options {
  Duration ack_wait = std::chrono::seconds(2);      ///< for an ACK; then unacknowledged segments are retransmitted
  unsigned retries = 7;                             ///< without progress
  std::uint32_t window = 64;                        ///< segments in flight that a receiver allows; 1 to 4096
  Duration receive_max = std::chrono::seconds(40);  ///< for a whole message
  Duration linger = std::chrono::seconds(10);       ///< how long a complete receiver answers duplicate segments
  std::size_t octets_max = message_max;             ///< of data in a received message, without its headers
  bool checks_length = false;  ///< the first PayloadLength must be that of the whole message, unless it is 0
};

/// The packet that refuses a segment, without a Receiver: ABORT, or STOP if there is no room (IBA §13.6.2).
Datagram refusal(ConstBytes segment, RmppStatus status);

/// The ABORT of a sender that gives up `message`.
Datagram abort_of(ConstBytes message, RmppStatus status);

enum class Outcome : std::uint8_t { under_way, done, failed };

/// Which side gave up, and why.
struct Failure {
  bool by_peer = false;
  RmppStatus status = RmppStatus::unspecified;
  bool operator==(const Failure&) const = default;
};

class Sender {
 public:
  /// `message`: the class's headers and the data; the members of RMPP are set here. Errors: invalid_argument (shorter
  /// than the headers, or longer than message_max).
  static Result<Sender> create(Bytes message, const Options& options = {});

  void start(Instant now);
  /// A MAD of this transaction: ACK, STOP or ABORT. DATA is ignored.
  void handle(Instant now, ConstBytes mad);
  bool poll_transmit(Datagram& out);
  Instant next_deadline() const { return deadline_; }
  void handle_deadline(Instant now);

  Outcome outcome() const { return outcome_; }
  const std::optional<Failure>& failure() const { return failure_; }
  std::uint32_t segments() const { return count_; }
  /// Segment `number`, counted from 1, as it is sent.
  Datagram segment(std::uint32_t number) const;
  /// The other side has acknowledged a segment.
  bool is_heard() const { return acknowledged_ > 0; }

 private:
  Sender(Bytes message, const Options& options);
  void handle_ack(Instant now, std::uint32_t segment, std::uint32_t window_last);
  void give_up(RmppStatus status, bool tell);
  void fail_by_peer(RmppStatus status);

  Bytes message_;
  Options options_;
  std::size_t head_;         // octets of the headers
  std::uint32_t count_ = 1;  // of segments
  std::uint32_t next_ = 1;   // to be sent
  std::uint32_t acknowledged_ = 0;
  std::uint32_t window_last_ = 1;  // the last one that may be sent
  unsigned tries_ = 0;
  Instant deadline_ = never;
  Outcome outcome_ = Outcome::under_way;
  std::optional<Failure> failure_;
  std::optional<RmppStatus> abort_;  // to be sent
  bool started_ = false;
};

class Receiver {
 public:
  explicit Receiver(const Options& options = {});

  /// A MAD of this transaction: DATA, STOP or ABORT. ACK is ignored.
  void handle(Instant now, ConstBytes mad);
  bool poll_transmit(Datagram& out);
  Instant next_deadline() const { return deadline_; }
  void handle_deadline(Instant now);

  /// `done`: message() is complete. The receiver still answers duplicate segments until finished().
  Outcome outcome() const { return outcome_; }
  const std::optional<Failure>& failure() const { return failure_; }
  /// The headers of the first segment and all of the data.
  const Bytes& message() const { return message_; }
  /// Moves the message out: once, when done.
  Bytes take_message() { return std::move(message_); }
  bool finished() const { return finished_; }

 private:
  void handle_data(Instant now, ConstBytes mad);
  void accept_in_order(ConstBytes mad);
  std::optional<RmppStatus> objection_to_length(ConstBytes mad) const;
  void finish(Instant now, ConstBytes last);
  void acknowledge();
  void give_up(ConstBytes mad, RmppStatus status);

  Options options_;
  Bytes message_;
  std::vector<std::optional<Datagram>> ahead_;  // segment n, beyond a gap, is at n % window; while under way
  std::uint32_t received_ = 0;                  // in order
  std::uint32_t said_length_ = 0;               // the first PayloadLength; 0: not checked
  std::uint32_t window_last_ = 1;
  std::optional<Datagram> answer_;  // ACK, STOP or ABORT to be sent
  Datagram header_{};               // the first segment, whose headers the answers repeat
  Instant deadline_ = never;
  Outcome outcome_ = Outcome::under_way;
  std::optional<Failure> failure_;
  bool finished_ = false;
};

}  // namespace parley::mad::rmpp
