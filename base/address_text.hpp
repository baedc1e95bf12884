// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// An address as text, written into a buffer of the caller.
#pragma once
#include <cstddef>

#include "parley/address.hpp"

namespace parley {

/// The longest text: "[", 39 characters, "%" and ten digits, "]:" and five digits.
inline constexpr std::size_t address_text_max = 58;

/// Like Address::to_string(). `at` has room for address_text_max characters. Returns the end; adds no terminating 0.
char* write_address(const Address& address, char* at);

}  // namespace parley
