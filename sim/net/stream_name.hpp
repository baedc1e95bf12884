// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// What a TCP stream of a simulated world is known by, whichever end looks at it.
#pragma once
#include <utility>

#include "parley/address.hpp"

namespace parley::sim {

/// Both ends, the lesser first.
using StreamName = std::pair<Address, Address>;

inline StreamName stream_name(Address a, Address b) {
  a.scope_id = b.scope_id = 0;  // each host counts its interfaces for itself
  return a < b ? StreamName{a, b} : StreamName{b, a};
}

}  // namespace parley::sim
