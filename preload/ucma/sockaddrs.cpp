// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "preload/ucma/sockaddrs.hpp"

#include <arpa/inet.h>
#include <endian.h>
#include <netinet/in.h>

#include <algorithm>
#include <cstring>

namespace parley::preload::ucma {

namespace {

template <class T>
bool copy(ConstBytes from, T& to) {
  if (from.size() < sizeof(T)) return false;
  std::memcpy(&to, from.data(), sizeof(T));
  return true;
}

Address of(const sockaddr_in& in) {
  Address out = Address::any(Address::Family::v4, ntohs(in.sin_port));
  std::memcpy(out.octets.data(), &in.sin_addr, 4);
  return out;
}

Address of(const sockaddr_in6& in) {
  Address out = Address::any(Address::Family::v6, ntohs(in.sin6_port));
  std::memcpy(out.octets.data(), &in.sin6_addr, 16);
  if (out.is_link_local()) out.scope_id = in.sin6_scope_id;
  return out;
}

}  // namespace

std::optional<Parsed> parse_sockaddr(ConstBytes octets) {
  std::uint16_t family = 0;
  if (!copy(octets, family)) return std::nullopt;
  sockaddr_in v4{};
  sockaddr_in6 v6{};
  SockaddrIb ib{};
  if (family == AF_INET && copy(octets, v4)) return Parsed{.size = sizeof v4, .address = of(v4)};
  if (family == AF_INET6 && copy(octets, v6)) return Parsed{.size = sizeof v6, .address = of(v6)};
  if (family == af_ib && copy(octets, ib)) return Parsed{.size = sizeof ib, .ib = ib};
  return std::nullopt;
}

std::size_t put_sockaddr(const Address& address, MutBytes out) {
  if (address.family == Address::Family::v4) {
    sockaddr_in v4{};
    v4.sin_family = AF_INET;
    v4.sin_port = htons(address.port);
    std::memcpy(&v4.sin_addr, address.octets.data(), 4);
    std::memcpy(out.data(), &v4, sizeof v4);
    return sizeof v4;
  }
  sockaddr_in6 v6{};
  v6.sin6_family = AF_INET6;
  v6.sin6_port = htons(address.port);
  v6.sin6_scope_id = address.scope_id;
  std::memcpy(&v6.sin6_addr, address.octets.data(), 16);
  std::memcpy(out.data(), &v6, sizeof v6);
  return sizeof v6;
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
