// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// An address as text where there is room for it already.
#pragma once
#include <cstddef>

#include "parley/address.hpp"

namespace parley {

/// "[" 39 characters, "%" and ten digits, "]:" and five, is the longest.
inline constexpr std::size_t address_text_max = 58;

/// As Address::to_string(); returns the end. There is room for address_text_max, and nothing is behind it: no 0 either.
char* write_address(const Address& address, char* at);

}  // namespace parley
