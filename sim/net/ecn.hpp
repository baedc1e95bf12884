// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Explicit congestion notification in the IP header of a frame: RFC 3168 §5, §23.1, §24.
#pragma once
#include "parley/bytes.hpp"

namespace parley::sim {

/// Sets CE in an IPv4 or IPv6 packet with ECT, and updates IPv4's checksum. False: another kind of frame, not ECT, or
/// already CE.
bool mark_congestion(MutBytes frame);
/// The packet has CE.
bool is_congestion_marked(ConstBytes frame);

}  // namespace parley::sim
