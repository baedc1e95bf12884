// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The socket addresses in rdma_user_cm.h's commands.
#pragma once
#include <array>
#include <cstdint>
#include <optional>

#include "base/gid.hpp"
#include "parley/address.hpp"
#include "parley/bytes.hpp"

namespace parley::preload::ucma {

/// The octets of a structure of the system.
template <class T>
ConstBytes octets_of(const T& structure) {
  return {reinterpret_cast<const std::uint8_t*>(&structure), sizeof structure};
}

/// sockaddr_ib, family AF_IB (27): a GID and a service ID (Linux's include/rdma/ib.h).
struct SockaddrIb {
  std::uint16_t family;
  std::uint16_t p_key;      // big-endian
  std::uint32_t flow_info;  // big-endian
  std::array<std::uint8_t, 16> gid;
  std::uint64_t service_id, service_mask;  // big-endian
  std::uint64_t scope_id;
};
static_assert(sizeof(SockaddrIb) == 48);
inline constexpr std::uint16_t af_ib = 27;

struct Parsed {
  std::size_t size = 0;              ///< of the socket address structure, in octets
  std::optional<Address> address{};  ///< none: the family is AF_IB
  SockaddrIb ib{};
};
/// None: `octets` are too short, or the family is none of AF_INET, AF_INET6 and AF_IB.
std::optional<Parsed> parse_sockaddr(ConstBytes octets);
/// Writes a sockaddr_in or sockaddr_in6 and returns its size. `out` must have at least 28 octets.
std::size_t put_sockaddr(const Address& address, MutBytes out);
SockaddrIb ib_sockaddr(const Gid& gid, std::uint64_t service_id);

}  // namespace parley::preload::ucma
