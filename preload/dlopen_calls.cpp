// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Programs that load libibverbs with dlopen() get this library in its place. It exports functions of the same names and
// versions (libibverbs.map). It depends on the real libibverbs, so that dlsym() finds all other functions there.
#include <dlfcn.h>

#include <cstring>

#include "drivers/real_function.hpp"
#include "drivers/secure_env.hpp"
#include "preload/objects.hpp"

namespace {

using Dlopen = void*(const char*, int) noexcept;  // or else the call would need a frame
constinit parley::RealFunction<Dlopen> real_dlopen{"dlopen"};

/// The path of this library if `file` names libibverbs; otherwise `file`.
const char* in_place_of(const char* file) {
  if (file == nullptr || parley::has_more_rights()) return file;
  const char* const slash = std::strrchr(file, '/');
  const char* const name = slash == nullptr ? file : slash + 1;
  if (std::strcmp(name, "libibverbs.so.1") != 0 && std::strcmp(name, "libibverbs.so") != 0) return file;
  Dl_info here{};
  return ::dladdr(reinterpret_cast<const void*>(&in_place_of), &here) != 0 ? here.dli_fname : file;
}

}  // namespace

// The real dlopen() looks up its caller to search the caller's RUNPATH. So the call must be a tail call (a jump), for
// which this file is compiled with optimization.
PARLEY_VERB void* dlopen(const char* file, int mode) noexcept {
  Dlopen& really = real_dlopen.get();
  return really(in_place_of(file), mode);
}
