// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// What the test of ./dev mutate plants its mutants in.
#include "window.hpp"

#include <algorithm>

namespace sample {
namespace {

constexpr unsigned twice(unsigned n) { return n + n; }
constexpr unsigned room = twice(4);

bool fits(unsigned used, unsigned more) { return used + more <= room; }

}  // namespace

bool take(Window& window, unsigned n) {
  if (n == 0 || !fits(window.used, n)) return false;
  window.used += n;
  window.most = std::max(window.most, window.used);
  if (window.from == Side::initiator) ++window.initiators;
  return true;
}

}  // namespace sample
