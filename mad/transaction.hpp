// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// What a Transactor keeps of each request, destination and transfer. Of the Transactor's own files alone.
#pragma once
#include "mad/transactor.hpp"
#include "wire/mad/common.hpp"

namespace parley::mad {

enum class Phase : std::uint8_t {
  free,
  open,         ///< not submitted
  queued,       ///< a window is full
  waiting,      ///< sent, for its answer
  backing_off,  ///< the other side was busy
  resolving,    ///< subnet administration is asked for the way to where it was redirected to
  done,
};

/// What RMPP has under way for a request.
struct Transactor::Transfer {
  std::optional<rmpp::Sender> sender;
  std::optional<rmpp::Receiver> receiver;
  std::optional<Datagram> out, turn;  ///< to be sent: what was polled; the ACK that gives the other side its turn
  std::optional<Datagram> turned;     ///< the ACK that gave this side its turn

  bool under_way() const {
    return (sender && sender->outcome() == rmpp::Outcome::under_way) ||
           (receiver && receiver->outcome() == rmpp::Outcome::under_way);
  }
  Instant deadline() const {
    return std::min(sender ? sender->next_deadline() : never, receiver ? receiver->next_deadline() : never);
  }
  /// Puts what is to be sent into `out`.
  bool poll();
};

struct Transactor::Transaction : Link<SendTag>, Link<DoneTag> {
  Id id = 0, query = none, asker = none;  // of a resolving one its query; of that query who asks
  Phase phase = Phase::free;
  std::uint8_t redirects = 0;
  bool in_window = false, in_destination = false, directed = false;
  bool to_manager = false;  // was sent to where the port's subnet administration was, and follows when that moves
  bool table = false;       // of subnet administration
  bool segmented = false;   // its answer may come in segments
  std::uint32_t tid = 0, destination = none;
  unsigned tries = 0, tries_here = 0, busy = 0;  // tries_here: since the last redirection or back-off
  Instant sent_at{};                             // the last time
  std::optional<Fault> fault;
  std::string_view why;  // static
  void* user = nullptr;
  Path path;
  Address to, from;
  Datagram request;
  Bytes long_request, long_reply;  // of more than 256 octets
  std::size_t reply_size = 0;
  Datagram reply;
  std::unique_ptr<Transfer> transfer;

  /// It will not be sent.
  void refuse(std::string_view reason) {
    fault = Fault::invalid;
    why = reason;
  }
  ConstBytes request_octets() const { return long_request.empty() ? ConstBytes(request) : ConstBytes(long_request); }
  ConstBytes reply_octets() const {
    return long_reply.empty() ? ConstBytes(reply).first(reply_size) : ConstBytes(long_reply);
  }
};

struct Transactor::Destination : Link<IdleTag> {
  explicit Destination(const WindowOptions& options) : window(options) {}
  std::uint64_t key = 0;
  Window window;
  std::size_t users = 0;
  bool answered = false;  // ever
  List<Transaction, SendTag> blocked;
};

// IBA §13.4.3, §13.6.2.1: where the headers' members are.
inline std::uint8_t class_of(ConstBytes mad) { return mad[1]; }
inline std::uint8_t method_of(ConstBytes mad) { return mad[3]; }
inline std::uint32_t tid_of(ConstBytes mad) { return static_cast<std::uint32_t>(read_bits(mad, 96, 32)); }
inline std::uint64_t whole_tid_of(ConstBytes mad) { return read_bits(mad, 64, 64); }
inline std::uint16_t attribute_of(ConstBytes mad) { return static_cast<std::uint16_t>(read_bits(mad, 128, 16)); }
inline bool is_subn_adm(ConstBytes mad) {
  return class_of(mad) == static_cast<std::uint8_t>(wire::mad::MgmtClass::subn_adm);
}
using rmpp::is_rmpp;
/// A transfer that no request waits for: its request is done, but the other side may not have heard of its end, or it is a long answer,
/// or a long request of somebody else.
struct Transactor::Lingering {
  std::unique_ptr<Transfer> transfer;
  Address to;
  std::uint64_t tid;
  std::uint8_t mgmt_class;

  /// Whether a datagram to or from `other` is of it: of a request of this side, whose upper half of the ID may be its driver's.
  bool has(const Address& other, ConstBytes mad) const {
    return static_cast<std::uint32_t>(tid) == tid_of(mad) && mgmt_class == class_of(mad) && same_port(to, other);
  }
  /// The same of one of the other side, which may have several who ask.
  bool has_asker(const Address& other, ConstBytes mad) const {
    return has(other, mad) && tid == whole_tid_of(mad) && to.qpn == other.qpn;
  }
};

/// What ibsim makes of a table: the flag is there, RMPP is not.
inline bool is_cut(ConstBytes mad) { return mad[24] == 0 && mad[25] == 0; }

}  // namespace parley::mad
