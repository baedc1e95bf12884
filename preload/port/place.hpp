// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Where the keeper listens: an abstract Unix socket. Its name belongs to the network namespace, as the ports do, and is free
// as soon as the keeper ends. Other users can take the name, so both sides check the other's user (SO_PEERCRED).
#pragma once
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>
#include <string>

#include <fmt/format.h>

#include "drivers/local_peer.hpp"
#include "preload/port/messages.hpp"

namespace parley::preload::port {

/// The name of the keeper's abstract socket, for the effective user.
inline std::string keeper_name() { return fmt::format("parley-port-{}-{}", protocol_version, ::geteuid()); }

struct KeeperAddress {
  explicit KeeperAddress(const std::string& name) {
    at.sun_family = AF_UNIX;
    std::memcpy(at.sun_path + 1, name.data(), name.size());  // the octet 0 in front makes it abstract
    size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&at); }
  sockaddr_un at{};
  socklen_t size = 0;
};

/// The process at the other end of a connected Unix socket is of this process's effective user. `pid`: it; 0: unknown.
inline bool same_user(int fd, pid_t* pid = nullptr) {
  const auto peer = peer_of(fd);
  if (!peer || peer->uid != ::geteuid()) return false;
  if (pid != nullptr) *pid = peer->pid;
  return true;
}

}  // namespace parley::preload::port
