// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Sockets in the file system, and the names at which this process listens.
#pragma once
#include <sys/types.h>

#include <memory>
#include <string>
#include <string_view>

#include "drivers/asio/descriptor.hpp"
#include "drivers/owned_name.hpp"
#include "parley/result.hpp"

namespace parley {

/// The address of an AF_UNIX socket with a name.
struct SocketAddress {
  /// Errors: invalid_argument (the path is empty, or too long for an address).
  static Result<SocketAddress> of(const std::string& path);
  int bind(int fd) const;     ///< as bind(2)
  int connect(int fd) const;  ///< as connect(2)
  std::string path{};
};

/// A new socket of this type that is bound to the name, with this mode (0600, 0666) from the start; the caller closes it.
/// Errors: address_in_use, the system's. For a moment the process has another umask.
Result<int> bind_name(const SocketAddress& address, int type, mode_t mode);

struct LocalListenerOptions {
  int type = 0;        ///< SOCK_STREAM, SOCK_SEQPACKET
  mode_t mode = 0600;  ///< of the socket's file
  /// A symbolic link of this user, whose target has this file name, is replaced like a socket. Empty: none is.
  std::string_view link_target{};
};

/// A bound socket that does not block, at a name that no other process takes meanwhile: path.lock is locked. The lock's file
/// stays at the end; the socket's is removed, if it is still that of this object.
class LocalListener {
 public:
  /// A socket of this user on which no process listens is replaced. listen() is the caller's. Errors: invalid_argument
  /// (length of the path), address_in_use (a process listens there, or another kind of file is there, or another user's), the
  /// system's.
  static Result<LocalListener> open(const std::string& path, const LocalListenerOptions& options);
  int fd() const { return socket_->fd; }

 private:
  using Held = std::unique_ptr<asio_driver::Descriptor>;
  LocalListener(Held lock, Held socket, OwnedName name)
      : lock_(std::move(lock)), socket_(std::move(socket)), name_(std::move(name)) {}

  Held lock_, socket_;
  OwnedName name_;  // is removed first
};

}  // namespace parley
