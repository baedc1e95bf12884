// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The CRC32c kernels behind mpa/crc32c.hpp, private to it. They take a bare pointer and a length, because two of them
// are compiled for instruction sets the rest of the program may not assume: an inline function of a shared header
// compiled there could be the copy the linker keeps for everybody.
#pragma once
#include <cstddef>
#include <cstdint>

namespace parley::mpa::crc_kernels {

std::uint32_t portable(std::uint32_t state, const std::uint8_t* in, std::size_t size);

/// Built with SSE4.2 and PCLMULQDQ; call only if the CPU has both. False on other architectures.
extern const bool sse42_built;
std::uint32_t sse42(std::uint32_t state, const std::uint8_t* in, std::size_t size);

/// isa-l, which chooses among its own kernels at run time. False if the program was built without it.
extern const bool isal_built;
std::uint32_t isal(std::uint32_t state, const std::uint8_t* in, std::size_t size);

}  // namespace parley::mpa::crc_kernels
