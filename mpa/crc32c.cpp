// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "mpa/crc32c.hpp"

#include <array>
#include <cstring>

#include "mpa/crc32c_kernels.hpp"

namespace parley::mpa {

namespace crc_kernels {
namespace {

/// tables[k][v]: the CRC state that octet v leaves after k further zero octets.
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

// Slicing by eight: eight independent table look-ups per step instead of a chain of eight. It indexes raw octets
// because it is the documented hot path of CPUs without a CRC instruction.
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

constexpr std::array<std::array<std::uint32_t, 256>, 3> crc32c_under_zeros = {
    crc_kernels::tables[0], crc_kernels::tables[1], crc_kernels::tables[2]};

namespace {

using Kernel = std::uint32_t (*)(std::uint32_t, const std::uint8_t*, std::size_t);
using CopyKernel = std::uint32_t (*)(std::uint32_t, std::uint8_t*, const std::uint8_t*, std::size_t);

#if defined(__x86_64__)
bool cpu_has_sse42() { return __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("pclmul"); }
bool cpu_has_vpclmul() {
  return cpu_has_sse42() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("vpclmulqdq");
}
#else
bool cpu_has_sse42() { return false; }
bool cpu_has_vpclmul() { return false; }
#endif

// Below these lengths a wide kernel's set-up costs more than its registers save.
constexpr std::size_t isal_pays_from = 256;
constexpr std::size_t vpclmul_pays_from = 96;
constexpr std::size_t sse42_copy_pays_from = 384;

Kernel kernel_of(CrcPath path) {
  switch (path) {
    case CrcPath::isal: return crc_kernels::isal;
    case CrcPath::vpclmul: return crc_kernels::vpclmul;
    case CrcPath::sse42: return crc_kernels::sse42;
    case CrcPath::automatic:
    case CrcPath::portable: break;
  }
  return crc_kernels::portable;
}

struct Choice {
  Kernel short_input, long_input;
  std::size_t long_from;
  CopyKernel copy;  ///< null: never
  std::size_t copy_from;
  std::string_view name;
};

Choice choose() {
  const CrcChoice c = crc_choice(crc_path_available(CrcPath::vpclmul), crc_path_available(CrcPath::isal),
                                 crc_path_available(CrcPath::sse42));
  const CopyKernel copy = c.long_input == CrcPath::vpclmul ? crc_kernels::vpclmul_copy : crc_kernels::sse42_copy;
  return {
      kernel_of(c.short_input), kernel_of(c.long_input), c.long_from, c.copies ? copy : nullptr, c.copy_from, c.name};
}

/// Chosen at the first call and then constant; it depends only on the CPU.
inline const Choice& chosen() {
  static const Choice choice = choose();
  return choice;
}

}  // namespace

std::uint32_t crc32c_extend(std::uint32_t state, ConstBytes in) {
  const Choice& choice = chosen();
  return (in.size() < choice.long_from ? choice.short_input : choice.long_input)(state, in.data(), in.size());
}

std::uint32_t crc32c_copy(std::uint32_t state, std::uint8_t* out, ConstBytes in) {
  const Choice& choice = chosen();
  if (choice.copy != nullptr && in.size() >= choice.copy_from) return choice.copy(state, out, in.data(), in.size());
  if (in.empty()) return state;
  std::memcpy(out, in.data(), in.size());
  return crc32c_extend(state, {out, in.size()});
}

std::uint32_t crc32c_copy_by(CrcPath path, std::uint32_t state, std::uint8_t* out, ConstBytes in) {
  if (!crc_path_available(path)) path = CrcPath::portable;
  if (path == CrcPath::automatic) return crc32c_copy(state, out, in);
  if (path == CrcPath::sse42) return crc_kernels::sse42_copy(state, out, in.data(), in.size());
  if (path == CrcPath::vpclmul) return crc_kernels::vpclmul_copy(state, out, in.data(), in.size());
  if (!in.empty()) std::memcpy(out, in.data(), in.size());
  return crc32c_extend_by(path, state, {out, in.size()});
}

bool crc_path_available(CrcPath path) {
  switch (path) {
    case CrcPath::automatic:
    case CrcPath::portable: return true;
    case CrcPath::sse42: return crc_kernels::sse42_built && cpu_has_sse42();
    case CrcPath::isal: return crc_kernels::isal_is_there();
    case CrcPath::vpclmul: return crc_kernels::vpclmul_built && cpu_has_vpclmul();
  }
  return false;
}

std::uint32_t crc32c_extend_by(CrcPath path, std::uint32_t state, ConstBytes in) {
  // The portable kernel replaces one that the CPU cannot run; the value is the same.
  if (!crc_path_available(path)) path = CrcPath::portable;
  if (path == CrcPath::automatic) return crc32c_extend(state, in);
  return kernel_of(path)(state, in.data(), in.size());
}

CrcChoice crc_choice(bool vpclmul, bool isal, bool sse42) {
  if (vpclmul) return {CrcPath::sse42, CrcPath::vpclmul, vpclmul_pays_from, true, vpclmul_pays_from, "vpclmul+sse42"};
  if (sse42 && isal) return {CrcPath::sse42, CrcPath::isal, isal_pays_from, true, sse42_copy_pays_from, "isal+sse42"};
  if (sse42) return {CrcPath::sse42, CrcPath::sse42, 0, true, sse42_copy_pays_from, "sse42"};
  if (isal) return {CrcPath::isal, CrcPath::isal, 0, false, 0, "isal"};
  return {};
}

std::string_view crc_path_name() { return chosen().name; }

}  // namespace parley::mpa
