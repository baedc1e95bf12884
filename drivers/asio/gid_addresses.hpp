// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The addresses of this machine that become the GIDs of a RoCE device over UDP sockets.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "parley/address.hpp"

namespace parley::asio_driver {

/// The GID table, in order, each address once. `named`: addresses or names of hosts, separated by commas. If it is
/// empty: the addresses of all interfaces that are up, in the order of in_gid_order(). Errors: bad_address, with a
/// sentence.
Result<std::vector<Address>> gid_addresses(std::string_view named);

/// IPv4, global IPv6, link-local IPv6, 127.0.0.0/8, ::1; within each group the order of `found`. `first`, if `found`
/// contains it, becomes GID 0. A repeated address has one place, and the table ends where the device's table is full.
std::vector<Address> in_gid_order(std::vector<Address> found, const std::optional<Address>& first);

/// Whether this process could bind the address and port now. False also for an IPv6 address during duplicate address
/// detection, or after that failed.
bool can_be_bound(const Address& address);

/// The last two octets of an IPv4 address, if they are a unicast LID (1 to 0xBFFF, IBA §4.1.3). 0: the address has none.
std::uint16_t lid_of(const Address& address);
/// Why a port whose first address this is has no LID, as a sentence; empty: it has one.
std::string why_no_lid(const Address& first);
/// `own` with the last two octets of a LID: the address of the port with that LID.
Address with_lid(Address own, std::uint16_t lid);

/// "192.0.2.1", "fe80::1%3"
std::string text_without_port(const Address& address);

}  // namespace parley::asio_driver
