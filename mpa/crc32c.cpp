// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "mpa/crc32c.hpp"

#include <array>

#include "mpa/crc32c_kernels.hpp"

namespace parley::mpa {

namespace crc_kernels {
namespace {

constexpr std::uint32_t polynomial_reflected = 0x82F63B78;  // RFC 5044 §4.4: 0x1EDC6F41 with its bits turned round

/// tables[k][v]: what octet v leaves after k further zero octets.
using Tables = std::array<std::array<std::uint32_t, 256>, 8>;

constexpr Tables make_tables() {
  Tables t{};
  for (std::uint32_t v = 0; v < 256; ++v) {
    std::uint32_t r = v;
    for (int bit = 0; bit < 8; ++bit) r = r >> 1 ^ ((r & 1) != 0 ? polynomial_reflected : 0);
    t[0][v] = r;
  }
  for (std::size_t k = 1; k < t.size(); ++k)
    for (std::size_t v = 0; v < 256; ++v) t[k][v] = t[k - 1][v] >> 8 ^ t[0][t[k - 1][v] & 0xFF];
  return t;
}

constexpr Tables tables = make_tables();

}  // namespace

// Slicing by eight: eight independent table look-ups per step instead of a chain of eight. It indexes raw octets, as
// the documented hot path of CPUs without a CRC instruction.
std::uint32_t portable(std::uint32_t state, const std::uint8_t* in, std::size_t size) {
  for (; size >= 8; in += 8, size -= 8) {
    const std::uint32_t low = state ^ (std::uint32_t{in[0]} | std::uint32_t{in[1]} << 8 | std::uint32_t{in[2]} << 16 |
                                       std::uint32_t{in[3]} << 24);
    state = tables[7][low & 0xFF] ^ tables[6][low >> 8 & 0xFF] ^ tables[5][low >> 16 & 0xFF] ^ tables[4][low >> 24] ^
            tables[3][in[4]] ^ tables[2][in[5]] ^ tables[1][in[6]] ^ tables[0][in[7]];
  }
  for (; size != 0; ++in, --size) state = state >> 8 ^ tables[0][(state ^ *in) & 0xFF];
  return state;
}

}  // namespace crc_kernels

namespace {

using Kernel = std::uint32_t (*)(std::uint32_t, const std::uint8_t*, std::size_t);

bool cpu_has_sse42() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("pclmul");
#else
  return false;
#endif
}

// Below this length isa-l's set-up costs more than its wide registers save; measured in bench/framing_bench.cpp.
constexpr std::size_t isal_pays_from = 256;

struct Choice {
  Kernel short_input = crc_kernels::portable;
  Kernel long_input = crc_kernels::portable;
  std::string_view name = "portable";
};

Choice choose() {
  Choice choice;
  if (crc_path_available(CrcPath::sse42)) {
    choice = {crc_kernels::sse42, crc_kernels::sse42, "sse42"};
    if (crc_path_available(CrcPath::isal)) choice = {crc_kernels::sse42, crc_kernels::isal, "isal+sse42"};
  } else if (crc_path_available(CrcPath::isal)) {
    choice = {crc_kernels::isal, crc_kernels::isal, "isal"};
  }
  return choice;
}

/// Chosen at the first call and constant from then on, so that it depends on nothing but the CPU.
inline const Choice& chosen() {
  static const Choice choice = choose();
  return choice;
}

}  // namespace

std::uint32_t crc32c_extend(std::uint32_t state, ConstBytes in) {
  const Choice& choice = chosen();
  return (in.size() < isal_pays_from ? choice.short_input : choice.long_input)(state, in.data(), in.size());
}

bool crc_path_available(CrcPath path) {
  switch (path) {
    case CrcPath::automatic:
    case CrcPath::portable: return true;
    case CrcPath::sse42: return crc_kernels::sse42_built && cpu_has_sse42();
    case CrcPath::isal: return crc_kernels::isal_built;
  }
  return false;
}

std::uint32_t crc32c_extend_by(CrcPath path, std::uint32_t state, ConstBytes in) {
  // A kernel the CPU cannot run is answered by the one it can: the value is the same.
  if (!crc_path_available(path)) path = CrcPath::portable;
  switch (path) {
    case CrcPath::isal: return crc_kernels::isal(state, in.data(), in.size());
    case CrcPath::sse42: return crc_kernels::sse42(state, in.data(), in.size());
    case CrcPath::portable: return crc_kernels::portable(state, in.data(), in.size());
    case CrcPath::automatic: break;
  }
  return crc32c_extend(state, in);
}

std::string_view crc_path_name() { return chosen().name; }

}  // namespace parley::mpa
