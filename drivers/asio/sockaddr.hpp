// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Conversion between parley::Address and the system's socket addresses; socket options.
#pragma once
#include <sys/socket.h>

#include <system_error>

#include "parley/address.hpp"

namespace parley::asio_driver {

struct SockAddr {
  sockaddr_storage storage{};
  socklen_t size = 0;
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
};

SockAddr to_sockaddr(const Address& address);
Address from_sockaddr(const SockAddr& from);
/// The source address, without a port, of the system's route to `peer`. Sends nothing. Errors: the system's.
tl::expected<Address, std::error_code> source_toward(Address peer);

/// Whether the system accepted the option.
inline bool set_option(int fd, int level, int option, int value) {
  return ::setsockopt(fd, level, option, &value, sizeof value) == 0;
}

}  // namespace parley::asio_driver
