// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Where XRC's broker listens, the state that it leaves for its successor, and the system's information about processes.
#pragma once
#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

#include "drivers/asio/descriptor.hpp"
#include "xrc/server.hpp"

namespace parley::xrc {

using asio_driver::Descriptor;

/// $PARLEY_XRCD; otherwise the machine's socket, if it exists or the user is root; otherwise the user's own.
std::string default_socket();

/// One message, with a descriptor unless `file` is negative. As sendmsg(2).
ssize_t send_message(int socket, ConstBytes octets, int file, int flags);

/// Facts about the file behind a descriptor; none: not available.
std::optional<FileFacts> facts_of(int fd);

/// Whether the process of a pidfd has ended.
bool has_died(int pidfd);
/// When the process started, in the system's ticks; 0: unknown.
std::uint64_t start_of(std::uint32_t pid);
/// Its name, at most 15 octets.
std::string command_of(std::uint32_t pid);

/// The file next to the socket: the process that has locked it is the broker. It holds the epoch, the assigned numbers
/// and the key of proofs, for later brokers.
class BrokerLock {
 public:
  /// Errors: busy (there is another broker), lock_foreign, lock_unwritable, the system's.
  static Result<BrokerLock> acquire(const std::string& socket);
  std::uint32_t epoch() const { return state_.epoch; }
  const SipKey& key() const { return state_.key; }
  /// Greater than all numbers that earlier brokers may have assigned; 0: there was none.
  std::uint32_t qpn_next() const { return state_.qpn_next; }
  /// Call before assigned numbers become known to others, and before more than `ahead` were assigned since the last
  /// call.
  void keep(std::uint32_t qpn_next, std::uint32_t qpn_first, std::uint32_t qpn_last);
  static constexpr std::uint32_t ahead = 32768;

  BrokerLock(BrokerLock&& other) noexcept;
  ~BrokerLock();

 private:
  struct State {
    std::uint32_t epoch = 0, qpn_next = 0;
    SipKey key{};
  };
  BrokerLock(int fd, const State& state) : fd_(fd), state_(state) {}
  static Result<State> read(int fd);
  bool write(std::uint32_t qpn) const;

  int fd_;
  State state_;
  std::optional<std::uint32_t> reserved_{};  // numbers below it may have been assigned
};

}  // namespace parley::xrc
