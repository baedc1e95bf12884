// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// What stands in a tunnel: VXLAN (RFC 7348), Geneve (RFC 8926), GRE (RFC 2784, RFC 2890) with ERSPAN types I to III, IP in IP (RFC 2003,
// RFC 4213), and MPLS (RFC 3032) over Ethernet, IP, GRE and UDP (RFC 7510).
#pragma once
#include <optional>

#include "wire/packet.hpp"
#include "wire/pcap.hpp"

namespace parley::capture {

/// A packet may stand in so many tunnels, one within the other.
inline constexpr std::size_t tunnels_max = 4;

/// The packet that stands in `outer`, with its frame number and time; none if `outer` is no tunnel, or is cut before what it carries.
/// `view` is what wire::parse_packet() says of `outer`.
std::optional<wire::CapturedPacket> open_tunnel(const wire::PacketView& view, const wire::CapturedPacket& outer);

}  // namespace parley::capture
