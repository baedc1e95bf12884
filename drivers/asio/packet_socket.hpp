// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The system calls of RoCEv2's UDP sockets.
#pragma once
#include <cstddef>
#include <cstdint>
#include <system_error>
#include <vector>

#include "parley/address.hpp"
#include "parley/roce_host.hpp"

namespace parley::asio_driver {

inline constexpr std::size_t icrc_size = 4;
inline constexpr std::size_t receive_batch = 16;       // datagrams of one system call
inline constexpr std::size_t receive_size = 64 << 10;  // of each; the system may have joined several packets

/// Of 127.0.0.0/8, all of which is this host.
inline bool is_loopback_v4(const Address& a) { return a.family == Address::Family::v4 && a.octets[0] == 127; }

/// An address of this host, and its interface's index.
struct OwnPlace {
  Address address{};
  std::uint32_t interface = 0;
};
/// Of each interface that is up, its addresses of the family.
std::vector<OwnPlace> places_of_interfaces(Address::Family family);
/// 0: none has the address.
std::uint32_t interface_of(const Address& local);

/// A non-blocking socket that never fragments, bound to `local` with this UDP port; tells the traffic class, the local
/// address and errors (ICMP) of what it gets. -1: `why`. With `beside_all` it may stand beside a socket of the same user that
/// has the port of all addresses (0.0.0.0), and gets what comes to `local` in its place.
int packet_socket(const Address& local, std::uint16_t port, const RoceHostOptions& options, std::error_code& why,
                  bool beside_all = false);
/// As that, bound to a multicast group, which it has not joined yet, and beside others that are; one of IPv6 also to the interface
/// that is its scope (Linux 5.7, or CAP_NET_RAW). It receives only.
int group_socket(const Address& group, const RoceHostOptions& options, std::error_code& why);

}  // namespace parley::asio_driver
