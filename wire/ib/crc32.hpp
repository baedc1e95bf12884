// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Ethernet's CRC-32: reflected 0x04C11DB7, initial value all ones, complemented at the end.
#pragma once
#include <cstddef>
#include <cstdint>

#include "parley/bytes.hpp"

namespace parley::wire::ib {

inline constexpr std::uint32_t crc32_polynomial = 0xEDB88320;

/// `before` is the CRC of the octets before `in`; 0 at the start.
std::uint32_t crc32(std::uint32_t before, ConstBytes in);
/// The same by tables, without isa-l.
std::uint32_t crc32_portable(std::uint32_t before, ConstBytes in);

/// The change of 32 bits of a message, `octets` before its end, that changes its CRC by `difference` (the CRC is
/// linear). The low octet of the result is the first octet in the message.
std::uint32_t crc32_cause(std::uint32_t difference, std::size_t octets);
/// The reverse: the change of the CRC if an octet with `octets` after it changes by `difference`. For constants.
constexpr std::uint32_t crc32_effect(std::uint8_t difference, std::size_t octets) {
  std::uint32_t out = difference;
  for (std::size_t bit = 0; bit < 8 * (octets + 1); ++bit) out = out >> 1 ^ ((out & 1) != 0 ? crc32_polynomial : 0);
  return out;
}

}  // namespace parley::wire::ib
