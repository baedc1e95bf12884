// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Which addresses of the machine are the device's GIDs.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "parley/address.hpp"

namespace parley::preload {

/// Those that PARLEY_VERBS_ADDRESS names, a comma between them; or else all of the machine's interfaces that are up, loopback's only
/// if there are no others. Errors: bad_address, with a sentence.
Result<std::vector<Address>> places();
/// EUI-64 of the device: of the first address, so that it is the same each time. Locally administered (RFC 4291 §2.5.1).
std::uint64_t device_guid();
/// Index of the interface that has the address; all of 127.0.0.0/8 is loopback's. 0: none has it.
std::uint32_t interface_index(const Address& address);
/// Octets of an IP packet on that interface; 1500 if it does not tell.
std::uint32_t interface_mtu(std::uint32_t index);

}  // namespace parley::preload
