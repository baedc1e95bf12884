// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "drivers/asio/sockaddr.hpp"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include "parley/host.hpp"

namespace parley {
namespace asio_driver {

// The system's structures are copied with memcpy: they are the only place where a cast over memory is the API.
SockAddr to_sockaddr(const Address& address) {
  SockAddr out;
  if (address.family == Address::Family::v4) {
    sockaddr_in in{};
    in.sin_family = AF_INET;
    in.sin_port = htons(address.port);
    std::memcpy(&in.sin_addr, address.octets.data(), 4);
    std::memcpy(&out.storage, &in, sizeof in);
    out.size = sizeof in;
  } else {
    sockaddr_in6 in{};
    in.sin6_family = AF_INET6;
    in.sin6_port = htons(address.port);
    std::memcpy(&in.sin6_addr, address.octets.data(), 16);
    in.sin6_scope_id = address.scope_id;
    std::memcpy(&out.storage, &in, sizeof in);
    out.size = sizeof in;
  }
  return out;
}

Address from_sockaddr(const SockAddr& from) {
  Address out;
  if (from.storage.ss_family == AF_INET) {
    sockaddr_in in{};
    std::memcpy(&in, &from.storage, sizeof in);
    out.family = Address::Family::v4;
    out.port = ntohs(in.sin_port);
    std::memcpy(out.octets.data(), &in.sin_addr, 4);
  } else {
    sockaddr_in6 in{};
    std::memcpy(&in, &from.storage, sizeof in);
    out.family = Address::Family::v6;
    out.port = ntohs(in.sin6_port);
    std::memcpy(out.octets.data(), &in.sin6_addr, 16);
    out.scope_id = in.sin6_scope_id;
  }
  return out;
}

tl::expected<Address, std::error_code> source_toward(Address peer) {
  if (peer.port == 0) peer.port = 9;  // discard port: some systems do not connect to port 0
  const SockAddr to = to_sockaddr(peer);
  const int fd = ::socket(to.get()->sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  SockAddr own{.size = sizeof(sockaddr_storage)};
  const bool known = fd >= 0 && ::connect(fd, to.get(), to.size) == 0 && ::getsockname(fd, own.get(), &own.size) == 0;
  const std::error_code why(errno, std::generic_category());
  if (fd >= 0) ::close(fd);
  if (!known) return tl::unexpected(why);
  Address out = from_sockaddr(own);
  out.port = 0;
  return out;
}

}  // namespace asio_driver

Result<std::vector<Address>> Host::resolve(const std::string& host, std::uint16_t port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICHOST;  // numeric first: no name service needed, and %eth0 is parsed here
  addrinfo* found = nullptr;
  if (::getaddrinfo(host.c_str(), nullptr, &hints, &found) != 0) {
    hints.ai_flags = 0;
    if (::getaddrinfo(host.c_str(), nullptr, &hints, &found) != 0)
      return fail(Errc::bad_address, "host is neither an address nor a name that the system can resolve");
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(found, ::freeaddrinfo);
  std::vector<Address> out;
  for (const addrinfo* at = found; at != nullptr; at = at->ai_next) {
    if (at->ai_family != AF_INET && at->ai_family != AF_INET6) continue;
    asio_driver::SockAddr from;
    std::memcpy(&from.storage, at->ai_addr, std::min<std::size_t>(at->ai_addrlen, sizeof from.storage));
    Address address = asio_driver::from_sockaddr(from);
    address.port = port;
    if (std::find(out.begin(), out.end(), address) == out.end()) out.push_back(address);
  }
  if (out.empty()) return fail(Errc::bad_address, "host has no IPv4 or IPv6 address");
  return out;
}

}  // namespace parley
