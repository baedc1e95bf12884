// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Functions of the C library that a library to preload has under the same names, and the real ones behind them.
#pragma once
#include <dlfcn.h>

#define PARLEY_INTERPOSED extern "C" __attribute__((visibility("default")))

namespace parley {

template <class Function>
struct RealFunction {
  const char* name;
  Function* at = nullptr;

  /// Constructors of other libraries may call it before those of this one.
  Function& get() {
    if (at == nullptr) at = reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
    return *at;
  }
};

}  // namespace parley
