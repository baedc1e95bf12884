// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#pragma once
#include <cstdint>

#include "parley/verbs.hpp"

namespace parley::nic::roce {

/// The maximum payload of one packet.
constexpr std::uint32_t octets_of(Mtu mtu) { return 128U << static_cast<unsigned>(mtu); }

}  // namespace parley::nic::roce
