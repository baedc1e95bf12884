// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Decapsulates tunnels: VXLAN (RFC 7348), Geneve (RFC 8926), GRE (RFC 2784, RFC 2890) with ERSPAN types I to III,
// IP in IP (RFC 2003, RFC 4213), and MPLS (RFC 3032) over Ethernet, IP, GRE and UDP (RFC 7510).
#pragma once
#include <optional>

#include "wire/packet.hpp"
#include "wire/pcap.hpp"

namespace parley::capture {

/// The maximum number of nested tunnels.
inline constexpr std::size_t tunnels_max = 4;

/// The packet inside `outer`, with the frame number and time of `outer`; none if `outer` is not a tunnel, or is cut
/// before its inner packet. `view` is the result of wire::parse_packet() for `outer`.
std::optional<wire::CapturedPacket> open_tunnel(const wire::PacketView& view, const wire::CapturedPacket& outer);

}  // namespace parley::capture
