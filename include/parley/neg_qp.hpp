// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Parley's built-in variants, and the interface to the queue pairs that they negotiate.
#pragma once
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "parley/neg.hpp"
#include "parley/work.hpp"

namespace parley::neg {

/// Octets in front of each message that a UD queue pair receives: the global route header.
inline constexpr std::size_t grh_len = 40;
/// The Q_Key of libibverbs' examples and of perftest, which is not transmitted.
inline constexpr std::uint32_t qkey_of_programs = 0x11111111;

/// Access to a queue pair in RTS (for receives: from INIT on), for variants that run a program's test. Its memory is
/// QpAttributes::vaddr and length. All errors: of Layer::plugin.
class DataPath {
 public:
  virtual ~DataPath() = default;
  virtual MutBytes memory() = 0;
  /// Capacity of the queues, in requests.
  virtual std::size_t send_depth() const = 0;
  virtual std::size_t receive_depth() const = 0;
  /// Receives into [at, at + length) of the memory, in octets. On UD the first grh_len octets are not part of the message.
  virtual Outcome<void> post_receive(std::size_t at, std::size_t length) = 0;
  /// A Send, or an RDMA Write to or Read from the start of the peer's memory.
  virtual Outcome<void> post(SendWr::Opcode opcode, std::size_t at, std::size_t length) = 0;
  /// Takes completions, without waiting. byte_len is the memory used, in octets.
  virtual std::size_t poll(std::span<WorkCompletion> out) = 0;
};

/// A queue pair that a connection manager connected.
struct QpConnected {
  QpAttributes local{};
  std::array<std::uint8_t, 16> peer_gid{};
};

/// One queue pair (for XRC: one at each end) during its negotiation. Calls come in this order, each once except receive_test();
/// path() at any time after open(). All errors: of Layer::plugin.
class QpDriver {
 public:
  virtual ~QpDriver() = default;
  /// Creates the queue pair and moves it to INIT.
  virtual Outcome<QpAttributes> open() = 0;
  /// Device, port and GID, as text.
  virtual std::string where() const { return {}; }
  /// Posts a receive for the peer's test message. Only with can_test().
  virtual Outcome<void> expect_test() { return {}; }
  /// Mtu, ird and ord of the pair are negotiated.
  virtual Outcome<void> to_rtr(const QpPair& pair) = 0;
  virtual Outcome<void> to_rts(const QpPair& pair) = 0;
  /// A connection manager creates the queue pair and moves it to RTS after the stage info. The attributes from open() are
  /// then provisional, except for the path MTU, and to_rtr() and to_rts() have nothing to do. Only the
  /// perftest variant supports it (-R).
  virtual bool connects() const { return false; }
  /// Only with connects(): called until the queue pair is connected. Empty: not yet.
  virtual Outcome<std::optional<QpConnected>> connect() { return std::nullopt; }
  /// False: send_test() and receive_test() are not called.
  virtual bool can_test() const { return false; }
  virtual Outcome<void> send_test(ConstBytes message) {
    (void)message;
    return {};
  }
  /// The peer's test message; empty: it has not arrived. May wait for it, but only briefly: a session has many rounds. On UD
  /// it may also be another sender's datagram: the call is then repeated, and must find a receive posted for what follows.
  virtual Outcome<std::optional<Bytes>> receive_test() { return std::nullopt; }
  /// Null: it can carry no data except a test message.
  virtual DataPath* path() { return nullptr; }
};

/// An entry of this name in the configuration for QpDrivers::make: the access of the peer to the memory of "length" octets:
/// "none", "write" or "read". Without it, everything that the transport supports is allowed. Users cannot set it.
inline constexpr std::string_view access_parameter = "access";

/// A source of queue pairs, in addition to values entered by the user (the driver "manual", which always exists).
struct QpDrivers {
  std::string name{};                   ///< "verbs"; empty: none
  std::vector<Parameter> parameters{};  ///< the driver's own, for the configuration of a variant
  std::function<Outcome<std::unique_ptr<QpDriver>>(Transport transport, const Config& config)> make{};
};

/// The plug-in "parley" with verbs-rc, verbs-uc, verbs-ud, verbs-xrc, manual, pingpong and perftest.
std::unique_ptr<Plugin> make_builtin_plugin(QpDrivers drivers = {});

}  // namespace parley::neg
