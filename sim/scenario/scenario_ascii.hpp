// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Finds characters beyond ASCII where TOML does not allow them: outside strings and comments (TOML v1.0.0).
#pragma once
#include <cstddef>
#include <optional>
#include <string_view>

namespace parley::sim {

/// Offset of the first octet above 0x7F outside strings and comments; a byte order mark at the start is accepted.
/// After the first error of a text that is not TOML the result is undefined.
std::optional<std::size_t> beyond_ascii(std::string_view toml);

}  // namespace parley::sim
