// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Structures of parley/wire/mad_transport.h: the headers of packets, for printing and for tables. The codec for packets
// is wire/ib/packet.hpp.
#pragma once
#include "wire/mad/structure.hpp"

namespace parley::wire::mad {

PARLEY_MAD_TRANSPORT_STRUCTURES(PARLEY_MAD_DEFINE)

}  // namespace parley::wire::mad
