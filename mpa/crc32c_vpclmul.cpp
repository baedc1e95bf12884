// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// CRC32c by carry-less multiplication on four 512-bit registers, which process 256 octets at a time: each register's
// value is multiplied forward over the octets that it skips. isa-l uses the same method, but is slow for lengths that
// are not a multiple of its block, which FPDUs never are, and cannot copy in the same pass. This file indexes raw
// octets because it is a documented hot path. Each function names the instruction set, so that no code shared with
// other files is compiled for it.
#include "mpa/crc32c_kernels.hpp"

#if defined(__x86_64__)
#if defined(__GNUC__) && !defined(__clang__)
// g++ 12 warns about the "undefined" registers of its own intrinsics.
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <immintrin.h>

#include <cstring>

#define PARLEY_WIDE __attribute__((target("sse4.2,pclmul,avx512f,vpclmulqdq")))
#endif

namespace parley::mpa::crc_kernels {

#if defined(__x86_64__)

namespace {

constexpr std::size_t vector = 64;  // octets

/// x^n as a factor: the product of two reflected values is one bit too low, hence the shift. It is a variable, since
/// clang with sanitizers would compute a function call at run time for each message.
template <unsigned N>
constexpr long long factor = static_cast<long long>(std::uint64_t{power_of_x(N)} << 1);

/// The factors that move every 128-bit lane forward by `Bits`. A lane's halves are 64 bits apart. Each factor is 32
/// bits short of the distance, because it fills only the upper part of its 64 bits.
template <unsigned Bits>
PARLEY_WIDE inline __m512i forward() {
  return _mm512_broadcast_i32x4(_mm_set_epi64x(factor<Bits - 32>, factor<Bits + 32>));
}

PARLEY_WIDE inline __m512i fold(__m512i state, __m512i by, __m512i next) {
  constexpr int exclusive_or = 0x96;
  return _mm512_ternarylogic_epi64(_mm512_clmulepi64_epi128(state, by, 0x00), _mm512_clmulepi64_epi128(state, by, 0x11),
                                   next, exclusive_or);
}

template <bool Copy>
PARLEY_WIDE inline __m512i take(std::uint8_t*& out, const std::uint8_t*& in) {
  const __m512i v = _mm512_loadu_si512(in);
  in += vector;
  if constexpr (Copy) {
    _mm512_storeu_si512(out, v);
    out += vector;
  }
  return v;
}

/// Folds the four lanes into one, each by its distance from the end, and reduces that to 32 bits.
PARLEY_WIDE inline std::uint32_t reduce(__m512i state) {
  const __m512i distances = _mm512_set_epi64(0, 0, factor<128 - 32>, factor<128 + 32>, factor<256 - 32>,
                                             factor<256 + 32>, factor<384 - 32>, factor<384 + 32>);
  const __m512i last = _mm512_maskz_mov_epi64(0xC0, state);
  const __m512i moved = fold(state, distances, last);
  const __m256i half = _mm256_xor_si256(_mm512_castsi512_si256(moved), _mm512_extracti64x4_epi64(moved, 1));
  const __m128i one = _mm_xor_si128(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1));
  const std::uint64_t low = _mm_crc32_u64(0, static_cast<std::uint64_t>(_mm_cvtsi128_si64(one)));
  return static_cast<std::uint32_t>(_mm_crc32_u64(low, static_cast<std::uint64_t>(_mm_extract_epi64(one, 1))));
}

/// Processes the remaining four-octet words (`words`, 1..15). The state is rotated: its first words move, after zeros,
/// to the end of a vector before the last one; its other words move before the new words. Leading zeros do not change
/// the CRC.
template <bool Copy>
PARLEY_WIDE inline __m512i take_words(__m512i state, std::uint8_t* out, const std::uint8_t* in, unsigned words) {
  const __m512i lanes = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
  const __m512i from = _mm512_add_epi32(lanes, _mm512_set1_epi32(static_cast<int>(words)));  // modulo 16
  const __m512i turned = _mm512_permutexvar_epi32(from, state);
  const unsigned absent = 16 - words;
  const auto present = static_cast<__mmask16>(0xFFFFU << absent);
  // Words outside of the mask are not accessed, so they may be outside of the input.
  const __m512i last = _mm512_mask_loadu_epi32(turned, present, in - 4 * absent);
  if constexpr (Copy) _mm512_mask_storeu_epi32(out - 4 * absent, present, last);
  return fold(_mm512_maskz_mov_epi32(present, turned), forward<512>(), last);
}

/// The 0..3 octets after the last word.
template <bool Copy>
PARLEY_WIDE inline std::uint32_t take_octets(std::uint32_t state, std::uint8_t* out, const std::uint8_t* in,
                                             std::size_t size) {
  if ((size & 2) != 0) {
    std::uint16_t v;
    std::memcpy(&v, in, sizeof v);
    if constexpr (Copy) std::memcpy(out, &v, sizeof v);
    state = _mm_crc32_u16(state, v);
  }
  if ((size & 1) != 0) {
    const std::uint8_t v = in[size - 1];
    if constexpr (Copy) out[size - 1] = v;
    state = _mm_crc32_u8(state, v);
  }
  return state;
}

/// size >= 64
template <bool Copy>
PARLEY_WIDE std::uint32_t run(std::uint32_t state, std::uint8_t* out, const std::uint8_t* in, std::size_t size) {
  __m512i a = take<Copy>(out, in);
  a = _mm512_xor_si512(a, _mm512_zextsi128_si512(_mm_cvtsi32_si128(static_cast<int>(state))));
  std::size_t left = size / vector - 1;
  if (left >= 3) {
    __m512i b = take<Copy>(out, in), c = take<Copy>(out, in), d = take<Copy>(out, in);
    for (left -= 3; left >= 4; left -= 4) {
      a = fold(a, forward<2048>(), take<Copy>(out, in));
      b = fold(b, forward<2048>(), take<Copy>(out, in));
      c = fold(c, forward<2048>(), take<Copy>(out, in));
      d = fold(d, forward<2048>(), take<Copy>(out, in));
    }
    for (; left != 0; --left) {  // up to three more, independent of each other
      const __m512i next = fold(a, forward<2048>(), take<Copy>(out, in));
      a = b, b = c, c = d, d = next;
    }
    a = fold(fold(a, forward<1024>(), c), forward<512>(), fold(b, forward<1024>(), d));
  }
  for (; left != 0; --left) a = fold(a, forward<512>(), take<Copy>(out, in));
  const std::size_t words = size % vector / 4;
  if (words != 0) {
    a = take_words<Copy>(a, out, in, static_cast<unsigned>(words));
    in += 4 * words;
    out += Copy ? 4 * words : 0;
  }
  return take_octets<Copy>(reduce(a), out, in, size % 4);
}

}  // namespace

const bool vpclmul_built = true;

std::uint32_t vpclmul(std::uint32_t state, const std::uint8_t* in, std::size_t size) {
  return size < vector ? sse42(state, in, size) : run<false>(state, nullptr, in, size);
}

std::uint32_t vpclmul_copy(std::uint32_t state, std::uint8_t* out, const std::uint8_t* in, std::size_t size) {
  if (size >= vector) return run<true>(state, out, in, size);
  if (size != 0) std::memcpy(out, in, size);
  return sse42(state, out, size);
}

#else

const bool vpclmul_built = false;

std::uint32_t vpclmul(std::uint32_t state, const std::uint8_t* in, std::size_t size) {
  return portable(state, in, size);
}

std::uint32_t vpclmul_copy(std::uint32_t state, std::uint8_t* out, const std::uint8_t* in, std::size_t size) {
  for (std::size_t i = 0; i < size; ++i) out[i] = in[i];
  return portable(state, out, size);
}

#endif

}  // namespace parley::mpa::crc_kernels
