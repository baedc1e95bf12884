// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// A probability as two integers: without floating point, a run is the same on every machine.
#pragma once
#include <cstdint>

namespace parley {

/// A probability: `of` times out of `in`. {0, 1} is never, {1, 1} is always. `in` is never 0.
struct Ratio {
  std::uint32_t of = 0;
  std::uint32_t in = 1;
  bool operator==(const Ratio&) const = default;
  bool is_never() const { return of == 0; }
};

}  // namespace parley
