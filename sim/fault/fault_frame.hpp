// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// What faults do to the octets of a finished frame: flips, cuts, and repaired checksums (RFC 1071, RFC 1624,
// RFC 9293 §3.1).
#pragma once
#include <cstdint>

#include "sim/fault/message_kind_frame.hpp"
#include "sim/net/frame.hpp"

namespace parley::sim {

/// Flips bits of one octet; false if the frame does not contain it.
bool flip(Frame& frame, std::uint32_t octet, std::uint8_t bits);
/// The same in the payload of a TCP segment, with its checksum adjusted: a right one stays right, a wrong one wrong.
bool flip_payload(Frame& frame, const FrameLayout& layout, std::uint32_t octet, std::uint8_t bits);
/// Cuts the TCP payload to `keep` octets and sets or clears FIN; lengths and checksums are right afterwards.
void cut_payload(Frame& frame, const FrameLayout& layout, std::uint32_t keep, bool fin);
/// Writes the checksums of the IPv4 header and of TCP. `layout.tcp` must be true.
void write_checksums(Frame& frame, const FrameLayout& layout);
/// The checksum of a segment of TCP or a datagram of UDP that is whole in the frame: as it stands, right_sum if it is right;
/// with zeros in its place, what is to be written there.
std::uint16_t transport_sum(ConstBytes frame, const FrameLayout& layout, std::uint8_t protocol);
inline constexpr std::uint16_t right_sum = 0;
/// Whether they are right.
bool checksums_right(const Frame& frame, const FrameLayout& layout);

}  // namespace parley::sim
