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
inline constexpr std::size_t receive_batch = 16;       // datagrams per system call
inline constexpr std::size_t receive_size = 64 << 10;  // for each; the system may have coalesced several packets

/// In 127.0.0.0/8: all of these are this host.
inline bool is_loopback_v4(const Address& a) { return a.family == Address::Family::v4 && a.octets[0] == 127; }
/// The same, or ::1.
inline bool is_loopback(const Address& a) {
  return is_loopback_v4(a) || a == Address::loopback(Address::Family::v6, a.port);
}

/// An address of this host, and its interface's index; 0: no interface has it.
struct InterfaceAddress {
  Address address{};
  std::uint32_t interface = 0;
  bool of_loopback = false;  ///< the interface is the loopback interface
};
/// For each interface that is up, its addresses of the family.
std::vector<InterfaceAddress> interface_addresses(Address::Family family);
/// The address with its interface.
InterfaceAddress interface_address(const Address& local);
/// 0: no interface has the address.
inline std::uint32_t interface_of(const Address& local) { return interface_address(local).interface; }

/// Which other sockets may have the same address and port.
enum class Sharing : std::uint8_t {
  none,
  beside_all,  ///< one of the same user that has the port of all addresses (0.0.0.0). This one receives the datagrams to `local` in its place
  group,  ///< those of the same user that were made so. Linux's SO_REUSEPORT; the system, or a program of it, chooses one for each datagram
};

/// A non-blocking socket that never fragments, bound to `local` with this UDP port. It reports the traffic class, the
/// local address and errors (ICMP) of received datagrams. -1: see `why`.
int packet_socket(const Address& local, std::uint16_t port, const RoceHostOptions& options, std::error_code& why,
                  Sharing sharing = Sharing::none);
/// The same, bound to a multicast group that it has not joined yet; it may coexist with others bound to that group. For
/// IPv6 it is also bound to the interface in the scope (Linux 5.7, or CAP_NET_RAW). It only receives.
int group_socket(const Address& group, const RoceHostOptions& options, std::error_code& why);

/// Supplies the sockets that receive, in place of packet_socket().
class PacketSockets {
 public:
  virtual ~PacketSockets() = default;
  /// A socket as of packet_socket(), with PARLEY_ROCE_UDP_PORT of `local`, which is not any(); the caller closes it.
  virtual Result<int> open(const Address& local) = 0;
};

}  // namespace parley::asio_driver
