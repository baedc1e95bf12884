// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#pragma once
#include <unistd.h>

#include <cstdint>

#include "parley/address.hpp"

namespace parley {

/// A loopback address of this process alone, so that tests can run beside each other; `n` is 1 to 7. UDP port 4791 is one
/// process's per address.
inline Address own_address(unsigned n, std::uint16_t port) {
  const auto pid = static_cast<std::uint32_t>(::getpid());
  return Address::v4(127, static_cast<std::uint8_t>(n << 4 | (pid >> 16 & 0xF)), static_cast<std::uint8_t>(pid >> 8),
                     static_cast<std::uint8_t>(pid), port);
}

}  // namespace parley
