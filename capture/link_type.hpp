// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Names of link types, for messages about those that are not decoded. The numbers are those of
// https://www.tcpdump.org/linktypes.html; a capture's header has 16 bits for them.
#pragma once
#include <cstdint>
#include <string>

namespace parley::capture {

/// "189 (USB, Linux)"; the number alone if it has no known name.
std::string link_type_text(std::uint16_t link_type);
/// "link type 189 (USB, Linux) is not decoded; Ethernet, Linux cooked, loopback and raw IP are"
std::string link_type_refusal(std::uint16_t link_type);

}  // namespace parley::capture
