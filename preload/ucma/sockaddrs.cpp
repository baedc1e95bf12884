// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "preload/ucma/sockaddrs.hpp"

#include <arpa/inet.h>
#include <endian.h>
#include <netinet/in.h>

#include <cstring>

#include "base/gid.hpp"
#include "drivers/asio/sockaddr.hpp"

namespace parley::preload::ucma {

namespace {

template <class T>
bool copy(ConstBytes from, T& to) {
  if (from.size() < sizeof(T)) return false;
  std::memcpy(&to, from.data(), sizeof(T));
  return true;
}

/// The address in a system's structure of that size. A scope belongs to link-local addresses alone. An IPv4-mapped IPv6
/// address (RFC 4291 §2.5.5.2) is its IPv4 address: getaddrinfo(3) returns it where all IPv4 addresses are loopback
/// addresses.
std::optional<Parsed> parsed(ConstBytes octets, std::size_t size) {
  if (octets.size() < size) return std::nullopt;
  asio_driver::SockAddr system{.size = static_cast<socklen_t>(size)};
  std::memcpy(&system.storage, octets.data(), size);
  Address address = asio_driver::from_sockaddr(system);
  if (!address.is_link_local()) address.scope_id = 0;
  if (const Gid gid = gid_of(address); is_v4_gid(gid)) address = address_of_gid(gid, address.port);
  return Parsed{.size = size, .address = address};
}

}  // namespace

std::optional<Parsed> parse_sockaddr(ConstBytes octets) {
  std::uint16_t family = 0;
  if (!copy(octets, family)) return std::nullopt;
  if (family == AF_INET) return parsed(octets, sizeof(sockaddr_in));
  if (family == AF_INET6) return parsed(octets, sizeof(sockaddr_in6));
  SockaddrIb ib{};
  if (family == af_ib && copy(octets, ib)) return Parsed{.size = sizeof ib, .ib = ib};
  return std::nullopt;
}

std::size_t put_sockaddr(const Address& address, MutBytes out) {
  const asio_driver::SockAddr system = asio_driver::to_sockaddr(address);
  std::memcpy(out.data(), &system.storage, system.size);
  return system.size;
}

SockaddrIb ib_sockaddr(const Gid& gid, std::uint64_t service_id) {
  SockaddrIb out{};
  out.family = af_ib;
  out.p_key = htons(0xFFFF);
  out.gid = gid;
  out.service_id = htobe64(service_id);
  out.service_mask = ~std::uint64_t{0};
  return out;
}

}  // namespace parley::preload::ucma
