// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "mpa/crc32c_kernels.hpp"

#ifdef PARLEY_HAVE_ISAL
#include <isa-l/crc.h>
#endif

namespace parley::mpa::crc_kernels {

#ifdef PARLEY_HAVE_ISAL

/// Defined where isa-l is opened on use (drivers/libraries/libisal.cpp); null where it is linked.
extern "C" __attribute__((weak)) bool parley_opens_isal();

bool isal_is_there() { return parley_opens_isal == nullptr || parley_opens_isal(); }

std::uint32_t isal(std::uint32_t state, const std::uint8_t* in, std::size_t size) {
  // crc32_iscsi does not invert its start value or its result, so both are the running value of crc32c.hpp.
  // Its length is an int, so longer inputs are passed in pieces.
  constexpr std::size_t piece_max = std::size_t{1} << 30;
  // The pointer is not const in isa-l's declaration; the octets are only read.
  auto* at = const_cast<unsigned char*>(in);
  while (size > piece_max) {
    state = crc32_iscsi(at, static_cast<int>(piece_max), state);
    at += piece_max;
    size -= piece_max;
  }
  return crc32_iscsi(at, static_cast<int>(size), state);
}

#else

bool isal_is_there() { return false; }

std::uint32_t isal(std::uint32_t state, const std::uint8_t* in, std::size_t size) { return portable(state, in, size); }

#endif

}  // namespace parley::mpa::crc_kernels
