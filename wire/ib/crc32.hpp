// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// CRC-32 as of Ethernet: reflected 0x04C11DB7, begun with ones, complemented at the end.
#pragma once
#include <cstddef>
#include <cstdint>

#include "parley/bytes.hpp"

namespace parley::wire::ib {

inline constexpr std::uint32_t crc32_polynomial = 0xEDB88320;

/// Continues from the CRC of what came before; 0 begins.
std::uint32_t crc32(std::uint32_t before, ConstBytes in);

/// What 32 bits of a message, `octets` before its end, would have to differ by to change its CRC by `difference`: the CRC is linear.
/// The first octet of the message is the low one of the result.
std::uint32_t crc32_cause(std::uint32_t difference, std::size_t octets);
/// The other way: what an octet that differs by `difference` changes in the CRC if `octets` follow it. For constants.
constexpr std::uint32_t crc32_effect(std::uint8_t difference, std::size_t octets) {
  std::uint32_t out = difference;
  for (std::size_t bit = 0; bit < 8 * (octets + 1); ++bit) out = out >> 1 ^ ((out & 1) != 0 ? crc32_polynomial : 0);
  return out;
}

}  // namespace parley::wire::ib
