// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Functions of the C library that a library to preload has under the same names, and the real ones behind them.
#pragma once
#include <dlfcn.h>

#include <atomic>

#define PARLEY_INTERPOSED extern "C" __attribute__((visibility("default")))

namespace parley {

template <class Function>
struct RealFunction {
  const char* name;
  std::atomic<Function*> at = nullptr;  // several threads may find it at the same time

  /// Constructors of other libraries may call it before those of this one.
  Function& get() {
    Function* found = at.load(std::memory_order_relaxed);
    if (found != nullptr) return *found;
    found = reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
    at.store(found, std::memory_order_relaxed);
    return *found;
  }
};

}  // namespace parley
