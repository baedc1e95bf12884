// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// GIDs as addresses: a RoCEv2 GID is an IPv6 address, or an IPv4 address as ::ffff:a.b.c.d (IBA Annex A17).
#pragma once
#include <array>
#include <cstdint>
#include <string>

#include "parley/address.hpp"

namespace parley {

using Gid = std::array<std::uint8_t, 16>;

bool is_v4_gid(const Gid& gid);
/// In ff00::/8, or an IPv4 group as ::ffff:224.0.0.0/100.
bool is_multicast(const Gid& gid);
/// In fe80::/10: an interface has such a GID without a configured address.
bool is_link_local_gid(const Gid& gid);
/// The GID of an address, without port and scope.
Gid gid_of(const Address& address);
/// The address of a RoCEv2 GID: IPv4 if it is in ::ffff:0:0/96.
Address address_of_gid(const Gid& gid, std::uint16_t port = 0);
/// In the form of an IPv6 address (RFC 5952): "fe80::1", "::ffff:192.0.2.1".
std::string gid_text(const Gid& gid);

}  // namespace parley
