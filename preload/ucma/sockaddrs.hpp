// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The addresses of rdma_user_cm.h's commands.
#pragma once
#include <array>
#include <cstdint>
#include <optional>

#include "base/gid.hpp"
#include "parley/address.hpp"
#include "parley/bytes.hpp"

namespace parley::preload::ucma {

/// Of AF_IB (27): by a GID and a service ID. Linux's include/rdma/ib.h.
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
  std::size_t size = 0;              ///< of the structure
  std::optional<Address> address{};  ///< none: of AF_IB
  SockaddrIb ib{};
};
/// None: neither AF_INET, AF_INET6 nor AF_IB, or too short.
std::optional<Parsed> parse_sockaddr(ConstBytes octets);
/// Octets written, of at least 28.
std::size_t put_sockaddr(const Address& address, MutBytes out);
SockaddrIb ib_sockaddr(const Gid& gid, std::uint64_t service_id);

}  // namespace parley::preload::ucma
