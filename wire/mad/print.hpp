// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Structures of management datagrams as text and as JSON, from their tables. All of them take octets of any value; a structure
// that is cut short is shown as far as its whole members go. Reserved bits are shown where they are not zero.
#pragma once
#include "base/json.hpp"
#include "wire/mad/layout.hpp"

namespace parley::wire::mad {

/// A line for each member: its octet, the octets that it is in, its name and its value.
std::string dump(const Layout& layout, ConstBytes octets);
/// "node_info.num_ports=36" in lines, for programs that work on lines; `prefix` before each name.
std::string dotted(const Layout& layout, ConstBytes octets, std::string_view prefix = {});
/// An object with a key for each member (docs/mad.md says of which kind of value).
Json json_of(const Layout& layout, ConstBytes octets);
/// "active (4)", "18 (1.073 s)", "0x10", "fe80::1".
std::string value_text(const Field& field, ConstBytes octets, std::size_t index = 0);

}  // namespace parley::wire::mad
