// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Structures of management datagrams as text and as JSON, from their tables. The functions accept octets of any value.
// A truncated structure is shown up to its last complete member. Reserved bits are shown if they are not zero.
#pragma once
#include "base/json.hpp"
#include "wire/mad/layout.hpp"

namespace parley::wire::mad {

/// A line for each member: its offset in octets, the octets that hold it, its name and its value.
std::string dump(const Layout& layout, ConstBytes octets);
/// A line "node_info.num_ports=36" for each member, for line-based programs; `prefix` goes before each name.
std::string dotted(const Layout& layout, ConstBytes octets, std::string_view prefix = {});
/// An object with a key for each member (docs/mad.md describes the values).
Json json_of(const Layout& layout, ConstBytes octets);
/// "active (4)", "18 (1.073 s)", "0x10", "fe80::1".
std::string value_text(const Field& field, ConstBytes octets, std::size_t index = 0);

}  // namespace parley::wire::mad
