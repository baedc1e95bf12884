// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Multicast groups of IPv4: a socket for each, bound to the group itself, since one that is bound to an address of the host does not
// get what goes to a group. It is joined on the interface of each address in use (IP_ADD_MEMBERSHIP), until the group is left.
#include <ifaddrs.h>
#include <net/if.h>
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

/// Of IPv4, one for each address of each interface that is up.
std::vector<Address> addresses_of_interfaces() {
  std::vector<Address> out;
  ifaddrs* found = nullptr;
  if (::getifaddrs(&found) != 0) return out;
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(found, ::freeifaddrs);
  for (const ifaddrs* at = found; at != nullptr; at = at->ifa_next) {
    if (at->ifa_addr == nullptr || at->ifa_addr->sa_family != AF_INET || (at->ifa_flags & IFF_UP) == 0) continue;
    sockaddr_in in{};
    std::memcpy(&in, at->ifa_addr, sizeof in);
    Address address = Address::any(Address::Family::v4, 0);
    std::memcpy(address.octets.data(), &in.sin_addr, 4);
    out.push_back(address);
  }
  return out;
}

}  // namespace

/// Those in use; none in place of all of them: the interfaces' own.
std::vector<Address> PacketSet::own_addresses(Address::Family family) const {
  std::vector<Address> out;
  for (const Bound& b : bound_) {
    if (b.group || b.local.family != family) continue;
    if (b.local.is_any()) return addresses_of_interfaces();
    out.push_back(b.local);
  }
  return out;
}

Result<void> PacketSet::join_on(int fd, const Address& group, const Address& local) const {
  ip_mreqn wanted{};
  std::memcpy(&wanted.imr_multiaddr, group.octets.data(), 4);
  std::memcpy(&wanted.imr_address, local.octets.data(), 4);
  // EADDRINUSE: another address of the same interface was there before.
  if (::setsockopt(fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &wanted, sizeof wanted) == 0 || errno == EADDRINUSE) return {};
  return tl::unexpected(Error(std::error_code(errno, std::generic_category())));
}

Result<int> PacketSet::open_group(const Address& group) const {
  std::error_code why;
  const int fd = group_socket(group, options_, why);
  if (fd >= 0) return fd;
  if (why == std::errc::address_in_use) return tl::unexpected(port_in_use(group, true));
  return tl::unexpected(Error(why));
}

Result<void> PacketSet::join(const Address& group) try {
  if (group.family != Address::Family::v4)
    return fail(Errc::unsupported, "only groups of IPv4 (::ffff:224.0.0.0/100) are joined over sockets");
  if (bound_.size() >= addresses_max)
    return fail(Errc::no_space, "{a} addresses are in use at once, which is the most", addresses_max);
  const std::vector<Address> locals = own_addresses(group.family);
  if (locals.empty())
    return fail(Errc::wrong_state,
                "this host has no IPv4 address in use, on whose interface to join the group: listen or connect first");
  bound_.reserve(bound_.size() + 1);
  auto fd = open_group(group);
  if (!fd) return tl::unexpected(fd.error());
  std::size_t joined = 0;
  Result<void> last;
  for (const Address& local : locals) {
    last = join_on(*fd, group, local);
    joined += last ? 1 : 0;
  }
  const bool enough = std::any_of(bound_.begin(), bound_.end(), [](const Bound& b) { return b.local.is_any(); })
                          ? joined > 0  // one interface of many may be one that has no groups
                          : joined == locals.size();
  if (enough && watch(*fd, EPOLLIN)) {
    bound_.push_back({.fd = *fd, .local = group, .users = 1, .group = true});
    return {};
  }
  ::close(*fd);
  if (!enough) return last;
  return fail(Errc::no_space, "the system gives no descriptor; raise the limit of open files (ulimit -n)");
} catch (const std::bad_alloc&) {
  return fail(Errc::no_space, "there is no memory for a group");
}

void PacketSet::leave(const Address& group) noexcept {
  const auto at =
      std::find_if(bound_.begin(), bound_.end(), [&group](const Bound& b) { return b.group && b.local == group; });
  if (at == bound_.end()) return;
  const int fd = at->fd;
  bound_.erase(at);
  if (fd < 0) return;
  if (fd == ready_fd_) ready_fd_ = -1;
  ::close(fd);
}

void PacketSet::close_groups(Address::Family family) {
  for (Bound& b : bound_) {
    if (!b.group || b.local.family != family) continue;
    if (b.fd == ready_fd_) ready_fd_ = -1;
    ::close(b.fd);
    b.fd = -1;
  }
}

/// Not joined anywhere yet.
void PacketSet::reopen_groups(Address::Family family) {
  for (Bound& b : bound_) {
    if (!b.group || b.local.family != family) continue;
    auto fd = open_group(b.local);
    if (fd && watch(*fd, EPOLLIN))
      b.fd = *fd;
    else if (fd)
      ::close(*fd);
  }
}

/// An address has come: its interface may be another one.
void PacketSet::join_groups_on(const Address& local) {
  const std::vector<Address> locals = local.is_any() ? own_addresses(local.family) : std::vector{local};
  for (const Bound& b : bound_) {
    if (!b.group || b.local.family != local.family) continue;
    const auto fails =
        std::count_if(locals.begin(), locals.end(), [&](const Address& own) { return !join_on(b.fd, b.local, own); });
    if (fails == std::ssize(locals)) ++counters_.groups_not_joined;
  }
}

}  // namespace parley::asio_driver
