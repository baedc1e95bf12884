// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// RMPP (IBA §13.6): messages that are longer than a datagram, in segments that are acknowledged by windows. A Sender has one message, a
// Receiver takes one; who has several tells them apart by transaction ID, class, method and peer. Both are machines as
// base/machine.hpp says. In front of the data of every segment stands the header of the message's class: subnet administration's, or
// that of vendors with an OUI.
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

inline constexpr std::size_t header_octets = 56;    ///< in front of the data of every segment, of subnet administration
inline constexpr std::size_t segment_data = 200;    ///< octets of data in a segment, of subnet administration
inline constexpr std::size_t segment_octets = 220;  ///< with the class's header, as PayloadLength counts them
/// Whether datagrams of the class have RMPP's header (IBA §13.6.2).
constexpr bool has_rmpp(std::uint8_t mgmt_class) {
  const wire::mad::ClassFacts* facts = wire::mad::facts_of_class(mgmt_class);
  return facts != nullptr &&
         (facts->mgmt_class == wire::mad::MgmtClass::subn_adm || facts->mgmt_class == wire::mad::MgmtClass::vendor_oui);
}
/// `header_octets` of a class that has_rmpp(): 40 of vendors.
constexpr std::size_t header_octets_of(std::uint8_t mgmt_class) {
  return has_rmpp(mgmt_class) ? wire::mad::facts_of_class(mgmt_class)->data : header_octets;
}
/// Whether RMPP carries it, as its header says: a segment, word about one, or a whole message.
inline bool is_rmpp(ConstBytes mad) {
  return mad.size() >= 2 && has_rmpp(mad[1]) && mad.size() >= header_octets_of(mad[1]) &&
         (mad[26] & wire::mad::rmpp_flags::active) != 0;
}
inline constexpr std::size_t message_max = 64 << 20;  ///< octets of a message that is sent, with its headers

struct Options {
  Duration ack_wait = std::chrono::seconds(2);      ///< for an ACK, before what is not acknowledged is sent again
  unsigned retries = 7;                             ///< without progress
  std::uint32_t window = 64;                        ///< segments that a receiver lets be under way; 1 to 4096
  Duration receive_max = std::chrono::seconds(40);  ///< for the whole of a message
  Duration linger = std::chrono::seconds(10);       ///< how long a complete receiver answers repeated segments
  std::size_t octets_max = message_max;             ///< of data in a message that is taken; its headers come on top
  bool checks_length = false;  ///< the first PayloadLength, where it is not 0, must be the whole message's
};

/// What refuses a segment whose sender is to give up, where no machine has a part in it: ABORT, or STOP for want of room (IBA §13.6.2).
Datagram refusal(ConstBytes segment, RmppStatus status);

/// What its sender says of a message that it gives up.
Datagram abort_of(ConstBytes message, RmppStatus status);

enum class Outcome : std::uint8_t { under_way, done, failed };

/// `failed` says which side gave up, and why.
struct Failure {
  bool by_peer = false;
  RmppStatus status = RmppStatus::unspecified;
  bool operator==(const Failure&) const = default;
};

class Sender {
 public:
  /// `message`: the class's headers, of which RMPP's own are set here, and the data. Errors: invalid_argument below the headers' octets
  /// or above message_max.
  static Result<Sender> create(Bytes message, const Options& options = {});

  void start(Instant now);
  /// A MAD of this transaction: ACK, STOP, ABORT; others are passed over.
  void handle(Instant now, ConstBytes mad);
  bool poll_transmit(Datagram& out);
  Instant next_deadline() const { return deadline_; }
  void handle_deadline(Instant now);

  Outcome outcome() const { return outcome_; }
  const std::optional<Failure>& failure() const { return failure_; }
  std::uint32_t segments() const { return count_; }
  /// One of them, from 1, as it is sent.
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
  std::uint32_t window_last_ = 1;  // may be sent
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

  /// A MAD of this transaction: DATA, STOP, ABORT.
  void handle(Instant now, ConstBytes mad);
  bool poll_transmit(Datagram& out);
  Instant next_deadline() const { return deadline_; }
  void handle_deadline(Instant now);

  /// `done`: message() is whole. The receiver still answers repeated segments until finished().
  Outcome outcome() const { return outcome_; }
  const std::optional<Failure>& failure() const { return failure_; }
  /// The headers of the first segment and all of the data.
  const Bytes& message() const { return message_; }
  /// Once, when done.
  Bytes take_message() { return std::move(message_); }
  bool finished() const { return finished_; }

 private:
  void handle_data(Instant now, ConstBytes mad);
  void take_in_order(ConstBytes mad);
  std::optional<RmppStatus> objection_to_length(ConstBytes mad) const;
  void finish(Instant now, ConstBytes last);
  void acknowledge();
  void give_up(ConstBytes mad, RmppStatus status);

  Options options_;
  Bytes message_;
  std::vector<std::optional<Datagram>> ahead_;  // segment n, beyond a gap, is at n % window; while under way
  std::uint32_t received_ = 0;                  // in order
  std::uint32_t said_length_ = 0;               // the first PayloadLength; 0: none that is checked
  std::uint32_t window_last_ = 1;
  std::optional<Datagram> answer_;  // ACK, STOP or ABORT to be sent
  Datagram header_{};               // of the last one received, which answers repeat
  Instant deadline_ = never;
  Outcome outcome_ = Outcome::under_way;
  std::optional<Failure> failure_;
  bool finished_ = false;
};

}  // namespace parley::mad::rmpp
