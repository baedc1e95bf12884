// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Whether a program may register memory: drivers pin its pages, and find out.
#pragma once
#include <cstddef>

namespace parley::preload {

/// All of it is there, and may be read, or written; its pages are in memory then. It shows when memory is registered and not when a
/// peer's message comes.
bool is_there(const void* addr, std::size_t length, bool written);

}  // namespace parley::preload
