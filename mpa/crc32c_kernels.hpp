// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The CRC32c kernels behind mpa/crc32c.hpp, private to it. They take a bare pointer and a length, because two of them
// are compiled for instruction sets that the rest of the program must not use. The linker could keep a copy of an
// inline function of a shared header that was compiled there, and use it in the whole program.
#pragma once
#include <cstddef>
#include <cstdint>

namespace parley::mpa::crc_kernels {

/// RFC 5044 §4.4: 0x1EDC6F41 with its bits reversed. All kernels store polynomials in this way: x^31 is bit 0.
inline constexpr std::uint32_t polynomial_reflected = 0x82F63B78;

/// x^n modulo the polynomial. For constants only, so that it leaves no code in the object file.
constexpr std::uint32_t power_of_x(unsigned n) {
  std::uint32_t r = 0x80000000;
  for (unsigned i = 0; i < n; ++i) r = r >> 1 ^ ((r & 1) != 0 ? polynomial_reflected : 0);
  return r;
}

std::uint32_t portable(std::uint32_t state, const std::uint8_t* in, std::size_t size);

/// Built with SSE4.2 and PCLMULQDQ; call only if the CPU has both. False on other architectures.
extern const bool sse42_built;
std::uint32_t sse42(std::uint32_t state, const std::uint8_t* in, std::size_t size);
/// The same, and copies `in` to `out`; they must not overlap.
std::uint32_t sse42_copy(std::uint32_t state, std::uint8_t* out, const std::uint8_t* in, std::size_t size);

/// Built with AVX-512 and VPCLMULQDQ; call only if the CPU has them.
extern const bool vpclmul_built;
std::uint32_t vpclmul(std::uint32_t state, const std::uint8_t* in, std::size_t size);
std::uint32_t vpclmul_copy(std::uint32_t state, std::uint8_t* out, const std::uint8_t* in, std::size_t size);

/// isa-l, which chooses among its own kernels at run time. False if the program was built without it, or cannot open it.
bool isal_is_there();
std::uint32_t isal(std::uint32_t state, const std::uint8_t* in, std::size_t size);

}  // namespace parley::mpa::crc_kernels
