// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The link layer that programs see. With PARLEY_VERBS_LINK_LAYER=infiniband the port has a LID, for programs that address
// peers by LIDs only. The packets are RoCEv2 all the same.
#pragma once
#include <infiniband/verbs.h>

#include <cstdint>
#include <string>

#include "parley/address.hpp"
#include "parley/qp.hpp"

namespace parley::preload {

/// Whether the port is shown as an InfiniBand port.
bool shows_infiniband();

/// Why the port cannot be shown in the way that PARLEY_VERBS_LINK_LAYER asks for, as a sentence; empty: it can.
/// `first` is the address of GID 0.
std::string why_no_link_layer(const Address& first);

/// Fills in the global route of an address vector that has a LID only, if the port has one: from GID 0 to the address of
/// that LID.
void add_route(AhAttr& attr, const Address& own);

}  // namespace parley::preload
