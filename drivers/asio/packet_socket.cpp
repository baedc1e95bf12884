// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "drivers/asio/packet_socket.hpp"

#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include "drivers/asio/sockaddr.hpp"
#include "parley/wire/ib.h"

namespace parley::asio_driver {
namespace {

// The destination address is only needed if the socket has all addresses.
void set_v4(int fd, bool all_addresses) {
  set_option(fd, IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO);  // this makes the identification 0
  set_option(fd, IPPROTO_IP, IP_RECVTOS, 1);
  if (all_addresses) set_option(fd, IPPROTO_IP, IP_PKTINFO, 1);
  set_option(fd, IPPROTO_IP, IP_MULTICAST_ALL, 0);  // otherwise a wildcard socket gets the groups that others have
                                                    // joined
  set_option(fd, IPPROTO_IP, IP_RECVERR, 1);
}

void set_v6(int fd, bool all_addresses) {
  set_option(fd, IPPROTO_IPV6, IPV6_V6ONLY, 1);
  set_option(fd, IPPROTO_IPV6, IPV6_MTU_DISCOVER, IPV6_PMTUDISC_DO);
  set_option(fd, IPPROTO_IPV6, IPV6_RECVTCLASS, 1);
  if (all_addresses) set_option(fd, IPPROTO_IPV6, IPV6_RECVPKTINFO, 1);
  set_option(fd, IPPROTO_IPV6, IPV6_MULTICAST_ALL, 0);  // as IP_MULTICAST_ALL
  set_option(fd, IPPROTO_IPV6, IPV6_RECVERR, 1);
  set_option(fd, IPPROTO_UDP, UDP_NO_CHECK6_RX, 1);  // Linux's rxe sends no UDP checksum; the ICRC covers more
}

// First tries the option that exceeds the limit and needs root.
void set_buffers(int fd, std::size_t octets) {
  if (octets == 0) return;
  const int size = static_cast<int>(octets);
  if (!set_option(fd, SOL_SOCKET, SO_RCVBUFFORCE, size)) set_option(fd, SOL_SOCKET, SO_RCVBUF, size);
  if (!set_option(fd, SOL_SOCKET, SO_SNDBUFFORCE, size)) set_option(fd, SOL_SOCKET, SO_SNDBUF, size);
}

// It only sends; received datagrams are not read.
void set_sender_buffers(int fd, std::size_t octets) {
  set_buffers(fd, octets);
  set_option(fd, SOL_SOCKET, SO_RCVBUF, 1);
}

/// False: `why` is set, also if there is no socket.
bool bind_or_close(int fd, const SockAddr& at, std::error_code& why) {
  if (fd >= 0 && ::bind(fd, at.get(), at.size) == 0) return true;
  why = {errno, std::generic_category()};
  if (fd >= 0) ::close(fd);
  return false;
}

}  // namespace

std::vector<InterfaceAddress> interface_addresses(Address::Family family) {
  std::vector<InterfaceAddress> out;
  ifaddrs* found = nullptr;
  if (::getifaddrs(&found) != 0) return out;
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(found, ::freeifaddrs);
  const int wanted = family == Address::Family::v4 ? AF_INET : AF_INET6;
  for (const ifaddrs* at = found; at != nullptr; at = at->ifa_next) {
    if (at->ifa_addr == nullptr || at->ifa_addr->sa_family != wanted || (at->ifa_flags & IFF_UP) == 0) continue;
    SockAddr from;
    std::memcpy(&from.storage, at->ifa_addr, wanted == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6));
    out.push_back({from_sockaddr(from), ::if_nametoindex(at->ifa_name), (at->ifa_flags & IFF_LOOPBACK) != 0});
  }
  return out;
}

InterfaceAddress interface_address(const Address& local) {
  if (local.is_link_local() && local.scope_id != 0) return {local, local.scope_id};
  const std::vector<InterfaceAddress> places = interface_addresses(local.family);
  const auto at = std::find_if(places.begin(), places.end(),
                               [&local](const InterfaceAddress& p) { return p.address.octets == local.octets; });
  if (at == places.end()) return {local};
  return {local, at->interface, at->of_loopback};
}

// Linux lets two sockets of one user share a port if both have SO_REUSEPORT while the second is bound. A wildcard
// socket sets it after its bind(), so that there is only one. A socket next to it sets it only during its bind(), so
// that there is only one per address. Those of a group keep it.
int packet_socket(const Address& local, std::uint16_t port, const RoceHostOptions& options, std::error_code& why,
                  Sharing sharing) {
  Address at = local;
  at.port = port;
  const SockAddr bound = to_sockaddr(at);
  const int fd = ::socket(bound.get()->sa_family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd >= 0) {
    if (local.family == Address::Family::v4)
      set_v4(fd, local.is_any());
    else
      set_v6(fd, local.is_any());
    if (port == PARLEY_ROCE_UDP_PORT)
      set_buffers(fd, options.socket_buffer);
    else
      set_sender_buffers(fd, options.socket_buffer);
    if (options.offload) set_option(fd, IPPROTO_UDP, UDP_GRO, 1);
    if (sharing != Sharing::none) set_option(fd, SOL_SOCKET, SO_REUSEPORT, 1);
  }
  if (!bind_or_close(fd, bound, why)) return -1;
  set_option(fd, SOL_SOCKET, SO_REUSEPORT, local.is_any() || sharing == Sharing::group ? 1 : 0);
  return fd;
}

int group_socket(const Address& group, const RoceHostOptions& options, std::error_code& why) {
  Address at = group;
  at.port = PARLEY_ROCE_UDP_PORT;
  const SockAddr bound = to_sockaddr(at);
  const int fd = ::socket(bound.get()->sa_family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd >= 0) {
    if (group.family == Address::Family::v4)
      set_v4(fd, false);
    else
      set_v6(fd, false);
    const bool bound_to =
        group.scope_id == 0 || set_option(fd, SOL_SOCKET, SO_BINDTOIFINDEX, static_cast<int>(group.scope_id));
    if (!bound_to) {
      why = {errno, std::generic_category()};
      ::close(fd);
      return -1;
    }
    set_buffers(fd, options.socket_buffer);
    set_option(fd, SOL_SOCKET, SO_REUSEADDR, 1);  // next to others in the group: each gets a copy
    set_option(fd, SOL_SOCKET, SO_REUSEPORT, 1);  // next to a wildcard socket of the same user
  }
  return bind_or_close(fd, bound, why) ? fd : -1;
}

}  // namespace parley::asio_driver
