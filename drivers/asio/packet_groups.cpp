// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Multicast groups: one socket for each, bound to the group itself, because a socket bound to a host address does not
// receive datagrams to a group. It joins on the interface of each address in use (IP_ADD_MEMBERSHIP, IPV6_JOIN_GROUP),
// until the group is left. An IPv6 group has one socket per interface: on Linux, a socket that joined on one interface
// also receives datagrams from others if any socket of the host has joined there, and groups of ff02::/16 differ on
// each link (RFC 4007 §5).
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "drivers/asio/packet_set.hpp"
#include "drivers/asio/packet_socket.hpp"

namespace parley::asio_driver {
namespace {

bool same_group(const Address& a, const Address& b) { return a.family == b.family && a.octets == b.octets; }

/// The group address to which the joining socket is bound.
Address bound_at(const Address& group, std::uint32_t interface) {
  Address out = group;
  out.scope_id = group.family == Address::Family::v6 ? interface : 0;
  return out;
}

/// Also true if another address of the same interface had joined before.
bool join_at(int fd, const Address& group, const InterfaceAddress& place) {
  int failed = 0;
  if (group.family == Address::Family::v4) {
    ip_mreqn wanted{};
    std::memcpy(&wanted.imr_multiaddr, group.octets.data(), 4);
    std::memcpy(&wanted.imr_address, place.address.octets.data(), 4);
    failed = ::setsockopt(fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &wanted, sizeof wanted);
  } else {
    ipv6_mreq wanted{};
    std::memcpy(&wanted.ipv6mr_multiaddr, group.octets.data(), 16);
    wanted.ipv6mr_interface = place.interface;
    failed = ::setsockopt(fd, IPPROTO_IPV6, IPV6_JOIN_GROUP, &wanted, sizeof wanted);
  }
  return failed == 0 || errno == EADDRINUSE;
}

Error join_error(int why) {
  if (why == ENOBUFS)
    return {Errc::no_space,
            "the system lets a socket join on no more interfaces (sysctl net.ipv4.igmp_max_memberships)"};
  if (why == ENODEV)
    return {Errc::unsupported, "one of the addresses in use is of no interface that is up and takes multicast groups"};
  return Error(std::error_code(why, std::generic_category()));
}

}  // namespace

/// The interfaces of the addresses in use; all interfaces if a wildcard address is in use.
std::vector<InterfaceAddress> PacketSet::own_places(Address::Family family) const {
  std::vector<InterfaceAddress> out;
  for (const Bound& b : bound_) {
    if (b.group || b.local.family != family) continue;
    if (b.local.is_any()) return interface_addresses(family);
    out.push_back(interface_address(b.local));
  }
  return out;
}

bool PacketSet::has_all(Address::Family family) const {
  return std::any_of(bound_.begin(), bound_.end(),
                     [family](const Bound& b) { return b.local.family == family && b.local.is_any(); });
}

/// `group` as returned by bound_at().
Result<int> PacketSet::open_group(const Address& group) {
  std::error_code why;
  const int fd = group_socket(group, options_, why);
  if (fd < 0) {
    if (why == std::errc::address_in_use) return tl::unexpected(port_in_use(group, true));
    return tl::unexpected(Error(why));
  }
  if (watch(fd, EPOLLIN)) return fd;
  ::close(fd);
  return tl::unexpected(no_descriptor());
}

/// On one interface, with the existing socket for it or a new one.
Result<void> PacketSet::join_on(const Address& group, const InterfaceAddress& place) {
  const Address at = bound_at(group, place.interface);
  auto bound = std::find_if(bound_.begin(), bound_.end(), [&at](const Bound& b) { return b.group && b.local == at; });
  const bool made = bound == bound_.end();
  if (made && bound_.size() >= addresses_max) return tl::unexpected(too_many_addresses());
  int fd = made ? -1 : bound->fd;
  if (fd < 0) {
    const auto opened = open_group(at);
    if (!opened) return tl::unexpected(opened.error());
    fd = *opened;
  }
  if (join_at(fd, group, place)) {
    if (made)
      bound_.push_back({.fd = fd, .local = at, .users = 1, .group = true});
    else
      bound->fd = fd;
    return {};
  }
  const int why = errno;
  if (made || bound->fd < 0) ::close(fd);
  return tl::unexpected(join_error(why));
}

Result<void> PacketSet::join(const Address& group) try {
  std::vector<InterfaceAddress> places = own_places(group.family);
  if (places.empty())
    return fail(Errc::wrong_state,
                "this host has no IPv{a} address in use, on whose interface to join the group: listen or connect first",
                static_cast<int>(group.family));
  // Linux delivers no packet to an IPv6 group there, whatever its routes are.
  if (group.family == Address::Family::v6)
    std::erase_if(places, [](const InterfaceAddress& place) { return place.of_loopback; });
  if (places.empty())
    return fail(Errc::unsupported,
                "the loopback interface has no IPv6 groups: use an address of another interface, or an IPv4 group");
  bound_.reserve(bound_.size() + places.size());
  std::size_t joined = 0;
  Result<void> failed;
  for (const InterfaceAddress& place : places) {
    if (auto done = join_on(group, place))
      ++joined;
    else
      failed = std::move(done);
  }
  // With a wildcard address, some interfaces may not support groups.
  const bool enough = has_all(group.family) ? joined > 0 : joined == places.size();
  if (enough) return {};
  leave(group);
  return failed;
} catch (const std::bad_alloc&) {
  leave(group);
  return fail(Errc::no_space, "there is no memory for a group");
}

void PacketSet::leave(const Address& group) noexcept {
  std::erase_if(bound_, [this, &group](const Bound& b) {
    if (!b.group || !same_group(b.local, group)) return false;
    close_group(b.fd);
    return true;
  });
}

/// Nothing is ever sent through it.
void PacketSet::close_group(int fd) noexcept {
  if (fd < 0) return;
  if (fd == ready_fd_) ready_fd_ = -1;
  ::close(fd);
}

void PacketSet::close_groups(Address::Family family) {
  for (Bound& b : bound_) {
    if (!b.group || b.local.family != family) continue;
    close_group(b.fd);
    b.fd = -1;
  }
}

/// A new address is in use: it may be on another interface.
void PacketSet::join_groups_on(const Address& local) {
  std::vector<Address> groups;  // each once, even if it has several sockets
  for (const Bound& b : bound_)
    if (b.group && b.local.family == local.family &&
        std::none_of(groups.begin(), groups.end(), [&b](const Address& g) { return same_group(g, b.local); }))
      groups.push_back(b.local);
  if (groups.empty()) return;
  const std::vector<InterfaceAddress> places =
      local.is_any() ? interface_addresses(local.family) : std::vector{interface_address(local)};
  for (const Address& group : groups) {
    const auto fails = std::count_if(places.begin(), places.end(), [&](const InterfaceAddress& place) {
      return !join_on(bound_at(group, 0), place);
    });
    if (fails == std::ssize(places)) ++counters_.groups_not_joined;
  }
}

}  // namespace parley::asio_driver
