// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "wire/ib/crc32.hpp"

#include <array>

namespace parley::wire::ib {
namespace {

constexpr std::uint32_t polynomial = 0xEDB88320;
constexpr std::size_t slices = 8;  // octets in one step
using Tables = std::array<std::array<std::uint32_t, 256>, slices>;

constexpr Tables make_tables() {
  Tables out{};
  for (std::uint32_t octet = 0; octet < 256; ++octet) {
    std::uint32_t crc = octet;
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ ((crc & 1) != 0 ? polynomial : 0);
    out[0][octet] = crc;
  }
  for (std::size_t slice = 1; slice < slices; ++slice)
    for (std::size_t octet = 0; octet < 256; ++octet)
      out[slice][octet] = out[slice - 1][octet] >> 8 ^ out[0][out[slice - 1][octet] & 0xFF];
  return out;
}
constexpr Tables tables = make_tables();

}  // namespace

std::uint32_t crc32(std::uint32_t before, ConstBytes in) {
  std::uint32_t crc = ~before;
  for (; in.size() >= slices; in = in.subspan(slices)) {
    std::uint32_t next = 0;
    for (std::size_t i = 0; i < slices; ++i) {
      const std::uint8_t octet = i < 4 ? static_cast<std::uint8_t>(in[i] ^ (crc >> (8 * i))) : in[i];
      next ^= tables[slices - 1 - i][octet];
    }
    crc = next;
  }
  for (const std::uint8_t octet : in) crc = crc >> 8 ^ tables[0][(crc ^ octet) & 0xFF];
  return ~crc;
}

}  // namespace parley::wire::ib
