// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Where XRC's broker listens, what it leaves for the one that comes after it, and what the system knows of processes.
#pragma once
#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

#include "drivers/asio/descriptor.hpp"
#include "xrc/server.hpp"

namespace parley::xrc {

using asio_driver::Descriptor;

/// $PARLEY_XRCD; or the machine's, if there is one or this is root; or the user's own.
std::string default_socket();

/// A listening or connected socket's address. Errors: invalid (too long for one).
struct SocketAddress {
  static Result<SocketAddress> of(const std::string& path);
  int bind(int fd) const;     ///< as bind(2)
  int connect(int fd) const;  ///< as connect(2)
  std::string path{};
};

/// One message, with a descriptor unless `file` is negative. As sendmsg(2).
ssize_t send_message(int socket, ConstBytes octets, int file, int flags);

/// What there is to know of the file behind a descriptor; none: there is none.
std::optional<FileFacts> facts_of(int fd);

/// Whether the process that a pidfd names has ended.
bool has_died(int pidfd);
/// When the process began, in the system's ticks; 0: not known.
std::uint64_t start_of(std::uint32_t pid);
/// Its name, at most 15 octets.
std::string command_of(std::uint32_t pid);

/// The file beside the socket: who has it locked is the broker. It holds the epoch, the numbers that are given out and the key
/// of proofs, for the brokers to come.
class Tenure {
 public:
  /// Errors: busy (there is another broker), lock_foreign, lock_unwritable, what the system says.
  static Result<Tenure> take(const std::string& socket);
  std::uint32_t epoch() const { return state_.epoch; }
  const SipKey& key() const { return state_.key; }
  /// Beyond all that brokers before this one may have assigned; 0: there was none.
  std::uint32_t qpn_next() const { return state_.qpn_next; }
  /// To be called before anybody learns of numbers that were assigned, and before more than `ahead` were since the last call.
  void keep(std::uint32_t qpn_next, std::uint32_t qpn_first, std::uint32_t qpn_last);
  static constexpr std::uint32_t ahead = 32768;

  Tenure(Tenure&& other) noexcept;
  ~Tenure();

 private:
  struct State {
    std::uint32_t epoch = 0, qpn_next = 0;
    SipKey key{};
  };
  Tenure(int fd, const State& state) : fd_(fd), state_(state) {}
  static Result<State> read(int fd);
  bool write(std::uint32_t qpn) const;

  int fd_;
  State state_;
  std::optional<std::uint32_t> reserved_{};  // numbers before it may have been assigned
};

}  // namespace parley::xrc
