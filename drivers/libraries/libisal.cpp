// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The CRCs of isa-l, opened on use, for libparley.so. Without isa-l they are computed by Parley's own tables.
#include <isa-l/crc.h>

#include "drivers/libraries/forward.hpp"
#include "mpa/crc32c_kernels.hpp"
#include "wire/ib/crc32.hpp"

namespace {

constinit parley::libraries::Library library{parley::libraries::libisal};

/// Null: there is no isa-l. It is looked for once.
template <class Function>
Function* found(const char* name) {
  return reinterpret_cast<Function*>(library.find(name));
}

}  // namespace

#define PARLEY_HIDDEN extern "C" __attribute__((visibility("hidden")))

PARLEY_HIDDEN bool parley_opens_isal() { return library.find("crc32_iscsi") != nullptr; }

PARLEY_HIDDEN unsigned int crc32_iscsi(unsigned char* in, int size, unsigned int before) {
  static auto* const real = found<decltype(crc32_iscsi)>("crc32_iscsi");
  return real != nullptr ? real(in, size, before)
                         : parley::mpa::crc_kernels::portable(before, in, static_cast<std::size_t>(size));
}

PARLEY_HIDDEN std::uint32_t crc32_gzip_refl(std::uint32_t before, const unsigned char* in, std::uint64_t size) {
  static auto* const real = found<decltype(crc32_gzip_refl)>("crc32_gzip_refl");
  return real != nullptr ? real(before, in, size) : parley::wire::ib::crc32_portable(before, {in, size});
}
