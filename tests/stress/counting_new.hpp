// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Counts what operator new has given and not got back, in this program, whatever the sanitizer and the thread.
#pragma once
#include <cstdint>

namespace parley::counting_new {

struct Heap {
  std::int64_t pieces = 0, octets = 0;
};
Heap alive();

}  // namespace parley::counting_new
