// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The addresses of the machine that are the device's GIDs.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "parley/address.hpp"

namespace parley::preload {

/// asio_driver::gid_addresses() of PARLEY_VERBS_ADDRESS. Errors: bad_address, with a sentence.
Result<std::vector<Address>> places();
/// EUI-64 of the device. It is derived from the first address, so that it is always the same, and is locally
/// administered (RFC 4291 §2.5.1).
std::uint64_t device_guid();
/// Index of the interface that has the address; 127.0.0.0/8 belongs to the loopback interface. 0: no interface has it.
std::uint32_t interface_index(const Address& address);
/// MTU of that interface, in octets of an IP packet; 1500 if the system does not report it.
std::uint32_t interface_mtu(std::uint32_t index);

}  // namespace parley::preload
