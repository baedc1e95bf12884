// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Structures of parley/wire/mad_gs.h: baseboard and device management, SNMP tunneling, vendors, applications.
#pragma once
#include "wire/mad/common.hpp"

namespace parley::wire::mad {

PARLEY_MAD_GS_STRUCTURES(PARLEY_MAD_DEFINE)

}  // namespace parley::wire::mad
