// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// CRC32c with the CPU's own instruction. Its latency is three cycles, but one can start in each cycle. So long inputs
// are cut into three blocks that are computed in parallel, and the three remainders are merged by carry-less
// multiplication. This file indexes raw octets because it is a documented hot path.
#include "mpa/crc32c_kernels.hpp"

#if defined(__x86_64__)
#include <nmmintrin.h>
#include <wmmintrin.h>

#include <cstring>
#endif

namespace parley::mpa::crc_kernels {

#if defined(__x86_64__)

namespace {

std::uint64_t load64(const std::uint8_t* p) {
  std::uint64_t v;
  std::memcpy(&v, p, sizeof v);
  return v;
}

/// state * factor * x^32 modulo the polynomial. The product of two reflected 32-bit values is one bit too low in 64
/// bits, hence the shift; the CRC instruction then reduces it, which brings in the x^32.
std::uint32_t multiply(std::uint32_t state, std::uint32_t factor) {
  const __m128i product =
      _mm_clmulepi64_si128(_mm_cvtsi32_si128(static_cast<int>(state)), _mm_cvtsi32_si128(static_cast<int>(factor)), 0);
  return static_cast<std::uint32_t>(_mm_crc32_u64(0, static_cast<std::uint64_t>(_mm_cvtsi128_si64(product)) << 1));
}

template <bool Copy>
std::uint64_t take(std::uint64_t state, std::uint8_t* out, const std::uint8_t* in, std::size_t at) {
  const std::uint64_t v = load64(in + at);
  if constexpr (Copy) std::memcpy(out + at, &v, sizeof v);
  return _mm_crc32_u64(state, v);
}

/// Three blocks of Block octets each. With Copy they are also written to `out`: the stores cost no time next to the CRC
/// instructions.
template <std::size_t Block, bool Copy>
std::uint32_t three_blocks(std::uint32_t state, std::uint8_t* out, const std::uint8_t* in) {
  constexpr std::uint32_t over_two = power_of_x(16 * Block - 32);
  constexpr std::uint32_t over_one = power_of_x(8 * Block - 32);
  std::uint64_t a = state, b = 0, c = 0;
  for (std::size_t i = 0; i < Block; i += 8) {
    a = take<Copy>(a, out, in, i);
    b = take<Copy>(b, out, in, Block + i);
    c = take<Copy>(c, out, in, 2 * Block + i);
  }
  return multiply(static_cast<std::uint32_t>(a), over_two) ^ multiply(static_cast<std::uint32_t>(b), over_one) ^
         static_cast<std::uint32_t>(c);
}

template <std::size_t Block, bool Copy>
std::uint32_t while_it_fits(std::uint32_t state, std::uint8_t*& out, const std::uint8_t*& in, std::size_t& size) {
  for (; size >= 3 * Block; in += 3 * Block, size -= 3 * Block) {
    state = three_blocks<Block, Copy>(state, out, in);
    if constexpr (Copy) out += 3 * Block;
  }
  return state;
}

std::uint32_t serial(std::uint32_t state, const std::uint8_t* in, std::size_t size) {
  std::uint64_t wide = state;
  for (; size >= 8; in += 8, size -= 8) wide = _mm_crc32_u64(wide, load64(in));
  state = static_cast<std::uint32_t>(wide);
  if ((size & 4) != 0) {
    std::uint32_t v;
    std::memcpy(&v, in, sizeof v);
    state = _mm_crc32_u32(state, v);
    in += 4;
  }
  if ((size & 2) != 0) {
    std::uint16_t v;
    std::memcpy(&v, in, sizeof v);
    state = _mm_crc32_u16(state, v);
    in += 2;
  }
  return (size & 1) != 0 ? _mm_crc32_u8(state, *in) : state;
}

}  // namespace

const bool sse42_built = true;

std::uint32_t sse42(std::uint32_t state, const std::uint8_t* in, std::size_t size) {
  std::uint8_t* nowhere = nullptr;
  // Below three blocks of 32 octets the merge costs more than it saves.
  if (size >= 96) {
    state = while_it_fits<1024, false>(state, nowhere, in, size);
    state = while_it_fits<128, false>(state, nowhere, in, size);
    state = while_it_fits<32, false>(state, nowhere, in, size);
  }
  return serial(state, in, size);
}

std::uint32_t sse42_copy(std::uint32_t state, std::uint8_t* out, const std::uint8_t* in, std::size_t size) {
  state = while_it_fits<1024, true>(state, out, in, size);
  state = while_it_fits<128, true>(state, out, in, size);
  if (size != 0) std::memcpy(out, in, size);
  return sse42(state, out, size);
}

#else

const bool sse42_built = false;

std::uint32_t sse42(std::uint32_t state, const std::uint8_t* in, std::size_t size) { return portable(state, in, size); }

std::uint32_t sse42_copy(std::uint32_t state, std::uint8_t* out, const std::uint8_t* in, std::size_t size) {
  for (std::size_t i = 0; i < size; ++i) out[i] = in[i];
  return portable(state, out, size);
}

#endif

}  // namespace parley::mpa::crc_kernels
