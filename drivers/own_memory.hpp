// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Whether a program may register memory. The driver of a NIC pins the pages, which detects errors; a software device
// has to ask the system.
#pragma once
#include <cstddef>
#include <cstdint>

namespace parley {

enum class Pages : std::uint8_t {
  checked,    ///< its mappings allow the access; the cost does not depend on the size
  populated,  ///< and its pages are resident now, as with a NIC
};

/// All of it is mapped and readable and, if `written` is true, writable. Errors are thus detected at registration, and
/// not when a peer's message arrives. True if the system does not report it.
bool is_there(const void* addr, std::size_t length, bool written, Pages pages);

}  // namespace parley
