// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// PARLEY_ASSERT checks Parley's own invariants, in release builds too. Invalid octets of a peer never trigger one.
#pragma once
#include <cstdio>
#include <cstdlib>

#define PARLEY_ASSERT(condition)                                                             \
  do {                                                                                       \
    if (!(condition)) [[unlikely]] {                                                         \
      std::fprintf(stderr, "%s:%d: broken invariant: %s\n", __FILE__, __LINE__, #condition); \
      std::abort();                                                                          \
    }                                                                                        \
  } while (false)
