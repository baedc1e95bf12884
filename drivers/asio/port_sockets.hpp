// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Who has UDP port 4791 on this machine.
#pragma once
#include <cstdint>
#include <vector>

#include "parley/address.hpp"

namespace parley::asio_driver {

/// A socket with UDP port 4791, of any process.
struct PortSocket {
  Address local{};  ///< without port and scope
  std::uint32_t user = 0;
  std::uint64_t inode = 0;
};

/// Those that /proc/net/udp and udp6 list for this network namespace.
std::vector<PortSocket> roce_port_sockets();

}  // namespace parley::asio_driver
