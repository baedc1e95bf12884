// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// CRC32c by carry-less multiplication on 512-bit registers: four of them run through the input 256 octets at a time,
// and what each holds is multiplied forward over the octets it jumps. isa-l does so too, but takes long over lengths
// that are no multiple of its block, which FPDUs never are, and cannot copy in the same pass. This file indexes raw
// octets: it is one of the documented hot paths. The instruction set is named function by function, so that nothing
// shared with other files is compiled for it.
#include "mpa/crc32c_kernels.hpp"

#if defined(__x86_64__)
#if defined(__GNUC__) && !defined(__clang__)
// g++ 12 takes the "undefined" registers of its own intrinsics for a mistake of ours.
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

/// x^n as a factor: the product of two reflected values stands one bit too low, hence the shift.
consteval long long factor(unsigned n) { return static_cast<long long>(std::uint64_t{power_of_x(n)} << 1); }

/// Carries every 128-bit lane `Bits` forward. Its halves are 64 bits apart, and each factor is 32 bits short of the
/// whole way because the factor itself fills only the upper part of its 64 bits.
template <unsigned Bits>
PARLEY_WIDE inline __m512i forward() {
  return _mm512_broadcast_i32x4(_mm_set_epi64x(factor(Bits - 32), factor(Bits + 32)));
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

/// Four lanes to one by their distances from the end, and that one to 32 bits.
PARLEY_WIDE inline std::uint32_t reduce(__m512i state) {
  const __m512i distances = _mm512_set_epi64(0, 0, factor(128 - 32), factor(128 + 32), factor(256 - 32),
                                             factor(256 + 32), factor(384 - 32), factor(384 + 32));
  const __m512i last = _mm512_maskz_mov_epi64(0xC0, state);
  const __m512i moved = fold(state, distances, last);
  const __m256i half = _mm256_xor_si256(_mm512_castsi512_si256(moved), _mm512_extracti64x4_epi64(moved, 1));
  const __m128i one = _mm_xor_si128(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1));
  const std::uint64_t low = _mm_crc32_u64(0, static_cast<std::uint64_t>(_mm_cvtsi128_si64(one)));
  return static_cast<std::uint32_t>(_mm_crc32_u64(low, static_cast<std::uint64_t>(_mm_extract_epi64(one, 1))));
}

/// size >= 64
template <bool Copy>
PARLEY_WIDE std::uint32_t run(std::uint32_t state, std::uint8_t* out, const std::uint8_t* in, std::size_t size) {
  for (; size % 4 != 0; --size, ++in) {
    if constexpr (Copy) *out++ = *in;
    state = _mm_crc32_u8(state, *in);
  }
  // What is over a whole number of vectors comes first, behind zeros: leading zeros change nothing once the running
  // value is added where the octets begin.
  const std::size_t head = size % vector == 0 ? vector : size % vector;
  const auto absent = static_cast<unsigned>((vector - head) / 4);
  const auto present = static_cast<__mmask16>(0xFFFFU << absent);
  __m512i a = _mm512_maskz_loadu_epi32(present, in - 4 * absent);  // masked words are not accessed
  if constexpr (Copy) _mm512_mask_storeu_epi32(out - 4 * absent, present, a);
  a = _mm512_xor_si512(a, _mm512_maskz_set1_epi32(static_cast<__mmask16>(1U << absent), static_cast<int>(state)));
  in += head;
  out += Copy ? head : 0;
  std::size_t left = (size - head) / vector;
  if (left >= 3) {
    __m512i b = take<Copy>(out, in), c = take<Copy>(out, in), d = take<Copy>(out, in);
    for (left -= 3; left >= 4; left -= 4) {
      a = fold(a, forward<2048>(), take<Copy>(out, in));
      b = fold(b, forward<2048>(), take<Copy>(out, in));
      c = fold(c, forward<2048>(), take<Copy>(out, in));
      d = fold(d, forward<2048>(), take<Copy>(out, in));
    }
    a = fold(fold(a, forward<1024>(), c), forward<512>(), fold(b, forward<1024>(), d));
  }
  for (; left != 0; --left) a = fold(a, forward<512>(), take<Copy>(out, in));
  return reduce(a);
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
