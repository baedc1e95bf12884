// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The variants that Parley brings along, and the seam behind which the queue pairs are that they negotiate.
#pragma once
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "parley/neg.hpp"
#include "parley/work.hpp"

namespace parley::neg {

/// Octets before each message that a UD queue pair receives: the global route header.
inline constexpr std::size_t grh_len = 40;
/// The Q_Key of libibverbs' examples and of perftest; it is not on the wire.
inline constexpr std::uint32_t qkey_of_programs = 0x11111111;

/// What may pass over a queue pair that is in RTS (receives: from INIT on), for variants that play a program's test. Its
/// memory is QpAttributes::vaddr and length. Errors, all: of Layer::plugin.
class DataPath {
 public:
  virtual ~DataPath() = default;
  virtual MutBytes memory() = 0;
  /// Requests that the queues hold.
  virtual std::size_t send_depth() const = 0;
  virtual std::size_t receive_depth() const = 0;
  /// [at, at + length) of the memory. Of UD the first grh_len octets that arrive are not the message's.
  virtual Outcome<void> post_receive(std::size_t at, std::size_t length) = 0;
  /// A send, or a write to or read from the beginning of the peer's memory.
  virtual Outcome<void> post(SendWr::Opcode opcode, std::size_t at, std::size_t length) = 0;
  /// What has completed, without waiting. byte_len counts as memory is used.
  virtual std::size_t poll(std::span<WorkCompletion> out) = 0;
};

/// A queue pair that a connection manager has connected.
struct QpConnected {
  QpAttributes local{};
  std::array<std::uint8_t, 16> peer_gid{};
};

/// One queue pair (of XRC one of each end) while it is negotiated. Calls come in this order, each once but take_test();
/// path() at any time after open().
/// Errors, all: of Layer::plugin.
class QpDriver {
 public:
  virtual ~QpDriver() = default;
  /// Makes the queue pair and takes it to INIT.
  virtual Outcome<QpAttributes> open() = 0;
  /// Device, port and GID, in words.
  virtual std::string where() const { return {}; }
  /// A test message will be sent by the peer: a receive for it is posted. Where can_test() only.
  virtual Outcome<void> expect_test() { return {}; }
  /// Mtu, ird and ord of the pair are agreed.
  virtual Outcome<void> to_rtr(const QpPair& pair) = 0;
  virtual Outcome<void> to_rts(const QpPair& pair) = 0;
  /// A connection manager makes it and takes it to RTS, once the stage info is over. What open() says is then provisional but
  /// for the path MTU, and to_rtr() and to_rts() have nothing to do. Of the variants here perftest knows such (-R).
  virtual bool connects() const { return false; }
  /// Where connects(): called until it is connected. None: not yet.
  virtual Outcome<std::optional<QpConnected>> connect() { return std::nullopt; }
  /// False: send_test() and take_test() are not called.
  virtual bool can_test() const { return false; }
  virtual Outcome<void> send_test(ConstBytes message) {
    (void)message;
    return {};
  }
  /// The peer's test message; none: it has not come yet. May wait for it, but not for long: a session has many rounds. Of
  /// UD also what somebody else has sent: then the call comes again, and must find a receive posted for what follows.
  virtual Outcome<std::optional<Bytes>> take_test() { return std::nullopt; }
  /// Null: it cannot pass data, beyond a test message.
  virtual DataPath* path() { return nullptr; }
};

/// An entry of this name in QpDrivers::make's configuration says what the peer has to do with the memory of "length"
/// octets: "none", "write" or "read". Without it all is allowed that the transport has. It is no parameter of a user's.
inline constexpr std::string_view access_parameter = "access";

/// Where queue pairs come from, besides values that are typed in (the driver "manual", which is always there).
struct QpDrivers {
  std::string name{};                   ///< "verbs"; empty: none
  std::vector<Parameter> parameters{};  ///< of its own, for the configuration of a variant
  std::function<Outcome<std::unique_ptr<QpDriver>>(Transport transport, const Config& config)> make{};
};

/// verbs-rc, verbs-uc, verbs-ud, verbs-xrc, manual, pingpong and perftest, of the plug-in "parley".
std::unique_ptr<Plugin> make_builtin_plugin(QpDrivers drivers = {});

}  // namespace parley::neg
