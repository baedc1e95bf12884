// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// CRC32c (Castagnoli) as MPA uses it: RFC 5044 §4.4. The kernel is chosen once, at the first call, by what the CPU has.
#pragma once
#include <cstdint>
#include <string_view>

#include "parley/bytes.hpp"

namespace parley::mpa {

/// Running value: start with crc32c_init, extend, finish with crc32c_final. The final value goes out little-endian.
inline constexpr std::uint32_t crc32c_init = 0xFFFFFFFF;
std::uint32_t crc32c_extend(std::uint32_t state, ConstBytes in);
inline std::uint32_t crc32c_final(std::uint32_t state) { return ~state; }
inline std::uint32_t crc32c(ConstBytes in) { return crc32c_final(crc32c_extend(crc32c_init, in)); }

/// Copies `in` to `out` (which has the room and does not overlap) and extends over what was written there, even if
/// somebody changes `in` meanwhile.
std::uint32_t crc32c_copy(std::uint32_t state, std::uint8_t* out, ConstBytes in);

/// automatic: the fastest the CPU has for the length at hand.
enum class CrcPath : std::uint8_t { automatic, isal, sse42, portable, vpclmul };
bool crc_path_available(CrcPath path);
/// One kernel by name, whatever the CPU's best is; for tests and benches.
std::uint32_t crc32c_extend_by(CrcPath path, std::uint32_t state, ConstBytes in);
std::string_view crc_path_name();  ///< what automatic resolved to

}  // namespace parley::mpa
