// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// CRC32c (Castagnoli) as MPA uses it: RFC 5044 §4.4. The kernel is chosen once, at the first call, for the CPU.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "parley/bytes.hpp"

namespace parley::mpa {

/// Running value: start with crc32c_init, extend, finish with crc32c_final. The final value is sent little-endian.
inline constexpr std::uint32_t crc32c_init = 0xFFFFFFFF;
std::uint32_t crc32c_extend(std::uint32_t state, ConstBytes in);
inline std::uint32_t crc32c_final(std::uint32_t state) { return ~state; }
inline std::uint32_t crc32c(ConstBytes in) { return crc32c_final(crc32c_extend(crc32c_init, in)); }

/// Copies `in` to `out` (large enough, not overlapping) and extends over the octets written to `out`, even if `in` is
/// changed during the call.
std::uint32_t crc32c_copy(std::uint32_t state, std::uint8_t* out, ConstBytes in);

/// The running value that one of its octets leaves after 1, 2 and 3 zero octets.
extern const std::array<std::array<std::uint32_t, 256>, 3> crc32c_under_zeros;

/// Extends over `count` octets of zero, at most 3: an FPDU's PAD (RFC 5044 §4.1).
inline std::uint32_t crc32c_zeros(std::uint32_t state, std::size_t count) {
  const auto& [one, two, three] = crc32c_under_zeros;
  switch (count) {
    case 1: return state >> 8 ^ one[state & 0xFF];
    case 2: return state >> 16 ^ two[state & 0xFF] ^ one[state >> 8 & 0xFF];
    case 3: return state >> 24 ^ three[state & 0xFF] ^ two[state >> 8 & 0xFF] ^ one[state >> 16 & 0xFF];
    default: return state;
  }
}

/// automatic: the fastest one for the CPU and the length.
enum class CrcPath : std::uint8_t { automatic, isal, sse42, portable, vpclmul };
bool crc_path_available(CrcPath path);
/// One kernel by name, even if the CPU has a better one; for tests and benches.
std::uint32_t crc32c_extend_by(CrcPath path, std::uint32_t state, ConstBytes in);
std::uint32_t crc32c_copy_by(CrcPath path, std::uint32_t state, std::uint8_t* out, ConstBytes in);
std::string_view crc_path_name();  ///< the kernels that automatic uses

/// The kernels that automatic uses on a machine where these are available.
struct CrcChoice {
  CrcPath short_input = CrcPath::portable, long_input = CrcPath::portable;
  std::size_t long_from = 0;
  bool copies = false;  ///< from `copy_from` octets on, copies and computes in one pass; else in two
  std::size_t copy_from = 0;
  std::string_view name = "portable";
};
CrcChoice crc_choice(bool vpclmul, bool isal, bool sse42);

}  // namespace parley::mpa
