// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "wire/ib/crc32.hpp"

#include <array>
#include <bit>

#include "base/bytes_io.hpp"

#ifdef PARLEY_HAVE_ISAL
#include <isa-l/crc.h>
#endif

namespace parley::wire::ib {
namespace {

constexpr std::uint32_t polynomial = crc32_polynomial;
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

// Reads a whole word. Short inputs are mostly headers, and each packet has them.
std::uint32_t le32(const std::uint8_t* in) { return load<std::uint32_t>(in, std::endian::little); }
/// The CRC state that four octets leave after `more` (at most 4) further zero octets.
std::uint32_t under_zeros(std::uint32_t octets, std::size_t more) {
  return tables[more + 3][octets & 0xFF] ^ tables[more + 2][octets >> 8 & 0xFF] ^
         tables[more + 1][octets >> 16 & 0xFF] ^ tables[more][octets >> 24];
}

// Polynomials modulo that of the CRC, reflected: the top bit is 1, the one below it x.
constexpr std::uint32_t one = 0x80000000;

constexpr std::uint32_t multiply(std::uint32_t a, std::uint32_t b) {
  std::uint32_t out = 0;
  for (std::uint32_t bit = one; bit != 0; bit >>= 1) {
    if ((a & bit) != 0) out ^= b;
    b = b >> 1 ^ ((b & 1) != 0 ? polynomial : 0);
  }
  return out;
}

/// `power` to the power of 1, 2, 4, ...
constexpr std::size_t powers = 32;
using Powers = std::array<std::uint32_t, powers>;
constexpr Powers make_powers(std::uint32_t power) {
  Powers out{};
  for (std::uint32_t& entry : out) {
    entry = power;
    power = multiply(power, power);
  }
  return out;
}
constexpr std::uint32_t make_inverse() {
  std::uint32_t power = one;
  for (int bit = 0; bit < 8; ++bit) power = (power & one) != 0 ? (power ^ polynomial) << 1 | 1 : power << 1;
  return power;
}
constexpr Powers inverse_powers = make_powers(make_inverse());

#ifdef PARLEY_HAVE_ISAL
#if defined(__x86_64__)
// isa-l's kernels leave the upper halves of the wide registers in use, and every later SSE instruction would wait for
// them.
void give_wide_registers_back() {
  if (__builtin_cpu_supports("avx") != 0) asm volatile("vzeroupper");
}
#else
void give_wide_registers_back() {}
#endif

std::uint32_t crc32_isal(std::uint32_t before, ConstBytes in) {
  const std::uint32_t out = crc32_gzip_refl(before, in.data(), in.size());
  give_wide_registers_back();
  return out;
}
#endif

}  // namespace

std::uint32_t crc32(std::uint32_t before, ConstBytes in) {
#ifdef PARLEY_HAVE_ISAL
  constexpr std::size_t worth_it = 64;  // isa-l folds 64 octets at a time
  if (in.size() >= worth_it) return crc32_isal(before, in);
#endif
  return crc32_portable(before, in);
}

std::uint32_t crc32_portable(std::uint32_t before, ConstBytes in) {
  std::uint32_t crc = ~before;
  const std::uint8_t* at = in.data();
  std::size_t left = in.size();
  for (; left >= slices; at += slices, left -= slices)
    crc = under_zeros(crc ^ le32(at), 4) ^ under_zeros(le32(at + 4), 0);
  if (left >= 4) {
    crc = under_zeros(crc ^ le32(at), 0);
    at += 4;
    left -= 4;
  }
  for (; left > 0; ++at, --left) crc = crc >> 8 ^ tables[0][(crc ^ *at) & 0xFF];
  return ~crc;
}

std::uint32_t crc32_cause(std::uint32_t difference, std::size_t octets) {
  for (std::size_t i = 0; i < powers && octets >> i != 0; ++i)
    if ((octets >> i & 1) != 0) difference = multiply(difference, inverse_powers[i]);
  return difference;
}

}  // namespace parley::wire::ib
