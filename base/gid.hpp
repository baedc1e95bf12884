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
/// Of ff00::/8, or an IPv4 group as ::ffff:224.0.0.0/100.
bool is_multicast(const Gid& gid);
/// Of fe80::/10, as an interface has one without any address being set.
bool is_link_local_gid(const Gid& gid);
/// Of the address; port and scope are not in it.
Gid gid_of(const Address& address);
/// The address that a RoCEv2 GID is: IPv4 where it is of ::ffff:0:0/96.
Address address_of_gid(const Gid& gid, std::uint16_t port = 0);
/// As of an IPv6 address (RFC 5952): "fe80::1", "::ffff:192.0.2.1".
std::string gid_text(const Gid& gid);

}  // namespace parley
