// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Changes to the octets of a complete frame: flips, cuts, and repaired checksums (RFC 1071, RFC 1624, RFC 9293 §3.1).
#pragma once
#include <cstdint>

#include "sim/fault/message_kind_frame.hpp"
#include "sim/net/frame.hpp"

namespace parley::sim {

/// Flips bits of one octet; false if the frame does not contain it.
bool flip(Frame& frame, std::uint32_t octet, std::uint8_t bits);
/// The same in the payload of a TCP segment. The checksum is adjusted: it stays right or wrong as before.
bool flip_payload(Frame& frame, const FrameLayout& layout, std::uint32_t octet, std::uint8_t bits);
/// Cuts the TCP payload to `keep` octets and sets or clears FIN; lengths and checksums are right afterwards.
void cut_payload(Frame& frame, const FrameLayout& layout, std::uint32_t keep, bool fin);
/// Writes the checksums of the IPv4 header and of TCP. `layout.tcp` must be true.
void write_checksums(Frame& frame, const FrameLayout& layout);
/// The checksum of a TCP segment or UDP datagram that is completely in the frame. With the current checksum field:
/// right_sum if it is right. With zeros in that field: the value to write there.
std::uint16_t transport_sum(ConstBytes frame, const FrameLayout& layout, std::uint8_t protocol);
inline constexpr std::uint16_t right_sum = 0;
/// Whether they are right.
bool checksums_right(const Frame& frame, const FrameLayout& layout);

}  // namespace parley::sim
