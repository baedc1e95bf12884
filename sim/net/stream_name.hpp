// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The name of a TCP stream in a simulated world; identical at both ends.
#pragma once
#include <utility>

#include "parley/address.hpp"

namespace parley::sim {

/// Both ends, the smaller address first.
using StreamName = std::pair<Address, Address>;

inline StreamName stream_name(Address a, Address b) {
  a.scope_id = b.scope_id = 0;  // each host numbers its own interfaces
  return a < b ? StreamName{a, b} : StreamName{b, a};
}

}  // namespace parley::sim
