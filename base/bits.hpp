// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Numbers at any bit position of big-endian octets, as in InfiniBand headers. Bit 0 is the most significant bit of the
// first octet. Besides Reader and Writer, this is the only code that indexes raw octets.
#pragma once
#include <bit>
#include <cstddef>
#include <cstdint>

#include "base/assert.hpp"
#include "base/bytes_io.hpp"
#include "parley/bytes.hpp"

namespace parley {

/// The limits of read_bits and write_bits: at most 64 bits, in at most 8 octets.
constexpr bool bits_fit(std::size_t bit, std::size_t width) {
  return width >= 1 && width <= 64 && bit % 8 + width <= 64;
}

/// Reads `width` bits from `bit`. They must be within `in` and satisfy bits_fit().
inline std::uint64_t read_bits(ConstBytes in, std::size_t bit, std::size_t width) {
  const std::size_t end = bit + width, last = (end + 7) / 8;
  PARLEY_ASSERT(bits_fit(bit, width) && last <= in.size());
  std::uint64_t value = 0;
  for (std::size_t i = bit / 8; i < last; ++i) value = value << 8 | in[i];
  value >>= last * 8 - end;
  return width == 64 ? value : value & ((std::uint64_t{1} << width) - 1);
}

/// Writes the `width` lowest bits of `value` at `bit`; other bits are unchanged. They must be within `out` and satisfy
/// bits_fit().
inline void write_bits(MutBytes out, std::size_t bit, std::size_t width, std::uint64_t value) {
  const std::size_t end = bit + width, last = (end + 7) / 8;
  PARLEY_ASSERT(bits_fit(bit, width) && last <= out.size());
  if (bit % 8 == 0) {  // most fields are whole octets
    std::uint8_t* const at = out.data() + bit / 8;
    switch (width) {
      case 8: return store(at, static_cast<std::uint8_t>(value), std::endian::big);
      case 16: return store(at, static_cast<std::uint16_t>(value), std::endian::big);
      case 32: return store(at, static_cast<std::uint32_t>(value), std::endian::big);
      case 64: return store(at, value, std::endian::big);
      default: break;
    }
  }
  const std::size_t shift = last * 8 - end;
  std::uint64_t mask = (width == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << width) - 1) << shift;
  value <<= shift;
  for (std::size_t i = last; i-- > bit / 8; mask >>= 8, value >>= 8)
    out[i] = static_cast<std::uint8_t>((out[i] & ~mask) | (value & mask));
}

}  // namespace parley
