// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// A Transactor's data of each request, destination and transfer. For the Transactor's own files only.
#pragma once
#include "mad/transactor.hpp"
#include "wire/mad/common.hpp"

namespace parley::mad {

enum class Phase : std::uint8_t {
  free,
  open,         ///< not submitted
  queued,       ///< a window is full
  waiting,      ///< sent, not answered
  backing_off,  ///< the other side was busy
  resolving,    ///< subnet administration is queried for the path to the redirection's GID
  done,
};

/// The RMPP transfers of a request.
struct Transactor::Transfer {
  std::optional<rmpp::Sender> sender;
  std::optional<rmpp::Receiver> receiver;
  std::optional<Datagram> out, turn;  ///< to be sent: the polled packet; the ACK that gives the other side its turn
  std::optional<Datagram> turned;     ///< the ACK that gave this side its turn

  bool under_way() const {
    return (sender && sender->outcome() == rmpp::Outcome::under_way) ||
           (receiver && receiver->outcome() == rmpp::Outcome::under_way);
  }
  Instant deadline() const {
    return std::min(sender ? sender->next_deadline() : never, receiver ? receiver->next_deadline() : never);
  }
  /// Puts the next packet to send into `out`. False: there is none.
  bool poll();
};

struct Transactor::Transaction : Link<SendTag>, Link<DoneTag> {
  Id id = 0, query = none, asker = none;  // query: that a resolving request waits for; asker: the request of a query
  Phase phase = Phase::free;
  std::uint8_t redirects = 0;
  bool in_window = false, in_destination = false, directed = false;
  bool to_manager = false;  // goes to the port's subnet administration, and follows it to another port
  bool table = false;       // the answer is a table of subnet administration
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
  Bytes long_request, long_reply;  // more than 256 octets, or by RMPP
  std::size_t reply_size = 0;
  Datagram reply;
  std::unique_ptr<Transfer> transfer;

  /// Marks the request as invalid: it will not be sent.
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
  bool answered = false;  // it has answered at least once
  List<Transaction, SendTag> blocked;
};

// IBA §13.4.3, §13.6.2.1: members of the headers.
inline std::uint8_t class_of(ConstBytes mad) { return mad[1]; }
inline std::uint8_t method_of(ConstBytes mad) { return mad[3]; }
inline std::uint32_t tid_of(ConstBytes mad) { return static_cast<std::uint32_t>(read_bits(mad, 96, 32)); }
inline std::uint64_t whole_tid_of(ConstBytes mad) { return read_bits(mad, 64, 64); }
inline std::uint16_t attribute_of(ConstBytes mad) { return static_cast<std::uint16_t>(read_bits(mad, 128, 16)); }
inline bool is_subn_adm(ConstBytes mad) {
  return class_of(mad) == static_cast<std::uint8_t>(wire::mad::MgmtClass::subn_adm);
}
using rmpp::is_rmpp;
/// A transfer without a waiting request: the request is done, but the other side may not know its end; or a long
/// answer; or a long request of another port.
struct Transactor::Lingering {
  std::unique_ptr<Transfer> transfer;
  Address to;
  std::uint64_t tid;
  std::uint8_t mgmt_class;

  /// Whether a datagram to or from `other` belongs to the transfer. For requests of this side: compares only the lower
  /// half of the ID, because the driver may set the upper half.
  bool has(const Address& other, ConstBytes mad) const {
    return static_cast<std::uint32_t>(tid) == tid_of(mad) && mgmt_class == class_of(mad) && same_port(to, other);
  }
  /// The same for requests of the other side, which may send them from several queue pairs.
  bool has_asker(const Address& other, ConstBytes mad) const {
    return has(other, mad) && tid == whole_tid_of(mad) && to.qpn == other.qpn;
  }
};

/// ibsim's answer to a query for a table: the flag of RMPP is set, but version and type are 0.
inline bool is_cut(ConstBytes mad) { return mad[24] == 0 && mad[25] == 0; }

}  // namespace parley::mad
