// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Whether a program may register memory. A driver of a NIC pins the pages, and finds out; software has to ask the system.
#pragma once
#include <cstddef>
#include <cstdint>

namespace parley {

enum class Pages : std::uint8_t {
  checked,    ///< its mappings allow the access; costs no more for a large region than for a small one
  populated,  ///< and its pages are in memory now, as a NIC's would be
};

/// All of it is mapped and may be read, and if `written` is true, written. So the error shows when memory is registered, not
/// when a peer's message arrives. True where the system does not tell.
bool is_there(const void* addr, std::size_t length, bool written, Pages pages);

}  // namespace parley
